"""Lesson 3: three modes on one search, and what is certain before its end."""

from __future__ import annotations

import gradio as gr
import pytest

from playground.demonstrations.searches import stopping, stopping_search
from playground.lessons.stopping import provisional, stops
from playground.ui.learn.stopping import MODES, modes_html, settled_html
from playground.ui.strings import ENGLISH, LANGUAGES, Words
from tests.ui.learn.events import handler, laid_out

STEPS = stopping(stopping_search())


@pytest.mark.parametrize("language", LANGUAGES)
def test_it_answers_to_light_events_only(language: str) -> None:
    page = laid_out("stopping", language)
    assert page.fns and not any(fn.queue for fn in page.fns.values())


def test_the_search_is_shown_once_asked_for() -> None:
    page = laid_out("stopping")
    hidden = [b for b in page.blocks.values() if isinstance(b, gr.Column) and not b.visible]
    assert len(hidden) == 1
    shown, lines, settled = handler(page, "reveal_search")()
    assert shown["visible"] and len(lines.data) == 6 and len(settled.data) == 3


def test_each_mode_ends_later_and_finds_a_better_text() -> None:
    ends = stops(STEPS)
    assert [ends[mode].step for mode in MODES] == [2, 4, 6]
    scores = [ends[mode].best or 0.0 for mode in MODES]
    assert scores == sorted(scores) and len(set(scores)) == 3


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (1, ["fewer than 2 finished"] * 3),
        (2, ["stops: two finished", "above the worst finished", "above the worst finished"]),
        (4, ["stopped after 2", "stops: not above", "goes on: above"]),
        (6, ["stopped after 2", "stopped after 4", "stops: not above"]),
    ],
)
def test_what_each_mode_makes_of_a_step(number: int, told: list[str]) -> None:
    _, *rows = modes_html(STEPS, number, ENGLISH).split("<tr")[1:]
    assert all(text in row for text, row in zip(told, rows, strict=True))


def test_the_heuristic_stops_before_a_beam_that_gets_ahead_again() -> None:
    at_stop, later = STEPS[3], STEPS[4]
    assert (at_stop.bounds["false"] or 0) < (at_stop.worst or 0)
    assert (later.bounds["false"] or 0) > (later.worst or 0)


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_a_stream_would_have_shown(language: str) -> None:
    html = settled_html(provisional(stopping_search()), Words(language))
    assert "a a a a a end" in html and html.count("<tr") == 7
