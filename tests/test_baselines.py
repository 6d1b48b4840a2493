"""playground/baselines.py: the published search ends as near to its budget as it says."""

import math

import pytest
import torch
from torch import Tensor

from playground.baselines import sort_and_bisect
from playground.mentored import divergence, solve


def laws(seed: int, size: int) -> tuple[Tensor, Tensor]:
    noise = torch.Generator().manual_seed(seed)
    first, second = (torch.randn(size, generator=noise) for _ in range(2))
    return first.softmax(0), (first + second).softmax(0)


def output_law(target: Tensor, draft: Tensor, budget: float) -> Tensor:
    found = sort_and_bisect(target, draft, budget)
    accept = (target / (found.alpha * draft)).clamp(max=1).nan_to_num(0.0).double()
    output = draft * accept + found.residual_probs * (1 - (draft * accept).sum())
    return output / output.sum()


@pytest.mark.parametrize("size", [20, 1000, 49_152])
@pytest.mark.parametrize("budget", [0.02, 0.05, 0.15])
@pytest.mark.parametrize("seed", range(3))
def test_ends_within_the_tolerance_of_the_budget(size: int, budget: float, seed: int) -> None:
    target, draft = laws(seed, size)
    found = sort_and_bisect(target, draft, budget)
    spent = divergence(target, output_law(target, draft, budget), "kl")
    assert spent == pytest.approx(found.divergence_spent, abs=1e-4)
    assert 0.8 * budget - 1e-4 <= spent <= 1.2 * budget + 1e-4
    assert found.acceptance == pytest.approx(
        solve(target, draft, found.divergence_spent).acceptance, abs=1e-3
    )


def test_takes_a_draft_that_is_near_enough() -> None:
    target, draft = laws(0, 50)
    whole = divergence(target, draft, "kl")
    found = sort_and_bisect(target, draft, whole)
    assert found.acceptance == 1 and found.divergence_spent == pytest.approx(whole, abs=1e-6)
    assert sort_and_bisect(target, draft, whole / 1.19).divergence_spent > whole / 1.19  # too much


def test_laws_may_lack_tokens() -> None:
    target, draft = laws(0, 50)
    target[:5], draft[3:12] = 0, 0
    target, draft = target / target.sum(), draft / draft.sum()
    found = sort_and_bisect(target, draft, 0.1)
    assert 0.08 <= divergence(target, output_law(target, draft, 0.1), "kl") <= 0.12
    assert math.isfinite(found.beta) and found.residual_probs[:3].sum() == 0
