"""What beams cost: work, and memory of keys and values, by width and model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from playground.metrics import beam_kv_bytes, kv_bytes_per_token
from playground.types import DecodeResult

MIB = 2**20


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What decides the size of a model's keys and values; `source` says where it is written."""

    name: str
    layers: int
    kv_heads: int
    head_dim: int
    source: str
    bytes_per_number: int = 2

    @property
    def bytes_per_token(self) -> int:
        """A key and a value for each layer and key-value head."""
        return kv_bytes_per_token(self.layers, self.kv_heads, self.head_dim, self.bytes_per_number)


MODELS = (
    ModelShape("Llama 3 8B", 32, 8, 128, "meta-llama/Meta-Llama-3-8B, config.json"),
    ModelShape("Llama 3 70B", 80, 8, 128, "meta-llama/Meta-Llama-3-70B, config.json"),
    ModelShape("Llama 2 7B", 32, 32, 128, "meta-llama/Llama-2-7b-hf, config.json"),
    ModelShape("Mistral 7B", 32, 8, 128, "mistralai/Mistral-7B-v0.3, config.json"),
    ModelShape("Qwen2.5 7B", 28, 4, 128, "Qwen/Qwen2.5-7B, config.json"),
    ModelShape("SmolLM2 135M", 30, 3, 64, "HuggingFaceTB/SmolLM2-135M-Instruct, config.json"),
)


SHAPES = {shape.name: shape for shape in MODELS}


@dataclass(frozen=True, slots=True)
class Cost:
    """A search of W beams, `steps` tokens behind a prompt.

    positions: tokens that run through the weights, the prompt's once and every beam's own; work:
    that over one beam's. naive_bytes, shared_bytes: keys and values at the end, with a copy of the
    prompt in every beam and with one for all.
    """

    width: int
    positions: int
    work: float
    naive_bytes: int
    shared_bytes: int

    @property
    def naive_mib(self) -> float:
        return self.naive_bytes / MIB

    @property
    def shared_mib(self) -> float:
        return self.shared_bytes / MIB


def cost(shape: ModelShape, width: int, prompt: int, steps: int) -> Cost:
    """The cost of one search; prompt and steps in tokens."""
    positions = prompt + width * steps
    memory = beam_kv_bytes(width, prompt, steps, shape.bytes_per_token)
    return Cost(width, positions, positions / (prompt + steps), *memory)


def costs(shape: ModelShape, widths: Sequence[int], prompt: int, steps: int) -> tuple[Cost, ...]:
    """The cost at each width."""
    return tuple(cost(shape, width, prompt, steps) for width in widths)


@dataclass(frozen=True, slots=True)
class Measured:
    """A search that was run: milliseconds a token behind the first, and the bytes that its cache
    held at the end beside what they would be with a copy of the prompt in every beam."""

    width: int
    prompt: int
    steps: int
    ms_per_token: float | None
    kv_bytes: int | None
    kv_bytes_naive: int | None


def measured(result: DecodeResult, width: int) -> Measured:
    """What one beam search of a decoder-only model took. steps: tokens of each beam in the cache,
    one for every pass behind the prompt's."""
    metrics = result.metrics
    return Measured(
        width,
        len(result.prompt_ids),
        metrics.num_target_passes - 1,
        metrics.ms_per_token,
        metrics.kv_bytes,
        metrics.kv_bytes_naive,
    )
