"""A browser tab on the page, and what its visitor does there."""

from __future__ import annotations

from typing import Any

DONE = "document.querySelectorAll('.dp-card[data-state=done]').length == {}"
LONG_MS = 120_000
QUIET = ("idle", "recorded")  # nothing runs, nothing was stopped


class Visitor:
    """A tab, and the errors it has seen. `query` begins with "?" or is empty."""

    def __init__(self, context: Any, url: str, query: str = "?__theme=light") -> None:
        self.tab = context.new_page()
        self.errors: list[str] = []
        self.tab.on("console", self._note)
        self.tab.on("pageerror", lambda error: self.errors.append(str(error)))
        self.open(f"{url}/{query}")

    def open(self, address: str) -> None:
        """Go to an address and wait until the page can run."""
        self.tab.goto(address)
        self.tab.wait_for_selector(".dp-pair-ready", state="attached", timeout=LONG_MS)

    def _note(self, message: Any) -> None:
        if message.type == "error":
            self.errors.append(message.text)

    def set(self, name: str, value: object) -> None:
        self.tab.locator(f"#param-{name} input").fill(str(value))

    def open_editor(self) -> None:
        """Show what changes the set of runs."""
        if not self.tab.locator("#editor").is_visible():
            self.tab.click("#editor-toggle button")

    def edit(self, title: str) -> None:
        """Show the settings of the run whose title begins so."""
        self.open_editor()
        self.choose("edited", title)
        self.tab.wait_for_function(
            "t => document.querySelector('#edited input').value.startsWith(t)", arg=title
        )
        self.tab.wait_for_timeout(400)

    def choose(self, dropdown: str, text: str) -> None:
        """Pick the option of a dropdown that begins with a text."""
        self.tab.click(f"#{dropdown} input")
        options = self.tab.locator("[role=option]")
        options.filter(has_text=text).first.click()

    def tick(self, *titles: str) -> None:
        """Only the runs whose titles begin so take part."""
        for label in self.tab.locator("#runs label").all():
            wanted = label.inner_text().strip().startswith(titles)
            label.locator("input").set_checked(wanted)

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
        self.wait_chart()

    def wait_chart(self) -> None:
        self.tab.wait_for_selector("#chart .textpoint", state="attached", timeout=LONG_MS)

    def wait_value(self, selector: str, value: str) -> None:
        """Until a control has this value."""
        self.tab.wait_for_function(
            "([s, v]) => document.querySelector(s)?.value === v", arg=[selector, value]
        )

    def wait_style(self, selector: str, name: str, value: str) -> None:
        """Until what is drawn has this style."""
        self.tab.wait_for_function(
            "([s, n, v]) => getComputedStyle(document.querySelector(s))[n] === v",
            arg=[selector, name, value],
        )

    def wait_running(self) -> None:
        self.tab.wait_for_selector(".dp-running .dp-text:not(.dp-none)", timeout=LONG_MS)

    def states(self) -> list[str]:
        found = self.tab.locator(".dp-card").all()
        return [card.get_attribute("data-state") for card in found]

    def runs(self) -> list[str]:
        """The labels of all cards."""
        cards = self.tab.locator(".dp-card").all()
        return [card.get_attribute("data-run") for card in cards if card.is_visible()]

    def titles(self) -> list[str]:
        """The runs that can be ticked, as they are shown."""
        labels = self.tab.locator("#runs label").all_inner_texts()
        return [text.strip().replace("\u00a0", " ") for text in labels]

    def text(self, run: str) -> str:
        return str(self.tab.locator(f"[data-run='{run}'] .dp-text").text_content())

    def toast(self) -> str:
        """The message that pops up."""
        found = self.tab.wait_for_selector("[data-testid=toast-text]", timeout=10_000)
        return str(found.inner_text())
