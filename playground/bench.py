"""What `python -m playground bench` measures: our loops beside transformers' own, on one machine.

Everything that is compared runs in turn within one repeat, so that a drift of the machine hits all
alike; a figure is the median over repeats, and its spread goes from the slowest repeat to the
fastest. A lap is all prompts once: tokens and seconds are summed before they are divided. Our
seconds are those of decoding; the traces that the page shows are made off that clock, and
`wall_tokens_per_s` counts them, too.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from playground.baselines import sort_and_bisect
from playground.catalog import ASSETS
from playground.mentored import solve
from playground.metrics import beam_kv_bytes, expected_speedup, ratio
from playground.models import ModelPair
from playground.session import decode
from playground.types import DecodeResult

Row = dict[str, Any]
Lap = Callable[[int], "Times"]
PARTS = ("speed", "beams", "precision", "solver")
_TEMPERATURE, _BUDGET = 0.7, 0.2
_DRAFT_LENGTHS = (1, 2, 3, 4, 5, 6, 8)
_WIDTHS = (1, 2, 4, 8)
_ROWS = (1, 2, 3, 4, 5, 6, 8, 16)  # new tokens in one forward
_OURS: dict[str, tuple[str, Row]] = {
    "sample": ("sample", {"temperature": _TEMPERATURE}),
    "greedy": ("greedy", {}),
    "beam 4": ("beam", {"num_beams": 4}),
    "prompt lookup": ("speculative", {"proposer": "prompt_lookup", "temperature": _TEMPERATURE}),
}
_THEIRS: dict[str, Row] = {
    "sample": {"do_sample": True},
    "greedy": {"do_sample": False},
    "beam 4": {"do_sample": False, "num_beams": 4},
    "prompt lookup": {"do_sample": True, "prompt_lookup_num_tokens": 4},
}


@dataclass(slots=True)
class Times:
    """Sums over one lap; `results` only where the decoder is ours."""

    tokens: int = 0
    seconds: float = 0.0
    wall: float = 0.0
    results: list[DecodeResult] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Bench:
    """A pair, its prompts, and how long and how often they are run. `load` gives the same pair in
    another precision, or raises ValueError where it cannot."""

    pair: ModelPair
    load: Callable[[str], ModelPair]
    prompts: Sequence[str | list[int]]
    max_new_tokens: int = 64
    repeats: int = 3
    note: Callable[[str], None] = lambda line: None

    def ours(self, method: str, params: Row) -> Lap:
        """All prompts through one of our methods."""

        def lap(seed: int) -> Times:
            total = Times()
            for prompt in self.prompts:
                start = time.perf_counter()
                found = decode(
                    self.pair,
                    prompt,
                    method,
                    seed=seed,
                    max_new_tokens=self.max_new_tokens,
                    **params,
                )
                total.wall += time.perf_counter() - start
                total.tokens += len(found.token_ids)
                total.seconds += found.metrics.total_s
                total.results.append(found)
            return total

        return lap

    def theirs(self, pair: ModelPair, options: Row) -> Lap:
        """All prompts through `generate` of transformers, on the same weights."""

        def lap(seed: int) -> Times:
            total = Times()
            for prompt in self.prompts:
                ids = torch.tensor([pair.encode(prompt)], device=pair.device)
                with torch.random.fork_rng(), torch.inference_mode():
                    torch.manual_seed(seed)  # generate draws from the global generator
                    start = _now(pair)
                    found = pair.target.generate(
                        ids,
                        attention_mask=torch.ones_like(ids),
                        max_new_tokens=self.max_new_tokens,
                        pad_token_id=min(pair.eos_ids(), default=0),
                        **_sampling(options),
                    )
                    total.seconds += _now(pair) - start
                read = 1 if pair.is_encoder_decoder else ids.shape[1]
                total.tokens += found.shape[1] - read
            total.wall = total.seconds
            return total

        return lap

    def race(self, laps: dict[str, Lap]) -> dict[str, list[Times]]:
        """Every lap once to warm up, then `repeats` times, all in turn."""
        for lap in laps.values():
            lap(0)
        found: dict[str, list[Times]] = {name: [] for name in laps}
        for repeat in range(self.repeats):
            self.note(f"repeat {repeat + 1} of {self.repeats}: {', '.join(laps)}")
            for name, lap in laps.items():
                found[name].append(lap(repeat))
        return found


def _sampling(options: Row) -> Row:
    if not options.get("do_sample"):
        return options
    return {"temperature": _TEMPERATURE, "top_k": 0, "top_p": 1.0} | options


def _now(pair: ModelPair) -> float:
    if pair.device.type == "cuda":
        torch.cuda.synchronize(pair.device)
    return time.perf_counter()


def run(bench: Bench, parts: Sequence[str]) -> dict[str, Any]:
    """The record of all `parts`: machine, versions, and a list of rows for each part."""
    record: dict[str, Any] = {"setup": setup(bench)}
    if "speed" in parts:
        record |= speed(bench)
    if "beams" in parts:
        record["beams"] = beams(bench)
    if "precision" in parts:
        record["precision"] = precision(bench)
    if "solver" in parts:
        record["solver"] = solver(bench)
    return record


def setup(bench: Bench) -> Row:
    """What the figures depend on."""
    pair = bench.pair
    gpu = torch.cuda.get_device_name(pair.device) if pair.device.type == "cuda" else None
    return {
        "pair": pair.name,
        "precision": pair.precision,
        "device": gpu or str(pair.device),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "prompts": len(bench.prompts),
        "max_new_tokens": bench.max_new_tokens,
        "repeats": bench.repeats,
        "temperature": _TEMPERATURE,
        "divergence_budget": _BUDGET,
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "transformers")},
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            names = [line.partition(":")[2].strip() for line in lines if "model name" in line]
        return names[0]
    except (OSError, IndexError):
        return platform.processor() or platform.machine()


# --- decoding -------------------------------------------------------------------------------------


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
    return {"speed": ours, "transformers": theirs, "ratios": ratios(ours, theirs)}


def _drafted(pair: ModelPair) -> dict[str, tuple[str, Row]]:
    """Speculative and mentored runs at every draft length, with every model that can draft."""
    made = {}
    for proposer in _model_proposers(pair):
        for count in _DRAFT_LENGTHS:
            common = {
                "num_draft_tokens": count,
                "temperature": _TEMPERATURE,
                "proposer": proposer,
            }
            suffix = f"γ {count}" if proposer == "draft_model" else f"γ {count} {proposer}"
            made[f"speculative {suffix}"] = ("speculative", common)
            made[f"mentored {suffix}"] = ("mentored", common | {"divergence_budget": _BUDGET})
    return made


def _model_proposers(pair: ModelPair) -> list[str]:
    """The proposers that run a model, of those that this pair has."""
    has = {"draft_model": pair.draft, "feature": getattr(pair, "feature", None)}
    return [name for name, model in has.items() if model is not None]


def _fastest(bench: Bench) -> tuple[ModelPair, str]:
    """The pair in the number format in which transformers is fastest here, by one greedy lap."""
    pairs = {name: bench.load(name) for name in ("fp32", "bf16")}
    seconds = {}
    for name, pair in pairs.items():
        lap = bench.theirs(pair, _THEIRS["greedy"])
        lap(0)
        seconds[name] = lap(0).seconds
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

    def configured(seed: int) -> Times:
        config.update(**own)
        return lap(seed)

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
    """Every decoder of ours at its best draft length, over what it is meant to beat."""
    best = {name: _best(ours, name) for name in ("sample", "greedy", "beam 4", "prompt lookup")}
    best |= {name: _best(ours, name) for name in ("speculative", "mentored")}
    rivals = {name: _best(theirs, name) for name in ("sample", "greedy", "beam 4", "assisted")}
    duels = [
        (best["greedy"], rivals["greedy"], "transformers "),
        (best["sample"], rivals["sample"], "transformers "),
        (best["beam 4"], rivals["beam 4"], "transformers "),
        (best["speculative"], rivals["assisted"], "transformers "),
        (best["speculative"], best["sample"], "our "),
        (best["mentored"], best["speculative"], "our "),
    ]
    return [
        {
            "ours": one["decoder"],
            "over": owner + other["decoder"],
            "ratio": one["tokens_per_s"] / other["tokens_per_s"],
        }
        for one, other, owner in duels
        if one and other
    ]


def _best(rows: Sequence[Row], name: str) -> Row | None:
    fit = [row for row in rows if row["decoder"].startswith(name)]
    return max(fit, key=lambda row: row["tokens_per_s"], default=None)


# --- beams ----------------------------------------------------------------------------------------


def beams(bench: Bench) -> list[Row]:
    """Cost and memory of beam width 1 to 8, beside what the formulas say of the memory."""
    laps = {f"{w}": bench.ours("beam", {"num_beams": w}) for w in _WIDTHS}
    found = bench.race(laps)
    per_token = kv_bytes_per_token(bench.pair)
    first = statistics.median(lap.seconds / lap.tokens for lap in found["1"])
    rows = []
    for width in _WIDTHS:
        laps_of = found[f"{width}"]
        cost = statistics.median(lap.seconds / lap.tokens for lap in laps_of)
        largest = max(laps_of[0].results, key=lambda r: r.metrics.kv_bytes or 0)
        steps = largest.metrics.num_target_passes - 1
        prompt = len(bench.pair.prefix(largest.prompt_ids))
        naive, shared = beam_kv_bytes(width, prompt, steps, per_token or 0)
        rows.append(
            {
                "width": width,
                "ms_per_token": 1000 * cost,
                "over_width_1": cost / first,
                "prompt": prompt,
                "steps": steps,
                "kv_mib": _mib(largest.metrics.kv_bytes),
                "formula_shared_mib": _mib(shared),
                "kv_naive_mib": _mib(largest.metrics.kv_bytes_naive),
                "formula_naive_mib": _mib(naive),
            }
        )
    return rows


def kv_bytes_per_token(pair: ModelPair) -> int | None:
    """Keys and values of one token in a causal target's cache; None for an encoder-decoder, which
    also keeps those of its source."""
    config = getattr(pair.target, "config", None)
    if config is None or pair.is_encoder_decoder:
        return None
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return int(2 * heads * dim * config.num_hidden_layers * pair.target.dtype.itemsize)


def _mib(count: int | None) -> float | None:
    return count / 2**20 if count else None


# --- precision ------------------------------------------------------------------------------------


def precision(bench: Bench) -> list[Row]:
    """Every precision: ms of a forward over k new tokens, and how far its law is from fp32's on
    text that the pair wrote itself (temperature 1, teacher-forced)."""
    texts = [
        (r.prompt_ids, r.token_ids)
        for r in bench.ours("sample", {"temperature": _TEMPERATURE})(0).results
    ]
    reference: list[Tensor] = []
    rows = []
    for name in ("fp32", "bf16", "int8"):
        try:
            pair = bench.load(name)
        except ValueError as error:  # int8 serves only some pairs
            bench.note(str(error))
            continue
        laws = [_log_laws(pair, prompt, new) for prompt, new in texts]
        reference = reference or laws
        rows.append({"precision": name, **_forward_ms(bench, pair), **_distance(reference, laws)})
    return rows


@torch.inference_mode()
def _log_laws(pair: ModelPair, prompt: list[int], new: list[int]) -> Tensor:
    """Log-probabilities [n, V] of the target at every new token, passes of four tokens each."""
    state = pair.open(pair.target, prompt)
    rows = [state.prefill(pair.prefix(prompt))[None]]
    for start in range(0, len(new) - 1, 4):
        rows.append(state.forward(torch.tensor([new[start : min(start + 4, len(new) - 1)]]))[0])
    return torch.cat(rows).float().log_softmax(-1)


def _distance(reference: Sequence[Tensor], laws: Sequence[Tensor]) -> Row:
    p, q = torch.cat(list(reference)), torch.cat(list(laws))
    return {
        "positions": len(p),
        "mean_kl": float(F.kl_div(q, p, log_target=True, reduction="none").sum(-1).mean()),
        "agreement": float((p.argmax(-1) == q.argmax(-1)).double().mean()),
    }


@torch.inference_mode()
def _forward_ms(bench: Bench, pair: ModelPair) -> Row:
    """ms of a target pass over k new tokens behind the longest prompt, and of a draft step."""
    ids = max((pair.encode(prompt) for prompt in bench.prompts), key=len)
    found = {f"k{k}": _pass_ms(pair, pair.target, ids, k, bench.repeats) for k in _ROWS}
    if pair.draft is not None:
        found["draft"] = _pass_ms(pair, pair.draft, ids, 1, bench.repeats)
    return found


def _pass_ms(pair: ModelPair, model: Any, ids: list[int], count: int, repeats: int) -> float:
    state = pair.open(model, ids)
    prefix = pair.prefix(ids)
    state.prefill(prefix)
    new = torch.tensor([(ids * count)[:count]])
    times = []
    for _ in range(3 + 5 * repeats):
        start = _now(pair)
        state.forward(new)
        times.append(_now(pair) - start)
        state.rollback(len(prefix))
    return 1000 * statistics.median(times[3:])


# --- solver ---------------------------------------------------------------------------------------


def solver(bench: Bench) -> list[Row]:
    """`solve` beside the published sort-and-bisect, one thread, on the pair's own laws."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [_duel(name, pairs) for name, pairs in _laws(bench)]
    finally:
        torch.set_num_threads(threads)


def _laws(bench: Bench) -> Iterator[tuple[str, list[tuple[Tensor, Tensor]]]]:
    generator = torch.Generator().manual_seed(0)
    dense = [
        tuple(torch.randn(49_152, generator=generator).mul(3).softmax(0) for _ in range(2))
        for _ in range(8)
    ]
    yield "random laws, V = 49152", dense  # type: ignore[misc]
    if bench.pair.draft is not None:
        own = [law for prompt in bench.prompts for law in _own_laws(bench.pair, prompt)]
        yield f"{bench.pair.name}, V = {bench.pair.vocab_size}, temperature {_TEMPERATURE}", own


@torch.inference_mode()
def _own_laws(pair: ModelPair, prompt: str | list[int]) -> Iterator[tuple[Tensor, Tensor]]:
    """Laws of target and draft behind a prompt and the first words of its greedy answer."""
    found = decode(pair, prompt, "greedy", max_new_tokens=4)
    states = [pair.open(model, found.prompt_ids) for model in (pair.target, pair.draft)]
    logits = [state.prefill(pair.prefix(found.prompt_ids)) for state in states]
    for token in found.token_ids:
        size = len(logits[0])
        draft = F.pad(logits[1][:size], (0, size - len(logits[1][:size])), value=float("-inf"))
        target_law, draft_law = (
            (x.float() / _TEMPERATURE).softmax(0).cpu() for x in (logits[0], draft)
        )
        yield target_law, draft_law
        logits = [state.forward(torch.tensor([[token]]))[0, -1] for state in states]


def _duel(name: str, laws: Sequence[tuple[Tensor, Tensor]]) -> Row:
    def ours(q: Tensor, p: Tensor) -> float:
        return solve(q, p, _BUDGET).divergence_spent

    def published(q: Tensor, p: Tensor) -> float:
        return sort_and_bisect(q, p, _BUDGET).divergence_spent

    times: dict[str, list[float]] = {"ours": [], "published": []}
    spent: dict[str, list[float]] = {"ours": [], "published": []}
    for _ in range(8):
        for q, p in laws:
            for who, work in (("ours", ours), ("published", published)):
                start = time.perf_counter()
                spent[who].append(work(q, p))
                times[who].append(time.perf_counter() - start)
    ms = {who: 1000 * statistics.median(values[len(laws) :]) for who, values in times.items()}
    return {
        "laws": name,
        "ours_ms": ms["ours"],
        "published_ms": ms["published"],
        "ratio": ms["published"] / ms["ours"],
        "ours_most_spent": max(spent["ours"]),
        "published_most_spent": max(spent["published"]),
    }


def prompts_for(name: str | None, chat: bool) -> list[str]:
    """The embedded bench prompts of a pair; another pair gets those of its kind."""
    known = json.loads((ASSETS / "prompts" / "bench.json").read_text(encoding="utf-8"))
    return list(known.get(name or "", known["chat" if chat else "translate"]))
