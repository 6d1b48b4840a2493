"""The lessons in a real browser: opened by address, embedded, moved, on a screen and a phone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from playground.ui.setup import LESSONS
from playground.ui.strings import LANGUAGES, Words
from tests.test_app_panels import AXE, NOT_OURS
from tests.visitor import Visitor

pytestmark = pytest.mark.browser

FITS = "document.documentElement.scrollWidth <= innerWidth"


def address(slug: str, **more: str) -> str:
    return "?" + "&".join(f"{k}={v}" for k, v in {"tab": "learn", "lesson": slug, **more}.items())


def title(visitor: Visitor) -> str:
    """The title of the lesson that is shown."""
    found = visitor.tab.locator("#lessons h2:visible")
    found.wait_for()
    return str(found.inner_text()).partition("\n")[2] or str(found.inner_text())


@pytest.fixture(scope="module", params=[1280, 375])
def screen(chromium: Any, request: Any) -> Iterator[Any]:
    """A browser of either width, for tests that leave nothing behind in it."""
    context = chromium(request.param, 900)
    yield context
    context.close()


def walk(visitor: Visitor) -> Iterator[str]:
    """From the lesson that is open to the last, by the buttons at their ends: each one's slug."""
    for slug in LESSONS[:-1]:
        yield slug
        visitor.tab.locator(f"#lesson-{slug} .dp-turns .dp-next").click()
    yield LESSONS[-1]


@pytest.mark.parametrize("language", LANGUAGES)
def test_ten_lessons_one_after_the_other(screen: Any, page_url: str, language: str) -> None:
    visitor = Visitor(screen, page_url, address("tree", lang=language))
    for slug in walk(visitor):
        assert Words(language)(f"lesson.{slug}") in title(visitor)
        visitor.tab.wait_for_function("s => location.search.includes(`lesson=${s}`)", arg=slug)
        visitor.tab.wait_for_timeout(400)
        assert visitor.tab.evaluate(FITS), slug
        assert visitor.errors == [], slug
    assert visitor.tab.locator("#lessons > .tab-wrapper [role=tab]").count() == len(LESSONS)
    visitor.tab.close()


@pytest.mark.parametrize("slug", LESSONS)
def test_an_embedded_lesson_stands_alone(phone: Any, page_url: str, slug: str) -> None:
    query = address(slug, embed="1", lang="zh", __theme="dark")
    visitor = Visitor(phone, page_url, query)
    assert Words("zh")(f"lesson.{slug}") in title(visitor)
    for hidden in ("h1", "[role=tab]", ".dp-turns button", ".main > .wrap > footer"):
        assert not any(found.is_visible() for found in visitor.tab.locator(hidden).all()), hidden
    assert visitor.tab.evaluate("document.body.classList.contains('dark')")
    assert visitor.tab.evaluate(FITS)
    assert visitor.errors == []


def test_the_way_to_the_next_lesson_and_the_address_that_follows(
    screen: Any, page_url: str
) -> None:
    visitor = Visitor(screen, page_url, address("tree"))
    visitor.tab.locator("#lesson-tree .dp-turns .dp-next").click()
    assert "One beam step" in title(visitor)
    visitor.tab.wait_for_function("location.search.includes('lesson=step')")
    visitor.tab.locator("#lesson-step .dp-turns .dp-previous").click()
    visitor.tab.wait_for_function("location.search.includes('lesson=tree')")
    visitor.tab.locator("#lessons [role=tab]").nth(2).click()
    visitor.tab.wait_for_function("location.search.includes('lesson=stopping')")
    visitor.tab.reload()
    assert "When to stop" in title(visitor)
    visitor.tab.click("[data-do=embed]")
    frame = visitor.tab.locator("[data-snippet=iframe]").input_value()
    assert "/?lang=en&amp;tab=learn&amp;lesson=stopping&amp;embed=1" in frame
    assert visitor.errors == []
    visitor.tab.close()


def test_greedy_and_beam_after_a_prediction_and_a_change(screen: Any, page_url: str) -> None:
    visitor = Visitor(screen, page_url, address("tree"))
    tab = visitor.tab
    assert tab.locator("#tree-paths table").count() == 0
    tab.locator("#predict-lose-ask label", has_text="Bx").click()
    tab.locator(".dp-answer", has_text="Right. Greedy ends at Ax").wait_for()
    tab.locator("#tree-verdict", has_text="1.8 times as probable").wait_for()
    tab.locator("#tree-width label", has_text="1").click()
    tab.locator("#tree-verdict", has_text="misses the best of all").wait_for()
    tab.locator("#tree-laws input").first.fill("0.6")
    tab.locator("#tree-fault", has_text="sum to 1.1; they must sum to 1").wait_for()
    tab.locator("#tree-laws input").nth(1).fill("0.3")
    tab.locator("#tree-verdict", has_text="0.6 × 0.4 = 0.240").wait_for()
    assert not tab.locator("#tree-fault").inner_text().strip()
    tab.click("#tree-reset")
    tab.locator("#tree-verdict", has_text="= 0.200").wait_for()
    assert tab.locator("#tree-laws input").first.input_value() == "0.5"
    assert tab.locator("#tree-figure svg").bounding_box()["width"] > 300
    assert tab.evaluate(FITS) and visitor.errors == []
    tab.close()


def test_four_moves_on_the_tree_and_on_the_recorded_search(screen: Any, page_url: str) -> None:
    visitor = Visitor(screen, page_url, address("step"))
    tab = visitor.tab
    tab.locator("#step-move label", has_text="3").click()
    tab.locator("#step-shown", has_text="1 = 3 // 3").wait_for()
    tab.locator("#step-source label", has_text="49,152").click()
    tab.locator("#step-shown", has_text="flat [196,608]").wait_for()
    tab.locator("#step-number input[type=number]").fill("9")
    tab.locator("#step-move label", has_text="4").click()
    tab.locator("#step-shown", has_text="parents [").wait_for()
    tab.locator("#step-parent-2 label", has_text="2").click()
    tab.locator("#step-cache", has_text="reorder_cache([1, 0, 2])").wait_for()
    assert tab.evaluate(FITS) and visitor.errors == []
    tab.close()


def test_the_modes_stop_one_after_the_other(screen: Any, page_url: str) -> None:
    visitor = Visitor(screen, page_url, address("stopping"))
    tab = visitor.tab
    tab.click("#stopping-search")
    for figure in ("#stopping-lines", "#stopping-settled"):
        tab.locator(f"{figure} .main-svg").first.wait_for()
        wide = tab.locator(f"{figure} .main-svg").first.bounding_box()["width"]
        assert wide == pytest.approx(tab.locator(figure).bounding_box()["width"], abs=4)
    tab.locator("#stopping-number input[type=number]").fill("4")
    tab.locator("#stopping-modes", has_text="stops: not above the worst finished").wait_for()
    assert tab.evaluate(FITS) and visitor.errors == []
    tab.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_serious_fault_of_ours(screen: Any, page_url: str, theme: str) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed: npm install --prefix .ci axe-core")
    visitor = Visitor(screen, page_url, address("tree", __theme=theme))
    visitor.tab.evaluate(AXE.read_text("utf-8"))
    serious = []
    for slug in walk(visitor):
        title(visitor)
        visitor.tab.wait_for_timeout(600)
        found = visitor.tab.evaluate("axe.run('#lessons', {resultTypes: ['violations']})")
        serious += [
            f"{slug}: {fault['id']}: {node['html'][:160]} {node['failureSummary'][:200]}"
            for fault in found["violations"]
            if fault["impact"] in ("serious", "critical") and fault["id"] not in NOT_OURS
            for node in fault["nodes"]
        ]
    assert serious == []
    visitor.tab.close()
