"""Rows as CSV, for spreadsheets."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from playground.types import to_json

_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what makes a spreadsheet run a cell


def rows_to_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """One line a row under a head of all their keys; records in a cell are JSON, None is empty.

    A text that a spreadsheet would run as a formula gets an apostrophe in front; numbers do not.
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(_cell(name) for name in names)
    for row in rows:
        writer.writerow(_cell(row.get(name)) for name in names)
    return out.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, (dict, list, tuple)):
        value = json.dumps(to_json(value), ensure_ascii=False)
    if not isinstance(value, str):
        return value
    return f"'{value}" if value.startswith(_FORMULA) and not _is_numeric(value) else value


def _is_numeric(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
