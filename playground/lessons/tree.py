"""Greedy can lose: a tree of two steps whose probabilities a reader may change.

The numbers are those of the chapter on decoding (9.2), whose law after C is not given: ours stands
in, and decides nothing, since no path through C can reach more than 0.1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

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


def edited(first: Sequence[float], second: Sequence[Sequence[float]]) -> Tree:
    """The tree with these laws, each scaled to a sum of exactly 1.

    Raises ValueError naming the first entry that is no probability, or the law that does not sum
    to 1 within 0.005.
    """
    if len(second) != len(FIRST):
        raise fail("tree", second, f"one law for each of {', '.join(FIRST)}")
    laws = (_checked(f"after {name}", law, SECOND) for name, law in zip(FIRST, second, strict=True))
    return Tree(_checked("first step", first, FIRST), tuple(laws))


def _checked(where: str, law: Sequence[float], names: Sequence[str]) -> Law:
    if len(law) != len(names):
        raise fail(where, law, f"one probability for each of {', '.join(names)}")
    for name, value in zip(names, law, strict=True):
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not 0 <= value <= 1:
            raise fail(f"{where}, {name}", value, "a number from 0 to 1")
    total = math.fsum(law)
    if abs(total - 1) > _SUM_TOLERANCE:
        raise fail(where, f"sum {total:.4g}", "probabilities that sum to 1")
    return tuple(value / total for value in law)
