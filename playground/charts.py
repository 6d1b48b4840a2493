"""Rows -> Plotly figures. Neither torch nor gradio.

Figures have no paper of their own and mid-grey lines, so that they sit on light and dark pages.
Every string that comes from outside is escaped: Plotly reads markup in text and hovers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import plotly.graph_objects as go

from playground.axes import X_AXES, Y_AXES, Axis, Row, axis_named, has, pareto, value_of
from playground.label_places import Point, along, label_sides

COLOURS = {
    "sample": "#7F7F7F",
    "greedy": "#0072B2",
    "beam": "#E69F00",
    "diverse_beam": "#E69F00",
    "exact": "#E69F00",
    "speculative": "#56B4E9",
    "mentored": "#CC79A7",
}
_OTHER = "#56B4E9"
# A method that shares its colour with another has a shape of its own, and so has every rule.
_SHAPES = {"diverse_beam": "square", "exact": "diamond"}
RULE_SHAPES = {
    "block": "square",
    "mentored": "star",
    "lenience": "diamond",
    "ensemble": "triangle-up",
    "typical": "triangle-down",
    "top_k": "cross",
    "relaxed": "x",
    "cactus": "pentagon",
    "cascade": "hexagon",
}
# Where rules are compared with each other, they have colours, too.
RULE_COLOURS = {
    "mentored": "#CC79A7",
    "lenience": "#E69F00",
    "ensemble": "#009E73",
    "typical": "#D55E00",
    "top_k": "#0072B2",
    "relaxed": "#8C6BB1",
    "cactus": "#A6761D",
    "cascade": "#999933",
}
GREY, LINE = "#808080", "rgba(128,128,128,0.25)"


# What a figure says. The page has the same ids in its other languages.
WORDS = {
    "tokens_per_s": "speed, tokens per second",
    "speedup": "speed-up over the baseline, ×",
    "tokens_per_target_pass": "new tokens per target pass",
    "fidelity": "fidelity, %",
    "mean_divergence": "KL spent, nats per token (lower is closer)",
    "target_logprob": "ln p per token under the target",
    "agreement": "agreement with greedy, %",
    "bleu": "BLEU",
    "chrf": "chrF",
    "front": "Pareto front",
    "predicted": "predicted at the measured draft cost",
    "predicted_cheap": "predicted at draft cost 0.05",
    "acceptance_rate": "accepted, %",
}
# Speed-up that the formula gives at a row's acceptance: its key, its words, its mark.
_PREDICTED = (
    ("predicted_speedup", "predicted", "-open"),
    ("predicted_speedup_cheap_draft", "predicted_cheap", "-open-dot"),
)
Range = tuple[float, float]


def three(value: float) -> str:
    """`value` with three significant digits and a true minus sign, no exponent where it can be
    helped."""
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0 or math.isnan(value):
        return f"{value:g}"
    sign, rounded = "−" if value < 0 else "", float(f"{abs(value):.2e}")
    decimals = 2 - math.floor(math.log10(rounded))
    return sign + (f"{rounded:.2e}" if decimals > 6 else f"{rounded:,.{max(0, decimals)}f}")


def escape(text: str) -> str:
    """`text` as Plotly must be given it to show it literally."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def colour_of(method: str) -> str:
    """The method's colour, the same on cards, chart and table."""
    return COLOURS.get(method, _OTHER)


def speed_fidelity(
    rows: Sequence[Row],
    x: str = "tokens_per_s",
    y: str = "fidelity",
    words: Mapping[str, str] = WORDS,
) -> go.Figure:
    """Speed against fidelity, one mark a run, and the Pareto front; hollow marks are predictions.

    rows: `Comparison.rows()`; x, y: names of X_AXES and Y_AXES. Runs without a value on either axis
    are left out. Where a run was timed more than once, a bar spans its slowest and fastest time.
    With x="speedup" the formula's speed-up at the run's own acceptance stands beside the measured.
    """
    across, up = axis_named(X_AXES, x, "x"), axis_named(Y_AXES, y, "y")
    shown = [row for row in rows if has(row, x, y)]
    points = [(value_of(row, x), value_of(row, y)) for row in shown]
    predicted = [_predictions(shown, y, key, words[name], mark) for key, name, mark in _PREDICTED]
    predicted = [trace for trace in predicted if x == "speedup" and trace.x]
    hollow = [point for trace in predicted for point in zip(trace.x, trace.y, strict=True)]
    highs = [high for row in shown if (high := _spread(row, x)[1]) is not None]
    ranges = (
        _range(across, [p[0] for p in points + hollow] + highs),
        _range(up, [p[1] for p in points]),
    )
    front = pareto(rows, x, y)
    ends = [(e, value_of(row, y)) for row in shown for e in _spread(row, x) if e is not None]
    places = [_place(p, ranges) for p in points]
    taken = [_place(p, ranges) for p in (*hollow, *ends)]
    taken += along([_place(p, ranges) for p in steps(front, x, y)])
    sides = label_sides(places, [str(row["label"]) for row in shown], taken)
    figure = go.Figure([*_front(front, x, y, words["front"]), *predicted])
    for row, point, side in zip(shown, points, sides, strict=True):
        figure.add_trace(_mark(row, point, side, x, words, y))
    figure.update_layout(**_layout(words[x], words[y], ranges))
    return figure


def publication(figure: go.Figure) -> go.Figure:
    """The same figure for print: white paper, black axes, larger letters and marks."""
    copy = go.Figure(figure)
    ink = {"color": "#000000", "linecolor": "#000000", "gridcolor": "#E0E0E0", "ticks": "outside"}
    copy.update_layout(
        paper_bgcolor="#FFFFFF",
        plot_bgcolor="#FFFFFF",
        font={"color": "#000000", "size": 18, "family": "Arial, Helvetica, sans-serif"},
        width=1000,
        height=640,
        margin={"l": 90, "r": 40, "t": 30, "b": 90},
    )
    copy.update_xaxes(showline=True, zerolinecolor="#E0E0E0", **ink)
    copy.update_yaxes(showline=True, zerolinecolor="#E0E0E0", **ink)
    copy.update_traces(textfont={"color": "#000000", "size": 17}, selector={"mode": "markers+text"})
    copy.update_traces(marker={"size": 16}, selector={"mode": "markers+text"})
    return copy


def _spread(row: Row, x: str) -> tuple[float | None, float | None]:
    """The slowest and the fastest of a run's repeats, in the units of the axis."""
    if (row.get("num_repeats") or 1) < 2 or x == "tokens_per_target_pass":
        return None, None
    if not has(row, "tokens_per_s_low", "tokens_per_s_high") or not row.get("tokens_per_s"):
        return None, None
    unit = float(row[x]) / float(row["tokens_per_s"])
    return unit * float(row["tokens_per_s_low"]), unit * float(row["tokens_per_s_high"])


def _range(axis: Axis, values: Sequence[float]) -> Range:
    if axis.percent:
        return 0.0, 104.0
    if axis.from_zero:
        return 0.0, 1.2 * max([*values, 1e-9])
    low, high = min(values, default=-1.0), max(values, default=0.0)
    margin = 0.15 * (high - low) or 0.5
    return low - margin, high + margin


def _place(point: Point, ranges: tuple[Range, Range]) -> Point:
    x, y = ((v - low) / (high - low) for v, (low, high) in zip(point, ranges, strict=True))
    return x, y


def _front(rows: Sequence[Row], x: str, y: str, name: str) -> list[go.Scatter]:
    """The edge of what the best runs beat, as steps; nothing for a single one."""
    if len(rows) < 2:
        return []
    line = {"color": GREY, "width": 1.5, "dash": "dot", "shape": "vh"}
    xs, ys = [value_of(row, x) for row in rows], [value_of(row, y) for row in rows]
    return [go.Scatter(x=xs, y=ys, mode="lines", line=line, name=name, hoverinfo="skip")]


def steps(front: Sequence[Row], x: str, y: str) -> list[Point]:
    """The corners of the line that `_front` draws: down first, then across."""
    points = [(value_of(row, x), value_of(row, y)) for row in front]
    corners = points[:1]
    for (before, _), after in pairwise(points):
        corners += [(before, after[1]), after]
    return corners


def _predictions(rows: Sequence[Row], y: str, key: str, name: str, mark: str) -> go.Scatter:
    """Hollow marks at the formula's speed-up, in the colour and the shape of the run."""
    known = [row for row in rows if has(row, key)]
    texts = [
        f"<b>{escape(str(row['label']))}</b><br>{escape(name)}: {three(row[key])}×" for row in known
    ]
    return go.Scatter(
        x=[float(row[key]) for row in known],
        y=[value_of(row, y) for row in known],
        mode="markers",
        name=name,
        marker={
            "color": [colour_of(str(row["method"])) for row in known],
            "symbol": [_shape(row) + mark for row in known],
            "size": 12,
            "line": {"width": 2},
        },
        hovertext=texts,
        hoverinfo="text",
        cliponaxis=False,
    )


def _mark(
    row: Row, point: Point, side: str, x: str, words: Mapping[str, str], y: str
) -> go.Scatter:
    colour, label = colour_of(str(row["method"])), escape(str(row["label"]))
    low, high = _spread(row, x)
    spread = None
    if low is not None and high is not None:
        spread = {
            "type": "data",
            "symmetric": False,
            "array": [max(0.0, high - point[0])],
            "arrayminus": [max(0.0, point[0] - low)],
            "thickness": 1.5,
            "width": 4,
            "color": colour,
        }
    return go.Scatter(
        x=[point[0]],
        y=[point[1]],
        mode="markers+text",
        name=label,
        text=[label],
        textposition=side,
        textfont={"color": GREY, "size": 12},
        marker={"color": colour, "size": 12, "symbol": _shape(row)},
        error_x=spread,
        hovertext=[_hover(row, x, y, words)],
        hoverinfo="text",
        showlegend=False,
        cliponaxis=False,
    )


def _shape(row: Row) -> str:
    rule = (row.get("params") or {}).get("verifier")
    return RULE_SHAPES.get(str(rule)) or _SHAPES.get(str(row["method"]), "circle")


def _hover(row: Row, x: str, y: str, words: Mapping[str, str]) -> str:
    names = dict.fromkeys((x, y, "tokens_per_s", "speedup", "fidelity", "acceptance_rate"))
    known = [name for name in names if has(row, name)]
    lines = [f"<b>{escape(str(row['label']))}</b>"]
    lines += [f"{escape(words[name])}: {three(value_of(row, name))}" for name in known]
    settings = [
        f"{name} {value}"
        for name, value in (row.get("params") or {}).items()
        if value not in (None, "", [], ())
    ]
    lines += [escape(", ".join(settings[i : i + 3])[:160]) for i in range(0, len(settings), 3)]
    return "<br>".join(lines)


def base_layout() -> dict[str, Any]:
    """What every figure's layout begins with: no paper, mid grey, hovers of one point."""
    return {
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": GREY, "family": "system-ui, sans-serif"},
        "hovermode": "closest",
        "hoverlabel": {"align": "left"},
        "modebar": {
            "bgcolor": "rgba(0,0,0,0)",
            "color": GREY,
            "activecolor": COLOURS["greedy"],
            "remove": ["select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d"],
        },
    }


AXIS: dict[str, Any] = {"color": GREY, "gridcolor": LINE, "zerolinecolor": LINE}
# Figures on the page do not zoom: a finger that scrolls past must not move them.
NO_ZOOM = {"remove": ["select", "lasso", "autoscale", "zoom", "pan", "resetscale"]}


def _layout(x_title: str, y_title: str, ranges: tuple[Range, Range]) -> dict[str, Any]:
    axis = AXIS | {"linecolor": LINE, "fixedrange": True}
    return base_layout() | {
        "margin": {"l": 56, "r": 16, "t": 20, "b": 48},
        "height": 380,
        "showlegend": True,
        "legend": {
            "orientation": "h",
            "x": 0,
            "y": -0.2,
            "yanchor": "top",
            "itemsizing": "constant",
        },
        "modebar": NO_ZOOM,
        "xaxis": {**axis, "title": {"text": x_title}, "range": list(ranges[0])},
        "yaxis": {**axis, "title": {"text": y_title}, "range": list(ranges[1])},
    }
