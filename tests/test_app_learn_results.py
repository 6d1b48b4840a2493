"""The lessons that show a shipped experiment, in a real browser, at both widths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from playground.experiments import findings
from playground.ui.learn.width import exact_of, most_probable
from tests.visitor import Visitor

pytestmark = pytest.mark.browser

ADDRESS = "?tab=learn&lesson={}&__theme=light"
FITS = "document.documentElement.scrollWidth <= innerWidth"


@pytest.fixture(scope="module", params=[1280, 375])
def tab(chromium: Any, page_url: str, request: Any) -> Iterator[Visitor]:
    """Somebody in lesson 6, at one width."""
    context = chromium(request.param, 900)
    visitor = Visitor(context, page_url, ADDRESS.format("width"))
    visitor.tab.wait_for_selector("#width-curves .main-svg")
    yield visitor
    context.close()


def choose(visitor: Visitor, box: str, place: int) -> None:
    """Pick one of the choices of a question or setting."""
    visitor.tab.locator(f"#{box} label").nth(place).click()


def wait_axis(visitor: Visitor, box: str, text: str) -> None:
    visitor.tab.wait_for_function(
        "([s, t]) => document.querySelector(s)?.textContent.includes(t)",
        arg=[f"#{box} .ytitle", text],
    )


def test_width_is_predicted_then_shown(tab: Visitor) -> None:
    right = most_probable(exact_of(findings("width")["points"]))
    choose(tab, "predict-width-ask", ("good", "short", "empty").index(right))
    tab.tab.wait_for_selector(".dp-answer-right")
    assert "exact search’s results" in tab.tab.locator(".dp-answer-right").inner_text()
    choose(tab, "width-quantity", 4)
    wait_axis(tab, "width-curves", "empty outputs")
    points = findings("width")["points"]
    assert tab.tab.locator("#width-table tbody tr").count() == len(points)
    assert tab.tab.locator("#width-published tbody tr").count() == 4
    assert tab.tab.evaluate(FITS) and tab.errors == []


def test_tasks_are_predicted_then_shown(tab: Visitor) -> None:
    tab.open(tab.tab.url.replace("lesson=width", "lesson=tasks"))
    tab.tab.wait_for_selector("#tasks-curves .main-svg")
    contrasts = findings("tasks")["contrasts"]
    right = next(c for c in contrasts if c.measure == "accepted_more" and c.budget == 0.2).answer
    wrong = next(c for c in ("broad", "narrow", "open") if c != right)
    choose(tab, "predict-tasks-ask", ("broad", "narrow", "open").index(wrong))
    tab.tab.wait_for_selector(".dp-answer-wrong")
    choose(tab, "tasks-quantity", 1)
    wait_axis(tab, "tasks-curves", "tokens a target pass")
    assert "D = 0.2:" in tab.tab.locator("#tasks-table caption").inner_text()
    choose(tab, "tasks-budget", 2)
    tab.tab.wait_for_function(
        "document.querySelector('#tasks-table caption').innerText.includes('D = 0.4:')"
    )
    assert "D = 0.4" in tab.tab.locator("#tasks-answer").inner_text()
    assert tab.tab.evaluate(FITS) and tab.errors == []
