"""Several runs on the same prompt, one at a time, after a warm-up, and what they add up to."""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from playground import charts
from playground.catalog import PAIRS
from playground.methods import fields_of, method_named
from playground.metrics import agreement, ratio
from playground.models import ModelPair
from playground.params import check as check_value
from playground.params import fail, field_of, unknown
from playground.quality import sentence_scores
from playground.sampling import Sampling
from playground.session import (
    Cancelled,
    Plan,
    check,
    check_deadline,
    last_of,
    prepare,
    run_plan,
)
from playground.types import DecodeResult, Event, to_json

# What the page starts with; labels are the methods' names.
DEFAULT_COMMON: dict[str, Any] = {"max_new_tokens": 64, "temperature": 0.7, "seed": 0}
DEFAULT_RUNS: dict[str, dict[str, Any]] = {
    "sample": {"method": "sample"},
    "greedy": {"method": "greedy"},
    "beam": {"method": "beam", "num_beams": 4},
    "speculative": {"method": "speculative", "num_draft_tokens": 2},
    "mentored": {"method": "mentored", "num_draft_tokens": 2, "divergence_budget": 0.2},
}
LAW = ("temperature", "top_k", "top_p")
MAX_REFERENCE = 20_000  # characters
_WARM_UP_STEPS = 6
_CUT = ("cancelled", "deadline")
_REFERENCE = DEFAULT_RUNS["greedy"]["method"]  # whose text agreement refers to


@dataclass(frozen=True, slots=True)
class Comparison:
    """Finished runs on one prompt, in their order.

    results: label -> DecodeResult (the median run where there were repeats).
    seconds: label -> total seconds of every repeat. baseline: the label that speed-up refers to.
    reference_text: a right answer, if one was given, for BLEU and chrF.
    """

    prompt: str | None
    results: dict[str, DecodeResult]
    seconds: dict[str, list[float]]
    baseline: str
    reference_text: str | None = None

    def rows(self) -> list[dict[str, Any]]:
        """One flat record a run: label, method, badge, speed-up with its spread, all metrics; BLEU
        and chrF with their signatures where there is a reference. A divergence may be infinite
        here; in JSON it is null."""
        base = self.results[self.baseline].metrics.tokens_per_s
        return [self._row(label, result, base) for label, result in self.results.items()]

    def _row(self, label: str, result: DecodeResult, base: float | None) -> dict[str, Any]:
        metrics = dataclasses.asdict(result.metrics)
        count, times = result.metrics.num_new_tokens, self.seconds[label]
        speed = result.metrics.tokens_per_s
        row = {
            "label": label,
            "method": result.method,
            "badge": result.badge,
            "finish_reason": result.finish_reason,
            "pair": result.pair,
            "precision": result.precision,
            "speedup": ratio(speed, base) if speed and base else None,
            "tokens_per_s_low": ratio(count, max(times)),
            "tokens_per_s_high": ratio(count, min(times)),
            "num_repeats": len(times),
            "agreement": self._agreement(result),
            "params": result.params,
            "text": result.text,
            **metrics,
        }
        if self.reference_text is None or result.text is None:
            return row
        return row | sentence_scores(result.text, self.reference_text)

    def _agreement(self, result: DecodeResult) -> float | None:
        """With the first greedy run, where there is one."""
        runs = (r for r in self.results.values() if r.method == _REFERENCE)
        reference = next(runs, None)
        return agreement(result.token_ids, reference.token_ids) if reference else None

    def figure(self, x: str = "tokens_per_s", y: str = "fidelity") -> Any:
        """A Plotly figure of speed against fidelity, one mark a run; axes: `playground.axes`."""
        return charts.speed_fidelity(self.rows(), x, y)

    def to_dict(self) -> dict[str, Any]:
        """Strict JSON: prompt, baseline, results by label (in order) and rows."""
        return {
            "prompt": self.prompt,
            "reference_text": self.reference_text,
            "baseline": self.baseline,
            "results": {label: result.to_dict() for label, result in self.results.items()},
            "seconds": to_json(self.seconds),
            "rows": to_json(self.rows()),
        }


def compare(
    pair: ModelPair,
    prompt: str | Sequence[int],
    runs: dict[str, dict[str, Any]] | None = None,
    repeats: int = 1,
    **common: Any,
) -> Comparison:
    """Run several methods on one prompt. See `compare_stream` for the arguments."""
    _, last = last_of(compare_stream(pair, prompt, runs, repeats, **common))
    assert isinstance(last, Comparison)
    return last


def compare_stream(
    pair: ModelPair,
    prompt: str | Sequence[int],
    runs: dict[str, dict[str, Any]] | None = None,
    repeats: int = 1,
    *,
    raw: bool = False,
    cancelled: Cancelled | None = None,
    deadline_s: float | None = None,
    reference_text: str | None = None,
    **common: Any,
) -> Iterator[tuple[str, Event | Comparison]]:
    """(label, event) of each run in turn; the last item is ("", Comparison).

    runs: {label: {"method": ..., **params}}; None takes the page's five. A common parameter goes to
    the methods that have it; temperature, top_k and top_p are also the law that the fidelity of
    methods without them is measured against. repeats: every run is timed this often, its median
    reported. reference_text: a right answer, to score every text by BLEU and chrF.
    All runs are checked, ValueError naming the bad parameter, before any model runs.
    """
    check_deadline(deadline_s)
    check_answer(reference_text)
    plans = prepare_all(pair, prompt, runs, repeats, raw=raw, **common)
    return run_plans(
        pair, prompt, plans, repeats, cancelled, deadline_s, reference_text=reference_text
    )


def check_answer(reference_text: Any) -> None:
    """Raise ValueError unless it is None or a text that outputs can be compared with."""
    if reference_text is None:
        return
    if not isinstance(reference_text, str) or not reference_text.strip():
        raise fail("reference_text", reference_text, "a text, or None for no reference")
    if len(reference_text) > MAX_REFERENCE:
        found = f"{len(reference_text)} characters"
        raise fail("reference_text", found, f"at most {MAX_REFERENCE}")


def prepare_all(
    pair: ModelPair,
    prompt: str | Sequence[int],
    runs: dict[str, dict[str, Any]] | None,
    repeats: int,
    *,
    raw: bool = False,
    **common: Any,
) -> dict[str, Plan]:
    """The checked request of every run, by label."""
    merged, reference = check_runs(runs, repeats, common, pair.draft is not None, pair.name)
    return {
        label: prepare(pair, prompt, method, params, raw=raw, reference=reference)
        for label, (method, params) in merged.items()
    }


def check_runs(
    runs: dict[str, dict[str, Any]] | None,
    repeats: int,
    common: dict[str, Any],
    has_draft: bool = True,
    pair: str | None = None,
) -> tuple[dict[str, tuple[str, dict[str, Any]]], dict[str, Any]]:
    """Method and parameters of every run by label, and the law that fidelity refers to. pair: its
    name, where it has one.

    Raises ValueError for what can be judged before a pair is loaded.
    """
    if isinstance(repeats, bool) or not isinstance(repeats, int) or not 1 <= repeats <= 100:
        raise fail("repeats", repeats, "a whole number from 1 to 100")
    if runs is None:
        runs, common = default_runs(pair, has_draft), {**DEFAULT_COMMON, **common}
    if not isinstance(runs, dict) or not runs:
        raise fail("runs", runs, 'at least one run: {label: {"method": ..., ...}}')
    merged = {label: _merged(label, run, common) for label, run in runs.items()}
    _check_common(merged, common)
    for method, params in merged.values():
        check(method, params)
    return merged, {k: common[k] for k in LAW if k in common}


def default_runs(pair: str | None = None, has_draft: bool = True) -> dict[str, dict[str, Any]]:
    """The page's runs, with what suits this pair of the catalogue; without a draft model, the
    speculative ones copy from the prompt."""
    tuned = PAIRS[pair].tuned if pair in PAIRS else {}
    runs = {label: run | tuned.get(label, {}) for label, run in DEFAULT_RUNS.items()}
    if has_draft:
        return runs
    lookup = {"proposer": "prompt_lookup"}
    return {k: v | lookup if "num_draft_tokens" in v else v for k, v in runs.items()}


def _merged(label: Any, run: Any, common: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    if not isinstance(label, str) or not label.strip():
        raise fail("runs", label, "a text as the label of every run")
    if not isinstance(run, dict) or "method" not in run:
        raise fail("runs", {label: run}, 'a record such as {"method": "greedy"} for every label')
    own = {k: v for k, v in run.items() if k != "method"}
    params = own
    for _ in range(2):  # a common choice of rule or proposer brings in further parameters
        known = {f.name for f in fields_of(run["method"], params)}
        params = {k: v for k, v in common.items() if k in known} | own
    return run["method"], params


def _check_common(merged: dict[str, tuple[str, dict[str, Any]]], common: dict[str, Any]) -> None:
    """A common parameter that no run has is a mistake, not a wish; its value counts even where
    every run has its own. The law that fidelity refers to is always there."""
    known = {name: field_of(Sampling, name) for name in LAW}
    known |= {f.name: f for method, params in merged.values() for f in fields_of(method, params)}
    for key, value in common.items():
        if key not in known:
            raise unknown(key, value, sorted(known), "this set of runs")
        check_value(known[key], value)


def warm_up(pair: ModelPair, plans: dict[str, Plan], cancelled: Cancelled | None = None) -> None:
    """Run every path once, a few steps long, so that no first-time cost is timed."""
    for plan in plans.values():
        settings = plan.settings.flat()
        path = (plan.method, *(settings.get(k) for k in ("proposer", "verifier", "num_beams")))
        if path in pair.warmed or (cancelled is not None and cancelled()):
            continue
        for _ in itertools.islice(run_plan(plan, cancelled), _WARM_UP_STEPS):
            pass
        pair.warmed.add(path)


def run_plans(
    pair: ModelPair,
    prompt: str | Sequence[int],
    plans: dict[str, Plan],
    repeats: int = 1,
    cancelled: Cancelled | None = None,
    deadline_s: float | None = None,
    total_s: float | None = None,
    reference_text: str | None = None,
) -> Iterator[tuple[str, Event | Comparison]]:
    """Run the checked requests of `prepare_all`; see `compare_stream`.

    deadline_s is for each run, total_s for all of them: when that is over, the run at hand ends
    with what it has, those that have not begun end empty ("deadline"), and no repeat begins.
    """
    end = math.inf if total_s is None else time.monotonic() + total_s
    limit = math.inf if deadline_s is None else deadline_s
    warm_up(pair, plans, cancelled)
    found: dict[str, list[DecodeResult]] = {label: [] for label in plans}
    for _ in range(repeats):  # whole passes, so that a drift of the machine hits every run alike
        for label, plan in plans.items():
            left_s = max(0.0, end - time.monotonic())
            if found[label] and not left_s:
                continue
            for event in run_plan(plan, cancelled, min(limit, left_s)):
                yield label, event
                if event.result is not None:
                    found[label].append(event.result)
    yield (
        "",
        Comparison(
            prompt if isinstance(prompt, str) else None,
            {label: _median(results) for label, results in found.items()},
            {label: _seconds(results) for label, results in found.items()},
            baseline_of(
                {k: method_named(p.method).badge(p.settings) for k, p in plans.items()},
            ),
            reference_text,
        ),
    )


def _whole(results: list[DecodeResult]) -> list[DecodeResult]:
    """Those that ran to their end, where there are any: a run cut short is no measurement."""
    return [r for r in results if r.finish_reason not in _CUT] or results


def _seconds(results: list[DecodeResult]) -> list[float]:
    return [result.metrics.total_s for result in _whole(results)]


def _median(results: list[DecodeResult]) -> DecodeResult:
    middle = statistics.median_low(_seconds(results))
    return next(r for r in results if r.metrics.total_s == middle)


def baseline_of(badges: dict[str, str]) -> str:
    """The label that speed-up refers to, from every run's badge: sampling, else the first run."""
    sampled = (label for label, badge in badges.items() if badge == "sampled")
    return next(sampled, next(iter(badges)))
