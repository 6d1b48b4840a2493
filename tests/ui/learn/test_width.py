"""Lesson 6: its sentences follow the numbers, whatever they are."""

from __future__ import annotations

import dataclasses

import pytest

from playground.experiments import findings
from playground.lessons.width import WidthPoint
from playground.quality import Interval
from playground.ui.learn.width import found_text, most_probable, points_html, published_html
from playground.ui.strings import LANGUAGES, Words

EN = Words("en")


def at(value: float, half: float = 0.0) -> Interval:
    return Interval(value, value - half, value + half)


def point(width: int | None, bleu: float, change: Interval, **values: object) -> WidthPoint:
    plain = WidthPoint(
        width=width,
        norm="none",
        num_outputs=80,
        bleu=at(bleu, 1),
        chrf=at(2 * bleu),
        mean_tokens=at(30),
        mean_logprob=at(-17),
        length_ratio=0.9,
        empty=at(0),
        cut=at(0.025),
        bleu_change=change,
        misses=at(1),
    )
    return dataclasses.replace(plain, **values)


EXACT = point(
    None,
    2.5,
    at(-25),
    empty=at(0.75, 0.1),
    length_ratio=0.3,
    mean_logprob=at(-8),
    misses=None,
    proven=at(0.9),
)
FALLS = [point(1, 25, at(-2.5)), point(8, 27.5, at(0)), point(32, 24, at(-3.5, 1)), EXACT]


def test_a_fall_is_told_with_its_interval() -> None:
    text = found_text(FALLS, EN)
    assert "highest at width 8: **27.5**" in text
    assert "At width 32 it is lower, by **3.50** [2.50, 4.50]" in text
    assert "75.0 % of its outputs are empty" in text
    assert "by 3.50 [2.50, 4.50] from width 8 to 32" in published_html(FALLS, EN)


def test_what_may_be_chance_is_not_called_a_fall() -> None:
    points = [*FALLS[:2], point(32, 27, at(-0.5, 1)), EXACT]
    assert "holds 0" in found_text(points, EN)
    assert "not clearly: 0.500 [−0.500, 1.50]" in published_html(points, EN)


def test_no_fall_at_all() -> None:
    points = [FALLS[0], point(32, 29, at(0)), EXACT]
    assert "quality does not fall" in found_text(points, EN)
    assert "not up to width 32" in published_html(points, EN)


def test_the_right_answer_follows_the_data() -> None:
    assert most_probable(EXACT) == "empty"
    assert most_probable(dataclasses.replace(EXACT, empty=at(0.2))) == "short"
    good = dataclasses.replace(EXACT, empty=at(0.0), length_ratio=0.95)
    assert most_probable(good) == "good"


def test_published_figures_stand_beside_ours() -> None:
    found = published_html(FALLS, EN)
    for text in (
        "30.3 (width 10) → 2.10",
        "27.5 (width 8) → 2.50",
        "51.8 %",
        "75.0 [65.0, 85.0] %",
        "53.6 % (width 100)",
        "100 [100, 100] % (width 32, of those proven)",
    ):
        assert text in found, text


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_search_has_its_row(language: str) -> None:
    found = points_html(FALLS, Words(language))
    assert found.count("<tr") == 1 + len(FALLS)
    assert "90.0 %" in found and "2.50 %" in found  # proven, cut


def test_what_ships_can_be_told() -> None:
    points = findings("width")["points"]
    for language in LANGUAGES:
        assert found_text(points, Words(language)) and published_html(points, Words(language))
