"""Divergences of an output law from the target's, and what counts as a law.

A law is [V] numbers from 0 that sum to 1, normalised here in double precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

Law = ArrayLike | Tensor
Array = NDArray[Any]

SMALLEST = 1e-150  # a probability below counts as zero, so that products stay above it
_SUM_TOLERANCE = 1e-2  # half-precision laws miss 1 by this much, logits or counts by far more
_NORMALISED = 1e-14  # near enough to 1: dividing again would only move last bits


@dataclass(frozen=True, slots=True)
class Divergence:
    """Σ q·f(π/q), with f tilted so that f(1) = f'(1) = 0: no term is negative, so none cancel."""

    f: Callable[[Any, Any], Any]  # of π/q, and the module of its functions: numpy or math
    slope: Callable[[float], float]  # f'
    price: float  # f'(∞), of output mass where the target has none

    def of(self, target: Array, ratio: Array) -> Array:
        """Each token's term, from q > 0 and π/q."""
        with np.errstate(divide="ignore"):  # f(0) may be infinite
            return target * self.f(ratio, np)

    def off_support(self, mass: float) -> float:
        return mass * self.price if mass > 0 else 0.0


_KINDS = {
    "kl": Divergence(lambda u, m: u - 1 - m.log(u), lambda u: 1 - 1 / u, 1.0),
    "reverse_kl": Divergence(lambda u, m: 1 - u + u * m.log(u + SMALLEST), math.log, math.inf),
    "js": Divergence(
        lambda u, m: (m.log(2 / (1 + u)) + u * m.log(2 * u / (1 + u) + SMALLEST)) / 2,
        lambda u: (math.log(2) - math.log1p(1 / u)) / 2,
        math.log(2) / 2,
    ),
    "hellinger": Divergence(
        lambda u, m: (m.sqrt(u) - 1) ** 2 / 2, lambda u: (1 - u**-0.5) / 2, 0.5
    ),
    "chi2": Divergence(lambda u, m: (u - 1) ** 2, lambda u: 2 * (u - 1), math.inf),
    "tv": Divergence(lambda u, m: abs(u - 1) / 2, lambda u: 0.5 if u > 1 else -0.5, 0.5),
}
DIVERGENCES = tuple(_KINDS)


def divergence(target_probs: Law, output_probs: Law, kind: str) -> float:
    """Divergence of an output law π from the target's law q, both [V]; natural logarithms.

    kl Σ q ln(q/π); reverse_kl Σ π ln(π/q); js ½KL(π‖m) + ½KL(q‖m), m = (π+q)/2; hellinger
    1 − Σ √(πq); chi2 Σ (π−q)²/q; tv ½Σ|π−q|. Infinite where it is so; ValueError on bad input.
    """
    return divergences(target_probs, output_probs, [kind])[kind]


def divergences(target_probs: Law, output_probs: Law, kinds: Iterable[str]) -> dict[str, float]:
    """Several of them at once, for less: see `divergence`."""
    measures = {kind: known("kind", kind) for kind in kinds}
    masses = Masses.of(target_probs=target_probs, output_probs=output_probs)
    return divergences_of(masses.target, masses.other, masses.off_support, measures)


def divergences_of(
    target: Array, output: Array, off_support: float, kinds: Iterable[str]
) -> dict[str, float]:
    """The same of masses [n], the target's above 0; the output has `off_support` elsewhere."""
    ratio, found = output / target, {}
    for kind in kinds:
        inside = float(_KINDS[kind].of(target, ratio).sum())  # below 0 by rounding alone
        found[kind] = max(inside, 0.0) + _KINDS[kind].off_support(off_support)
    return found


def known(argument: str, name: str) -> Divergence:
    if name not in DIVERGENCES:
        raise ValueError(f"{argument}={name!r} must be one of {', '.join(DIVERGENCES)}")
    return _KINDS[name]


@dataclass(frozen=True, slots=True, eq=False)
class Masses:
    """What two laws [V] give to the tokens that decide how far apart they are.

    `target`, `other` [n], double precision, are normalised masses of the tokens that both laws
    allow, and last one that stands for those that the other law lacks, if the target has any;
    `off_support` is what the other law has where the target is 0. `laws` are [V] as they came, and
    `totals` what they sum to. Vectors of all V tokens are read as seldom as can be.
    """

    target: Array
    other: Array
    off_support: float
    laws: tuple[Array, Array]
    totals: tuple[float, float]

    @classmethod
    def of(cls, support: Tensor | None = None, **laws: Law) -> Masses:
        """Of two laws by their names. Raises ValueError on what is no law.

        support: ids outside which the other law is known to be 0.
        """
        # An output law may be as small as β is large: what is left of a token's mass still counts.
        smallest = {"output_probs": 0.0}
        first, second = (_entries(n, law, smallest.get(n, SMALLEST)) for n, law in laws.items())
        if len(first) != len(second):
            lengths = f"have {len(first)} and {len(second)} entries"
            raise ValueError(f"{' and '.join(laws)} {lengths}, must have equally many")
        within = None if support is None else support.numpy(force=True)
        target, other, off_support = _on_support(first, second, within)
        sums = float(target.sum()), float(other.sum()) + off_support
        one, two = (_total(name, total) for name, total in zip(laws, sums, strict=True))
        for masses, total in (target, one), (other, two):
            if total != 1.0:
                masses *= 1 / total
        return cls(target, other, off_support / two, (first, second), (one, two))


def _on_support(target: Array, other: Array, support: Array | None) -> tuple[Array, Array, float]:
    """`Masses` of laws [V] that need not sum to 1."""
    drafted = other if support is None else other.take(support)
    allowed, lacking = drafted > 0, 0.0
    if support is None and allowed.all():
        masses = [law.astype(np.float64) for law in (target, other)]
    else:
        if support is None:
            kept = np.flatnonzero(allowed)
        else:
            kept = support if allowed.all() else support[allowed]
        rest = target.copy()
        rest[kept] = 0.0
        lacking = _sum(rest)
        masses = [np.empty(len(kept) + (lacking > 0)) for _ in range(2)]
        for mass, law in zip(masses, (target, other), strict=True):
            mass[: len(kept)] = law.take(kept)
        if lacking > 0:
            masses[0][-1], masses[1][-1] = lacking, 0.0
    target, other = masses
    inside = target > 0
    if inside.all():
        return target, other, 0.0
    return target[inside], other[inside], _sum(other[~inside])


def _sum(values: Array) -> float:
    return float(values.sum(dtype=np.float64))


def _entries(name: str, value: Law, smallest: float) -> Array:
    """The numbers of a law [V], on the host, as they came if they are of a usual precision."""
    try:
        law = value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{name}={value!r} must be [V] numbers from 0 to 1") from error
    if law.ndim != 1 or len(law) == 0 or law.is_complex():
        raise ValueError(f"{name} is {law.dtype} {list(law.shape)}, must be real [V], V ≥ 1")
    if law.dtype not in (torch.float32, torch.float64):
        law = law.double()
    probs: Array = law.numpy(force=True)
    lowest = float(probs.min())
    if not lowest >= 0:
        raise ValueError(f"{name} has an entry {lowest}, must have numbers from 0 to 1")
    if lowest < smallest and law.dtype == torch.float64:  # others know none so small but 0
        probs = np.where(probs < smallest, 0.0, probs)
    return probs


def _total(name: str, total: float) -> float:
    """What to divide a law by, from what it sums to."""
    if not abs(total - 1) <= _SUM_TOLERANCE:
        raise ValueError(f"{name} sums to {total}, must sum to 1 within {_SUM_TOLERANCE}")
    return total if abs(total - 1) > _NORMALISED else 1.0
