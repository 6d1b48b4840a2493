"""Lesson 9: the optimum on the article's laws, and every other rule below it."""

from __future__ import annotations

import math
import re

import gradio as gr
import pytest

from playground.lessons.mentoring import ARTICLE_CURVE
from playground.mentored import divergence, solve
from playground.ui.learn import mentored
from playground.ui.strings import ENGLISH, LANGUAGES, Words


@pytest.mark.parametrize("language", LANGUAGES)
def test_it_is_laid_out_and_answers_to_nothing_but_light_events(language: str) -> None:
    with gr.Blocks() as page, gr.Tabs(), gr.Tab("9"):
        mentored.lesson(None, Words(language))  # type: ignore[arg-type]  # no model takes part
    assert page.fns and not any(fn.queue for fn in page.fns.values())


def test_the_question_is_about_the_articles_numbers() -> None:
    asked = mentored.question()
    assert (asked["budget"], asked["whole"], asked["exact"]) == ("0.2", "1.58", "22.2 %")
    assert asked["accepted"] == "49.9 %" and asked["share"] == "35.7 %"
    choices = {asked[name] for name in ("less", "line", "accepted", "much")}
    assert len(choices) == 4


def test_the_table_stands_beside_the_articles_own_figures() -> None:
    for gain, (_, accepted) in zip(mentored.bought("article"), ARTICLE_CURVE, strict=True):
        assert gain.acceptance == pytest.approx(accepted, abs=0.006)
    shown = mentored.gains_html("article", ENGLISH)
    assert "<td>22.0 %</td>" in shown and "D = 1, of the 1.58" in shown and "85.2 %" in shown


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", mentored.LAWS)
def test_budgets_end_where_the_draft_is_taken_whole_and_buy_ever_less(
    name: str, language: str
) -> None:
    laws, found = mentored.LAWS[name], mentored.bought(name)
    assert found[-1].budget == pytest.approx(divergence(laws.target, laws.draft, "kl"))
    assert [found[0].share, found[-1].share] == pytest.approx([0, 1])
    slopes = [gain.slope for gain in found if gain.slope is not None]
    assert slopes == sorted(slopes, reverse=True)
    assert mentored.gains_html(name, Words(language)).count("<tr") == 1 + len(found)


@pytest.mark.parametrize("name", mentored.LAWS)
def test_no_rule_lies_above_the_optimum(name: str) -> None:
    laws = mentored.LAWS[name]
    for curve in mentored.curves(name):
        for point in curve.finite():
            assert point.behind is not None and point.behind > -1e-9
            best = solve(laws.target, laws.draft, point.divergence, keep_support=False)
            assert point.acceptance <= best.acceptance + 1e-9


@pytest.mark.parametrize("name", mentored.LAWS)
def test_what_is_listed_is_each_rules_largest_shortfall(name: str) -> None:
    shown = mentored.behind_html(name, ENGLISH)
    assert shown.count("<tr") == 1 + len(mentored.curves(name))
    assert re.search(r"dp-marked\"><th scope=\"row\">Mentored</th><td>0</td>", shown)


def test_every_divergence_ends_with_the_whole_draft_and_total_variation_is_a_line() -> None:
    kinds = mentored.families("bumps")
    assert [found[-1].acceptance for found in kinds.values()] == pytest.approx([1] * len(kinds))
    start = kinds["tv"][0].acceptance
    for point in kinds["tv"]:
        assert point.acceptance == pytest.approx(start + point.budget, abs=1e-9)
        assert math.isfinite(point.divergence)
