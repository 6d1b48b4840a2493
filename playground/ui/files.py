"""Trace files that the page opens, and the folder in which what visitors upload lies a while."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from playground import traces
from playground.catalog import ASSETS
from playground.params import fail
from playground.ui.results import Shown
from playground.ui.runs import MAX_RUNS

_FOLDER = ASSETS / "traces"
KEEP_S = 600  # an upload is read at once; a page that is slow to ask for it has this long
MAX_UPLOADS = 128  # that lie there at a time


def shipped() -> list[str]:
    """The names of the traces that ship with the page."""
    return sorted(path.stem for path in _FOLDER.glob("*.json"))


def open_shipped(name: str) -> Shown:
    """One of them. Raises ValueError for any other name."""
    if name not in shipped():
        raise fail("trace", name, f"one of {', '.join(shipped())}")
    return open_trace((_FOLDER / f"{name}.json").read_bytes())


def open_upload(path: str | None) -> Shown:
    """An uploaded file, which Gradio has put at `path`. Raises ValueError for what is no trace."""
    if path is None:
        raise fail("trace", path, "a file")
    with Path(path).open("rb") as file:
        return open_trace(file.read(traces.MAX_BYTES + 1))


def open_trace(data: bytes) -> Shown:
    """The comparison and setup in the bytes of a trace."""
    comparison, setup = traces.load(data)
    if len(comparison.results) > MAX_RUNS:
        raise fail("trace", f"{len(comparison.results)} runs", f"at most {MAX_RUNS} on this page")
    return Shown(comparison, setup, recorded=True)


def own_uploads() -> Path:
    """A folder of this process alone, removed when it ends, into which Gradio puts uploads."""
    folder = tempfile.mkdtemp(prefix="decoding-playground-", dir=os.environ.get("GRADIO_TEMP_DIR"))
    os.environ["GRADIO_TEMP_DIR"] = folder
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def room_for_upload(folder: Path) -> bool:
    """Whether another file may come into the folder of `own_uploads`. What is old, and what Gradio
    leaves empty, goes first."""
    return sum(not _went(path) for path in _inside(folder)) < MAX_UPLOADS


def _inside(folder: Path) -> Iterator[Path]:
    """Files below a folder, and folders behind what they hold."""
    for path in folder.iterdir() if folder.is_dir() else ():
        yield from _inside(path)
        yield path


def _went(path: Path) -> bool:
    """Remove a path if it is old. True if it does not count: it is gone, or a folder."""
    with contextlib.suppress(OSError):  # another request removed it, or the folder is not empty
        if time.time() - path.stat().st_ctime > KEEP_S:
            path.rmdir() if path.is_dir() else path.unlink()
    return not path.is_file()
