from __future__ import annotations

import dataclasses
from typing import Any

from playground.types import Round, Token
from playground.ui.rounds import rounds_html
from playground.ui.strings import ENGLISH
from playground.ui.tokens import chips_html
from tests.ui.test_tokens import DRAFTED, EVIL, data_of, run_of
from tests.ui.traces import TOKENS, result

FIRST = Token(1, "a", "prefill")


def steps(run: Any = DRAFTED) -> list[dict[str, Any]]:
    return list(data_of(rounds_html(run, ENGLISH))["rounds"])


def test_a_run_without_rounds_says_so() -> None:
    html = rounds_html(result("greedy"), ENGLISH)
    assert "No rounds to replay" in html and "<script" not in html


def test_the_drafted_tokens_are_told_apart() -> None:
    rows = steps()[0]["rows"]
    assert [(row["name"], row["kind"]) for row in rows] == [
        ("·sky", "accepted"),
        ("·<b>", "mentored"),
        ("·<i>", "rejected"),
        ("⏎", "dropped"),
    ]


def test_each_test_shows_u_beside_both_acceptances() -> None:
    first, second, third, untested = steps()[0]["rows"]
    assert (second["u"], second["accept"], second["exact"]) == (0.6, 0.9, 0.4)
    assert second["note"] == "u 60.0 % < 90.0 %: accepted (exact rule: 40.0 %)"
    assert first["note"] == "u 20.0 % < 100 %: accepted"
    assert third["note"] == "u 50.0 % ≥ 0 %: rejected"
    assert untested["note"] == "not tested" and "u" not in untested


def test_each_test_shows_the_probabilities_of_the_drafted_token() -> None:
    assert [row["laws"] for row in steps()[0]["rows"][:3]] == [
        ["40.0 %", "–"],  # the record has no draft probabilities
        ["20.0 %", "–"],
        ["0 %", "–"],
    ]


def test_the_round_says_where_it_stopped_and_what_followed() -> None:
    first, second = steps()
    assert first["next"] == ["⏎", "residual"]
    assert first["why"] == "Stopped at ‘·<i>’: rejected, and replaced by ‘⏎’ from the residual law."
    assert second["why"] == "Nothing was drafted; the target’s pass gives ‘··’."


def test_a_round_that_accepts_all_ends_with_a_bonus() -> None:
    tokens = [FIRST, Token(2, "b", "accepted", u=0.1), Token(3, "c", "bonus")]
    (step,) = steps(run_of(tokens, [Round([2], 1, 1, 0.0, 0.0, ("b",))]))
    assert step["why"] == "Every drafted token was accepted (1); the same target pass adds ‘c’."
    assert step["next"] == ["c", "bonus"]


def test_a_text_that_ends_inside_a_draft_has_no_token_after_it() -> None:
    tokens = [FIRST, Token(2, "", "accepted", special="<end>", u=0.1)]
    (step,) = steps(run_of(tokens, [Round([2, 3], 1, 1, 0.0, 0.0, ("<end>", "c"))]))
    assert step["next"] == [] and step["why"] == "The text ends in this round."
    assert [row["kind"] for row in step["rows"]] == ["accepted", "dropped"]


def test_a_draft_that_is_judged_as_a_whole_has_no_u_of_its_own() -> None:
    tokens = [FIRST, Token(2, "b", "accepted", accept_prob=0.5, exact_accept_prob=0.4)]
    (step,) = steps(run_of(tokens, [Round([2], 1, 1, 0.0, 0.0, ("b",))]))
    assert step["rows"][0]["note"] == "acceptance 50.0 %: accepted, judged with the whole draft"
    assert step["rows"][0]["u"] is None


def test_text_and_totals_grow_round_by_round() -> None:
    """Case 84: accepted over tested, and tokens over passes, the prompt's own included."""
    first, second = steps()
    assert [(s["start"], s["end"]) for s in (first, second)] == [(1, 4), (4, 5)]
    assert first["totals"] == "2.00 tokens a target pass; accepted 2 of 3 tested"
    assert second["totals"] == "1.67 tokens a target pass; accepted 2 of 3 tested"


def test_seconds_of_draft_and_target() -> None:
    assert steps()[0]["seconds"] == [0.01, 0.03]
    assert steps()[0]["times"] == ["draft 10.0 ms", "target 30.0 ms"]


def test_markup_stays_literal() -> None:
    """Case 60."""
    tokens = [Token(1, EVIL, "prefill"), Token(2, EVIL, "residual", special=EVIL)]
    html = rounds_html(run_of(tokens, [Round([3], 1, 0, 0.0, 0.0, (EVIL,))]), ENGLISH)
    assert "<img" not in html and "<!--" not in html and html.count("</script>") == 1


def test_a_record_whose_parts_do_not_fit_is_shown_as_far_as_it_goes() -> None:
    """Case 79: a trace may come from a file."""
    wild = Round([1, 2, 3], 9, 7, -1.0, 0.0, ("a",), (0.5,), ())
    for tokens in (TOKENS[:2], TOKENS * 5, ()):
        run = run_of(tokens, [wild, wild])
        assert len(steps(run)) == 2 and all(s["end"] <= len(tokens) for s in steps(run))
        assert chips_html(run, ENGLISH)


def test_the_replay_starts_from_the_tokens_of_the_text() -> None:
    html = rounds_html(dataclasses.replace(DRAFTED), ENGLISH)
    assert html.count('class="dp-t ') == len(TOKENS)
    assert 'max="2"' in html
