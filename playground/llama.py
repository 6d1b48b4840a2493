"""A lean forward for Llama-shaped decoders: Llama, SmolLM2, Mistral, Qwen2, Qwen3.

At small sizes a model's own Python and small operations cost as much as its weights. Here the
query, key and value projections are one product, gate and up another, rotary tables are computed
once, and nothing is looked up per token. Chosen by itself where `fits` says so; everything else
runs through the model's own forward.
"""

from __future__ import annotations

from collections.abc import Sequence
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

from playground.cache import LayeredState, SharedPromptLayer, device_of

_FAMILIES = (LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM)
_INT8_ROWS = 16  # up to here the packed int8 product is the faster one (measured on AVX-512)
_TABLE_BLOCK = 1024  # rotary tables grow by this many positions


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
    )


class Dense:
    """x [..., inputs] -> [..., outputs] by the weights as they are."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._weight, self._bias = weight, bias

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self._weight, self._bias)


class Int8:
    """The same by int8 weights with one scale an output; activations stay bf16."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        scale = weight.float().abs().amax(1).clamp(min=1e-12) / 127
        self._weight = (weight.float() / scale[:, None]).round().to(torch.int8)
        self._scale, self._bias = scale.to(torch.bfloat16), bias

    def __call__(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        if len(rows) <= _INT8_ROWS:
            y = torch.ops.aten._weight_int8pack_mm(rows, self._weight, self._scale)
        else:  # many rows: unpacking once is cheaper; an int8 is exact in bf16
            y = F.linear(rows, self._weight.to(x.dtype)) * self._scale
        y = y.view(*x.shape[:-1], -1)
        return y if self._bias is None else y + self._bias


class Layer:
    """Weights of one decoder layer, fused. The model's own parameters become views of the fused
    tensors, so that nothing is stored twice."""

    def __init__(self, source: Any, product: type[Dense] | type[Int8]) -> None:
        attention, mlp = source.self_attn, source.mlp
        self.qkv = product(*_fuse(attention.q_proj, attention.k_proj, attention.v_proj))
        self.out = product(attention.o_proj.weight, attention.o_proj.bias)
        self.gate_up = product(*_fuse(mlp.gate_proj, mlp.up_proj))
        self.down = product(mlp.down_proj.weight, mlp.down_proj.bias)
        self.norm_in = source.input_layernorm.weight
        self.norm_mid = source.post_attention_layernorm.weight
        q_norm, k_norm = getattr(attention, "q_norm", None), getattr(attention, "k_norm", None)
        self.norm_qk = None if q_norm is None or k_norm is None else (q_norm.weight, k_norm.weight)


def _fuse(*linears: Any) -> tuple[Tensor, Tensor | None]:
    """(weight [sum of outputs, inputs], bias) of several projections of the same input."""
    weight = torch.cat([linear.weight.data for linear in linears])
    bias = None
    if linears[0].bias is not None:
        bias = torch.cat([linear.bias.data for linear in linears])
    start = 0
    for linear in linears:
        end = start + linear.weight.shape[0]
        linear.weight.data = weight[start:end]
        start = end
    return weight, bias


class LeanLlama:
    """The fused weights of one model, shared by every run on it.

    int8: the products use int8 copies of the weights (bf16 models on the CPU).
    """

    def __init__(self, model: Any, int8: bool = False) -> None:
        # Weights made in inference mode could not serve an ordinary forward of the model later.
        mode = torch.inference_mode(model.lm_head.weight.is_inference())
        with mode, torch.no_grad():
            self._read(model, Int8 if int8 else Dense)

    def _read(self, model: Any, product: type[Dense] | type[Int8]) -> None:
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
        self.norm = decoder.norm.weight
        self.layers = [Layer(layer, product) for layer in decoder.layers]
        self._rotary = decoder.rotary_emb
        self._cos = self._sin = torch.empty(0)

    def rotary(self, start: int, end: int) -> tuple[Tensor, Tensor]:
        """cos and sin [k, 1, head_dim] of the positions from start to end."""
        if end > len(self._cos):
            size = -(-end // _TABLE_BLOCK) * _TABLE_BLOCK
            positions = torch.arange(size, device=self.device)[None]
            like = torch.empty(0, dtype=self.dtype, device=self.device)
            cos, sin = self._rotary(like, positions)
            # rotate_half(x) = cat(-x2, x1): the sign moves into the table.
            half = self.head_dim // 2
            sin = torch.cat((-sin[..., :half], sin[..., half:]), -1)
            self._cos, self._sin = cos[0, :, None], sin[0, :, None]
        return self._cos[start:end], self._sin[start:end]


class LlamaState(LayeredState):
    """KVState over a LeanLlama. See `contracts.KVState` for shapes."""

    def __init__(self, lean: LeanLlama) -> None:
        super().__init__([SharedPromptLayer() for _ in lean.layers])
        self._lean = lean

    def prefill(self, ids: Sequence[int]) -> Tensor:
        return self._logits(self._hidden(torch.tensor([list(ids)]))[0, -1])

    def reorder(self, parents: Tensor) -> None:
        super().reorder(parents.to(self._lean.device))

    def forward(self, ids: Tensor) -> Tensor:
        return self._logits(self._hidden(ids))

    def _logits(self, hidden: Tensor) -> Tensor:
        """Logits [..., V] of normed hidden states; −inf for ids that a cut head does not write."""
        lean = self._lean
        logits = lean.head(hidden)
        if lean.head_ids is None:
            return logits
        whole = logits.new_full((*logits.shape[:-1], len(lean.embedding)), float("-inf"))
        whole[..., lean.head_ids] = logits
        return whole

    def _hidden(self, ids: Tensor) -> Tensor:
        """Normed last hidden states [W, k, hidden] of ids [W, k]."""
        lean, start = self._lean, self.length
        self.length += ids.shape[1]
        x = F.embedding(ids.to(lean.device), lean.embedding)
        tables = lean.rotary(start, self.length)
        mask = self._mask(ids.shape[1])
        shape = (x.shape[-1],)
        for layer, stored in zip(lean.layers, self.layers, strict=True):
            normed = F.rms_norm(x, shape, layer.norm_in, lean.eps)
            x = x + self._attend(normed, layer, stored, tables, mask)
            normed = F.rms_norm(x, shape, layer.norm_mid, lean.eps)
            gate, up = layer.gate_up(normed).chunk(2, -1)
            x = x + layer.down(F.silu(gate) * up)
        return F.rms_norm(x, shape, lean.norm, lean.eps)

    def _mask(self, count: int) -> Tensor | None:
        """Which of the stored tokens each of the `count` new ones sees: [groups·k, length]."""
        if count == 1:
            return None
        lean = self._lean
        seen = torch.ones(count, self.length, dtype=torch.bool, device=lean.device)
        seen = seen.tril(self.length - count)
        return seen.repeat(lean.num_heads // lean.num_kv_heads, 1)

    def _attend(
        self,
        x: Tensor,
        layer: Layer,
        stored: Any,
        tables: tuple[Tensor, Tensor],
        mask: Tensor | None,
    ) -> Tensor:
        lean = self._lean
        width, count, _ = x.shape
        heads, kv_heads, dim = lean.num_heads, lean.num_kv_heads, lean.head_dim
        qkv = layer.qkv(x).view(width, count, heads + 2 * kv_heads, dim)
        rotated = qkv[:, :, : heads + kv_heads]
        if layer.norm_qk is not None:
            queries = F.rms_norm(qkv[:, :, :heads], (dim,), layer.norm_qk[0], lean.eps)
            keys = F.rms_norm(rotated[:, :, heads:], (dim,), layer.norm_qk[1], lean.eps)
            rotated = torch.cat((queries, keys), 2)
        swapped = rotated.roll(dim // 2, -1)
        rotated = torch.addcmul(rotated * tables[0], swapped, tables[1]).transpose(1, 2)
        keys, values = stored.update(
            rotated[:, heads:], qkv[:, :, heads + kv_heads :].transpose(1, 2)
        )
        # The query heads that share a key head are laid behind each other: no keys are repeated.
        queries = rotated[:, :heads].reshape(width, kv_heads, -1, dim)
        seen = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
        seen = seen.view(width, heads, count, dim).transpose(1, 2).reshape(width, count, -1)
        return layer.out(seen)
