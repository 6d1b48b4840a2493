"""RMSNorm by fewer kernels: on the CPU torch computes it in eight small operations."""

from __future__ import annotations

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor


class Norm:
    """RMSNorm of x [..., d]. On the CPU by LayerNorm of (x, -x), which has mean zero and x's root
    mean square: one fused kernel."""

    def __init__(self, weight: Tensor, eps: float) -> None:
        self._weight, self._eps, self._size = weight, eps, len(weight)
        self._on_cpu = weight.device.type == "cpu"

    def __call__(self, x: Tensor) -> Tensor:
        if not self._on_cpu:
            return F.rms_norm(x, self._weight.shape, self._weight, self._eps)
        both = F.layer_norm(torch.cat((x, -x), -1), (2 * self._size,), eps=self._eps)
        return both[..., : self._size] * self._weight


class RowNorm(Norm):
    """The same of rows [n, d], times `scale`; on the CPU with a float32 weight."""

    def __init__(self, weight: Tensor, eps: float, scale: float = 1.0) -> None:
        super().__init__(weight * scale, eps)
        if self._on_cpu:
            self._weight = (weight.float() * scale).repeat(2)

    def __call__(self, x: Tensor) -> Tensor:
        if not self._on_cpu:
            return super().__call__(x)
        both = torch.cat((x, -x), -1)
        both = torch.layer_norm(both, (2 * self._size,), self._weight, None, self._eps)
        return both[:, : self._size].contiguous()


class UnitNorm:
    """The same of x [..., d] far from zero, on the CPU: without eps, in half the time."""

    def __init__(self, weight: Tensor) -> None:
        self._weight, self._size = weight * len(weight) ** 0.5, len(weight)

    def __call__(self, x: Tensor) -> Tensor:
        return (unit(x.view(-1, self._size)) * self._weight).view(x.shape)


def far_from_zero(embedding: Tensor, eps: float) -> bool:
    """Whether eps makes next to no difference to the norms of these rows [V, d], to which layers
    add: at most a thousandth, where bfloat16 rounds by up to four."""
    shortest = float(torch.linalg.vector_norm(embedding.detach(), dim=1).min())
    return shortest**2 > 500 * eps * embedding.shape[1]


def unit(x: Tensor) -> Tensor:
    """Rows [n, d], none of them zero, at length 1; on the CPU by one kernel."""
    if x.device.type != "cpu":
        return F.rms_norm(x, x.shape[-1:]) * x.shape[-1] ** -0.5
    return torch._weight_norm_interface(x, _ones(len(x), x.dtype))[0]


@cache
def _ones(count: int, dtype: torch.dtype) -> Tensor:
    return torch.ones(count, 1, dtype=dtype)
