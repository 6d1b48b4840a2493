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
    RULE_COLOURS,
    RULE_SHAPES,
    WORDS,
    base_layout,
    colour_of,
    escape,
    steps,
    three,
)
from playground.label_places import Point, along, label_sides

Record = Mapping[str, Any]
_SHORT = {"num_draft_tokens": "γ", "divergence_budget": "D", "num_beams": "W"}
_FEW = 12  # marks that may all be named
_LETTER = 0.012  # of a label, against the plot: wider than on a desktop, narrower than on a phone
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


def frontier(
    records: Sequence[Record],
    x: str = "tokens_per_s",
    y: str = "bleu",
    words: Mapping[str, str] = WORDS,
) -> go.Figure:
    """Every configuration of a sweep with its intervals. Those that differ in draft length only, or
    in the one knob that a method or rule was swept over, are joined by a line. A dotted line is the
    Pareto front. Where there are many marks, only the ends of a line are named, and only marks on
    the front have bars; hovers have every interval.

    records: `sweep.summary` records; those without a value on either axis are left out.
    """
    axis_named(X_AXES, x, "x")
    axis_named(Y_AXES, y, "y")
    shown = [record for record in records if has(record, x, y)]
    best, few = pareto(records, x, y), len(shown) <= _FEW
    figure = go.Figure(_front(best, x, y, words["front"]))
    lines: dict[str, int] = {}
    for some, knob in _lines(shown):
        colour = colour_of_record(some[0])
        dash = _DASHES[lines.setdefault(colour, 0) % len(_DASHES)]
        lines[colour] += len(some) > 1
        trace = _trace(some, _name(some, knob), _marks(some, knob, few), (x, y), colour, dash)
        barred = [few or any(record is one for one in best) for record in some]
        trace.update(
            error_x=_errors(some, x, colour, barred),
            error_y=_errors(some, y, colour, barred),
            hovertext=[_hover(record, (x, y), words) for record in some],
        )
        figure.add_trace(trace)
    figure.update_layout(**_layout(words[x], words[y]))
    _keep_in_view(figure, shown, (x, y), words)
    _place_labels(figure, shown, steps(best, x, y), (x, y))
    return figure


def _place_labels(
    figure: go.Figure, records: Sequence[Record], front: Sequence[Point], axes: tuple[str, str]
) -> None:
    """Labels beside marks and lines rather than over them."""
    spans = []
    for name in axes:
        values = [value_of(record, name) for record in records if record["model"] == "target"]
        low, high = min(values, default=0.0), max(values, default=1.0)
        margin = 0.08 * (high - low) or 0.5
        spans.append((low - margin, high - low + 2 * margin))

    def place(point: Sequence[float]) -> Point:
        across, up = ((v - low) / span for v, (low, span) in zip(point, spans, strict=True))
        return across, up

    traces = [trace for trace in figure.data if trace.text is not None]
    marks = [
        (place(point), text)
        for trace in traces
        for *point, text in zip(trace.x, trace.y, trace.text, strict=True)
    ]
    points = [point for point, text in marks if text]
    others = [point for point, text in marks if not text] + along([place(p) for p in front])
    sides = iter(label_sides(points, [text for _, text in marks if text], others, _LETTER))
    for trace in traces:
        trace.textposition = [next(sides) if text else "top center" for text in trace.text]


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


def colour_of_record(record: Record) -> str:
    """The colour of a configuration's rule, else of its method."""
    if record["model"] == "draft":
        return GREY
    rule = (record["params"] or {}).get("verifier")
    return RULE_COLOURS.get(str(rule)) or colour_of(str(record["method"]))


def _trace(
    records: Sequence[Record],
    name: str,
    marks: Sequence[str],
    axes: tuple[str, str],
    colour: str,
    dash: str,
) -> go.Scatter:
    """One line: a mark for every configuration."""
    x, y = axes
    first = records[0]
    rule = str((first["params"] or {}).get("verifier"))
    return go.Scatter(
        x=[value_of(record, x) for record in records],
        y=[value_of(record, y) for record in records],
        mode="lines+markers+text" if len(records) > 1 else "markers+text",
        name=escape(name),
        text=[escape(mark) for mark in marks],
        textfont={"color": GREY, "size": 11},
        line={"color": colour, "dash": dash, "width": 1.5},
        marker={
            "color": colour,
            "size": 9,
            "symbol": "x" if first["model"] == "draft" else RULE_SHAPES.get(rule, "circle"),
        },
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
    """The texts at the marks of a line; unless `every`, at its ends only: both draft lengths, or
    the last of a knob's values, with the line's name."""
    if knob is None:
        return [str(record["label"]) for record in records]
    texts = [f"{_SHORT.get(knob, '')} {_value(record, knob)}".strip() for record in records]
    if every:
        return texts
    if knob != "num_draft_tokens":
        return [""] * (len(texts) - 1) + [str(records[-1]["label"])]
    return [texts[0], *[""] * (len(texts) - 2), texts[-1]]


def _value(record: Record, knob: str) -> str:
    return f"{record['params'][knob]:g}"


def _errors(
    records: Sequence[Record], name: str, colour: str, barred: Sequence[bool]
) -> dict[str, Any]:
    """Bars from the low to the high end of an interval, paler than the marks."""

    def distance(record: Record, drawn: bool, end: str) -> float:
        if not drawn or not has(record, f"{name}_{end}"):
            return 0.0
        away = abs(float(record[f"{name}_{end}"]) - float(record[name]))
        return away * _scale(record, name)

    return {
        "type": "data",
        "symmetric": False,
        "array": [distance(*one, "high") for one in zip(records, barred, strict=True)],
        "arrayminus": [distance(*one, "low") for one in zip(records, barred, strict=True)],
        "color": f"rgba({', '.join(str(int(colour[i : i + 2], 16)) for i in (1, 3, 5))}, 0.4)",
        "thickness": 1,
        "width": 2,
    }


def _hover(record: Record, axes: tuple[str, str], words: Mapping[str, str]) -> str:
    names = dict.fromkeys((*axes, "speedup", "acceptance_rate", "mean_divergence"))
    known = [name for name in names if has(record, name)]
    lines = [f"<b>{escape(str(record['label']))}</b>"]
    lines += [f"{escape(words[name])}: {_with_interval(record, name)}" for name in known]
    return "<br>".join(lines)


def _with_interval(record: Record, name: str) -> str:
    ends = [f"{name}_low", f"{name}_high"]
    value = three(value_of(record, name))
    if not has(record, *ends):
        return value
    scale = _scale(record, name)
    return f"{value} [{', '.join(three(scale * record[end]) for end in ends)}]"


def _scale(record: Record, name: str) -> float:
    """What the axis multiplies a record's number by (shares are shown in percent)."""
    return value_of(record, name) / record[name] if record[name] else 1.0


def _front(best: Sequence[Record], x: str, y: str, name: str) -> list[go.Scatter]:
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
