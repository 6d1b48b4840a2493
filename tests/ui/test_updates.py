from __future__ import annotations

from typing import Any

import gradio as gr

from playground.types import ResultEvent, TokensEvent
from playground.ui.board import Board
from playground.ui.updates import Outputs, _Painter
from tests.ui.traces import result

RUNS = {"sample": {"method": "sample"}, "greedy": {"method": "greedy"}}


def outputs() -> Outputs:
    """Names instead of components: the painter only uses them as keys."""
    names: Any = ("status", ["one", "two", "three"], "verdict", "chart", "table")
    return Outputs(*names)


def painter() -> _Painter:
    made = _Painter(outputs())
    made.take("", Board(RUNS, "waiting"))
    return made


def test_an_update_is_never_empty() -> None:
    """Gradio takes an empty dict for one missing output and fails the run."""
    made = _Painter(outputs())
    assert list(made.paint()) == ["status"]
    made.take("", Board(RUNS, "waiting"))
    made.paint()
    assert made.paint() == {"status": gr.skip()}


def test_only_what_changed_is_sent() -> None:
    made = painter()
    first = made.paint()
    assert {"status", "one", "two", "verdict", "table", "chart"} <= set(first)
    made.take("sample", TokensEvent((), "The", 0.1, 1))
    assert set(made.paint()) == {"status", "one"}


def test_slots_without_a_run_are_emptied() -> None:
    assert painter().paint().get("three", "") == ""


def test_the_chart_comes_once_at_the_end() -> None:
    made = painter()
    made.paint()
    for label in RUNS:
        made.take(label, TokensEvent((), "The", 0.1, 1))
        assert "chart" not in made.paint()
        made.take(label, ResultEvent(result(label), "The", 0.5, 6))
        assert "chart" not in made.paint()
    last = made.finish()
    assert len(last["chart"]["value"].data) == 2
    assert "12 tokens" in last["status"] and "<table" in last["table"]


def test_a_stopped_comparison_shows_what_has_ended() -> None:
    made = painter()
    made.take("sample", ResultEvent(result("sample"), "The", 0.5, 6))
    last = made.finish()
    assert "Stopped" in last["status"]
    assert 'data-state="stopped"' in last["two"]
    assert len(last["chart"]["value"].data) == 1
