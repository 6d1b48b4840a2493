"""Which tasks gain? Acceptance that a budget buys, and what it costs, by kind of task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from playground.experiments.runs import (
    Runs,
    acceptance,
    column,
    divergence,
    logprob,
    one,
    tokens_per_pass,
)
from playground.lessons.tasks import BROAD, NARROW, Contrast, TaskGain, contrast_of
from playground.quality import Array, Interval, interval

Answers = Mapping[str, Sequence[str]]


def gains(
    rows: Sequence[dict[str, Any]], answers: Answers
) -> tuple[list[TaskGain], list[Contrast]]:
    """A record for every kind and budget, and the contrast of kinds with many valid answers to
    kinds with few for every budget. answers: by prompt id, where there is a right one.

    Prompts are resampled within their kind; kinds count alike in a contrast.
    """
    kinds = dict.fromkeys(row["kind"] for row in rows)
    runs = {
        kind: Runs([row for row in rows if row["kind"] == kind], seed)
        for seed, kind in enumerate(kinds)
    }
    known = [own.first(c) for own in runs.values() for c in own.of_method("mentored")]
    budgets = list(dict.fromkeys(row["params"]["divergence_budget"] for row in known))
    found = [_gain(kind, own, d, answers) for d in budgets for kind, own in runs.items()]
    contrasts = [
        contrast_of(d, name, interval(_contrast(runs, d, of)))
        for d in budgets
        for name, of in _GAINS.items()
    ]
    return found, contrasts


def _label(runs: Runs, budget: float) -> str:
    mentored = runs.of_method("mentored")
    return next(c for c in mentored if runs.first(c)["params"]["divergence_budget"] == budget)


def _by_method(runs: Runs, method: str) -> str:
    return runs.of_method(method)[0]


def _accepted_more(runs: Runs, budget: float) -> Array:
    return acceptance(runs, _label(runs, budget)) - acceptance(
        runs, _by_method(runs, "speculative")
    )


def _tokens_more(runs: Runs, budget: float) -> Array:
    mine, exact = _label(runs, budget), _by_method(runs, "speculative")
    return tokens_per_pass(runs, mine) / tokens_per_pass(runs, exact)


def _spent(runs: Runs, budget: float) -> Array:
    return runs.over([_label(runs, budget)], divergence, column("num_verified"))


def _per_nat(runs: Runs, budget: float) -> Array:
    return _accepted_more(runs, budget) / _spent(runs, budget)


_GAINS: dict[str, Callable[[Runs, float], Array]] = {
    "accepted_more": _accepted_more,
    "gain": _tokens_more,
    "per_nat": _per_nat,
}


def _contrast(runs: Mapping[str, Runs], budget: float, of: Callable[[Runs, float], Array]) -> Array:
    """Mean over the broad kinds minus mean over the narrow ones, for every resample; NaN where
    there are none of either."""
    broad, narrow = (
        [of(own, budget) for kind, own in runs.items() if kind in some] for some in (BROAD, NARROW)
    )
    if not broad or not narrow:
        return np.full(1, np.nan)
    difference: Array = np.mean(broad, axis=0) - np.mean(narrow, axis=0)
    return difference


def _gain(kind: str, runs: Runs, budget: float, answers: Answers) -> TaskGain:
    mine, exact = _label(runs, budget), _by_method(runs, "speculative")
    change = _likelihood(runs, mine) - _likelihood(runs, exact)
    return TaskGain(
        task=kind,
        num_prompts=len(runs.prompts),
        budget=budget,
        acceptance=_sure(interval(acceptance(runs, exact))),
        mentored_acceptance=_sure(interval(acceptance(runs, mine))),
        accepted_more=_sure(interval(_accepted_more(runs, budget))),
        gain=_sure(interval(_tokens_more(runs, budget))),
        divergence=_sure(interval(_spent(runs, budget))),
        per_nat=interval(_per_nat(runs, budget)),
        logprob_change=interval(change),
        surprisal=interval(-_likelihood(runs, _by_method(runs, "sample"))),
        right=_right(runs, exact, answers),
        mentored_right=_right(runs, mine, answers),
    )


def _likelihood(runs: Runs, label: str) -> Array:
    """Log-probability a token under the target's raw law."""
    return runs.over([label], logprob, column("num_new_tokens"))


def _right(runs: Runs, label: str, answers: Answers) -> Interval | None:
    """The share of outputs that hold a right answer; None where there is none."""

    def holds(row: Mapping[str, Any]) -> float | None:
        known = answers.get(row["prompt_id"])
        if known is None or row["text"] is None:
            return None
        return float(any(answer.casefold() in row["text"].casefold() for answer in known))

    return interval(runs.over([label], holds, one))


def _sure(found: Interval | None) -> Interval:
    if found is None:
        raise ValueError("rows: no draft token was tested")
    return found
