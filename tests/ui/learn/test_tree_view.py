from __future__ import annotations

import re

import pytest

from playground.demonstrations.searches import search_tree
from playground.lessons.tree import CHAPTER, Fault
from playground.ui.learn.tree_view import Searches, fault_text, marks, product, tree_html
from playground.ui.strings import ENGLISH, LANGUAGES, Words


def searches(width: int) -> Searches:
    found = {search.width: search for search in search_tree(CHAPTER)}
    return found[None], found[width]


def signs(html: str) -> dict[str, str]:
    """What stands behind each joint probability."""
    return dict(re.findall(r">([\d.]+)<tspan[^>]*>([^<]*)</tspan>", html))


def test_the_tree_shows_neither_path_nor_product_before_a_search() -> None:
    html = tree_html(CHAPTER, (), ENGLISH)
    assert html.count("<circle") == 13 and html.count("<path") == 12
    assert not re.search("dp-greedy|dp-beam|dp-unseen|dp-joint", html)


def test_both_paths_are_drawn_and_named() -> None:
    html = tree_html(CHAPTER, searches(2), ENGLISH)
    assert html.count('<path class="dp-greedy"') == html.count('<path class="dp-beam"') == 2
    named = signs(html)
    assert named["0.200"] == "greedy" and named["0.360"] == "beam ★" and named["0.175"] == ""


@pytest.mark.parametrize(("width", "unseen"), [(1, 6), (2, 3), (3, 0)])
def test_a_wider_beam_looks_at_more(width: int, unseen: int) -> None:
    html = tree_html(CHAPTER, searches(width), ENGLISH)
    assert html.count('<path class="dp-unseen"') == unseen


def test_a_text_may_be_all_three() -> None:
    path = CHAPTER.path((0, 0))
    assert marks(path, CHAPTER, searches(1)) == ["greedy", "beam"]
    assert product(CHAPTER, path) == "0.5\u00a0×\u00a00.4"


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_fault_is_said(language: str) -> None:
    say = Words(language)
    for fault in (Fault(0, None, 1.1), Fault(3, 2, "<b>"), Fault(1, 0, None)):
        assert fault_text(fault, say)
