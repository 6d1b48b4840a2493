"""A lean forward for Llama-shaped decoders: Llama, SmolLM2, Mistral, Qwen2, Qwen3.

At small sizes a model's own Python and small operations cost as much as its weights. Here the
query, key and value projections are one product, gate and up another, rotary tables are computed
once, and nothing is looked up per token. Chosen by itself where `fits` says so; everything else
runs through the model's own forward.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import (
    LlamaForCausalLM,
    MistralForCausalLM,
    Qwen2ForCausalLM,
    Qwen3ForCausalLM,
)

from playground.cache import LayeredState, SharedPromptLayer, device_of, is_untouched
from playground.graphs import Graphs, recorder_for
from playground.norms import Norm, UnitNorm, far_from_zero
from playground.quantized import Dense, Product, quantised, rounded

_FAMILIES = (LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM)
_TABLE_BLOCK = 1024  # rotary tables grow by this many positions

Norms = Callable[[Tensor], Callable[[Tensor], Tensor]]  # a norm, from its weight


def fits(model: Any) -> bool:
    """Whether the lean forward computes the same as this model's own."""
    if type(model) not in _FAMILIES:
        return False
    config = model.config
    rope = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default")
    windowed = "sliding_attention" in (getattr(config, "layer_types", None) or ())
    windowed |= type(model) is MistralForCausalLM and config.sliding_window is not None
    return (
        config.hidden_act == "silu"
        and model.lm_head.bias is None
        and rope in ("default", "linear", "llama3")  # the others change with the length
        and not windowed
        and config.num_hidden_layers > 0
        and len({p.device for p in model.parameters()}) == 1
        and getattr(model, "hf_quantizer", None) is None
        and is_untouched(model)
    )


class Layer:
    """Weights of one decoder layer, fused. The model's own parameters become views of the fused
    tensors, so that nothing is stored twice."""

    def __init__(self, source: Any, product: Product, norms: tuple[Norms, Norms]) -> None:
        attention, mlp = source.self_attn, source.mlp
        self.qkv = product(*fuse(attention.q_proj, attention.k_proj, attention.v_proj))
        self.out = product(attention.o_proj.weight, attention.o_proj.bias)
        self.gate_up = product(*fuse(mlp.gate_proj, mlp.up_proj))
        self.down = product(mlp.down_proj.weight, mlp.down_proj.bias)
        self.norm_in = norms[0](source.input_layernorm.weight)
        self.norm_mid = norms[1](source.post_attention_layernorm.weight)
        q_norm, k_norm = getattr(attention, "q_norm", None), getattr(attention, "k_norm", None)
        self.norm_qk = None if q_norm is None or k_norm is None else (q_norm.weight, k_norm.weight)


def fuse(*linears: Any) -> tuple[Tensor, Tensor | None]:
    """(weight [sum of outputs, inputs], bias) of several projections of the same input, which
    become views of them: what changes them in place changes these, too."""
    weight = torch.cat([linear.weight.data for linear in linears])
    biased = linears[0].bias is not None
    bias = torch.cat([linear.bias.data for linear in linears]) if biased else None
    start = 0
    for linear in linears:
        end = start + linear.weight.shape[0]
        linear.weight.data = weight[start:end]
        if bias is not None:
            linear.bias.data = bias[start:end]
        start = end
    return weight, bias


class LeanLlama:
    """The fused weights of one model, shared by every run on it.

    int8: the products use copies of the weights of 8 bits or fewer (bf16 models on the CPU); draft:
    of 4 bits, whatever is lost.
    """

    def __init__(self, model: Any, int8: bool = False, draft: bool = False) -> None:
        # Weights made in inference mode could not serve an ordinary forward of the model later.
        mode = torch.inference_mode(model.lm_head.weight.is_inference())
        with mode, torch.no_grad():
            self._read(model, Dense if not int8 else rounded if draft else quantised)

    def _read(self, model: Any, product: Product) -> None:
        config, decoder = model.config, model.model
        self.device, self.dtype = device_of(model), model.dtype
        self.num_heads, self.num_kv_heads = config.num_attention_heads, config.num_key_value_heads
        default = config.hidden_size // config.num_attention_heads
        self.head_dim = getattr(config, "head_dim", None) or default
        self.eps = config.rms_norm_eps
        self.embedding = decoder.embed_tokens.weight
        # A draft may write only its commonest tokens: a head cut to these ids (see models.py).
        self.head_ids: Tensor | None = getattr(model, "head_ids", None)
        head = model.lm_head.weight
        self.head = product(head if self.head_ids is None else head[self.head_ids], None)
        exact: Norms = partial(Norm, eps=self.eps)
        quick = product is not Dense and far_from_zero(self.embedding, self.eps)
        inner: Norms = UnitNorm if quick else exact
        self.norm = exact(decoder.norm.weight)
        self.layers = [
            Layer(layer, product, (inner if i else exact, inner))
            for i, layer in enumerate(decoder.layers)
        ]
        self.taps: tuple[int, ...] = ()  # layers before which a feature draft reads, see features
        self._rotary = decoder.rotary_emb
        self._cos = self._sin = torch.empty(0)
        record = recorder_for(self.device)
        self.graphs = None if record is None else Graphs(self, record)

    def whole(self, logits: Tensor) -> Tensor:
        """The head's logits as logits [..., V]: −inf for ids that a cut head does not write."""
        if self.head_ids is None:
            return logits
        every = logits.new_full((*logits.shape[:-1], len(self.embedding)), float("-inf"))
        return every.scatter_(-1, self.head_ids.expand_as(logits), logits)

    def rotary(self, start: int, end: int) -> tuple[Tensor, Tensor]:
        """cos and sin [k, heads, head_dim] of the positions from start to end, for queries, keys
        and values together: values are not turned."""
        if end > len(self._cos):
            size = -(-end // _TABLE_BLOCK) * _TABLE_BLOCK
            positions = torch.arange(size, device=self.device)[None]
            like = torch.empty(0, dtype=self.dtype, device=self.device)
            cos, sin = self._rotary(like, positions)
            # rotate_half(x) = cat(-x2, x1): the sign moves into the table.
            half = self.head_dim // 2
            sin = torch.cat((-sin[..., :half], sin[..., half:]), -1)
            counts = self.num_heads + self.num_kv_heads, self.num_kv_heads
            self._cos, self._sin = (
                torch.stack(
                    [table[0]] * counts[0] + [torch.full_like(table[0], still)] * counts[1], 1
                )
                for table, still in ((cos, 1.0), (sin, 0.0))
            )
        return self._cos[start:end], self._sin[start:end]

    def run(
        self, x: Tensor, stored: Sequence[Any], tables: tuple[Tensor, Tensor], mask: Tensor | None
    ) -> list[Tensor]:
        """The layers over their inputs x [W, k, hidden]: the hidden states before tapped ones, and
        the normed last ones. stored: what holds each layer's keys and values, by `append`."""
        tapped = []
        for index, (layer, kept) in enumerate(zip(self.layers, stored, strict=True)):
            if index in self.taps:
                tapped.append(x)
            x = x + self._attend(layer.norm_in(x), layer, kept, tables, mask)
            gate, up = layer.gate_up(layer.norm_mid(x)).chunk(2, -1)
            x = x + layer.down(F.silu(gate) * up)
        return [*tapped, self.norm(x)]

    def _attend(
        self,
        x: Tensor,
        layer: Layer,
        stored: Any,
        tables: tuple[Tensor, Tensor],
        mask: Tensor | None,
    ) -> Tensor:
        width, count, _ = x.shape
        heads, kv_heads, dim = self.num_heads, self.num_kv_heads, self.head_dim
        qkv = layer.qkv(x).view(width, count, heads + 2 * kv_heads, dim)
        if layer.norm_qk is not None:
            queries = F.rms_norm(qkv[:, :, :heads], (dim,), layer.norm_qk[0], self.eps)
            keys = F.rms_norm(qkv[:, :, heads:-kv_heads], (dim,), layer.norm_qk[1], self.eps)
            qkv = torch.cat((queries, keys, qkv[:, :, -kv_heads:]), 2)
        turned = torch.addcmul(qkv * tables[0], qkv.roll(dim // 2, -1), tables[1]).transpose(1, 2)
        (stored_kv,) = stored.append(turned[:, heads:])
        keys, values = stored_kv[:, :kv_heads], stored_kv[:, kv_heads:]
        # The query heads that share a key head are laid behind each other: no keys are repeated.
        queries = turned[:, :heads].reshape(width, kv_heads, -1, dim)
        seen = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
        seen = seen.view(width, heads, count, dim).transpose(1, 2).reshape(width, count, -1)
        return layer.out(seen)


class LlamaState(LayeredState):
    """KVState over a LeanLlama. See `contracts.KVState` for shapes."""

    def __init__(self, lean: LeanLlama) -> None:
        super().__init__([SharedPromptLayer() for _ in lean.layers])
        self._lean = lean
        self._tapped: list[Tensor] = []  # of the last pass [W, k, hidden], and its first position
        self._tapped_from = 0

    def prefill(self, ids: Sequence[int]) -> Tensor:
        return self._logits(self._hidden(torch.tensor([list(ids)]))[0, -1])

    def reorder(self, parents: Tensor) -> None:
        super().reorder(parents.to(self._lean.device))

    def forward(self, ids: Tensor) -> Tensor:
        return self._logits(self._hidden(ids))

    def features(self, start: int) -> Tensor:
        """What a feature draft reads of the stored tokens from `start` on: hidden states
        [length - start, taps + 1, hidden] before the tapped layers, and the normed last one. Only
        of one sequence, and of tokens that the last pass read."""
        seen = slice(start - self._tapped_from, self.length - self._tapped_from)
        return torch.stack([states[0, seen] for states in self._tapped], 1)

    def _logits(self, hidden: Tensor) -> Tensor:
        """Logits [..., V] of normed hidden states."""
        return self._lean.whole(self._lean.head(hidden))

    def _hidden(self, ids: Tensor) -> Tensor:
        """Normed last hidden states [W, k, hidden] of ids [W, k]."""
        return self._decode(F.embedding(ids.to(self._lean.device), self._lean.embedding))

    def _decode(self, x: Tensor) -> Tensor:
        """Normed last hidden states of the layers' inputs x, both [W, k, hidden]."""
        lean, start = self._lean, self.length
        states = self.plain_pass(x) if lean.graphs is None else lean.graphs.run(self, x)
        if lean.taps:
            self._tapped, self._tapped_from = states, start
        return states[-1]

    def plain_pass(self, x: Tensor) -> list[Tensor]:
        """The pass itself, of which the keys and values are stored: see `LeanLlama.run`."""
        lean, start = self._lean, self.length
        self.length += x.shape[1]
        tables, mask = lean.rotary(start, self.length), self._mask(x.shape[1])
        return lean.run(x, self.layers, tables, mask)

    def _mask(self, count: int) -> Tensor | None:
        """−inf at the stored tokens that each of the `count` new ones does not see, else 0:
        [groups·k, length]."""
        if count == 1:
            return None
        lean = self._lean
        hidden = torch.full(
            (count, self.length), float("-inf"), dtype=lean.dtype, device=lean.device
        )
        return hidden.triu_(self.length - count + 1).repeat(lean.num_heads // lean.num_kv_heads, 1)
