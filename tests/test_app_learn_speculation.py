"""The lessons on speculative and mentored decoding in a real browser, at both widths."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.visitor import Visitor

pytestmark = pytest.mark.browser

ADDRESS = "?tab=learn&lesson={}&__theme=light"


@pytest.fixture(scope="module", params=[1280, 375])
def speculative(chromium: Any, page_url: str, request: Any) -> Iterator[Visitor]:
    """Somebody in lesson 8, at one width."""
    yield from opened(chromium, page_url, request.param, "speculative")


@pytest.fixture(scope="module", params=[1280, 375])
def mentored(chromium: Any, page_url: str, request: Any) -> Iterator[Visitor]:
    """Somebody in lesson 9, at one width."""
    yield from opened(chromium, page_url, request.param, "mentored")


def opened(chromium: Any, page_url: str, width: int, slug: str) -> Iterator[Visitor]:
    context = chromium(width, 900)
    visitor = Visitor(context, page_url, ADDRESS.format(slug))
    visitor.tab.wait_for_selector(f"#predict-{slug}-ask")
    yield visitor
    context.close()


def answer(visitor: Visitor, slug: str, choice: str) -> str:
    """What a visitor is told who picks this choice."""
    box = visitor.tab.locator(f".dp-predict:has(#predict-{slug}-ask)")
    box.locator("label", has_text=choice).last.click()
    box.locator(".dp-answer").wait_for()
    visitor.tab.wait_for_timeout(300)
    return str(box.locator(".dp-answer").inner_text())


def slide(visitor: Visitor, name: str, value: float) -> None:
    visitor.tab.locator(f"#{name} input[type=number]").fill(str(value))


def wait_text(visitor: Visitor, selector: str, text: str) -> None:
    visitor.tab.wait_for_function(
        "([s, t]) => document.querySelector(s)?.innerText.includes(t)", arg=[selector, text]
    )


def tidy(visitor: Visitor) -> bool:
    """No sideways scroll, every figure as wide as it can be, no error so far."""
    for plot in visitor.tab.locator("#lessons .dp-figure .main-svg").all():
        box = plot.bounding_box()
        if box is not None and box["width"] < 250:
            return False
    fits = visitor.tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    return bool(fits) and visitor.errors == []


def test_recorded_rounds_are_walked_and_played(speculative: Visitor) -> None:
    tab = speculative.tab
    wait_text(speculative, "#speculative-rounds output", "1 /")
    tab.click("#speculative-rounds [data-dp=next]")
    wait_text(speculative, "#speculative-rounds output", "2 /")
    tab.click("#speculative-rounds [data-dp=play]")
    wait_text(speculative, "#speculative-rounds output", "3 /")
    tab.click("#speculative-rounds [data-dp=play]")
    speculative.choose("speculative-run", "Story")
    wait_text(speculative, "#speculative-rounds output", "1 /")
    assert tidy(speculative)


def test_the_prediction_is_judged(speculative: Visitor) -> None:
    assert "Not so." in answer(speculative, "speculative", "60.0 %")
    told = answer(speculative, "speculative", "10.0 %")
    assert "Right." in told and "16.7 %" in told


def test_laws_are_edited_and_bad_ones_refused(speculative: Visitor) -> None:
    typed = speculative.tab.locator("#speculative-typed textarea")
    typed.fill("a 0.5 0.9\nb 0.5 0.1")
    wait_text(speculative, "#speculative-overlap", "60.0 %")
    slide(speculative, "speculative-better", 50)
    wait_text(speculative, "#speculative-overlap", "80.0 %")
    typed.fill("a 0.5 0.9\nb 0.5")
    wait_text(speculative, "#speculative-error", "Line 2")
    speculative.choose("speculative-start", "‘The sea was")
    wait_text(speculative, "#speculative-overlap", "calm 50.0 %")
    assert speculative.tab.locator("#speculative-error").inner_text().strip() == ""
    assert tidy(speculative)


def test_draws_show_the_exact_rule_falling(speculative: Visitor) -> None:
    speculative.choose("speculative-rule", "Lenience")
    speculative.choose("speculative-count", "1,000")
    speculative.tab.click("#speculative-draw")
    wait_text(speculative, "#speculative-drawn", "1,000 tokens by each rule")
    speculative.tab.wait_for_selector("#speculative-lines .main-svg")
    first = speculative.tab.locator("#speculative-drawn").inner_text()
    speculative.tab.click("#speculative-draw")  # other tokens
    speculative.tab.wait_for_function(
        "t => document.querySelector('#speculative-drawn').innerText !== t", arg=first
    )
    assert tidy(speculative)


def test_the_formula_follows_the_sliders_and_a_measured_run(speculative: Visitor) -> None:
    slide(speculative, "speculative-alpha", 0.5)
    slide(speculative, "speculative-gamma", 1)
    slide(speculative, "speculative-cost", 0.5)
    wait_text(speculative, "#speculative-speed", "1.00×")
    row = speculative.tab.locator("#speculative-measured tbody tr").first
    label = row.locator("th").inner_text()
    alpha = row.locator("td").first.inner_text()
    speculative.choose("speculative-from", label)
    speculative.tab.wait_for_function(
        "a => Math.abs(document.querySelector('#speculative-alpha input').value - a) < 0.001",
        arg=float(alpha),
    )
    wait_text(speculative, "#speculative-speed", row.locator("td").last.inner_text())
    assert tidy(speculative)


def test_the_mentored_prediction_is_judged(mentored: Visitor) -> None:
    assert "Not so." in answer(mentored, "mentored", "32.0 %")
    assert "Right." in answer(mentored, "mentored", "49.9 %")


def test_bars_move_with_the_budget_and_the_laws_with_the_choice(mentored: Visitor) -> None:
    wait_text(mentored, "#mentored-gains", "88.5 %")
    slide(mentored, "mentored-budget", 1)
    wait_text(mentored, "#mentored-numbers", "88.5 %")
    mentored.choose("mentored-laws", "Two overlapping bumps")
    wait_text(mentored, "#mentored-behind", "17.9")
    slide(mentored, "mentored-budget", 0)
    wait_text(mentored, "#mentored-numbers", "46.6 %")
    for name in ("bars", "rules", "gaps", "family"):
        mentored.tab.wait_for_selector(f"#mentored-{name} .main-svg")
    assert tidy(mentored)


def test_both_lessons_open_in_chinese(context: Any, page_url: str) -> None:
    for slug in ("speculative", "mentored"):
        visitor = Visitor(context, page_url, f"{ADDRESS.format(slug)}&lang=zh")
        visitor.tab.wait_for_selector(f"#predict-{slug}-ask")
        shown = visitor.tab.locator(f"#predict-{slug}-ask").inner_text()
        assert re.search("[一-鿿]", shown) and visitor.errors == []
