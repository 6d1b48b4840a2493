"""The token lab's figures: the laws as bars, and acceptance over the budget."""

from __future__ import annotations

import math
from typing import Any

import plotly.graph_objects as go

from playground.charts import AXIS, GREY, NO_ZOOM, base_layout, colour_of, escape, three
from playground.ui.lab import Choice, Laws, Reading
from playground.ui.strings import Words

_SHOWN = 12  # tokens with bars of their own
_NAME = 10  # characters of a token under the axis
_TARGET, _DRAFT, _BOUND = "#0072B2", "#E69F00", "#D55E00"
_HEIGHT = 360


def law_bars(laws: Laws, reading: Reading | None, choice: Choice, say: Words) -> go.Figure:
    """Draft, target and output of the tokens that matter, the others as one; marks at the bounds
    q/β and q/α between which the output must lie. Without a reading, the target alone."""
    shown = _shown(laws)
    others = len(laws.names) - len(shown) + sum(laws.rest_sizes)
    series = [("target", _bars(laws.whole()[0], shown, others))]
    if reading is not None:
        series.insert(0, ("draft", _bars(laws.whole()[1], shown, others)))
        series.append(("output", _bars(reading.output, shown, others)))
    names = [laws.names[i] for i in shown]
    rest = [say("lab.others", count=f"{others:,}")] if others else []
    ticks = names + rest
    hovers = [
        _hover(ticks[k], [(say(f"lab.{n}"), v[k]) for n, v in series]) for k in range(len(ticks))
    ]
    figure = go.Figure([_bar(name, values, hovers, choice, say) for name, values in series])
    top = 1.12 * max([v for _, values in series for v in values] + [1e-9])
    if reading is not None and choice.budget > 0:
        figure.add_traces(_bounds(laws, reading, shown, top, say))
    figure.update_layout(**_layout(), barmode="group", scattermode="group", bargap=0.25)
    figure.update_xaxes(
        tickvals=list(range(len(ticks))),
        ticktext=[escape(tick) for tick in [*map(_clipped, names), *rest]],
        tickangle=-40,
        tickfont={"size": 11},
        showgrid=False,
        zeroline=False,
    )
    figure.update_yaxes(title={"text": say("lab.probability")}, range=[0, top])
    return figure


def acceptance_curve(reading: Reading, choice: Choice, say: Words) -> go.Figure:
    """Acceptance over the budget, from speculative decoding to the draft itself."""
    xs, ys = [x for x, _ in reading.curve], [100 * y for _, y in reading.curve]
    point = choice.budget, 100 * reading.optimum.acceptance
    figure = go.Figure(
        [
            _line([0, reading.limit], [100 * reading.exact] * 2, "speculative", "dash", say),
            _line(xs, ys, "mentored", "solid", say),
            go.Scatter(
                x=[point[0]],
                y=[point[1]],
                mode="markers",
                name=say("lab.here"),
                marker={"color": colour_of("mentored"), "size": 13, "symbol": "star"},
                hovertext=[f"D {three(point[0])}: {three(point[1])} %"],
                hoverinfo="text",
                cliponaxis=False,
            ),
        ]
    )
    figure.update_layout(**_layout())
    figure.update_xaxes(
        title={"text": say(f"lab.axis.{choice.divergence}")}, range=[0, reading.limit]
    )
    figure.update_yaxes(title={"text": say("lab.accepted_share")}, range=[0, 104])
    if 0 < reading.whole <= reading.limit:
        figure.add_vline(reading.whole, line={"color": _DRAFT, "width": 1.5, "dash": "dot"})
        figure.add_annotation(
            x=reading.whole,
            y=4,
            text=escape(say("lab.draft_from" if reading.best >= 1 else "lab.best_from")),
            showarrow=False,
            xanchor="right",
            xshift=-4,
            font={"color": GREY, "size": 11},
        )
    return figure


def _shown(laws: Laws) -> list[int]:
    """Indices of the tokens with bars of their own, the most probable under either law first."""
    draft = laws.draft or laws.target
    weight = [max(q, p) for q, p in zip(laws.target, draft, strict=True)]
    order = sorted(range(len(weight)), key=lambda i: -weight[i])
    shown = order[:_SHOWN]
    if laws.drafted is not None and laws.drafted not in shown:
        shown[-1] = laws.drafted
    return shown


def _bars(law: tuple[float, ...], shown: list[int], others: int) -> list[float]:
    values = [law[i] for i in shown]
    return [*values, max(0.0, math.fsum(law) - math.fsum(values))] if others else values


def _bar(name: str, values: list[float], hovers: list[str], choice: Choice, say: Words) -> go.Bar:
    lossless = choice.budget == 0
    output = colour_of("speculative" if lossless else "mentored")
    colour = {"draft": _DRAFT, "target": _TARGET, "output": output}[name]
    marker: dict[str, Any] = {"color": colour}
    if name == "draft":
        marker["pattern"] = {"shape": "/", "fillmode": "replace", "fgcolor": _DRAFT, "size": 5}
        marker["line"] = {"color": _DRAFT, "width": 1}
    label = say("lab.output.lossless") if name == "output" and lossless else say(f"lab.{name}")
    return go.Bar(
        x=list(range(len(values))),
        y=values,
        name=label,
        offsetgroup=name,
        marker=marker,
        hovertext=hovers,
        hoverinfo="text",
    )


def _bounds(
    laws: Laws, reading: Reading, shown: list[int], top: float, say: Words
) -> list[go.Scatter]:
    """Marks at q/α and q/β, over the output's bars; those above the plot are left out."""
    best = reading.optimum
    ceiling = 1 / best.alpha if best.alpha > 0 else math.inf
    floor = 1 / best.beta if best.beta > 0 else 0.0
    traces = []
    for key, factor, symbol in (
        ("ceiling", ceiling, "triangle-down-open"),
        ("floor", floor, "triangle-up-open"),
    ):
        marks = [(k, laws.target[i] * factor) for k, i in enumerate(shown) if laws.target[i] > 0]
        marks = [(k, y) for k, y in marks if y <= 0.98 * top]
        name = say(f"lab.{key}")
        traces.append(
            go.Scatter(
                x=[k for k, _ in marks],
                y=[y for _, y in marks],
                mode="markers",
                name=name,
                offsetgroup="output",
                marker={"symbol": symbol, "size": 9, "color": _BOUND, "line": {"width": 1.5}},
                hovertext=[f"{escape(name)}: {three(y)}" for _, y in marks],
                hoverinfo="text",
            )
        )
    return traces


def _hover(name: str, values: list[tuple[str, float]]) -> str:
    lines = [f"{escape(label)}: {three(100 * value)} %" for label, value in values]
    return "<br>".join([f"<b>{escape(name)}</b>", *lines])


def _clipped(name: str) -> str:
    return name if len(name) <= _NAME else name[: _NAME - 1] + "…"


def _line(xs: list[float], ys: list[float], method: str, dash: str, say: Words) -> go.Scatter:
    return go.Scatter(
        x=xs,
        y=ys,
        mode="lines",
        name=say(f"lab.curve.{method}"),
        line={"color": colour_of(method), "dash": dash, "width": 2.5},
        hovertemplate="D %{x:.3g}: %{y:.3g} %<extra></extra>",
    )


def _layout() -> dict[str, Any]:
    axis = AXIS | {"fixedrange": True}
    return base_layout() | {
        "margin": {"l": 52, "r": 12, "t": 40, "b": 60},
        "height": _HEIGHT,
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "modebar": NO_ZOOM,
        "xaxis": axis,
        "yaxis": axis,
    }
