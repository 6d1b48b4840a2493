"""Metrics: the numbers that papers define, on traces small enough to count by hand."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch

import playground as pg
from playground.metrics import (
    Timing,
    agreement,
    beam_kv_bytes,
    draft_cost,
    expected_speedup,
    expected_tokens_per_round,
    first_difference,
    mean,
    per_position_acceptance,
    ratio,
    round_spans,
    summarise,
)
from playground.types import Metrics, Round, Token, to_json
from tests import models_zoo as zoo
from tests import pairs

TIMING = Timing(2.0, 0.5, 1.0, 0.6, 4, 12)


def rounds_of(accepted: list[int], length: int = 4) -> list[Round]:
    return [
        Round([1] * length, min(count + 1, length), count, draft_s=0.2, target_s=0.25)
        for count in accepted
    ]


def tokens_of(accepted: list[int], length: int = 4) -> list[Token]:
    """The first token, then each round's accepted ones and the one that follows."""
    tokens = [Token(0, source="prefill")]
    for count in accepted:
        tokens += [Token(1, source="accepted", divergence=0.0)] * count
        last = "bonus" if count == length else "residual"
        tokens.append(Token(2, source=last, divergence=None if last == "bonus" else 0.3))
    return tokens


def summary(tokens: list[Token], rounds: list[Round], timing: Timing = TIMING) -> Metrics:
    return summarise(tokens, rounds, timing, num_draft_tokens=4)


def test_beam_memory_is_the_chapter_s() -> None:
    """Llama 3 8B in bf16, four beams: golden/kv_memory.json."""
    per_token = 2 * 8 * 128 * 32 * 2
    naive, shared = beam_kv_bytes(4, 1000, 200, per_token)
    assert (naive / 2**20, shared / 2**20) == (600.0, 225.0)


class TestAcceptance:
    def test_the_three_rounds_of_the_textbook(self) -> None:
        """Case 84. γ = 4, accepted 3, 0, 4: rate 7/12; 10/3 tokens a round with the token that
        follows, 7/3 without; by position 2/3, 2/3, 2/3, 1/3."""
        found = summary(tokens_of([3, 0, 4]), rounds_of([3, 0, 4]))
        assert (found.num_drafted, found.num_tested, found.num_accepted) == (12, 9, 7)
        assert found.acceptance_rate == 7 / 12
        assert found.tested_acceptance_rate == 7 / 9
        assert found.tokens_per_round == 10 / 3
        assert found.num_accepted / 3 == 7 / 3
        assert found.accepted_per_position == [2 / 3, 2 / 3, 2 / 3, 1 / 3]
        assert found.drafted_per_round == 4.0
        assert found.num_new_tokens == 11
        assert found.tokens_per_target_pass == 11 / 4

    def test_bonus_and_residual_tokens_are_never_accepted(self) -> None:
        found = summary(tokens_of([0, 0]), rounds_of([0, 0]))
        assert found.num_accepted == 0 and found.acceptance_rate == 0.0
        assert found.tokens_per_round == 1.0

    def test_rounds_of_uneven_length(self) -> None:
        """Position i counts among all rounds, also those whose draft was shorter."""
        rounds = [
            Round([1], 1, 1, 0.1, 0.1),
            Round([1, 1, 1], 3, 2, 0.1, 0.1),
            Round([], 0, 0, 0, 0.1),
        ]
        assert per_position_acceptance(rounds) == [2 / 3, 1 / 3, 0.0]

    def test_longer_drafts_of_the_same_drafter(self) -> None:
        """Case 86. With acceptance α a position, the rate falls with γ; the first position's
        acceptance stays, and tokens a round rise: compare by those."""
        alpha, rates, firsts, kept = 0.7, [], [], []
        for gamma in (2, 4, 8):
            share = [alpha**i * (1 - alpha) for i in range(gamma)] + [alpha**gamma]
            counts = [n for n, weight in enumerate(share) for _ in range(round(1000 * weight))]
            found = summary(tokens_of(counts, gamma), rounds_of(counts, gamma))
            rates.append(found.acceptance_rate or 0.0)
            firsts.append((found.accepted_per_position or [0.0])[0])
            kept.append(found.tokens_per_round or 0.0)
            assert kept[-1] == pytest.approx(expected_tokens_per_round(alpha, gamma), abs=0.02)
        assert rates[0] > rates[1] > rates[2]
        assert firsts == pytest.approx([alpha] * 3, abs=2e-3)
        assert kept[0] < kept[1] < kept[2]

    def test_nothing_drafted_nothing_claimed(self) -> None:
        """Case 85. None, never a division by zero: no rounds, and rounds without drafts."""
        for rounds in ([], [Round([], 0, 0, 0.0, 0.1)]):
            found = summary([Token(0, source="prefill")], rounds)
            assert found.acceptance_rate is None
            assert found.tested_acceptance_rate is None
            assert found.accepted_per_position is None
            assert found.mean_divergence is found.max_divergence is None
            assert found.draft_cost is found.predicted_speedup is None
        assert summary([], [], Timing(0.0, None, 0.0, 0.0, 0, 0)) == Metrics(
            num_new_tokens=0, total_s=0.0, target_s=0.0, other_s=0.0
        )


class TestTime:
    def test_counts_ids_not_chunks(self) -> None:
        """Case 82. 25 ids in 2 s are 12.5 a second; the first one is left out of ms per token."""
        found = summary([Token(1)] * 25, [])
        assert found.tokens_per_s == 12.5
        assert found.ttft_s == 0.5
        assert found.ms_per_token == pytest.approx(1000 * 1.5 / 24)

    def test_one_token_has_no_pace(self) -> None:
        assert summary([Token(1)], []).ms_per_token is None

    def test_other_time_is_what_is_left(self) -> None:
        found = summary(tokens_of([1]), rounds_of([1]))
        assert (found.target_s, found.draft_s) == (1.0, 0.6)
        assert found.other_s == pytest.approx(0.4)
        assert summary([Token(1)], []).draft_s is None

    def test_draft_cost_leaves_the_first_round_out(self) -> None:
        """c = draft step / target pass; the draft reads the prompt in the first round."""
        rounds = [Round([1] * 4, 4, 4, 9.0, 1.0), *rounds_of([4, 4])]
        assert draft_cost(rounds) == pytest.approx((0.4 / 8) / 0.25)
        assert draft_cost(rounds[:1]) is None


class TestFormula:
    def test_expected_tokens_per_round(self) -> None:
        """(1 − α^(γ+1)) / (1 − α); γ + 1 at α = 1."""
        assert expected_tokens_per_round(0.8, 3) == pytest.approx(1 + 0.8 + 0.64 + 0.512)
        assert expected_tokens_per_round(0.0, 5) == 1.0
        assert expected_tokens_per_round(1.0, 5) == 6.0

    def test_expected_speedup(self) -> None:
        """Divided by γc + 1."""
        assert expected_speedup(0.8, 3, 0.1) == pytest.approx(2.952 / 1.3)
        assert expected_speedup(0.0, 4, 0.25) == 0.5  # slower, and said so (case 88)

    def test_predictions_of_a_run(self) -> None:
        """At this run's tested acceptance: for its own c, and for c = 0.05."""
        found = summary(tokens_of([3, 0, 4]), rounds_of([3, 0, 4]))
        assert found.draft_cost == pytest.approx(0.2)
        assert found.predicted_speedup == pytest.approx(expected_speedup(7 / 9, 4, 0.2))
        cheap = expected_speedup(7 / 9, 4, 0.05)
        assert found.predicted_speedup_cheap_draft == pytest.approx(cheap)


class TestDivergence:
    def test_mean_over_verified_positions_only(self) -> None:
        """First token and bonus are the target's own: they are no part of what a rule spent."""
        found = summary(tokens_of([3, 0, 4]), rounds_of([3, 0, 4]))
        assert found.mean_divergence == pytest.approx((7 * 0.0 + 2 * 0.3) / 9)
        assert found.max_divergence == 0.3

    def test_infinite_stays_infinite_and_is_null_in_json(self) -> None:
        """A rule that starves a target token: not the same as a value that does not exist."""
        tokens = [
            Token(0, source="accepted", divergence=math.inf, reverse_divergence=0.2),
            Token(0, source="residual", divergence=0.1, reverse_divergence=0.2),
        ]
        found = summary(tokens, rounds_of([1]))
        assert found.mean_divergence == found.max_divergence == math.inf
        assert to_json(found)["mean_divergence"] is None
        assert found.fidelity == pytest.approx(math.exp(-0.2))
        json.dumps(to_json(found), allow_nan=False)

    def test_fidelity_is_one_scale_for_all(self) -> None:
        """exp(−mean KL(output‖target)) over all new tokens: 1 for exact rules, the geometric mean
        probability of a deterministic pick, 0 outside the target's support."""
        exact = summary([Token(0, reverse_divergence=0.0)] * 3, [])
        assert exact.fidelity == 1.0
        picks = [Token(0, reverse_divergence=-math.log(p)) for p in (0.5, 0.125)]
        assert summary(picks, []).fidelity == pytest.approx(0.25)
        outside = summary([*picks, Token(0, reverse_divergence=math.inf)], [])
        assert outside.fidelity == 0.0
        assert outside.mean_reverse_divergence == math.inf

    def test_log_likelihood_and_perplexity(self) -> None:
        """Case 91: the mean over tokens, each counted once."""
        tokens = [Token(0, target_logprob=math.log(p)) for p in (0.5, 0.125)]
        found = summary(tokens, [])
        assert found.target_logprob == pytest.approx(math.log(0.25))
        assert found.perplexity == pytest.approx(4.0)

    def test_missing_values_are_left_out_of_means(self) -> None:
        assert mean([1.0, None, 3.0]) == 2.0
        assert mean([None]) is mean([]) is None
        assert ratio(1, 0) is None and ratio(1, 2) == 0.5


@pytest.mark.parametrize(
    "own",
    [
        {"method": "greedy"},
        {"method": "sample"},
        {"method": "beam", "num_beams": 3},
        {"method": "speculative"},
        {"method": "speculative", "proposer": "prompt_lookup"},
        {"method": "mentored", "keep_support": False, "divergence_budget": 5.0, "top_k": 3},
        {"method": "speculative", "verifier": "relaxed", "max_new_tokens": 1},
    ],
)
def test_real_runs_add_up(own: dict[str, Any]) -> None:
    """Rounds, tokens and passes of a run agree with each other, and its record is strict JSON."""
    own = dict(own)
    method = own.pop("method")
    settings = {"max_new_tokens": 18, "seed": 1, "eos_token_id": [], **own}
    if method in ("greedy", "beam"):
        settings.pop("seed")
    result = pg.decode(pairs.pair("llama"), zoo.prompts(1)[0], method, **settings)
    found, sources = result.metrics, [t.source for t in result.tokens]
    json.dumps(result.to_dict(), allow_nan=False)
    assert found.num_new_tokens == len(result.token_ids) == settings["max_new_tokens"]
    assert found.num_accepted == sources.count("accepted")
    assert found.num_drafted == sum(len(r.draft_ids) for r in result.rounds)
    assert found.num_tested <= found.num_drafted
    if method in ("speculative", "mentored"):
        assert found.num_target_passes == 1 + len(result.rounds)
        others = sources.count("residual") + sources.count("bonus") + sources.count("sampled")
        assert others == len(result.rounds)
        assert found.num_tested == found.num_accepted + sources.count("residual")
    assert found.total_s >= found.target_s + (found.draft_s or 0.0) - 1e-6
    assert found.ttft_s is not None and found.ttft_s <= found.total_s


@pytest.mark.parametrize("count", [1, 9])
@pytest.mark.parametrize("method", ["sample", "beam", "speculative"])
def test_perplexity_is_that_of_one_pass_over_prompt_and_output(method: str, count: int) -> None:
    """Case 91: no stride, no token left out, the raw law whatever the temperature was."""
    pair, prompt = pairs.pair("llama"), zoo.prompts(1)[0]
    own = {} if method == "beam" else {"temperature": 0.5, "seed": 3}
    found = pg.decode(pair, prompt, method, max_new_tokens=count, eos_token_id=[], **own)
    with torch.inference_mode():
        logits = pair.target(torch.tensor([prompt + found.token_ids])).logits[0]
    laws = torch.log_softmax(logits[len(prompt) - 1 : -1].double(), -1)
    expected = laws[range(count), found.token_ids].mean()
    assert found.metrics.num_new_tokens == count
    assert found.metrics.target_logprob == pytest.approx(float(expected), abs=1e-4)
    assert found.metrics.perplexity == pytest.approx(math.exp(-float(expected)), rel=1e-4)


class TestRoundSpans:
    def test_every_token_but_the_first_belongs_to_its_round(self) -> None:
        accepted = [3, 0, 4]
        spans = round_spans(tokens_of(accepted), rounds_of(accepted))
        assert spans == [range(1, 5), range(5, 6), range(6, 11)]

    def test_a_text_that_ends_inside_a_draft_has_no_token_after_it(self) -> None:
        tokens = tokens_of([2])[:-1]
        assert round_spans(tokens, rounds_of([2])) == [range(1, 3)]

    @pytest.mark.parametrize("rule", ["exact", "block", "top_k"])
    def test_spans_of_a_real_run_cover_it(self, rule: str) -> None:
        pair = pairs.pair("llama")
        for limit in (1, 2, 7, 20):
            run = pg.decode(
                pair, [1, 2, 3], "speculative", verifier=rule, max_new_tokens=limit, seed=1
            )
            covered = [i for span in round_spans(run.tokens, run.rounds) for i in span]
            assert covered == list(range(1, len(run.tokens)))


class TestFirstDifference:
    @pytest.mark.parametrize(
        ("first", "second", "place"),
        [
            ([], [], None),
            ([1, 2], [1, 2], None),
            ([1, 2, 3], [1, 5, 3], 1),
            ([1], [1, 2], 1),
            ([1, 2], [], 0),
        ],
    )
    def test_it_is_the_first_position_that_differs(
        self, first: list[int], second: list[int], place: int | None
    ) -> None:
        assert first_difference(first, second) == place
        assert first_difference(second, first) == place


class TestAgreement:
    @pytest.mark.parametrize(
        ("ids", "reference", "share"),
        [
            ([1, 2, 3, 4], [1, 2, 9, 4], 0.75),
            ([1, 2], [1, 2, 3, 4], 1.0),  # up to the shorter
            ([5], [1, 2], 0.0),
            ([], [1], None),
        ],
    )
    def test_share_of_equal_positions(
        self, ids: list[int], reference: list[int], share: float | None
    ) -> None:
        assert agreement(ids, reference) == agreement(reference, ids) == share

    def test_rows_have_it_where_a_greedy_run_is_among_them(self) -> None:
        pair = pairs.pair("llama")
        limits = {"max_new_tokens": 8, "eos_token_id": []}
        runs = {"a": {"method": "sample", "seed": 1}, "b": {"method": "greedy"}}
        first, second = pg.compare(pair, [1, 2, 3], runs, **limits).rows()
        assert second["agreement"] == 1.0 and 0.0 <= first["agreement"] <= 1.0
        del runs["b"]
        assert pg.compare(pair, [1, 2, 3], runs, **limits).rows()[0]["agreement"] is None
