"""The exact optimum of mentored decoding: accept as many draft tokens as a budget allows.

A token drawn from the draft's law p is accepted with probability r; on rejection a token of the
residual s replaces it; the output then follows a law π. Speculative decoding keeps π equal to
the target's law q. Mentored decoding maximises R = Σ p·r subject to divergence(q, π) ≤ D.

The solution (Tran-Thien 2023 for KL(q‖π); Tran-Thien & Nock 2026, arXiv 2609.30474, for every
strictly convex f-divergence) is one family, with α in (0, 1] and β ≥ 1:

    r = min(1, q / (α·p))      s = max(0, q/β − p) / (1 − R)      π = clamp(p, q/β, q/α)

where α fixes β, as both sides of the clamp move the mass that is rejected, 1 − R:
Σ max(0, p − q/α) = Σ max(0, q/β − p). For total variation each of these laws is optimal.

With tokens sorted by p/q, running sums give α, β and the divergence at any R; the divergence is
convex in R, so a few of Newton's steps find the R that spends the budget, to rounding. Only tokens
that both laws allow need sorting: those that the draft lacks all have p/q = 0, and act as one.

Divergences do not always forbid what the target excludes (q = 0); `keep_support` does. Without
it such tokens come last: their price, f'(∞), is above that of any other token, so first α falls
until all tokens with q > 0 are accepted, and then these are, with one probability ρ. That holds
for every divergence here; where f'(∞) is infinite, ρ stays 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from playground.divergences import (
    DIVERGENCES,
    SMALLEST,
    Array,
    Divergence,
    Law,
    Masses,
    divergence,
    divergences_of,
    known,
)

__all__ = [
    "DIVERGENCES", "Optimum", "Solution", "divergence", "solution", "solve", "surely_accepts",
]  # fmt: skip

_SLACK, _MARGIN = 1e-12, 4e-14  # the search ends so near below the budget (relative, absolute)
_SURE = 1e-4  # what single precision and laws that do not quite sum to 1 could add to a divergence
_FAR = 4.0  # where 1/α is above this, what would prove an acceptance seldom does
_MAX_STEPS = 200  # a safeguard: about five are usual


@dataclass(frozen=True, slots=True, eq=False)
class Optimum:
    """The rule of highest acceptance within the budget; tensors are float64, shape [V].

    `zero_accept` is ρ, with which tokens that the target excludes (q = 0) are accepted: 0 under
    `keep_support`, before all others are accepted, and if the draft has none; 1 if the draft is
    taken whole. `alpha` is 0 where ρ > 0, else the largest, and `beta` the smallest, of this rule;
    `beta` is infinite if the draft, taken whole, lacks a token of the target. If nothing is
    rejected the residual is never used, and is the target's law.
    """

    alpha: float
    beta: float
    acceptance: float
    divergence_spent: float
    accept_probs: Tensor
    residual_probs: Tensor
    output_probs: Tensor
    zero_accept: float

    def to_dict(self) -> dict[str, Any]:
        """The same as strict JSON: tensors as lists, infinite numbers as None."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        for name, value in plain.items():
            if isinstance(value, Tensor):
                plain[name] = value.tolist()
            elif math.isinf(value):
                plain[name] = None
        return plain


def solve(
    target_probs: Law,
    draft_probs: Law,
    budget: float,
    divergence: str = "kl",
    keep_support: bool = True,
) -> Optimum:
    """The acceptance rule of highest acceptance with divergence(target, output) ≤ budget.

    Laws have shape [V] and are normalised in double precision, on the target's device. Budget 0
    is the lossless rule, infinity is allowed. `divergence_spent` never exceeds the budget, and is
    within 1e-6 of it where it binds (chi2 excepted where 1/α nears 1e9: a change in the last bit
    of R then spends more). Raises ValueError on what is no law, budget or name.
    """
    return solution(target_probs, draft_probs, budget, divergence, keep_support).optimum()


def solution(
    target_probs: Law,
    draft_probs: Law,
    budget: float,
    divergence: str = "kl",
    keep_support: bool = True,
    drafted: Tensor | None = None,
) -> Solution:
    """The same, for one who needs only a part of it: see `solve`.

    drafted: ids outside which the draft's law is known to be 0, rising.
    """
    kind = known("divergence", divergence)
    if not (isinstance(budget, Real) and budget >= 0):
        raise ValueError(f"budget={budget!r} must be a number from 0 to infinity")
    masses = Masses.of(drafted, target_probs=target_probs, draft_probs=draft_probs)
    rule = _LOSSLESS
    if budget > 2 * _MARGIN:
        rule = _Family(masses, kind).best(float(budget), keep_support)
    device = target_probs.device if isinstance(target_probs, Tensor) else "cpu"
    return Solution(masses, rule, device)


def surely_accepts(
    target_probs: Tensor,
    draft_probs: Tensor,
    token: int,
    u: float,
    budget: float,
    divergence: str = "kl",
    drafted: Tensor | None = None,
) -> bool:
    """Whether the optimum accepts a drafted token with a probability above u, where a law that is
    easily made proves it; False proves nothing. Arguments as those of `solution`.

    With α = q/(u·p) at the token, let π be min(p, q/α) plus what that cuts off, spread over the
    others in proportion to q − p. Of all laws that cut off so much the best is one of the family;
    if even π keeps within the budget, the optimum's α is smaller, and its r above u.
    """
    kind = known("divergence", divergence)
    target, draft = (law.numpy(force=True) for law in (target_probs, draft_probs))
    if not target.item(token) > 0:
        return False
    above, lacking = u * draft.item(token) / target.item(token), 0.0  # 1/α
    if above > _FAR:
        return False
    if drafted is not None:
        places = drafted.numpy(force=True)
        target, draft = target.take(places), draft.take(places)
        lacking = max(0.0, 1.0 - float(target.sum(dtype=np.float64)))
    if not target.all():
        return False
    cut, spread = draft - target * above, target - draft
    for masses in (cut, spread):
        np.maximum(masses, 0.0, out=masses)
    moved, room = (float(masses.sum(dtype=np.float64)) for masses in (cut, spread))
    share = moved / (room + lacking) if moved > 0 else 0.0
    output = draft - cut
    output += spread * share
    with np.errstate(all="ignore"):  # a divergence may be infinite
        spent = float(kind.of(target, output / target).sum(dtype=np.float64))
    spent += lacking * kind.f(share, math) if lacking > 0 and share > 0 else 0.0
    return share > 0 and spent <= budget - _SURE


class _Rule(NamedTuple):
    above: float  # 1/α; infinite where no token with q > 0 is refused
    below: float  # 1/β
    zero_accept: float  # ρ
    spent: float


_LOSSLESS = _Rule(1.0, 1.0, 0.0, 0.0)


class _Point(NamedTuple):
    """A law of the family."""

    rejected: float
    spent: float
    slope: float  # of `spent` in `rejected`
    above: float
    below: float


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """The optimal rule for two laws [V], from which each of its parts can be had alone."""

    masses: Masses  # the target's and the draft's
    rule: _Rule
    device: torch.device | str

    def accept_prob(self, token: int) -> float:
        """The acceptance of one token that the draft may draw."""
        laws = zip(self.masses.laws, self.masses.totals, strict=True)
        mass, drafted = (law.item(token) / total for law, total in laws)
        if mass == 0:
            return self.rule.zero_accept
        return min(1.0, mass * self.rule.above / drafted)

    def divergences(self, kinds: Iterable[str]) -> dict[str, float]:
        """Of the output law from the target's, by the names of `divergence`."""
        target, draft = self.masses.target, self.masses.other
        output = np.minimum(np.maximum(draft, target * self.rule.below), target * self.rule.above)
        off_support = self.masses.off_support * self.rule.zero_accept
        return divergences_of(target, output, off_support, kinds)

    def residual(self) -> Tensor:
        """The residual [V] on the host, not normalised: masses to draw from, in the precision in
        which the laws came."""
        target, draft = self.masses.laws
        one, other = self.masses.totals
        # As `_moved`, but by numpy in half the time: torch would call its threads, and a loop waits
        # for this. Equal laws differ by nothing.
        moved = target * (self.rule.below * (other / one)) - draft
        np.maximum(moved, 0.0, out=moved)
        return torch.from_numpy(moved if moved.any() else target)

    def optimum(self) -> Optimum:
        """All of it."""
        target, draft = self._normalised(self.device)
        return _optimum(target, draft, self.rule)

    def _normalised(self, device: torch.device | str) -> Iterator[Tensor]:
        for law, total in zip(self.masses.laws, self.masses.totals, strict=True):
            yield torch.from_numpy(law).to(device, torch.float64, copy=True).div_(total)


class _Side:
    """The tokens on one side of p = q, from the farthest to the nearest: target masses, draft
    masses and costs [3, m]."""

    def __init__(self, tokens: Array, sign: float) -> None:
        self.sign = sign  # +1 where p ≥ q, so that the clamp takes mass away; −1 where p < q
        target, draft, self.cost = tokens
        self.ratio = draft / target
        self.target_mass, self.draft_mass = _running_sums(tokens[:2])
        self.moved = self.ratio * self.target_mass  # first what stays, then what moves,
        np.subtract(self.draft_mass, self.moved, out=self.moved)  # by a level at each token
        self.moved *= sign

    def at(self, mass: float) -> tuple[float, float, float]:
        """What moves `mass`: the level, the target mass clamped to it, the cost of the others."""
        if mass <= 0 or not len(self.ratio):
            return math.inf if self.sign > 0 else 0.0, 0.0, float(self.cost.sum())
        last = max(int(self.moved.searchsorted(mass)) - 1, 0)  # of those that are clamped
        clamped = self.target_mass.item(last)
        level = (self.draft_mass.item(last) - self.sign * mass) / clamped
        nearer = self.ratio.item(last + 1) if last + 1 < len(self.ratio) else 1.0
        level = sorted((self.ratio.item(last), level, nearer))[1]  # else by rounding
        return level, clamped, float(self.cost[last + 1 :].sum())


class _Family:
    """The laws clamp(p, q/β, q/α), told apart by the mass that they reject."""

    def __init__(self, masses: Masses, kind: Divergence) -> None:
        target, draft = masses.target, masses.other
        self.kind, self.off_support = kind, masses.off_support
        self.margin = _MARGIN * max(1.0, math.sqrt(len(target)) / 16)  # as sums of n terms round
        ratio = draft / target
        cost = kind.of(target, ratio)
        self.whole = float(cost.sum()) + kind.off_support(self.off_support)
        order, num_under = _ascending(ratio)
        order[num_under:] = order[num_under:][::-1]
        tokens = np.empty((3, len(order)))
        for row, values in zip(tokens, (target, draft, cost), strict=True):
            values.take(order, out=row, mode="clip")  # the mode that writes there directly
        self.under, self.over = (
            _Side(tokens[:, :num_under], -1.0),
            _Side(tokens[:, num_under:], 1.0),
        )

    def at(self, rejected: float) -> _Point:
        """The law that rejects so much."""
        spent, slopes = self.kind.off_support(self.off_support - rejected), []
        under, over = self.under.at(rejected), self.over.at(rejected - self.off_support)
        for (level, clamped, cost), limit in (under, -math.inf), (over, self.kind.price):
            spent += cost + (clamped * self.kind.f(level, math) if clamped > 0 else 0.0)
            slopes.append(self.kind.slope(level) if clamped > 0 else limit)
        return _Point(rejected, spent, slopes[0] - slopes[1], over[0], under[0])

    def best(self, budget: float, keep_support: bool) -> _Rule:
        """The rule that spends the budget, or all that it can."""
        if self.whole <= budget and not (keep_support and self.off_support > 0):
            return _Rule(math.inf, 0.0, float(self.off_support > 0), max(self.whole, 0.0))
        budget = min(budget, 1e300)
        margin = self.margin + _SLACK * budget
        goal, slack = budget - margin, margin / 2
        low = high = self.off_support
        all_fit = low > 0 and self.at(low).spent <= goal  # tokens with q > 0
        if all_fit:
            low = low if keep_support or math.isinf(self.kind.price) else 0.0
        elif len(self.under.ratio):
            high = self.under.target_mass.item(-1) - self.under.draft_mass.item(-1)
        found = _falling_root(self.at, low, high, goal, slack)
        if found.rejected == high and not all_fit:
            return _LOSSLESS  # the acceptance cannot rise by its last bit
        freed = max(self.off_support - found.rejected, 0.0)
        rho = freed / self.off_support if freed else 0.0
        return _Rule(found.above, found.below, rho, max(found.spent, 0.0))


def _falling_root(
    curve: Callable[[float], _Point], low: float, high: float, goal: float, slack: float
) -> _Point:
    """Where what is spent, convex and falling in what is rejected, is within `slack` of `goal`, by
    Newton's steps.

    At `high` it is lower; that is the answer if rounding leaves nothing in between.
    """
    x = (low + high) / 2
    for _ in range(_MAX_STEPS):
        if not max(low, SMALLEST) < x < high:
            break
        point = curve(x)
        if abs(point.spent - goal) <= slack:
            return point
        low, high = (x, high) if point.spent > goal else (low, x)
        x = _newton(point, goal)
        if not low < x < high:  # geometric, since the answer may be extremely small
            x = math.sqrt(low * high) if low > 0 else high * high / 4
    return curve(high)


def _newton(point: _Point, goal: float) -> float:
    """The next guess. A divergence begins as a square: its root is nearly straight."""
    if not 0 < point.spent < math.inf or not point.slope < 0:
        return math.inf
    root = math.sqrt(point.spent)
    return point.rejected + 2 * root * (math.sqrt(goal) - root) / point.slope


def _ascending(ratio: Array) -> tuple[Array, int]:
    """The order in which positive numbers [n] rise, and how many are below 1.

    To sort integers takes numpy a fraction of the time in which anything here finds an order: so
    the bits of each number are sorted, the last ones replaced by its place.
    """
    mask = (1 << (len(ratio) - 1).bit_length()) - 1
    keys = ratio.view(np.int64) & ~mask
    keys |= np.arange(len(ratio))
    keys.sort()
    keys &= mask
    rising = ratio.take(keys)
    if not (rising[1:] >= rising[:-1]).all():  # some differ only in those bits
        order = rising.argsort(kind="stable")  # quick, as few are out of order
        keys, rising = keys.take(order), rising.take(order)
    return keys, int(rising.searchsorted(1.0))


def _running_sums(rows: Array) -> Array:
    sums: Array = torch.from_numpy(rows).cumsum(1).numpy()  # several times faster than numpy's
    return sums


def _optimum(target: Tensor, draft: Tensor, rule: _Rule) -> Optimum:
    high, low, rho, spent = rule
    accept = (target * high).div_(draft).clamp_(max=1)
    if not target.min() > 0:
        accept.masked_fill_(target == 0, rho)
    residual = _moved(target, draft, low)
    output = target.clone() if rule is _LOSSLESS else torch.addcmul(residual, draft, accept)
    rejected = float(residual.sum())
    if math.isinf(high):  # the largest α, and perhaps the smallest β, that do the same
        inside = target > 0
        least, most = torch.aminmax(target[inside] / draft[inside])
        high, low = max(1.0, 1 / float(least)), low or min(1.0, 1 / float(most))
    return Optimum(
        alpha=1 / high if rho == 0 else 0.0,
        beta=1 / low if low > 0 else math.inf,
        acceptance=max(0.0, 1 - rejected),
        divergence_spent=spent,
        accept_probs=accept,
        residual_probs=residual.div_(rejected) if rejected > 0 else target,
        output_probs=output,
        zero_accept=rho,
    )


def _moved(target: Tensor, draft: Tensor, below: float) -> Tensor:
    """max(0, q/β − p) [V]: the mass that replaces what is rejected."""
    return torch.sub(draft, target, alpha=below).clamp_(max=0).abs_()
