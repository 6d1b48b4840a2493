"""Greedy can lose: a tree of two steps whose probabilities a reader may change.

The numbers are those of the chapter on decoding (9.2), whose law after C is not given: ours stands
in, and decides nothing, since no path through C can reach more than 0.1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeGuard

from playground.params import fail

Law = tuple[float, ...]
Ids = tuple[int, ...]

FIRST, SECOND = ("A", "B", "C"), ("x", "y", "z")
WIDTHS = (1, 2, 3)
_SUM_TOLERANCE = 0.005  # three numbers of two decimals, such as 0.33, 0.33 and 0.33, need more


@dataclass(frozen=True, slots=True)
class Path:
    """A way from the root: token ids, their names in a row, joint probability and its logarithm
    (−inf where it is 0)."""

    ids: Ids
    name: str
    joint: float
    logprob: float


@dataclass(frozen=True, slots=True)
class Tree:
    """Law [3] of the first token, and of the second after each first one [3][3]."""

    first: Law
    second: tuple[Law, ...]

    def law(self, ids: Sequence[int]) -> Law:
        """The law of the token that follows `ids`, of which there are none or one."""
        return self.second[ids[0]] if ids else self.first

    def path(self, ids: Sequence[int]) -> Path:
        """The path along one or two token ids."""
        joint = math.prod(self.law(ids[:i])[token] for i, token in enumerate(ids))
        name = "".join(names[i] for names, i in zip((FIRST, SECOND), ids, strict=False))
        return Path(tuple(ids), name, joint, math.log(joint) if joint > 0 else -math.inf)

    def paths(self) -> tuple[Path, ...]:
        """All whole paths, the most probable one first."""
        every = (self.path(ids) for ids in product(range(len(FIRST)), range(len(SECOND))))
        return tuple(sorted(every, key=lambda path: -path.joint))


CHAPTER = Tree(
    first=(0.5, 0.4, 0.1),
    second=((0.40, 0.35, 0.25), (0.90, 0.06, 0.04), (0.50, 0.30, 0.20)),
)


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a law. row: 0 for the first step, 1 to 3 for the laws after A, B and C.
    column: of `value`, which is no probability; None where `value` is a sum that is not 1."""

    row: int
    column: int | None
    value: object


def first_fault(first: Sequence[object], second: Sequence[Sequence[object]]) -> Fault | None:
    """The first entry that is no probability, or law that does not sum to 1 within 0.005."""
    for row, law in enumerate((first, *second)):
        numbers = [value for value in law if _is_probability(value)]
        if len(numbers) < len(law):
            column = next(i for i, value in enumerate(law) if not _is_probability(value))
            return Fault(row, column, law[column])
        total = math.fsum(numbers)
        if abs(total - 1) > _SUM_TOLERANCE:
            return Fault(row, None, total)
    return None


def _is_probability(value: object) -> TypeGuard[float]:
    """A number from 0 to 1."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and 0 <= value <= 1  # type: ignore[operator]


def edited(first: Sequence[float], second: Sequence[Sequence[float]]) -> Tree:
    """The tree with these laws, each scaled to a sum of exactly 1.

    Raises ValueError naming the first entry that is no probability, or the law that does not sum
    to 1 within 0.005.
    """
    if len(second) != len(FIRST):
        raise fail("tree", second, f"one law for each of {', '.join(FIRST)}")
    places = [("first step", FIRST), *((f"after {name}", SECOND) for name in FIRST)]
    for (where, names), law in zip(places, (first, *second), strict=True):
        if len(law) != len(names):
            raise fail(where, law, f"one probability for each of {', '.join(names)}")
    fault = first_fault(first, second)
    if fault is not None:
        where, names = places[fault.row]
        if fault.column is None:
            raise fail(where, f"sum {fault.value:.4g}", "probabilities that sum to 1")
        raise fail(f"{where}, {names[fault.column]}", fault.value, "a number from 0 to 1")
    laws = [tuple(value / math.fsum(law) for value in law) for law in (first, *second)]
    return Tree(laws[0], tuple(laws[1:]))
