from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from playground.lessons.length import LONG, SHORT
from playground.ui.learn.length import draw
from playground.ui.strings import ENGLISH, LANGUAGES, Words
from tests.ui.learn.events import handler, laid_out

GOLDEN = json.loads(
    (Path(__file__).parents[2] / "golden" / "length_penalty.json").read_text(encoding="utf-8")
)
CHAPTER = SHORT.tokens, 0.8, LONG.tokens, 0.85


def cells(html: str) -> list[list[str]]:
    """The rows of the table's body, as text."""
    rows = re.split(r"<tr[^>]*>", html.partition("<tbody>")[2])[1:]
    return [re.findall(r">([^<>]+)</t[hd]>", row) for row in rows]


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_table_is_the_chapters(language: str) -> None:
    found = cells(draw(Words(language), *CHAPTER, "length", 1.0)[2])
    wanted = [
        [f"{row['short']:.3f}", f"{row['long']:.3f}", {"short": "A", "long": "B"}[row["winner"]]]
        for row in GOLDEN["rows"]
    ]
    assert [[cell.replace("−", "-") for cell in row[1:]] for row in found] == wanted


def test_the_visitors_setting_is_marked_and_added_where_it_is_another() -> None:
    known = draw(ENGLISH, *CHAPTER, "gnmt", 0.6)[2]
    assert len(cells(known)) == 5 and 'class="dp-marked"><th scope="row">gnmt, α 0.6' in known
    own = draw(ENGLISH, *CHAPTER, "length", -0.25)[2]
    assert cells(own)[-1][0] == "length, α −0.25" and "Table 9-6: five" in own
    plain = draw(ENGLISH, *CHAPTER, "none", 1.5)[2]
    assert len(cells(plain)) == 5 and 'class="dp-marked"><th scope="row">none<' in plain


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ((*CHAPTER, "length", 1.0), "<b>B wins</b>. Both score alike at α = 0.543: A wins below"),
        ((*CHAPTER, "gnmt", 0.6), "<b>A wins</b>. Both score alike at α = 0.928: A wins below"),
        ((10, 0.85, 5, 0.8, "length", 1.0), "<b>A wins</b>. Both score alike at α = 0.543: B wins"),
        ((*CHAPTER, "none", 1.0), "<b>A wins</b>. Without a norm α changes nothing."),
        ((5, 0.8, 5, 0.85, "length", 1.0), "<b>B wins</b>. No α changes the order"),
        ((5, 0.8, 5, 0.8, "length", 1.0), "Both score −0.223: a tie. No α"),
        ((1, 1.0, 60, 0.05, "length", 1.0), "<b>A wins</b>. No α changes"),
        ((60, 0.05, 59, 1.0, "gnmt", 2.0), "<b>B wins</b>. No α changes"),
        ((60, 0.05, 59, 0.99, "length", 2.0), "<b>B wins</b>. Both score alike at α ="),
    ],
)
def test_the_verdict_names_winner_and_crossing(values: tuple[Any, ...], said: str) -> None:
    assert said in draw(ENGLISH, *values)[0]


def test_the_figure_has_both_texts_and_their_scores_here() -> None:
    figure = draw(ENGLISH, *CHAPTER, "length", 1.0)[1]
    assert [trace.name for trace in figure.data] == ["A", "A", "B", "B"]
    marks = [trace for trace in figure.data if trace.mode == "markers"]
    assert [(t.x[0], round(t.y[0], 3)) for t in marks] == [(1.0, 0.223), (1.0, 0.163)]
    assert "−" not in str(marks[0].y) and figure.layout.yaxis.ticktext[0].startswith("−")


def test_the_chapters_texts_come_back() -> None:
    update = handler(laid_out("length"), "restore")("gnmt", 1.0)
    assert update[:4] == CHAPTER and "−0.669" in update[6]


def test_the_longer_text_is_the_right_answer() -> None:
    page = laid_out("length")
    reveal = handler(page, "reveal")
    assert "Right." in reveal("long") and "Not so." in reveal("short") and reveal(None) == ""
    assert "−0.0446 against −0.0163" in reveal("long")
