"""Keys and values: rollback, reorder, what they take, and which models are refused.

The reference is always the model's own forward over the whole sequence, without any cache.
"""

from __future__ import annotations

import copy
import json
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from playground import cache
from playground.cache import SharedPromptLayer, is_untouched, refuse_reason
from playground.contracts import KVState
from playground.lean_t5 import LeanT5
from playground.models import ModelPair
from playground.session import decode
from tests import models_zoo
from tests.table_lm import TableLM

GOLDEN = json.loads((Path(__file__).parent / "golden" / "kv_memory.json").read_text())
PROMPT = [5, 9, 3, 7, 11, 8, 4]  # longer than the windows of 5
# The lean forward and the model's own share their layers, not their states: both are tried.
STATES = [(family, False) for family in (*models_zoo.FAMILIES, "t5_deep_decoder")]
STATES += [("llama", True), ("qwen2", True), ("table", False)]
every_state = pytest.mark.parametrize(("family", "lean"), STATES)


def pair_of(family: str, lean: bool) -> ModelPair:
    if family == "table":
        return ModelPair(TableLM(models_zoo.VOCAB))
    return models_zoo.pair(family, lean=lean)


def opened(pair: ModelPair) -> tuple[KVState, Tensor, list[int]]:
    """A state after its prompt, the logits [V] there, and what the decoder started from."""
    state = pair.open(pair.target, PROMPT)
    prefix = pair.prefix(PROMPT)
    return state, state.prefill(prefix), prefix


@torch.inference_mode()
def without_cache(pair: ModelPair, ids: Sequence[int]) -> Tensor:
    """Logits [n, V] of the plain forward over prefix and ids."""
    whole = torch.tensor([pair.prefix(PROMPT) + list(ids)])
    if isinstance(pair.target, TableLM):
        return pair.target(whole)[0]
    if pair.is_encoder_decoder:
        prompt = torch.tensor([PROMPT])
        return pair.target(input_ids=prompt, decoder_input_ids=whole, use_cache=False).logits[0]
    return pair.target(input_ids=whole, use_cache=False).logits[0]


def assert_same(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


@every_state
@torch.inference_mode()
def test_rollback_then_continue_equals_a_fresh_run(family: str, lean: bool) -> None:
    """Case 30: past the window, to every length, twice over; nothing of what was dropped stays."""
    pair = pair_of(family, lean)
    state, logits, prefix = opened(pair)
    assert_same(logits, without_cache(pair, [])[-1])
    ids: list[int] = []
    for kept, fed in (
        (0, [6, 6, 2, 9]),
        (1, [12, 3, 8]),
        (3, [10]),
        (4, [2, 2, 2, 2]),
        (0, [7, 5]),
    ):
        state.rollback(len(prefix) + kept)
        assert state.length == len(prefix) + kept
        ids = ids[:kept] + fed
        logits = state.forward(torch.tensor([fed]))[0]
        assert_same(logits, without_cache(pair, ids)[-len(fed) :])
        assert state.length == len(prefix) + len(ids)


@every_state
@torch.inference_mode()
def test_reorder_then_continue_equals_separate_runs(family: str, lean: bool) -> None:
    """Cases 10 and 30: rows are copied, swapped, dropped and added, rolled back and continued; each
    row remains its own sequence."""
    pair = pair_of(family, lean)
    state, _, prefix = opened(pair)
    rows: list[list[int]] = [[]]
    steps: list[tuple[list[int], list[list[int]]]] = [
        ([0, 0, 0], [[6], [2], [9]]),
        ([1, 1, 0], [[3], [4], [5]]),
        ([2, 0], [[7], [7]]),
        ([1, 1, 0, 0], [[8, 2], [9, 3], [8, 4], [2, 5]]),
        ([3], [[11]]),
        ([0, 0], [[12], [6]]),
    ]
    for parents, fed in steps:
        state.reorder(torch.tensor(parents))
        logits = state.forward(torch.tensor(fed))
        rows = [rows[p] + new for p, new in zip(parents, fed, strict=True)]
        for row, found in zip(rows, logits, strict=True):
            assert_same(found, without_cache(pair, row)[-len(fed[0]) :])
    for kept in (4, 1, 0):
        state.rollback(len(prefix) + kept)
        logits = state.forward(torch.tensor([[10], [3]]))
        rows = [row[:kept] + new for row, new in zip(rows, ([10], [3]), strict=True)]
        for row, found in zip(rows, logits[:, -1], strict=True):
            assert_same(found, without_cache(pair, row)[-1])


def per_token(pair: ModelPair) -> int:
    """Bytes of keys and values of one token, from the model's own shapes."""
    state, _, prefix = opened(pair)
    state.reorder(torch.tensor([0]))  # before the first reorder there is spare room
    if pair.is_encoder_decoder:
        encoder = state.num_bytes() * len(PROMPT) // (len(PROMPT) + len(prefix))
        return (state.num_bytes() - encoder) // len(prefix)
    return state.num_bytes() // len(prefix)


@torch.inference_mode()
def test_bytes_of_one_token() -> None:
    """Keys and values of 2 layers of 2 heads of 4 numbers of 4 bytes."""
    assert per_token(models_zoo.pair("llama")) == 2 * 2 * 2 * 4 * 4
    assert per_token(models_zoo.pair("llama", lean=False)) == 2 * 2 * 2 * 4 * 4


@every_state
@torch.inference_mode()
def test_the_prompt_is_stored_once(family: str, lean: bool) -> None:
    """After t tokens of W sequences: exactly (P + W·t) tokens, where copies would take W·(P + t).
    An encoder's states are stored once, too."""
    pair = pair_of(family, lean)
    state, _, prefix = opened(pair)
    unit = 0 if family == "table" else per_token(pair)
    encoder = unit * len(PROMPT) if pair.is_encoder_decoder else 0
    for t, width in enumerate((3, 3, 4, 2, 2), start=1):
        state.reorder(torch.zeros(width, dtype=torch.long))
        state.forward(torch.full((width, 1), 6))
        assert state.num_bytes() == (len(prefix) + width * t) * unit + encoder
        assert state.num_bytes_naive() == width * (len(prefix) + t) * unit + width * encoder


@pytest.mark.parametrize(("family", "lean"), [("llama", True), ("llama", False), ("t5", False)])
@torch.inference_mode()
def test_one_layers_working_copy_at_a_time(
    family: str, lean: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attention sees the prompt joined to every row; when the next layer joins its own, the last
    one's copy is gone, and after the pass none is left."""
    copies: list[weakref.ref[Tensor]] = []
    append = SharedPromptLayer.append

    def watched(self: SharedPromptLayer, *new: Tensor) -> tuple[Tensor, ...]:
        assert not any(copy() is not None for copy in copies)
        joined = append(self, *new)
        copies.extend(weakref.ref(x) for x in joined)
        return joined

    state, _, _ = opened(models_zoo.pair(family, lean=lean))
    state.reorder(torch.zeros(3, dtype=torch.long))
    monkeypatch.setattr(SharedPromptLayer, "append", watched)
    state.forward(torch.tensor([[6], [7], [8]]))
    state.forward(torch.tensor([[6], [7], [8]]))
    assert len(copies) == 2 * 2 * (1 if lean else 2)  # passes, layers, keys and values
    assert not any(copy() is not None for copy in copies)


def test_bytes_of_the_book() -> None:
    """Llama 3 8B in BF16, 1000 tokens of prompt, 4 beams of 200: 225 MiB instead of 600, measured
    on the real layers (without storage: on the meta device)."""
    shape = GOLDEN["model"]
    prompt, generated, beams = GOLDEN["prompt"], GOLDEN["generated"], GOLDEN["beams"]

    def states(width: int, length: int) -> Tensor:
        size = (width, shape["kv_heads"], length, shape["head_dim"])
        return torch.empty(size, dtype=torch.bfloat16, device="meta")

    layers = [SharedPromptLayer() for _ in range(shape["layers"])]
    for layer in layers:
        layer.update(states(1, prompt), states(1, prompt))
        layer.reorder_cache(torch.zeros(beams, dtype=torch.long, device="meta"))
        layer.update(states(beams, generated), states(beams, generated))
    assert sum(layer.num_bytes() for layer in layers) == GOLDEN["shared_mib"] << 20
    assert sum(layer.num_bytes_naive() for layer in layers) == GOLDEN["naive_mib"] << 20
    assert GOLDEN["shared_tokens"] * GOLDEN["bytes_per_token"] == GOLDEN["shared_mib"] << 20


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("greedy", {}),
        ("sample", {"seed": 1}),
        ("beam", {"num_beams": 4}),
        ("diverse_beam", {"num_beams": 4}),
        ("exact", {"max_nodes": 60}),
        ("speculative", {"seed": 1}),
        ("mentored", {"seed": 1}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("family", models_zoo.ENCODER_DECODER)
def test_each_encoder_runs_once_a_run(
    family: str, method: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The target's and, where there is one, the draft's own (case 39), explanations included."""
    pair = ModelPair(models_zoo.model(family), models_zoo.model(family, seed=1))
    calls: list[Any] = []

    def counted(encode: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def call(model: Any, ids: list[int]) -> Tensor:
            calls.append(model)
            return encode(model, ids)

        return call

    monkeypatch.setattr(cache, "encode", counted(cache.encode))
    monkeypatch.setattr(LeanT5, "encode", counted(LeanT5.encode))
    decode(pair, PROMPT, method, max_new_tokens=8, eos_token_id=[], **settings)
    drafts = method in ("speculative", "mentored")
    assert len(calls) == len({id(model) for model in calls}) == 1 + drafts


SIZES = models_zoo.SIZES | {"pad_token_id": 2}
SMALL: dict[str, Any] = {"vocab_size": 32, "hidden_size": 32, "num_hidden_layers": 2}
GPT: dict[str, Any] = {"vocab_size": 32, "n_embd": 32, "n_layer": 2, "n_head": 4}
LATENT: dict[str, Any] = SIZES | {
    "num_key_value_heads": 4,
    "n_routed_experts": 2,
    "q_lora_rank": 8,
    "kv_lora_rank": 8,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 4,
    "v_head_dim": 8,
    "first_k_dense_replace": 2,
}
REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "Mamba": ("ForCausalLM", SMALL | {"state_size": 4}, "recurrent state"),
    "Rwkv": ("ForCausalLM", SMALL | {"attention_hidden_size": 32}, "recurrent state"),
    "RecurrentGemma": ("ForCausalLM", SIZES | {"lru_width": 16}, "recurrent state"),
    "Jamba": (
        "ForCausalLM",
        SIZES | {"attn_layer_period": 2, "attn_layer_offset": 1, "num_experts": 2},
        "recurrent state",
    ),
    "Lfm2": (
        "ForCausalLM",
        SIZES | {"layer_types": ["conv", "full_attention"]},
        "cannot be rolled back",
    ),
    "XLNet": (
        "LMHeadModel",
        {"vocab_size": 32, "d_model": 32, "n_layer": 2, "n_head": 2, "d_inner": 64},
        "other logits after a rollback",
    ),
    "Bert": (
        "LMHeadModel",  # reads in both directions: no prefix has logits of its own
        SMALL | {"num_attention_heads": 4, "intermediate_size": 32},
        "other logits after a rollback",
    ),
}
ACCEPTED: dict[str, dict[str, Any]] = {
    "OPT": SMALL | {"ffn_dim": 64, "num_attention_heads": 4, "word_embed_proj_dim": 32},
    "Bloom": {"vocab_size": 32, "hidden_size": 32, "n_layer": 2, "n_head": 4},
    "GPTNeoX": SIZES,
    "GPTNeo": SMALL
    | {"num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]]}
    | {"window_size": 5},
    "GPTJ": GPT | {"rotary_dim": 4},
    "Falcon": SMALL | {"num_attention_heads": 4},
    "Phi3": SIZES,
    "Gemma2": SIZES | {"head_dim": 8, "sliding_window": 5},
    "GptOss": SIZES
    | {"head_dim": 8, "sliding_window": 5, "num_local_experts": 2, "num_experts_per_tok": 1},
    "Mixtral": SIZES | {"num_local_experts": 2},
    "DeepseekV3": LATENT,
    "MBart": models_zoo.SEQ2SEQ,
    "M2M100": models_zoo.SEQ2SEQ,
    "Pegasus": models_zoo.SEQ2SEQ,
}


def built(name: str, head: str, settings: dict[str, Any]) -> Any:
    """A tiny random model of the family, its weights large enough that a wrong cache shows."""
    torch.manual_seed(0)
    model = getattr(transformers, name + head)(getattr(transformers, name + "Config")(**settings))
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.normal_(0.0, 0.25)
    return model.eval()


@pytest.mark.parametrize("name", REFUSED)
def test_states_that_cannot_roll_back_are_refused(name: str) -> None:
    """Cases 10 and 30: recurrent, hybrid and other states are refused when the pair is made, with
    the reason, as target and as draft."""
    head, settings, reason = REFUSED[name]
    model = built(name, head, settings)
    assert reason in (refuse_reason(model) or "")
    with pytest.raises(ValueError, match=f"^target: .*{reason}"):
        ModelPair(model)
    with pytest.raises(ValueError, match=f"^draft: .*{reason}"):
        ModelPair(models_zoo.model("llama"), model)


@pytest.mark.parametrize("name", ACCEPTED)
def test_every_other_family_equals_transformers(name: str) -> None:
    """Case 10: what is not refused gives transformers' beams and greedy ids."""
    encodes = "encoder_layers" in ACCEPTED[name]
    model = built(name, "ForConditionalGeneration" if encodes else "ForCausalLM", ACCEPTED[name])
    config = model.generation_config
    config.eos_token_id = config.forced_eos_token_id = None
    config.pad_token_id = 2
    pair, ids = ModelPair(model), torch.tensor([PROMPT])
    for width in (1, 3):
        rows = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            num_beams=width,
            num_return_sequences=width,
            max_new_tokens=8,
            do_sample=False,
        )
        values = {"num_beams": width, "num_return_sequences": width}
        beams = decode(pair, PROMPT, "beam", max_new_tokens=8, eos_token_id=[], **values).beams
        assert [beam.token_ids for beam in beams] == rows[:, -8:].tolist()


def _replace(model: Any) -> None:
    """A LoRA adapter sits in the place of a linear layer and has its weight, too."""

    class Adapted(torch.nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(x)

    next(m for m in model.modules() if type(m) is torch.nn.Linear).__class__ = Adapted


def _hook(model: Any) -> None:
    layer = next(m for m in model.modules() if type(m) is torch.nn.Linear)
    layer.register_forward_hook(lambda module, args, output: 2 * output)


def _hook_before(model: Any) -> None:
    layer = next(m for m in model.modules() if type(m) is torch.nn.Linear)
    layer.register_forward_pre_hook(lambda module, args: (2 * args[0],))


def _patch(model: Any) -> None:
    layer = next(m for m in model.modules() if type(m) is torch.nn.Linear)
    own = layer.forward
    layer.forward = lambda x: 2 * own(x)


@pytest.mark.parametrize("change", [_replace, _hook, _hook_before, _patch])
@pytest.mark.parametrize("family", ["llama", "qwen2", "t5"])
def test_what_is_put_into_a_model_counts(family: str, change: Any) -> None:
    """Adapters, steering hooks and patched forwards: a forward of ours would miss them, so the
    model's own runs."""
    model, prompt = copy.deepcopy(models_zoo.model(family)), models_zoo.prompts(1)[0]
    plain = decode(ModelPair(model), prompt, "greedy", max_new_tokens=8).token_ids
    assert is_untouched(model)
    change(model)
    assert not is_untouched(model)
    ids = torch.tensor([prompt])
    options = {"do_sample": False, "max_new_tokens": 8, "pad_token_id": 3}
    theirs = model.generate(ids, attention_mask=torch.ones_like(ids), **options)[0].tolist()
    found = decode(ModelPair(model), prompt, "greedy", max_new_tokens=8).token_ids
    assert found == theirs[1 if family == "t5" else len(prompt) :] != plain
