"""The token lab: numbers and sentences from recorded or typed laws, without any model."""

from __future__ import annotations

import dataclasses
import math

import pytest

from playground.mentored import DIVERGENCES as KINDS
from playground.mentored import solve
from playground.types import DecodeResult, LawSummary, Token
from playground.ui.lab import (
    DIVERGENCES,
    PRESETS,
    Choice,
    Laws,
    laws_of,
    numbers_html,
    parse_laws,
    position_html,
    read,
    remark,
    verified,
)
from playground.ui.strings import LANGUAGES, Words
from tests.ui import traces

EVIL = "<img src=x onerror=alert(1)>&amp;"
SAY = Words("en")
LAW = LawSummary(
    token_ids=(7, 8, 9),
    target_probs=(0.5, 0.2, 0.1),
    draft_probs=(0.2, 0.5, 0.1),
    rest_target_probs=(0.15, 0.05),
    rest_draft_probs=(0.05, 0.15),
    rest_sizes=(1000, 2000),
    texts=(" sky", EVIL, "\n"),
)
TESTED = Token(7, " sky", "residual", u=0.7, accept_prob=0.4, drafted_id=8, law=LAW)


def typed(preset: str = "article") -> Laws:
    return parse_laws(PRESETS[preset], SAY)


def result(*tokens: Token) -> DecodeResult:
    return dataclasses.replace(traces.result(), tokens=tokens)


class TestReading:
    @pytest.mark.parametrize(
        ("budget", "acceptance"), [(0, 0.22), (0.2, 0.50), (0.4, 0.64), (1.0, 0.885), (1.59, 1)]
    )
    def test_the_first_preset_is_the_articles_example(
        self, budget: float, acceptance: float
    ) -> None:
        reading = read(typed(), Choice(budget))
        assert reading.optimum.acceptance == pytest.approx(acceptance, abs=5e-3)
        assert reading.whole == pytest.approx(1.58, abs=5e-3)

    @pytest.mark.parametrize("kind", DIVERGENCES)
    def test_it_is_the_solver_on_tokens_and_groups_alike(self, kind: str) -> None:
        laws = laws_of(TESTED)
        reading = read(laws, Choice(0.05, kind))
        best = solve(
            (0.5, 0.2, 0.1, 0.15, 0.05), (0.2, 0.5, 0.1, 0.05, 0.15), 0.05, divergence=kind
        )
        assert reading.optimum.acceptance == best.acceptance
        assert reading.output == tuple(best.output_probs.tolist())
        assert reading.exact == pytest.approx(0.2 + 0.2 + 0.1 + 0.05 + 0.05)

    def test_the_lab_offers_every_divergence(self) -> None:
        assert set(DIVERGENCES) == set(KINDS)

    @pytest.mark.parametrize("preset", PRESETS)
    def test_no_budget_is_speculative_decoding(self, preset: str) -> None:
        laws = typed(preset)
        reading = read(laws, Choice(0.0))
        assert reading.output == pytest.approx(laws.target)
        assert reading.optimum.acceptance == reading.exact
        assert "speculative decoding" in remark(laws, reading, Choice(0.0), SAY)

    def test_enough_budget_is_the_draft(self) -> None:
        laws, choice = typed(), Choice(1.6)
        reading = read(laws, choice)
        assert reading.output == pytest.approx(laws.draft)
        assert "draft’s own law" in remark(laws, reading, choice, SAY)

    def test_a_kept_support_ends_below_one(self) -> None:
        laws, choice = typed("zeros"), Choice(3.0)
        reading = read(laws, choice)
        assert reading.best == pytest.approx(0.6) and reading.output[2] == 0
        assert "excludes" in remark(laws, reading, choice, SAY)
        freed = read(laws, Choice(3.0, keep_support=False))
        assert freed.best == 1 and freed.output == pytest.approx(laws.draft)

    def test_the_curve_rises_from_exact_to_best(self) -> None:
        reading = read(typed(), Choice(0.2))
        budgets, shares = zip(*reading.curve, strict=True)
        assert list(budgets) == sorted(budgets) and list(shares) == sorted(shares)
        assert (budgets[0], shares[0]) == (0, reading.exact)
        assert budgets[-1] == reading.limit > reading.whole and shares[-1] == reading.best

    def test_a_draft_that_lacks_a_token_has_no_end(self) -> None:
        reading = read(parse_laws("a 0.5 1\nb 0.5 0", SAY), Choice(0.2))
        assert math.isinf(reading.whole) and 1 < reading.limit <= 10

    def test_nearly_everything_accepted_is_not_called_the_draft(self) -> None:
        """A tiny token that the draft lacks: no finite budget gives the draft itself."""
        laws = parse_laws("a 0.5 0.5\nb 0.4999999999 0.5\nc 1e-10 0", SAY)
        reading = read(laws, Choice(1.0))
        assert reading.optimum.acceptance > 1 - 1e-9 and math.isinf(reading.whole)
        assert "∞" not in remark(laws, reading, Choice(1.0), SAY)

    def test_a_budget_beyond_the_end_stays_on_the_axis(self) -> None:
        assert read(typed(), Choice(5.0)).limit == 5.0


class TestTyped:
    @pytest.mark.parametrize(
        "text",
        [
            "the 0.4 0.6\nsky 0.6 0.4",
            "\n the,0.4,0.6 \n\n sky\t0.6\t0.4\n",
            "the; 0.4; 0.6\nsky, .6, 4e-1",
        ],
    )
    def test_blanks_commas_and_tabs_separate(self, text: str) -> None:
        laws = parse_laws(text, SAY)
        assert laws == Laws(("the", "sky"), (0.4, 0.6), (0.6, 0.4))

    def test_names_may_be_missing_or_hold_anything(self) -> None:
        laws = parse_laws(f"0.1 0.1\n, 0.2 0.2\nNew York 0.3 0.3\n{EVIL} 0.4 0.4", SAY)
        assert laws.names[:3] == ("#1", ",", "New·York")
        assert laws.names[3].startswith("<img·src=x")

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("", "1 to 200 lines"),
            ("a 0.1 0.1\n" * 201, "1 to 200 lines"),
            ("a 0.5", "Line 1"),
            ("a 0.5 0.5\nb half 0.5", "Line 2: ‘half’"),
            ("a 0.5 nan", "‘nan’ is not a number"),
            ("a 1.5 0.5", "‘1.5’ is not a number from 0 to 1"),
            ("a -0.5 0.5", "‘-0.5’"),
            ("a inf 0.5", "‘inf’"),
            ("a 0.5 1", "of target q sum to 0.500"),
            ("a 1 0.3\nb 0 0.3", "of draft p sum to 0.600"),
            ("a " + "9" * 500 + " 1", "…"),
        ],
    )
    def test_what_is_no_law_gets_one_line(self, text: str, words: str) -> None:
        with pytest.raises(ValueError) as caught:
            parse_laws(text, SAY)
        assert words in str(caught.value) and len(str(caught.value)) < 120
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize("language", LANGUAGES)
    @pytest.mark.parametrize("text", ["", "a", "a x 1", "a 1 0.5"])
    def test_every_language_says_it(self, language: str, text: str) -> None:
        with pytest.raises(ValueError):
            parse_laws(text, Words(language))


class TestRecorded:
    def test_laws_of_a_verified_token(self) -> None:
        laws = laws_of(TESTED)
        assert laws.names == ("·sky", EVIL.replace(" ", "·"), "⏎")
        assert laws.drafted == 1
        assert laws.whole() == ((0.5, 0.2, 0.1, 0.15, 0.05), (0.2, 0.5, 0.1, 0.05, 0.15))

    def test_without_a_tokenizer_ids_are_names(self) -> None:
        law = dataclasses.replace(LAW, texts=None)
        assert laws_of(dataclasses.replace(TESTED, law=law)).names == ("#7", "#8", "#9")

    def test_a_token_that_was_not_tested_has_no_draft(self) -> None:
        laws = laws_of(traces.TOKENS[0])
        assert laws.draft == () and laws.drafted is None

    def test_verified_positions(self) -> None:
        assert verified(result(traces.TOKENS[0], TESTED, TESTED)) == [1, 2]

    def test_the_text_around_a_position_with_what_happened(self) -> None:
        before = [Token(i, f"w{i} ") for i in range(40)]
        html = position_html(result(*before, TESTED, Token(1, " end")), 40, SAY)
        assert "<mark>·sky</mark> end</p>" in html
        assert "w39 " in html and "w10 " not in html and "…w24" in html
        assert "u 0.700 ≥ 0.400: rejected" in html

    def test_nothing_that_a_model_writes_is_markup(self) -> None:
        token = dataclasses.replace(TESTED, text=EVIL)
        run = result(Token(1, EVIL), token, Token(2, EVIL))
        laws, choice = laws_of(token), Choice(0.1)
        html = position_html(run, 1, SAY) + numbers_html(laws, read(laws, choice), choice, SAY)
        assert "<img" not in html and "&lt;img" in html


class TestNumbers:
    @pytest.mark.parametrize("language", LANGUAGES)
    @pytest.mark.parametrize("budget", [0, 0.1, 5])
    def test_all_of_them_stand_there(self, language: str, budget: float) -> None:
        say, laws, choice = Words(language), laws_of(TESTED), Choice(budget)
        html = numbers_html(laws, read(laws, choice), choice, say)
        assert html.count("<dt>") == 8
        assert "3,000" in html  # merged tokens are told of

    def test_equal_laws_cost_nothing(self) -> None:
        laws = parse_laws("a 0.5 0.5\nb 0.5 0.5", SAY)
        assert remark(laws, read(laws, Choice(0)), Choice(0), SAY).startswith(
            "Both laws are the same"
        )
