"""The page in a real browser: what a visitor does, and what must never happen to them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from gradio_client import Client

pytestmark = pytest.mark.browser

EVIL = '<img src=x onerror="window.hacked=1"><b>bold</b>&amp;'
DONE = "document.querySelectorAll('.dp-card[data-state=done]').length == {}"
LONG_MS = 120_000


class Visitor:
    """A browser tab on the page, and the errors it has seen."""

    def __init__(self, context: Any, url: str, theme: str = "light") -> None:
        self.tab = context.new_page()
        self.errors: list[str] = []
        self.tab.on("console", self._note)
        self.tab.on("pageerror", lambda error: self.errors.append(str(error)))
        self.tab.goto(f"{url}/?__theme={theme}")
        self.tab.wait_for_selector(".dp-pair-ready", timeout=LONG_MS)

    def _note(self, message: Any) -> None:
        if message.type == "error":
            self.errors.append(message.text)

    def set(self, name: str, value: object) -> None:
        self.tab.locator(f"#param-{name} input").fill(str(value))

    def run(self, prompt: str | None = None, tokens: int = 6) -> None:
        if prompt is not None:
            self.tab.locator("#prompt textarea").fill(prompt)
        self.set("max_new_tokens", tokens)
        self.tab.click("#run")

    def run_long(self) -> None:
        """Start a comparison that takes minutes: no run may end before its 3000 tokens."""
        self.tab.click("#advanced button")
        self.set("min_new_tokens", 3000)
        self.run("Count from one to one thousand.", tokens=3000)
        self.wait_running()

    def wait_done(self, count: int = 5) -> None:
        self.tab.wait_for_function(DONE.format(count), timeout=LONG_MS)
        self.tab.wait_for_selector("#chart .scatterlayer .trace", timeout=LONG_MS)

    def wait_running(self) -> None:
        self.tab.wait_for_selector(".dp-running .dp-text:not(.dp-none)", timeout=LONG_MS)

    def states(self) -> list[str]:
        found = self.tab.locator(".dp-card").all()
        return [card.get_attribute("data-state") for card in found]

    def text(self, run: str) -> str:
        return str(self.tab.locator(f"[data-run={run}] .dp-text").text_content())


@pytest.fixture
def context(chromium: Any) -> Iterator[Any]:
    opened = chromium()
    yield opened
    opened.close()


@pytest.fixture
def visitor(context: Any, page_url: str) -> Visitor:
    return Visitor(context, page_url)


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
    assert visitor.tab.locator("#chart .scatterlayer .trace").count() == 5
    assert "peculation" in visitor.tab.locator("#verdict").inner_text()
    assert visitor.errors == []


def test_only_selected_runs_have_a_card(visitor: Visitor) -> None:
    for name in ("Sample", "Beam", "Mentored"):
        visitor.tab.get_by_label(name, exact=True).uncheck()
    visitor.run(tokens=4)
    visitor.wait_done(2)
    shown = [card for card in visitor.tab.locator(".dp-card").all() if card.is_visible()]
    assert [card.get_attribute("data-run") for card in shown] == ["greedy", "speculative"]
    assert visitor.errors == []


def test_stop_keeps_what_was_written_and_frees_the_worker(visitor: Visitor, page_url: str) -> None:
    """Case 65."""
    visitor.run_long()
    visitor.tab.keyboard.press("Escape")
    visitor.tab.wait_for_selector("[data-run=sample][data-state=stopped]", timeout=10_000)
    assert len(visitor.text("sample")) > 0
    assert seconds_of_a_short_run(page_url) < 10
    assert visitor.states() == ["stopped"] * 5
    visitor.tab.keyboard.press("Control+Enter")  # and again, from the keyboard
    visitor.wait_running()
    visitor.tab.click("#stop")
    visitor.tab.wait_for_selector("[data-run=mentored][data-state=stopped]", timeout=10_000)
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
    assert set(second.states()) == {"idle"}
    second.run("Name a fruit.", tokens=4)
    second.wait_done()
    assert "thousand" not in second.tab.locator("#cards").inner_text()
    assert first.errors == second.errors == []


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("temperature", 99, "temperature: 99 is not allowed; use a number from 0.0 to 10.0."),
        ("num_beams", 2.5, "num_beams: 2.5 is not allowed; use a whole number from 1 to 64."),
        ("max_new_tokens", 1e6, "max_new_tokens: 1000000 is not allowed; use a whole number"),
    ],
)
def test_bad_input_gets_one_message_and_the_next_run_works(
    visitor: Visitor, name: str, value: float, message: str
) -> None:
    """Case 69."""
    visitor.set("max_new_tokens", 4)
    box = visitor.tab.locator(f"#param-{name} input")
    before = box.input_value()
    box.fill(f"{value:g}")
    visitor.tab.click("#run")
    visitor.tab.wait_for_selector("[data-testid=toast-body]", timeout=10_000)
    toasts = visitor.tab.locator("[data-testid=toast-text]").all_inner_texts()
    assert len(toasts) == 1 and toasts[0].startswith(message)
    assert set(visitor.states()) == {"idle"}
    box.fill(before)
    visitor.tab.click("[data-testid=toast-close]")
    visitor.tab.click("#run")
    visitor.wait_done()


def test_an_empty_prompt_is_refused(visitor: Visitor) -> None:
    """Case 54."""
    visitor.run("", tokens=4)
    toast = visitor.tab.wait_for_selector("[data-testid=toast-text]", timeout=10_000)
    assert toast.inner_text().startswith("prompt: '' is not allowed")


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
    visitor = Visitor(context, page_url, theme)
    visitor.run(tokens=12)
    visitor.wait_done()
    width, lefts = visitor.tab.evaluate(
        "[document.documentElement.scrollWidth,"
        " [...document.querySelectorAll('.dp-card')].map(c => c.getBoundingClientRect().left)]"
    )
    assert width <= 375 and len(set(lefts)) == 1
    assert visitor.tab.locator("#chart .main-svg").first.bounding_box()["width"] > 250
    context.close()
