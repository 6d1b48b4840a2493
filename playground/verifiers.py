"""Verifiers: which draft tokens are kept, and what replaces the first that is not.

A token-wise rule writes only `plan`: for one position, the probability of accepting each token and
the law used after a rejection. The base class owns the draws, the first rejection, the bonus token
and the end of sequence. A new rule is one small class and one entry of `VERIFIERS`.

Notation: target_probs q and draft_probs p are laws [V] after all warping; accept_probs r [V];
residual_probs s [V]. The output law is π = p·r + s·(1 − Σ p·r).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from playground.contracts import Draft, Tested, Verdict
from playground.mentored import DIVERGENCES, Optimum, solve
from playground.params import param
from playground.sampling import Draws


@dataclass(frozen=True, slots=True)
class NoParams:
    """A rule without settings."""


def normalised(weights: Tensor, fallback: Tensor) -> Tensor:
    """weights [V] as a law; `fallback` where they are all zero (nothing is ever rejected there)."""
    total = weights.sum()
    return weights / total if total > 0 else fallback


def ratio(numerator: Tensor, denominator: Tensor) -> Tensor:
    """min(1, numerator / denominator) element-wise, with 0 / 0 = 0."""
    return (numerator / denominator).nan_to_num(0.0, posinf=1.0).clamp(max=1.0)


def exact_plan(target_probs: Tensor, draft_probs: Tensor) -> tuple[Tensor, Tensor]:
    """Leviathan et al. 2023, Chen et al. 2023: min(1, q/p); norm(max(0, q − p))."""
    residual = normalised((target_probs - draft_probs).clamp(min=0), target_probs)
    return ratio(target_probs, draft_probs), residual


class TokenwiseVerifier:
    """Base of the rules that judge one position at a time."""

    name: ClassVar[str]
    line: ClassVar[str]
    Params: ClassVar[type] = NoParams
    # True where accept_probs >= min(1, q/p) everywhere: the cheap exact test then comes first, and
    # `plan` runs only for a token that fails it, with the same uniform number.
    above_exact: ClassVar[bool] = False

    def __init__(self, params: Any = None) -> None:
        self.params = params if params is not None else self.Params()

    @property
    def lossless(self) -> bool:
        """Whether the output law is exactly the target's, for these settings."""
        return False

    def plan(self, target_probs: Tensor, draft_probs: Tensor) -> tuple[Tensor, Tensor]:
        """(accept_probs [V], residual_probs [V]) for one position."""
        raise NotImplementedError

    def verify(
        self, draft: Draft, target_probs: Tensor, draws: Draws, eos_ids: frozenset[int]
    ) -> Verdict:
        """Judge draft.ids (k) against target_probs [k+1, V]; see `contracts.Verdict`."""
        tested: list[Tested] = []
        exact = exact_acceptance(draft, target_probs)
        for i, token in enumerate(draft.ids):
            test, residual = self._test(
                token, target_probs[i], draft.probs[i], exact[i], draws.uniform()
            )
            tested.append(test)
            if not test.accepted:
                assert residual is not None
                return Verdict(tested, i, draws.categorical(residual), "residual")
        return after_acceptance(draft, target_probs, draws, eos_ids, tested)

    def _test(
        self, token: int, target_probs: Tensor, draft_probs: Tensor, exact: float, u: float
    ) -> tuple[Tested, Tensor | None]:
        record = Tested(token, True, u, None, exact, target_probs, draft_probs, self)
        if self.above_exact and u < exact:
            return record, None
        accept_probs, residual = self.plan(target_probs, draft_probs)
        record.accept_prob = float(accept_probs[token])
        record.accepted = u < record.accept_prob
        return record, residual

    def output_law(self, target_probs: Tensor, draft_probs: Tensor) -> Tensor:
        """The law [V] (float64) of the token that this rule emits at one position."""
        target, draft = target_probs.double(), draft_probs.double()
        accept_probs, residual = self.plan(target, draft)
        kept = draft * accept_probs
        return kept + residual * (1.0 - kept.sum()).clamp(min=0)


def exact_acceptance(draft: Draft, target_probs: Tensor) -> list[float]:
    """min(1, q/p) of every drafted token, in one transfer from the device."""
    if not draft.ids:
        return []
    index = torch.tensor(draft.ids, device=target_probs.device)[:, None]
    target = target_probs[:-1].gather(1, index)[:, 0]
    drafted = torch.stack([law[token] for law, token in zip(draft.probs, draft.ids, strict=True)])
    return ratio(target, drafted.to(target.device)).tolist()


def after_acceptance(
    draft: Draft, target_probs: Tensor, draws: Draws, eos_ids: frozenset[int], tested: list[Tested]
) -> Verdict:
    """All drafts were accepted: one bonus token from the target, unless the text has ended."""
    count = len(draft.ids)
    if count and draft.ids[-1] in eos_ids:
        return Verdict(tested, count, None, "accepted")
    source = "bonus" if count else "sampled"
    return Verdict(tested, count, draws.categorical(target_probs[-1]), source)  # type: ignore[arg-type]


class Exact(TokenwiseVerifier):
    name, line = "exact", "Speculative sampling: the output law is the target's own."
    above_exact = True

    @property
    def lossless(self) -> bool:
        return True

    def plan(self, target_probs: Tensor, draft_probs: Tensor) -> tuple[Tensor, Tensor]:
        return exact_plan(target_probs, draft_probs)


class Block(Exact):
    """Block verification (Sun et al. 2024): judges the draft as a whole, exact, accepts more.

    With d the draft's law: p_0 = 1, p_i = min(1, p_{i−1}·q_i/d_i) along the draft; the first i
    tokens are kept for the largest i with u_i < h_i, where h_i = S/(S + 1 − p_i),
    S = Σ max(0, p_i·q − d) at the next position, and h_k = p_k at the end of the draft.
    """

    name, line = "block", "Judges the whole draft at once: exact, and accepts at least as much."

    def verify(
        self, draft: Draft, target_probs: Tensor, draws: Draws, eos_ids: frozenset[int]
    ) -> Verdict:
        count = len(draft.ids)
        exact = exact_acceptance(draft, target_probs)
        uniforms = [draws.uniform() for _ in draft.ids]
        weights = self._weights(draft, target_probs)
        accept = [self._keep_prob(i, draft, target_probs, weights) for i in range(1, count + 1)]
        kept = max((i + 1 for i in range(count) if uniforms[i] < accept[i]), default=0)
        tested = [
            Tested(
                draft.ids[i],
                i < kept,
                uniforms[i],
                accept[i],
                exact[i],
                target_probs[i],
                draft.probs[i],
                self,
            )
            for i in range(min(kept + 1, count))
        ]
        if kept == count:
            return after_acceptance(draft, target_probs, draws, eos_ids, tested)
        residual = self._excess(kept, draft, target_probs, weights)
        next_id = draws.categorical(normalised(residual, target_probs[kept]))
        return Verdict(tested, kept, next_id, "residual")

    def _weights(self, draft: Draft, target_probs: Tensor) -> list[float]:
        weights = [1.0]
        for i, token in enumerate(draft.ids):
            target, drafted = float(target_probs[i, token]), float(draft.probs[i][token])
            weights.append(min(1.0, weights[-1] * target / drafted))
        return weights

    def _excess(self, i: int, draft: Draft, target_probs: Tensor, weights: list[float]) -> Tensor:
        return (weights[i] * target_probs[i] - draft.probs[i]).clamp(min=0)

    def _keep_prob(self, i: int, draft: Draft, target_probs: Tensor, weights: list[float]) -> float:
        if i == len(draft.ids):
            return weights[i]
        excess = float(self._excess(i, draft, target_probs, weights).sum())
        denominator = excess + 1.0 - weights[i]
        return excess / denominator if denominator > 0 else 1.0


@dataclass(frozen=True, slots=True)
class MentoredParams:
    """Settings of mentored verification."""

    divergence_budget: float = param(
        0.2,
        "D: how far the output law may depart from the target's, per token; 0 is lossless.",
        label="Budget D",
        min=0.0,
        max=100.0,
        step=0.05,
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

    name, line = (
        "mentored",
        "Departs from the target by at most D per token, to accept the most drafts.",
    )
    Params = MentoredParams
    above_exact = True

    @property
    def lossless(self) -> bool:
        return bool(self.params.divergence_budget == 0)

    def optimum(self, target_probs: Tensor, draft_probs: Tensor) -> Optimum:
        """The optimum at one position, for these settings."""
        p = self.params
        return solve(target_probs, draft_probs, p.divergence_budget, p.divergence, p.keep_support)

    def plan(self, target_probs: Tensor, draft_probs: Tensor) -> tuple[Tensor, Tensor]:
        if self.lossless:
            return exact_plan(target_probs, draft_probs)
        best = self.optimum(target_probs, draft_probs)
        return best.accept_probs, best.residual_probs

    def output_law(self, target_probs: Tensor, draft_probs: Tensor) -> Tensor:
        return self.optimum(target_probs, draft_probs).output_probs


@dataclass(frozen=True, slots=True)
class LenienceParams:
    lenience: float = param(
        0.5,
        "λ: accepts with probability q/(λp); 1 is lossless.",
        label="Lenience λ",
        min=0.01,
        max=1.0,
        step=0.05,
    )


class Lenience(TokenwiseVerifier):
    """Leviathan et al. 2023, appendix A.5."""

    name, line = "lenience", "Accepts as if the draft were λ times as likely; corrects as usual."
    Params = LenienceParams
    above_exact = True

    @property
    def lossless(self) -> bool:
        return bool(self.params.lenience == 1)

    def plan(self, target_probs: Tensor, draft_probs: Tensor) -> tuple[Tensor, Tensor]:
        _, residual = exact_plan(target_probs, draft_probs)
        return ratio(target_probs, self.params.lenience * draft_probs), residual


@dataclass(frozen=True, slots=True)
class EnsembleParams:
    target_weight: float = param(
        0.7,
        "w: verifies against w·target + (1−w)·draft; 1 is lossless.",
        label="Target weight",
        min=0.0,
        max=1.0,
        step=0.05,
    )


class Ensemble(TokenwiseVerifier):
    """Verification against a mixture of both laws: optimal for total variation."""

    name, line = "ensemble", "Verifies against a mixture of target and draft."
    Params = EnsembleParams
    above_exact = True

    @property
    def lossless(self) -> bool:
        return bool(self.params.target_weight == 1)

    def plan(self, target_probs: Tensor, draft_probs: Tensor) -> tuple[Tensor, Tensor]:
        weight = self.params.target_weight
        return exact_plan(weight * target_probs + (1 - weight) * draft_probs, draft_probs)


@dataclass(frozen=True, slots=True)
class TypicalParams:
    typical_epsilon: float = param(
        0.09,
        "ε: accepts what the target gives at least this.",
        label="ε",
        min=0.0,
        max=1.0,
        step=0.01,
    )
    typical_delta: float = param(
        0.3, "δ: or at least δ·exp(−entropy of the target).", label="δ", min=0.0, max=1.0, step=0.05
    )


class Typical(TokenwiseVerifier):
    """Typical acceptance (Medusa, Cai et al. 2024)."""

    name, line = "typical", "Accepts tokens that are probable enough for the target's entropy."
    Params = TypicalParams

    def plan(self, target_probs: Tensor, draft_probs: Tensor) -> tuple[Tensor, Tensor]:
        entropy = torch.special.entr(target_probs).sum()
        bound = (self.params.typical_delta * (-entropy).exp()).clamp(
            max=self.params.typical_epsilon
        )
        return (target_probs > bound).to(target_probs.dtype), target_probs


@dataclass(frozen=True, slots=True)
class TopKParams:
    accept_top_k: int = param(
        5, "Accepts the target's k most probable tokens.", label="Accept top k", min=1, max=1000
    )


class TopK(TokenwiseVerifier):
    """Top-k acceptance. A token that the warped target excludes is never among its top k."""

    name, line = "top_k", "Accepts a token if it is among the target's k most probable."
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
    relaxed_top_n: int = param(
        10, "N: accepts only among the target's N most probable.", label="Top N", min=1, max=1000
    )
    relaxed_delta: float = param(
        0.6,
        "Δ: and no more than this below the most probable one.",
        label="Δ",
        min=0.0,
        max=1.0,
        step=0.05,
    )


class Relaxed(TokenwiseVerifier):
    """Relaxed acceptance (TensorRT-LLM)."""

    name, line = "relaxed", "Accepts near-best tokens of the target; corrects with its best."
    Params = RelaxedParams

    def plan(self, target_probs: Tensor, draft_probs: Tensor) -> tuple[Tensor, Tensor]:
        among = _top_mask(target_probs, self.params.relaxed_top_n)
        near = target_probs >= target_probs.max() - self.params.relaxed_delta
        return among * near, _top_mask(target_probs, 1)


@dataclass(frozen=True, slots=True)
class CactusParams:
    cactus_delta: float = param(
        0.1,
        "δ: the budget of the drafted token; 0 is lossless.",
        label="δ",
        min=0.0,
        max=10.0,
        step=0.05,
    )


class Cactus(TokenwiseVerifier):
    """Cactus (Hao & Mou 2026, arXiv 2604.04987).

    A drafted x is judged against h: h_x = min(1, q_x + √(2δ·q_x(1−q_x))), the other tokens scaled
    to the rest. The residual norm(max(0, h − p)) depends on the rejected x; `plan` returns its mean
    over rejected tokens, which gives the emitted token the same law.
    """

    name, line = (
        "cactus",
        "Raises the drafted token's target probability within a divergence bound.",
    )
    Params = CactusParams
    above_exact = True

    @property
    def lossless(self) -> bool:
        return bool(self.params.cactus_delta == 0)

    def plan(self, target_probs: Tensor, draft_probs: Tensor) -> tuple[Tensor, Tensor]:
        spread = (
            (2 * self.params.cactus_delta * target_probs * (1 - target_probs)).clamp(min=0).sqrt()
        )
        raised = (target_probs + spread).clamp(max=1.0)
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
    cascade_alpha: float = param(
        0.5,
        "α: trusts the draft on tokens the target gives at least (1−α) of its maximum.",
        label="α",
        min=0.0,
        max=1.0,
        step=0.05,
    )


class Cascade(TokenwiseVerifier):
    """Speculative cascade, token-specific rule (Narasimhan et al. 2024).

    Keep set T = {v: q ≥ (1−α)·max q}; output law = p on T, plus (mass of p outside T)·q.
    """

    name, line = "cascade", "Trusts the draft where the target finds its token good enough."
    Params = CascadeParams

    def plan(self, target_probs: Tensor, draft_probs: Tensor) -> tuple[Tensor, Tensor]:
        keep = target_probs >= (1 - self.params.cascade_alpha) * target_probs.max()
        trusted = draft_probs * (keep & (target_probs > 0))
        law = trusted + (1 - trusted.sum()).clamp(min=0) * target_probs
        return exact_plan(law, draft_probs)


_RULES = (Exact, Block, Mentored, Lenience, Ensemble, Typical, TopK, Relaxed, Cactus, Cascade)
VERIFIERS: dict[str, Any] = {cls.name: cls for cls in _RULES}
