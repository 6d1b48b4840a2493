"""The lessons on length, cost and repetition in a real browser, on a screen and a phone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.test_app_learn import FITS, address
from tests.visitor import LONG_MS, Visitor

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module", params=[1280, 375])
def screen(chromium: Any, request: Any) -> Iterator[Any]:
    """A browser of either width, for tests that leave nothing behind in it."""
    context = chromium(request.param, 900)
    yield context
    context.close()


def fill(visitor: Visitor, place: str, value: str) -> None:
    """Type a slider's number."""
    visitor.tab.locator(f"{place} input[type=number]").fill(value)


def test_two_texts_change_places(screen: Any, page_url: str) -> None:
    visitor = Visitor(screen, page_url, address("length"))
    tab = visitor.tab
    tab.locator("#predict-length-ask label", has_text="A, the short one").click()
    tab.locator(".dp-answer", has_text="Not so. At 0 the plain sums").wait_for()
    tab.locator("#length-table", has_text="Table 9-6").wait_for()
    tab.locator("#length-verdict", has_text="B wins. Both score alike at α = 0.543").wait_for()
    fill(visitor, "#length-penalty", "0.5")
    tab.locator("#length-verdict", has_text="A wins").wait_for()
    tab.locator("#length-table .dp-marked", has_text="length, α 0.5").wait_for()
    tab.locator("#length-norm label", has_text="none").click()
    tab.locator("#length-verdict", has_text="Without a norm").wait_for()
    tab.locator("#length-long input[type=number]").first.fill("5")
    tab.locator("#length-table", has_text="your two texts").wait_for()
    tab.locator("#length-verdict", has_text="B wins").wait_for()
    tab.click("#length-reset")
    tab.locator("#length-table", has_text="the textbook’s two texts").wait_for()
    assert tab.locator("#length-long input[type=number]").first.input_value() == "10"
    assert tab.locator("#length-curves .main-svg").first.bounding_box()["width"] > 250
    assert tab.evaluate(FITS) and visitor.errors == []
    tab.close()


def test_beams_are_reckoned_and_measured(screen: Any, page_url: str) -> None:
    visitor = Visitor(screen, page_url, address("cost"))
    tab = visitor.tab
    tab.locator("#cost-numbers", has_text="225 MiB").wait_for()
    visitor.choose("cost-model", "Llama 2 7B")
    tab.locator("#cost-numbers", has_text="2,400 MiB").wait_for()
    tab.locator("#cost-models .dp-marked", has_text="Llama 2 7B").wait_for()
    fill(visitor, "#cost-prompt", "50")
    fill(visitor, "#cost-steps", "10")
    fill(visitor, "#cost-width", "2")
    tab.locator("#cost-numbers", has_text="1.17×").wait_for()
    tab.click("#cost-go")
    tab.locator("#cost-measured", has_text="50 prompt tokens, 10 new ones").wait_for(
        timeout=LONG_MS
    )
    assert "The bytes equal both formulas" in tab.locator("#cost-status").inner_text()
    assert tab.locator("#cost-measured tbody tr").count() == 2
    assert tab.evaluate(FITS) and visitor.errors == []
    tab.close()


def test_a_prompt_is_continued_in_three_ways(screen: Any, page_url: str) -> None:
    visitor = Visitor(screen, page_url, address("repetition"))
    tab = visitor.tab
    tab.locator("#repetition-status", has_text="Recorded in").wait_for()
    assert tab.locator("#repetition-texts mark").count() > 5
    assert tab.locator("#repetition-lines .main-svg").first.bounding_box()["width"] > 250
    tab.locator("#repetition-prompt textarea").fill("The sea was <b>")
    tab.click("#repetition-go")
    fresh = tab.locator("#repetition-status", has_text="Decoded just now")
    fresh.wait_for(timeout=LONG_MS)
    assert "“The sea was <b>”" in fresh.inner_text()
    assert tab.locator("#repetition-texts p", has_text="The sea was <b>").count() == 3
    assert tab.evaluate(FITS) and visitor.errors == []
    tab.close()
