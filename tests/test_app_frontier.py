"""The Frontier tab in a real browser, at both widths."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.visitor import LONG_MS, Visitor

pytestmark = pytest.mark.browser

RESULT = "document.querySelectorAll('#frontier-table tbody tr').length"


class Sweeper(Visitor):
    """Somebody on the Frontier tab with the form open."""

    def __init__(self, context: Any, url: str, query: str = "?tab=frontier&__theme=light") -> None:
        super().__init__(context, url, query)
        self.tab.locator("#sweep > button").click()
        self.tab.locator("#sweep-run").wait_for()
        self.choose("sweep-pair", "SmolLM2")  # the one that the page has in memory

    def fill(self, **values: object) -> None:
        """Type into the form's boxes."""
        for name, value in values.items():
            box = self.tab.locator(f"#sweep-{name} input, #sweep-{name} textarea").first
            box.fill(str(value))
            box.blur()
        self.tab.wait_for_timeout(500)

    def methods(self, *titles: str) -> None:
        """Only these methods take part."""
        for label in self.tab.locator("#sweep-methods label").all():
            label.locator("input").set_checked(label.inner_text().strip() in titles)
        self.tab.wait_for_timeout(500)

    def small(self) -> None:
        """A sweep of two verses through four configurations."""
        self.choose("sweep-dataset", "Bible")
        self.methods("Sample", "Mentored")
        self.fill(limit=2, lengths="2, 3", budgets="0.2", vary="", max_new_tokens=8)
        alone = self.tab.locator("#sweep-draft_alone input")
        alone.set_checked(True)

    def upload(self, path: Path) -> None:
        """Open a file of prompts."""
        with self.tab.expect_file_chooser() as chooser:
            self.tab.click("#sweep-upload")
        chooser.value.set_files(path)

    def progress(self, text: str) -> str:
        """What the progress line says once it begins so."""
        found = self.tab.locator("#sweep-progress p", has_text=text)
        found.wait_for(timeout=LONG_MS)
        return str(found.inner_text())


@pytest.fixture(params=[1280, 375])
def sweeper(chromium: Any, page_url: str, request: Any) -> Iterator[Sweeper]:
    context = chromium(request.param, 900)
    yield Sweeper(context, page_url)
    context.close()


def test_a_sweep_of_two_prompts_fills_table_and_chart(sweeper: Sweeper) -> None:
    sweeper.small()
    sweeper.tab.locator("#sweep-command", has_text="2 prompts × 4 configurations").wait_for()
    sweeper.tab.click("#sweep-run")
    sweeper.progress("Done: 8 runs.")
    sweeper.tab.wait_for_function(f"{RESULT} === 4")
    assert sweeper.tab.locator("#frontier-chart .textpoint").count() == 4
    assert "4 configurations" in sweeper.tab.locator("#frontier-note").inner_text()
    assert sweeper.tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    with sweeper.tab.expect_download() as saved:
        sweeper.tab.click("#frontier-result")
    found = json.loads(Path(saved.value.path()).read_text("utf-8"))
    assert len(found["rows"]) == 8 and len(found["summary"]) == 4
    assert found["record"]["visits"][0]["pair"] == "chat"
    assert sweeper.errors == []


def test_stop_ends_a_sweep_and_keeps_what_it_has(sweeper: Sweeper) -> None:
    sweeper.small()
    sweeper.fill(limit=40, max_new_tokens=64)
    sweeper.tab.click("#sweep-run")
    sweeper.tab.wait_for_function(f"{RESULT} === 4", timeout=LONG_MS)
    sweeper.tab.click("#sweep-stop")
    text = sweeper.progress("Stopped after")
    assert int(text.split()[2]) >= 4
    assert sweeper.tab.locator("#frontier-chart .main-svg").first.is_visible()
    assert sweeper.errors == []


def test_a_bad_file_is_refused_with_its_line(sweeper: Sweeper, tmp_path: Path) -> None:
    bad = tmp_path / "mine.jsonl"
    bad.write_text('{"prompt": "one"}\n{"prompt": \n')
    sweeper.upload(bad)
    text = sweeper.toast()
    assert text.startswith("dataset: mine.jsonl, line 2: not JSON") and str(tmp_path) not in text
    good = tmp_path / "two.txt"
    good.write_text("Hello there.\nWhat is rain?\n")
    sweeper.upload(good)
    sweeper.wait_value("#sweep-dataset input", "two.txt, 2 prompts")
    sweeper.methods("Greedy")
    sweeper.fill(limit=2, max_new_tokens=4, vary="", lengths="", budgets="")
    sweeper.tab.click("#sweep-run")
    sweeper.progress("Done:")


def test_more_than_the_page_allows_is_refused_and_named(sweeper: Sweeper) -> None:
    sweeper.small()
    sweeper.fill(limit=750, max_new_tokens=3000)
    sweeper.tab.click("#sweep-run")
    toast = sweeper.toast()
    assert toast.startswith("limit: 750 prompts × 4 configurations") and "this page allows" in toast
    sweeper.fill(limit=1, max_new_tokens=9999)
    sweeper.tab.locator("#sweep-command", has_text="max_new_tokens: 9999").wait_for()
