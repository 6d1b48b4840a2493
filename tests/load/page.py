"""`python -m tests.load.page`: what showing a comparison costs, beside decoding it; JSON.

The same five runs of 200 tokens four ways: by the library alone, through the page's worker and
painter, by HTTP from a running page, and on that page in a browser on this machine (whose drawing
then takes from the same cores). `decode_s` is the decoding alone, by the runs' own clocks; `wall_s`
all of it; `frames`, of the browser, the seconds between two pictures: the median and the longest.
"""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from gradio_client import Client
from playwright.sync_api import sync_playwright

from playground.compare import compare
from playground.models import ModelPair
from playground.session import use_cores
from playground.ui.results import Choice, Results
from playground.ui.setup import fresh, to_query
from playground.ui.strings import ENGLISH
from playground.ui.updates import updates
from playground.ui.worker import PageSettings, Worker
from tests.conftest import CHROMIUM, FLAGS, start_page, wait_until_ready
from tests.visitor import Visitor

LAPS = 2
CORES = len(os.sched_getaffinity(0))  # the tests' configuration has set torch to one
SETUP = dataclasses.replace(
    fresh("chat"),
    common={"max_new_tokens": 200, "min_new_tokens": 200, "temperature": 0.7, "seed": 0},
)
_WATCH = """() => {
  window.frames = []; let last = performance.now();
  const next = (now) => { frames.push(now - last); last = now; requestAnimationFrame(next); };
  requestAnimationFrame(next);
}"""


def by_library(worker: Worker) -> dict[str, float]:
    def work(pair: ModelPair) -> float:
        found = compare(pair, SETUP.prompt, SETUP.runs, **SETUP.common)
        return sum(result.metrics.total_s for result in found.results.values())

    with worker.request(None) as stop:
        start = time.perf_counter()
        decode = worker.call("chat", work, stop)
        return {"decode_s": decode, "wall_s": time.perf_counter() - start}


def by_painter(worker: Worker) -> dict[str, float]:
    names: Any = {f.name: f.name for f in dataclasses.fields(Results)}
    results = Results(**names | {"say": ENGLISH, "cards": [f"card{i}" for i in range(8)]})
    visitor: Any = SimpleNamespace(session_hash="painter")
    start, sent = time.perf_counter(), 0
    for update in updates(worker, results, SETUP, Choice(), visitor):
        sent += 1
        if "shown" in update and update["shown"] is not None:
            rows = update["shown"].comparison.rows()
    wall = time.perf_counter() - start
    return {"decode_s": sum(row["total_s"] for row in rows), "wall_s": wall, "updates": sent}


def by_http(client: Client) -> dict[str, float]:
    common = dict(SETUP.common)
    base = [common.pop(name) for name in ("max_new_tokens", "temperature", "seed")]
    start = time.perf_counter()
    found = client.predict(SETUP.prompt, dict(SETUP.runs), *base, common, api_name="/compare")
    decode = sum(row["total_s"] for row in found["rows"])
    return {"decode_s": decode, "wall_s": time.perf_counter() - start}


def by_browser(context: Any, url: str) -> dict[str, Any]:
    visitor = Visitor(context, url, f"?{to_query(SETUP, 'en')}")
    visitor.tab.evaluate(_WATCH)
    start = time.perf_counter()
    visitor.tab.click("#run")
    visitor.wait_done()
    wall = time.perf_counter() - start
    frames = sorted(visitor.tab.evaluate("frames"))
    table = visitor.tab.locator("#table td:nth-child(4)").all_inner_texts()
    visitor.tab.close()
    return {
        "decode_s": sum(float(text) for text in table),
        "wall_s": wall,
        "frames": {"median_s": statistics.median(frames) / 1e3, "longest_s": frames[-1] / 1e3},
    }


def median(laps: list[dict[str, Any]]) -> dict[str, Any]:
    return sorted(laps, key=lambda lap: float(lap["wall_s"]))[len(laps) // 2]


def main() -> int:
    use_cores(CORES)
    worker = Worker(PageSettings())
    by_library(worker)
    laps = [(by_library(worker), by_painter(worker)) for _ in range(LAPS)]
    report = {"library": median([a for a, _ in laps]), "painter": median([b for _, b in laps])}
    worker.close()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        process, url = start_page(Path(folder) / "log.txt")
        try:
            wait_until_ready(url)
            client = Client(url, verbose=False)
            by_http(client)
            report["http"] = median([by_http(client) for _ in range(LAPS)])
            browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            context = browser.new_context(viewport={"width": 1280, "height": 900})
            by_browser(context, url)
            report["browser"] = median([by_browser(context, url) for _ in range(LAPS)])
            browser.close()
        finally:
            process.terminate()
            process.wait(30)
    print(json.dumps(report, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
