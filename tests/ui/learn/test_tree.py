"""Lesson 1: greedy's and the beam's path, by the golden numbers and those that a visitor types."""

from __future__ import annotations

from typing import Any

import gradio as gr
import pytest

from playground.ui.strings import LANGUAGES
from tests.test_lessons import golden
from tests.ui.learn.events import handler, laid_out

CHAPTER = [0.5, 0.4, 0.1, 0.4, 0.35, 0.25, 0.9, 0.06, 0.04, 0.5, 0.3, 0.2]
FAULTS: list[tuple[dict[int, Any], str]] = [
    ({0: 0.6}, "First token: the three probabilities sum to 1.1; they must sum to 1."),
    ({6: 1.2}, "After B, x: 1.2 is not a number from 0 to 1."),
    ({11: None}, "After C, z: nothing is not a number from 0 to 1."),
    ({3: -0.1}, "After A, x: -0.1 is not a number from 0 to 1."),
]


@pytest.mark.parametrize("language", LANGUAGES)
def test_it_answers_to_light_events_only(language: str) -> None:
    page = laid_out("tree", language)
    assert page.fns and not any(fn.queue for fn in page.fns.values())


def test_the_chapters_numbers() -> None:
    known = golden("two_step_tree")
    verdict, figure, table, fault = handler(laid_out("tree"), "draw")(2, *CHAPTER)
    assert fault == ""
    for search in ("greedy", "beam2"):
        path, joint = "".join(known[search]["path"]), f"{known[search]['joint']:.3f}"
        assert f"<b>{path}</b>" in verdict and f"= {joint}" in verdict and joint in figure
    assert "1.8 times as probable" in verdict and "No text is more probable" in verdict
    for row in known["round2"]:
        assert f'<th scope="row">{row["path"]}</th>' in table and f"{row['joint']:.3f}" in table
        assert f"−{-row['score']:.3f}" in table


def test_one_beam_is_greedy_and_misses_the_best() -> None:
    verdict, *_ = handler(laid_out("tree"), "draw")(1, *CHAPTER)
    assert "no more probable" in verdict and "misses the best of all, <b>Bx</b>" in verdict


@pytest.mark.parametrize(("changes", "message"), FAULTS)
def test_a_fault_is_named_and_what_was_shown_stays(changes: dict[int, Any], message: str) -> None:
    values = [changes.get(place, value) for place, value in enumerate(CHAPTER)]
    *shown, fault = handler(laid_out("tree"), "draw")(2, *values)
    assert message in fault
    assert shown == [gr.skip()] * 3


def test_a_certain_text_and_an_impossible_one_are_shown() -> None:
    certain = [1, 0, 0] * 4
    verdict, _, table, fault = handler(laid_out("tree"), "draw")(3, *certain)
    assert fault == "" and "−∞" in table and "1.000" in verdict


def test_the_chapters_numbers_come_back() -> None:
    page = laid_out("tree")
    *shown, fault = handler(page, "restore")(2)[:4]
    assert [*shown, fault] == list(handler(page, "draw")(2, *CHAPTER))
    assert list(handler(page, "restore")(2)[4:]) == CHAPTER
