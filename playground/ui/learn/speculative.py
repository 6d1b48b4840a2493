"""Lesson 8, "Speculative decoding": rounds, the overlap of two laws, a proof by drawing, speed."""

from __future__ import annotations

from functools import cache
from typing import Any

import gradio as gr

from playground.demonstrations.rules import MAX_DRAWS
from playground.types import DecodeResult
from playground.ui.files import open_shipped, shipped
from playground.ui.lab import MAX_CHARS
from playground.ui.learn import speculative_view as view
from playground.ui.learn.measured import Measured, measured
from playground.ui.learn.parts import (
    DRAG,
    LIGHT,
    figure,
    heading,
    predict,
    sources,
    text,
    when_opened,
)
from playground.ui.markup import markup
from playground.ui.numbers import count
from playground.ui.results import line
from playground.ui.rounds import rounds_html
from playground.ui.runs import name_of
from playground.ui.strings import Words
from playground.ui.worker import Worker

_COUNTS = (100, 1000, 10_000, 100_000, MAX_DRAWS)
_ALPHA, _GAMMA, _COST = 0.8, 4, 0.1
_SOURCES = (
    ("Leviathan, Kalman & Matias 2023", "https://arxiv.org/abs/2211.17192"),
    ("Chen et al. 2023", "https://arxiv.org/abs/2302.01318"),
)
Update = dict[Any, Any]


def lesson(worker: Worker, say: Words) -> None:
    """Lay out the lesson in the current Blocks."""
    text(say("speculative.lede"))
    _story(say)
    choices = ("draft", "middle", "ratio", "target")
    predict(say, "speculative.ask", choices, "target", **view.question(say))
    typed, better = _laws(say)
    _proof(typed, better, say)
    _speed(say)
    sources(say, *_SOURCES)


# --- the story: recorded rounds -------------------------------------------------------------------


@cache
def recorded() -> dict[str, DecodeResult]:
    """The runs of the shipped traces that have rounds, by "trace/label"."""
    return {
        f"{name}/{label}": result
        for name in shipped()
        for label, result in open_shipped(name).comparison.results.items()
        if result.rounds
    }


def _story(say: Words) -> None:
    heading(say("speculative.story"))
    text(say("speculative.story.text"))
    choices = [(_title(key, result, say), key) for key, result in recorded().items()]
    if not choices:
        return
    chosen = gr.Dropdown(
        choices,
        value=choices[0][1],
        label=say("speculative.recorded"),
        filterable=False,
        elem_id="speculative-run",
    )
    rounds = markup(elem_id="speculative-rounds")

    def show(key: str) -> str:
        return rounds_html(recorded()[key], say) if key in recorded() else ""

    when_opened(show, chosen, rounds)
    chosen.input(show, chosen, rounds, **LIGHT)


def _title(key: str, result: DecodeResult, say: Words) -> str:
    trace, _, label = key.partition("/")
    gamma = result.params.get("num_draft_tokens")
    return f"{say.known(f'trace.{trace}', trace)} · {name_of(label, say)} · γ {gamma}"


# --- the laws and their overlap -------------------------------------------------------------------


def _laws(say: Words) -> tuple[gr.Textbox, gr.Slider]:
    heading(say("speculative.overlap"))
    text(say("speculative.overlap.text"))
    presets = view.starts(say)
    with gr.Row(elem_classes="dp-lesson-controls"):
        with gr.Column(min_width=200):
            preset = gr.Dropdown(
                [(say(f"speculative.start.{name}"), name) for name in presets],
                value="sea",
                label=say("speculative.start"),
                filterable=False,
                elem_id="speculative-start",
            )
            better = gr.Slider(
                0, 100, 0, step=1, label=say("speculative.better"), elem_id="speculative-better"
            )
        typed = gr.Textbox(
            presets["sea"],
            label=say("speculative.typed"),
            info=say("speculative.typed.help"),
            lines=4,
            max_lines=8,
            max_length=MAX_CHARS,
            elem_id="speculative-typed",
            elem_classes="dp-typed",
            min_width=240,
        )
    error = markup(elem_id="speculative-error")
    laws = view.moved(presets["sea"], 0, say)
    numbers = markup(view.overlap_html(laws, say), "speculative-overlap")
    bars = figure(view.overlap_figure(laws, say), "speculative-bars")

    def draw(typed: str, better: float) -> Update:
        try:
            laws = view.moved(typed, better, say)
        except ValueError as wrong:
            return {error: line(str(wrong))}
        seen = {numbers: view.overlap_html(laws, say), bars: view.overlap_figure(laws, say)}
        return {error: "", **seen}

    def take(name: str) -> Update:
        return {typed: presets[name], better: 0, **draw(presets[name], 0)}

    shown = [error, numbers, bars]
    for listen in (typed.change, better.input):  # `input` of a text box misses what is pasted
        listen(draw, [typed, better], shown, **DRAG)
    preset.input(take, preset, [typed, better, *shown], **DRAG)
    return typed, better


# --- the proof by drawing -------------------------------------------------------------------------


def _proof(typed: gr.Textbox, better: gr.Slider, say: Words) -> None:
    heading(say("speculative.proof"))
    text(say("speculative.proof.text"))
    with gr.Row(elem_classes="dp-lesson-controls"):
        rule = gr.Dropdown(
            [(view.rule_title(name, say), name) for name in view.LOSSY],
            value=view.LOSSY[0],
            label=say("speculative.beside"),
            filterable=False,
            elem_id="speculative-rule",
        )
        number = gr.Dropdown(
            [(count(n), n) for n in _COUNTS],
            value=_COUNTS[2],
            label=say("speculative.count"),
            filterable=False,
            elem_id="speculative-count",
        )
        press = gr.Button(
            say("speculative.draw"),
            variant="primary",
            elem_id="speculative-draw",
            scale=0,
            min_width=120,
        )
    seed = gr.State(0)
    shares = markup(elem_id="speculative-drawn")
    with gr.Column(visible=False) as held:
        lines = figure(elem_id="speculative-lines")

    def draw(typed: str, better: float, rule: str, number: int, last: int) -> Update:
        try:
            laws = view.moved(typed, better, say)
        except ValueError as wrong:
            return {shares: line(str(wrong))}
        runs = view.drawn(laws, number, last, rule)
        return {
            seed: last + 1,
            shares: view.drawn_html(laws, runs, say),
            held: gr.update(visible=True),
            lines: view.distance_figure(runs, say),
        }

    inputs = [typed, better, rule, number, seed]
    press.click(draw, inputs, [seed, shares, held, lines], **LIGHT)


# --- speed ----------------------------------------------------------------------------------------


def _named(name: str | None) -> Measured | None:
    """The measured runs of this name, else the first; None where none ship."""
    found = {runs.name: runs for runs in measured()}
    return found.get(name or "", next(iter(found.values()), None))


def _speed(say: Words) -> None:
    heading(say("speculative.speed"))
    text(say("speculative.speed.text"))
    values = _speed_values(say)
    numbers = markup(view.speed_html(_ALPHA, _GAMMA, _COST, say), "speculative-speed")
    curve = figure(elem_id="speculative-curve")
    with gr.Row(elem_classes="dp-lesson-controls"):
        source, run = (
            gr.Dropdown([], label=say(f"speculative.{key}"), filterable=False, elem_id=elem_id)
            for key, elem_id in (("of", "speculative-of"), ("from", "speculative-from"))
        )
    table = markup(elem_id="speculative-measured")

    def draw(alpha: float, gamma: float, cost: float, name: str | None) -> Update:
        return {
            numbers: view.speed_html(alpha, int(gamma), cost, say),
            curve: view.speed_figure(alpha, int(gamma), cost, _named(name), say),
            run: None,
        }

    def show(*chosen: Any) -> Update:
        runs = _named(chosen[-1])
        if runs is None:
            return draw(*chosen)
        names = [(one.title(say), one.name) for one in measured()]
        labels = [(name_of(point.label, say), point.label) for point in runs.points]
        return draw(*chosen) | {
            source: gr.update(choices=names, value=runs.name),
            run: gr.update(choices=labels, value=None),
            table: view.measured_html(runs, say),
        }

    def take(name: str | None, label: str | None) -> Update:
        """The values of a measured run."""
        runs = _named(name)
        point = next((p for p in runs.points if p.label == label), None) if runs else None
        if point is None:
            return {run: None}
        gamma = min(point.num_draft_tokens, view.MAX_GAMMA)
        chosen = point.acceptance, gamma, min(point.draft_cost, 1.0)
        return dict(zip(values, chosen, strict=True)) | draw(*chosen, name) | {run: label}

    shown = [numbers, curve, source, run, table]
    when_opened(show, [*values, source], shown)
    source.input(show, [*values, source], shown, **LIGHT)
    for part in values:
        part.input(draw, [*values, source], [numbers, curve, run], **DRAG)
    run.input(take, [source, run], [*values, numbers, curve, run], **LIGHT)


def _speed_values(say: Words) -> list[gr.Slider]:
    """α, γ and c."""
    ranges = {
        "alpha": (1, _ALPHA, 0.001),
        "gamma": (view.MAX_GAMMA, _GAMMA, 1),
        "cost": (1, _COST, 0.001),
    }
    with gr.Row(elem_classes="dp-lesson-controls"):
        return [
            gr.Slider(
                0,
                high,
                start,
                step=step,
                label=say(f"speculative.{name}"),
                elem_id=f"speculative-{name}",
                min_width=180,
            )
            for name, (high, start, step) in ranges.items()
        ]
