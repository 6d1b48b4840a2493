"""Published algorithms, as ours are measured against them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

_STEPS = 10


@dataclass(frozen=True, slots=True, eq=False)
class Bisected:
    """A rule r = min(1, q/(α·p)) with its residual [V]; `mentored.Optimum` explains the names."""

    alpha: float
    beta: float
    acceptance: float
    divergence_spent: float
    residual_probs: Tensor


def sort_and_bisect(
    target_probs: Tensor, draft_probs: Tensor, budget: float, tolerance: float = 0.2
) -> Bisected:
    """Mentored decoding as published: sort by q/p, then bisect on α until KL(q‖π) is near D.

    Laws q and p are tensors [V], D = `budget` > 0 in nats. The mass that α rejects fixes β; each
    step looks for both levels in all V tokens. It ends within `tolerance` of D, relative, below or
    above, or after ten steps with the best rule below that. After Tran-Thien 2023, the notebook at
    github.com/vivien000/mentored_decoding, whose operations these are; but β is the proof's, where
    the notebook counts one token too many, and tokens may have probability 0.
    """
    laws = _SortedLaws(target_probs, draft_probs)
    if laws.whole <= budget * (1 + tolerance):
        return Bisected(laws.level(0), laws.level(-1), 1.0, laws.whole, target_probs)
    low, high, best = 0.0, 1.0, laws.at(1.0)
    for _ in range(_STEPS):
        alpha = (low + high) / 2
        beta, rejected, spent = laws.at(alpha)
        if spent > budget * (1 + tolerance):
            low = alpha
            continue
        high, best = alpha, (beta, rejected, spent)
        if spent >= budget * (1 - tolerance):
            break
    beta, rejected, spent = best
    residual = (target_probs / beta - draft_probs).clamp_(min=0)
    total = residual.sum()
    residual = residual / total if total > 0 else target_probs
    return Bisected(high, beta, 1 - rejected, spent, residual)


class _SortedLaws:
    """Both laws in the order of q/p, with running sums from either end."""

    def __init__(self, target: Tensor, draft: Tensor) -> None:
        ratio = (target / draft).nan_to_num_(1.0, posinf=math.inf)
        self.ratio, order = ratio.sort()
        target, draft = target[order], draft[order]
        cost = target * self.ratio.clamp(min=torch.finfo(target.dtype).tiny).log()
        self.cost = cost.cumsum(0)
        self.whole = float(self.cost[-1])  # the divergence of the draft's own law
        self.target_to, self.draft_to = target.cumsum(0), draft.cumsum(0)
        self.target_from = target.flip(0).cumsum(0).flip(0)
        self.draft_from = draft.flip(0).cumsum(0).flip(0)
        self.moved = self.target_from / self.ratio - self.draft_from  # by β at each token's q/p

    def level(self, index: int) -> float:
        return float(self.ratio[index])

    def at(self, alpha: float) -> tuple[float, float, float]:
        """β, the rejected mass and the divergence."""
        over = (self.ratio <= alpha).nonzero()
        if not len(over):
            return math.inf, 0.0, self.whole
        last = int(over[-1])
        rejected = float(self.draft_to[last] - self.target_to[last] / alpha)
        under = (self.moved <= rejected).nonzero()
        first = int(under[0]) if len(under) else len(self.ratio) - 1
        beta = float(self.target_from[first] / (rejected + self.draft_from[first]))
        spent = float(self.target_to[last]) * math.log(alpha) - float(self.cost[last])
        spent += float(self.cost[first - 1]) + float(self.target_from[first]) * math.log(beta)
        return beta, rejected, spent
