"""Proposers: the laws that drafts are drawn from, the cache behind them, stops, and copying."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

import playground as pg
from playground.cache import RecomputeState
from playground.contracts import Draft, Run
from playground.models import ModelPair
from playground.proposers import DraftStops, fit_vocabulary
from playground.sampling import Draws
from playground.session import prepare
from tests import models_zoo as zoo
from tests import pairs
from tests.enumeration import make_run
from tests.table_lm import TableLM


def run_of(pair: ModelPair, prompt: list[int], seed: int = 0, **params: Any) -> Run:
    plan = prepare(pair, prompt, "speculative", {"max_new_tokens": 64, **params})
    return make_run(plan, Draws(seed))


def proposer_of(run: Run) -> Any:
    return pg.PROPOSERS[run.params.proposer](run.parts["proposer"], run)


def true_laws(run: Run, prompt: list[int], context: list[int], draft: Draft) -> list[Tensor]:
    """The draft model's warped laws at every drafted position, without any cache."""
    laws = []
    for i in range(len(draft.ids)):
        history = [*context, *draft.ids[:i]]
        ids = torch.tensor([history])
        model = run.pair.draft
        if run.pair.is_encoder_decoder:
            logits = model(input_ids=torch.tensor([prompt]), decoder_input_ids=ids).logits
        else:
            logits = model(ids).logits
        laws.append(run.warper.probs(logits[0, -1:], history, len(history))[0])
    return laws


@pytest.fixture(autouse=True)
def no_gradients() -> Iterator[None]:
    """As a session runs its engines."""
    with torch.inference_mode():
        yield


class TestDraftModel:
    @pytest.mark.parametrize("family", zoo.FAMILIES)
    def test_laws_are_right_after_any_acceptance(self, family: str) -> None:
        """Nothing, a part, or all of a draft is kept, then another token follows: the next draft's
        laws are those of the draft model on exactly the committed ids."""
        prompt = zoo.prompts(1, length=7)[0]
        run = run_of(pairs.pair(family), prompt, temperature=0.8, eos_token_id=[])
        proposer, context = proposer_of(run), [*run.prefix, 5]
        for kept in (4, 0, 2, 4, 1, 3, 0):
            draft = proposer.propose(context, 4)
            assert len(draft.ids) == 4
            for law, expected in zip(
                draft.probs, true_laws(run, prompt, context, draft), strict=True
            ):
                assert torch.allclose(law, expected, atol=2e-5)
            context = [*context, *draft.ids[:kept], 6 + kept]

    def test_the_same_run_with_and_without_a_cache(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whole runs: the cache's bookkeeping changes nothing that is drafted or said."""
        pair = pairs.pair("llama", lean=False)
        wanted = [self._trace(pair, p) for p in zoo.prompts(3)]
        monkeypatch.setattr(pair, "open", lambda model, *_: RecomputeState(model))
        assert [self._trace(pair, p) for p in zoo.prompts(3)] == wanted

    @staticmethod
    def _trace(pair: ModelPair, prompt: list[int]) -> Any:
        result = pg.decode(pair, prompt, num_draft_tokens=4, max_new_tokens=24, seed=3)
        return result.token_ids, [(r.draft_ids, r.num_accepted) for r in result.rounds]

    def test_reads_each_token_once(self) -> None:
        """One pass a drafted token; a token that was accepted or committed is never read twice."""
        pair = pairs.pair("llama")
        run = run_of(pair, [3, 4, 5], eos_token_id=[])
        proposer, fed = proposer_of(run), list[int]()
        state = proposer._state
        proposer._state = _Recorder(state, fed)
        context = [3, 4, 5, 6]
        first = proposer.propose(context, 3)
        assert fed == [3, 4, 5, 6, *first.ids[:2]]
        fed.clear()
        context = [*context, *first.ids, 7]  # all three accepted, and a bonus
        second = proposer.propose(context, 3)
        assert fed == [first.ids[2], 7, *second.ids[:2]]
        fed.clear()
        context = [*context, second.ids[0], (second.ids[1] + 1) % zoo.VOCAB]  # one accepted
        third = proposer.propose(context, 3)
        assert fed == [context[-1], *third.ids[:2]]
        fed.clear()
        context = [*context, *third.ids, 8]
        fourth = proposer.propose(context, 3)
        assert fed == [third.ids[2], 8, *fourth.ids[:2]]
        assert run.clock.passes["draft"] == 12

    def test_drafts_end_with_an_end_token_and_with_the_room(self) -> None:
        """Cases 28, 29."""
        laws = {(0,): (0, 1, 0), (0, 1): (0, 0, 1)}
        pair = ModelPair(TableLM(3, eos=2), TableLM(3, eos=2, laws=laws))
        proposer = proposer_of(run_of(pair, [0]))
        assert proposer.propose([0], 8).ids == [1, 2]
        assert proposer.propose([0], 1).ids == [1]
        assert proposer.propose([0], 0) == Draft([], [])

    @pytest.mark.parametrize("temperature", [0, 0.7])
    def test_the_law_given_is_the_law_drawn_from(self, temperature: float) -> None:
        """Cases 22, 23. Warped once; never a token without mass."""
        run = run_of(
            pairs.pair("gpt2"),
            [3, 4, 5],
            temperature=temperature,
            top_k=3,
            repetition_penalty=1.4,
            eos_token_id=[],
        )
        draft = proposer_of(run).propose([3, 4, 5, 6], 8)
        assert len(draft.ids) == 8
        for token, law in zip(draft.ids, draft.probs, strict=True):
            assert law[token] > 0
            assert (law > 0).sum() <= (3 if temperature else 1)
            assert float(law.sum()) == pytest.approx(1.0, abs=1e-6)

    def test_an_id_that_only_the_target_knows_is_read_as_another(self) -> None:
        """Vocabulary padding: no embedding for it, and still a law over the target's ids."""
        torch.manual_seed(0)
        narrow = LlamaForCausalLM(LlamaConfig(**{**zoo.SIZES, "vocab_size": 20}))
        for lean in (True, False):
            pair = ModelPair(zoo.model("llama"), narrow, lean=lean)
            run = run_of(pair, [3, 30, 31], eos_token_id=[])
            draft = proposer_of(run).propose([3, 30, 31, 25], 3)
            assert len(draft.ids) == 3
            assert all(len(law) == zoo.VOCAB and (law[20:] == 0).all() for law in draft.probs)


class _Recorder:
    """A KVState that notes what it is fed."""

    def __init__(self, state: Any, fed: list[int]) -> None:
        self._state, self._fed = state, fed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)

    def prefill(self, ids: list[int]) -> Tensor:
        self._fed += ids
        return self._state.prefill(ids)

    def forward(self, ids: Tensor) -> Tensor:
        self._fed += ids[0].tolist()
        return self._state.forward(ids)


class TestStops:
    def test_confidence_ends_the_draft_after_an_unlikely_token(self) -> None:
        """The unlikely token itself stays: dropping it would bias the output."""
        laws = {(0,): (0.0, 1.0, 0.0), (0, 1): (0.1, 0.3, 0.6), (0, 1, 1): (0.0, 1.0, 0.0)}
        laws |= {(0, 1, 0): (0, 1, 0), (0, 1, 2): (0, 1, 0)}
        pair = ModelPair(TableLM(3), TableLM(3, laws=laws))
        lengths = set()
        for seed in range(20):
            run = run_of(pair, [0], seed, assistant_confidence_threshold=0.5)
            draft = proposer_of(run).propose([0], 3)
            assert len(draft.ids) == (3 if draft.ids[1] == 2 else 2)
            lengths.add(len(draft.ids))
        assert lengths == {2, 3}

    def test_entropy_ends_the_draft_before_an_uncertain_token(self) -> None:
        """AdaEDL: stop where 1 − √(0.2·H) < λ. H = ln 3 gives 0.531."""
        laws = {(0,): (0.0, 1.0, 0.0), (0, 1): (1 / 3, 1 / 3, 1 / 3)}
        pair = ModelPair(TableLM(3), TableLM(3, laws=laws))
        bound = 1 - math.sqrt(0.2 * math.log(3))
        for threshold, length in ((bound + 1e-6, 1), (bound - 1e-6, 2)):
            run = run_of(pair, [0], entropy_stop=threshold)
            assert len(proposer_of(run).propose([0], 2).ids) == length

    @pytest.mark.parametrize(
        "stop", [{"assistant_confidence_threshold": 0.5}, {"entropy_stop": 0.4}]
    )
    def test_stops_work_at_temperature_zero(self, stop: dict[str, float]) -> None:
        """The one-hot law is always certain; the model behind it is not. Greedy all the same."""
        prompt, pair = zoo.prompts(1)[0], pairs.pair("llama")
        common = {"max_new_tokens": 24, "eos_token_id": []}
        own = {"temperature": 0, "num_draft_tokens": 6, "seed": 0}
        full = pg.decode(pair, prompt, **common, **own)
        stopped = pg.decode(pair, prompt, **common, **own, **stop)
        assert 0 < stopped.metrics.drafted_per_round < full.metrics.drafted_per_round
        assert stopped.token_ids == pg.decode(pair, prompt, "greedy", **common).token_ids

    @settings(derandomize=True, deadline=None)
    @given(st.floats(0, 1), st.floats(0, 1))
    def test_zero_is_off(self, prob: float, threshold: float) -> None:
        assert not DraftStops().too_unlikely(prob)
        assert not DraftStops().too_uncertain(torch.full((50,), 0.02))
        strict = DraftStops(assistant_confidence_threshold=threshold)
        assert strict.too_unlikely(prob) == (prob < threshold)


class TestFitVocabulary:
    def test_cuts_or_fills_with_nothing(self) -> None:
        logits = torch.tensor([1.0, 2.0, 3.0])
        assert fit_vocabulary(logits, 2).tolist() == [1.0, 2.0]
        assert fit_vocabulary(logits, 3) is not None
        wide = fit_vocabulary(logits, 5)
        assert wide[:3].equal(logits) and (wide[3:] == float("-inf")).all()


def lookup(prompt: list[int], count: int = 4, vocab: int = 30, **own: Any) -> Draft:
    """What prompt lookup drafts after `prompt` as its whole context."""
    run = run_of(_plain(vocab), prompt, proposer="prompt_lookup", **own)
    return proposer_of(run).propose(prompt, count)


def _plain(vocab: int) -> ModelPair:
    return ModelPair(TableLM(vocab, eos=29))


class TestPromptLookup:
    def test_copies_what_followed_the_longest_match(self) -> None:
        assert lookup([1, 2, 3, 4, 5, 9, 3, 7, 1, 2, 3]).ids == [4, 5, 9, 3]
        assert lookup([1, 2, 3, 4, 5, 9, 3, 7, 1, 2, 3], 2).ids == [4, 5]

    def test_a_shorter_n_gram_matches_the_newest_place(self) -> None:
        """Equally common continuations: the newest."""
        assert lookup([1, 2, 3, 4, 3, 7, 8, 3], max_matching_ngram_size=1).ids[0] == 7

    def test_the_commonest_continuation_wins(self) -> None:
        prompt = [3, 4, 3, 4, 3, 8, 3]
        assert lookup(prompt, 1, max_matching_ngram_size=1).ids == [4]

    def test_a_draft_may_run_into_itself(self) -> None:
        """The text that is copied ends where the context ends."""
        assert lookup([5, 6, 5, 6], 4).ids == [5, 6]

    @pytest.mark.parametrize("prompt", [[1], [1, 2, 3], [1, 2, 1, 3]])
    def test_no_match_no_draft(self, prompt: list[int]) -> None:
        """Case 85."""
        assert lookup(prompt) == Draft([], [])

    def test_laws_are_one_hot(self) -> None:
        """Case 22. The copied token is certain under the proposer's own law."""
        draft = lookup([1, 2, 3, 1, 2])
        for token, law in zip(draft.ids, draft.probs, strict=True):
            assert law[token] == 1.0 and law.sum() == 1.0 and len(law) == 30

    def test_ends_at_an_end_token(self) -> None:
        """Case 28."""
        assert lookup([1, 2, 29, 4, 1, 2]).ids == [29]

    def test_confidence_is_the_share_of_occurrences(self) -> None:
        prompt = [3, 4, 6, 3, 4, 6, 3, 8, 6, 3]
        own = {"max_matching_ngram_size": 1}
        assert lookup(prompt, 3, **own).ids == [4, 6, 3]
        assert lookup(prompt, 3, assistant_confidence_threshold=0.7, **own).ids == [4]
        entropy = -(2 / 3 * math.log(2 / 3) + 1 / 3 * math.log(1 / 3))
        bound = 1 - math.sqrt(0.2 * entropy)
        assert lookup(prompt, 3, entropy_stop=bound + 1e-6, **own).ids == []
        assert lookup(prompt, 3, entropy_stop=bound - 1e-6, **own).ids == [4, 6, 3]

    def test_proposes_nothing_that_bans_forbid(self) -> None:
        """A mixture rule would let it pass with probability 1 − w."""
        assert lookup([1, 2, 3, 1, 2], no_repeat_ngram_size=3).ids == []
        assert lookup([1, 2, 3, 1, 2], no_repeat_ngram_size=4).ids == [3]
        assert lookup([1, 2, 3, 1, 2], no_repeat_ngram_size=5).ids == [3, 1]
        assert lookup([1, 2, 29, 1, 2], min_new_tokens=5).ids == []
        for seed in range(6):
            result = pg.decode(
                _plain(30),
                [1, 2, 3, 4, 1, 2],
                proposer="prompt_lookup",
                verifier="ensemble",
                target_weight=0.0,
                no_repeat_ngram_size=2,
                max_new_tokens=24,
                eos_token_id=[],
                seed=seed,
            )
            text = [1, 2, 3, 4, 1, 2, *result.token_ids]
            grams = list(itertools.pairwise(text))
            assert len(set(grams)) == len(grams) - 1  # the prompt's own repetition

    @pytest.mark.parametrize("family", zoo.ENCODER_DECODER)
    def test_an_encoder_decoder_copies_from_its_source(self, family: str) -> None:
        source = [7, 8, 9, 10, 11]
        run = run_of(pairs.pair(family), source, proposer="prompt_lookup", eos_token_id=[])
        proposer = proposer_of(run)
        assert proposer.propose([*run.prefix, 8, 9], 4).ids == [10, 11]  # not beyond its end
        assert proposer.propose([*run.prefix, 20], 4).ids == []
        assert proposer.propose([*run.prefix, 11], 4).ids == []  # no text follows the last token
        assert proposer.propose([*run.prefix, 20, 21, 20], 4).ids == [21, 20]

    def test_an_n_gram_does_not_reach_from_the_source_into_the_output(self) -> None:
        pair = SimpleNamespace(is_encoder_decoder=True, vocab_size=30, device=torch.device("cpu"))
        warper = SimpleNamespace(needs_history=False)
        run: Any = SimpleNamespace(
            pair=pair, prompt_ids=[4, 5], eos_ids=frozenset(), warper=warper, prefix=[6]
        )
        params = pg.PROPOSERS["prompt_lookup"].Params()
        proposer = pg.PROPOSERS["prompt_lookup"](params, run)
        assert proposer.propose([6, 8, 4, 5, 6], 4).ids == [8, 4, 5, 6]  # by (6), not (4, 5, 6)

    @settings(derandomize=True, deadline=None, max_examples=100)
    @given(st.lists(st.integers(0, 3), min_size=1, max_size=25), st.integers(1, 4))
    def test_every_draft_continues_an_earlier_occurrence(self, text: list[int], n: int) -> None:
        """Draft and the n-gram before it stand in the text just so, or the last token never
        occurred before."""
        draft = lookup(text, 3, vocab=30, max_matching_ngram_size=n).ids
        if not draft:
            assert text[-1] not in text[:-1]
            return
        copied = [text[-1], *draft]
        places = range(len(text) - len(copied) + 1)
        assert any(text[i : i + len(copied)] == copied for i in places)
