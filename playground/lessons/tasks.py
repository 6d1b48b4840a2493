"""Which tasks gain: the record of an experiment over kinds of task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from playground.quality import Interval

# The article expects tasks with many valid answers to gain more than those with few.
BROAD = ("translation", "summary", "story")
NARROW = ("fact", "arithmetic", "code")
Answer = Literal["broad", "narrow", "open"]


@dataclass(frozen=True, slots=True)
class TaskGain:
    """What mentored decoding with one budget gains over speculative decoding on one kind of task.

    acceptance, mentored_acceptance: accepted / tested under each; accepted_more: their difference.
    gain: ratio of tokens per target pass. divergence: mean KL(target‖output) spent, nats a verified
    token; per_nat: accepted_more over it. logprob_change: mean log-probability a token under the
    target's raw law, mentored minus speculative. surprisal: minus that of the target's own samples,
    nats a token: the higher, the more answers are valid. right, mentored_right: share of outputs
    that hold the right answer, for kinds that have one.
    """

    task: str
    num_prompts: int
    budget: float
    acceptance: Interval
    mentored_acceptance: Interval
    accepted_more: Interval
    gain: Interval
    divergence: Interval
    per_nat: Interval | None
    logprob_change: Interval | None
    surprisal: Interval | None
    right: Interval | None = None
    mentored_right: Interval | None = None


@dataclass(frozen=True, slots=True)
class Contrast:
    """Mean over the BROAD kinds minus mean over the NARROW ones, at one budget.

    measure: "accepted_more", "gain" or "per_nat" of `TaskGain`. answer: which of them gain more,
    "open" where the interval holds 0.
    """

    budget: float
    measure: str
    difference: Interval | None
    answer: Answer


def contrast_of(budget: float, measure: str, difference: Interval | None) -> Contrast:
    """The contrast, with its answer."""
    answer: Answer = "open"
    if difference is not None and not difference.low <= 0 <= difference.high:
        answer = "broad" if difference.value > 0 else "narrow"
    return Contrast(budget, measure, difference, answer)
