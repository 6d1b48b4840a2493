"""The page as a Space starts it: its variables, a frame on another site, sharing, rendering."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import ROOT, start_page, wait_until_ready

SPACE = {
    "SYSTEM": "spaces",
    "SPACE_ID": "someone/playground",
    "SPACE_HOST": "someone-playground.hf.space",
    "SPACE_AUTHOR_NAME": "someone",
    "SPACE_REPO_NAME": "playground",
    "PYTHONPATH": str(ROOT / "tests" / "ui" / "lent"),  # Spaces have the package `spaces`
}


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A page that is told to share and to render on the server, where it can do neither, and whose
    way to the world is a proxy that does not know it."""
    log = tmp_path_factory.mktemp("space") / "log.txt"
    proxy = {name: "http://127.0.0.1:9" for name in ("http_proxy", "https_proxy")}
    told = {"GRADIO_SHARE": "True", "GRADIO_SSR_MODE": "True", "no_proxy": ""}
    process, url = start_page(log, **SPACE, **told, **proxy)
    wait_until_ready(url)
    yield url, log
    process.terminate()
    process.wait(30)


def test_a_space_starts_and_does_not_share(space: tuple[str, Path]) -> None:
    """Cases 74 and 77: told to share, it serves and says that it does not; a proxy in the way of
    Gradio's question to itself stops nothing."""
    url, log = space
    assert "window.gradio_config" in httpx.get(url).text  # the browser renders, whatever was told
    said = log.read_text("utf-8")
    assert "share=True is not supported on Hugging Face Spaces" in said
    assert "public URL" not in said and "SSR" not in said


def test_the_head_allows_frames_of_other_sites(space: tuple[str, Path]) -> None:
    """Case 74."""
    headers = httpx.get(space[0]).headers
    assert "x-frame-options" not in headers
    assert "frame-ancestors" not in headers.get("content-security-policy", "")


@pytest.mark.browser
def test_the_page_opens_at_its_address_and_in_a_frame(
    context: Any, space: tuple[str, Path]
) -> None:
    """Case 74: no white screen, neither alone nor in the frame that a Space's page is."""
    url = space[0]
    alone, around = context.new_page(), context.new_page()
    alone.goto(url)
    alone.wait_for_selector(".dp-card", timeout=60_000)
    around.set_content(f'<iframe src="{url}" width="1000" height="700"></iframe>')
    framed = around.frame_locator("iframe")
    framed.locator(".dp-card").first.wait_for(timeout=60_000)
    assert framed.locator("#prompt textarea").is_visible()
