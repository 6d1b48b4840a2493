"""The numbers beside each token: probabilities, acceptance, and the divergence really spent."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import playground as pg
from playground import contracts
from playground.mentored import divergence
from playground.metrics import round_spans
from playground.models import ModelPair
from playground.types import DecodeResult, Token
from tests import models_zoo as zoo
from tests import pairs
from tests.table_lm import TableLM

PROMPT = [0, 1]
VOCAB = 5


def table_pair(zeros: float = 0.0) -> ModelPair:
    return ModelPair(TableLM(VOCAB, seed=1, zeros=zeros), TableLM(VOCAB, seed=2, zeros=zeros))


def run(pair: ModelPair, method: str = "speculative", **own: Any) -> DecodeResult:
    return pg.decode(pair, PROMPT, method, **{"max_new_tokens": 24, "seed": 2, **own})


def contexts(result: DecodeResult) -> list[tuple[Token, list[int]]]:
    """Each token with everything before it."""
    ids = [*result.prompt_ids, *result.token_ids]
    start = len(result.prompt_ids)
    return [(token, ids[: start + i]) for i, token in enumerate(result.tokens)]


def law_of(model: TableLM, context: list[int]) -> torch.Tensor:
    return torch.tensor(model.law(context), dtype=torch.float64)


RULES: list[tuple[str, dict[str, Any]]] = [
    ("exact", {}),
    ("mentored", {"divergence_budget": 0.1}),
    ("mentored", {"divergence_budget": 0.1, "divergence": "js"}),
    ("lenience", {"lenience": 0.4}),
    ("ensemble", {"target_weight": 0.5}),
    ("typical", {}),
    ("top_k", {"accept_top_k": 2}),
    ("relaxed", {"relaxed_delta": 0.2}),
    ("cactus", {"cactus_delta": 0.3}),
    ("cascade", {"cascade_alpha": 0.6}),
]


class TestVerifiedTokens:
    @pytest.mark.parametrize(("name", "knobs"), RULES)
    def test_every_number_is_that_of_the_two_laws(self, name: str, knobs: dict[str, Any]) -> None:
        """Probabilities of both models, acceptance by the rule and by the exact rule, and the KL
        between target and output law in both directions, recomputed from the tables."""
        pair = table_pair()
        result = run(pair, verifier=name, **knobs)
        rule = pg.VERIFIERS[name](pg.VERIFIERS[name].Params(**knobs))
        seen = set()
        for token, context in contexts(result):
            target, draft = law_of(pair.target, context), law_of(pair.draft, context)
            assert token.target_prob == pytest.approx(float(target[token.token_id]))
            if token.source not in ("accepted", "residual"):
                assert token.accept_prob is token.divergence is token.drafted_id is None
                assert token.reverse_divergence == 0.0  # the target's own law
                continue
            seen.add(token.source)
            drafted = token.drafted_id
            accept, law = rule.outcome(target, draft)
            assert token.draft_prob == pytest.approx(float(draft[token.token_id]))
            assert token.accept_prob == pytest.approx(float(accept[drafted]))
            exact = min(1.0, float(target[drafted] / draft[drafted]))
            assert token.exact_accept_prob == pytest.approx(exact)
            assert (token.u < token.accept_prob) == (token.source == "accepted")
            assert (token.token_id == drafted) == (token.source == "accepted") or name in (
                "typical",  # may draw the refused token again
                "relaxed",
                "cascade",
            )
            assert token.divergence == pytest.approx(divergence(target, law, "kl"), abs=1e-12)
            reverse = divergence(target, law, "reverse_kl")
            assert token.reverse_divergence == pytest.approx(reverse, abs=1e-12)
            if name == "mentored":
                kind = knobs.get("divergence", "kl")
                spent = divergence(target, law, kind)
                assert token.budget_divergence == pytest.approx(spent, abs=1e-12)
                assert token.budget_divergence <= knobs["divergence_budget"] + 1e-12
            else:
                assert token.budget_divergence is None
        assert "accepted" in seen

    @pytest.mark.parametrize(
        ("name", "knobs"),
        [
            ("exact", {}),
            ("block", {}),
            ("lenience", {"lenience": 1}),
            ("mentored", {"divergence_budget": 0}),
        ],
    )
    def test_lossless_rules_spend_nothing(self, name: str, knobs: dict[str, Any]) -> None:
        result = run(table_pair(), verifier=name, **knobs)
        for token in result.tokens:
            if token.source in ("accepted", "residual"):
                assert token.divergence == token.reverse_divergence == 0.0
                assert 0 <= token.accept_prob <= 1
        assert result.metrics.mean_divergence == 0.0
        assert result.metrics.fidelity == 1.0

    def test_a_starved_target_token_is_infinite_and_null_in_json(self) -> None:
        """Facts: shown as infinite; `None` in JSON."""
        laws = {(0,): (0, 1, 0), (0, 1): (0.6, 0.4, 0)}
        pair = ModelPair(TableLM(3, laws=laws), TableLM(3, laws={(0, 1): (1, 0, 0)}))
        result = pg.decode(
            pair, [0], verifier="relaxed", max_new_tokens=3, num_draft_tokens=1, seed=0
        )
        token = result.tokens[1]
        assert token.source == "accepted" and token.divergence == math.inf
        assert result.metrics.max_divergence == math.inf
        record = result.to_dict()
        assert record["tokens"][1]["divergence"] is None
        assert record["metrics"]["max_divergence"] is None

    def test_an_optimum_is_solved_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Explaining a verified token costs one optimum, outside the clock, unless its test already
        took one."""
        calls = []
        rule_type = pg.VERIFIERS["mentored"]
        solution = rule_type.solution
        monkeypatch.setattr(
            rule_type, "solution", lambda self, *laws: calls.append(1) or solution(self, *laws)
        )
        result = run(table_pair(), "mentored")
        verified = [t for t in result.tokens if t.source in ("accepted", "residual")]
        assert any(t.u >= t.exact_accept_prob for t in verified)
        assert len(calls) == len(verified)


class TestEveryToken:
    def test_alternatives_are_the_best_of_both_models(self) -> None:
        pair = table_pair()
        for token, context in contexts(run(pair, verifier="exact")):
            target = law_of(pair.target, context)
            best = target.argsort(descending=True).tolist()
            shown = [a.token_id for a in token.alternatives]
            assert shown[: len(best)] == best[: len(shown)]
            for other in token.alternatives:
                assert other.target_prob == pytest.approx(float(target[other.token_id]))
                assert other.text is None  # no tokenizer, no text
            if token.source in ("accepted", "residual"):
                draft = law_of(pair.draft, context)
                for other in token.alternatives:
                    assert other.draft_prob == pytest.approx(float(draft[other.token_id]))

    def test_impossible_alternatives_are_not_shown(self) -> None:
        result = run(table_pair(), top_k=2)
        for token in result.tokens:
            shown = [a for a in token.alternatives if a.target_prob or a.draft_prob]
            assert len(shown) == len(token.alternatives) <= 4

    def test_log_probability_is_of_the_raw_law(self) -> None:
        """Temperature 1, nothing warped: comparable between methods."""
        pair = table_pair()
        for method, own in (("speculative", {"temperature": 0.4, "top_k": 2}), ("greedy", {})):
            settings = own if method == "speculative" else {"seed": None}
            for token, context in contexts(run(pair, method, **settings)):
                raw = math.log(float(law_of(pair.target, context)[token.token_id]))
                assert token.target_logprob == pytest.approx(raw)

    def test_gap_of_the_top_two_logits_where_the_pick_is_deterministic(self) -> None:
        """Case 21. Greedy, and any sampling at temperature 0; elsewhere it says nothing."""
        pair = table_pair()
        for method, own in (("greedy", {"seed": None}), ("speculative", {"temperature": 0})):
            for token, context in contexts(run(pair, method, **own)):
                first, second = law_of(pair.target, context).log().topk(2).values.tolist()
                assert token.logit_gap == pytest.approx(first - second, rel=1e-5)
        assert all(t.logit_gap is None for t in run(pair, temperature=1.0).tokens)

    def test_a_deterministic_pick_is_measured_by_its_surprisal(self) -> None:
        """Fidelity's one scale: KL(one-hot‖q) = −ln q(token), q after the run's own warping."""
        pair = table_pair()
        for token, context in contexts(run(pair, "greedy", seed=None)):
            q = law_of(pair.target, context)
            assert token.reverse_divergence == pytest.approx(-math.log(float(q[token.token_id])))
            assert token.divergence is None

    def test_a_search_is_scored_by_the_target_alone(self) -> None:
        """Beams: teacher-forced numbers equal those of a plain forward, position by position."""
        result = pg.decode(
            pairs.pair("llama"),
            zoo.prompts(1)[0],
            "beam",
            num_beams=3,
            max_new_tokens=70,
            eos_token_id=[],
        )
        ids = [*result.prompt_ids, *result.token_ids]
        start = len(result.prompt_ids)
        with torch.inference_mode():
            rows = zoo.model("llama")(torch.tensor([ids])).logits[0].log_softmax(-1)
        assert len(result.tokens) == 70  # longer than one chunk of re-scoring
        for i, token in enumerate(result.tokens):
            expected = float(rows[start + i - 1, token.token_id])
            assert token.source == "beam"
            assert token.target_logprob == pytest.approx(expected, abs=1e-4)
            assert token.reverse_divergence == pytest.approx(-expected, abs=1e-4)

    @pytest.mark.parametrize(("name", "knobs"), [*RULES, ("block", {})])
    def test_a_round_keeps_both_probabilities_of_every_tested_draft_token(
        self, name: str, knobs: dict[str, Any]
    ) -> None:
        """A rejected token is in no other record."""
        pair = table_pair()
        result = run(pair, verifier=name, **knobs)
        spans = round_spans(result.tokens, result.rounds)
        for record, span in zip(result.rounds, spans, strict=True):
            assert record.target_probs is not None and record.draft_probs is not None
            assert len(record.target_probs) == len(record.draft_probs) == record.num_tested
            context = [*result.prompt_ids, *result.token_ids[: span.start]]
            for i, token_id in enumerate(record.draft_ids[: record.num_tested]):
                before = context + record.draft_ids[:i]
                for model, probs in (
                    (pair.target, record.target_probs),
                    (pair.draft, record.draft_probs),
                ):
                    assert probs[i] == pytest.approx(float(law_of(model, before)[token_id]))

    @pytest.mark.parametrize(("name", "knobs"), RULES)
    def test_both_laws_are_kept_where_a_draft_token_was_tested(
        self, name: str, knobs: dict[str, Any]
    ) -> None:
        """Exactly, for a vocabulary this small; elsewhere there is no draft's law."""
        pair = table_pair(zeros=0.2)
        for token, context in contexts(run(pair, verifier=name, **knobs)):
            if token.source not in ("accepted", "residual"):
                assert token.law is None
                continue
            law = token.law
            assert law is not None and law.texts is None and not law.rest_sizes
            assert {token.token_id, token.drafted_id} <= set(law.token_ids)
            ids = list(law.token_ids)
            for model, probs in ((pair.target, law.target_probs), (pair.draft, law.draft_probs)):
                assert probs == pytest.approx(law_of(model, context)[ids].tolist(), rel=1e-6)
                assert math.fsum(probs) == pytest.approx(1.0, abs=1e-6)

    def test_the_rest_of_a_large_vocabulary_is_merged(self) -> None:
        result = pg.decode(pairs.pair("llama"), zoo.prompts(1)[0], max_new_tokens=12, seed=0)
        laws = [token.law for token in result.tokens if token.law is not None]
        assert laws
        for law in laws:
            assert len(law.token_ids) + sum(law.rest_sizes) == pairs.pair("llama").vocab_size
            overlap = math.fsum(
                map(
                    min,
                    (*law.target_probs, *law.rest_target_probs),
                    (*law.draft_probs, *law.rest_draft_probs),
                )
            )
            assert 0 < overlap <= 1 + 1e-6

    def test_explaining_keeps_no_trace_in_the_run(self) -> None:
        """The record holds plain numbers: no tensor survives the run."""
        result = run(table_pair(), "mentored")
        for token in result.tokens:
            for name in Token.__slots__:
                assert not isinstance(getattr(token, name), (torch.Tensor, contracts.Tested))
