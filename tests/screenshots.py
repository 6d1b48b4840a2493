"""Pictures of every tab in both themes, languages and widths: python -m tests.screenshots FOLDER"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from playground.ui.setup import LESSONS, TABS
from tests.conftest import launch_chromium, start_page, wait_until_ready
from tests.visitor import Visitor

VIEWS = [tab for tab in TABS if tab != "learn"] + [f"learn&lesson={slug}" for slug in LESSONS]


def take(visitor: Visitor, path: Path) -> None:
    """A picture of the whole page, once its charts have settled."""
    visitor.tab.evaluate("document.activeElement?.blur()")
    visitor.tab.wait_for_timeout(1200)
    visitor.tab.screenshot(path=path, full_page=True)


def main(folder: Path) -> None:
    """Write the pictures, and say what the browser complained about."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work, sync_playwright() as playwright:
        process, url = start_page(Path(work) / "log.txt")
        try:
            wait_until_ready(url)
            for width in (1280, 375):
                for language, locale in (("en", "en-US"), ("zh", "zh-CN")):
                    context = launch_chromium(playwright, width, 900, locale)
                    shoot(context, url, folder, f"{language}-{width}")
                    context.close()
        finally:
            process.terminate()


def shoot(context: Any, url: str, folder: Path, name: str) -> None:
    """All tabs of one language and width, in both themes."""
    for theme in ("light", "dark"):
        for tab in VIEWS:
            visitor = Visitor(context, url, f"?__theme={theme}&lang={name[:2]}&tab={tab}")
            shown = tab.rpartition("=")[2]
            visitor.wait_chart() if tab == "compare" else None
            take(visitor, folder / f"{shown}-{name}-{theme}.png")
            for error in visitor.errors:
                print(f"{shown}-{name}-{theme}: {error}", file=sys.stderr)
            visitor.tab.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
