"""Two laws in a few numbers: what stays exact, and how close the rest is."""

from __future__ import annotations

import json
import math

import pytest
import torch
from torch import Tensor

from playground.laws import summarise
from playground.mentored import solve
from playground.types import LawSummary, to_json

VOCAB = 20_000


def laws(seed: int, scale: float = 3.0, top: int | None = None) -> tuple[Tensor, Tensor]:
    """A target and a draft that resembles it, as models give them: single precision, long tails."""
    source = torch.Generator().manual_seed(seed)
    first = scale * torch.randn(VOCAB, generator=source)
    logits = torch.stack([first, first + torch.randn(VOCAB, generator=source)])
    if top is not None:
        floor = logits.topk(top).values[:, -1:]
        logits = logits.masked_fill(logits < floor, -math.inf)
    target, draft = logits.softmax(-1)
    return target, draft


def largest(target: Tensor, draft: Tensor, count: int = 12) -> list[int]:
    return sorted({*target.topk(count).indices.tolist(), *draft.topk(count).indices.tolist()})


def whole(summary: LawSummary) -> tuple[list[float], list[float]]:
    return (
        [*summary.target_probs, *summary.rest_target_probs],
        [*summary.draft_probs, *summary.rest_draft_probs],
    )


CASES = [(seed, scale, top) for seed in range(3) for scale in (1.0, 3.0) for top in (None, 40)]


@pytest.mark.parametrize(("seed", "scale", "top"), CASES)
class TestSummary:
    def test_every_token_and_all_mass_is_in_it(
        self, seed: int, scale: float, top: int | None
    ) -> None:
        target, draft = laws(seed, scale, top)
        listed = largest(target, draft)
        summary = summarise(target, draft, listed)
        assert list(summary.token_ids) == listed
        assert summary.target_probs == pytest.approx(target[listed].tolist(), rel=1e-6)
        assert summary.draft_probs == pytest.approx(draft[listed].tolist(), rel=1e-6)
        possible = int(((target > 0) | (draft > 0)).sum())
        alone = sum(p + q > 0 for p, q in zip(*whole(summary), strict=True)) - len(
            summary.rest_sizes
        )
        assert sum(summary.rest_sizes) + alone == possible
        for kept, law in zip(whole(summary), (target, draft), strict=True):
            assert math.fsum(kept) == pytest.approx(float(law.double().sum()), abs=1e-6)

    def test_the_overlap_is_exact(self, seed: int, scale: float, top: int | None) -> None:
        """So no group straddles equality, and exact acceptance is that of the full laws."""
        target, draft = laws(seed, scale, top)
        summary = summarise(target, draft, largest(target, draft))
        overlap = math.fsum(map(min, *whole(summary)))
        assert overlap == pytest.approx(
            float(target.double().minimum(draft.double()).sum()), abs=1e-6
        )
        assert solve(*whole(summary), 0.0).acceptance == pytest.approx(
            solve(target, draft, 0.0).acceptance, abs=1e-6
        )

    def test_tokens_that_one_law_excludes_are_apart(
        self, seed: int, scale: float, top: int | None
    ) -> None:
        target, draft = laws(seed, scale, top)
        summary = summarise(target, draft, largest(target, draft))
        kept_target, kept_draft = whole(summary)
        for law, other, kept, kept_other in (
            (target, draft, kept_target, kept_draft),
            (draft, target, kept_draft, kept_target),
        ):
            mass = math.fsum(o for k, o in zip(kept, kept_other, strict=True) if k == 0)
            assert mass == pytest.approx(float(other[law == 0].double().sum()), abs=1e-6)

    def test_a_known_support_of_the_draft_loses_nothing(
        self, seed: int, scale: float, top: int | None
    ) -> None:
        target, draft = laws(seed, scale, top)
        support = torch.arange(seed, VOCAB, 3)
        cut = torch.zeros(VOCAB).index_copy(0, support, draft[support] / draft[support].sum())
        listed = largest(target, cut)
        found, expected = summarise(target, cut, listed, support), summarise(target, cut, listed)
        assert found.token_ids == expected.token_ids and found.target_probs == expected.target_probs
        assert sum(found.rest_sizes) == sum(expected.rest_sizes)
        alone = [
            sum(p for p, q in zip(*whole(s), strict=True) if q == 0) for s in (found, expected)
        ]
        assert alone[0] == pytest.approx(alone[1], rel=1e-6, abs=1e-12)
        overlaps = [math.fsum(map(min, *whole(s))) for s in (found, expected)]
        assert overlaps[0] == pytest.approx(overlaps[1], abs=1e-6)

    @pytest.mark.parametrize("budget", [0.05, 0.2, 1.0])
    def test_acceptance_is_close_above_zero(
        self, seed: int, scale: float, top: int | None, budget: float
    ) -> None:
        """Measured on real laws of the chat pair: 0.0004 on average at temperature 0.7 and 0.003
        at 1, 0.013 at most."""
        target, draft = laws(seed, scale, top)
        summary = summarise(target, draft, largest(target, draft))
        found, full = (
            solve(*pair, budget).acceptance for pair in (whole(summary), (target, draft))
        )
        assert found == pytest.approx(full, abs=0.02)

    def test_it_is_small_in_strict_json(self, seed: int, scale: float, top: int | None) -> None:
        target, draft = laws(seed, scale, top)
        text = json.dumps(
            to_json(summarise(target, draft, largest(target, draft))), allow_nan=False
        )
        assert len(text) < 1500


def test_one_hot_laws_have_no_rest() -> None:
    target, draft = torch.eye(8)[2], torch.eye(8)[5]
    summary = summarise(target, draft, [2, 5])
    assert summary.target_probs == (1.0, 0.0) and summary.draft_probs == (0.0, 1.0)
    assert summary.rest_sizes == ()


def test_equal_laws_lose_nothing() -> None:
    target, _ = laws(0)
    summary = summarise(target, target, [0, 1])
    assert summary.rest_target_probs == summary.rest_draft_probs
    assert sum(summary.rest_sizes) == VOCAB - 2


def test_groups_are_in_the_order_of_their_ratio() -> None:
    summary = summarise(*laws(1), [])
    ratios = [
        p / q if q else math.inf
        for q, p in zip(summary.rest_target_probs, summary.rest_draft_probs, strict=True)
    ]
    assert ratios == sorted(ratios) and 2 <= len(ratios) <= 12
