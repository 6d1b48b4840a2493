"""Lesson 3, "When to stop": the three modes of `early_stopping` on one recorded search."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import gradio as gr

from playground.demonstrations.searches import stopping, stopping_search
from playground.lesson_charts import settled_lines, stopping_lines
from playground.lessons.stopping import NAMES, WIDTH, Provisional, StopStep, provisional, stops
from playground.types import DecodeResult
from playground.ui.learn.parts import (
    DRAG,
    LIGHT,
    chapter,
    figure,
    figure_words,
    heading,
    predict,
    sources,
    table_html,
    text,
)
from playground.ui.markup import markup
from playground.ui.numbers import decimals
from playground.ui.strings import Words
from playground.ui.worker import Worker

MODES = ("true", "false", "never")
_LITERALS = {"true": "True", "false": "False", "never": '"never"'}
_HUGGING_FACE = "https://huggingface.co/docs/transformers/main_classes/text_generation"


def lesson(worker: Worker, say: Words) -> None:
    """Lay out the lesson in the current Blocks: the search is shown once the visitor predicts."""
    text(say("stopping.text"))
    asked = _question(say)
    search = gr.Button(say("stopping.search"), variant="primary", elem_id="stopping-search")
    with gr.Column(visible=False, elem_id="stopping-found") as found:
        text(say("stopping.bounds"))
        lines = figure(elem_id="stopping-lines")
        number = gr.Slider(
            1, len(_steps()), 1, step=1, label=say("stopping.number"), elem_id="stopping-number"
        )
        modes = markup(modes_html(_steps(), 1, say), "stopping-modes")
        heading(say("stopping.settled"))
        text(say("stopping.settled.text"))
        settled = figure(elem_id="stopping-settled")
        markup(settled_html(provisional(_search()), say))
    sources(say, chapter(say), (say("stopping.source.transformers"), _HUGGING_FACE))

    def reveal_search() -> tuple[Any, ...]:
        words = figure_words(say)
        charts = stopping_lines(_steps(), words), settled_lines(provisional(_search()), words)
        return gr.update(visible=True), *charts

    gr.on([search.click, asked.input], reveal_search, None, [found, lines, settled], **LIGHT)
    number.input(lambda n: modes_html(_steps(), int(n), say), number, modes, **DRAG)


def _question(say: Words) -> gr.Radio:
    """Which mode finds the best text?"""
    ends = stops(_steps())
    values: dict[str, Any] = {f"{mode}_step": ends[mode].step for mode in MODES}
    values |= {f"{mode}_best": decimals(ends[mode].best or 0.0) for mode in MODES}
    return predict(say, "stopping.ask", (*MODES, "same"), "never", **values)


@cache
def _search() -> DecodeResult:
    return stopping_search()


@cache
def _steps() -> tuple[StopStep, ...]:
    return stopping(_search())


# --- pure -----------------------------------------------------------------------------------------


def modes_html(steps: Sequence[StopStep], number: int, say: Words) -> str:
    """What each mode compares after so many tokens, and what it makes of it."""
    step, ends = steps[number - 1], stops(steps)
    rows = []
    for mode in MODES:
        bound, end = step.bounds[mode], ends[mode].step
        credited = decimals(bound) if mode != "true" and bound is not None else "–"
        rows.append([_LITERALS[mode], credited, _reason(step, mode, end, say)])
    caption = say(
        "stopping.caption",
        step=number,
        count=step.num_finished,
        worst="–" if step.worst is None else decimals(step.worst),
        best="–" if step.best is None else decimals(step.best),
    )
    marked = [i for i, mode in enumerate(MODES) if ends[mode].step == number]
    head = [say(f"stopping.head.{name}") for name in ("mode", "bound", "verdict")]
    return table_html(head, rows, caption, marked)


def _reason(step: StopStep, mode: str, end: int, say: Words) -> str:
    """Why a mode that ends the search at `end` goes on or stops at a step."""
    if step.step > end:
        return say("stopping.stopped", step=end)
    if step.num_finished < WIDTH:
        return say("stopping.few", count=WIDTH)
    if step.step == end:
        return say("stopping.true" if mode == "true" else "stopping.beaten")
    return say("stopping.hope")


def settled_html(steps: Sequence[Provisional], say: Words) -> str:
    """Step by step, what a stream would have shown, and how much of it was certain."""
    rows = [
        [
            str(step.step),
            " ".join(NAMES[token] for token in step.best),
            str(step.agrees),
            str(step.certain),
        ]
        for step in steps
    ]
    titles = ("step", "best", "agrees", "certain")
    return table_html([say(f"stopping.head.{name}") for name in titles], rows)
