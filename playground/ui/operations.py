"""What an operator sees of the page: whether it is ready, what it ran, and its orderly end."""

from __future__ import annotations

import json
import logging
import os
import secrets
import signal
import threading
import time
import tomllib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from playground.catalog import page_pairs
from playground.types import DecodeResult
from playground.ui.worker import Worker

_PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
_log = logging.getLogger("playground.runs")


def readiness(worker: Worker, num_waiting: Callable[[], int]) -> Route:
    """GET /healthz: what is loaded and how much waits; status 503 while no pair can serve."""
    started = time.monotonic()
    version = tomllib.loads(_PROJECT.read_text("utf-8"))["project"]["version"]

    async def answer(request: Request) -> JSONResponse:
        pairs: dict[str, Any] = {}
        for spec in page_pairs():
            status = worker.status(spec.name)
            if status.state != "absent":  # without its reason: that may name folders
                where = {"precision": status.precision, "device": status.device}
                pairs[spec.name] = {"state": status.state, **where}
        states = {pair["state"] for pair in pairs.values()}
        state = next((s for s in ("ready", "loading") if s in states), "failed")
        record = {
            "state": state,
            "pairs": pairs,
            "running": worker.busy,
            "waiting": num_waiting(),
            "uptime_s": round(time.monotonic() - started, 1),
            "version": version,
        }
        return JSONResponse(record, 200 if state == "ready" else 503)

    return Route("/healthz", answer)


def reach_itself() -> None:
    """Keep a proxy of the environment from standing between the page and itself: Gradio asks its
    own server whether it answers, and gives up where it does not."""
    for name in ("no_proxy", "NO_PROXY"):
        kept = [os.environ[name]] if os.environ.get(name) else []
        os.environ[name] = ",".join([*kept, "localhost", "127.0.0.1"])


def log_to_stderr() -> None:
    """Write the lines of `log_run` to stderr, and nowhere else."""
    if not _log.handlers:
        _log.addHandler(logging.StreamHandler())
        _log.setLevel(logging.INFO)
        _log.propagate = False


def new_id() -> str:
    """A name for one request, under which the log has its runs."""
    return secrets.token_hex(4)


def log_run(request: str, endpoint: str, result: DecodeResult) -> None:
    """One line of JSON for one run that has ended: figures, no text, nothing of the visitor."""
    metrics = result.metrics
    figures = {"num_new_tokens": metrics.num_new_tokens, "total_s": metrics.total_s}
    ended = {"method": result.method, "finish_reason": result.finish_reason}
    log_row(request, endpoint, result.pair, ended | figures)


def log_row(request: str, endpoint: str, pair: str | None, row: dict[str, Any]) -> None:
    """The same for a row of a sweep."""
    line = {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "request": request,
        "endpoint": endpoint,
        "method": row["method"],
        "pair": pair,
        "tokens": row["num_new_tokens"],
        "seconds": round(row["total_s"], 4),
        "finish_reason": row["finish_reason"],
    }
    _log.info(json.dumps(line))


def wait_for_end() -> None:
    """Return at SIGTERM or Ctrl-C; a second one ends the process at once."""
    told = threading.Event()

    def tell(number: int, frame: Any) -> None:
        signal.signal(number, signal.SIG_DFL)
        told.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, tell)
    told.wait()
