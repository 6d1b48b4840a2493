"""Measured speculative runs that ship with the page: of its results, else of its traces."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from playground import results
from playground.lessons.speculation import MeasuredPoint, measured_points, pooled
from playground.ui.files import open_shipped, shipped
from playground.ui.strings import Words


@dataclass(frozen=True, slots=True)
class Measured:
    """Runs that were measured together; where: precision and device or processor."""

    kind: str  # "result" or "trace", the prefix of its name's string
    name: str
    points: tuple[MeasuredPoint, ...]
    where: tuple[str, str]

    def title(self, say: Words) -> str:
        """What it is called on the page."""
        return say.known(f"{self.kind}.{self.name}", self.name.replace("-", " "))


@cache
def measured() -> tuple[Measured, ...]:
    """Everything that drafted; a result's points are means over its prompts, a trace's one run."""
    found = [one for one in _of_results() if one.points]
    return tuple(found or [one for one in _of_traces() if one.points])


def _of_results() -> Iterator[Measured]:
    for name in results.shipped():
        result, text = results.open_shipped(name), results.rows_text(name)
        if text is None:
            continue
        speedups = {record["label"]: record.get("speedup") for record in result.records}
        rows = [json.loads(line) for line in text.splitlines() if line]
        own = [row for row in rows if row["model"] == "target"]
        precision = result.record.get("sweep", {}).get("precision", "")
        where = str(precision), str(result.visit.get("processor", ""))
        yield Measured("result", name, measured_points(pooled(own, speedups)), where)


def _of_traces() -> Iterator[Measured]:
    for name in shipped():
        comparison = open_shipped(name).comparison
        first = next(iter(comparison.results.values()))
        where = first.precision or "?", (first.device or "?").upper()
        yield Measured("trace", name, measured_points(comparison.rows()), where)
