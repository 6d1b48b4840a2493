"""The shipped experiments' answers as Plotly figures. Neither torch nor gradio; conventions as in
`charts`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from playground.charts import AXIS, GREY, NO_ZOOM, base_layout, colour_of, escape, three
from playground.lessons.tasks import BROAD, TaskGain
from playground.lessons.width import WidthPoint
from playground.quality import Interval

# What a figure says. The page has the same ids in its other languages.
WORDS = {
    "width": "beams W",
    "exact": "exact",
    "norm.none": "plain sum",
    "norm.length": "sum / length",
    "bleu": "BLEU",
    "chrf": "chrF",
    "mean_tokens": "tokens of the output",
    "mean_logprob": "ln p of the output under the target",
    "empty": "empty outputs, %",
    "cut": "outputs cut off, %",
    "misses": "proven optima missed, %",
    "divergence": "loss: KL(target‖output) spent, nats a token",
    "accepted_more": "gain: accepted, points more",
    "gain": "gain: tokens a target pass, × speculative",
    "per_nat": "points accepted per nat spent",
}
Words = Mapping[str, str]
# Quantities of a width, and what they are multiplied with.
WIDTH_SCALES = {
    "bleu": 1.0,
    "chrf": 1.0,
    "mean_tokens": 1.0,
    "mean_logprob": 1.0,
    "empty": 100.0,
    "cut": 100.0,
    "misses": 100.0,
}
TASK_SCALES = {"accepted_more": 100.0, "gain": 1.0, "per_nat": 100.0}

_PALETTE = ("#0072B2", "#009E73", "#56B4E9", "#D55E00", "#E69F00", "#8C6BB1")
_MARKS = ("circle", "square", "diamond", "circle-open", "square-open", "diamond-open")


def width_curves(
    points: Sequence[WidthPoint], quantity: str = "bleu", words: Words = WORDS
) -> go.Figure:
    """One of WIDTH_SCALES over the width, a line a length norm; exact search stands at the end."""
    scale, dashes = WIDTH_SCALES[quantity], {"none": "solid", "length": "dash"}
    widths = sorted({point.width for point in points if point.width is not None})
    places = [str(width) for width in widths] + [words["exact"]]
    traces = []
    for norm, dash in dashes.items():
        own = [p for p in points if p.norm == norm and p.width is not None]
        traces.append(
            _trace(
                [str(p.width) for p in own],
                [getattr(p, quantity) for p in own],
                scale,
                words[f"norm.{norm}"],
                {"color": colour_of("beam"), "dash": dash, "width": 2.5},
                "circle" if norm == "none" else "square",
            )
        )
    exact = [p for p in points if p.width is None]
    traces.append(
        _trace(
            [words["exact"] for _ in exact],
            [getattr(p, quantity) for p in exact],
            scale,
            words["exact"],
            {"color": GREY},
            "diamond",
        )
    )
    figure = _figure([t for t in traces if len(t.x)], words["width"], words[quantity])
    figure.update_xaxes(type="category", categoryorder="array", categoryarray=places)
    return figure.update_yaxes(rangemode="normal" if quantity == "mean_logprob" else "tozero")


def task_curves(
    gains: Sequence[TaskGain],
    quantity: str = "accepted_more",
    names: Mapping[str, str] | None = None,
    words: Words = WORDS,
) -> go.Figure:
    """One of TASK_SCALES over the divergence spent: a line a kind of task, a mark a budget. Kinds
    with many valid answers have filled marks, the others hollow ones and dashes."""
    kinds = list(dict.fromkeys(gain.task for gain in gains))
    traces = []
    for index, kind in enumerate(kinds):
        own = sorted((g for g in gains if g.task == kind), key=lambda g: g.budget)
        broad = kind in BROAD
        traces.append(
            _trace(
                [g.divergence.value for g in own],
                [getattr(g, quantity) for g in own],
                TASK_SCALES[quantity],
                (names or {}).get(kind, kind),
                {
                    "color": _PALETTE[index % len(_PALETTE)],
                    "dash": "solid" if broad else "dot",
                    "width": 2,
                },
                _MARKS[index % 3 + (0 if broad else 3)],
                [f"D {three(g.budget)}" for g in own],
            )
        )
    figure = _figure(traces, words["divergence"], words[quantity])
    figure.update_xaxes(rangemode="tozero")
    return figure.update_yaxes(rangemode="normal" if quantity == "gain" else "tozero")


def _trace(
    xs: Sequence[Any],
    values: Sequence[Interval | None],
    scale: float,
    name: str,
    line: Mapping[str, Any],
    symbol: str,
    notes: Sequence[str] | None = None,
) -> go.Scatter:
    """A line with its intervals; values that do not exist are left out."""
    known = [(x, v, i) for i, (x, v) in enumerate(zip(xs, values, strict=True)) if v is not None]
    shown = [name if notes is None else f"{name}, {notes[i]}" for _, _, i in known]
    return go.Scatter(
        x=[x for x, _, _ in known],
        y=[scale * v.value for _, v, _ in known],
        error_y={
            "type": "data",
            "symmetric": False,
            "array": [scale * (v.high - v.value) for _, v, _ in known],
            "arrayminus": [scale * (v.value - v.low) for _, v, _ in known],
            "thickness": 1,
            "width": 3,
        },
        mode="lines+markers",
        name=escape(name),
        line=dict(line),
        marker={"color": line["color"], "symbol": symbol, "size": 9},
        hovertext=[
            f"<b>{escape(note)}</b><br>{_span(v, scale)}"
            for note, (_, v, _) in zip(shown, known, strict=True)
        ],
        hoverinfo="text",
    )


def _span(value: Interval, scale: float) -> str:
    low, high = three(scale * value.low), three(scale * value.high)
    return f"{three(scale * value.value)} [{low}, {high}]"


def _figure(traces: Sequence[go.Scatter], x_title: str, y_title: str) -> go.Figure:
    axis = AXIS | {"fixedrange": True}
    return go.Figure(
        list(traces),
        layout=base_layout()
        | {
            "margin": {"l": 56, "r": 16, "t": 40, "b": 48},
            "height": 360,
            "showlegend": True,
            "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
            "modebar": NO_ZOOM,
            "xaxis": {**axis, "title": {"text": x_title}},
            "yaxis": {**axis, "title": {"text": y_title}},
        },
    )
