"""The speculative loop: the law of whole outputs, exactly; greedy at temperature 0; clean runs."""

from __future__ import annotations

import copy
import itertools
import threading
from collections import defaultdict
from functools import cache
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

import playground as pg
from playground.contracts import Committed, Finished
from playground.methods.autoregressive import EXHAUSTED
from playground.models import ModelPair
from playground.session import Plan, prepare
from playground.types import DecodeResult
from tests import models_zoo as zoo
from tests import pairs
from tests.enumeration import (
    Ids,
    Law,
    distance,
    every_run,
    make_warper,
    merged_outputs,
    outputs,
    own_outputs,
    warped,
)
from tests.table_lm import TableLM

EXACT = 1e-12
LOSSLESS: dict[str, dict[str, Any]] = {
    "exact": {},
    "block": {},
    "mentored": {"divergence_budget": 0},
    "lenience": {"lenience": 1},
    "ensemble": {"target_weight": 1},
    "cactus": {"cactus_delta": 0},
}
LOSSY: dict[str, dict[str, Any]] = {
    "mentored": {"divergence_budget": 0.2},
    "lenience": {"lenience": 0.5},
    "ensemble": {"target_weight": 0.5},
    "typical": {"typical_epsilon": 0.3, "typical_delta": 0.6},
    "top_k": {"accept_top_k": 2},
    "relaxed": {"relaxed_top_n": 2, "relaxed_delta": 0.2},
    "cactus": {"cactus_delta": 0.3},
    "cascade": {"cascade_alpha": 0.6},
}
PROPOSERS: dict[str, dict[str, Any]] = {
    "draft": {"proposer": "draft_model"},
    "draft, confidence stop": {"assistant_confidence_threshold": 0.35},
    "draft, entropy stop": {"entropy_stop": 0.57},
    "lookup": {"proposer": "prompt_lookup"},
    "lookup, confidence stop": {
        "proposer": "prompt_lookup",
        "assistant_confidence_threshold": 0.8,
        "max_matching_ngram_size": 1,
    },
    "lookup, entropy stop": {
        "proposer": "prompt_lookup",
        "entropy_stop": 0.7,
        "max_matching_ngram_size": 1,
    },
}
PROMPT = [0, 1, 0, 1, 1]  # says something twice, for prompt lookup


@cache
def table_pair(vocab: int = 3, eos: tuple[int, ...] = (2,), zeros: float = 0.0) -> ModelPair:
    target = TableLM(vocab, seed=1, eos=eos, zeros=zeros)
    return ModelPair(target, TableLM(vocab, seed=2, eos=eos, zeros=zeros))


def plan_of(pair: ModelPair, *settings: dict[str, Any], **more: Any) -> Plan:
    """A plan of the speculative method with the settings of all dictionaries."""
    merged = {k: v for part in (*settings, more) for k, v in part.items()}
    return prepare(pair, PROMPT, "speculative", {"seed": 0, **merged})


def rounds_of(events: list[Any]) -> list[Any]:
    return [e.round for e in events if isinstance(e, Committed) and e.round is not None]


class TestLawOfWholeOutputs:
    """Every lossless rule × proposer × draft length emits exactly what the target would."""

    @pytest.mark.parametrize("proposer", PROPOSERS)
    @pytest.mark.parametrize("rule", LOSSLESS)
    def test_every_rule_proposer_and_length(self, rule: str, proposer: str) -> None:
        """Case 22. End tokens inside drafts, bonus tokens, full drafts of 1 to 4 tokens, limits
        that cut rounds, and the greedy (one-hot) laws of prompt lookup."""
        for length in (1, 2, 3, 4):
            plan = plan_of(
                table_pair(),
                {"verifier": rule, "num_draft_tokens": length},
                {"max_new_tokens": min(length + 3, 6)},
                LOSSLESS[rule],
                PROPOSERS[proposer],
            )
            assert distance(merged_outputs(plan), own_outputs(plan)) < EXACT

    @pytest.mark.parametrize("proposer", PROPOSERS)
    @pytest.mark.parametrize("rule", LOSSLESS)
    def test_every_limit_without_assuming_that_rounds_forget(
        self, rule: str, proposer: str
    ) -> None:
        """Each path through the whole run is enumerated on its own; drafts are longer than
        limits. Case 29."""
        for limit in (1, 2, 3, 4):
            plan = plan_of(
                table_pair(),
                {"verifier": rule, "num_draft_tokens": 4, "max_new_tokens": limit},
                LOSSLESS[rule],
                PROPOSERS[proposer],
            )
            assert distance(outputs(plan), own_outputs(plan)) < EXACT

    WARPS: tuple[dict[str, Any], ...] = (
        {"temperature": 0.5},
        {"temperature": 1.7, "top_k": 2},
        {"top_p": 0.7},
        {"repetition_penalty": 1.7},
        {"no_repeat_ngram_size": 1},
        {"no_repeat_ngram_size": 2},
        {"min_new_tokens": 3},
        {
            "temperature": 0.8,
            "top_k": 3,
            "top_p": 0.9,
            "repetition_penalty": 1.3,
            "no_repeat_ngram_size": 2,
            "min_new_tokens": 2,
        },
    )

    @pytest.mark.parametrize("warp", WARPS, ids=lambda warp: "+".join(warp))
    def test_every_warping(self, warp: dict[str, Any]) -> None:
        """Case 23. Both laws are warped once, before draw, ratio and residual. Bans may end the
        text, also in the middle of a draft."""
        for rule, proposer in itertools.product(("exact", "block"), ("draft", "lookup")):
            plan = plan_of(
                table_pair(4, eos=(2, 3)),
                {"verifier": rule, "num_draft_tokens": 3, "max_new_tokens": 5},
                PROPOSERS[proposer],
                warp,
            )
            assert distance(merged_outputs(plan), own_outputs(plan)) < EXACT

    @pytest.mark.parametrize("rule", LOSSLESS)
    def test_every_rule_under_all_warpings_at_once(self, rule: str) -> None:
        for proposer in PROPOSERS:
            plan = plan_of(
                table_pair(4, eos=(2, 3)),
                {"verifier": rule, "num_draft_tokens": 3, "max_new_tokens": 5},
                LOSSLESS[rule],
                PROPOSERS[proposer],
                self.WARPS[-1],
            )
            assert distance(merged_outputs(plan), own_outputs(plan)) < EXACT

    @pytest.mark.parametrize("rule", LOSSLESS)
    def test_laws_with_holes_several_end_tokens_and_none(self, rule: str) -> None:
        """Tokens that target, draft, or both never say; two end tokens; no end token."""
        settings = {"verifier": rule, "num_draft_tokens": 3, "max_new_tokens": 4}
        for eos in ((2, 3), ()):
            plan = plan_of(table_pair(4, eos=eos, zeros=0.4), settings, LOSSLESS[rule])
            assert distance(merged_outputs(plan), own_outputs(plan)) < EXACT

    @pytest.mark.parametrize("rule", LOSSLESS)
    def test_bans_that_leave_the_target_nothing_where_the_draft_goes_on(self, rule: str) -> None:
        """A position behind which the target can say nothing ends the draft and the text."""
        plan = plan_of(
            table_pair(4, eos=(), zeros=0.5),
            {"verifier": rule, "num_draft_tokens": 3, "max_new_tokens": 5},
            {"no_repeat_ngram_size": 2},
            LOSSLESS[rule],
        )
        law = own_outputs(plan)
        assert distance(merged_outputs(plan), law) < EXACT
        assert any(len(ids) < 5 for ids in law)

    @pytest.mark.parametrize("draft_vocab", [3, 6])
    @pytest.mark.parametrize("rule", LOSSLESS)
    def test_heads_of_different_width(self, rule: str, draft_vocab: int) -> None:
        """Vocabulary padding: a draft that lacks the target's last id, or has two more."""
        pair = ModelPair(TableLM(4, seed=1, eos=2), TableLM(draft_vocab, seed=2, eos=2))
        plan = plan_of(
            pair,
            {"verifier": rule, "num_draft_tokens": 2, "max_new_tokens": 4, "top_k": 3},
            LOSSLESS[rule],
        )
        assert distance(merged_outputs(plan), own_outputs(plan)) < EXACT

    @pytest.mark.parametrize("stop", [p for p in PROPOSERS if "stop" in p])
    def test_stops_really_end_drafts(self, stop: str) -> None:
        """The stops of this grid bite: they shorten drafts, and not all of them."""
        whole = {k: v for k, v in PROPOSERS[stop].items() if k in ("proposer",)}
        whole |= {k: v for k, v in PROPOSERS[stop].items() if "ngram" in k}
        settings = {"num_draft_tokens": 3, "max_new_tokens": 5}
        stopped, full = (
            self._draft_lengths(plan_of(table_pair(), settings, own))
            for own in (PROPOSERS[stop], whole)
        )
        assert sum(k * w for k, w in stopped.items()) < sum(k * w for k, w in full.items()) - 0.1
        assert sum(weight > 0.01 for weight in stopped.values()) >= 2

    @staticmethod
    def _draft_lengths(plan: Plan) -> dict[int, float]:
        """Length of a run's first draft -> probability."""
        found: dict[int, float] = defaultdict(float)
        for weight, events in every_run(plan, num_events=2):
            for record in rounds_of(events):
                found[len(record.draft_ids)] += weight
        return found

    def test_a_wrong_rule_would_be_noticed(self) -> None:
        """The statement has teeth: lossy settings differ from the target's law by far more."""
        for rule, knobs in LOSSY.items():
            plan = plan_of(table_pair(), {"verifier": rule, "max_new_tokens": 4}, knobs)
            assert distance(merged_outputs(plan), own_outputs(plan)) > 1e-4, rule


class TestLossyLaws:
    @pytest.mark.parametrize("rule", LOSSY)
    def test_verified_positions_follow_the_rule_and_all_others_the_target(self, rule: str) -> None:
        """The law of whole outputs is the product of steps: at a drafted position the rule's split
        into acceptance (which goes on in the draft) and residual (which ends the round); for the
        first token and a bonus the target's own law."""
        for pair in (table_pair(), table_pair(zeros=0.4)):
            plan = plan_of(
                pair, {"verifier": rule, "num_draft_tokens": 3, "max_new_tokens": 5}, LOSSY[rule]
            )
            law = merged_outputs(plan)
            assert distance(law, self._by_recursion(plan)) < EXACT
            assert abs(sum(law.values()) - 1) < EXACT

    @staticmethod
    def _by_recursion(plan: Plan) -> Law:
        rule = pg.VERIFIERS[plan.settings.params.verifier](plan.settings.parts["verifier"])
        limit, gamma = plan.settings.params.max_new_tokens, plan.settings.params.num_draft_tokens
        warper, law = make_warper(plan), defaultdict[Ids, float](float)

        def visit(ids: Ids, drafted: int, mass: float) -> None:
            """`drafted`: positions of this round's draft still to be verified; −1: a new round."""
            if len(ids) == limit or (ids and ids[-1] in plan.eos_ids):
                law[ids] += mass
                return
            history = [*plan.prompt_ids, *ids]
            target = warped(plan.pair.target, warper, history)
            if drafted == -1:
                drafted = min(gamma, limit - len(ids) - 1) if ids else 0
            kept, replaced = torch.zeros_like(target), target
            if drafted > 0:
                draft = warped(plan.pair.draft, warper, history)
                accept, residual = rule.plan(target, draft)
                kept = draft * accept
                replaced = (1 - kept.sum()) * residual
            laws = zip(kept.tolist(), replaced.tolist(), strict=True)
            for token, (same, other) in enumerate(laws):
                if same > 0:
                    visit((*ids, token), drafted - 1, mass * same)
                if other > 0:
                    visit((*ids, token), -1, mass * other)

        visit((), -1, 1.0)
        return dict(law)


class TestAcceptance:
    def test_first_acceptance_is_the_overlap_of_the_warped_laws(self) -> None:
        """Case 23. With top_k=2 acceptance is Σ min(p, q) of the warped laws, not inflated."""
        plan = plan_of(table_pair(4, eos=(3,)), num_draft_tokens=1, max_new_tokens=3, top_k=2)
        warper, found, expected = make_warper(plan), 0.0, 0.0
        for weight, events in every_run(plan, num_events=2):
            found += weight * sum(r.num_accepted for r in rounds_of(events))
        first = warped(plan.pair.target, warper, PROMPT)
        for token in range(3):  # 3 ends the text
            laws = [
                warped(m, warper, [*PROMPT, token]) for m in (plan.pair.target, plan.pair.draft)
            ]
            expected += float(first[token] * torch.minimum(*laws).sum())
        assert abs(found - expected) < EXACT

    def test_longer_drafts_lower_the_rate_but_not_the_first_position(self) -> None:
        """Case 86. The rate has γ in its denominator; tokens per round and the first position's
        acceptance do not, so drafters are compared by those."""
        pair = table_pair(3, eos=())
        rates, firsts, kept = [], [], []
        for length in (1, 2, 4):
            plan = plan_of(pair, num_draft_tokens=length, max_new_tokens=length + 2)
            accepted = drafted = first = 0.0
            for weight, events in every_run(plan, num_events=2):
                record = rounds_of(events)[0]
                accepted += weight * record.num_accepted
                drafted += weight * len(record.draft_ids)
                first += weight * (record.num_accepted > 0)
            rates.append(accepted / drafted)
            firsts.append(first)
            kept.append(accepted + 1)
        assert rates[0] > rates[1] > rates[2]
        assert max(firsts) - min(firsts) < EXACT
        assert kept[0] < kept[1] < kept[2]

    def test_block_keeps_at_least_as_many_tokens(self) -> None:
        """Sun et al. 2024, theorem 2: no smaller expected number of accepted tokens."""
        means = {}
        for rule in ("exact", "block"):
            plan = plan_of(table_pair(), verifier=rule, num_draft_tokens=4, max_new_tokens=6)
            starts = every_run(plan, num_events=2)  # the first token, and one round
            means[rule] = sum(w * sum(r.num_accepted for r in rounds_of(e)) for w, e in starts)
        assert means["block"] > means["exact"] + 1e-3

    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
    def test_equal_models_accept_everything(self, dtype: torch.dtype) -> None:
        """Case 25. p = q has an all-zero residual: no NaN, full acceptance, in any precision. (The
        other rules may refuse even what the target says itself.)"""

        class Rounded(TableLM):
            def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
                return super().forward(input_ids).to(dtype)

        model = Rounded(50, seed=3)
        pair = ModelPair(model, model)
        for rule in LOSSLESS:  # with their default, lossy settings: no correction is needed
            for temperature in (0.01, 1.0):
                result = pg.decode(
                    pair,
                    [1, 2, 3],
                    verifier=rule,
                    temperature=temperature,
                    max_new_tokens=40,
                    num_draft_tokens=6,
                    eos_token_id=[],
                    seed=1,
                )
                assert result.metrics.acceptance_rate == 1.0
                assert result.metrics.mean_divergence == pytest.approx(0.0, abs=1e-12)
                assert len(result.token_ids) == 40

    def test_equal_transformers_models_in_bf16(self) -> None:
        """Case 25. A pass over several tokens may round otherwise than single steps do; still no
        NaN, and all but everything accepted."""
        model = copy.deepcopy(zoo.model("llama")).to(torch.bfloat16)
        result = pg.decode(
            ModelPair(model, model),
            [3, 4, 5],
            temperature=0.01,
            max_new_tokens=64,
            num_draft_tokens=4,
            eos_token_id=[],
            seed=0,
        )
        assert result.metrics.acceptance_rate is not None
        assert result.metrics.acceptance_rate > 0.9
        assert all(0 <= (t.target_prob or 0) <= 1 for t in result.tokens)


def decode(pair: ModelPair, prompt: list[int], **params: Any) -> DecodeResult:
    return pg.decode(pair, prompt, "speculative", **{"seed": 0, **params})


def assert_greedy(pair: ModelPair, prompt: list[int], common: dict[str, Any], **own: Any) -> None:
    """Speculative decoding at temperature 0 gives greedy's ids, for the same reason."""
    expected = pg.decode(pair, prompt, "greedy", **common)
    found = decode(pair, prompt, temperature=0, **common, **own)
    assert found.token_ids == expected.token_ids
    assert found.finish_reason == expected.finish_reason
    assert found.metrics.num_new_tokens == expected.metrics.num_new_tokens


LOOKUP = {"proposer": "prompt_lookup"}


class TestTemperatureZero:
    """At temperature 0 speculation is greedy decoding, id for id, in single precision."""

    @pytest.mark.parametrize("family", zoo.FAMILIES)
    def test_every_family(self, family: str) -> None:
        """Case 30. Windows of 5 tokens are exceeded (Mistral, Gemma 3). Both forwards of Llama."""
        for prompt in zoo.prompts(3, length=9):
            common = {"max_new_tokens": 24, "eos_token_id": []}
            assert_greedy(pairs.pair(family), prompt, common, num_draft_tokens=5)
            assert_greedy(pairs.pair(family), prompt * 2, common, num_draft_tokens=3, **LOOKUP)
            assert_greedy(pairs.pair(family, lean=False), prompt, common, num_draft_tokens=2)

    @pytest.mark.parametrize("rule", LOSSLESS)
    def test_every_lossless_rule_and_mentored_with_any_budget(self, rule: str) -> None:
        for family, prompt in itertools.product(("llama", "t5"), zoo.prompts(2)):
            common = {"max_new_tokens": 20}
            own = {"verifier": rule, "num_draft_tokens": 4, **LOSSLESS[rule]}
            assert_greedy(pairs.pair(family), prompt, common, **own)
            own |= {"divergence_budget": 50.0} if rule == "mentored" else {}
            assert_greedy(pairs.pair(family), prompt, common, **own)

    @pytest.mark.parametrize("family", ["llama", "gpt2", "t5", "bart"])
    def test_every_limit_and_draft_length(self, family: str) -> None:
        """Case 29. Exactly greedy's length, with and without end tokens, for any draft."""
        prompt = zoo.prompts(1)[0]
        for limit, length in itertools.product((1, 2, 3, 4), range(1, 9)):
            for eos in ([], None) if length in (1, 4) else ([],):
                common = {"max_new_tokens": limit, "eos_token_id": eos}
                assert_greedy(pairs.pair(family), prompt, common, num_draft_tokens=length)
                own = {"num_draft_tokens": length, **LOOKUP}
                assert_greedy(pairs.pair(family), prompt * 2, common, **own)

    @pytest.mark.parametrize("family", ["llama", "t5", "marian"])
    def test_penalties_bans_and_minimum_length(self, family: str) -> None:
        """Case 36. Rejected drafts leave no trace in the history, accepted ones count once."""
        pair = pairs.pair(family)
        free = pg.decode(pair, zoo.prompts(1)[0], "greedy", max_new_tokens=24, eos_token_id=[])
        common_ends = sorted(set(free.token_ids))[:2]  # ids that greedy says, as end tokens
        for penalty, ngram, least in ((1.5, 0, 0), (1.0, 2, 0), (1.3, 3, 12), (0.8, 0, 20)):
            common = {
                "max_new_tokens": 24,
                "repetition_penalty": penalty,
                "no_repeat_ngram_size": ngram,
                "min_new_tokens": least,
                "eos_token_id": common_ends,
            }
            for prompt in zoo.prompts(2, length=7):
                assert_greedy(pair, prompt, common, num_draft_tokens=4)
                assert_greedy(pair, prompt * 2, common, num_draft_tokens=4, **LOOKUP)

    def test_an_end_token_inside_a_draft_cuts_there(self) -> None:
        """Case 28. What lies behind an accepted end token is neither emitted nor counted."""
        target = zoo.model("llama")
        pair = ModelPair(target, target)
        for prompt in zoo.prompts(10):
            free = pg.decode(pair, prompt, "greedy", max_new_tokens=20, eos_token_id=[])
            end = free.token_ids[4]
            if end in free.token_ids[:4]:
                continue
            result = decode(
                pair, prompt, temperature=0, num_draft_tokens=8, max_new_tokens=20, eos_token_id=end
            )
            assert result.token_ids == free.token_ids[:5]
            assert result.finish_reason == "eos"
            assert [(r.draft_ids, r.num_tested, r.num_accepted) for r in result.rounds] == [
                (free.token_ids[1:5], 4, 4)
            ]
            assert result.metrics.num_new_tokens == len(result.tokens) == 5
            return
        pytest.fail("no prompt with a fresh fifth token")

    @pytest.mark.parametrize("temperature", [0, 0.0, 1e-7, 1e-6, 1e-5])
    def test_a_token_that_is_not_the_best_is_refused(self, temperature: float) -> None:
        """Case 27. Draft a = 0.2 (its best), target a = 0.3, b = 0.5: b, though 0.3 / 0.2 > 1."""
        ids = {(0, 0): (0.2, 0.1, 0.1, 0.15, 0.15, 0.15, 0.15)}
        target = TableLM(7, laws={(0,): (1, 0, 0, 0, 0, 0, 0), (0, 0): (0.3, 0.5, 0.2, 0, 0, 0, 0)})
        pair = ModelPair(target, TableLM(7, laws=ids))
        for rule in LOSSLESS:
            result = decode(
                pair,
                [0],
                verifier=rule,
                temperature=temperature,
                max_new_tokens=3,
                num_draft_tokens=1,
                **LOSSLESS[rule],
            )
            assert result.rounds[0].draft_ids == [0]
            assert result.token_ids[:2] == [0, 1]
            assert result.tokens[1].source == "residual"
            assert result.tokens[1].accept_prob == pytest.approx(0.0, abs=1e-12)

    def test_a_draft_of_another_width_in_an_encoder_decoder(self) -> None:
        """Case 39. The draft encodes the source itself."""
        torch.manual_seed(0)
        config = T5Config(
            vocab_size=zoo.VOCAB,
            d_model=24,
            d_kv=4,
            d_ff=16,
            num_layers=1,
            num_heads=3,
            decoder_start_token_id=0,
        )
        pair = ModelPair(zoo.model("t5"), T5ForConditionalGeneration(config))
        for prompt in zoo.prompts(3):
            assert_greedy(pair, prompt, {"max_new_tokens": 12}, num_draft_tokens=3)

    @pytest.mark.parametrize("width", [20, 40])
    @pytest.mark.parametrize("lean", [True, False])
    def test_a_draft_with_a_head_of_another_width(self, width: int, lean: bool) -> None:
        """Vocabulary padding, with ids that only one of the two models knows."""
        torch.manual_seed(1)
        draft = LlamaForCausalLM(LlamaConfig(**{**zoo.SIZES, "vocab_size": width}))
        pair = ModelPair(zoo.model("llama"), draft, lean=lean)
        spoken = set()
        for prompt in zoo.prompts(4):
            common = {"max_new_tokens": 16, "eos_token_id": []}
            assert_greedy(pair, prompt, common, num_draft_tokens=4)
            hot = decode(pair, prompt, temperature=2.0, num_draft_tokens=4, **common)
            spoken |= set(hot.token_ids)
            assert len(hot.token_ids) == 16
        assert max(spoken) >= 20  # ids without an embedding in the narrow draft

    def test_a_near_tie_that_lower_precision_flips_shows_in_the_trace(self) -> None:
        """Case 21. Where bf16 speculation leaves bf16 greedy, the top two logits are within
        rounding of each other, and the trace says so; in fp32 nothing leaves."""
        flips = 0
        pair = pairs.pair("qwen2", torch.bfloat16)
        for prompt in zoo.prompts(40):
            common = {"max_new_tokens": 24, "eos_token_id": []}
            greedy = pg.decode(pair, prompt, "greedy", **common)
            found = decode(pair, prompt, temperature=0, num_draft_tokens=5, **common)
            zipped = zip(greedy.tokens, found.tokens, strict=True)
            pairs_of = ((a, b) for a, b in zipped if a.token_id != b.token_id)
            if first := next(pairs_of, None):
                flips += 1
                assert all(0 <= token.logit_gap < 0.1 for token in first)
        assert flips > 0


class TestMentored:
    """The speculative loop with the mentored rule."""

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
    @pytest.mark.parametrize("family", ["llama", "t5"])
    def test_budget_zero_is_exact_speculation_token_for_token(
        self, family: str, dtype: torch.dtype
    ) -> None:
        pair = pairs.pair(family, dtype)
        for seed, prompt in enumerate(zoo.prompts(12)):
            common = {"max_new_tokens": 16, "seed": seed, "temperature": 0.9, "top_p": 0.95}
            exact = decode(pair, prompt, **common)
            for keep in (True, False):
                mentored = pg.decode(
                    pair, prompt, "mentored", divergence_budget=0, keep_support=keep, **common
                )
                assert mentored.token_ids == exact.token_ids
                assert [t.u for t in mentored.tokens] == [t.u for t in exact.tokens]
                assert mentored.badge == exact.badge == "lossless"
                assert mentored.metrics.max_divergence in (0.0, None)

    @pytest.mark.parametrize("kind", ["kl", "reverse_kl", "js", "hellinger", "chi2", "tv"])
    def test_realised_divergence_is_never_above_the_budget(self, kind: str) -> None:
        """Case 44. At every verified position, in the budget's own measure; KL beside it."""
        for budget, keep in itertools.product((0.02, 0.3), (True, False)):
            for seed, prompt in enumerate(zoo.prompts(3)):
                result = pg.decode(
                    pairs.pair("llama"),
                    prompt,
                    "mentored",
                    max_new_tokens=16,
                    divergence=kind,
                    divergence_budget=budget,
                    keep_support=keep,
                    top_k=12,
                    seed=seed,
                )
                tested = [t for t in result.tokens if t.source in ("accepted", "residual")]
                assert tested
                for token in tested:
                    assert token.budget_divergence is not None and token.divergence is not None
                    assert -1e-12 <= token.budget_divergence <= budget + 1e-12
                    if kind == "kl":
                        assert token.budget_divergence == token.divergence
                    assert token.accept_prob >= token.exact_accept_prob - 1e-6
                assert result.metrics.max_budget_divergence <= budget + 1e-12
                assert result.metrics.mean_divergence >= 0  # of KL, whatever the budget counts

    def test_one_uniform_number_serves_both_tests(self) -> None:
        """A token that the exact test accepts costs no optimum; else the same u is compared."""
        for seed, prompt in enumerate(zoo.prompts(4)):
            result = pg.decode(pairs.pair("gpt2"), prompt, "mentored", max_new_tokens=16, seed=seed)
            for token in result.tokens:
                if token.source == "accepted":
                    assert token.u < token.accept_prob
                    assert token.token_id == token.drafted_id
                elif token.source == "residual":
                    assert token.u >= token.accept_prob >= token.exact_accept_prob - 1e-6

    @pytest.mark.parametrize("temperature", [0.0, 0.8])
    def test_nothing_outside_the_targets_support(self, temperature: float) -> None:
        """keep_support: no token that top-k, top-p or a ban excludes, whatever the budget."""
        for seed, prompt in enumerate(zoo.prompts(6)):
            result = pg.decode(
                pairs.pair("llama"),
                prompt,
                "mentored",
                divergence_budget=100.0,
                temperature=temperature,
                top_k=3,
                no_repeat_ngram_size=2,
                max_new_tokens=24,
                seed=seed,
            )
            assert all(token.target_prob > 0 for token in result.tokens)

    def test_without_it_a_large_budget_is_the_draft(self) -> None:
        """keep_support=False with D ≥ KL(q‖p) accepts everything."""
        result = pg.decode(
            pairs.pair("llama"),
            zoo.prompts(1)[0],
            "mentored",
            divergence_budget=100.0,
            keep_support=False,
            max_new_tokens=24,
            eos_token_id=[],
            seed=0,
        )
        assert result.metrics.acceptance_rate == 1.0
        assert result.badge == "lossy"


class TestRuns:
    """Each run depends on its own settings and seed alone."""

    def test_nothing_leaks_from_one_run_to_the_next(self) -> None:
        """Case 37. Run, change the draft length and the stops, run again: as with a fresh pair."""
        prompt = zoo.prompts(1)[0]
        settings: list[dict[str, Any]] = [
            {"num_draft_tokens": 2},
            {"num_draft_tokens": 7, "assistant_confidence_threshold": 0.4},
            {"num_draft_tokens": 5, "verifier": "mentored", "divergence_budget": 0.5},
            {"num_draft_tokens": 3, **LOOKUP},
            {"num_draft_tokens": 2},
        ]
        for own in settings:
            again = decode(pairs.pair("gpt2"), prompt, max_new_tokens=20, seed=4, **own)
            models = (copy.deepcopy(m) for m in (zoo.model("gpt2"), pairs.noisy("gpt2")))
            fresh = decode(ModelPair(*models), prompt, max_new_tokens=20, seed=4, **own)
            assert again.token_ids == fresh.token_ids
            assert [r.draft_ids for r in again.rounds] == [r.draft_ids for r in fresh.rounds]
            assert max(len(r.draft_ids) for r in again.rounds) <= own["num_draft_tokens"]

    def test_a_seed_decides_the_output(self) -> None:
        """Case 38. The same seed thrice the same, other seeds others, torch's own stream untouched
        and without influence."""
        pair, prompt = pairs.pair("llama"), zoo.prompts(1)[0]
        torch.manual_seed(1)
        before = torch.get_rng_state()
        same = [decode(pair, prompt, seed=5, max_new_tokens=20).token_ids for _ in range(3)]
        assert torch.equal(torch.get_rng_state(), before)
        torch.manual_seed(2)
        same.append(decode(pair, prompt, seed=5, max_new_tokens=20).token_ids)
        assert all(ids == same[0] for ids in same)
        others = {
            tuple(decode(pair, prompt, seed=s, max_new_tokens=20).token_ids) for s in range(6)
        }
        assert len(others) > 1
        unseeded = decode(pair, prompt, seed=None, max_new_tokens=20)
        assert unseeded.params["seed"] != decode(pair, prompt, seed=None).params["seed"]
        repeated = decode(pair, prompt, seed=unseeded.params["seed"], max_new_tokens=20)
        assert repeated.token_ids == unseeded.token_ids

    def test_concurrent_runs_do_not_share_random_numbers(self) -> None:
        """Case 38. Interleaved on one pair, each run gives what it gives alone."""
        pair, prompts = pairs.pair("gpt2"), zoo.prompts(4)
        alone = [
            decode(pair, p, seed=i, max_new_tokens=16).token_ids for i, p in enumerate(prompts)
        ]
        found: dict[int, list[int]] = {}

        def work(i: int) -> None:
            found[i] = decode(pair, prompts[i], seed=i, max_new_tokens=16).token_ids

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [found[i] for i in range(4)] == alone

    def test_a_batch_of_prompts_is_refused(self) -> None:
        """Case 40. One prompt a run; the message names the parameter and what is allowed."""
        for batch in ([[2, 3], [4, 5]], ["a", "b"], torch.tensor([[2, 3], [4, 5]])):
            with pytest.raises(ValueError, match=r"(?s)prompt.*one flat list of token ids"):
                pg.decode(pairs.pair("llama"), batch, "speculative")

    def test_different_tokenizers_are_refused(self) -> None:
        """Case 33. Same size, permuted tokens; same tokens, other special ids."""
        words = {w: i for i, w in enumerate(["<s>", "</s>", "a", "b", "c"])}
        permuted = {**words, "a": 3, "b": 2}
        target = tokenizer_of(words)
        models = zoo.model("llama"), pairs.noisy("llama")
        ModelPair(*models, target, draft_tokenizer=tokenizer_of(words))
        with pytest.raises(ValueError, match=r"draft.*id 2 is 'a' for the target, 'b'"):
            ModelPair(*models, target, draft_tokenizer=tokenizer_of(permuted))
        with pytest.raises(ValueError, match=r"draft.*bos_token_id"):
            ModelPair(*models, target, draft_tokenizer=tokenizer_of(words, bos_token="</s>"))

    def test_without_a_draft_model_only_lookup_runs(self) -> None:
        pair = ModelPair(zoo.model("llama"))
        with pytest.raises(ValueError, match=r"proposer.*no draft model"):
            decode(pair, [2, 3])
        assert decode(pair, [2, 3], max_new_tokens=4, **LOOKUP).token_ids

    def test_lossy_settings_wear_the_badge_and_show_what_they_spend(self) -> None:
        """Case 43. w = 1 is lossless; w = 0.5 is lossy, with its divergence."""
        prompt, common = zoo.prompts(1)[0], {"max_new_tokens": 20, "verifier": "ensemble"}
        pure = decode(pairs.pair("llama"), prompt, target_weight=1, **common)
        mixed = decode(pairs.pair("llama"), prompt, target_weight=0.5, **common)
        assert (pure.badge, mixed.badge) == ("lossless", "lossy")
        assert pure.metrics.mean_divergence == 0.0 < mixed.metrics.mean_divergence
        assert pure.metrics.fidelity == 1.0 > mixed.metrics.fidelity
        assert pure.token_ids == decode(pairs.pair("llama"), prompt, max_new_tokens=20).token_ids

    def test_a_strict_confidence_stop_shows_how_little_is_drafted(self) -> None:
        """Case 46. Nearly everything accepted, hardly anything drafted: both are shown."""
        common = {"max_new_tokens": 24, "num_draft_tokens": 8, "eos_token_id": []}
        strict = decode(
            pairs.pair("llama"), zoo.prompts(1)[0], assistant_confidence_threshold=0.99, **common
        )
        plain = decode(pairs.pair("llama"), zoo.prompts(1)[0], **common)
        assert strict.metrics.drafted_per_round <= 1.0 < plain.metrics.drafted_per_round
        assert strict.metrics.acceptance_rate > plain.metrics.acceptance_rate

    def test_no_drafts_no_rates(self) -> None:
        """Case 85. One token, or a lookup without a match: None, never a division by zero."""
        one = decode(pairs.pair("llama"), zoo.prompts(1)[0], max_new_tokens=1)
        assert one.rounds == () and len(one.token_ids) == 1
        assert one.metrics.acceptance_rate is one.metrics.tested_acceptance_rate is None
        assert one.metrics.accepted_per_position is one.metrics.drafted_per_round is None
        lonely = TableLM(
            4, laws={(0,): (0, 1, 0, 0), (0, 1): (0, 0, 1, 0), (0, 1, 2): (0, 0, 0, 1)}
        )
        unmatched = decode(ModelPair(lonely), [0], max_new_tokens=3, **LOOKUP)
        assert unmatched.token_ids == [1, 2, 3]
        assert unmatched.metrics.num_drafted == 0 and len(unmatched.rounds) == 2
        assert unmatched.metrics.acceptance_rate is unmatched.metrics.mean_divergence is None
        assert unmatched.metrics.drafted_per_round == 0.0
        assert [t.source for t in unmatched.tokens] == ["prefill", "sampled", "sampled"]

    def test_ids_are_counted_not_chunks(self) -> None:
        """Case 82. Draft 8, everything accepted: 25 ids in four events."""
        model = zoo.model("llama")
        events = list(
            pg.stream(
                ModelPair(model, model),
                zoo.prompts(1)[0],
                temperature=0,
                num_draft_tokens=8,
                max_new_tokens=25,
                eos_token_id=[],
            )
        )
        assert [e.num_new_tokens for e in events] == [1, 10, 19, 25, 25]
        metrics = events[-1].result.metrics
        assert metrics.num_new_tokens == 25
        assert metrics.tokens_per_s == pytest.approx(25 / metrics.total_s)
        assert metrics.ms_per_token == pytest.approx(1000 * (metrics.total_s - metrics.ttft_s) / 24)
        assert metrics.num_target_passes == 4
        assert metrics.tokens_per_target_pass == 25 / 4

    def test_a_text_that_bans_end_stops_with_a_note(self) -> None:
        """Every token banned: at the first position, after a rejection, and behind a draft."""
        pair = table_pair(3, eos=())
        for proposer in ("draft", "lookup"):
            plan = plan_of(
                pair, {"no_repeat_ngram_size": 2, "max_new_tokens": 12}, PROPOSERS[proposer]
            )
            ends = [events[-1] for _, events in every_run(plan)]
            assert all(isinstance(e, Finished) and e.reason == "stop" for e in ends)
            assert all(e.notes == [EXHAUSTED] for e in ends)
        plan = prepare(pair, [0, 1, 2], "speculative", {"no_repeat_ngram_size": 1})
        assert [events for _, events in every_run(plan)] == [
            [Finished("stop", notes=[EXHAUSTED], kv_bytes=0, kv_bytes_naive=0)]
        ]

    def test_a_run_can_be_stopped_between_rounds(self) -> None:
        events: list[Any] = []
        stream = pg.stream(
            pairs.pair("llama"),
            zoo.prompts(1)[0],
            max_new_tokens=40,
            eos_token_id=[],
            seed=0,
            cancelled=lambda: len(events) == 3,
        )
        for event in stream:
            events.append(event)
        assert events[-1].result.finish_reason == "cancelled"
        assert len(events[-1].result.rounds) == 2  # one event for the first token, one a round
        assert 3 <= len(events[-1].result.token_ids) < 40


def tokenizer_of(words: dict[str, int], **special: str) -> PreTrainedTokenizerFast:
    """A tokenizer of whole words."""
    backend = Tokenizer(models.WordLevel(words, unk_token="</s>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    names = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "</s>", **special}
    return PreTrainedTokenizerFast(tokenizer_object=backend, **names)
