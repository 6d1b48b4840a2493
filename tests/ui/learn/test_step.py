"""Lesson 2: the chapter's table, the recorded search, and the rows of the cache."""

from __future__ import annotations

import re

import pytest

from playground import load_pair
from playground.ui.learn.step import VOCABULARY
from playground.ui.learn.step_view import MOVES
from playground.ui.strings import LANGUAGES
from tests.test_lessons import golden
from tests.ui.learn.events import handler, laid_out


def cells(html: str) -> list[list[str]]:
    """The rows of a table, as text."""
    rows = re.findall(r"<tr[^>]*>(.*?)(?=<tr|</tbody>)", html)
    return [re.findall(r"<t[hd][^>]*>([^<]*)", row) for row in rows]


@pytest.mark.parametrize("language", LANGUAGES)
def test_it_answers_to_light_events_only(language: str) -> None:
    page = laid_out("step", language)
    assert page.fns and not any(fn.queue for fn in page.fns.values())


def test_table_9_5_to_three_decimals() -> None:
    _, *rows = cells(handler(laid_out("step"), "draw_move")("tree", 2, "prune"))
    for row, known in zip(rows, golden("two_step_tree")["round2"], strict=True):
        numbers = [row[0], *(text.replace("−", "-") for text in row[4:8])]
        wanted = [f"{known[name]:.3f}" for name in ("parent_score", "logp", "score", "joint")]
        assert numbers == [known["path"], *wanted]
        assert row[8] == ("kept" if known["kept"] else "pruned")


def test_the_flattened_index_gives_parent_and_token() -> None:
    _, *rows = cells(handler(laid_out("step"), "draw_move")("tree", 2, "prune"))
    assert rows[0][:4] == ["Bx", "3", "1 = 3 // 3", "0 = 3 % 3"]


def test_the_rows_change_places() -> None:
    html = handler(laid_out("step"), "draw_move")("tree", 2, "collect")
    assert "parents [1, 0]" in html and cells(html)[1:] == [
        ["0", "1", "Bx", "−1.022"],
        ["1", "0", "Ax", "−1.609"],
    ]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("number", [1, 4, 25, 999])
def test_every_step_of_the_recorded_search_has_four_moves(
    language: str, move: str, number: int
) -> None:
    html = handler(laid_out("step", language), "draw_move")("real", number, move)
    shapes = {"expand": "49,152]", "score": "49,152]", "prune": "flat [", "collect": "parents ["}
    assert shapes[move] in html and "<table" in html


def test_the_vocabulary_is_that_of_the_pair() -> None:
    pair = load_pair("chat", precision="bf16")
    assert pair.target.config.vocab_size == VOCABULARY


def test_the_other_search_opens_at_one_of_its_steps() -> None:
    page = laid_out("step")
    slider, shown = handler(page, "switch")("real", "expand")
    assert slider["maximum"] == 25 and "logits [4, 49,152]" in shown
    slider, shown = handler(page, "switch")("tree", "expand")
    assert slider["maximum"] == slider["value"] == 2 and "logits [2, 3]" in shown


def test_the_cache_holds_the_prompt_once() -> None:
    html = handler(laid_out("step"), "draw_cache")(1, 0, 0)
    assert "4 + 3 × 2 = 10 tokens, <b>80 bytes</b>" in html
    assert "3 × (4 + 2) = 18 tokens, 144 bytes" in html
    assert "Row 0 goes on more than once" in html and "Row 2 does not go on" in html
    assert html.count("p₁") == 1 and html.count(">a₁<") == 3 and html.count(">c₁<") == 1
    same = handler(laid_out("step"), "draw_cache")(0, 1, 2)
    assert "more than once" not in same and "does not go on" not in same
