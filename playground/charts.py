"""Rows -> Plotly figures. Neither torch nor gradio.

Figures have no paper of their own and mid-grey lines, so that they sit on light and dark pages.
Every string that comes from outside is escaped: Plotly reads markup in text and hovers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

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
_RULE_SHAPES = {
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
_GREY, _LINE = "#808080", "rgba(128,128,128,0.25)"
_SIDES = (
    "middle right",
    "middle left",
    "top center",
    "bottom center",
    "top right",
    "bottom right",
    "top left",
    "bottom left",
)


def three(value: float) -> str:
    """`value` with three significant digits, no exponent where it can be helped."""
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0 or math.isnan(value):
        return f"{value:g}"
    rounded = float(f"{value:.2e}")
    decimals = 2 - math.floor(math.log10(abs(rounded)))
    return f"{value:.2e}" if decimals > 6 else f"{rounded:,.{max(0, decimals)}f}"


def escape(text: str) -> str:
    """`text` as Plotly must be given it to show it literally."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def colour_of(method: str) -> str:
    """The method's colour, the same on cards, chart and table."""
    return COLOURS.get(method, _OTHER)


def speed_fidelity(rows: Sequence[dict[str, Any]]) -> go.Figure:
    """Speed (tokens per second) against fidelity (percent), one mark a run.

    rows: `Comparison.rows()`. Runs without a speed or a fidelity are left out. Where a run was
    timed more than once, a bar spans its slowest and fastest time.
    """
    shown = [
        row
        for row in rows
        if _is_number(row.get("tokens_per_s")) and _is_number(row.get("fidelity"))
    ]
    points = [(float(row["tokens_per_s"]), 100.0 * float(row["fidelity"])) for row in shown]
    right = 1.2 * max([x for x, _ in points] + [_high(row) for row in shown] + [1e-9])
    sides = _label_sides(points, [str(row["label"]) for row in shown], right)
    figure = go.Figure()
    for row, point, side in zip(shown, points, sides, strict=True):
        figure.add_trace(_mark(row, point, side))
    figure.update_layout(**_layout(right))
    return figure


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _high(row: dict[str, Any]) -> float:
    high: Any = row.get("tokens_per_s_high")
    return float(high) if _is_number(high) else 0.0


def _mark(row: dict[str, Any], point: tuple[float, float], side: str) -> go.Scatter:
    x, y = point
    colour = colour_of(str(row["method"]))
    spread = None
    low, high = row.get("tokens_per_s_low"), row.get("tokens_per_s_high")
    if (row.get("num_repeats") or 1) > 1 and _is_number(low) and _is_number(high):
        spread = {
            "type": "data",
            "symmetric": False,
            "array": [max(0.0, float(high) - x)],  # type: ignore[arg-type]
            "arrayminus": [max(0.0, x - float(low))],  # type: ignore[arg-type]
            "thickness": 1.5,
            "width": 4,
            "color": colour,
        }
    label = escape(str(row["label"]))
    return go.Scatter(
        x=[x],
        y=[y],
        mode="markers+text",
        name=label,
        text=[label],
        textposition=side,
        textfont={"color": _GREY, "size": 12},
        marker={"color": colour, "size": 12, "symbol": _shape(row)},
        error_x=spread,
        hovertext=[_hover(row)],
        hoverinfo="text",
        showlegend=False,
        cliponaxis=False,
    )


def _shape(row: dict[str, Any]) -> str:
    rule = (row.get("params") or {}).get("verifier")
    return _RULE_SHAPES.get(str(rule)) or _SHAPES.get(str(row["method"]), "circle")


def _hover(row: dict[str, Any]) -> str:
    lines = [f"<b>{escape(str(row['label']))}</b>"]
    lines.append(f"{three(row['tokens_per_s'])} tok/s, fidelity {three(100 * row['fidelity'])} %")
    if _is_number(row.get("speedup")):
        lines.append(f"{three(row['speedup'])}× the baseline")
    if _is_number(row.get("acceptance_rate")):
        lines.append(f"{three(100 * row['acceptance_rate'])} % accepted")
    settings = [
        f"{name} {value}"
        for name, value in (row.get("params") or {}).items()
        if value not in (None, "", [], ())
    ]
    lines += [escape(", ".join(settings[i : i + 3])[:160]) for i in range(0, len(settings), 3)]
    return "<br>".join(lines)


def _label_sides(points: list[tuple[float, float]], labels: list[str], right: float) -> list[str]:
    """A side for every label so that it covers no mark and no earlier label, where possible."""
    marks = [_box(x / right, y / 104, 0.02, 0.05) for x, y in points]
    taken: list[tuple[float, float, float, float]] = []
    sides = []
    for i, (x, y) in enumerate(points):
        others = marks[:i] + marks[i + 1 :] + taken
        width = 0.022 * len(labels[i])
        boxes = {side: _label_box(side, x / right, y / 104, width) for side in _SIDES}
        side = min(_SIDES, key=lambda s, b=boxes, o=others: _cost(b[s], o))  # type: ignore[misc]
        sides.append(side)
        taken.append(boxes[side])
    return sides


def _box(x: float, y: float, width: float, height: float) -> tuple[float, float, float, float]:
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def _label_box(side: str, x: float, y: float, width: float) -> tuple[float, float, float, float]:
    """Where a label of this width lies, in shares of the plot: left, bottom, right, top."""
    vertical, horizontal = side.split()
    across = {"left": -1.0, "center": 0.0, "right": 1.0}[horizontal]
    up = {"bottom": -1.0, "middle": 0.0, "top": 1.0}[vertical]
    return _box(x + across * (width / 2 + 0.018), y + up * 0.06, width, 0.06)


def _cost(
    box: tuple[float, float, float, float], others: list[tuple[float, float, float, float]]
) -> float:
    """Area that a label would cover of others, plus what sticks out of the plot."""
    left, bottom, right, top = box
    covered = sum(
        max(0.0, min(right, o[2]) - max(left, o[0])) * max(0.0, min(top, o[3]) - max(bottom, o[1]))
        for o in others
    )
    spare = (right - left) / 2  # on a phone, letters are wider against the plot
    across = max(0.0, spare - left) + max(0.0, right + spare - 1.0)
    outside = across + max(0.0, -bottom) + max(0.0, top - 1.02)
    return covered + 0.1 * outside


def _layout(right: float) -> dict[str, Any]:
    axis = {
        "color": _GREY,
        "gridcolor": _LINE,
        "zerolinecolor": _LINE,
        "linecolor": _LINE,
        "fixedrange": True,
    }
    return {
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": _GREY, "family": "system-ui, sans-serif"},
        "margin": {"l": 56, "r": 16, "t": 20, "b": 48},
        "height": 360,
        "hovermode": "closest",
        "hoverlabel": {"align": "left"},
        "modebar": {"remove": ["select", "lasso", "autoscale", "zoom", "pan", "resetscale"]},
        "xaxis": {**axis, "title": {"text": "speed, tokens per second"}, "range": [0, right]},
        "yaxis": {**axis, "title": {"text": "fidelity, %"}, "range": [0, 104]},
    }
