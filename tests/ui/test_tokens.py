from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from html import unescape
from typing import Any

import pytest

from playground.types import Alternative, DecodeResult, Round, Token
from playground.ui.strings import ENGLISH
from playground.ui.tokens import (
    chips_html,
    data_html,
    difference_html,
    kind_of,
    name_of_token,
    rejected_at,
    visible,
)
from tests.ui.traces import TOKENS, result

EVIL = '</script><img src=x onerror="a()">&amp;<!--'
ROUNDS = (
    Round([2, 3, 9, 7], 3, 2, 0.01, 0.03, (" sky", " <b>", " <i>", "\n"), (0.4, 0.2, 0.0)),
    Round([], 0, 0, 0.0, 0.02, ()),
)


def run_of(tokens: Sequence[Token], rounds: Sequence[Round] = (), **values: Any) -> DecodeResult:
    return dataclasses.replace(
        result(),
        tokens=tuple(tokens),
        token_ids=[t.token_id for t in tokens],
        text="".join(t.text or "" for t in tokens),
        rounds=tuple(rounds),
        **values,
    )


DRAFTED = run_of(TOKENS, ROUNDS)


def chips_of(html: str) -> str:
    """The inside of the element that holds the text."""
    found = re.search(r'<div class="dp-text"[^>]*>(.*?)</div>', html, re.DOTALL)
    assert found is not None
    return found[1]


def shown_text(html: str) -> str:
    """What a reader copies: the text between the tags."""
    return unescape(re.sub(r"<[^>]*>", "", chips_of(html)))


def data_of(html: str) -> dict[str, Any]:
    block = re.search(r'<script type="application/json" class="dp-data">(.*?)</script>', html)
    assert block is not None
    return dict(json.loads(block[1]))


def details(token: Token, **values: Any) -> dict[str, str]:
    data = data_of(chips_html(run_of([token], **values), ENGLISH))
    return {data["words"][key]: value for key, value in data["tokens"][0]["rows"].items()}


def switches(html: str) -> list[str]:
    return re.findall(r'data-dp="(\w+)"', html)


class TestText:
    @pytest.mark.parametrize("mark", [None, 3, len(TOKENS)])
    def test_the_text_between_the_tags_is_exactly_the_runs(self, mark: int | None) -> None:
        """Cases 49 and 51: blanks and line ends survive; flags and rejected drafts add nothing."""
        html = chips_html(DRAFTED, ENGLISH, mark)
        assert shown_text(html) == DRAFTED.text == data_of(html)["text"]

    def test_odd_characters_survive(self) -> None:
        text = "a\tb\r\n\u00a0  é👨‍👩‍👧汉字"
        html = chips_html(run_of([Token(1, text)]), ENGLISH)
        assert shown_text(html) == text
        assert "\r" not in html  # a parser would turn it into a line feed

    def test_markup_in_a_token_stays_literal_and_is_escaped_once(self) -> None:
        """Case 60: in the text, in the details, and in what was rejected."""
        other = Alternative(5, EVIL, 0.5, 0.5)
        tokens = [Token(1, EVIL, "prefill"), Token(2, EVIL, "residual", alternatives=(other,))]
        rounds = [Round([3, 4], 1, 0, 0.0, 0.0, (EVIL, EVIL))]
        html = chips_html(run_of(tokens, rounds), ENGLISH)
        assert shown_text(html) == 2 * EVIL
        assert "<img" not in html and "<!--" not in html and html.count("</script>") == 1
        data = data_of(html)
        assert data["text"] == 2 * EVIL
        assert data["tokens"][1]["others"][0][0] == visible(EVIL) != EVIL

    def test_markup_in_names_stays_inside_the_attribute(self) -> None:
        html = chips_of(chips_html(run_of([Token(1, "", special='"><script>')]), ENGLISH))
        assert html.count("<") == 2  # the span's own tags

    def test_pieces_of_a_character_are_marked_without_text(self) -> None:
        """Case 47: a token that only starts a character has no text to copy."""
        html = chips_html(run_of([Token(1, ""), Token(2, "汉")]), ENGLISH)
        assert "dp-part" in html and shown_text(html) == "汉"

    def test_every_blank_has_a_sign_to_show(self) -> None:
        html = chips_of(chips_html(run_of([Token(1, " a \n\t")]), ENGLISH))
        assert re.findall('data-s="(.)"', html) == ["·", "·", "⏎", "⇥"]

    def test_tokens_of_nothing_but_blanks_can_be_seen_without_asking(self) -> None:
        """Case 51."""
        html = chips_of(chips_html(run_of([Token(1, "   "), Token(2, " a")]), ENGLISH))
        assert html.count("dp-blank") == 1

    def test_tab_reaches_one_chip(self) -> None:
        assert chips_of(chips_html(DRAFTED, ENGLISH)).count('tabindex="0"') == 1


class TestKinds:
    def test_a_token_exact_speculation_would_refuse_has_a_kind_of_its_own(self) -> None:
        found = [kind_of(t) for t in TOKENS]
        assert found == ["plain", "accepted", "mentored", "residual", "bonus", "plain"]
        at_the_edge = dataclasses.replace(TOKENS[2], u=0.4)  # exact accepts u < 0.4
        assert kind_of(at_the_edge) == "mentored"

    def test_the_legend_names_only_kinds_that_occur(self) -> None:
        assert "dp-key" not in chips_html(run_of([TOKENS[0]]), ENGLISH)
        html = chips_html(run_of([TOKENS[1], TOKENS[4]]), ENGLISH)
        assert re.findall(r'dp-key dp-(\w+)"', html) == ["accepted", "bonus"]

    def test_a_rule_without_a_budget_is_not_said_to_have_one(self) -> None:
        html = chips_html(run_of([TOKENS[2]], params={"verifier": "top_k"}), ENGLISH)
        assert "D &gt; 0" not in html and "accepted only by this rule" in html
        assert "D &gt; 0" in chips_html(run_of([TOKENS[2]]), ENGLISH)


class TestRejectedDrafts:
    def test_they_stand_where_they_were_rejected(self) -> None:
        assert rejected_at(DRAFTED) == {3: ("·<i>", ["⏎"])}
        html = chips_of(chips_html(DRAFTED, ENGLISH))
        before, _, after = html.partition('data-text="·&lt;i&gt;"')
        assert "&lt;b&gt;" in before and "dp-residual" in after and "dp-dropped" in after

    def test_the_switch_comes_only_with_something_to_show(self) -> None:
        assert switches(chips_html(DRAFTED, ENGLISH)) == ["spaces", "rejected", "copy"]
        assert switches(chips_html(run_of(TOKENS), ENGLISH)) == ["spaces", "copy"]

    def test_a_draft_that_the_end_of_the_text_cut_was_not_rejected(self) -> None:
        tokens = [Token(1, "a", "prefill"), Token(2, "b", "accepted")]
        assert rejected_at(run_of(tokens, [Round([2, 3, 4], 1, 1, 0.0, 0.0)])) == {}

    def test_without_a_tokenizer_tokens_are_called_by_their_ids(self) -> None:
        tokens = [Token(1, None, "prefill"), Token(5, None, "residual")]
        run = run_of(tokens, [Round([8, 9], 1, 0, 0.0, 0.0)])
        assert rejected_at(run) == {1: ("#8", ["#9"])}
        assert name_of_token(tokens[1]) == "#5"


class TestDetails:
    def test_probabilities_acceptance_and_divergence(self) -> None:
        assert details(TOKENS[2]) == {
            "Target": "20.0 %",
            "Draft": "50.0 %",
            "Acceptance": "90.0 %",
            "Exact rule’s acceptance": "40.0 %",
            "Drawn u": "60.0 %",
            "KL spent": "0.100 nats",
        }

    def test_an_exact_rule_is_not_compared_with_itself(self) -> None:
        assert "Exact rule’s acceptance" not in details(TOKENS[1], badge="lossless")

    def test_what_does_not_exist_is_left_out(self) -> None:
        assert details(Token(1, "a", target_prob=0.5)) == {"Target": "50.0 %"}

    def test_a_divergence_that_the_budget_counts_otherwise_is_told_apart(self) -> None:
        token = dataclasses.replace(TOKENS[2], budget_divergence=0.05)
        assert details(token)["Counted by the budget"] == "0.0500"
        assert "Counted by the budget" not in details(
            dataclasses.replace(TOKENS[2], budget_divergence=0.1)
        )

    def test_an_infinite_divergence_is_strict_json(self) -> None:
        token = dataclasses.replace(TOKENS[2], divergence=float("inf"))
        assert details(token)["KL spent"] == "∞ nats"

    def test_a_correction_tells_what_was_rejected(self) -> None:
        data = data_of(chips_html(DRAFTED, ENGLISH))
        assert data["tokens"][3]["rows"]["rejected"] == "·<i>"
        assert [t["kind"] for t in data["tokens"]] == [kind_of(t) for t in TOKENS]

    def test_alternatives_of_one_model_or_both(self) -> None:
        both = (Alternative(1, " a", 0.5, 0.25), Alternative(2, None, 1e-6, 0.0))
        token = Token(1, " a", alternatives=(*both, Alternative(3, "b", 0.1)))
        data = data_of(chips_html(run_of([token]), ENGLISH))
        assert data["tokens"][0]["others"] == [
            ["·a", "50.0 %", "25.0 %"],
            ["#2", "< 0.01 %", "0 %"],
            ["b", "10.0 %"],
        ]

    def test_no_data_can_end_its_block(self) -> None:
        html = data_html({"a": EVIL})
        assert html.count("<") == 2 and data_of(html) == {"a": EVIL}

    def test_a_long_run_stays_light(self) -> None:
        others = tuple(Alternative(i, " word", 0.1234567, 0.1234567) for i in range(9))
        token = dataclasses.replace(TOKENS[2], alternatives=others)
        html = chips_html(run_of([token] * 300), ENGLISH)
        assert len(html.encode()) < 200_000


class TestFirstDifference:
    FIRST = run_of([Token(1, "a", "prefill"), Token(2, " light", logit_gap=0.02)])
    SECOND = run_of([Token(1, "a", "prefill"), Token(3, " blue", logit_gap=0.03)])

    def sentence(self, first: DecodeResult, second: DecodeResult) -> str:
        html = difference_html(first, second, ("greedy", "<b>"), ENGLISH)
        assert "<b>" not in html
        return unescape(re.sub(r"<[^>]*>", " ", html))

    def test_place_and_both_tokens_are_named(self) -> None:
        shown = self.sentence(self.FIRST, self.SECOND)
        assert "First differs at token 2: ‘·light’ (greedy) / ‘·blue’ (<b>)." in shown

    def test_a_near_tie_explains_itself(self) -> None:
        """Case 21."""
        assert "0.0200 apart here: such a near-tie" in self.sentence(self.FIRST, self.SECOND)

    def test_a_clear_choice_is_not_called_a_tie(self) -> None:
        tokens = [Token(1, "a", "prefill"), Token(2, " x", logit_gap=3.0)]
        other = [tokens[0], Token(3, " y", logit_gap=4.0)]
        assert "not a near-tie" in self.sentence(run_of(tokens), run_of(other))

    def test_a_search_and_a_draw_need_no_such_reason(self) -> None:
        searched = [Token(1, "a", "prefill"), Token(4, " x", "beam", logit_gap=0.01)]
        drawn = [Token(1, "a", "prefill"), Token(5, " y")]
        for other in (searched, drawn):
            assert "tie" not in self.sentence(self.FIRST, run_of(other))

    def test_a_token_bought_with_the_budget_is_the_reason(self) -> None:
        bought = run_of([TOKENS[0], TOKENS[2]])
        drawn = run_of([TOKENS[0], TOKENS[1]])
        assert "‘·<b>’ was accepted only because D > 0." in self.sentence(drawn, bought)

    def test_an_end_is_a_difference_and_equal_runs_have_none(self) -> None:
        short = run_of(self.FIRST.tokens[:1])
        assert "⟨end of text⟩" in self.sentence(short, self.FIRST)
        assert "the same" in self.sentence(short, short)

    def test_the_flag_stands_before_its_token(self) -> None:
        html = chips_of(chips_html(DRAFTED, ENGLISH, 2))
        before, _, after = html.partition("dp-flag")
        assert before.count("<span") == 2 and after.count("<span") == 4
        assert "first difference" in after
        assert chips_of(chips_html(DRAFTED, ENGLISH, 6)).endswith("</i>")
        assert "dp-flag" not in chips_html(DRAFTED, ENGLISH)
