from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from gradio_client import Client

from tests.conftest import start_page, wait_until_ready

SECRET = "xyzzy-quux"


class Served:
    """A page of our own, which may be ended."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "log.txt"
        self.process, self.url = start_page(self.log, PLAYGROUND_MAX_NEW_TOKENS="3000")

    def lines(self) -> list[dict[str, Any]]:
        """What was logged about runs."""
        lines = self.log.read_text("utf-8").splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    page = Served(tmp_path)
    yield page
    page.process.kill()
    page.process.wait(10)


def test_readiness_says_what_is_loaded_and_nothing_else(page_url: str) -> None:
    answer = httpx.get(f"{page_url}/healthz")
    record = answer.json()
    assert answer.status_code == 200 and record["state"] == "ready"
    assert record["pairs"]["chat"].keys() == {"state", "precision", "device"}
    assert record.keys() == {"state", "pairs", "running", "waiting", "uptime_s", "version"}
    assert record["waiting"] == 0 and record["uptime_s"] > 0
    assert "/" not in answer.text and os.environ["PATH"] not in answer.text


def test_a_page_without_its_pair_is_not_ready(tmp_path: Path) -> None:
    process, url = start_page(tmp_path / "log.txt", PLAYGROUND_DEVICE="cuda:77")
    try:
        end = time.monotonic() + 60
        while (answer := httpx.get(f"{url}/healthz")).json()["state"] == "loading":
            assert answer.status_code == 503 and time.monotonic() < end
            time.sleep(0.1)
        assert answer.status_code == 503 and answer.json()["state"] == "failed"
        assert "cuda" not in answer.text
    finally:
        process.kill()
        process.wait(10)


def test_every_run_leaves_one_line_without_text(served: Served) -> None:
    wait_until_ready(served.url)
    client = Client(served.url, verbose=False)
    runs = {SECRET: {"method": "greedy"}, "b": {"method": "beam", "num_beams": 2}}
    client.predict(SECRET, runs, 3, api_name="/compare")
    client.predict(SECRET, "sample", {"max_new_tokens": 2}, api_name="/decode")
    swept = {"methods": ["sample", "mentored"], "limit": 2, "max_new_tokens": 3}
    told = {"prompt": SECRET, "reference": SECRET, "kind": SECRET}
    records = [told | {"id": SECRET + end} for end in "ab"]
    client.predict(records, **swept, api_name="/sweep")
    lines = served.lines()
    assert [line["method"] for line in lines[:3]] == ["greedy", "beam", "sample"]
    assert [line["endpoint"] for line in lines[:3]] == ["/compare", "/compare", "/decode"]
    assert lines[0]["request"] == lines[1]["request"] != lines[2]["request"]
    assert [line["method"] for line in lines[3:]] == ["sample", "mentored"] * 2
    assert {line["endpoint"] for line in lines[3:]} == {"/sweep"}
    assert {line["pair"] for line in lines} == {"chat"}
    assert len({line["request"] for line in lines[3:]} | {lines[2]["request"]}) == 2
    for line in lines:
        names = {"time", "request", "endpoint", "method", "pair", "tokens", "seconds"}
        assert line.keys() == names | {"finish_reason"}
        assert line["tokens"] <= 3 and line["finish_reason"] in ("length", "eos")
    assert SECRET not in served.log.read_text("utf-8")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_page_and_a_run_keeps_what_it_has(
    served: Served, number: signal.Signals
) -> None:
    wait_until_ready(served.url)
    found: list[Any] = []
    params = {"max_new_tokens": 3000, "min_new_tokens": 3000}

    def ask() -> None:
        client = Client(served.url, verbose=False)
        found.append(client.predict("Count.", "greedy", params, api_name="/decode"))

    caller = threading.Thread(target=ask)
    caller.start()
    end = time.monotonic() + 60
    while not httpx.get(f"{served.url}/healthz").json()["running"]:
        assert time.monotonic() < end
        time.sleep(0.05)
    time.sleep(2.5)  # some of its 3000 tokens
    served.process.send_signal(number)
    try:
        assert served.process.wait(20) == 0
    except subprocess.TimeoutExpired:
        pytest.fail(f"the page lives on:\n{served.log.read_text()[-2000:]}")
    caller.join(10)
    assert found and found[0]["finish_reason"] == "cancelled"
    assert 0 < len(found[0]["token_ids"]) < 3000
    assert served.lines()[-1]["finish_reason"] == "cancelled"
