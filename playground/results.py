"""Sweeps that are finished: those that ship with the project, read without any model."""

from __future__ import annotations

import csv
import gzip
import io
import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from playground.catalog import ASSETS
from playground.params import fail
from playground.types import to_json

_FOLDER = ASSETS / "results"
_TEXTS = {"label", "method", "model", "badge", "baseline"}


@dataclass(frozen=True, slots=True, eq=False)  # Gradio hashes states; one is only ever itself
class Result:
    """A sweep as it is shown. records: `sweep.summary`'s, one a configuration; record: its
    run.json; rows: of a sweep on the page, whose rows are in no file."""

    name: str
    records: list[dict[str, Any]]
    record: dict[str, Any]
    rows: list[dict[str, Any]] = field(default_factory=list)

    @property
    def visit(self) -> dict[str, Any]:
        """When, where and how: the last visit, on whose machine the last rows were made."""
        visits = self.record.get("visits") or [{}]
        return dict(visits[-1])

    def to_dict(self) -> dict[str, Any]:
        """Strict JSON values."""
        found = {"summary": self.records, "record": self.record, "rows": self.rows}
        return to_json(found)  # type: ignore[no-any-return]


def shipped() -> list[str]:
    """The names of the results that ship with the project."""
    return sorted(path.parent.name for path in _FOLDER.glob("*/summary.csv"))


@cache
def open_shipped(name: str) -> Result:
    """One of them. Raises ValueError for any other name."""
    if name not in shipped():
        raise fail("result", name, f"one of {', '.join(shipped()) or 'none: none is shipped'}")
    return read(_FOLDER / name)


def read(folder: Path) -> Result:
    """The result in a sweep's out folder; its rows stay in their file."""
    text = (folder / "summary.csv").read_text(encoding="utf-8")
    records = [_record(row) for row in csv.DictReader(io.StringIO(text, newline=""))]
    path = folder / "run.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return Result(folder.name, records, known)


def has_rows(name: str) -> bool:
    """Whether the rows of this result are shipped."""
    return name in shipped() and any((_FOLDER / name).glob("rows.jsonl*"))


def rows_text(name: str) -> str | None:
    """The rows of a shipped result, a line of JSON each; None where they are not shipped."""
    if name not in shipped():
        return None
    plain = _FOLDER / name / "rows.jsonl"
    if plain.exists():
        return plain.read_text(encoding="utf-8")
    packed = plain.with_suffix(".jsonl.gz")
    return gzip.decompress(packed.read_bytes()).decode() if packed.exists() else None


def _record(row: dict[str, str]) -> dict[str, Any]:
    """A line of summary.csv with its values in their types."""
    return {name: _value(name, text) for name, text in row.items()}


def _value(name: str, text: str) -> Any:
    if name in _TEXTS:
        return text
    if name == "on_front":
        return text == "True"
    return json.loads(text) if text else None
