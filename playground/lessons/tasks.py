"""Which tasks gain: the record of an experiment over kinds of task."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TaskGain:
    """What mentored decoding gains over speculative decoding on one kind of task.

    gain: ratio of tokens per target pass, with the 95 % interval low to high over prompts;
    acceptance, mentored_acceptance: accepted / tested under each rule; divergence: mean KL spent,
    nats a token; entropy: mean entropy of the target's law, nats, a measure of how many answers
    are valid.
    """

    task: str
    num_prompts: int
    budget: float
    acceptance: float
    mentored_acceptance: float
    gain: float
    low: float
    high: float
    divergence: float
    entropy: float | None
