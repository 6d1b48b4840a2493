"""A lean forward for T5: the encoder once a prompt, the decoder token by token.

As `llama.py`: at small sizes a model's own Python and small operations cost more than its weights.
Projections of the same input are one product, position biases are looked up once, the encoder's
keys and values are made once a run, and every beam reads the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import T5ForConditionalGeneration

from playground.cache import LayeredState, SharedPromptLayer, device_of
from playground.llama import fuse, norm
from playground.quantized import Dense, Product, quantised

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu_new": lambda x: F.gelu(x, approximate="tanh"),
}
_ENCODER = (  # settings that its weights do not tell
    "num_heads",
    "layer_norm_epsilon",
    "dense_act_fn",
    "is_gated_act",
    "relative_attention_num_buckets",
    "relative_attention_max_distance",
)
_BLOCK = 256  # tables of position biases grow by this many positions


def fits(model: Any) -> bool:
    """Whether the lean forward computes the same as this model's own."""
    if type(model) is not T5ForConditionalGeneration:
        return False
    weights = list(model.parameters())
    return (
        model.config.dense_act_fn in _ACTIVATIONS
        and len({w.device for w in weights}) == 1
        and len({w.dtype for w in weights}) == 1  # float16 keeps some in float32
        and weights[0].dtype in (torch.float32, torch.bfloat16)
        and getattr(model, "hf_quantizer", None) is None
    )


def same_encoder(one: Any, other: Any) -> bool:
    """Whether two T5s read a text alike, weight for weight: it then need be read once."""
    if any(getattr(one.config, name) != getattr(other.config, name) for name in _ENCODER):
        return False
    ours, theirs = (model.encoder.state_dict() for model in (one, other))
    return ours.keys() == theirs.keys() and all(
        weight.shape == theirs[name].shape and torch.equal(weight, theirs[name])
        for name, weight in ours.items()
    )


class _Stack:
    """The weights of an encoder or decoder, fused by input; `product` multiplies by them."""

    def __init__(self, stack: Any, product: Product) -> None:
        config = stack.config
        self.heads, self.eps = config.num_heads, config.layer_norm_epsilon
        self.embedding = stack.embed_tokens.weight
        self.act = _ACTIVATIONS[config.dense_act_fn]
        self.gated = config.is_gated_act
        self.norm = stack.final_layer_norm.weight
        self.layers = [_Layer(block, product) for block in stack.block]
        self._attention = stack.block[0].layer[0].SelfAttention
        self._bias = torch.empty(0)
        self._size = 0

    def bias(self, start: int, end: int) -> Tensor:
        """What a query at start ≤ i < end adds to the scores of the keys at 0 ≤ j < end, by j − i:
        [heads, end − start, end]. In a decoder, −inf for the keys behind it."""
        if end > self._size:
            self._size = -(-end // _BLOCK) * _BLOCK
            self._bias = self._table(self._size)
        last = self._size - 1
        rows = [self._bias[:, last - i : last - i + end] for i in range(start, end)]
        return rows[0][:, None] if len(rows) == 1 else torch.stack(rows, 1)

    def _table(self, size: int) -> Tensor:
        """[heads, 2·size − 1]: the bias of every distance j − i from 1 − size to size − 1."""
        attention = self._attention
        distance = torch.arange(1 - size, size, device=attention.q.weight.device)
        buckets = attention._relative_position_bucket(
            distance,
            bidirectional=not attention.is_decoder,
            num_buckets=attention.relative_attention_num_buckets,
            max_distance=attention.relative_attention_max_distance,
        )
        table = attention.relative_attention_bias(buckets).T.contiguous()
        if attention.is_decoder:
            table[:, distance > 0] = float("-inf")
        return table

    def feed_forward(self, x: Tensor, layer: _Layer) -> Tensor:
        """x plus the layer's feed-forward part."""
        inner = layer.wi(norm(x, layer.norm_ff, self.eps))
        if self.gated:
            gate, up = inner.chunk(2, -1)
            inner = self.act(gate) * up
        else:
            inner = self.act(inner)
        return x + layer.wo(inner)

    def attend(
        self, x: Tensor, layer: _Layer, bias: Tensor | None, stored: SharedPromptLayer | None
    ) -> Tensor:
        """x [W, k, d] plus its attention to itself and to what is `stored`."""
        width, count, _ = x.shape
        qkv = layer.qkv(norm(x, layer.norm_self, self.eps))
        qkv = qkv.view(width, count, 3 * self.heads, -1).transpose(1, 2)
        queries, keys, values = qkv.chunk(3, 1)
        if stored is not None:
            keys, values = stored.update(keys, values)
        seen = F.scaled_dot_product_attention(queries, keys, values, bias, scale=1.0)
        return x + layer.out(seen.transpose(1, 2).reshape(width, count, -1))


class _Layer:
    """Weights of one block, fused by input (see `llama.fuse`)."""

    def __init__(self, block: Any, product: Product) -> None:
        own, last = block.layer[0], block.layer[-1]
        attention, dense = own.SelfAttention, last.DenseReluDense
        self.norm_self = own.layer_norm.weight
        self.qkv = product(*fuse(attention.q, attention.k, attention.v))
        self.out = product(attention.o.weight, None)
        self.norm_ff = last.layer_norm.weight
        gated = hasattr(dense, "wi_0")
        self.wi = product(*(fuse(dense.wi_0, dense.wi_1) if gated else (dense.wi.weight, None)))
        self.wo = product(dense.wo.weight, None)
        if len(block.layer) == 3:
            cross = block.layer[1].EncDecAttention
            self.norm_cross = block.layer[1].layer_norm.weight
            self.cross_q, self.cross_out = (
                product(cross.q.weight, None),
                product(cross.o.weight, None),
            )
            self.cross_kv = Dense(*fuse(cross.k, cross.v))


class LeanT5:
    """The weights of one T5, shared by every run on it.

    int8: the decoder's products use int8 copies of the weights (bf16 models on the CPU).
    """

    def __init__(self, model: Any, int8: bool = False) -> None:
        product = quantised if int8 else Dense
        mode = torch.inference_mode(model.lm_head.weight.is_inference())
        with mode, torch.no_grad():
            self.encoder = _Stack(model.encoder, Dense)  # many rows at once
            self.decoder = _Stack(model.decoder, product)
            self.head = product(model.lm_head.weight, None)
        self.scale = model.model_dim**-0.5 if model.config.scale_decoder_outputs else 1.0
        self.device = device_of(model)

    def encode(self, ids: Sequence[int]) -> Tensor:
        """What the encoder makes of ids: hidden states [1, n, d]."""
        stack = self.encoder
        x = F.embedding(torch.tensor([list(ids)], device=self.device), stack.embedding)
        bias = stack.bias(0, x.shape[1])[None]
        for layer in stack.layers:
            x = stack.feed_forward(stack.attend(x, layer, bias, None), layer)
        return norm(x, stack.norm, stack.eps)


class T5State(LayeredState):
    """KVState over a LeanT5 that has read `encoded` [1, n, d]. See `contracts.KVState`."""

    def __init__(self, lean: LeanT5, encoded: Tensor) -> None:
        super().__init__([SharedPromptLayer() for _ in lean.decoder.layers])
        self._lean = lean
        self._width = 1
        self._cross = [self._source(encoded, layer) for layer in lean.decoder.layers]

    def _source(self, encoded: Tensor, layer: _Layer) -> tuple[Tensor, Tensor]:
        """Keys and values [1, heads, n, dim] of the encoder's states."""
        both = layer.cross_kv(encoded).view(1, encoded.shape[1], 2, -1)
        keys, values = both.view(1, encoded.shape[1], 2 * self._lean.decoder.heads, -1).chunk(2, 2)
        return keys.transpose(1, 2), values.transpose(1, 2)

    def prefill(self, ids: Sequence[int]) -> Tensor:
        return self.forward(torch.tensor([list(ids)]))[0, -1]

    def forward(self, ids: Tensor) -> Tensor:
        lean, stack, start = self._lean, self._lean.decoder, self.length
        self.length += ids.shape[1]
        x = F.embedding(ids.to(lean.device), stack.embedding)
        bias = stack.bias(start, self.length)[None]
        for layer, stored, cross in zip(stack.layers, self.layers, self._cross, strict=True):
            x = stack.attend(x, layer, bias, stored)
            x = stack.feed_forward(self._read_source(x, layer, *cross), layer)
        x = norm(x, stack.norm, stack.eps)
        return lean.head(x * lean.scale if lean.scale != 1.0 else x)

    def _read_source(self, x: Tensor, layer: _Layer, keys: Tensor, values: Tensor) -> Tensor:
        """x [W, k, d] plus its attention to the source, whose keys all sequences share."""
        width, count, _ = x.shape
        stack = self._lean.decoder
        queries = layer.cross_q(norm(x, layer.norm_cross, stack.eps))
        queries = queries.view(1, width * count, stack.heads, -1).transpose(1, 2)
        seen = F.scaled_dot_product_attention(queries, keys, values, scale=1.0)
        return x + layer.cross_out(seen.transpose(1, 2).reshape(width, count, -1))

    def reorder(self, parents: Tensor) -> None:
        super().reorder(parents.to(self._lean.device))
        self._width = len(parents)

    def num_bytes(self) -> int:
        return super().num_bytes() + self._cross_bytes(1)

    def num_bytes_naive(self) -> int:
        return super().num_bytes_naive() + self._cross_bytes(self._width)

    def _cross_bytes(self, width: int) -> int:
        return width * sum(x.numel() * x.element_size() for pair in self._cross for x in pair)
