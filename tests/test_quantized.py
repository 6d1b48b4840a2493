"""Products with quantised weights: what they lose, and that rows do not influence each other."""

from typing import Any

import pytest
import torch
from torch import Tensor

from playground import quantized
from playground.quantized import Dense, Int4, Int8, WideInt8, is_4bit, prepacked, quantised

SIZES = [(32, 32), (96, 64), (960, 576)]
vnni = pytest.mark.skipif(
    not torch.cpu.get_capabilities().get("avx512_vnni"), reason="needs VNNI instructions"
)
CLASSES = [Int4, Int8, pytest.param(WideInt8, marks=vnni)]


def of_4bits(outputs: int, inputs: int) -> Tensor:
    """Weights as a 4-bit file holds them: per group of 32 a least value and a step, as bf16."""
    torch.manual_seed(0)
    step = torch.rand(outputs, inputs // 32, 1) * 0.02 + 0.001
    levels = torch.randint(0, 16, (outputs, inputs // 32, 32))
    levels[..., 0], levels[..., 1] = 0, 15
    return (levels * step - 8 * step).view(outputs, inputs).bfloat16()


def rows(count: int, inputs: int) -> Tensor:
    """Activations with an outlier, as real ones have."""
    torch.manual_seed(1)
    x = torch.randn(1, count, inputs)
    x[..., 3] *= 30
    return x.bfloat16()


def error(product: Any, weight: Tensor, x: Tensor, bias: Tensor | None = None) -> float:
    """Relative error against the double-precision product."""
    exact = x.double() @ weight.double().T + (0 if bias is None else bias.double())
    return float((product(x).double() - exact).norm() / exact.norm())


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("count", [1, 2, 4, 5, 8, 12, 13, 30])
def test_4bit_weights_lose_nothing_that_bf16_would_keep(size: tuple[int, int], count: int) -> None:
    weight, x = of_4bits(*size), rows(count, size[1])
    assert error(Int4(weight, None), weight, x) < 0.005
    bias = torch.randn(size[0]).bfloat16()
    assert error(Int4(weight, bias), weight, x, bias) < 0.005


@pytest.mark.parametrize("count", [1, 5, 8, 9])
def test_int8_weights_are_close(count: int) -> None:
    torch.manual_seed(0)
    weight, x = torch.randn(960, 576).bfloat16(), rows(count, 576)
    assert error(Int8(weight, None), weight, x) < 0.02


@pytest.mark.parametrize("count", [1, 9, 40])
def test_prepacked_weights_are_the_same_weights(count: int) -> None:
    torch.manual_seed(0)
    weight, bias, x = torch.randn(96, 64).bfloat16(), torch.randn(96).bfloat16(), rows(count, 64)
    assert error(prepacked(weight, None), weight, x) < 0.005
    assert error(prepacked(weight, bias), weight, x, bias) < 0.005


@vnni
@pytest.mark.parametrize("count", [1, 5, 8])
def test_two_planes_hold_the_activations(count: int) -> None:
    """With int8 weights that need no rounding, what is left is the activations' own error."""
    torch.manual_seed(0)
    levels = torch.randint(-127, 128, (256, 576))
    levels[:, 0] = 127
    weight, x = levels.bfloat16() / 128, rows(count, 576)
    assert error(WideInt8(weight, None), weight, x) < 3e-4
    assert WideInt8(weight, None)(torch.zeros(1, 1, 576, dtype=torch.bfloat16)).abs().max() == 0


@pytest.mark.parametrize("cls", CLASSES)
def test_a_row_gives_the_same_alone_and_with_others(cls: type[Dense]) -> None:
    """Bit for bit, so that verifying k drafts is k single passes."""
    product, x = cls(of_4bits(960, 576), None), rows(8, 576)
    together = product(x)
    for i in range(8):
        assert torch.equal(product(x[:, i : i + 1]), together[:, i : i + 1])


def test_what_counts_as_4bit() -> None:
    weight = of_4bits(96, 64)
    assert is_4bit(weight) and is_4bit(torch.ones(96, 64).bfloat16())
    assert not is_4bit(torch.randn(96, 64).bfloat16())
    assert not is_4bit(of_4bits(96, 32)[:, :16])
    weight[0, 5] += 0.3 * (weight[0].max() - weight[0].min()) / 15
    assert not is_4bit(weight)


def test_the_kind_is_chosen_by_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    monkeypatch.setattr(quantized, "_WIDE", 256)
    fast = torch.cpu.get_capabilities().get("avx512_vnni")
    small = torch.backends.cpu.get_cpu_capability().startswith("AVX")
    assert type(quantised(torch.randn(96, 64).bfloat16(), None)) is Int8
    assert type(quantised(of_4bits(96, 64), None)) is (Int4 if small else Int8)
    assert type(quantised(torch.randn(256, 64).bfloat16(), None)) is (WideInt8 if fast else Int8)


@torch.inference_mode()
def test_inputs_that_fill_no_vector_are_left_as_they_are() -> None:
    """The packed kernel would read beyond the end of such weights."""
    for inputs in (4, 20):
        weight = torch.randn(32, inputs).bfloat16()
        x = torch.randn(1, inputs).bfloat16()
        assert torch.equal(quantised(weight, None)(x), torch.nn.functional.linear(x, weight))
