"""What beams cost, measured: short searches on a pair that is loaded."""

from __future__ import annotations

from collections.abc import Sequence

from playground.compare import compare
from playground.lessons.cost import ModelShape
from playground.models import ModelPair
from playground.session import Cancelled
from playground.types import DecodeResult

_TEXT = "The tower stood alone above the sea, and every evening its keeper climbed to the light. "


def shape_of(pair: ModelPair) -> ModelShape | None:
    """The shape of a causal target's cache; None for an encoder-decoder, which also keeps what it
    has read, and for a model that says nothing of itself."""
    config = getattr(pair.target, "config", None)
    if config is None or pair.is_encoder_decoder or not hasattr(config, "num_hidden_layers"):
        return None
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    name, size = pair.name or "", pair.target.dtype.itemsize
    return ModelShape(name, config.num_hidden_layers, heads, dim, "its own config", size)


def beam_searches(
    pair: ModelPair,
    widths: Sequence[int],
    prompt: int,
    steps: int,
    cancelled: Cancelled | None = None,
    deadline_s: float | None = None,
) -> dict[int, DecodeResult]:
    """One search of each width over the same `prompt` tokens, each to `steps` tokens in its cache,
    warmed up before, by width."""
    ids = pair.encode(_TEXT, raw=True)
    found = compare(
        pair,
        (ids * (prompt // len(ids) + 1))[:prompt],
        {str(width): {"method": "beam", "num_beams": width} for width in widths},
        cancelled=cancelled,
        deadline_s=deadline_s,
        max_new_tokens=steps + 1,  # the last ones never go through the model
        eos_token_id=[],
    )
    return {int(label): result for label, result in found.results.items()}
