"""The axes of a speed-fidelity chart, and which runs no other beats on them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from playground.params import lookup

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Axis:
    """How the values of a row's key are drawn."""

    percent: bool = False
    lower_is_better: bool = False
    from_zero: bool = True


X_AXES = {"tokens_per_s": Axis(), "speedup": Axis(), "tokens_per_target_pass": Axis()}
Y_AXES = {
    "fidelity": Axis(percent=True),
    "mean_divergence": Axis(lower_is_better=True),
    "target_logprob": Axis(from_zero=False),
    "agreement": Axis(percent=True),
    "bleu": Axis(),
    "chrf": Axis(),
}


def axis_named(axes: Mapping[str, Axis], name: str, which: str) -> Axis:
    """The axis `name`, or ValueError naming the argument `which` and the known ones."""
    axis: Axis = lookup(dict(axes), name, which)
    return axis


def is_number(value: Any) -> bool:
    """Whether it is a finite number."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and math.isfinite(value)


def has(row: Row, *names: str) -> bool:
    """Whether the row has a finite number under each of these names."""
    return all(is_number(row.get(name)) for name in names)


def value_of(row: Row, name: str) -> float:
    """The row's number as it is drawn: shares in percent."""
    axis = X_AXES.get(name) or Y_AXES.get(name) or Axis(percent=name.endswith("_rate"))
    return float(row[name]) * (100.0 if axis.percent else 1.0)


def pareto(rows: Sequence[Row], x: str, y: str) -> list[Row]:
    """The rows that no other beats: none is as good on both axes and better on one. By rising x."""
    across, up = axis_named(X_AXES, x, "x"), axis_named(Y_AXES, y, "y")
    signs = [-1.0 if axis.lower_is_better else 1.0 for axis in (across, up)]
    known = [row for row in rows if has(row, x, y)]
    scores = [(signs[0] * value_of(row, x), signs[1] * value_of(row, y)) for row in known]
    beaten = [any(a >= c and b >= d and (a, b) != (c, d) for a, b in scores) for c, d in scores]
    kept = (row for row, lost in zip(known, beaten, strict=True) if not lost)
    return sorted(kept, key=lambda row: value_of(row, x))


def left_out(rows: Sequence[Row], x: str, y: str) -> list[str]:
    """Labels of the runs that have no value on one of the axes, or an infinite one."""
    return [str(row["label"]) for row in rows if not has(row, x, y)]


def available(rows: Sequence[Row], axes: Mapping[str, Axis]) -> list[str]:
    """The names of those axes on which at least one run has a value."""
    return [name for name in axes if any(is_number(row.get(name)) for row in rows)]
