"""What a model's own generation config asks for beyond the parameters that a run has anyway.

Words that may not be written, biases, tokens that are forced or banned are part of the model's law
and hold in every run. Lengths, penalties, temperature and the like are parameters here, whose
values are the run's. The rest we do not have: a run says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from transformers import GenerationConfig

from playground.params import fail
from playground.sampling import Constraints

# Settings of the law, or of its use, that our loops do not have.
UNMET = (
    *("min_p", "top_h", "typical_p", "epsilon_cutoff", "eta_cutoff", "guidance_scale"),
    *("encoder_repetition_penalty", "renormalize_logits", "watermarking_config"),
    *("constraints", "force_words_ids", "penalty_alpha", "dola_layers", "token_healing"),
)


def constraints_of(config: Any, prompt_ids: Sequence[int] = ()) -> Constraints:
    """The constraints of a generation config, None for a model that has none.

    prompt_ids: the prompt, of which encoder_no_repeat_ngram_size forbids the n-grams.
    """
    biases = getattr(config, "sequence_bias", None) or {}
    pairs = biases.items() if isinstance(biases, dict) else biases
    words = [tuple(word) for word in getattr(config, "bad_words_ids", None) or () if word]
    banned = set(getattr(config, "suppress_tokens", None) or ())
    size = getattr(config, "encoder_no_repeat_ngram_size", None) or 0
    if size == 1:
        banned |= set(prompt_ids)
    elif size:
        starts = range(len(prompt_ids) - size + 1)
        words += dict.fromkeys(tuple(prompt_ids[i : i + size]) for i in starts)
    last = getattr(config, "forced_eos_token_id", None)
    growth = getattr(config, "exponential_decay_length_penalty", None)
    if growth is not None and not growth[1] > 0:
        name = "exponential_decay_length_penalty"
        raise fail(name, growth, "a number of tokens and a factor above 0")
    return Constraints(
        biases=tuple((tuple(word), float(bias)) for word, bias in pairs if word),
        bad_words=tuple(words),
        end_growth=None if growth is None else (int(growth[0]), float(growth[1])),
        banned=tuple(sorted(banned)),
        banned_first=tuple(getattr(config, "begin_suppress_tokens", None) or ()),
        forced_first=getattr(config, "forced_bos_token_id", None),
        forced_last=tuple(as_ids(last)),
    )


def as_ids(value: Any) -> list[int]:
    """Token ids given as one, a list, or None."""
    return [] if value is None else [value] if isinstance(value, int) else [int(i) for i in value]


def end_ids(value: Any, vocab_size: int) -> frozenset[int]:
    """Those of a config's end ids that a model can write: some name others, or -1."""
    return frozenset(i for i in as_ids(value) if 0 <= i < vocab_size)


def unmet(config: Any) -> dict[str, Any]:
    """Settings with a value that our loops do not have, where a config asks for them."""
    if config is None:
        return {}
    defaults = GenerationConfig._get_default_generation_params() | {"guidance_scale": 1.0}
    asked = {name: getattr(config, name, None) for name in UNMET}
    return {k: v for k, v in asked.items() if v not in (None, False, defaults.get(k))}
