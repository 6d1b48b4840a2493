"""The feature draft: a few layers that read what the target thought, not only what it said.

After EAGLE (Li et al. 2024) and EAGLE-3 (2025): the input at a token is its embedding plus a
projection of the target's hidden states one token before, taken at several depths. Where the
target has not been yet, the draft's own last state stands in. A Llama's draft attends to what it
read before; a T5's, whose source tells more, does not, and a step of it costs a third less (as in
the recurrent drafter, Zhang et al. 2024).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from playground.lean_t5 import LeanT5
from playground.llama import LeanLlama, LlamaState
from playground.norms import unit
from playground.quantized import Product


@dataclass(frozen=True, slots=True)
class FeatureDraft:
    """The weights of a feature draft for a target of the same family and width.

    model: a Llama or T5 of a few decoder layers over the target's embeddings. A Llama's head may be
    cut (`head_ids`); a T5's encoder is the target's, and its blocks lack the attention to
    themselves. taps: the target's layers before which its hidden states are read, rising. fuse
    [d, (taps + 1) · d]: projection of those and of the last state (a Llama's normed); own [d, d]:
    of the draft's own last state.
    """

    model: Any
    taps: tuple[int, ...]
    fuse: Tensor
    own: Tensor


class LeanLlamaFeature(LeanLlama):
    """The layers of a Llama's draft, fused for the lean forward, and its two projections."""

    def __init__(self, draft: FeatureDraft, int8: bool = False) -> None:
        self._draft = draft
        super().__init__(draft.model, int8, draft=True)

    def _read(self, model: Any, product: Any) -> None:
        super()._read(model, product)
        self.fuse, self.own = _projections(self._draft, product)


class LeanT5Feature(LeanT5):
    """The same of a T5's draft, whose encoder is the target's."""

    def __init__(self, draft: FeatureDraft, int8: bool = False) -> None:
        super().__init__(draft.model, int8)
        self.embedding = self.decoder.embedding
        self.fuse, self.own = _projections(draft, self.product)

    def _read_encoder(self, model: Any, product: Product, to_unit: bool) -> None:
        pass


def _projections(draft: FeatureDraft, product: Product) -> tuple[Any, Any]:
    """`fuse` and `own`: they read vectors at root mean square 1, and get them at length 1."""
    size = len(draft.own) ** 0.5
    return product(draft.fuse * size, None), product(draft.own * size, None)


class FeatureState:
    """What the state of a feature draft does, whatever its layers; a part of their KVState."""

    head_ids: Tensor | None = None  # [n]: the ids that it writes; None for all of them
    _feature: Any  # embedding, fuse, own, device
    _last: Tensor  # the last state [1, d]

    def read(self, ids: Sequence[int], features: Tensor | None) -> Tensor:
        """Append ids that follow tokens with the target's features [k, taps + 1, d] (one less at
        the very start, where nothing comes before); logits [n] of `head_ids` after the last."""
        x = self._embed(ids)
        if features is not None:
            count, taps, size = features.shape
            thoughts = unit(features.view(-1, size)).view(count, taps * size)
            x[len(ids) - count :] += self._feature.fuse(thoughts)
        return self._think(x)

    def guess(self, token: int) -> Tensor:
        """Append a token that the target has not seen; logits [n] after it."""
        embedded = self._feature.embedding[token : token + 1]
        return self._think(embedded + self._feature.own(unit(self._last)))

    def whole(self, logits: Tensor) -> Tensor:
        """From logits [n] to logits [V]."""
        return logits

    def rollback(self, length: int) -> None:
        """Forget the tokens behind the first `length`, where it keeps any."""

    def _embed(self, ids: Sequence[int]) -> Tensor:
        rows = torch.tensor(ids, device=self._feature.device)
        return F.embedding(rows, self._feature.embedding)

    def _think(self, x: Tensor) -> Tensor:
        """Logits [n] after the last of the inputs x [k, d], whose state becomes the last."""
        raise NotImplementedError


class LlamaFeatureState(LlamaState, FeatureState):
    """Keys and values of a Llama's draft, and its last normed state."""

    def __init__(self, lean: LeanLlamaFeature) -> None:
        super().__init__(lean)
        self._feature, self.head_ids = lean, lean.head_ids

    def whole(self, logits: Tensor) -> Tensor:
        return self._lean.whole(logits)

    def _think(self, x: Tensor) -> Tensor:
        self._last = self._decode(x[None])[:, -1]
        logits: Tensor = self._lean.head(self._last[0])
        return logits


class T5FeatureState(FeatureState):
    """A T5's draft that has read `encoded` [1, n, d], the target's. It keeps its last state."""

    def __init__(self, lean: LeanT5Feature, encoded: Tensor) -> None:
        self._feature, self._cross = lean, lean.read_by_decoder(encoded)

    def read(self, ids: Sequence[int], features: Tensor | None) -> Tensor:
        return super().read(ids[-1:], None if features is None else features[-1:])

    def _think(self, x: Tensor) -> Tensor:
        stack = self._feature.decoder
        for layer, cross in zip(stack.layers, self._cross, strict=True):
            x = stack.feed_forward(stack.read_source(x, layer, *cross), layer)
        self._last = x
        logits: Tensor = self._feature.head(x)[0]
        return logits
