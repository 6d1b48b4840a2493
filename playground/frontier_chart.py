"""Quality against speed over a whole sweep, as one Plotly figure. Neither torch nor gradio."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from playground.axes import X_AXES, Y_AXES, axis_named, has, is_number, pareto, value_of
from playground.charts import (
    AXIS,
    GREY,
    LINE,
    RULE_SHAPES,
    WORDS,
    base_layout,
    colour_of,
    escape,
    three,
)

Record = Mapping[str, Any]
_SHORT = {"num_draft_tokens": "γ", "divergence_budget": "D"}
_FEW = 12  # marks that may all be named
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


def frontier(
    records: Sequence[Record],
    x: str = "tokens_per_s",
    y: str = "bleu",
    words: Mapping[str, str] = WORDS,
) -> go.Figure:
    """Every configuration of a sweep with its intervals. Those that differ in draft length only, or
    in the one knob that a method or rule was swept over, are joined by a line; where there are many
    marks, only the ends of a line are named. A dotted line is the Pareto front.

    records: `sweep.summary` records; those without a value on either axis are left out.
    """
    axis_named(X_AXES, x, "x")
    axis_named(Y_AXES, y, "y")
    shown = [record for record in records if has(record, x, y)]
    figure = go.Figure(_front(records, x, y, words["front"]))
    lines: dict[str, int] = {}
    for some, knob in _lines(shown):
        colour = _colour(some[0])
        dash = _DASHES[lines.setdefault(colour, 0) % len(_DASHES)]
        lines[colour] += len(some) > 1
        marks = _marks(some, knob, len(shown) <= _FEW)
        figure.add_trace(_trace(some, _name(some, knob), marks, (x, y), colour, dash, words))
    figure.update_layout(**_layout(words[x], words[y]))
    _keep_in_view(figure, shown, (x, y), words)
    return figure


def _keep_in_view(
    figure: go.Figure, records: Sequence[Record], axes: tuple[str, str], words: Mapping[str, str]
) -> None:
    """Let the range across follow the target's configurations: the draft alone, often several times
    as fast, would squeeze all others into a corner. Where it lies outside, an arrow says where."""
    x, y = axes
    own = [record for record in records if record["model"] == "target"]
    far = [record for record in records if record["model"] == "draft"]
    ends = [value_of(record, x) for record in own]
    if not ends or not far:
        return
    span = max(ends) - min(ends) or max(ends)
    high = max(ends) + span
    if all(value_of(record, x) <= high for record in far):
        return
    low = max(0.0, min(ends) - span)
    figure.update_xaxes(range=[low, high])
    for record in far:
        figure.add_annotation(
            x=1,
            xref="paper",
            y=value_of(record, y),
            xanchor="right",
            yshift=10,
            showarrow=False,
            text=f"{escape(str(record['label']))}: {three(value_of(record, x))} →",
            font={"color": GREY, "size": 11},
            hovertext=_hover(record, axes, words),
        )


def _lines(records: Sequence[Record]) -> list[tuple[list[Record], str | None]]:
    """Records in lines, each with the parameter along it; None where a line is one mark."""
    families: dict[str, list[Record]] = {}
    for record in records:
        rule = record["params"].get("verifier")
        families.setdefault(json.dumps([record["method"], record["model"], rule]), []).append(
            record
        )
    found: list[tuple[list[Record], str | None]] = []
    for family in families.values():
        knob = _knob(family)
        groups: dict[str, list[Record]] = {}
        for record in family:
            rest = {k: v for k, v in record["params"].items() if k != knob}
            groups.setdefault(json.dumps(rest, sort_keys=True, default=str), []).append(record)
        found += [(some, knob if len(some) > 1 else None) for some in groups.values()]
    return found


def _knob(family: Sequence[Record]) -> str | None:
    """What the members differ in: the draft length, else the only number that varies."""
    values: dict[str, set[Any]] = {}
    for record in family:
        for name, value in record["params"].items():
            if is_number(value):
                values.setdefault(name, set()).add(value)
    varied = [name for name, some in values.items() if len(some) > 1]
    if "num_draft_tokens" in varied:
        return "num_draft_tokens"
    return varied[0] if len(varied) == 1 else None


def _colour(record: Record) -> str:
    return GREY if record["model"] == "draft" else colour_of(record["method"])


def _trace(
    records: Sequence[Record],
    name: str,
    marks: Sequence[str],
    axes: tuple[str, str],
    colour: str,
    dash: str,
    words: Mapping[str, str],
) -> go.Scatter:
    """One line: a mark for every configuration, its interval on both axes."""
    x, y = axes
    first = records[0]
    rule = str((first["params"] or {}).get("verifier"))
    return go.Scatter(
        x=[value_of(record, x) for record in records],
        y=[value_of(record, y) for record in records],
        error_x=_errors(records, x, colour),
        error_y=_errors(records, y, colour),
        mode="lines+markers+text" if len(records) > 1 else "markers+text",
        name=escape(name),
        text=[escape(mark) for mark in marks],
        textposition="top center",
        textfont={"color": GREY, "size": 11},
        line={"color": colour, "dash": dash, "width": 1.5},
        marker={
            "color": colour,
            "size": 9,
            "symbol": "x" if first["model"] == "draft" else RULE_SHAPES.get(rule, "circle"),
        },
        hovertext=[_hover(record, axes, words) for record in records],
        hoverinfo="text",
    )


def _name(records: Sequence[Record], knob: str | None) -> str:
    """What the labels of a line have in common."""
    label = str(records[0]["label"])
    if knob is None:
        return label
    value = _value(records[0], knob)
    rule = records[0]["params"].get("verifier")
    for words in (_SHORT.get(knob, ""), "" if rule else knob.replace("_", " "), ""):
        label = label.replace(f" {words} {value}" if words else f" {value}", "", 1)
    return label


def _marks(records: Sequence[Record], knob: str | None, every: bool) -> list[str]:
    """The texts at the marks of a line; unless `every`, at its ends only."""
    if knob is None:
        return [str(record["label"]) for record in records]
    texts = [f"{_SHORT.get(knob, '')} {_value(record, knob)}".strip() for record in records]
    last = len(texts) - 1
    return [text if every or i in (0, last) else "" for i, text in enumerate(texts)]


def _value(record: Record, knob: str) -> str:
    return f"{record['params'][knob]:g}"


def _errors(records: Sequence[Record], name: str, colour: str) -> dict[str, Any]:
    """Bars from the low to the high end of an interval, paler than the marks."""

    def distance(record: Record, end: str) -> float:
        if not has(record, f"{name}_{end}"):
            return 0.0
        scale = value_of(record, name) / record[name] if record[name] else 1.0
        return abs(float(record[f"{name}_{end}"]) - float(record[name])) * scale

    return {
        "type": "data",
        "symmetric": False,
        "array": [distance(record, "high") for record in records],
        "arrayminus": [distance(record, "low") for record in records],
        "color": f"rgba({', '.join(str(int(colour[i : i + 2], 16)) for i in (1, 3, 5))}, 0.4)",
        "thickness": 1,
        "width": 2,
    }


def _hover(record: Record, axes: tuple[str, str], words: Mapping[str, str]) -> str:
    names = dict.fromkeys((*axes, "speedup", "acceptance_rate", "mean_divergence"))
    known = [name for name in names if has(record, name)]
    lines = [f"<b>{escape(str(record['label']))}</b>"]
    lines += [f"{escape(words[name])}: {three(value_of(record, name))}" for name in known]
    return "<br>".join(lines)


def _front(records: Sequence[Record], x: str, y: str, name: str) -> list[go.Scatter]:
    best = pareto(records, x, y)
    if len(best) < 2:
        return []
    return [
        go.Scatter(
            x=[value_of(record, x) for record in best],
            y=[value_of(record, y) for record in best],
            mode="lines",
            line={"color": GREY, "width": 1.5, "dash": "dot", "shape": "vh"},
            name=name,
            hoverinfo="skip",
        )
    ]


def _layout(x_title: str, y_title: str) -> dict[str, Any]:
    axis = AXIS | {"linecolor": LINE}
    return base_layout() | {
        "margin": {"l": 64, "r": 16, "t": 20, "b": 56},
        "xaxis": {**axis, "title": {"text": x_title}},
        "yaxis": {**axis, "title": {"text": y_title}},
    }
