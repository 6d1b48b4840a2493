"""A lean forward for T5: the encoder once a prompt, the decoder token by token.

As `llama.py`: at small sizes a model's own Python and small operations cost more than its weights.
Projections of the same input are one product, position biases are looked up once, the encoder's
keys and values for all layers are one product a run, and every beam reads the same ones. Hidden
states are rows [n, d] throughout, of all tokens of all sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import T5ForConditionalGeneration

from playground.cache import LayeredState, SharedPromptLayer, device_of, is_untouched
from playground.llama import fuse
from playground.norms import RowNorm, far_from_zero, unit
from playground.quantized import Dense, Product, prepacked, quantised

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu_,
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
_SMALL = 100_000_000  # weights: up to here, copies of them are worth the microseconds they save
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
        and is_untouched(model)
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


def _row_norm(source: Any, scale: float = 1.0) -> RowNorm:
    return RowNorm(source.weight.data, source.variance_epsilon, scale)


class _Reader:
    """A norm and the product that reads it, called on rows [n, d].

    to_unit: the product's weights take over the norm's, and rows need only be brought to length 1.
    That leaves eps out, so rows must be far from zero.
    """

    def __init__(
        self,
        norm: Any,
        weight: Tensor,
        bias: Tensor | None,
        product: Product,
        to_unit: bool,
        scale: float = 1.0,
    ) -> None:
        if to_unit:
            scale *= weight.shape[1] ** 0.5
            weight = (weight.float() * norm.weight.float() * scale).to(weight.dtype)
        self._norm = unit if to_unit else _row_norm(norm, scale)
        self._product = product(weight, bias)

    def __call__(self, x: Tensor) -> Tensor:
        return self._product(self._norm(x))


class _Stack:
    """The weights of an encoder or decoder, fused by input; `product` multiplies by them."""

    def __init__(self, stack: Any, product: Product, to_unit: bool = False) -> None:
        config = stack.config
        self.heads = config.num_heads
        self.embedding = stack.embed_tokens.weight
        self.act = _ACTIVATIONS[config.dense_act_fn]
        self.gated = config.is_gated_act
        self.layers = [_Layer(block, product, to_unit) for block in stack.block]
        self._attention = getattr(stack.block[0].layer[0], "SelfAttention", None)
        self._bias = torch.empty(0)
        self._size = 0

    def bias(self, start: int, end: int) -> Tensor:
        """What a query at start ≤ i < end adds to the scores of the keys at 0 ≤ j < end, by j − i:
        [1, heads, end − start, end]. In a decoder, −inf for the keys behind it."""
        if end > self._size:
            self._size = -(-end // _BLOCK) * _BLOCK
            self._bias = self._table(self._size)
        table = self._bias[:, self._size - end : self._size - start + end - 1]
        return table.unfold(1, end, 1).flip(1)[None]

    def _table(self, size: int) -> Tensor:
        """[heads, 2·size − 1]: the bias of every distance j − i from 1 − size to size − 1."""
        attention: Any = self._attention
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
        inner = layer.wi(x)
        if self.gated:
            gate, up = inner.chunk(2, -1)
            inner = self.act(gate) * up
        else:
            inner = self.act(inner)
        return x + layer.wo(inner)

    def attend(
        self, x: Tensor, width: int, layer: _Layer, bias: Tensor, stored: SharedPromptLayer | None
    ) -> Tensor:
        """x [width · k, d] plus its attention to itself and to what is `stored`."""
        qkv = layer.qkv(x).view(width, len(x) // width, 3 * self.heads, -1)
        queries, both = qkv.transpose(1, 2).split_with_sizes((self.heads, 2 * self.heads), 1)
        if stored is not None:
            (both,) = stored.append(both)
        keys, values = both.chunk(2, 1)
        return x + layer.out(_seen(queries, keys, values, bias, len(x)))

    def read_source(self, x: Tensor, layer: _Layer, keys: Tensor, values: Tensor) -> Tensor:
        """x [n, d] plus its attention to the source, whose keys all sequences share."""
        queries = layer.cross_q(x).view(1, len(x), self.heads, -1)
        return x + layer.cross_out(_seen(queries.transpose(1, 2), keys, values, None, len(x)))


def _seen(queries: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None, n: int) -> Tensor:
    """What T5's attention, which does not scale its scores, sees: [n, heads · dim]."""
    seen = F.scaled_dot_product_attention(queries, keys, values, bias, scale=1.0)
    return seen.transpose(1, 2).reshape(n, -1)


class _Layer:
    """Weights of one block, fused by input (see `llama.fuse`), of the parts that it has."""

    def __init__(self, block: Any, product: Product, to_unit: bool) -> None:
        *attentions, last = block.layer
        for part in attentions:
            norm = part.layer_norm
            if hasattr(part, "SelfAttention"):
                attention = part.SelfAttention
                qkv = fuse(attention.q, attention.k, attention.v)
                self.qkv = _Reader(norm, *qkv, product, to_unit)
                self.out = product(attention.o.weight, None)
            else:
                cross = part.EncDecAttention
                self.cross_q = _Reader(norm, cross.q.weight, None, product, to_unit)
                self.cross_out = product(cross.o.weight, None)
        dense = last.DenseReluDense
        gated = hasattr(dense, "wi_0")
        wi = fuse(*((dense.wi_0, dense.wi_1) if gated else (dense.wi,)))
        self.wi = _Reader(last.layer_norm, *wi, product, to_unit)
        self.wo = product(dense.wo.weight, None)


class LeanT5:
    """The weights of one T5, shared by every run on it.

    int8: the decoder's products use int8 copies of the weights (bf16 models on the CPU).
    """

    def __init__(self, model: Any, int8: bool = False) -> None:
        scale = model.model_dim**-0.5 if model.config.scale_decoder_outputs else 1.0
        cross = [block.layer[-2].EncDecAttention for block in model.decoder.block]
        small = int8 and sum(p.numel() for p in model.parameters()) <= _SMALL
        many, few = prepacked if small else Dense, quantised if int8 else Dense  # rows at once
        to_unit = small and far_from_zero(model.shared.weight, model.config.layer_norm_epsilon)
        self.device, self.product = device_of(model), few
        self.taps: tuple[int, ...] = ()  # layers before which a feature draft reads, see features
        mode = torch.inference_mode(cross[0].k.weight.is_inference())  # as in `llama.py`
        with mode, torch.no_grad():
            self._read_encoder(model, many, to_unit)
            self.sources = many(*fuse(*(linear for c in cross for linear in (c.k, c.v))))
            self.decoder = _Stack(model.decoder, few, to_unit)
            norm, head = model.decoder.final_layer_norm, model.lm_head.weight
            self.head = _Reader(norm, head, None, few, to_unit, scale)

    def _read_encoder(self, model: Any, product: Product, to_unit: bool) -> None:
        self.encoder = _Stack(model.encoder, product, to_unit)
        self.norm_encoded = _row_norm(model.encoder.final_layer_norm)

    def encode(self, ids: Sequence[int]) -> Tensor:
        """What the encoder makes of ids: hidden states [1, n, d]."""
        stack = self.encoder
        x = stack.embedding[torch.tensor(ids, device=self.device)]
        bias = stack.bias(0, len(x))
        for layer in stack.layers:
            x = stack.feed_forward(stack.attend(x, 1, layer, bias, None), layer)
        return self.norm_encoded(x)[None]

    def read_by_decoder(self, encoded: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Keys and values [1, heads, n, dim] of the encoder's states, for every layer."""
        count, heads = encoded.shape[1], self.decoder.heads
        every = self.sources(encoded[0]).view(count, len(self.decoder.layers), 2, heads, -1)
        both = every.permute(1, 2, 3, 0, 4).contiguous()
        return [(keys[None], values[None]) for keys, values in both]


class T5State(LayeredState):
    """KVState over a LeanT5 that has read `encoded` [1, n, d]. See `contracts.KVState`."""

    def __init__(self, lean: LeanT5, encoded: Tensor) -> None:
        super().__init__([SharedPromptLayer() for _ in lean.decoder.layers])
        self._lean = lean
        self._width = 1
        self._cross = lean.read_by_decoder(encoded)
        self._tapped: list[Tensor] = []  # of the last pass [W · k, d], and its first position
        self._tapped_from = 0

    def prefill(self, ids: Sequence[int]) -> Tensor:
        return self._lean.head(self._hidden(torch.tensor([list(ids)]))[-1:])[0]

    def forward(self, ids: Tensor) -> Tensor:
        return self._lean.head(self._hidden(ids)).view(*ids.shape, -1)

    def features(self, start: int) -> Tensor:
        """As `LlamaState.features`; here the last states are not normed, either."""
        seen = slice(start - self._tapped_from, self.length - self._tapped_from)
        return torch.stack([states[seen] for states in self._tapped], 1)

    def _hidden(self, ids: Tensor) -> Tensor:
        """Last hidden states of ids [W, k], not yet normed: [W · k, d]."""
        rows = ids.flatten().to(self._lean.device)
        return self._decode(self._lean.decoder.embedding.index_select(0, rows), len(ids))

    def _decode(self, x: Tensor, width: int = 1) -> Tensor:
        """Last hidden states, not yet normed, of the layers' inputs x; both [width · k, d]."""
        lean, start, tapped = self._lean, self.length, []
        self.length += len(x) // width
        stack, bias = lean.decoder, lean.decoder.bias(start, self.length)
        for index, (layer, stored, cross) in enumerate(
            zip(stack.layers, self.layers, self._cross, strict=True)
        ):
            if index in lean.taps:
                tapped.append(x)
            x = stack.attend(x, width, layer, bias, stored)
            x = stack.feed_forward(stack.read_source(x, layer, *cross), layer)
        if lean.taps:
            self._tapped, self._tapped_from = [*tapped, x], start
        return x

    def reorder(self, parents: Tensor) -> None:
        super().reorder(parents.to(self._lean.device))
        self._width = len(parents)

    def num_bytes(self) -> int:
        return super().num_bytes() + self._cross_bytes(1)

    def num_bytes_naive(self) -> int:
        return super().num_bytes_naive() + self._cross_bytes(self._width)

    def _cross_bytes(self, width: int) -> int:
        return width * sum(x.numel() * x.element_size() for pair in self._cross for x in pair)
