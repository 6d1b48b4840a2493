"""What a visitor does with runs and results in a real browser, at both widths."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.visitor import Visitor

pytestmark = pytest.mark.browser

AXE = Path(__file__).resolve().parent.parent / ".ci" / "node_modules" / "axe-core" / "axe.min.js"
# Faults of Gradio's own markup, which we cannot mend: ids that its tabs point to do not exist, and
# its file and range inputs lack names.
NOT_OURS = (
    "aria-valid-attr-value",
    "aria-allowed-attr",
    "nested-interactive",
    "scrollable-region-focusable",
)


@pytest.fixture(scope="module", params=[1280, 375])
def done(chromium: Any, page_url: str, request: Any) -> Iterator[Visitor]:
    """Somebody whose four short runs have ended, for tests that only look."""
    context = chromium(request.param, 900)
    visitor = Visitor(
        context,
        page_url,
        "?prompt=Name+a+colour.&max_new_tokens=10&runs=sample%3Dsample&runs=beam%3Dbeam"
        "&runs=speculative%3Dspeculative&runs=mentored%3Dmentored%2Cdivergence_budget%3D1&run=1",
    )
    visitor.wait_done(4)
    yield visitor
    context.close()


def test_runs_are_added_copied_renamed_and_removed(visitor: Visitor) -> None:
    visitor.open_editor()
    visitor.choose("add", "Speculative · typical")
    visitor.tab.locator("#runs label", has_text="Typical ·").wait_for()
    assert visitor.tab.locator("#param-typical_epsilon").is_visible()
    assert not visitor.tab.locator("#param-divergence_budget").is_visible()
    visitor.tab.click("#duplicate")
    visitor.tab.locator("#runs label", has_text="Typical 2").wait_for()
    visitor.tab.locator("#name input").fill("strict")
    visitor.tab.locator("#name input").press("Enter")
    visitor.tab.locator("#runs label", has_text="Strict").wait_for()
    visitor.set("typical_epsilon", 0.5)
    visitor.tab.locator("#runs label", has_text="ε 0.5").wait_for()
    visitor.edit("Greedy")
    visitor.tab.click("#remove")
    visitor.tab.wait_for_function("!document.querySelector('#runs').innerText.includes('Greedy')")
    visitor.tick("Sample", "Typical", "Strict")
    visitor.run(tokens=3)
    visitor.wait_done(3)
    assert visitor.runs() == ["sample", "typical", "strict"]
    assert (
        "typical_epsilon 0.5" in visitor.tab.locator("[data-run=strict] details p").text_content()
    )
    assert visitor.errors == []


def test_another_proposer_brings_its_own_settings(visitor: Visitor) -> None:
    visitor.open_editor()
    assert not visitor.tab.locator("#param-max_matching_ngram_size").is_visible()
    visitor.choose("param-proposer", "prompt lookup")
    visitor.tab.locator("#param-max_matching_ngram_size").wait_for()


def test_examples_fill_in_the_prompt(visitor: Visitor) -> None:
    visitor.tab.locator("#examples button", has_text="Code").click()
    visitor.tab.wait_for_function(
        "document.querySelector('#prompt textarea').value.includes('Python')"
    )


def test_axes_and_baseline_redraw_the_numbers(done: Visitor) -> None:
    done.choose("view-x", "Speed-up")
    done.choose("view-y", "KL spent")
    done.tab.locator("#chart .xtitle", has_text="speed-up").wait_for()
    done.tab.locator("#chart .ytitle", has_text="KL").wait_for()
    done.choose("view-baseline", "Beam")
    row = done.tab.locator("#table tbody tr", has_text="Beam").locator("td").first
    done.tab.wait_for_function(
        "e => e.textContent === '1.00'", arg=row.element_handle(), timeout=10_000
    )
    assert done.errors == []


def test_the_first_difference_is_marked_in_both_texts(done: Visitor) -> None:
    done.choose("view-first", "Sample")
    done.choose("view-second", "Beam")
    done.tab.wait_for_selector("#difference .dp-difference")
    flags = done.tab.locator(".dp-flag")
    same = "same" in done.tab.locator("#difference").inner_text()
    assert flags.count() == (0 if same else 2)
    assert done.errors == []


def test_every_run_that_drafted_or_searched_can_be_looked_into(done: Visitor) -> None:
    done.choose("view-inside", "Mentored")
    done.tab.wait_for_selector("#panel .dp-rounds")
    done.choose("view-inside", "Beam")
    done.tab.wait_for_selector("#panel svg")
    assert done.errors == []


def test_the_lab_opens_a_position_of_the_run(done: Visitor) -> None:
    done.tab.get_by_role("tab", name="Token lab").click()
    done.tab.wait_for_selector("#lab-bars .main-svg")
    assert done.tab.locator("#lab-text").inner_text()
    assert done.tab.locator("#lab-bars .main-svg").first.bounding_box()["width"] > 250
    assert done.tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert done.errors == []


@pytest.mark.parametrize("tab", ["About", "Token lab", "Compare"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_serious_fault_of_ours(done: Visitor, tab: str, theme: str) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed: npm install --prefix .ci axe-core")
    done.tab.get_by_role("tab", name=tab).click()
    if done.tab.evaluate("document.body.classList.contains('dark')") != (theme == "dark"):
        done.tab.click("[data-do=theme]")
    done.tab.wait_for_timeout(500)
    done.tab.evaluate(AXE.read_text("utf-8"))
    found = done.tab.evaluate("axe.run(document, {resultTypes: ['violations']})")
    serious = [
        f"{fault['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for fault in found["violations"]
        if fault["impact"] in ("serious", "critical") and fault["id"] not in NOT_OURS
        for node in fault["nodes"]
    ]
    assert serious == []
