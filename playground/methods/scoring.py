"""How searches score sequences of different length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from playground.params import param
from playground.sampling import Limits
from playground.types import Beam


def length_penalty_param(default: float) -> Any:
    """The exponent's field: methods differ in its default only."""
    return param(
        default,
        "Exponent of the length norm. Positive favours longer outputs, negative shorter; "
        "0 is the plain sum.",
        label="Length penalty (positive favours longer)",
        min=-10.0,
        max=10.0,
        step=0.1,
    )


@dataclass(frozen=True, slots=True)
class ScoringParams(Limits):
    """How a search scores sequences of different length."""

    length_penalty: float = length_penalty_param(1.0)
    length_norm: str = param(
        "length",
        "length: sum / length^penalty; gnmt: sum / ((5+length)/6)^penalty; none: plain sum.",
        label="Length norm",
        choices=("length", "gnmt", "none"),
    )

    def score(self, sum_logprob: float, length: int) -> float:
        """The normalised score of a sequence of `length` new tokens, its end token included."""
        return sum_logprob / length_divisor(length, self.length_norm, self.length_penalty)

    def bound(self, sum_logprob: float, length: int, longest: int) -> float:
        """The best score that a sequence of `length` tokens can reach by going on: sums only fall,
        so the divisor decides. It is largest at `longest` for a positive penalty, and after one
        more token otherwise."""
        grows = self.length_norm != "none" and self.length_penalty > 0
        return self.score(sum_logprob, longest if grows else min(length + 1, longest))


def length_divisor(length: int, norm: str, penalty: float) -> float:
    """length^penalty (transformers), ((5 + length)/6)^penalty (GNMT, Wu et al. 2016), or 1."""
    if norm == "none" or penalty == 0:
        return 1.0
    return float((length if norm == "length" else (5.0 + length) / 6.0) ** penalty)


@dataclass(slots=True)
class Hypothesis:
    """A partial or complete sequence. `rank_sum` is what the search compares: the sum of
    log-probabilities, minus diversity penalties where there are any."""

    ids: list[int]
    sum_logprob: float
    rank_sum: float

    def beam(self, params: ScoringParams, finished: bool) -> Beam:
        length = len(self.ids)
        score = params.score(self.sum_logprob, max(length, 1))
        return Beam(list(self.ids), score, self.sum_logprob, length, finished)
