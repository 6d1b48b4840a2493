"""Verification rules: VERIFIERS. A new one is one small class and one entry.

A rule is a `plan`: for laws q of the target and p of the draft, both [V] after all warping, the
probability r of accepting each token and the law s used after a rejection; see `verification`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from playground.contracts import Tested
from playground.mentored import DIVERGENCES, Solution, solution, surely_accepts
from playground.params import param
from playground.verification import (
    Block,
    Exact,
    LawVerifier,
    TokenwiseVerifier,
    exact_plan,
    normalised,
    ratio,
)


def _knob(
    default: float, label: str, help: str, low: float = 0.0, high: float = 1.0, step: float = 0.05
) -> Any:
    """A rule's setting: a number from `low` to `high`."""
    return param(default, help, label=label, min=low, max=high, step=step)


@dataclass(frozen=True, slots=True)
class MentoredParams:
    """Settings of mentored verification."""

    divergence_budget: float = _knob(
        0.2,
        "Budget D",
        "D: how far the output law may depart from the target's, per token; 0 is lossless.",
        high=100.0,
    )
    divergence: str = param(
        "kl",
        "What the budget counts; kl is KL(target‖output) in nats.",
        label="Divergence",
        choices=DIVERGENCES,
    )
    keep_support: bool = param(
        True, "Never emit a token that the target's warped law excludes.", label="Keep the support"
    )


class Mentored(TokenwiseVerifier):
    """Mentored decoding (Tran-Thien 2023): accepts most within a divergence budget per token."""

    name = "mentored"
    line = "Departs from the target by at most D per token, to accept the most drafts."
    Params = MentoredParams
    lossless_at = ("divergence_budget", 0)
    above_exact = True

    def solution(
        self, target_probs: Tensor, draft_probs: Tensor, support: Tensor | None = None
    ) -> Solution:
        """The optimum at one position, for these settings."""
        p, laws = self.params, (target_probs, draft_probs)
        return solution(*laws, p.divergence_budget, p.divergence, p.keep_support, support)

    def plan(self, target_probs: Tensor, draft_probs: Tensor) -> tuple[Tensor, Tensor]:
        if self.lossless:
            return exact_plan(target_probs, draft_probs)
        best = self.solution(target_probs, draft_probs).optimum()
        return best.accept_probs, best.residual_probs

    def surely_accepts(self, test: Tested) -> bool:
        p, u, laws = self.params, test.u, (test.target_probs, test.draft_probs)
        # Tests enumerate what can happen by a u that is no number.
        if not isinstance(u, float) or self.lossless or laws[0].device.type != "cpu":
            return False
        return surely_accepts(
            *laws, test.token_id, u, p.divergence_budget, p.divergence, test.support
        )

    def judge(self, test: Tested) -> tuple[float, Callable[[], Tensor]]:
        if self.lossless:
            return super().judge(test)
        found = test.solution = self._solved(test)
        return found.accept_prob(test.token_id), found.residual

    def outcome(self, target_probs: Tensor, draft_probs: Tensor) -> tuple[Tensor, Tensor]:
        best = self.solution(target_probs, draft_probs).optimum()
        return best.accept_probs, best.output_probs

    def measure(self, test: Tested, kinds: Iterable[str]) -> tuple[float, dict[str, float]]:
        found = test.solution or self._solved(test)
        return found.accept_prob(test.token_id), found.divergences(kinds)

    def _solved(self, test: Tested) -> Solution:
        return self.solution(test.target_probs, test.draft_probs, test.support)


@dataclass(frozen=True, slots=True)
class LenienceParams:
    """Settings of lenient verification."""

    lenience: float = _knob(
        0.5, "Lenience λ", "λ: accepts with probability q/(λp); 1 is lossless.", low=0.01
    )


class Lenience(TokenwiseVerifier):
    """Leviathan et al. 2023, appendix A.5."""

    name = "lenience"
    line = "Accepts as if the draft were λ times as likely; corrects as usual."
    Params = LenienceParams
    lossless_at = ("lenience", 1)
    above_exact = True

    def plan(self, target_probs: Tensor, draft_probs: Tensor) -> tuple[Tensor, Tensor]:
        _, residual = exact_plan(target_probs, draft_probs)
        return ratio(target_probs, self.params.lenience * draft_probs), residual


@dataclass(frozen=True, slots=True)
class EnsembleParams:
    """Settings of verification against a mixture."""

    target_weight: float = _knob(
        0.7, "Target weight", "w: verifies against w·target + (1−w)·draft; 1 is lossless."
    )


class Ensemble(LawVerifier):
    """Verification against a mixture of both laws: optimal for total variation."""

    name = "ensemble"
    line = "Verifies against a mixture of target and draft."
    Params = EnsembleParams
    lossless_at = ("target_weight", 1)
    above_exact = True

    def law(self, target_probs: Tensor, draft_probs: Tensor) -> Tensor:
        weight = self.params.target_weight
        return weight * target_probs + (1 - weight) * draft_probs


@dataclass(frozen=True, slots=True)
class TypicalParams:
    """Settings of typical acceptance."""

    typical_epsilon: float = _knob(
        0.09, "ε", "ε: accepts what the target gives more than this.", step=0.01
    )
    typical_delta: float = _knob(0.3, "δ", "δ: or more than δ·exp(−entropy of the target).")


class Typical(TokenwiseVerifier):
    """Typical acceptance (Medusa, Cai et al. 2024): q > min(ε, δ·exp(−H)), else a draw from q."""

    name = "typical"
    line = "Accepts tokens that are probable enough for the target's entropy."
    Params = TypicalParams

    def plan(self, target_probs: Tensor, draft_probs: Tensor) -> tuple[Tensor, Tensor]:
        p, entropy = self.params, torch.special.entr(target_probs).sum()
        bound = (p.typical_delta * (-entropy).exp()).clamp(max=p.typical_epsilon)
        return (target_probs > bound).to(target_probs.dtype), target_probs


@dataclass(frozen=True, slots=True)
class TopKParams:
    """Settings of top-k acceptance."""

    accept_top_k: int = _knob(
        5, "Accept top k", "Accepts the target's k most probable tokens.", 1, 1000, step=1
    )


class TopK(TokenwiseVerifier):
    """Top-k acceptance. A token that the warped target excludes is never among its top k."""

    name = "top_k"
    line = "Accepts a token if it is among the target's k most probable."
    Params = TopKParams

    def plan(self, target_probs: Tensor, draft_probs: Tensor) -> tuple[Tensor, Tensor]:
        among = _top_mask(target_probs, self.params.accept_top_k)
        residual = normalised((among * target_probs - draft_probs).clamp(min=0), target_probs)
        return among, residual


def _top_mask(probs: Tensor, k: int) -> Tensor:
    """1 for the k largest positive entries of probs [V], else 0."""
    values, index = probs.topk(min(k, len(probs)))
    return torch.zeros_like(probs).scatter(0, index, (values > 0).to(probs.dtype))


@dataclass(frozen=True, slots=True)
class RelaxedParams:
    """Settings of relaxed acceptance."""

    relaxed_top_n: int = _knob(
        10, "Top N", "N: accepts only among the target's N most probable.", 1, 1000, step=1
    )
    relaxed_delta: float = _knob(0.6, "Δ", "Δ: and no more than this below the most probable one.")


class Relaxed(TokenwiseVerifier):
    """Relaxed acceptance (TensorRT-LLM): in the top N and q ≥ max q − Δ, else the argmax."""

    name = "relaxed"
    line = "Accepts near-best tokens of the target; corrects with its best."
    Params = RelaxedParams

    def plan(self, target_probs: Tensor, draft_probs: Tensor) -> tuple[Tensor, Tensor]:
        among = _top_mask(target_probs, self.params.relaxed_top_n)
        near = target_probs >= target_probs.max() - self.params.relaxed_delta
        return among * near, _top_mask(target_probs, 1)


@dataclass(frozen=True, slots=True)
class CactusParams:
    """Settings of Cactus."""

    cactus_delta: float = _knob(
        0.1, "δ", "δ: the budget of the drafted token; 0 is lossless.", high=10.0
    )


class Cactus(TokenwiseVerifier):
    """Cactus (Hao & Mou 2026, arXiv 2604.04987).

    A drafted x is judged against h: h_x = min(1, q_x + √(2δ·q_x(1−q_x))), the other tokens scaled
    to the rest. The residual norm(max(0, h − p)) depends on the rejected x; `plan` returns its mean
    over rejected tokens, which gives the emitted token the same law.
    """

    name = "cactus"
    line = "Raises the drafted token's target probability within a divergence bound."
    Params = CactusParams
    lossless_at = ("cactus_delta", 0)
    above_exact = True

    def plan(self, target_probs: Tensor, draft_probs: Tensor) -> tuple[Tensor, Tensor]:
        variance = (target_probs * (1 - target_probs)).clamp(min=0)
        raised = (target_probs + (2 * self.params.cactus_delta * variance).sqrt()).clamp(max=1.0)
        accept = ratio(raised, draft_probs)
        rejected = draft_probs * (1 - accept)
        scale = ((1 - raised) / (1 - target_probs)).nan_to_num(0.0)
        return accept, _mean_residual(target_probs, draft_probs, rejected, scale)


def _mean_residual(target: Tensor, draft: Tensor, rejected: Tensor, scale: Tensor) -> Tensor:
    """Σ_x rejected_x · norm(max(0, scale_x·target − draft)), as a law [V], in O(V log V).

    Each term is piecewise linear in scale_x, so sums over tokens sorted by draft/target, and over
    rejected tokens sorted by scale, replace the double loop.
    """
    rows = (rejected > 0).nonzero()[:, 0]
    if not len(rows):
        return target
    target, draft = target.double(), draft.double()
    weight, scale = rejected[rows].double(), scale[rows].double()
    order = torch.argsort(threshold := draft / target.clamp(min=1e-300))
    zero = target.new_zeros(1)
    target_sum = torch.cat((zero, target[order].cumsum(0)))
    draft_sum = torch.cat((zero, draft[order].cumsum(0)))
    count = torch.searchsorted(threshold[order], scale)  # tokens with draft < scale·target
    total = scale * target_sum[count] - draft_sum[count]
    share = torch.where(total > 0, weight / total, 0.0)
    by_scale = torch.argsort(scale)
    first = torch.searchsorted(scale[by_scale], threshold, right=True)
    slope = torch.cat((zero, (share * scale)[by_scale].cumsum(0)))
    offset = torch.cat((zero, share[by_scale].cumsum(0)))
    mean = target * (slope[-1] - slope[first]) - draft * (offset[-1] - offset[first])
    return normalised(mean.clamp(min=0), target)


@dataclass(frozen=True, slots=True)
class CascadeParams:
    """Settings of the speculative cascade."""

    cascade_alpha: float = _knob(
        0.5, "α", "α: trusts the draft on tokens the target gives at least (1−α) of its maximum."
    )


class Cascade(LawVerifier):
    """Speculative cascade, token-specific rule (Narasimhan et al. 2024).

    Keep set T = {v: q ≥ (1−α)·max q, q > 0}; output law = p on T, plus (mass of p outside T)·q.
    """

    name = "cascade"
    line = "Trusts the draft where the target finds its token good enough."
    Params = CascadeParams

    def law(self, target_probs: Tensor, draft_probs: Tensor) -> Tensor:
        bound = (1 - self.params.cascade_alpha) * target_probs.max()
        keep = (target_probs >= bound) & (target_probs > 0)
        trusted = draft_probs * keep
        return trusted + (draft_probs - trusted).sum() * target_probs


_RULES = (Exact, Block, Mentored, Lenience, Ensemble, Typical, TopK, Relaxed, Cactus, Cascade)
VERIFIERS: dict[str, Any] = {cls.name: cls for cls in _RULES}
