"""Mentored decoding: the records of its pictures.

The article's laws are two over ten tokens that give the curve of its single-token picture, to the
digits that it states: KL(q‖p) 1.58; acceptance .22 at D = 0, .50 at .2, .64 at .4, .885 at 1, and
1 at 1.58. It does not state its own laws.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

ARTICLE_NAMES = ("a", "b", "c", "d", "e", "f", "g", "h", "i", "j")
ARTICLE_TARGET = (0.247, 0.191, 0.162, 0.146, 0.092, 0.089, 0.035, 0.031, 0.006, 0.001)
ARTICLE_DRAFT = (0.033, 0.026, 0.022, 0.020, 0.854, 0.012, 0.006, 0.004, 0.022, 0.001)
ARTICLE_CURVE = ((0.0, 0.22), (0.2, 0.50), (0.4, 0.64), (1.0, 0.885), (1.58, 1.0))


@dataclass(frozen=True, slots=True)
class RulePoint:
    """A rule at one value of its knob: acceptance, and KL(target‖output), nats; infinite where a
    token of the target gets no mass."""

    knob: float
    acceptance: float
    divergence: float


@dataclass(frozen=True, slots=True)
class RuleCurve:
    """A rule along its first setting, `knob`, the others at their defaults."""

    rule: str
    knob: str
    points: tuple[RulePoint, ...]

    def finite(self) -> tuple[RulePoint, ...]:
        """The points whose divergence is a number, by rising divergence."""
        known = (point for point in self.points if math.isfinite(point.divergence))
        return tuple(sorted(known, key=lambda point: (point.divergence, point.acceptance)))


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
