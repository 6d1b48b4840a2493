"""The rows of a sweep on disk: one JSON line a run, appended as it ends.

A line is written by one call, so that a killed process leaves whole lines and at most one torn one
at the end, which is dropped. With several processes each appends to a file of its own; `gather`
makes one of them all. A row is known by its configuration's key and its prompt's id: of two that
agree in both the first counts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Place = tuple[str, str]  # configuration's key, prompt's id
ROWS = "rows.jsonl"


def place_of(row: Row) -> Place:
    """What a row is known by."""
    return row["key"], row["prompt_id"]


class Writer:
    """Appends rows to a file. Closing it waits until the disk has them."""

    def __init__(self, path: Path) -> None:
        _drop_torn_line(path)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, row: Row) -> None:
        """Append one row, whole."""
        line = (json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n").encode()
        if os.write(self._file, line) != len(line):
            raise OSError(f"the disk is full: a row of {len(line)} bytes was cut")

    def close(self) -> None:
        os.fsync(self._file)
        os.close(self._file)


def _drop_torn_line(path: Path) -> None:
    """Cut what a killed process left behind the last line break."""
    if path.exists():
        data = path.read_bytes()
        os.truncate(path, data.rfind(b"\n") + 1)


def file_of(folder: Path, rank: int, num_processes: int) -> Path:
    """The file that a process appends to."""
    return folder / (ROWS if num_processes == 1 else f"rows-{rank}.jsonl")


def read(path: Path) -> dict[Place, Row]:
    """The rows of a file in their order; a torn last line is left out.

    Raises ValueError with the line number for a line that is no row.
    """
    if not path.exists():
        return {}
    found: dict[Place, Row] = {}
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines[:-1], 1):
        try:
            row = json.loads(line)
            found.setdefault(place_of(row), row)
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"out: {path.name}, line {number}: not a row of a sweep.") from None
    return found


def gather(folder: Path, order: Iterable[Place]) -> dict[Place, Row]:
    """All rows of a folder in one file: those of `order` first, in that order; then the others.

    The new file replaces the old one in one step, and only then the processes' own are removed.
    """
    parts = sorted(folder.glob("rows-*.jsonl"))
    known = read(folder / ROWS)
    for part in parts:
        known = read(part) | known
    first = [place for place in order if place in known]
    rows = {place: known[place] for place in (*first, *known)}
    partial = folder / f"{ROWS}.partial"
    with partial.open("w", encoding="utf-8") as out:
        out.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows.values())
        out.flush()
        os.fsync(out.fileno())
    partial.replace(folder / ROWS)
    for part in parts:
        part.unlink()
    return rows
