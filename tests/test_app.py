"""The page in a real browser: what a visitor does, and what must never happen to them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from gradio_client import Client

from tests.visitor import LONG_MS, QUIET, Visitor

pytestmark = pytest.mark.browser

EVIL = '<img src=x onerror="window.hacked=1"><b>bold</b>&amp;'


@pytest.fixture
def other_visitor(chromium: Any, page_url: str) -> Iterator[Visitor]:
    """Somebody else, in a browser of their own."""
    opened = chromium()
    yield Visitor(opened, page_url)
    opened.close()


def seconds_of_a_short_run(url: str) -> float:
    """How long a caller waits for a tiny run: long if the worker is still busy."""
    client, start = Client(url, verbose=False), time.monotonic()
    client.predict("Hi", "greedy", {"max_new_tokens": 1}, api_name="/decode")
    return time.monotonic() - start


def test_a_run_fills_five_cards_the_chart_and_the_table(visitor: Visitor, page_url: str) -> None:
    visitor.run("Name a colour.", tokens=8)
    visitor.wait_done()
    asked = {"prompt": "Name a colour.", "max_new_tokens": 8}
    found = Client(page_url, verbose=False).predict(**asked, api_name="/compare")
    for label, result in found["results"].items():
        assert visitor.text(label) == result["text"]  # same seed, and copied exactly
    assert visitor.tab.locator("#table tbody tr").count() == 5
    for label in ("Sample", "Greedy", "Beam", "Speculative", "Mentored"):
        assert visitor.tab.locator("#chart .textpoint", has_text=label).count() == 1
    assert "peculation" in visitor.tab.locator("#verdict").inner_text()
    assert visitor.errors == []


def test_only_selected_runs_have_a_card(visitor: Visitor) -> None:
    visitor.tick("Greedy", "Speculative")
    visitor.run(tokens=4)
    visitor.wait_done(2)
    assert visitor.runs() == ["greedy", "speculative"]
    assert visitor.errors == []


def test_stop_keeps_what_was_written_and_frees_the_worker(visitor: Visitor, page_url: str) -> None:
    """Case 65."""
    visitor.run_long()
    visitor.wait_style("#run", "opacity", "0.5")  # it would do nothing now
    visitor.tab.keyboard.press("Escape")
    visitor.tab.wait_for_selector("[data-run=sample][data-state=stopped]", timeout=10_000)
    assert len(visitor.text("sample")) > 0
    assert seconds_of_a_short_run(page_url) < 10
    assert visitor.states() == ["stopped"] * 5
    visitor.wait_style("#run", "opacity", "1")
    visitor.tab.keyboard.press("Control+Enter")  # and again, from the keyboard
    visitor.wait_running()
    visitor.tab.click("#stop")
    visitor.tab.wait_for_selector("[data-run=mentored][data-state=stopped]", timeout=10_000)
    assert visitor.errors == []


def test_a_pair_that_a_run_loads_is_said_to_be_ready(visitor: Visitor, page_url: str) -> None:
    """And the next one says again that it would have to be loaded."""
    for pair in ("translate", "chat"):
        query = f"?lang=en&pair={pair}&prompt=Name+a+colour.&runs=sample%3Dsample&max_new_tokens=2"
        visitor.tab.goto(page_url + query)
        visitor.tab.wait_for_selector(".dp-pair-absent", timeout=10_000)
        visitor.tab.click("#run")
        visitor.tab.wait_for_selector(".dp-pair-ready", timeout=LONG_MS)
    assert visitor.errors == []


def test_leaving_frees_the_worker(context: Any, page_url: str) -> None:
    """Case 65: a closed tab leaves no work running."""
    visitor = Visitor(context, page_url)
    visitor.run_long()
    visitor.tab.close()
    assert seconds_of_a_short_run(page_url) < 20


def test_a_waiting_visitor_can_leave_the_queue(visitor: Visitor, other_visitor: Visitor) -> None:
    """Cases 62 and 67: two visitors; the one in the queue stops without touching the other."""
    first, second = visitor, other_visitor
    first.run_long()
    second.run("Name a fruit.", tokens=4)
    place = second.tab.locator("#status .progress-text")
    place.filter(has_text="queue: 1/1").wait_for(timeout=10_000)
    second.tab.click("#stop")
    second.tab.wait_for_function("!document.querySelector('#status .progress-text')")
    assert first.states()[0] == "running"
    first.tab.click("#stop")
    first.tab.wait_for_selector("[data-run=sample][data-state=stopped]", timeout=10_000)
    time.sleep(1)  # its turn would have come by now
    assert set(second.states()) <= set(QUIET)
    second.run("Name a fruit.", tokens=4)
    second.wait_done()
    assert "thousand" not in second.tab.locator("#cards").inner_text()
    assert first.errors == second.errors == []


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("temperature", None, "Temperature: an empty field is not allowed; use a number from 0.0"),
        ("temperature", 99, "Temperature: 99 is not allowed; use a number from 0.0 to 10.0."),
        ("num_beams", 2.5, "Beams W: 2.5 is not allowed; use a whole number from 1 to 64."),
        ("max_new_tokens", 1e6, "Tokens: 1000000 is not allowed; use a whole number"),
    ],
)
def test_bad_input_gets_one_message_and_the_next_run_works(
    visitor: Visitor, name: str, value: float | None, message: str
) -> None:
    """Case 69."""
    visitor.set("max_new_tokens", 4)
    if name == "num_beams":
        visitor.edit("Beam")
    box = visitor.tab.locator(f"#param-{name} input")
    before = box.input_value()
    box.fill("" if value is None else f"{value:g}")
    visitor.tab.click("#run")
    visitor.tab.wait_for_selector("[data-testid=toast-body]", timeout=10_000)
    toasts = visitor.tab.locator("[data-testid=toast-text]").all_inner_texts()
    assert len(toasts) == 1 and toasts[0].startswith(message)
    assert set(visitor.states()) <= set(QUIET)
    box.fill(before)
    visitor.tab.click("[data-testid=toast-close]")
    visitor.tab.click("#run")
    visitor.wait_done()


def test_an_empty_prompt_is_refused(visitor: Visitor) -> None:
    """Case 54."""
    visitor.run("", tokens=4)
    assert visitor.toast().startswith("Prompt: '' is not allowed")


def test_markup_stays_literal(visitor: Visitor) -> None:
    """Case 60: in prompt, output, settings and hovers."""
    visitor.tab.click("#advanced button")
    visitor.tab.get_by_label("Raw prompt").check()
    visitor.tab.locator("#param-stop textarea").fill(EVIL)
    visitor.run(f"Repeat: {EVIL} {EVIL} {EVIL}", tokens=24)
    visitor.wait_done()
    settings = visitor.tab.locator("[data-run=greedy] details p").text_content()
    assert EVIL in str(settings)
    assert visitor.tab.evaluate("window.hacked") is None
    assert visitor.tab.locator("#cards img, #table img, #verdict img, #cards b").count() == 0
    assert visitor.errors == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_phone_sees_one_column_and_never_scrolls_sideways(
    chromium: Any, page_url: str, theme: str
) -> None:
    """Case 72."""
    context = chromium(375, 800)
    visitor = Visitor(context, page_url, f"?__theme={theme}")
    assert not visitor.tab.locator("#editor").is_visible()
    visitor.tab.click("#editor-toggle button")
    assert visitor.tab.locator("#param-divergence_budget").is_visible()
    visitor.run(tokens=12)
    visitor.wait_done()
    width, lefts = visitor.tab.evaluate(
        "[document.documentElement.scrollWidth,"
        " [...document.querySelectorAll('.dp-card')].map(c => c.getBoundingClientRect().left)]"
    )
    assert width <= 375 and len(set(lefts)) == 1
    assert visitor.tab.locator("#chart .main-svg").first.bounding_box()["width"] > 250
    context.close()
