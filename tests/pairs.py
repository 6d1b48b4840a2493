"""Pairs of tiny models for speculation: the draft is the target with noise on its weights."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import torch

from playground.models import ModelPair
from tests import models_zoo


@cache
def noisy(family: str, noise: float = 0.1, seed: int = 7) -> Any:
    """A draft that agrees with `models_zoo.model(family)` on many tokens, not on all."""
    model = copy.deepcopy(models_zoo.model(family))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            size = noise * float(weight.std()) if weight.numel() > 1 else 0.0
            weight.add_(size * torch.randn(weight.shape, generator=generator))
    return model.eval()


@cache
def pair(family: str, dtype: torch.dtype = torch.float32, lean: bool = True) -> ModelPair:
    """The family's tiny model with its noisy draft."""
    models = models_zoo.model(family), noisy(family)
    target, draft = (copy.deepcopy(model).to(dtype) for model in models)
    return ModelPair(target, draft, lean=lean)
