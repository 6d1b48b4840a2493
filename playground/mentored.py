"""The exact optimum of mentored decoding: accept as many draft tokens as a budget allows.

A token drawn from the draft's law p is accepted with probability r; on rejection a token of the
residual s replaces it; the output then follows a law π. Speculative decoding keeps π equal to
the target's law q. Mentored decoding maximises R = Σ p·r subject to divergence(q, π) ≤ D.

The solution (Tran-Thien 2023 for KL(q‖π); Tran-Thien & Nock 2026, arXiv 2609.30474, for every
strictly convex f-divergence) is one family, with α in (0, 1] and β ≥ 1:

    r = min(1, q / (α·p))      s = max(0, q/β − p) / (1 − R)      π = clamp(p, q/β, q/α)

where α fixes β, as both sides of the clamp move the mass that is rejected, 1 − R:
Σ max(0, p − q/α) = Σ max(0, q/β − p). For total variation each of these laws is optimal.

With tokens sorted by p/q, running sums give α, β and the divergence at any R in O(log V); the
divergence is convex in R, so Newton's steps find the R that spends the budget. The vocabulary is
not sorted for that: tokens are merged into bins of about equal p/q, and only the bins in which
1/α and 1/β come to lie are opened, until both lie in open ones. Every other bin is then wholly
on one side of each level, so the answer is that of a full sort.

Divergences do not always forbid what the target excludes (q = 0); `keep_support` does. Without
it such tokens come last: their price, f'(∞), is above that of any other token, so first α falls
until all tokens with q > 0 are accepted, and then these are, with one probability ρ. That holds
for every divergence here; where f'(∞) is infinite, ρ stays 0.
"""

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor

Law = ArrayLike | Tensor

_SUM_TOLERANCE = 1e-2  # half-precision laws miss 1 by this much, logits or counts by far more
_NORMALISED = 1e-14  # near enough to 1: dividing again would only move last bits
_SMALLEST = 1e-150  # a probability below counts as zero, so that products stay above it
_SLACK, _MARGIN = 1e-12, 4e-14  # the search ends so near below the budget (relative, absolute)
_MAX_STEPS = 200  # a safeguard: about ten are usual
_FEW = 2048  # so many tokens are sorted at once
_BIN_BITS, _NUM_BINS = 5, 1024  # 32 bins for each factor 2 of p/q, from 2^-16 to 2^16


@dataclass(frozen=True, slots=True)
class _Divergence:
    """Σ q·f(π/q), with f tilted so that f(1) = f'(1) = 0: no term is negative, so none cancel."""

    terms: Callable[[Any, Any, Any], Any]  # q·f(π/q) from q > 0, π and their module: torch or math
    slope: Callable[[float], float]  # f'
    price: float  # f'(∞), of output mass where the target has none

    def off_support(self, mass: float) -> float:
        return mass * self.price if mass > 0 else 0.0


_KINDS = {
    "kl": _Divergence(lambda q, out, m: out - q - q * m.log(out / q), lambda u: 1 - 1 / u, 1.0),
    "reverse_kl": _Divergence(
        lambda q, out, m: q - out + out * m.log(out / q + _SMALLEST), math.log, math.inf
    ),
    "js": _Divergence(
        lambda q, out, m: (
            (q * m.log(2 * q / (q + out)) + out * m.log(2 * out / (q + out) + _SMALLEST)) / 2
        ),
        lambda u: (math.log(2) - math.log1p(1 / u)) / 2,
        math.log(2) / 2,
    ),
    "hellinger": _Divergence(
        lambda q, out, m: (m.sqrt(out) - m.sqrt(q)) ** 2 / 2, lambda u: (1 - u**-0.5) / 2, 0.5
    ),
    "chi2": _Divergence(
        lambda q, out, m: (out - q) * (out / q - 1), lambda u: 2 * (u - 1), math.inf
    ),
    "tv": _Divergence(lambda q, out, m: abs(out - q) / 2, lambda u: 0.5 if u > 1 else -0.5, 0.5),
}
DIVERGENCES = tuple(_KINDS)


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


def divergence(target_probs: Law, output_probs: Law, kind: str) -> float:
    """Divergence of an output law π from the target's law q, both [V]; natural logarithms.

    kl Σ q ln(q/π); reverse_kl Σ π ln(π/q); js ½KL(π‖m) + ½KL(q‖m), m = (π+q)/2; hellinger
    1 − Σ √(πq); chi2 Σ (π−q)²/q; tv ½Σ|π−q|. Infinite where it is so; ValueError on bad input.
    """
    target, output = _laws(target_probs=target_probs, output_probs=output_probs)
    return _measure(target, output, _known("kind", kind))


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
    target, draft = _laws(target_probs=target_probs, draft_probs=draft_probs)
    kind = _known("divergence", divergence)
    if not (isinstance(budget, Real) and budget >= 0):
        raise ValueError(f"budget={budget!r} must be a number from 0 to infinity")
    if budget <= 2 * _MARGIN:
        return _optimum(target, draft, kind, 1.0, 1.0, 0.0)
    rule = _search(target, draft, kind, float(budget), keep_support)
    return _optimum(target, draft, kind, *rule)


class _Side:
    """The tokens on one side of p = q, in order outwards from it; each list has that order."""

    def __init__(self, tokens: Tensor, sign: float) -> None:
        self.sign = sign  # +1 where p ≥ q, so that the clamp takes mass away; −1 where p < q
        beyond = tokens[:2].flip(1).cumsum(1).flip(1)  # masses of each token and all further out
        ratio = tokens[1] / tokens[0]
        self.ratio = [1.0, *ratio.tolist()]
        self.moved = (sign * (ratio * beyond[0] - beyond[1])).tolist()  # with the level at this
        self.target_mass, self.draft_mass = beyond.tolist()
        self.cost = [0.0, *tokens[2].cumsum(0).tolist()]  # divergence of the tokens before it

    def at(self, mass: float) -> tuple[float, float, float]:
        """What moves `mass`: the level, the target mass clamped to it, the cost of the others."""
        if mass <= 0 or not self.moved:
            return math.inf if self.sign > 0 else 0.0, 0.0, self.cost[-1]
        first = min(bisect_right(self.moved, -mass), len(self.moved) - 1)
        level = (self.draft_mass[first] - self.sign * mass) / self.target_mass[first]
        level = sorted((self.ratio[first], level, self.ratio[first + 1]))[1]  # else by rounding
        return level, self.target_mass[first], self.cost[first]


class _Family:
    """The laws clamp(p, q/β, q/α), told apart by the mass that they reject.

    `tokens` [3, n]: mass under the target, mass under the draft, divergence where the output is
    the draft's; of a token or of several of about equal p/q. `off_support`: draft mass at q = 0.
    """

    def __init__(self, tokens: Tensor, kind: _Divergence, off_support: float) -> None:
        ratio, order = (tokens[1] / tokens[0]).sort()
        tokens, num_under = tokens[:, order], int((ratio < 1).sum())
        self.under = _Side(tokens[:, :num_under].flip(1), -1.0)
        self.over = _Side(tokens[:, num_under:], 1.0)
        self.kind, self.off_support = kind, off_support

    def spent(self, rejected: float) -> tuple[float, float]:
        """The divergence, and its slope in `rejected`."""
        value, slopes = self.kind.off_support(self.off_support - rejected), []
        under, over = self.under.at(rejected), self.over.at(rejected - self.off_support)
        for (level, clamped, cost), limit in (under, -math.inf), (over, self.kind.price):
            value += cost + (clamped * self.kind.terms(1.0, level, math) if clamped > 0 else 0.0)
            slopes.append(self.kind.slope(level) if clamped > 0 else limit)
        return value, slopes[0] - slopes[1]

    def best(self, budget: float, keep_support: bool) -> tuple[float, float, float]:
        """1/α (infinite where no token with q > 0 is refused), 1/β and ρ that spend the budget."""
        budget = min(budget, 1e300)
        goal, slack = budget - _MARGIN - _SLACK * budget, (_MARGIN + _SLACK * budget) / 2
        low = high = self.off_support
        all_fit = low > 0 and self.spent(low)[0] <= goal  # tokens with q > 0
        if all_fit:
            low = low if keep_support or math.isinf(self.kind.price) else 0.0
        elif self.under.moved:
            high = self.under.target_mass[0] - self.under.draft_mass[0]
        rejected = _falling_root(self.spent, low, high, goal, slack)
        if rejected == high and not all_fit:
            return 1.0, 1.0, 0.0  # the acceptance cannot rise by its last bit
        above, below = self.over.at(rejected - self.off_support)[0], self.under.at(rejected)[0]
        rho = 1 - rejected / self.off_support if rejected < self.off_support else 0.0
        return above, below, rho


def _falling_root(
    curve: Callable[[float], tuple[float, float]],
    low: float,
    high: float,
    goal: float,
    slack: float,
) -> float:
    """Where a convex falling curve (value, slope) is within `slack` of `goal`, by Newton's steps.

    At `high` it is lower; that is the answer if rounding leaves nothing in between.
    """
    x = (low + high) / 2
    for _ in range(_MAX_STEPS):
        if not max(low, _SMALLEST) < x < high:
            break
        value, slope = curve(x)
        if abs(value - goal) <= slack:
            return x
        low, high = (x, high) if value > goal else (low, x)
        x += (goal - value) / slope if slope < 0 else math.inf
        if not low < x < high:  # geometric, since the answer may be extremely small
            x = math.sqrt(low * high) if low > 0 else high * high / 4
    return high


def _bin(ratio: Tensor) -> Tensor:
    """Exponent and first bits of a double: a logarithm, cut into bins, for the price of a shift."""
    coarse = ratio.view(torch.int64) >> (52 - _BIN_BITS)
    return coarse.sub_((1023 << _BIN_BITS) - _NUM_BINS // 2).clamp_(0, _NUM_BINS - 1)


def _search(
    target: Tensor, draft: Tensor, kind: _Divergence, budget: float, keep_support: bool
) -> tuple[float, float, float]:
    """What `_Family.best` says of these tokens, most of them merged to bins of about equal p/q."""
    target, draft, off_support = _on_support(target, draft)
    tokens = torch.stack([target, draft, kind.terms(target, draft, torch)])
    whole = float(tokens[2].sum()) + kind.off_support(off_support)
    if whole <= budget and not (keep_support and off_support > 0):
        return math.inf, 0.0, float(off_support > 0)
    if len(target) <= _FEW:
        return _Family(tokens, kind, off_support).best(budget, keep_support)
    bins = _bin(draft / target)
    merged = tokens.new_zeros(3, _NUM_BINS).scatter_add_(1, bins.expand(3, -1), tokens)
    filled, is_open = merged[0] > 0, torch.zeros_like(merged[0], dtype=torch.bool)
    while True:
        inside = is_open.index_select(0, bins).nonzero().squeeze(1)
        parts = torch.cat([merged[:, filled & ~is_open], tokens[:, inside]], dim=1)
        rule = _Family(parts, kind, off_support).best(budget, keep_support)
        needed = _bin(target.new_tensor(rule[:2]))
        if is_open[needed].all():
            return rule
        is_open[needed] = True


def _optimum(
    target: Tensor, draft: Tensor, kind: _Divergence, high: float, low: float, rho: float
) -> Optimum:
    ceiling, floor = target * high, target * low
    accept = (ceiling / draft).clamp_(max=1)
    output = torch.minimum(draft, ceiling).maximum(floor)
    if (outside := target == 0).any():
        accept.masked_fill_(outside, rho)
        output = torch.where(outside, draft * rho, output)
    residual = floor.sub_(draft).clamp_(min=0)
    rejected = float(residual.sum())
    if math.isinf(high):  # the largest α, and perhaps the smallest β, that do the same
        least, most = torch.aminmax(torch.div(*_on_support(target, draft)[:2]))
        high, low = max(1.0, 1 / float(least)), low or min(1.0, 1 / float(most))
    return Optimum(
        alpha=1 / high if rho == 0 else 0.0,
        beta=1 / low if low > 0 else math.inf,
        acceptance=min(1.0, float(draft @ accept)) if rejected > 0 else 1.0,
        divergence_spent=_measure(target, output, kind),
        accept_probs=accept,
        residual_probs=residual.div_(rejected) if rejected > 0 else target.clone(),
        output_probs=output,
        zero_accept=rho,
    )


def _measure(target: Tensor, output: Tensor, kind: _Divergence) -> float:
    target, output, off_support = _on_support(target, output)
    inside = float(kind.terms(target, output, torch).sum())  # below 0 by rounding alone
    return max(inside, 0.0) + kind.off_support(off_support)


def _on_support(target: Tensor, other: Tensor) -> tuple[Tensor, Tensor, float]:
    """Both laws where the target is above 0, and the other law's mass elsewhere."""
    if target.min() > 0:
        return target, other, 0.0
    outside = target == 0
    inside = (~outside).nonzero().squeeze(1)
    return target[inside], other[inside], float(other @ outside.double())


def _known(argument: str, name: str) -> _Divergence:
    if name not in DIVERGENCES:
        raise ValueError(f"{argument}={name!r} must be one of {', '.join(DIVERGENCES)}")
    return _KINDS[name]


def _laws(**laws: Law) -> tuple[Tensor, Tensor]:
    # An output law may be as small as β is large: what is left of a token's mass still counts.
    smallest = {"output_probs": 0.0}
    first, second = (_law(n, value, smallest.get(n, _SMALLEST)) for n, value in laws.items())
    if len(first) != len(second):
        lengths = f"have {len(first)} and {len(second)} entries"
        raise ValueError(f"{' and '.join(laws)} {lengths}, must have equally many")
    return first, second.to(first.device)


def _law(name: str, value: Law, smallest: float) -> Tensor:
    try:
        law = value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{name}={value!r} must be [V] numbers from 0 to 1") from error
    if law.ndim != 1 or len(law) == 0 or law.is_complex():
        raise ValueError(f"{name} is {law.dtype} {list(law.shape)}, must be real [V], V ≥ 1")
    law = law.detach().double()
    lowest, total = float(law.min()), float(law.sum())
    if not lowest >= 0:
        raise ValueError(f"{name} has an entry {lowest}, must have numbers from 0 to 1")
    if not abs(total - 1) <= _SUM_TOLERANCE:
        raise ValueError(f"{name} sums to {total}, must sum to 1 within {_SUM_TOLERANCE}")
    if abs(total - 1) > _NORMALISED:
        law = law / total
    return torch.nn.functional.threshold(law, smallest, 0.0) if lowest < smallest else law
