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
    laws = checked_laws(target_probs=target_probs, output_probs=output_probs)
    measures = {kind: known("kind", kind) for kind in kinds}
    target, output, off_support = on_support(*laws)
    ratio = output / target
    found = {}
    for kind, measure in measures.items():
        inside = float(measure.of(target, ratio).sum())  # below 0 by rounding alone
        found[kind] = max(inside, 0.0) + measure.off_support(off_support)
    return found


def known(argument: str, name: str) -> Divergence:
    if name not in DIVERGENCES:
        raise ValueError(f"{argument}={name!r} must be one of {', '.join(DIVERGENCES)}")
    return _KINDS[name]


def on_support(target: Array, other: Array) -> tuple[Array, Array, float]:
    """Masses [n] where the target is above 0, and the other law's mass elsewhere.

    Where the other law is 0, the target's masses are merged.
    """
    inside, off_support = other > 0, 0.0
    if target.min() == 0:
        off_support = _mass(other, target == 0)
        inside &= target > 0
    elif inside.all():
        return target, other, 0.0
    lacking, first = _mass(target, other == 0), int(inside.argmin())
    inside[first] = lacking > 0  # the first token that is not inside stands for those merged
    kept = np.flatnonzero(inside)
    target, other = target.take(kept), other.take(kept)
    if lacking > 0:
        target[first], other[first] = lacking, 0.0
    return target, other, off_support


def _mass(law: Array, where: Array) -> float:
    """The mass of a mask [V]. (numpy's sum over a mask takes ten times as long, and its products
    would start BLAS threads, beside which a decode runs at a third of its speed.)"""
    return float(torch.where(torch.from_numpy(where), torch.from_numpy(law), 0.0).sum())


def checked_laws(**laws: Law) -> tuple[Array, Array]:
    # An output law may be as small as β is large: what is left of a token's mass still counts.
    smallest = {"output_probs": 0.0}
    first, second = (_law(n, value, smallest.get(n, SMALLEST)) for n, value in laws.items())
    if len(first) != len(second):
        lengths = f"have {len(first)} and {len(second)} entries"
        raise ValueError(f"{' and '.join(laws)} {lengths}, must have equally many")
    return first, second


def _law(name: str, value: Law, smallest: float) -> Array:
    try:
        law = value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{name}={value!r} must be [V] numbers from 0 to 1") from error
    if law.ndim != 1 or len(law) == 0 or law.is_complex():
        raise ValueError(f"{name} is {law.dtype} {list(law.shape)}, must be real [V], V ≥ 1")
    double = law.detach().to("cpu", torch.float64, copy=True)
    total, probs = float(double.sum()), double.numpy()
    lowest = float(probs.min())
    if not lowest >= 0:
        raise ValueError(f"{name} has an entry {lowest}, must have numbers from 0 to 1")
    if not abs(total - 1) <= _SUM_TOLERANCE:
        raise ValueError(f"{name} sums to {total}, must sum to 1 within {_SUM_TOLERANCE}")
    if abs(total - 1) > _NORMALISED:
        probs *= 1 / total
    if lowest < smallest and law.dtype == torch.float64:  # others know none so small but 0
        probs[probs < smallest] = 0
    return probs
