"""Greedy equals transformers' greedy decoding; limits, penalties and bans hold in every method.

`generate` appears in tests only, as the reference.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers.generation import RepetitionPenaltyLogitsProcessor

from playground.compare import compare
from playground.methods import METHODS
from playground.methods.autoregressive import EXHAUSTED
from playground.models import ModelPair
from playground.sampling import Constraints, Limits, Warper
from playground.session import decode
from playground.types import BeamEvent, TokensEvent
from tests import models_zoo
from tests.table_lm import TableLM

MANY_ENDS = list(range(2, 10))
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no end token": {"eos": []},
    "several end tokens": {"eos": MANY_ENDS},
    "repetition penalty": {"repetition_penalty": 1.4, "eos": []},
    "repetition reward": {"repetition_penalty": 0.7, "eos": []},
    "no repeated token": {"no_repeat_ngram_size": 1, "eos": []},
    "no repeated pair": {"no_repeat_ngram_size": 2, "eos": [4]},
    "minimum length": {"min_new_tokens": 9, "eos": MANY_ENDS},
    "all of them": {
        "repetition_penalty": 1.2,
        "no_repeat_ngram_size": 3,
        "min_new_tokens": 5,
        "eos": MANY_ENDS,
    },
}
METHOD_SETTINGS: dict[str, dict[str, Any]] = {
    "beam": {"num_beams": 3, "num_return_sequences": 3},
    "diverse_beam": {"num_beams": 4, "num_beam_groups": 2},
    "exact": {"max_nodes": 200},
    "speculative": {"seed": 0},
    "mentored": {"seed": 0},
    "sample": {"seed": 0},
}
every_method = pytest.mark.parametrize("method", METHODS)


def table_pair(vocab_size: int, **settings: Any) -> ModelPair:
    """A table model that drafts for itself, so that every method can run."""
    lm = TableLM(vocab_size, **settings)
    return ModelPair(lm, lm)


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("family", models_zoo.FAMILIES)
def test_greedy_equals_transformers(family: str, settings: dict[str, Any]) -> None:
    """Id for id in fp32, for prompts of 1 to 20 tokens: past the windows, with forced and banned
    tokens, with pad id 0."""
    values = dict(settings)
    eos = values.pop("eos", None)
    for length in (1, 6, 20):
        prompt = models_zoo.prompts(1, length, seed=length)[0]
        expected, _ = models_zoo.generate(family, prompt, eos, max_new_tokens=14, **values)
        found = decode(
            models_zoo.pair(family), prompt, "greedy", max_new_tokens=14, eos_token_id=eos, **values
        )
        assert found.token_ids == expected[0]


@pytest.mark.parametrize("family", models_zoo.FAMILIES)
def test_limits_are_exact(family: str) -> None:
    """Case 29: 1 to 4 new tokens, end tokens unset: exactly as many as transformers gives."""
    prompt = models_zoo.prompts(1)[0]
    for limit in (1, 2, 3, 4):
        expected, _ = models_zoo.generate(family, prompt, [], max_new_tokens=limit)
        found = decode(
            models_zoo.pair(family), prompt, "greedy", max_new_tokens=limit, eos_token_id=[]
        )
        assert found.token_ids == expected[0]
        assert (len(found.token_ids), found.finish_reason) == (limit, "length")


def test_greedy_ends_at_its_first_end_token() -> None:
    """Case 28: whichever of greedy's tokens is made the end token, the run ends there."""
    pair, prompt = models_zoo.pair("llama"), models_zoo.prompts(1)[0]
    ids = decode(pair, prompt, "greedy", max_new_tokens=12, eos_token_id=[]).token_ids
    for token in ids:
        cut = decode(pair, prompt, "greedy", max_new_tokens=12, eos_token_id=token)
        assert cut.token_ids == ids[: ids.index(token) + 1]
        assert cut.finish_reason == "eos"


@pytest.mark.parametrize("temperature", [0, 0.0, 1e-7, 1e-6, 1e-5])
def test_sampling_at_temperature_zero_is_greedy(temperature: float) -> None:
    """Case 58: also just above zero, where dividing by the temperature could overflow."""
    pair, prompt = models_zoo.pair("gpt2"), models_zoo.prompts(1)[0]
    greedy = decode(pair, prompt, "greedy", max_new_tokens=12)
    sampled = decode(pair, prompt, "sample", max_new_tokens=12, temperature=temperature, seed=0)
    assert sampled.token_ids == greedy.token_ids


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 10},
        {"temperature": 2},
        {"top_p": 0},
        {"top_p": 0.0},
        {"top_p": 1},
        {"top_k": 0},
        {"top_k": 1},
        {"top_k": 1_000_000},
        {"repetition_penalty": 10},
        {"repetition_penalty": 0.1},
        {"no_repeat_ngram_size": 20},
        {"min_new_tokens": 12},
    ],
    ids=str,
)
def test_both_ends_of_every_setting_work(settings: dict[str, Any]) -> None:
    """Case 58: whole numbers and fractions; at least one token is always kept."""
    pair, prompt = models_zoo.pair("qwen2"), models_zoo.prompts(1)[0]
    result = decode(pair, prompt, "sample", max_new_tokens=12, eos_token_id=[], seed=0, **settings)
    assert len(result.token_ids) == 12
    json.dumps(result.to_dict(), allow_nan=False)
    if settings.get("top_p") == 0 or settings.get("top_k") == 1:
        greedy = decode(pair, prompt, "greedy", max_new_tokens=12, eos_token_id=[])
        assert result.token_ids == greedy.token_ids


@every_method
def test_banning_everything_ends_with_a_message(method: str) -> None:
    """Case 11: with no_repeat_ngram_size=1 a vocabulary of 5, of which the prompt used one, lasts
    for 4 tokens. What was found is returned; no random token, no NaN."""
    pair = table_pair(5, seed=3)
    result = decode(
        pair,
        [2],
        method,
        max_new_tokens=9,
        no_repeat_ngram_size=1,
        **METHOD_SETTINGS.get(method, {}),
    )
    assert sorted(result.token_ids) == [0, 1, 3, 4]
    assert EXHAUSTED in result.notes
    assert result.finish_reason == "stop"
    assert result.proven is not True
    json.dumps(result.to_dict(), allow_nan=False)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("method", ["speculative", "mentored"])
def test_a_round_without_a_token_ends_with_a_message(method: str, seed: int) -> None:
    """Case 11: where nothing can be drafted either, and the last round commits nothing."""
    settings: dict[str, Any] = {"proposer": "prompt_lookup", "seed": seed, "eos_token_id": []}
    pair = table_pair(5, seed=3)
    result = decode(pair, [2], method, max_new_tokens=9, no_repeat_ngram_size=1, **settings)
    assert sorted(result.token_ids) == [0, 1, 3, 4] and result.finish_reason == "stop"
    assert EXHAUSTED in result.notes


@pytest.mark.parametrize("method", ["sample", "speculative", "beam"])
def test_a_long_run_keeps_no_events(method: str) -> None:
    """Each holds all the text so far: kept, they would fill memory by the square of the length."""
    alive: list[int] = []

    def count() -> bool:
        events = (TokensEvent, BeamEvent)
        alive.append(sum(isinstance(thing, events) for thing in gc.get_objects()))
        return False

    pair = table_pair(5, seed=3)
    decode(pair, [2], method, max_new_tokens=30, eos_token_id=[], cancelled=count)
    compare(pair, [2], {"a": {"method": method}}, max_new_tokens=30, cancelled=count)
    assert max(alive) - alive[0] <= 3


@every_method
def test_banning_everything_at_once_returns_nothing(method: str) -> None:
    """Case 11: the prompt used up every token."""
    settings = METHOD_SETTINGS.get(method, {})
    pair = table_pair(3, seed=3)
    result = decode(pair, [0, 1, 2], method, max_new_tokens=9, no_repeat_ngram_size=1, **settings)
    assert (result.token_ids, result.finish_reason) == ([], "stop")
    assert EXHAUSTED in result.notes
    json.dumps(result.to_dict(), allow_nan=False)


@every_method
def test_minimum_length_counts_new_tokens_only(method: str) -> None:
    """Case 20: a prompt of 30 tokens, at least 10 new ones, end tokens otherwise common."""
    eos = [0, 1, 2]
    pair, settings = table_pair(6, seed=1, eos=eos), METHOD_SETTINGS.get(method, {})
    prompt = [5, 4, 3] * 10
    free = decode(pair, prompt, method, max_new_tokens=14, **settings)
    held = decode(pair, prompt, method, max_new_tokens=14, min_new_tokens=10, **settings)
    assert len(free.token_ids) < 10, "the minimum would prove nothing"
    outputs = [b.token_ids for b in held.beams] or [held.token_ids]
    for ids in outputs:
        assert not set(ids[:10]) & set(eos)
        assert len(ids) > 10


@pytest.mark.parametrize("method", ["greedy", "sample", "beam", "diverse_beam", "exact"])
@pytest.mark.parametrize("family", models_zoo.ENCODER_DECODER)
def test_minimum_length_in_encoder_decoders(family: str, method: str) -> None:
    """Case 20: the encoder's prompt does not count."""
    settings = METHOD_SETTINGS.get(method, {})
    prompt = models_zoo.prompts(1, 30)[0]
    result = decode(
        models_zoo.pair(family),
        prompt,
        method,
        max_new_tokens=14,
        min_new_tokens=10,
        eos_token_id=MANY_ENDS,
        **settings,
    )
    assert len(result.token_ids) > 10
    assert not set(result.token_ids[:10]) & set(MANY_ENDS)


class Shifted(nn.Module):
    """A table model whose logits are all moved by a constant, which changes no law."""

    def __init__(self, lm: TableLM, offset: float) -> None:
        super().__init__()
        self.lm, self.offset = lm, offset

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.lm(input_ids) + self.offset


def warper(num_prompt: int, **settings: Any) -> Warper:
    return Warper(Limits(**settings), Constraints(), frozenset(), num_prompt, 64)


@pytest.mark.parametrize("offset", [-20.0, 0.0, 20.0])
@pytest.mark.parametrize("penalty", [1.5, 0.7])
def test_repetition_penalty_acts_on_every_earlier_token(penalty: float, offset: float) -> None:
    """Case 17: prompt and new tokens alike, each once, and never the wrong way round, wherever the
    zero of the logits lies; value for value transformers' rule."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(1, 12, generator=generator) * 3 + offset
    history = [3, 7, 7, 1, 11]
    processed = warper(2, repetition_penalty=penalty).process(logits, history, len(history))
    rule = RepetitionPenaltyLogitsProcessor(penalty)
    assert torch.equal(processed, rule(torch.tensor([history]), logits.clone()))
    seen = torch.tensor(sorted(set(history)))
    fresh = torch.tensor([i for i in range(12) if i not in history])
    assert torch.equal(processed[0, fresh], logits[0, fresh])
    lower = processed[0, seen] < logits[0, seen]
    assert bool(lower.all() if penalty > 1 else (~lower).all())


@pytest.mark.parametrize("offset", [-20.0, 20.0])
def test_a_constant_on_the_logits_changes_only_logit_penalties(offset: float) -> None:
    """Case 17: searches penalise log-probabilities and do not notice the constant; greedy penalises
    logits as transformers does, and may. Without a penalty nothing notices it."""
    lm = TableLM(6, seed=5, concentration=3.0)
    plain, moved = ModelPair(lm), ModelPair(Shifted(lm, offset))

    def same(method: str, **settings: Any) -> bool:
        values = {"max_new_tokens": 8, "eos_token_id": [], **settings}
        found: Sequence[list[int]] = [
            decode(pair, [1, 4], method, **values).token_ids for pair in (plain, moved)
        ]
        return found[0] == found[1]

    assert same("greedy") and same("beam", num_beams=3) and same("exact")
    assert same("beam", num_beams=3, repetition_penalty=1.5)
    assert same("diverse_beam", num_beams=4, repetition_penalty=1.5)
    assert same("exact", repetition_penalty=1.5, max_nodes=300)
