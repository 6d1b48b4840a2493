"""RMSNorm by fewer kernels: on the CPU torch computes it in eight small operations."""

from __future__ import annotations

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor


def norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """RMSNorm of x [..., hidden]. On the CPU by LayerNorm of (x, -x), which has mean zero and x's
    root mean square: one fused kernel."""
    if x.device.type != "cpu":
        return F.rms_norm(x, weight.shape, weight, eps)
    size = len(weight)
    return F.layer_norm(torch.cat((x, -x), -1), (2 * size,), eps=eps)[..., :size] * weight


class RowNorm:
    """RMSNorm of rows [n, d], times `scale`; on the CPU as `norm`, with a float32 weight."""

    def __init__(self, weight: Tensor, eps: float, scale: float = 1.0) -> None:
        self._weight, self._eps = weight * scale, eps
        self._size, self._on_cpu = len(weight), weight.device.type == "cpu"
        if self._on_cpu:
            self._weight = (weight.float() * scale).repeat(2)

    def __call__(self, x: Tensor) -> Tensor:
        if not self._on_cpu:
            return F.rms_norm(x, self._weight.shape, self._weight, self._eps)
        both = torch.cat((x, -x), -1)
        both = torch.layer_norm(both, (2 * self._size,), self._weight, None, self._eps)
        return both[:, : self._size].contiguous()


def unit(x: Tensor) -> Tensor:
    """Rows [n, d], none of them zero, at length 1; on the CPU by one kernel."""
    if x.device.type != "cpu":
        return F.rms_norm(x, x.shape[-1:]) * x.shape[-1] ** -0.5
    return torch._weight_norm_interface(x, _ones(len(x), x.dtype))[0]


@cache
def _ones(count: int, dtype: torch.dtype) -> Tensor:
    return torch.ones(count, 1, dtype=dtype)
