"""The lean forward computes what the model's own forward computes, for every family it claims."""

from typing import Any

import pytest
import torch
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from playground.cache import TransformersState
from playground.llama import LeanLlama, LlamaState, fits
from playground.models import ModelPair

SIZE: dict[str, Any] = dict(
    vocab_size=64,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    pad_token_id=0,
)
LLAMA3_ROPE = dict(
    rope_type="llama3",
    rope_theta=1e4,
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=32,
)
FAMILIES = {
    "llama": (LlamaForCausalLM, LlamaConfig(**SIZE)),
    "llama, tied": (LlamaForCausalLM, LlamaConfig(**SIZE, tie_word_embeddings=True)),
    "llama, biases": (LlamaForCausalLM, LlamaConfig(**SIZE, attention_bias=True)),
    "llama, llama3 rotary": (LlamaForCausalLM, LlamaConfig(**SIZE, rope_parameters=LLAMA3_ROPE)),
    "llama, wide heads": (LlamaForCausalLM, LlamaConfig(**SIZE, head_dim=16)),
    "mistral": (MistralForCausalLM, MistralConfig(**SIZE, sliding_window=None)),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config(**SIZE)),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config(**SIZE, head_dim=8)),
}


def make(name: str, dtype: torch.dtype = torch.float32) -> Any:
    """A random model of the family, with weights large enough for peaky laws."""
    torch.manual_seed(0)
    cls, config = FAMILIES[name]
    model = cls(config).to(dtype).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


@pytest.mark.parametrize("name", FAMILIES)
@torch.inference_mode()
def test_logits_equal_the_models_own(name: str) -> None:
    """Prefill, one token, several tokens, after a rollback, and in reordered beams."""
    model = make(name)
    assert fits(model)
    ids = torch.randint(0, 64, (1, 20))
    expected = model(ids).logits[0]
    state = LlamaState(LeanLlama(model))
    found = [state.prefill(ids[0, :5].tolist())[None]]
    state.forward(torch.tensor([[1, 2, 3]]))
    state.rollback(5)
    found.append(state.forward(ids[:, 5:12])[0])
    found += [state.forward(ids[:, i : i + 1])[0] for i in range(12, 16)]
    state.reorder(torch.tensor([0, 0, 0]))
    found.append(state.forward(torch.tensor([[5], [int(ids[0, 16])], [7]]))[1])
    state.reorder(torch.tensor([1, 1]))
    found.append(state.forward(ids[:, 17:].expand(2, -1))[1])
    torch.testing.assert_close(torch.cat(found), expected[4:], atol=1e-5, rtol=1e-5)


@torch.inference_mode()
def test_half_precision_stays_within_its_own_rounding() -> None:
    """bf16: as close to fp32 as the model's own bf16 forward is."""
    exact, model = make("llama"), make("llama", torch.bfloat16)
    ids = torch.randint(0, 64, (1, 16))
    expected = exact(ids).logits[0, -1]
    own = (model(ids).logits[0, -1] - expected).abs().max()
    lean = (LlamaState(LeanLlama(model)).prefill(ids[0].tolist()) - expected).abs().max()
    assert lean <= 2 * own + 0.05


@torch.inference_mode()
def test_int8_weights_are_close_for_few_rows_and_many() -> None:
    """Both products of the int8 weights give the same logits, near those of bf16."""
    model = make("qwen2", torch.bfloat16)
    ids = torch.randint(0, 64, (1, 24))
    few, many = (LlamaState(LeanLlama(model, int8=True)) for _ in range(2))
    one_by_one = torch.stack([few.forward(ids[:, i : i + 1])[0, 0] for i in range(24)]).float()
    at_once = many.forward(ids)[0].float()
    expected = model(ids).logits[0].float()
    spread = expected.std()
    assert (one_by_one - at_once).abs().mean() < 0.05 * spread
    assert (at_once - expected).abs().mean() < 0.15 * spread


@torch.inference_mode()
def test_the_models_own_weights_and_forward_stay_intact() -> None:
    """Fusing shares memory with the model: the same values, stored once."""
    model = make("qwen2")
    ids = torch.randint(0, 64, (1, 9))
    before = model(ids).logits
    lean = LeanLlama(model)
    assert torch.equal(model(ids).logits, before)
    q_proj = model.model.layers[0].self_attn.q_proj.weight
    assert q_proj.data_ptr() == lean.layers[0].qkv._weight.data_ptr()  # type: ignore[union-attr]


def test_chosen_where_it_fits_and_refused_elsewhere() -> None:
    """A sliding window, another family, other rotary scaling: the model's own forward."""
    windowed = MistralForCausalLM(MistralConfig(**SIZE, sliding_window=4))
    gemma = Gemma3ForCausalLM(Gemma3TextConfig(**SIZE, head_dim=8))
    dynamic = dict(rope_type="dynamic", rope_theta=1e4, factor=2.0)
    scaled = LlamaForCausalLM(LlamaConfig(**SIZE, rope_parameters=dynamic))
    assert not any(fits(model) for model in (windowed, gemma, scaled))
    model = make("llama")
    assert isinstance(ModelPair(model).open(model, [1]), LlamaState)
    assert isinstance(ModelPair(model, lean=False).open(model, [1]), TransformersState)


@torch.inference_mode()
def test_a_cut_head_writes_only_its_own_ids() -> None:
    """The same logits where the head has the id, minus infinity elsewhere."""
    model = make("llama")
    ids = [1, 2, 3]
    expected = LlamaState(LeanLlama(model)).prefill(ids)
    model.head_ids = torch.tensor([5, 60, 7])
    found = LlamaState(LeanLlama(model)).prefill(ids)
    torch.testing.assert_close(found[model.head_ids], expected[model.head_ids])
    assert int(found.isinf().sum()) == 61


def test_a_pair_made_in_inference_mode_leaves_the_model_usable() -> None:
    """The fused weights are ordinary tensors: the model's own forward, and training, still work."""
    model = make("llama")
    with torch.inference_mode():
        ModelPair(model)
    model(torch.tensor([[1, 2, 3]])).logits.sum().backward()
