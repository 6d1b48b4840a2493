"""The chat target as the recipes of its drafts use it: its weights, and what it writes itself."""

import json
import random
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import AttentionInterface, DynamicCache, LlamaConfig, LlamaForCausalLM
from transformers.cache_utils import DynamicLayer

from playground.gguf_weights import read_llama

ASSETS = Path(__file__).resolve().parents[1]
TARGET = ASSETS / "models" / "chat-target"
PROMPTS = Path(__file__).with_name("chat_prompts.json")
END = 2  # <|im_end|>

# ---------------------------------------------------------------------------- the target


def read_target() -> dict[str, Tensor]:
    """The target's weights, dequantised, in bfloat16, under the names that transformers uses."""
    weights = read_llama(next(TARGET.glob("*.gguf")))
    return {name: weight.bfloat16() for name, weight in weights.items()}


def load_target() -> LlamaForCausalLM:
    """The target in bfloat16, ready for inference."""
    config = LlamaConfig.from_pretrained(TARGET)
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    model.load_state_dict(read_target(), strict=False, assign=True)
    model.tie_weights()
    model.model.rotary_emb = type(model.model.rotary_emb)(config)
    return model.requires_grad_(False).eval()


# ---------------------------------------------------------------------------- what it writes


def fill(template: str, slots: dict[str, list[str]], rng: random.Random) -> str:
    """Replace every {slot} by a random entry of its list ({a} and {b} by numbers)."""
    text = template
    while "{" in text:
        start, stop = text.index("{"), text.index("}")
        name = text[start + 1 : stop]
        value = str(rng.randint(2, 400)) if name in ("a", "b") else rng.choice(slots[name])
        text = text[:start] + value + text[stop + 1 :]
    return text[0].upper() + text[1:]


def write_prompts(number: int, rng: random.Random) -> list[str]:
    """User turns of many kinds, the kinds in equal shares."""
    data = json.loads(PROMPTS.read_text())
    kinds = list(data["kinds"].values())
    return [fill(rng.choice(rng.choice(kinds)), data["slots"], rng) for _ in range(number)]


class PreallocatedLayer(DynamicLayer):
    """A key-value cache that writes in place instead of copying itself at every token."""

    room = 512

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Append [batch, heads, new, dim] and return views of all that is stored."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
            batch, heads, _, dim = key_states.shape
            shape = (batch, heads, self.room, dim)
            self.buffers, self.length = [key_states.new_empty(shape) for _ in "kv"], 0
        start, self.length = self.length, self.length + key_states.shape[2]
        for buffer, new in zip(self.buffers, (key_states, value_states), strict=True):
            buffer[:, :, start : self.length] = new
        self.keys, self.values = (buffer[:, :, : self.length] for buffer in self.buffers)
        return self.keys, self.values

    def keep(self, rows: Tensor) -> None:
        """Drop finished conversations."""
        self.buffers = [buffer[rows] for buffer in self.buffers]
        self.keys, self.values = (buffer[:, :, : self.length] for buffer in self.buffers)


def grouped_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attention whose query heads share keys without repeating them: heads become positions."""
    batch, num_heads, length, dim = query.shape
    groups = num_heads // key.shape[1]
    folded = query.reshape(batch, key.shape[1], groups * length, dim)
    if mask is not None:  # of numbers: by a third faster than of truth values
        zeros = torch.zeros(mask.shape, dtype=query.dtype)
        mask = zeros.masked_fill_(~mask, -torch.inf).repeat(1, 1, groups, 1)
    output = F.scaled_dot_product_attention(folded, key, value, attn_mask=mask)
    return output.reshape(batch, num_heads, length, dim).transpose(1, 2), None


AttentionInterface.register("grouped", grouped_attention)


def draw(logits: Tensor, temperature: Tensor, generator: torch.Generator) -> Tensor:
    """Sample one id a row; temperature 0 takes the largest logit.

    By the inverse of the cumulative law: `torch.multinomial` draws a number for every id of every
    row, which takes longer than the target's whole forward.
    """
    best = logits.argmax(-1)
    law = torch.softmax(logits.float() / temperature.clamp_min(0.05)[:, None], -1)
    below = law.cumsum(-1)
    level = torch.rand(len(law), 1, generator=generator) * below[:, -1:]
    sampled = torch.searchsorted(below, level, right=True)[:, 0].clamp_max(law.shape[-1] - 1)
    return torch.where(temperature == 0, best, sampled)


@torch.inference_mode()
def write_replies(
    model: LlamaForCausalLM,
    prompts: list[list[int]],
    temperatures: list[float],
    max_new_tokens: int,
    generator: torch.Generator,
) -> list[list[int]]:
    """Continue a batch of prompts (left-padded) until each has ended or is long enough."""
    longest = max(map(len, prompts))
    ids = torch.tensor([[0] * (longest - len(p)) + p for p in prompts])
    keep = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts]).bool()
    temperature = torch.tensor(temperatures)
    rows = torch.arange(len(prompts))
    position = keep.long().cumsum(-1).clamp_min(1) - 1
    causal = torch.ones(longest, longest, dtype=torch.bool).tril()
    mask = keep[:, None, None] & causal | torch.eye(longest, dtype=torch.bool)
    layers = [PreallocatedLayer() for _ in model.model.layers]
    for layer in layers:
        layer.room = longest + max_new_tokens
    cache = DynamicCache()
    cache.layers = list(layers)
    replies: list[list[int]] = [[] for _ in prompts]
    for step in range(max_new_tokens):
        hidden = model.model(
            input_ids=ids, position_ids=position, cache=cache, attention_mask=mask
        ).last_hidden_state[:, -1]
        ids = draw(model.lm_head(hidden), temperature, generator)[:, None]
        for row, token in zip(rows.tolist(), ids[:, 0].tolist(), strict=True):
            if not replies[row] or replies[row][-1] != END:
                replies[row].append(token)
        keep = F.pad(keep, (0, 1), value=True)
        position = position[:, -1:] + 1
        if step % 16 == 15:
            alive = torch.tensor([replies[row][-1] != END for row in rows.tolist()])
            if not alive.any():
                break
            rows, ids, keep, position = rows[alive], ids[alive], keep[alive], position[alive]
            temperature = temperature[alive]
            for layer in layers:
                layer.keep(alive)
        mask = keep[:, None, None]
    return replies
