"""The feature draft: a few layers that read what the target thought, not only what it said.

After EAGLE (Li et al. 2024) and EAGLE-3 (2025): the input at a token is its embedding plus a
projection of the target's hidden states one token before, taken at several depths. Where the
target has not been yet, the draft's own last state stands in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from playground.llama import LeanLlama, LlamaState
from playground.norms import unit


@dataclass(frozen=True, slots=True)
class FeatureDraft:
    """The weights of a feature draft for a target of the same width.

    model: a Llama of a few layers over the target's embeddings, its head perhaps cut (`head_ids`).
    taps: the target's layers before which its hidden states are read, rising. fuse
    [d, (taps + 1) · d]: projection of those and of the normed last state; own [d, d]: of the
    draft's own normed state.
    """

    model: Any
    taps: tuple[int, ...]
    fuse: Tensor
    own: Tensor


class LeanFeature(LeanLlama):
    """The draft's layers, fused for the lean forward, and its two projections."""

    def __init__(self, draft: FeatureDraft, int8: bool = False) -> None:
        self._projections = draft.fuse, draft.own
        super().__init__(draft.model, int8, draft=True)

    def _read(self, model: Any, product: Any) -> None:
        super()._read(model, product)
        # They read vectors at root mean square 1, and get them at length 1.
        size = len(self.embedding[0]) ** 0.5
        self.fuse, self.own = (product(weight * size, None) for weight in self._projections)


class FeatureState(LlamaState):
    """Keys and values of the draft's layers, and its last normed state."""

    def __init__(self, lean: LeanFeature) -> None:
        super().__init__(lean)
        self._feature, self._last = lean, torch.empty(0)
        self.head_ids = lean.head_ids  # [n]: the ids that it writes; None for all of them
        self.whole = lean.whole  # from logits [n] to logits [V]

    def read(self, ids: Sequence[int], features: Tensor) -> Tensor:
        """Append ids that follow tokens with the target's features [k, taps + 1, d] (one less at
        the very start, where nothing comes before); logits [n] of `head_ids` after the last."""
        x = self._embed(ids)
        count, taps, size = features.shape
        thoughts = self._feature.fuse(unit(features.view(-1, size)).view(count, taps * size))
        x[len(ids) - len(thoughts) :] += thoughts
        return self._think(x)

    def guess(self, token: int) -> Tensor:
        """Append a token that the target has not seen; logits [n] after it."""
        own = self._feature.own(unit(self._last))
        return self._think(self._embed([token]) + own)

    def _embed(self, ids: Sequence[int]) -> Tensor:
        rows = torch.tensor(ids, device=self._feature.device)
        return F.embedding(rows, self._feature.embedding)

    def _think(self, x: Tensor) -> Tensor:
        """Logits [n] after the last of the inputs x [k, d]."""
        self._last = self._decode(x[None])[:, -1]
        logits: Tensor = self._feature.head(self._last[0])
        return logits
