"""The lessons' records as Plotly figures. Neither torch nor gradio; conventions as in `charts`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from playground.charts import (
    AXIS,
    GREY,
    NO_ZOOM,
    RULE_COLOURS,
    RULE_SHAPES,
    base_layout,
    colour_of,
    escape,
    three,
)
from playground.lessons.cost import Cost
from playground.lessons.length import LONG, SHORT, Text, crossing, curve, score
from playground.lessons.mentoring import FamilyPoint, RuleCurve, RulePoint
from playground.lessons.speculation import MeasuredPoint, Overlap, Simulation, SpeedPoint
from playground.lessons.stopping import Provisional, StopStep, stops

# What a figure says. The page has the same ids in its other languages.
WORDS = {
    "gamma": "draft length γ",
    "speedup": "speed-up, ×",
    "best": "best γ",
    "divergence": "KL(target‖output), nats",
    "acceptance": "accepted, %",
    "behind": "behind mentored decoding, points",
    "probability": "probability",
    "shared": "in both: accepted",
    "rejected": "too much in the draft: rejected",
    "corrected": "too little: put back",
    "penalty": "length penalty",
    "score": "score",
    "score_log": "score, logarithmic axis",
    "short": "short text",
    "long": "long text",
    "width": "beams W",
    "memory": "keys and values, MiB",
    "naive": "prompt copied",
    "shared_prompt": "prompt shared",
    "step": "tokens so far",
    "worst": "worst finished",
    "mode.false": "best live, at its length",
    "mode.never": "best live, at any length",
    "stop": "stops",
    "tokens": "tokens",
    "so_far": "tokens so far",
    "agrees": "of the best so far, right in the end",
    "certain": "certain",
    "draws": "tokens drawn",
    "distance": "TV distance from the target",
    "chance": "what chance alone leaves",
    "floor": "the rule's own distance",
    "position": "token",
    "budget_share": "budget, % of what takes the draft whole",
}
Words = Mapping[str, str]

_TARGET, _DRAFT = "#0072B2", "#E69F00"
_PALETTE = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#8C6BB1", "#A6761D", "#7F7F7F")
_HEIGHT = 340


def speed_curve(
    curves: Mapping[str, Sequence[SpeedPoint]],
    measured: Sequence[MeasuredPoint] = (),
    here: SpeedPoint | None = None,
    names: Mapping[str, str] | None = None,
    words: Words = WORDS,
) -> go.Figure:
    """Speed-up over γ by the formula, a line for each label, its best γ marked; measured runs as
    marks of their method's colour. here: a point to mark. names: of the methods."""
    traces = []
    for colour, (label, points) in zip(_cycled(len(curves)), curves.items(), strict=True):
        best = max(points, key=lambda point: point.speedup)
        xs, ys = [p.num_draft_tokens for p in points], [p.speedup for p in points]
        traces.append(_line(xs, ys, label, colour))
        name = f"{label}: {words['best']} {best.num_draft_tokens}"
        traces.append(_mark(best.num_draft_tokens, best.speedup, name, colour, "star"))
    if here is not None:
        name = f"γ {here.num_draft_tokens}"
        traces.append(_mark(here.num_draft_tokens, here.speedup, name, GREY, "circle-open"))
        traces[-1].update(marker={"size": 18, "line": {"width": 2.5}})
    known = [point for point in measured if point.speedup is not None]
    for method in dict.fromkeys(point.method for point in known):
        own = [point for point in known if point.method == method]
        traces.append(_runs(own, (names or {}).get(method, method)))
    return _figure(traces, words["gamma"], words["speedup"])


def _runs(points: Sequence[MeasuredPoint], name: str) -> go.Scatter:
    """Measured runs of one method; each says what the formula makes of it."""
    texts = [
        f"<b>{escape(p.label)}</b><br>γ {p.num_draft_tokens}: {three(p.speedup or 0.0)}×"
        f"<br>α {three(p.acceptance)}, c {three(p.draft_cost)} → {three(p.predicted)}×"
        for p in points
    ]
    return go.Scatter(
        x=[p.num_draft_tokens for p in points],
        y=[p.speedup for p in points],
        mode="markers",
        name=escape(name),
        marker={"color": colour_of(points[0].method), "size": 11, "line": {"width": 1}},
        hovertext=texts,
        hoverinfo="text",
        cliponaxis=False,
    )


def rule_tradeoffs(
    curves: Sequence[RuleCurve],
    here: RulePoint | None = None,
    names: Mapping[str, str] | None = None,
    words: Words = WORDS,
) -> go.Figure:
    """Acceptance over divergence, a line for each rule; those without a finite point are left out.
    here: a point of mentored decoding to mark. names: of the rules, by their own names."""
    traces = _rules(curves, names, lambda point: 100 * point.acceptance)
    if here is not None:
        place = here.divergence, 100 * here.acceptance
        traces.append(_mark(*place, f"D {three(here.knob)}", colour_of("mentored"), "star"))
    figure = _figure(traces, words["divergence"], words["acceptance"])
    return figure.update_yaxes(range=[0, 104])


def rule_shortfalls(
    curves: Sequence[RuleCurve],
    names: Mapping[str, str] | None = None,
    words: Words = WORDS,
) -> go.Figure:
    """How far each rule's acceptance is behind mentored decoding's at the same divergence: the
    differences that `rule_tradeoffs` is too coarse for."""
    traces = _rules(curves, names, lambda point: 100 * (point.behind or 0.0))
    figure = _figure(traces, words["divergence"], words["behind"])
    return figure.update_yaxes(rangemode="tozero")


def _rules(
    curves: Sequence[RuleCurve],
    names: Mapping[str, str] | None,
    value: Callable[[RulePoint], float],
) -> list[go.Scatter]:
    """A line for each rule, or marks for one whose knob moves it in steps."""
    traces = []
    for rule in curves:
        colour = RULE_COLOURS.get(rule.rule, GREY)
        points, own = rule.finite(), rule.rule == "mentored"
        if not points:
            continue
        xs, ys = [p.divergence for p in points], [value(p) for p in points]
        name = (names or {}).get(rule.rule, rule.rule)
        trace = _line(xs, ys, name, colour)
        trace.update(
            mode="markers" if rule.moves_in_steps else "lines",
            line={"width": 4 if own else 2},
            marker={"symbol": RULE_SHAPES.get(rule.rule, "circle"), "size": 9, "color": colour},
        )
        traces.append(trace)
    return traces


def family_curves(
    points: Mapping[str, Sequence[FamilyPoint]],
    names: Mapping[str, str] | None = None,
    words: Words = WORDS,
) -> go.Figure:
    """Acceptance over the budget of each divergence, as a share of its largest."""
    traces = []
    for colour, (kind, found) in zip(_cycled(len(points)), points.items(), strict=True):
        whole = found[-1].budget or 1.0
        xs, ys = [100 * p.budget / whole for p in found], [100 * p.acceptance for p in found]
        traces.append(_line(xs, ys, (names or {}).get(kind, kind), colour))
    figure = _figure(traces, words["budget_share"], words["acceptance"])
    return figure.update_yaxes(range=[0, 104])


def overlap_bars(overlap: Overlap, names: Sequence[str], words: Words = WORDS) -> go.Figure:
    """Both laws as stacked bars: what they share, and what either has more."""
    parts = (
        ("shared", overlap.shared, colour_of("speculative")),
        ("rejected", overlap.rejected, _DRAFT),
        ("corrected", overlap.corrected, _TARGET),
    )
    traces = [
        go.Bar(
            x=list(range(len(names))),
            y=list(values),
            name=escape(words[key]),
            marker={"color": colour},
            hovertext=[
                f"<b>{escape(name)}</b><br>{escape(words[key])}: {three(100 * value)} %"
                for name, value in zip(names, values, strict=True)
            ],
            hoverinfo="text",
        )
        for key, values, colour in parts
    ]
    figure = _figure(traces, None, words["probability"])
    ticks = {"tickvals": list(range(len(names))), "ticktext": [escape(name) for name in names]}
    return figure.update_layout(barmode="stack", bargap=0.25).update_xaxes(
        showgrid=False, zeroline=False, **ticks
    )


def length_curves(
    norm: str,
    penalties: Sequence[float],
    short: Text = SHORT,
    long: Text = LONG,
    words: Words = WORDS,
    here: float | None = None,
) -> go.Figure:
    """Scores of two texts over the length penalty, and where they cross; both marked at the penalty
    `here`. On a logarithmic axis, on which they are straight lines; a score of 0 is not on it."""
    xs, traces = list(penalties), []
    for key, text, colour in (("short", short, _DRAFT), ("long", long, _TARGET)):
        traces.append(_line(xs, curve(text, norm, xs), words[key], colour))
        if here is not None:
            mark = _mark(here, score(text, norm, here), words[key], colour, "circle")
            traces.append(mark.update(showlegend=False))
    for trace in traces:
        trace.update(y=[-y or None for y in trace.y])
    figure = _figure(traces, words["penalty"], words["score_log"])
    ticks = [digit * 10.0**power for power in range(-4, 4) for digit in (1, 2, 5)]
    figure.update_yaxes(
        type="log",
        autorange="reversed",
        tickvals=ticks,
        ticktext=[f"−{tick:g}" for tick in ticks],
    )
    where = crossing(norm, short, long)
    if where is not None and min(xs) <= where <= max(xs):
        figure.add_vline(where, line={"color": GREY, "width": 1.5, "dash": "dot"})
    return figure


def memory_bars(costs: Sequence[Cost], words: Words = WORDS) -> go.Figure:
    """Memory of keys and values by width, with the prompt copied and shared."""
    parts = (
        ("naive", [cost.naive_mib for cost in costs], GREY),
        ("shared_prompt", [cost.shared_mib for cost in costs], colour_of("beam")),
    )
    traces = [
        go.Bar(
            x=[str(cost.width) for cost in costs],
            y=values,
            name=escape(words[key]),
            marker={"color": colour},
            hovertext=[f"{escape(words[key])}: {three(value)} MiB" for value in values],
            hoverinfo="text",
        )
        for key, values, colour in parts
    ]
    figure = _figure(traces, words["width"], words["memory"])
    return figure.update_layout(barmode="group").update_xaxes(type="category")


def stopping_lines(steps: Sequence[StopStep], words: Words = WORDS) -> go.Figure:
    """What each mode compares after every step: the worst finished score, once the set is full, and
    the score it credits the best live beam with; marks where each mode stops (mode "true" looks at
    no score, and stops when the set is full)."""
    xs = [step.step for step in steps]
    full = max(step.num_finished for step in steps)
    worst = [step.worst if step.num_finished == full else None for step in steps]
    traces = [_line(xs, worst, words["worst"], GREY)]
    ends = stops(steps)
    for mode, colour in (("false", colour_of("beam")), ("never", _TARGET)):
        bounds = [step.bounds[mode] for step in steps]
        traces.append(_line(xs, bounds, words[f"mode.{mode}"], colour))
        end = ends.get(mode)
        if end is not None and bounds[end.step - 1] is not None:
            traces.append(_stop(end.step, bounds[end.step - 1], mode, colour, words))
    if (end := ends.get("true")) is not None:
        traces.append(_stop(end.step, steps[end.step - 1].worst, "true", GREY, words))
    figure = _figure(traces, words["step"], words["score"])
    return figure.update_xaxes(dtick=1).update_layout(margin={"r": 56})


def _stop(step: int, score: float | None, mode: str, colour: str, words: Words) -> go.Scatter:
    """Where a mode stops, named beside the mark rather than in the legend."""
    side = {"true": "top center", "false": "bottom center", "never": "middle right"}[mode]
    mark = _mark(step, score, f"{mode}: {words['stop']}", colour, "x")
    return mark.update(mode="markers+text", text=[mode], textposition=side, showlegend=False)


def settled_lines(steps: Sequence[Provisional], words: Words = WORDS) -> go.Figure:
    """After every step, how many tokens were there, right in the end, and certain."""
    xs = [step.step for step in steps]
    traces = [
        _line(xs, xs, words["so_far"], GREY),
        _line(xs, [step.agrees for step in steps], words["agrees"], colour_of("beam")),
        _line(xs, [step.certain for step in steps], words["certain"], _TARGET),
    ]
    return _figure(traces, words["step"], words["tokens"]).update_xaxes(dtick=1)


def distance_lines(
    runs: Mapping[str, Simulation], words: Words = WORDS, colours: Mapping[str, str] | None = None
) -> go.Figure:
    """Distance of the drawn tokens from the target's law over their number, on logarithmic axes, by
    label; what chance leaves; and the distance that a lossy rule falls to."""
    traces = []
    for fallback, (label, run) in zip(_cycled(len(runs)), runs.items(), strict=True):
        colour = (colours or {}).get(label, fallback)
        xs = [draw.count for draw in run.draws]
        traces.append(_line(xs, [draw.distance for draw in run.draws], label, colour))
        if run.floor > 0:
            name = f"{label}: {words['floor']}"
            traces.append(_line([xs[0], xs[-1]], [run.floor] * 2, name, colour, "dash"))
    first = next(iter(runs.values()), None)
    if first is not None:
        xs, chance = [draw.count for draw in first.draws], [draw.chance for draw in first.draws]
        traces.append(_line(xs, chance, words["chance"], GREY, "dot"))
    figure = _figure(traces, words["draws"], words["distance"])
    figure.update_xaxes(type="log", dtick=1).update_yaxes(type="log", dtick=1)
    if first is not None:  # shares of few draws may hit the law exactly, far below anything else
        figure.update_yaxes(range=[math.log10(min(chance) / 5), 0.05])
    return figure


def probability_lines(
    series: Mapping[str, Sequence[float | None]], colours: Mapping[str, str], words: Words = WORDS
) -> go.Figure:
    """Probability of each token over the text, a line for each label; colours by label."""
    traces = [
        _line(list(range(1, len(values) + 1)), values, label, colours.get(label, GREY))
        for label, values in series.items()
    ]
    for trace in traces:
        trace.update(mode="lines+markers", marker={"size": 4}, line={"width": 1.5})
    figure = _figure(traces, words["position"], words["probability"])
    return figure.update_yaxes(range=[0, 1.04])


def _cycled(count: int) -> list[str]:
    return [_PALETTE[i % len(_PALETTE)] for i in range(count)]


def _line(xs: Any, ys: Any, name: str, colour: str, dash: str = "solid") -> go.Scatter:
    texts = [
        f"<b>{escape(name)}</b><br>{_shown(x)}: {three(y)}" if y is not None else ""
        for x, y in zip(xs, ys, strict=True)
    ]
    return go.Scatter(
        x=list(xs),
        y=list(ys),
        mode="lines",
        name=escape(name),
        line={"color": colour, "dash": dash, "width": 2.5},
        hovertext=texts,
        hoverinfo="text",
    )


def _shown(x: float) -> str:
    return f"{x:,}" if isinstance(x, int) else three(x)


def _mark(x: float, y: float | None, name: str, colour: str, symbol: str) -> go.Scatter:
    return go.Scatter(
        x=[x],
        y=[y],
        mode="markers",
        name=escape(name),
        marker={"color": colour, "size": 12, "symbol": symbol},
        hovertext=[f"<b>{escape(name)}</b><br>{_shown(x)}: {three(y or 0.0)}"],
        hoverinfo="text",
        cliponaxis=False,
    )


def _figure(traces: Sequence[Any], x_title: str | None, y_title: str) -> go.Figure:
    axis = AXIS | {"fixedrange": True}
    return go.Figure(
        list(traces),
        layout=base_layout()
        | {
            "margin": {"l": 56, "r": 16, "t": 40, "b": 48},
            "height": _HEIGHT,
            "showlegend": True,
            "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
            "modebar": NO_ZOOM,
            "xaxis": {**axis, "title": {"text": x_title}},
            "yaxis": {**axis, "title": {"text": y_title}},
        },
    )
