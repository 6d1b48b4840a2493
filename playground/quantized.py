"""Products with quantised weights for the lean forward, on the CPU.

Small models wait for their weights, so fewer bits a weight are faster. Activations keep bf16's
precision or better, and every row's result is the same whether it comes alone or with others: a
verified draft is judged by the logits that one pass a token would have given.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

_INT8_ROWS = 8  # up to here the packed products are faster than unpacked weights (on AVX-512)
_INT4_ROWS = 12
_SMALL = 4_000_000  # weights up to which another copy, laid out for many rows, is cheap to keep
_VECTOR = 16  # the int8 kernel reads the inputs in so many at once, beyond their end if need be
_GROUP = 32  # weights that share a scale and an offset in a 4-bit file
_WIDE = 32_000  # outputs from which two int8 planes of activations cost less than bf16 ones
_OFFSET = 128  # oneDNN's fast path takes unsigned activations


class Dense:
    """x [..., inputs] -> [..., outputs] by the weights as they are."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._weight, self._bias = weight, bias

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self._weight, self._bias)


class Prepacked(Dense):
    """The same, weights laid out as oneDNN's kernels read them: a call on many rows is shorter."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__(weight, bias)
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), None)

    def __call__(self, x: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(x, self._packed, self._bias, "none", [], "")


class _Packed(Dense):
    """The same by fewer bits for at most `rows` rows; for more, unpacked weights are faster."""

    rows = _INT8_ROWS

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__(weight, bias)
        self._many = prepacked(weight, bias)

    def __call__(self, x: Tensor) -> Tensor:
        rows = x if x.dim() == 2 else x.reshape(-1, x.shape[-1])
        if len(rows) > self.rows:
            return self._many(x)
        y = self._product(rows)
        if self._bias is not None:
            y = y + self._bias
        return y if x.dim() == 2 else y.view(*x.shape[:-1], -1)

    def _product(self, rows: Tensor) -> Tensor:
        """rows [n, inputs] -> [n, outputs], without the bias."""
        raise NotImplementedError


class Int8(_Packed):
    """The same by int8 weights with one scale an output; activations stay bf16."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__(weight, bias)
        self._packed, scale = _by_row(weight)
        self._scale = scale.to(torch.bfloat16)

    def _product(self, rows: Tensor) -> Tensor:
        return torch._weight_int8pack_mm(rows, self._packed, self._scale)


class Int4(_Packed):
    """The same by the 4-bit weights of a file like GGUF's Q4_1: groups of 32 with scale and offset.

    For weights that are such (`is_4bit`) nothing is lost but the rounding of scales.
    """

    rows = _INT4_ROWS

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__(weight, bias)
        low, step, grid = _grid(weight)
        self._packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(
            grid.round_().view(len(weight), -1).int(), 1
        )
        # The kernel computes (i − 8) · scale + zero.
        scales = torch.stack((step, low + 8 * step), -1).squeeze(2)
        self._scales = scales.transpose(0, 1).to(torch.bfloat16).contiguous()

    def _product(self, rows: Tensor) -> Tensor:
        return torch._weight_int4pack_mm_for_cpu(rows, self._packed, _GROUP, self._scales)


class WideInt8(_Packed):
    """The same for a head: int8 weights, activations as two int8 planes (15 bits), fp32 results.

    The products are exact integers, whose cost hardly grows with the number of rows.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__(weight, bias)
        packed, self._scale = _by_row(weight)
        self._packed = torch.ops.onednn.qlinear_prepack(packed, None)
        self._zeros = torch.zeros(len(weight), dtype=torch.int32)

    def _product(self, rows: Tensor) -> Tensor:
        rows = rows.float()
        scale = rows.abs().amax(-1, keepdim=True).clamp(min=1e-30) / 127
        rows = rows / scale
        coarse = rows.round()
        fine = (rows - coarse).mul_(254).round_()
        planes = torch.cat((coarse, fine)).add_(_OFFSET).to(torch.uint8)
        y = torch.ops.onednn.qlinear_pointwise(
            planes, 1.0, _OFFSET, self._packed, self._scale, self._zeros, None,
            1.0, 0, torch.float32, "none", [], "",
        )  # fmt: skip
        coarse, fine = y.chunk(2)
        return coarse.add_(fine, alpha=1 / 254).mul_(scale)


Product = Callable[[Tensor, Tensor | None], Dense]  # from a weight and a bias


def prepacked(weight: Tensor, bias: Tensor | None) -> Dense:
    """The product for many rows at once that keeps bf16 weights as they are."""
    fast = torch._C._has_mkldnn and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return (Prepacked if fast and weight.numel() <= _SMALL else Dense)(weight, bias)


def quantised(weight: Tensor, bias: Tensor | None) -> Dense:
    """The product with the fewest bits that keeps these weights' precision."""
    if weight.shape[1] % _VECTOR:
        return Dense(weight, bias)
    # Without these instructions oneDNN's sums overflow.
    if len(weight) >= _WIDE and torch.cpu.get_capabilities().get("avx512_vnni"):
        return WideInt8(weight, bias)
    return (Int4 if _takes_int4(weight) and is_4bit(weight) else Int8)(weight, bias)


def rounded(weight: Tensor, bias: Tensor | None) -> Dense:
    """The product with the fewest bits, for a draft: rounding its weights to 4 bits costs it some
    acceptance and the output nothing, and a draft's speed is that of its weights' way to the
    processor, because the target's pass has driven them out of its caches."""
    return Int4(weight, bias) if _takes_int4(weight) else quantised(weight, bias)


def _takes_int4(weight: Tensor) -> bool:
    """Whether the 4-bit kernel has this shape, and is here more than a plain loop."""
    vectors = torch.backends.cpu.get_cpu_capability().startswith("AVX")
    return vectors and not (weight.shape[1] % _GROUP or len(weight) % 32)


def is_4bit(weight: Tensor) -> bool:
    """Whether weight [outputs, inputs] takes at most 16 evenly spaced values in every group of 32
    inputs, as weights from a 4-bit file do (looked for in 64 of its rows)."""
    if weight.shape[1] % _GROUP:
        return False
    grid = _grid(weight[:: max(1, len(weight) // 64)])[2]
    return bool((grid - grid.round()).abs().max() < 0.15)


def _grid(weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Least value and step of every group, [outputs, groups, 1], and the weights in these units,
    0 to 15, [outputs, groups, 32]."""
    groups = weight.float().view(len(weight), -1, _GROUP)
    low, high = groups.aminmax(dim=-1, keepdim=True)
    step = (high - low) / 15
    return low, step, (groups - low) / step.clamp(min=1e-12)


def _by_row(weight: Tensor) -> tuple[Tensor, Tensor]:
    """int8 weights and their scale [outputs]."""
    weight = weight.float()
    scale = weight.abs().amax(1).clamp(min=1e-12) / 127
    return (weight / scale[:, None]).round_().to(torch.int8), scale
