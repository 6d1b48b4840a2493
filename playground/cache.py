"""KVState over any transformers model: prefill, forward, roll back, reorder, count bytes.

The prompt's keys and values are stored once for all beams. Attention sees a working copy of one
layer at a time: prompt and suffix joined for the W sequences, dropped as soon as the layer is done.
Sliding-window layers keep every key and leave the window to the mask, so that they can roll back.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.cache_utils import (
    Cache,
    CacheLayerMixin,
    DynamicCache,
    DynamicLayer,
    DynamicSlidingWindowLayer,
    EncoderDecoderCache,
)
from transformers.modeling_outputs import BaseModelOutput

from playground.contracts import KVState

Model = Any  # a transformers model, or any module that maps ids to logits

_BLOCK = 64  # a single sequence's buffers grow by this many tokens


class SharedPromptLayer(CacheLayerMixin):
    """One layer: a shared prefix [1, H, P, D] stored once, and W suffixes [W, H, t, D].

    Until the first reorder there is one sequence and no prefix; its buffer grows in blocks.
    """

    is_sliding = False
    is_croppable = True

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)  # type: ignore[no-untyped-call]
        self._shared: tuple[Tensor, ...] | None = None
        self._own: tuple[Tensor, ...] | None = None
        self._width, self._own_length = 1, 0

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Append [W, H, k, D] and return everything that attention may see."""
        keys, values = self.append(key_states, value_states)
        return keys, values

    def append(self, *new: Tensor) -> tuple[Tensor, ...]:
        """As `update`, for any number of tensors a layer (keys and values may be one)."""
        self.is_initialized = True
        if self._shared is None:
            return self._append_in_place(new)
        old = self._own or tuple(x[:, :, :0] for x in new)
        self._own = tuple(torch.cat((o, x), 2) for o, x in zip(old, new, strict=True))
        self._own_length += new[0].shape[2]
        return tuple(
            torch.cat((s.expand(len(o), -1, -1, -1), o), 2)
            for s, o in zip(self._shared, self._own, strict=True)
        )

    def _append_in_place(self, new: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        end = self._own_length + new[0].shape[2]
        if self._own is None or end > self._own[0].shape[2]:
            capacity = -(-end // _BLOCK) * _BLOCK
            grown = tuple(x.new_empty(*x.shape[:2], capacity, x.shape[3]) for x in new)
            if self._own is not None:
                for to, old in zip(grown, self._own, strict=True):
                    to[:, :, : self._own_length] = old[:, :, : self._own_length]
            self._own = grown
        for buffer, x in zip(self._own, new, strict=True):
            buffer[:, :, self._own_length : end] = x
        self._own_length = end
        return tuple(buffer[:, :, :end] for buffer in self._own)

    @property
    def buffers(self) -> tuple[Tensor, ...] | None:
        """What a single sequence lies in; None before its first token and after a reorder."""
        return self._own if self._shared is None else None

    def move_to(self, *buffers: Tensor) -> None:
        """Let a single sequence lie in these buffers [1, H, capacity, D], zero behind its end."""
        end = self._own_length
        for buffer, old in zip(buffers, self._own or (), strict=False):
            buffer[:, :, :end] = old[:, :, :end]
        for buffer in buffers:
            buffer[:, :, end:] = 0
        self._own = buffers

    def extend(self, count: int) -> None:
        """Somebody has written `count` more tokens into the buffers."""
        self._own_length += count

    def crop_to(self, length: int) -> None:
        """Keep the first `length` tokens. The shared prefix never shrinks."""
        self._own_length = max(0, length - self._prefix_length)
        if self._shared is not None and self._own is not None:
            self._own = tuple(x[:, :, : self._own_length] for x in self._own)

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Row i continues row beam_idx[i]. The first call turns what is stored into the prefix."""
        if self._shared is None and self._own is not None:
            self._shared = tuple(x[:, :, : self._own_length].clone() for x in self._own)
            self._own, self._own_length = None, 0
        elif self._own is not None:
            self._own = tuple(x.index_select(0, beam_idx.to(x.device)) for x in self._own)
        self._width = len(beam_idx)

    @property
    def _prefix_length(self) -> int:
        return 0 if self._shared is None else self._shared[0].shape[2]

    def get_seq_length(self) -> int:
        return self._prefix_length + self._own_length

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.get_seq_length() + query_length, 0

    def get_max_length(self) -> int:
        return -1

    def num_bytes(self) -> int:
        """Bytes of the storage held, spare room included."""
        stored = (*(self._shared or ()), *(self._own or ()))
        return sum(x.numel() * x.element_size() for x in stored)

    def num_bytes_naive(self) -> int:
        """Bytes if each of the W sequences held its own copy of the prefix."""
        shared = sum(x.numel() * x.element_size() for x in self._shared or ())
        return self.num_bytes() + shared * (self._width - 1)


class LayeredState:
    """What every KVState made of `SharedPromptLayer`s (`layers`) does alike."""

    def __init__(self, layers: list[Any]) -> None:
        self.length = 0
        self.layers = layers

    def rollback(self, length: int) -> None:
        for layer in self.layers:
            layer.crop_to(length)
        self.length = length

    def reorder(self, parents: Tensor) -> None:
        for layer in self.layers:
            layer.reorder_cache(parents)

    def num_bytes(self) -> int:
        return sum(layer.num_bytes() for layer in self.layers)

    def num_bytes_naive(self) -> int:
        return sum(layer.num_bytes_naive() for layer in self.layers)


class TransformersState(LayeredState):
    """KVState over a transformers model's own forward. See `contracts.KVState` for shapes."""

    def __init__(self, model: Model, encoded: Tensor | None = None) -> None:
        self._self_cache: Any = Cache(layer_class_to_replicate=SharedPromptLayer)
        super().__init__(self._self_cache.layers)  # filled by the model's first forward
        self._model = model
        self._device = device_of(model)
        self._cache: Cache = self._self_cache
        self._width = 1
        self._cross_cache: Any = None
        self._encoded = encoded
        parameters = inspect.signature(model.forward).parameters
        self._cache_name = "cache" if "cache" in parameters else "past_key_values"
        self._keeps_logits = "logits_to_keep" in parameters
        if encoded is not None:
            self._cross_cache = DynamicCache()
            self._cache = EncoderDecoderCache(self._self_cache, self._cross_cache)

    def prefill(self, ids: Sequence[int]) -> Tensor:
        tensor = torch.tensor([list(ids)], device=self._device)
        return self._forward(tensor, last_only=True)[0, -1]

    def forward(self, ids: Tensor) -> Tensor:
        return self._forward(ids.to(self._device))

    def _forward(self, ids: Tensor, last_only: bool = False) -> Tensor:
        inputs: dict[str, Any] = {self._cache_name: self._cache, "use_cache": True}
        if self._encoded is None:
            inputs["input_ids"] = ids
            if last_only and self._keeps_logits:
                inputs["logits_to_keep"] = 1
        else:
            states = self._encoded.expand(len(ids), -1, -1)
            inputs["decoder_input_ids"] = ids
            inputs["encoder_outputs"] = BaseModelOutput(last_hidden_state=states)
        logits: Tensor = self._model(**inputs, return_dict=True).logits
        self.length += ids.shape[1]
        return logits

    def reorder(self, parents: Tensor) -> None:
        parents = parents.to(self._device)
        super().reorder(parents)
        self._width = len(parents)
        if self._cross_cache is not None:
            # Every sequence reads the same encoder states: a view, not a copy.
            for layer in self._cross_cache.layers:
                layer.keys = layer.keys[:1].expand(len(parents), -1, -1, -1)
                layer.values = layer.values[:1].expand(len(parents), -1, -1, -1)

    def num_bytes(self) -> int:
        return super().num_bytes() + self._cross_bytes(1)

    def num_bytes_naive(self) -> int:
        return super().num_bytes_naive() + self._cross_bytes(self._width)

    def _cross_bytes(self, width: int) -> int:
        layers = self._cross_cache.layers if self._cross_cache is not None else []
        return width * sum(
            x[:1].numel() * x.element_size() for layer in layers for x in (layer.keys, layer.values)
        )


class RecomputeState:
    """KVState for a plain module without a cache: every call runs the whole sequences again."""

    def __init__(self, model: Model) -> None:
        self.length = 0
        self._model = model
        self._device = device_of(model)
        self._ids = torch.empty(1, 0, dtype=torch.long, device=self._device)

    def prefill(self, ids: Sequence[int]) -> Tensor:
        return self.forward(torch.tensor([list(ids)]))[0, -1]

    def forward(self, ids: Tensor) -> Tensor:
        self._ids = torch.cat((self._ids, ids.to(self._device)), 1)
        self.length = self._ids.shape[1]
        output = self._model(self._ids)
        logits: Tensor = getattr(output, "logits", output)
        return logits[:, -ids.shape[1] :]

    def rollback(self, length: int) -> None:
        self._ids = self._ids[:, :length]
        self.length = length

    def reorder(self, parents: Tensor) -> None:
        self._ids = self._ids.index_select(0, parents.to(self._device))

    def num_bytes(self) -> int:
        return 0

    def num_bytes_naive(self) -> int:
        return 0


def open_state(model: Model, encoded: Tensor | None = None) -> KVState:
    """A fresh KVState for `model`; `encoded` [1, n, d] for an encoder-decoder, see `encode`."""
    if isinstance(model, PreTrainedModel):
        return TransformersState(model, encoded)
    return RecomputeState(model)


def encode(model: Model, ids: Sequence[int]) -> Tensor:
    """What the encoder of an encoder-decoder makes of ids: hidden states [1, n, d]."""
    tensor = torch.tensor([list(ids)], device=device_of(model))
    return model.get_encoder()(input_ids=tensor)[0]


def forced_logits(
    state: KVState, prefix: Sequence[int], ids: Sequence[int], chunk: int
) -> Iterator[Tensor]:
    """Logits that predict ids behind the prefix, by passes over at most `chunk` of them: tensors
    [at most chunk, V], in order."""
    logits = state.prefill(prefix)[None]
    for start in range(0, len(ids), chunk):
        count = min(chunk, len(ids) - start)
        fed = list(ids[start : min(start + chunk, len(ids) - 1)])
        more = [state.forward(torch.tensor([fed]))[0]] if fed else []
        rows = torch.cat((logits, *more))
        yield rows[:count]
        logits = rows[-1:]


def device_of(model: Model) -> torch.device:
    """The device of a model's weights; the CPU for one without any."""
    return next((p.device for p in model.parameters()), torch.device("cpu"))


def num_readable(model: Model) -> int | None:
    """How many ids a model has embeddings for; None for a module that does not say."""
    if not hasattr(model, "get_input_embeddings"):
        return None
    return int(model.get_input_embeddings().weight.shape[0])


def refuse_reason(model: Model) -> str | None:
    """Why this model's cache cannot serve rollback and reorder, or None when it can.

    First by what the model says of itself (recurrent and hybrid states cannot forget single
    tokens), then by trying: a rolled-back and continued sequence must give the logits of a plain
    forward pass without any cache.
    """
    kind = type(model).__name__
    if getattr(model, "_is_stateful", False):
        return f"{kind} keeps a recurrent state, which cannot forget rejected tokens"
    config = getattr(model, "config", None)
    if hasattr(config, "get_text_config"):
        for layer in DynamicCache(config=config).layers:
            if type(layer) not in (DynamicLayer, DynamicSlidingWindowLayer):
                return f"{kind} uses a {type(layer).__name__}, which cannot be rolled back"
    return _rollback_fault(model, kind)


@torch.inference_mode()
def _rollback_fault(model: Model, kind: str) -> str | None:
    config = getattr(model, "config", None)
    size, pad = getattr(config, "vocab_size", 8), getattr(config, "pad_token_id", None)
    ids = [min(i, size - 1) for i in (1, 3, 2, 4, 0, 5)]
    # Some families give padding a position of its own, and it is never generated.
    ids = [i if i != pad else min(6, size - 1) for i in ids]
    encoder_ids = ids[:3] if is_encoder_decoder(model) else None
    try:
        state = open_state(model, encode(model, encoder_ids) if encoder_ids else None)
        state.prefill(ids[:2])
        state.forward(torch.tensor([[ids[4], ids[5], ids[4]]]))
        state.rollback(2)
        rolled = state.forward(torch.tensor([ids[2:5]]))[0].float()
        state.reorder(torch.tensor([0, 0]))
        beams = state.forward(torch.tensor([[ids[5]], [ids[5]]]))[:, -1].float()
        fresh = _without_cache(model, ids, encoder_ids)
    except Exception as error:  # whatever a family's own forward may raise
        return (
            f"{kind} does not take the cache this project needs ({type(error).__name__}: {error})"
        )
    expected = torch.cat((fresh[2:5], fresh[5:].expand(2, -1)))
    found = torch.cat((rolled, beams))
    scale = max(1.0, float(fresh.abs().max()))
    exact = next((p.dtype for p in model.parameters()), torch.float32) in (
        torch.float32,
        torch.float64,
    )
    if float((found - expected).abs().max()) > scale * (1e-3 if exact else 0.1):
        return f"{kind} gives other logits after a rollback than without a cache"
    return None


def _without_cache(model: Model, ids: list[int], encoder_ids: list[int] | None) -> Tensor:
    """Logits [k, V] of the model's plain forward over whole sequences: the reference."""
    device = device_of(model)
    rows = {"input_ids": torch.tensor([ids], device=device)}
    if encoder_ids is not None:
        rows = {
            "input_ids": torch.tensor([encoder_ids], device=device),
            "decoder_input_ids": rows["input_ids"],
        }
    output = model(**rows)
    return getattr(output, "logits", output)[0].float()


def is_encoder_decoder(model: Model) -> bool:
    """Whether the model reads a prompt with an encoder of its own."""
    return bool(getattr(getattr(model, "config", None), "is_encoder_decoder", False))


def is_untouched(model: Model) -> bool:
    """Whether all of a model's modules are transformers' and torch's own and nothing is hooked in:
    no adapters (LoRA), steering hooks or replaced forwards, which a forward of ours would miss."""
    return all(
        type(m).__module__.startswith(("torch.nn.modules.", "transformers."))
        and "forward" not in vars(m)
        and all(
            _only_watches(hook)
            for hook in (*m._forward_hooks.values(), *m._forward_pre_hooks.values())
        )
        for m in model.modules()
    )


def _only_watches(hook: Any) -> bool:
    """Whether it is one that transformers leaves behind after it was asked for hidden states."""
    return str(getattr(hook, "__module__", "")).startswith("transformers.")
