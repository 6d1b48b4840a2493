"""Mentored decoding: the records of its pictures.

The article's laws are two over ten tokens that give the curve of its single-token picture, to the
digits that it states: KL(q‖p) 1.58; acceptance .22 at D = 0, .50 at .2, .64 at .4, .885 at 1, and
1 at 1.58. It does not state its own laws. One token that the draft far overrates decides them, so
that most rules do about equally well there; on the bumps, two overlapping ones of our choice, they
come apart a little.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

ARTICLE_NAMES = ("a", "b", "c", "d", "e", "f", "g", "h", "i", "j")
ARTICLE_TARGET = (0.247, 0.191, 0.162, 0.146, 0.092, 0.089, 0.035, 0.031, 0.006, 0.001)
ARTICLE_DRAFT = (0.033, 0.026, 0.022, 0.020, 0.854, 0.012, 0.006, 0.004, 0.022, 0.001)
ARTICLE_CURVE = ((0.0, 0.22), (0.2, 0.50), (0.4, 0.64), (1.0, 0.885), (1.58, 1.0))
BUMPS_TARGET = (0.029, 0.066, 0.121, 0.176, 0.199, 0.176, 0.121, 0.066, 0.029, 0.011, 0.004, 0.002)
BUMPS_DRAFT = (0.002, 0.004, 0.011, 0.029, 0.066, 0.121, 0.176, 0.199, 0.176, 0.121, 0.066, 0.029)


@dataclass(frozen=True, slots=True)
class RulePoint:
    """A rule at one value of its knob: acceptance, and KL(target‖output), nats; infinite where a
    token of the target gets no mass. behind: how much more mentored decoding accepts at that
    divergence; None at an infinite one."""

    knob: float
    acceptance: float
    divergence: float
    behind: float | None = None


@dataclass(frozen=True, slots=True)
class RuleCurve:
    """A rule along its first setting, `knob`, the others at their defaults."""

    rule: str
    knob: str
    points: tuple[RulePoint, ...]

    def finite(self) -> tuple[RulePoint, ...]:
        """The points whose divergence is a number, equal ones once, by rising divergence."""
        known = {
            (round(point.divergence, 9), round(point.acceptance, 9)): point
            for point in reversed(self.points)
            if math.isfinite(point.divergence)
        }
        return tuple(known[place] for place in sorted(known))

    @property
    def moves_in_steps(self) -> bool:
        """Whether the knob changes the rule at some values only, as a number of tokens does."""
        return len(self.finite()) < 0.75 * len(self.points)


@dataclass(frozen=True, slots=True)
class FamilyPoint:
    """The optimum under one divergence: its budget, acceptance, and what that is in KL."""

    budget: float
    acceptance: float
    divergence: float


@dataclass(frozen=True, slots=True)
class Gain:
    """What a budget buys. share: of all that acceptance can gain, 1 − R(0); slope: acceptance per
    nat, from the budget before to this one."""

    budget: float
    acceptance: float
    share: float
    slope: float | None


def gains(points: Sequence[RulePoint]) -> tuple[Gain, ...]:
    """What each further budget of the mentored curve buys, from its first point, D = 0."""
    ordered = sorted(points, key=lambda point: point.knob)
    start = ordered[0].acceptance
    room = 1 - start
    found = []
    for before, point in zip([None, *ordered], ordered, strict=False):
        step = point.knob - before.knob if before else 0.0
        rise = (point.acceptance - before.acceptance) / step if before and step > 0 else None
        share = (point.acceptance - start) / room if room > 0 else 1.0
        found.append(Gain(point.knob, point.acceptance, share, rise))
    return tuple(found)
