"""Trace files that the page opens: those that ship with it, and what a visitor uploads."""

from __future__ import annotations

from pathlib import Path

from playground import traces
from playground.catalog import ASSETS
from playground.params import fail
from playground.ui.results import Shown
from playground.ui.runs import MAX_RUNS

_FOLDER = ASSETS / "traces"


def shipped() -> list[str]:
    """The names of the traces that ship with the page."""
    return sorted(path.stem for path in _FOLDER.glob("*.json"))


def open_shipped(name: str) -> Shown:
    """One of them. Raises ValueError for any other name."""
    if name not in shipped():
        raise fail("trace", name, f"one of {', '.join(shipped())}")
    return open_trace((_FOLDER / f"{name}.json").read_bytes())


def open_upload(path: str) -> Shown:
    """An uploaded file, which Gradio has put at `path`. Raises ValueError for what is no trace."""
    with Path(path).open("rb") as file:
        return open_trace(file.read(traces.MAX_BYTES + 1))


def open_trace(data: bytes) -> Shown:
    """The comparison and setup in the bytes of a trace."""
    comparison, setup = traces.load(data)
    if len(comparison.results) > MAX_RUNS:
        raise fail("trace", f"{len(comparison.results)} runs", f"at most {MAX_RUNS} on this page")
    return Shown(comparison, setup, recorded=True)
