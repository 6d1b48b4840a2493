"""One real page for all tests that need one: `python app.py` in a process of its own."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from gradio_client import Client

from tests.visitor import Visitor

torch.set_num_threads(1)  # the models of most tests are tiny: threads would only wait

ROOT = Path(__file__).resolve().parent.parent
START_S = 120.0
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def in_a_loop(work: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine returns, in a thread of its own: Playwright's loop runs in the main one."""
    with ThreadPoolExecutor(1) as other:
        return other.submit(lambda: asyncio.run(work)).result()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start_page(
    log: Path, root: Path = ROOT, **environment: str
) -> tuple[subprocess.Popen[bytes], str]:
    """The page in `root` on a free port, once it answers; its output goes to `log`."""
    port = free_port()
    own = {"GRADIO_ANALYTICS_ENABLED": "False", "GRADIO_SERVER_PORT": str(port), **environment}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "app.py"], cwd=root, env=os.environ | own, stdout=output, stderr=output
        )
    url, end = f"http://127.0.0.1:{port}", time.monotonic() + START_S
    while time.monotonic() < end and process.poll() is None:
        try:
            httpx.get(url, timeout=5)
            return process, url
        except httpx.TransportError:
            time.sleep(0.1)
    process.kill()
    raise RuntimeError(f"the page did not start:\n{log.read_text()[-3000:]}")


def wait_until_ready(url: str) -> None:
    """Return when the page's pair is loaded and warm; fail with the page's own reason."""
    client, end = Client(url, verbose=False), time.monotonic() + START_S
    while time.monotonic() < end:
        status = client.predict(api_name="/pairs")[0]["status"]
        if status["state"] == "ready":
            return
        assert status["state"] == "loading", status["reason"]
        time.sleep(0.2)
    raise AssertionError("the pair is still loading")


@pytest.fixture(scope="session")
def page_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the page of `page_url` writes to its terminal."""
    return tmp_path_factory.mktemp("page") / "log.txt"


@pytest.fixture(scope="session")
def page(page_log: Path) -> Iterator[tuple[str, int]]:
    """The address of a running, warm page, and its process."""
    process, url = start_page(page_log, PLAYGROUND_MAX_NEW_TOKENS="3000")  # for runs that last
    try:
        wait_until_ready(url)
        yield url, process.pid
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture(scope="session")
def page_url(page: tuple[str, int]) -> str:
    """The address of the page."""
    return page[0]


@pytest.fixture(scope="session")
def page_pid(page: tuple[str, int]) -> int:
    """The process of the page."""
    return page[1]


def launch_chromium(
    playwright: Any, width: int = 1280, height: int = 900, language: str = "en-US"
) -> Any:
    """A browser with a fresh profile."""
    return playwright.chromium.launch_persistent_context(
        tempfile.mkdtemp(prefix="dp-profile-"),
        executable_path=CHROMIUM,
        args=FLAGS,
        viewport={"width": width, "height": height},
        locale=language,
        accept_downloads=True,
    )


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A playwright chromium launcher: call it with a viewport width for a fresh profile."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    with sync_api.sync_playwright() as playwright:
        yield partial(launch_chromium, playwright)


@pytest.fixture
def context(chromium: Any) -> Iterator[Any]:
    """A fresh browser."""
    opened = chromium()
    yield opened
    opened.close()


@pytest.fixture
def phone(chromium: Any) -> Iterator[Any]:
    """A fresh browser as narrow as a phone."""
    opened = chromium(375, 800)
    yield opened
    opened.close()


@pytest.fixture
def visitor(context: Any, page_url: str) -> Visitor:
    """Somebody on the page."""
    return Visitor(context, page_url)
