"""Our decoders beside transformers' own, on the same weights and prompts."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from playground.bench.laps import BUDGET, TEMPERATURE, Bench, Lap, Prompts, Row, Times
from playground.metrics import expected_speedup, ratio
from playground.models import ModelPair
from playground.quality import Array, interval, resamples
from playground.types import DecodeResult

_DRAFT_LENGTHS = (1, 2, 3, 4, 5, 6, 7, 8)
_DUEL_LAPS = 4  # times as many as in the race
_OURS: dict[str, tuple[str, Row]] = {
    "sample": ("sample", {"temperature": TEMPERATURE}),
    "greedy": ("greedy", {}),
    "beam 4": ("beam", {"num_beams": 4}),
    "prompt lookup": ("speculative", {"proposer": "prompt_lookup", "temperature": TEMPERATURE}),
}
_THEIRS: dict[str, Row] = {
    "sample": {"do_sample": True},
    "greedy": {"do_sample": False},
    "beam 4": {"do_sample": False, "num_beams": 4},
    "prompt lookup": {"do_sample": True, "prompt_lookup_num_tokens": 4},
}


def speed(bench: Bench) -> dict[str, Any]:
    """Rows of our decoders ("speed"), of transformers' ("transformers"), and "ratios"."""
    laps = {name: bench.ours(*made) for name, made in _OURS.items()}
    laps |= {label: bench.ours(*made) for label, made in _drafted(bench.pair).items()}
    pair, dtype = _fastest(bench)
    laps |= {f"transformers {name}": lap for name, lap in _contenders(bench, pair).items()}
    found = bench.race(laps)
    rows = {name: _row(name, times, found["sample"]) for name, times in found.items()}
    theirs = [
        row | {"decoder": name.removeprefix("transformers "), "precision": dtype}
        for name, row in rows.items()
        if name.startswith("transformers ")
    ]
    ours = [row for name, row in rows.items() if not name.startswith("transformers ")]
    over = [*ratios(ours, theirs), *duels(bench, laps, ours)]
    return {"speed": ours, "transformers": theirs, "ratios": over}


def _drafted(pair: ModelPair) -> dict[str, tuple[str, Row]]:
    """Speculative and mentored runs at every draft length, with every model that can draft."""
    made = {}
    for proposer in _model_proposers(pair):
        for count in _DRAFT_LENGTHS:
            common = {
                "num_draft_tokens": count,
                "temperature": TEMPERATURE,
                "proposer": proposer,
            }
            suffix = f"γ {count}" if proposer == "draft_model" else f"γ {count} {proposer}"
            made[f"speculative {suffix}"] = ("speculative", common)
            made[f"mentored {suffix}"] = ("mentored", common | {"divergence_budget": BUDGET})
    return made


def _model_proposers(pair: ModelPair) -> list[str]:
    """The proposers that run a model, of those that this pair has."""
    has = {"draft_model": pair.draft, "feature": pair.feature}
    return [name for name, model in has.items() if model is not None]


def _fastest(bench: Bench) -> tuple[ModelPair, str]:
    """The pair in the number format in which transformers is fastest here, by one greedy lap."""
    pairs = {name: bench.load(name) for name in ("fp32", "bf16")}
    seconds = {}
    for name, pair in pairs.items():
        lap = bench.theirs(pair, _THEIRS["greedy"])
        lap(0, bench.prompts[:1])
        seconds[name] = lap(0, bench.prompts).seconds
    best = min(seconds, key=lambda name: seconds[name])
    return pairs[best], best


def _contenders(bench: Bench, pair: ModelPair) -> dict[str, Lap]:
    """transformers' own decoders; assisted generation by its defaults, and with a fixed γ of 4."""
    laps = {name: bench.theirs(pair, options) for name, options in _THEIRS.items()}
    if pair.draft is not None:
        for label, fixed in (("assisted", None), ("assisted, γ 4", 4)):
            laps[label] = _assisted(bench, pair, fixed)
    return laps


def _assisted(bench: Bench, pair: ModelPair, fixed: int | None) -> Lap:
    """Assisted generation; its draft length lives in the assistant's configuration."""
    assert pair.draft is not None
    lap = bench.theirs(pair, {"do_sample": True, "assistant_model": pair.draft})
    config = pair.draft.generation_config
    default = {"num_assistant_tokens_schedule": "constant", "assistant_confidence_threshold": 0.4}
    own = {"num_assistant_tokens": 20} | default
    if fixed is not None:
        own |= {"num_assistant_tokens": fixed, "assistant_confidence_threshold": 0.0}

    def configured(seed: int, prompts: Prompts) -> Times:
        config.update(**own)
        return lap(seed, prompts)

    return configured


def _row(name: str, laps: list[Times], baseline: list[Times]) -> Row:
    speeds = [lap.tokens / lap.seconds for lap in laps]
    base = statistics.median(lap.tokens / lap.seconds for lap in baseline)
    row: Row = {
        "decoder": name,
        "tokens_per_s": statistics.median(speeds),
        "low": min(speeds),
        "high": max(speeds),
        "wall_tokens_per_s": statistics.median(lap.tokens / lap.wall for lap in laps),
        "speedup": statistics.median(speeds) / base,
    }
    results = [result for lap in laps for result in lap.results]
    return row | _drafting(results) if any(r.rounds for r in results) else row


def _drafting(results: Sequence[DecodeResult]) -> Row:
    """Acceptance, cost of a draft step, and the speed-up that the formula makes of them."""
    metrics = [result.metrics for result in results]
    tested, accepted = sum(m.num_tested for m in metrics), sum(m.num_accepted for m in metrics)
    costs = [m.draft_cost for m in metrics if m.draft_cost is not None]
    acceptance, cost = ratio(accepted, tested), statistics.median(costs) if costs else None
    count = results[0].params["num_draft_tokens"]
    predicted = None
    if acceptance is not None and cost is not None:
        predicted = expected_speedup(acceptance, count, cost)
    total = sum(m.total_s for m in metrics)
    return {
        "acceptance": acceptance,
        "draft_cost": cost,
        "predicted": predicted,
        "tokens_per_pass": ratio(
            sum(m.num_new_tokens for m in metrics), sum(m.num_target_passes for m in metrics)
        ),
        "other_share": ratio(sum(m.other_s or 0.0 for m in metrics), total),
    }


def ratios(ours: Sequence[Row], theirs: Sequence[Row]) -> list[Row]:
    """Every decoder of ours, at its best draft length, over transformers' own."""
    names = {name: name for name in ("greedy", "sample", "beam 4")} | {"speculative": "assisted"}
    rivals = [(_best(ours, one), _best(theirs, other)) for one, other in names.items()]
    return [
        {
            "ours": one["decoder"],
            "over": f"transformers {other['decoder']}",
            "ratio": one["tokens_per_s"] / other["tokens_per_s"],
        }
        for one, other in rivals
        if one and other
    ]


def duels(bench: Bench, laps: dict[str, Lap], ours: Sequence[Row]) -> list[Row]:
    """Sampling, speculative and mentored decoding, at the draft length that was best in the race,
    over each other: more laps of other seeds, since the best of many is lucky, too. `low` and
    `high` are 95 % of resamples of the runs."""
    best = [_best(ours, name) for name in ("sample", "speculative", "mentored")]
    names = [row["decoder"] for row in best if row]
    if len(names) < 2:
        return []
    seeds = range(bench.repeats, (1 + _DUEL_LAPS) * bench.repeats)
    found = bench.race({name: laps[name] for name in names}, seeds)
    counts = resamples(len(seeds) * len(bench.prompts))
    rows = []
    for other, one in pairwise(names):
        speeds = [_speed(found[name], counts) for name in (one, other)]
        spread = interval(speeds[0] / speeds[1])
        assert spread is not None
        ratio = {"ratio": spread.value, "low": spread.low, "high": spread.high}
        rows.append({"ours": one, "over": f"our {other}", **ratio})
    return rows


def _speed(laps: Sequence[Times], counts: Array) -> Array:
    """Tokens a second of every resample of the runs: counts [rows, runs]."""
    runs = [result.metrics for lap in laps for result in lap.results]
    tokens, seconds = ([getattr(m, n) for m in runs] for n in ("num_new_tokens", "total_s"))
    return (counts @ np.array(tokens)) / (counts @ np.array(seconds))


def _best(rows: Sequence[Row], name: str) -> Row | None:
    fit = [row for row in rows if row["decoder"].startswith(name)]
    return max(fit, key=lambda row: row["tokens_per_s"], default=None)
