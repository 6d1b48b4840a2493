"""What a model's generation config asks for holds as in transformers, or the run says that it
does not; nothing is left out in silence."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import GenerationConfig, LlamaConfig
from transformers.generation import GenerationMixin
from transformers.generation.logits_process import LogitsProcessorList

import playground as pg
from playground.generation_config import UNMET, constraints_of, unmet
from playground.params import build
from playground.sampling import Sampling, Warper
from tests import models_zoo
from tests.models_zoo import VOCAB, prompts
from tests.pairs import noisy
from tests.table_lm import TableLM

EOS, LIMIT = [1, 2], 9
ASKED: dict[str, dict[str, Any]] = {
    "words": {"bad_words_ids": [[3, 4], [5], [6, 7, 6], [1], [4, 2]]},
    "bias": {"sequence_bias": [[[3], 2.5], [[4, 5], -3.0], [[5, 5, 4], float("-inf")], [[1], 1.5]]},
    "growth": {"exponential_decay_length_penalty": [2, 1.4]},
    "late growth": {"exponential_decay_length_penalty": [0, 0.7]},
    "ends": {"forced_eos_token_id": [2, 9]},
    "end": {"forced_eos_token_id": 2},
    "start": {"forced_bos_token_id": 7, "begin_suppress_tokens": [4, 5, 6, 8, 9]},
    "bans": {"suppress_tokens": [3, 5, 30], "begin_suppress_tokens": [4, 6]},
    "source": {"encoder_no_repeat_ngram_size": 2},
    "source words": {"encoder_no_repeat_ngram_size": 1},
}
SHAPES = st.fixed_dictionaries(
    {
        "repetition_penalty": st.sampled_from([1.0, 1.5]),
        "no_repeat_ngram_size": st.sampled_from([0, 2]),
        "min_new_tokens": st.sampled_from([0, 3]),
    }
)


class _Host(GenerationMixin):
    """Just enough of a model for `generate` to build its own list of processors."""

    config = LlamaConfig()
    device = torch.device("cpu")


def theirs(config: GenerationConfig, prefix: int, prompt: list[int]) -> LogitsProcessorList:
    config._eos_token_tensor = torch.tensor(EOS)
    found: LogitsProcessorList = _Host()._get_logits_processor(
        generation_config=config,
        input_ids_seq_length=prefix,
        encoder_input_ids=torch.tensor([prompt]),
        logits_processor=LogitsProcessorList(),
        device="cpu",
    )
    return found


@settings(derandomize=True, deadline=None, max_examples=300)
@given(
    st.sets(st.sampled_from(sorted(ASKED)), min_size=1, max_size=4),
    SHAPES,
    st.integers(0, 10_000),
    st.sampled_from([1, 4]),
    st.integers(0, LIMIT - 1),
)
def test_the_same_processors(
    names: set[str], shape: dict[str, Any], seed: int, prefix: int, new: int
) -> None:
    """All that a config may ask for, together with penalties, for decoders and encoder-decoders
    (which start from one token), at every length."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(1, 16, generator=generator, dtype=torch.float64) * 3
    history = torch.randint(2, 9, (prefix + new,), generator=generator).tolist()
    asked = {k: v for name in names for k, v in ASKED[name].items()}
    config = GenerationConfig(eos_token_id=EOS, max_length=prefix + LIMIT, **shape, **asked)
    expected = theirs(config, prefix, history[:4])(torch.tensor([history]), scores.clone())
    params = build(Sampling, {"max_new_tokens": LIMIT, **shape}, "test")
    constraints = constraints_of(config, history[:4])
    warper = Warper(params, constraints, frozenset(EOS), prefix, LIMIT)
    forced = warper._forced(history, new)
    if {3, 5, 4, 6} & set(forced) or not scores.isfinite().all():
        return  # a token both forced and banned: transformers is left with none at all
    torch.testing.assert_close(warper.process(scores, history, len(history)), expected)


def asking(family: str, **asked: Any) -> Any:
    """A copy of the family's tiny model whose own config asks for this."""
    model = copy.deepcopy(models_zoo.model(family))
    model.generation_config.update(pad_token_id=0, **asked)
    return model


def generated(model: Any, prompt: list[int], **options: Any) -> list[int]:
    ids = torch.tensor([prompt])
    mask = torch.ones_like(ids)
    found = model.generate(ids, attention_mask=mask, do_sample=False, **options)[0].tolist()
    return found[1 if model.config.is_encoder_decoder else len(prompt) :]


def usual(model: Any, prompt: list[int]) -> list[int]:
    """What it writes when nothing is asked."""
    return generated(model, prompt, max_new_tokens=10, eos_token_id=None)


@pytest.mark.parametrize("family", ["llama", "gpt2", "t5", "bart"])
@pytest.mark.parametrize(
    "name", ["words", "bias", "growth", "ends", "start", "bans", "source", "source words"]
)
def test_runs_are_those_of_transformers(family: str, name: str) -> None:
    """Greedy, speculative and mentored decoding, beams, from Python and as a generation function;
    what is forbidden is what the model would have written."""
    prompt = prompts(1)[0]
    first, second, third, *_ = usual(models_zoo.model(family), prompt)[2:]
    asked = {
        "words": {"bad_words_ids": [[first, second], [second, third]]},
        "bias": {"sequence_bias": [[[first, second], -4.0], [[5], 1.0]]},
        "bans": {"suppress_tokens": [second], "begin_suppress_tokens": [first, third]},
        "source": {"encoder_no_repeat_ngram_size": 2},
        "source words": {"encoder_no_repeat_ngram_size": 1},
    }.get(name, ASKED[name])
    model = asking(family, **asked)
    pair = pg.ModelPair(model, noisy(family))
    for beams, methods in ((1, ("greedy", "speculative", "mentored")), (3, ("beam",))):
        expected = generated(model, prompt, max_new_tokens=12, num_beams=beams)
        for method in methods:
            own = {"num_beams": beams} if beams > 1 else {}
            if method in ("speculative", "mentored"):
                own |= {"temperature": 0.0, "num_draft_tokens": 3}
            result = pg.decode(pair, prompt, method, max_new_tokens=12, **own)
            assert result.token_ids == expected and not result.notes
        options = {"num_beams": beams, "max_new_tokens": 12, "custom_generate": pg.generate}
        assert generated(model, prompt, **options) == expected


def test_a_bad_word_is_never_written_by_sampling() -> None:
    """Under any rule: the draft proposes it, the warped laws exclude it."""
    words = [[3, 4], [4, 3], [5, 5], [6, 2, 6]]
    model = TableLM(7, seed=1)
    model.generation_config = GenerationConfig(bad_words_ids=words)
    pair = pg.ModelPair(model, TableLM(7, seed=2))
    for method in ("sample", "speculative", "mentored"):
        for seed in range(20):
            ids = pg.decode(pair, [3], method, max_new_tokens=30, seed=seed).token_ids
            text = "".join(map(str, [3, *ids]))
            assert not any("".join(map(str, word)) in text for word in words)


def test_ends_that_are_no_tokens_do_not_matter() -> None:
    """Some configs name an end token beyond the vocabulary, or -1."""
    model = asking("llama", eos_token_id=[VOCAB + 7, -1, 1])
    pair, prompt = pg.ModelPair(model), prompts(1)[0]
    plain = pg.ModelPair(models_zoo.model("llama"))
    assert pair.eos_ids() == {1}
    for method in ("greedy", "beam", "exact", "sample"):
        common = {"min_new_tokens": 3, "max_new_tokens": 8, "seed": 1}
        found, expected = (pg.decode(p, prompt, method, **common) for p in (pair, plain))
        assert found.token_ids == expected.token_ids
    found = generated(model, prompt, min_new_tokens=3, custom_generate=pg.generate, pad_token_id=0)
    assert found


@pytest.mark.parametrize("asked", [{"sequence_bias": [[[3], 1.0]]}, ASKED["growth"]])
def test_exact_search_refuses_sums_that_may_grow(asked: dict[str, Any]) -> None:
    """Its proof rests on sums of log-probabilities that only fall."""
    model = asking("llama", **asked)
    with pytest.raises(ValueError, match=r"^method: 'exact' is not allowed; use another one"):
        pg.decode(pg.ModelPair(model), prompts(1)[0], "exact")
    plain, options = models_zoo.model("llama"), {"custom_generate": pg.generate, "method": "exact"}
    with pytest.raises(ValueError, match=r"^method: 'exact'"):
        generated(plain, prompts(1)[0], pad_token_id=0, **options, **asked)


def test_a_growth_without_end_is_still_a_law() -> None:
    """A factor that would overflow within the length limit."""
    model = asking("llama", exponential_decay_length_penalty=[1, 50.0])
    pair = pg.ModelPair(model)
    common = {"max_new_tokens": 200, "min_new_tokens": 199}
    for method in ("sample", "greedy", "beam"):
        assert pg.decode(pair, prompts(1)[0], method, **common).metrics.num_new_tokens == 200
    broken = pg.ModelPair(asking("llama", exponential_decay_length_penalty=[1, 0.0]))
    with pytest.raises(ValueError, match=r"^exponential_decay_length_penalty: "):
        pg.decode(broken, prompts(1)[0], "greedy")


@pytest.mark.parametrize("name", UNMET)
def test_what_is_left_out_is_told(name: str) -> None:
    """By a note of every run, and refused where it is asked of one call."""
    model = copy.deepcopy(models_zoo.model("gpt2"))
    setattr(model.generation_config, name, 0.25)
    assert unmet(model.generation_config) == {name: 0.25}
    result = pg.decode(pg.ModelPair(model), prompts(1)[0], "sample", max_new_tokens=2)
    assert [note for note in result.notes if f"{name} = 0.25" in note]
    neutral = copy.deepcopy(models_zoo.model("gpt2").generation_config)
    assert unmet(neutral) == unmet(None) == {}
