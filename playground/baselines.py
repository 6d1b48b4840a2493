"""Published algorithms that ours are measured against."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

_MAX_STEPS = 60


@dataclass(frozen=True, slots=True, eq=False)
class Bisected:
    """A rule found by bisection; `mentored.Optimum` says what the names mean."""

    alpha: float
    beta: float
    acceptance: float
    divergence_spent: float
    accept_probs: Tensor
    residual_probs: Tensor


def sort_and_bisect(
    target_probs: Tensor, draft_probs: Tensor, budget: float, tolerance: float = 0.2
) -> Bisected:
    """Mentored decoding as it was published: sort by q/p, then bisect on α until KL(q‖π) is near D.

    Laws q and p are tensors [V], D = `budget` > 0 in nats. The mass that α rejects fixes β. The
    search ends as soon as the divergence is within `tolerance` of D, relative, from below or above.
    After the notebook of Tran-Thien 2023, kindly read: β is the proof's, where the notebook is off
    by one token, and each step costs O(log V), by running sums over the sorted tokens.
    """
    laws = _SortedLaws(target_probs, draft_probs)
    if laws.whole <= budget:
        return _taken_whole(target_probs, draft_probs, laws.whole)
    low, high = 0.0, 1.0
    for _ in range(_MAX_STEPS):
        alpha = (low + high) / 2
        beta, spent = laws.at(alpha)
        if abs(spent - budget) <= tolerance * budget:
            break
        low, high = (alpha, high) if spent > budget else (low, alpha)
    else:  # rounding leaves nothing in between
        alpha = high
        beta, spent = laws.at(alpha)
    accept = (target_probs / (alpha * draft_probs)).nan_to_num_(0.0).clamp_(max=1)
    residual = (target_probs / beta - draft_probs).clamp_(min=0)
    total = residual.sum()
    residual = residual / total if total > 0 else target_probs
    return Bisected(alpha, beta, float(accept @ draft_probs), spent, accept, residual)


def _taken_whole(target_probs: Tensor, draft_probs: Tensor, spent: float) -> Bisected:
    ratio = (target_probs / draft_probs).nan_to_num(1.0)
    return Bisected(
        alpha=min(1.0, float(ratio.min())),
        beta=max(1.0, float(ratio.max())),
        acceptance=1.0,
        divergence_spent=spent,
        accept_probs=torch.ones_like(draft_probs),
        residual_probs=target_probs,
    )


class _SortedLaws:
    """Both laws in the order of q/p, with running sums."""

    def __init__(self, target: Tensor, draft: Tensor) -> None:
        limits = torch.finfo(target.dtype)
        ratio = (target / draft).nan_to_num_(1.0, posinf=limits.max)
        cost = target * ratio.clamp(min=limits.tiny).log()  # of a token that is left to the draft
        self.ratio, order = ratio.sort()
        tokens = torch.stack([target, draft, cost])[:, order]
        sums = tokens.cumsum(1, dtype=torch.float64)
        self.before = torch.nn.functional.pad(sums, (1, 0))  # [3, V + 1]: over the tokens before
        self.after = sums[:, -1:] - self.before  # from this token on
        lacks = float(self.ratio[-1]) == limits.max
        self.whole = math.inf if lacks else float(sums[2, -1])
        self.middle = int(torch.searchsorted(self.ratio, 1.0))
        under = self.after[:, self.middle : -1]
        self.unmoved = under[1] - under[0] / self.ratio[self.middle :]  # rises with β

    def at(self, alpha: float) -> tuple[float, float]:
        """β and the divergence."""
        first = int(torch.searchsorted(self.ratio, alpha))
        over_target, over_draft, over_cost = self.before[:, first].tolist()
        rejected = over_draft - over_target / alpha
        if rejected <= 0:
            return math.inf, self.whole
        last = self.middle + int(torch.searchsorted(self.unmoved, -rejected, right=True))
        under_target, under_draft, _ = self.after[:, last].tolist()
        beta = max(1.0, under_target / (rejected + under_draft))
        between = float(self.before[2, last]) - over_cost
        return beta, over_target * math.log(alpha) + between + under_target * math.log(beta)
