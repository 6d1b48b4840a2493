from __future__ import annotations

import dataclasses
from typing import Any

import gradio as gr

from playground.types import ResultEvent, TokensEvent
from playground.ui.board import Board
from playground.ui.results import Choice, Results
from playground.ui.setup import Setup
from playground.ui.strings import ENGLISH
from playground.ui.updates import Painter
from tests.ui.traces import result

RUNS = {"sample": {"method": "sample"}, "greedy": {"method": "greedy"}}


def painter(**setup: Any) -> Painter:
    """Names instead of components: the painter only uses them as keys."""
    names: Any = {f.name: f.name for f in dataclasses.fields(Results)}
    slots = [f"card{i}" for i in range(8)]
    results = Results(**names | {"say": ENGLISH, "cards": slots})
    return Painter(results, Setup(**setup), Choice())


def begun(**setup: Any) -> Painter:
    made = painter(**setup)
    made.take("", Board(RUNS, "waiting", setup.get("baseline", "")))
    return made


def test_an_update_is_never_empty() -> None:
    """Gradio takes an empty dict for one missing output and fails the run."""
    made: Any = painter()
    assert list(made.paint()) == ["status"]
    made.take("", Board(RUNS, "waiting"))
    made.paint()
    assert made.paint() == {"status": gr.skip()}


def test_only_what_changed_is_sent() -> None:
    made = begun()
    first = made.paint()
    assert {"status", "card0", "card1", "body", "shown", "chart"} <= set(first)
    made.take("sample", TokensEvent((), "The", 0.1, 1))
    assert set(made.paint()) == {"status", "card0"}


def test_slots_without_a_run_are_emptied() -> None:
    assert begun().paint()["card2"] == ""  # type: ignore[index]


def test_the_results_come_once_at_the_end() -> None:
    made: Any = begun()
    made.paint()
    for label in RUNS:
        made.take(label, TokensEvent((), "The", 0.1, 1))
        assert "chart" not in made.paint()
        made.take(label, ResultEvent(result(label), "The", 0.5, 6))
        assert "chart" not in made.paint()
    last = made.finish()
    assert {trace.name for trace in last["chart"].data} >= {"Sample", "Greedy"}
    assert "12 tokens" in last["status"] and "<table" in last["table"]
    assert list(last["shown"].comparison.results) == list(RUNS)
    assert last["shown"].setup["prompt"] == Setup().prompt and not last["shown"].recorded


def test_the_visitor_s_baseline_counts() -> None:
    made: Any = begun(baseline="greedy")
    for label in RUNS:
        made.take(label, ResultEvent(result(label), "The", 0.5, 6))
    assert made.finish()["shown"].comparison.baseline == "greedy"


def test_a_stopped_comparison_shows_what_has_ended() -> None:
    made: Any = begun()
    made.take("greedy", ResultEvent(result("greedy"), "The", 0.5, 6))
    last = made.finish()
    assert "Stopped" in last["status"]
    assert 'data-state="stopped"' in last["card0"]
    assert last["verdict"] == ""
    assert list(last["shown"].comparison.results) == ["greedy"]  # its own baseline, then
