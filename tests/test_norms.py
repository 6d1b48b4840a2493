"""Norms by fewer kernels are the norms."""

import pytest
import torch
import torch.nn.functional as F

from playground.norms import Norm, RowNorm, UnitNorm, far_from_zero, unit


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.bfloat16, 2**-7)], ids=str
)
@pytest.mark.parametrize("eps", [1e-6, 1e-2])
def test_both_are_rms_norm(dtype: torch.dtype, tolerance: float, eps: float) -> None:
    torch.manual_seed(0)
    rows, weight = torch.randn(5, 48).to(dtype) * 0.1, torch.rand(48).to(dtype)
    expected = F.rms_norm(rows.double(), (48,), weight.double(), eps)
    for found in Norm(weight, eps)(rows), RowNorm(weight, eps, 2.0)(rows) / 2:
        assert found.dtype == dtype
        torch.testing.assert_close(found.double(), expected, atol=tolerance, rtol=tolerance)
    alone = RowNorm(weight, eps)(rows[:1])
    assert alone.equal(RowNorm(weight, eps)(rows)[:1])
    for stackable in Norm(weight, eps), UnitNorm(weight):
        stacked = stackable(rows.view(1, 5, 48))
        assert stacked.shape == (1, 5, 48) and stacked[0].equal(stackable(rows))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_unit_rows_have_length_one_alone_and_together(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    rows = torch.randn(7, 48).to(dtype) * torch.logspace(-3, 3, 7)[:, None].to(dtype)
    found = unit(rows)
    expected = F.normalize(rows.double(), dim=-1)
    torch.testing.assert_close(found.double(), expected, atol=2**-8, rtol=2**-8)
    assert all(unit(row[None]).equal(found[i : i + 1]) for i, row in enumerate(rows))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_without_eps_it_is_the_same_for_rows_far_from_zero(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    rows, weight, eps = torch.randn(50, 48).to(dtype) * 0.1, torch.rand(48).to(dtype), 1e-5
    assert far_from_zero(rows, eps)
    expected = F.rms_norm(rows.double(), (48,), weight.double(), eps)
    tolerance = 2**-6 if dtype == torch.bfloat16 else 1e-3  # three roundings
    torch.testing.assert_close(UnitNorm(weight)(rows).double(), expected, atol=0, rtol=tolerance)
    assert not far_from_zero(torch.cat((rows, rows[:1] * 0)), eps)
