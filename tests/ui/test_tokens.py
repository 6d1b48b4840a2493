from __future__ import annotations

import dataclasses
import re
from html import unescape

from playground.types import Token
from playground.ui.tokens import chips_html, kind_of, legend_html
from tests.ui.traces import TOKENS


def shown_text(html: str) -> str:
    """What a reader copies: the text between the tags."""
    return unescape(re.sub(r"<[^>]*>", "", html))


def test_chips_join_to_exactly_the_text() -> None:
    """Cases 49 and 51: blanks and line ends survive, nothing is added."""
    assert shown_text(chips_html(TOKENS)) == "".join(t.text or "" for t in TOKENS)


def test_markup_in_a_token_stays_literal_and_is_escaped_once() -> None:
    """Case 60."""
    html = chips_html([Token(1, '<img src=x onerror="a()">&amp;', "sampled")])
    assert "<img" not in html
    assert shown_text(html) == '<img src=x onerror="a()">&amp;'


def test_markup_in_names_stays_inside_the_attribute() -> None:
    html = chips_html([Token(1, "", "sampled", special='"><script>')])
    assert html.count("<") == 2  # the span's own tags


def test_a_token_exact_speculation_would_refuse_has_a_kind_of_its_own() -> None:
    assert [kind_of(t) for t in TOKENS] == [
        "plain",
        "accepted",
        "mentored",
        "residual",
        "bonus",
        "plain",
    ]
    at_the_edge = dataclasses.replace(TOKENS[2], u=0.4)  # exact accepts u < 0.4
    assert kind_of(at_the_edge) == "mentored"


def test_the_tooltip_tells_probabilities_acceptance_and_divergence() -> None:
    tip = unescape(re.search(r'title="([^"]*)"', chips_html([TOKENS[2]]))[1])  # type: ignore[index]
    for part in ("target 20.0 %", "draft 50.0 %", "probability 90.0 %", "40.0 %", "0.100 nats"):
        assert part in tip


def test_the_legend_names_only_kinds_that_occur() -> None:
    assert legend_html([TOKENS[0]]) == ""
    legend = legend_html([TOKENS[1], TOKENS[4]])
    assert "bonus" in legend and "correction" not in legend


def test_pieces_of_a_character_are_marked_without_text() -> None:
    """Case 47: a token that only starts a character has no text to copy."""
    html = chips_html([Token(1, "", "sampled"), Token(2, "汉", "sampled")])
    assert "dp-part" in html and shown_text(html) == "汉"
