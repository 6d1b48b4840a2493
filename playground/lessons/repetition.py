"""Likelihood repeats itself: how much of a text is repetition, and how probable its tokens are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from playground.metrics import mean
from playground.types import Token


@dataclass(frozen=True, slots=True)
class Loop:
    """The end of a text as one stretch of `period` tokens over and over.

    length: tokens from its first to its last; repeats = length / period, at least 2.
    """

    period: int
    length: int

    @property
    def repeats(self) -> float:
        return self.length / self.period


@dataclass(frozen=True, slots=True)
class Repetition:
    """repeated: by n, the share of n-grams that the text already had (`repeated_share`)."""

    repeated: dict[int, float | None]
    loop: Loop | None


def ngrams(ids: Sequence[int], n: int) -> list[tuple[int, ...]]:
    """All n-grams, in order."""
    return [tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)]


def repeated_share(ids: Sequence[int], n: int) -> float | None:
    """1 − distinct n-grams / n-grams (seq-rep-n of Welleck et al. 2020); None without any."""
    found = ngrams(ids, n)
    return 1.0 - len(set(found)) / len(found) if found else None


def repeats(ids: Sequence[int], n: int) -> tuple[bool, ...]:
    """Token by token, whether it lies in an n-gram that the text already had."""
    seen: set[tuple[int, ...]] = set()
    found = [False] * len(ids)
    for start, gram in enumerate(ngrams(ids, n)):
        if gram in seen:
            found[start : start + n] = [True] * n
        seen.add(gram)
    return tuple(found)


def loop_at_end(ids: Sequence[int]) -> Loop | None:
    """The longest stretch at the end that repeats itself, twice or more; of equally long ones that
    of the shortest period. None where there is none."""
    best: Loop | None = None
    for period in range(1, len(ids) // 2 + 1):
        length = period
        while length < len(ids) and ids[-length - 1] == ids[-length - 1 + period]:
            length += 1
        if length >= 2 * period and (best is None or length > best.length):
            best = Loop(period, length)
    return best


def repetition(ids: Sequence[int], sizes: Sequence[int] = (1, 2, 3, 4)) -> Repetition:
    """All measures of one text."""
    return Repetition({n: repeated_share(ids, n) for n in sizes}, loop_at_end(ids))


def laps(values: Sequence[float | None], loop: Loop) -> tuple[float | None, ...]:
    """The mean over each lap of a loop of the values at its tokens, the last lap cut where the text
    ends; None for a lap without any."""
    stretch = values[len(values) - loop.length :]
    parts = [stretch[i : i + loop.period] for i in range(0, len(stretch), loop.period)]
    return tuple(mean(part) for part in parts)


def probabilities(tokens: Sequence[Token]) -> tuple[float | None, ...]:
    """Each token's probability under the target's raw temperature-1 law, the same for every method;
    None where it is not known."""
    return tuple(
        None if token.target_logprob is None else math.exp(token.target_logprob) for token in tokens
    )


def smoothed(values: Sequence[float | None], window: int = 8) -> tuple[float | None, ...]:
    """The mean of the last `window` values that exist, at each place."""
    found: list[float | None] = []
    for end in range(1, len(values) + 1):
        found.append(mean(values[max(0, end - window) : end]))
    return tuple(found)
