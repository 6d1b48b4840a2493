"""Verification: which draft tokens are kept, and what replaces the first that is not.

A token-wise rule writes only `plan`: for one position, the probability of accepting each token and
the law used after a rejection. The base class owns the draws, the first rejection, the bonus token
and the end of sequence. The rules themselves are in `verifiers`, the two exact ones here.

Notation: target_probs q and draft_probs p are laws [V] after all warping; accept_probs r [V];
residual_probs s [V]. The output law is π = p·r + s·(1 − Σ p·r).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from playground.contracts import Draft, Tested, Verdict
from playground.divergences import divergences
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
    return ratio(target_probs, draft_probs), exact_residual(target_probs, draft_probs)


def exact_residual(target_probs: Tensor, draft_probs: Tensor) -> Tensor:
    """norm(max(0, q − p)), and q where that is zero everywhere."""
    return normalised((target_probs - draft_probs).clamp_(min=0), target_probs)


class TokenwiseVerifier:
    """Base of the rules that judge one position at a time."""

    name: ClassVar[str]
    line: ClassVar[str]
    Params: ClassVar[type] = NoParams
    # The setting and its value at which the output law is exactly the target's, if there is one.
    lossless_at: ClassVar[tuple[str, float] | None] = None
    # True where accept_probs >= min(1, q/p) everywhere: the cheap exact test then comes first, and
    # `plan` runs only for a token that fails it, with the same uniform number.
    above_exact: ClassVar[bool] = False

    def __init__(self, params: Any = None) -> None:
        self.params = params if params is not None else self.Params()

    @property
    def lossless(self) -> bool:
        """Whether the output law is exactly the target's, for these settings."""
        if self.lossless_at is None:
            return False
        name, value = self.lossless_at
        return bool(getattr(self.params, name) == value)

    def plan(self, target_probs: Tensor, draft_probs: Tensor) -> tuple[Tensor, Tensor]:
        """(accept_probs [V], residual_probs [V]) for one position."""
        raise NotImplementedError

    def judge(self, test: Tested) -> tuple[float, Callable[[], Tensor]]:
        """The drafted token's own acceptance, and the residual [V] for when it is refused: what
        `plan` says, for a rule that can say it of one token at less cost to override."""
        accept_probs, residual = self.plan(test.target_probs, test.draft_probs)
        return float(accept_probs[test.token_id]), lambda: residual

    def surely_accepts(self, test: Tested) -> bool:
        """Whether the drafted token is accepted, where this can be told without `judge`."""
        return False

    def verify(
        self, draft: Draft, target_probs: Tensor, draws: Draws, eos_ids: frozenset[int]
    ) -> Verdict:
        """Judge draft.ids (k) against target_probs [k+1, V]; see `contracts.Verdict`."""
        tested: list[Tested] = []
        probs = zip(*drafted_probs(draft, target_probs), strict=True)
        exact = [min(1.0, q / d) for q, d in probs]
        rows = zip(draft.ids, target_probs.unbind(0), draft.probs, strict=False)  # and the bonus
        for i, (token, target, drafted) in enumerate(rows):
            u = draws.uniform()
            test = Tested(token, True, u, None, exact[i], target, drafted, self, draft.support)
            tested.append(test)
            if (self.above_exact and u < exact[i]) or self.surely_accepts(test):
                continue
            test.accept_prob, residual = self.judge(test)
            test.accepted = u < test.accept_prob
            if not test.accepted:
                return Verdict(tested, i, draws.categorical(residual()), "residual")
        return after_acceptance(draft, target_probs, draws, eos_ids, tested)

    def outcome(self, target_probs: Tensor, draft_probs: Tensor) -> tuple[Tensor, Tensor]:
        """(accept_probs [V], output law [V]) at one position, float64: what the rule amounts to."""
        target, draft = target_probs.double(), draft_probs.double()
        accept_probs, residual = self.plan(target, draft)
        rejected = (draft * (1.0 - accept_probs)).sum()  # 1 − Σ p·r would lose a tiny mass
        return accept_probs, draft * accept_probs + residual * rejected

    def measure(self, test: Tested, kinds: Iterable[str]) -> tuple[float, dict[str, float]]:
        """See `contracts.Verifier`."""
        accept_probs, law = self.outcome(test.target_probs, test.draft_probs)
        return float(accept_probs[test.token_id]), divergences(test.target_probs, law, kinds)

    def output_law(self, target_probs: Tensor, draft_probs: Tensor) -> Tensor:
        """The law [V] (float64) of the token that this rule emits at one position."""
        return self.outcome(target_probs, draft_probs)[1]


def drafted_probs(draft: Draft, target_probs: Tensor) -> tuple[list[float], list[float]]:
    """Probability of every drafted token under the target and under the draft: k each."""
    laws = (*target_probs[: len(draft.ids)].unbind(0), *draft.probs)
    if not laws:
        return [], []
    if target_probs.device.type == "cpu":
        found = [law.numpy().item(i) for law, i in zip(laws, draft.ids * 2, strict=True)]
    else:  # one copy to the host
        found = torch.stack([law[i] for law, i in zip(laws, draft.ids * 2, strict=True)]).tolist()
    return found[: len(draft.ids)], found[len(draft.ids) :]


def after_acceptance(
    draft: Draft, target_probs: Tensor, draws: Draws, eos_ids: frozenset[int], tested: list[Tested]
) -> Verdict:
    """All drafts were accepted: one bonus token from the target, unless the text has ended or
    (law all zero) every token is banned."""
    count, bonus = len(draft.ids), target_probs[-1]
    if (count and draft.ids[-1] in eos_ids) or not bonus.sum() > 0:
        return Verdict(tested, count, None, "accepted")
    return Verdict(tested, count, draws.categorical(bonus), "bonus" if count else "sampled")


class LawVerifier(TokenwiseVerifier):
    """Base of the rules that are speculative sampling against a law of their own: they emit it."""

    def law(self, target_probs: Tensor, draft_probs: Tensor) -> Tensor:
        """The law [V] that the emitted token follows."""
        raise NotImplementedError

    def plan(self, target_probs: Tensor, draft_probs: Tensor) -> tuple[Tensor, Tensor]:
        return exact_plan(self.law(target_probs, draft_probs), draft_probs)

    def outcome(self, target_probs: Tensor, draft_probs: Tensor) -> tuple[Tensor, Tensor]:
        draft = draft_probs.double()
        law = self.law(target_probs.double(), draft)
        return ratio(law, draft), law


class Exact(LawVerifier):
    """Speculative sampling (Leviathan et al. 2023, Chen et al. 2023)."""

    name = "exact"
    line = "Speculative sampling: the output law is the target's own."
    above_exact = True

    @property
    def lossless(self) -> bool:
        return True

    def law(self, target_probs: Tensor, draft_probs: Tensor) -> Tensor:
        return target_probs

    def judge(self, test: Tested) -> tuple[float, Callable[[], Tensor]]:
        return test.exact_accept_prob, lambda: exact_residual(test.target_probs, test.draft_probs)


class Block(Exact):
    """Block verification (Sun et al. 2024): judges the draft as a whole, exact, accepts more.

    With d the draft's law, w_0 = 1 and w_i = min(1, w_{i−1}·q_i/d_i) along the draft, the first i
    tokens are kept for the largest i with u_i < h_i, where h_i = S_i/(S_i + 1 − w_i),
    S_i = Σ max(0, w_i·q − d) at the next position, and h_k = w_k at the end of the draft. Then w_i
    is the probability of keeping at least i tokens of this draft: at an inner token the next ones
    are kept with Σ min(d, w_i·q) = w_i − S_i, and h_i fills up the rest. So the end may lie
    anywhere, as long as it is chosen from what was drafted before it: stops do not bias.
    """

    name = "block"
    line = "Judges the whole draft at once: exact, and accepts at least as much."

    def verify(
        self, draft: Draft, target_probs: Tensor, draws: Draws, eos_ids: frozenset[int]
    ) -> Verdict:
        if not draft.ids:
            return after_acceptance(draft, target_probs, draws, eos_ids, [])
        target, drafted = drafted_probs(draft, target_probs)
        weights = [1.0]
        for q, d in zip(target, drafted, strict=True):
            weights.append(min(1.0, weights[-1] * q / d))
        keep = _keep_probs(draft, target_probs, weights)
        passed = [draws.uniform() < h for h in keep]
        kept = max((i + 1 for i, good in enumerate(passed) if good), default=0)
        tested = []
        for i in range(min(kept + 1, len(draft.ids))):
            exact, accept = min(1.0, target[i] / drafted[i]), _given_tested(weights, keep, i)
            laws = target_probs[i], draft.probs[i]
            test = Tested(draft.ids[i], i < kept, None, accept, exact, *laws, self, draft.support)
            tested.append(test)
        if kept == len(draft.ids):
            return after_acceptance(draft, target_probs, draws, eos_ids, tested)
        residual = (weights[kept] * target_probs[kept] - draft.probs[kept]).clamp(min=0)
        next_id = draws.categorical(normalised(residual, target_probs[kept]))
        return Verdict(tested, kept, next_id, "residual")


def _keep_probs(draft: Draft, target_probs: Tensor, weights: list[float]) -> list[float]:
    """h_1 .. h_k of block verification."""
    inner, last = weights[1:-1], weights[-1]
    if not inner:
        return [last]
    scaled = target_probs.new_tensor(inner)[:, None] * target_probs[1 : len(draft.ids)]
    excess = (scaled - torch.stack(draft.probs[1:])).clamp(min=0).sum(1).tolist()
    rests = [s + 1.0 - w for s, w in zip(excess, inner, strict=True)]
    keep = [s / rest if rest > 0 else 1.0 for s, rest in zip(excess, rests, strict=True)]
    return [*keep, last]


def _given_tested(weights: list[float], keep: list[float], i: int) -> float:
    """Probability of keeping drafted token i where the i before it are kept: w over w plus the
    probability (1 − w)·h that the draft is cut right before it."""
    weight, cut = weights[i + 1], keep[i - 1] if i else 1.0
    total = weight + (1.0 - weight) * cut
    return weight / total if total > 0 else 0.0
