"""Tiny random transformers models, one of each family, whose laws are lively enough to search.

Every model is float32, seeded and built once per process. The weights are larger than a fresh
model's, so that laws are peaked, differ from prefix to prefix and hold no near-ties.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import torch
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MarianConfig,
    MarianMTModel,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

from playground.models import ModelPair

VOCAB = 32
SIZES: dict[str, Any] = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "vocab_size": VOCAB,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": None,
}
SEQ2SEQ: dict[str, Any] = {
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "max_position_embeddings": 256,
    "vocab_size": VOCAB,
    "tie_word_embeddings": False,
}


def _llama() -> PreTrainedModel:
    return LlamaForCausalLM(LlamaConfig(**SIZES))


def _mistral() -> PreTrainedModel:
    """Its window of 5 tokens is exceeded by every test."""
    return MistralForCausalLM(MistralConfig(**SIZES, sliding_window=5))


def _gpt2() -> PreTrainedModel:
    config = GPT2Config(
        vocab_size=VOCAB,
        n_positions=256,
        n_embd=16,
        n_layer=2,
        n_head=2,
        bos_token_id=0,
        eos_token_id=1,
        tie_word_embeddings=False,
    )
    return GPT2LMHeadModel(config)


def _qwen2() -> PreTrainedModel:
    return Qwen2ForCausalLM(Qwen2Config(**SIZES, tie_word_embeddings=True))


def _gemma3() -> PreTrainedModel:
    """Layers with a window of 5 tokens and layers without one, mixed."""
    sizes = {**SIZES, "num_hidden_layers": 3, "pad_token_id": 0, "bos_token_id": 2}
    types = ["sliding_attention", "full_attention", "sliding_attention"]
    return Gemma3ForCausalLM(
        Gemma3TextConfig(
            **sizes, head_dim=4, sliding_window=5, layer_types=types, tie_word_embeddings=False
        )
    )


def _t5(encoder_layers: int = 3, decoder_layers: int = 2) -> PreTrainedModel:
    """Pad id 0, which also starts the decoder. Its encoder is deeper than its decoder, the only
    difference that transformers' own `generate` survives."""
    config = T5Config(
        vocab_size=VOCAB,
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=encoder_layers,
        num_decoder_layers=decoder_layers,
        num_heads=2,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
        tie_word_embeddings=False,
    )
    return T5ForConditionalGeneration(config)


def _t5_deep_decoder() -> PreTrainedModel:
    return _t5(encoder_layers=1, decoder_layers=3)


def _bart() -> PreTrainedModel:
    """Its first and last new token are forced."""
    config = BartConfig(
        **SEQ2SEQ,
        pad_token_id=3,
        bos_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=1,
        forced_bos_token_id=0,
        forced_eos_token_id=1,
    )
    model = BartForConditionalGeneration(config)
    model.generation_config.forced_bos_token_id = 0
    model.generation_config.forced_eos_token_id = 1
    return model


def _marian() -> PreTrainedModel:
    """Starts the decoder with the pad id, which may never be generated."""
    pad = VOCAB - 1
    config = MarianConfig(
        **SEQ2SEQ,
        pad_token_id=pad,
        eos_token_id=1,
        decoder_start_token_id=pad,
        forced_eos_token_id=1,
        bos_token_id=None,
    )
    model = MarianMTModel(config)
    model.generation_config.bad_words_ids = [[pad]]
    model.generation_config.forced_eos_token_id = 1
    return model


_BUILDERS: dict[str, Callable[[], PreTrainedModel]] = {
    "llama": _llama,
    "mistral": _mistral,
    "gpt2": _gpt2,
    "qwen2": _qwen2,
    "gemma3": _gemma3,
    "t5": _t5,
    "t5_deep_decoder": _t5_deep_decoder,
    "bart": _bart,
    "marian": _marian,
}
CAUSAL = ("llama", "mistral", "gpt2", "qwen2", "gemma3")
ENCODER_DECODER = ("t5", "bart", "marian")
FAMILIES = (*CAUSAL, *ENCODER_DECODER)


@cache
def model(family: str, seed: int = 0, scale: float = 2.0) -> Any:
    """The family's tiny model. The same object every time: do not change it.

    scale: how much larger the output layer is made. 2 gives laws of about 1.5 to 2.5 nats (of
    ln 32 = 3.5), 8 laws with one or two likely tokens.
    """
    with torch.inference_mode(False), torch.random.fork_rng():
        torch.manual_seed(seed)
        built = _BUILDERS[family]()
        with torch.no_grad():
            for weight in built.parameters():
                if weight.dim() > 1:
                    weight.normal_(0.0, 0.25)
            head = built.get_output_embeddings().weight
            head.mul_(scale)
    return built.eval()


@cache
def pair(family: str, seed: int = 0, scale: float = 2.0, lean: bool = True) -> ModelPair:
    """The family's tiny model as a target without draft and tokenizer."""
    with torch.inference_mode(False):  # the lean forward fuses weights, which stay what they are
        return ModelPair(model(family, seed, scale), lean=lean)


def prompts(count: int, length: int = 6, seed: int = 0) -> list[list[int]]:
    """`count` prompts of ids 2 to V−2: no special token of any family."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(2, VOCAB - 1, (count, length), generator=generator).tolist()


def generate(
    family: str,
    prompt: Sequence[int],
    eos: Iterable[int] | None,
    *,
    scale: float = 2.0,
    **settings: Any,
) -> tuple[list[list[int]], list[float] | None]:
    """New ids of transformers' own `generate`, each cut after its first end token, and the scores
    of its beams. eos: end ids, [] for none, None for the model's own."""
    network = model(family, scale=scale)
    kept = network.generation_config
    own = frozenset([kept.eos_token_id] if isinstance(kept.eos_token_id, int) else [])
    ends = own if eos is None else frozenset(eos)
    # Replaced for the call: what a passed config leaves out is filled from the model's own.
    network.generation_config = type(kept).from_dict(
        {
            **kept.to_dict(),
            "eos_token_id": sorted(ends) or None,
            "pad_token_id": kept.pad_token_id or 0,
        }
    )
    ids = torch.tensor([list(prompt)])
    try:
        output = network.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            return_dict_in_generate=True,
            output_scores=True,
            **settings,
        )
    finally:
        network.generation_config = kept
    start = 1 if network.config.is_encoder_decoder else len(prompt)
    rows = [_cut(row[start:], ends) for row in output.sequences.tolist()]
    scores = getattr(output, "sequences_scores", None)
    return rows, None if scores is None else scores.tolist()


def _cut(ids: list[int], ends: Iterable[int]) -> list[int]:
    stop = next((i + 1 for i, token in enumerate(ids) if token in ends), len(ids))
    return ids[:stop]
