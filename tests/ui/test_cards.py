from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest

from playground.types import Beam, BeamEvent, ResultEvent, TokensEvent
from playground.ui import cards
from playground.ui.board import Board, RunView
from playground.ui.cards import card_html, table_html, title_of
from playground.ui.strings import ENGLISH, Words
from tests.ui.traces import result, row

EVIL = '<img src=x onerror=alert(1)><b>"</b>'


def view(method: str = "mentored", **params: Any) -> RunView:
    board = Board({method: {"method": method, **params}})
    return board.views[method]


def words(html: str) -> str:
    return unescape(re.sub(r"<[^>]*>", " ", html))


def finished(method: str = "mentored", **params: Any) -> RunView:
    run = view(method, **params)
    run.absorb(ResultEvent(result(method, **params), "text", 0.5, 6))
    return run


def test_the_title_carries_the_settings_that_have_a_symbol() -> None:
    beam = title_of("wide", {"method": "beam", "num_beams": 3}, ENGLISH)
    assert beam.replace("\u00a0", " ") == "Wide · W 3"
    mentored = title_of("mentored", {"method": "mentored"}, Words("zh"))
    assert mentored.replace("\u00a0", " ") == "导师解码 · γ 4 · D 0.2"


@pytest.mark.parametrize(
    ("method", "params", "badge"),
    [
        ("sample", {}, "sampled"),
        ("greedy", {}, "search"),
        ("speculative", {}, "lossless"),
        ("mentored", {}, "lossy, ≤ 0.2 nats"),
        ("mentored", {"divergence_budget": 0.5, "divergence": "tv"}, "lossy, ≤ 0.5 TV"),
        ("mentored", {"divergence_budget": 0.0}, "lossless"),
        ("speculative", {"verifier": "typical"}, "lossy"),
    ],
)
def test_badges(method: str, params: dict[str, Any], badge: str) -> None:
    """Case 43: what is lossy says so, and by how much where that is bounded."""
    assert f">{badge}</span>" in card_html(view(method, **params), ENGLISH)


def test_what_does_not_exist_is_a_dash() -> None:
    """Case 85."""
    html = card_html(view("sample"), ENGLISH)
    assert html.count("<dd>–</dd>") == 8


def test_numbers_have_units_and_three_digits() -> None:
    text = words(card_html(finished(), ENGLISH))
    for number in ("12.0 tok/s", "0.500 s", "50.0 ms", "50.0 %", "2.00", "0.150 of 0.2"):
        assert number in text


def test_a_run_goes_from_waiting_to_done() -> None:
    board = Board({"sample": {"method": "sample"}}, "waiting")
    run = board.views["sample"]
    assert "waiting" in words(card_html(run, ENGLISH))
    board.absorb("sample", TokensEvent((), EVIL, 0.1, 2))
    assert run.state == "running" and EVIL in unescape(card_html(run, ENGLISH))
    assert "<img" not in card_html(run, ENGLISH)
    board.absorb("sample", ResultEvent(result("sample"), EVIL, 0.5, 6))
    assert run.state == "done" and run.row is not None and run.row["speedup"] == 1.0


def test_a_beam_is_provisional_until_it_ends() -> None:
    run = view("beam")
    run.absorb(BeamEvent(1, (), Beam([1], 0.0, 0.0, 1, False), "so far", 0.1, 1))
    assert run.state == "provisional"
    assert "best so far, may change" in words(card_html(run, ENGLISH))


def test_markup_in_labels_and_errors_stays_literal() -> None:
    """Case 60."""
    board = Board({EVIL: {"method": "greedy"}})
    board.fail(EVIL)
    html = card_html(board.views[EVIL], ENGLISH)
    assert "<img" not in html and "<b>" not in html
    assert "<img" not in table_html([row(EVIL)], ENGLISH)


def test_a_failure_stops_the_runs_after_it() -> None:
    board = Board({"greedy": {"method": "greedy"}, "beam": {"method": "beam"}}, "waiting")
    board.fail("out of memory")
    assert [v.state for v in board.views.values()] == ["failed", "stopped"]
    assert "out of memory" in card_html(board.views["greedy"], ENGLISH)


def test_speed_up_waits_for_the_baseline() -> None:
    board = Board({"greedy": {"method": "greedy"}, "sample": {"method": "sample"}})
    board.absorb("greedy", ResultEvent(result("greedy"), "", 0.5, 6))
    assert board.rows() == []
    assert "12.0 tok/s" in words(card_html(board.views["greedy"], ENGLISH))
    board.absorb("sample", ResultEvent(result("sample"), "", 0.5, 6))
    assert [r["label"] for r in board.rows()] == ["greedy", "sample"]


def test_the_table_has_a_row_a_run_and_dashes() -> None:
    html = table_html([row("sample"), row("mentored", "mentored", acceptance_rate=0.62)], ENGLISH)
    assert html.count("<tr>") == 3
    assert "62.0 %" in html and "<td>–</td>" in html


def test_a_finished_text_is_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 70: cards are painted ten times a second while other runs go on."""
    drawn: list[int | None] = []
    monkeypatch.setattr(cards, "chips_html", lambda result, say, mark: str(drawn.append(mark)))
    run = finished()
    for _ in range(3):
        card_html(run, ENGLISH)
    run.mark = 2
    card_html(run, ENGLISH)
    assert drawn == [None, 2]
    run.absorb(ResultEvent(result(), "text", 0.5, 6))
    card_html(run, ENGLISH)
    assert drawn == [None, 2, 2]


def test_scores_and_their_signatures_stand_in_the_table_where_there_is_a_reference() -> None:
    plain, scores = row("a", "greedy"), {"bleu": 41.26, "chrf": 60.0}
    assert "chrF" not in words(table_html([plain], ENGLISH))
    signatures = {"bleu_signature": "nrefs:1|<b>", "chrf_signature": "nc:6"}
    found = table_html([plain | scores | signatures], ENGLISH)
    assert "41.3" in words(found) and "chrF: nc:6" in words(found)
    assert "|&lt;b&gt;" in found
