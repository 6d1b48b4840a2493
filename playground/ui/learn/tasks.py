"""Lesson 10, "Which tasks gain?": a recorded experiment over kinds of task."""

from __future__ import annotations

from collections.abc import Sequence

import gradio as gr
import plotly.graph_objects as go

from playground.experiment_charts import TASK_SCALES, task_curves
from playground.lessons.tasks import Contrast, TaskGain
from playground.ui.learn.parts import (
    LIGHT,
    figure,
    heading,
    predict,
    prose_html,
    sources,
    table_html,
    text,
)
from playground.ui.learn.recorded import answer_words, ends, origin, recorded, spread
from playground.ui.markup import markup
from playground.ui.numbers import count, percent, plain
from playground.ui.strings import Words
from playground.ui.worker import Worker

_BUDGET = 0.2  # what is asked about, and shown first
_ARTICLE = (
    "https://discuss.huggingface.co/t/"
    "novel-provably-optimal-lossy-variant-of-speculative-decoding/55518"
)
_SCALES = {"accepted_more": 100.0, "per_nat": 100.0}


def lesson(worker: Worker, say: Words) -> None:
    """Lay out the lesson in the current Blocks."""
    found = recorded("tasks", say)
    if not found:
        return
    gains: list[TaskGain] = found["gains"]
    contrasts: list[Contrast] = found["contrasts"]
    total = count(found["num_prompts"])
    each = count(max(gain.num_prompts for gain in gains))
    text(say("tasks.text", count=total, each=each))
    asked = contrast_at(contrasts, "accepted_more", _BUDGET)
    predict(
        say,
        "tasks.ask",
        ("broad", "narrow", "open"),
        right=asked.answer,
        budget=f"{_BUDGET:g}",
        count=total,
        found=_contrast(asked, say),
    )
    _curves(gains, say)
    _answer(gains, contrasts, say)
    text(say("tasks.note"))
    heading(say("tasks.limits"))
    text(say("tasks.limits.text"))
    origin("tasks", found, say)
    sources(say, (say("tasks.source"), _ARTICLE))


def _curves(gains: Sequence[TaskGain], say: Words) -> None:
    """Gain over loss, and the choice of what is drawn."""
    words = answer_words(say)
    quantity = gr.Radio(
        [(words[name], name) for name in TASK_SCALES],
        value="accepted_more",
        label=say("tasks.quantity"),
        elem_id="tasks-quantity",
    )
    curves = figure(draw("accepted_more", gains, say), "tasks-curves")
    quantity.input(lambda name: draw(name, gains, say), quantity, curves, **LIGHT)


def _answer(gains: Sequence[TaskGain], contrasts: Sequence[Contrast], say: Words) -> None:
    """The answer and the table, at a chosen budget."""
    budgets = dict.fromkeys(gain.budget for gain in gains)
    budget = gr.Radio(
        [(f"{d:g}", d) for d in budgets],
        value=_BUDGET,
        label=say("tasks.budget"),
        elem_id="tasks-budget",
    )
    answer = markup(answer_html(_BUDGET, gains, contrasts, say), "tasks-answer")
    table = markup(gains_html(_BUDGET, gains, say), "tasks-table")

    def show(chosen: float) -> tuple[str, str]:
        return answer_html(chosen, gains, contrasts, say), gains_html(chosen, gains, say)

    budget.input(show, budget, [answer, table], **LIGHT)


def draw(quantity: str, gains: Sequence[TaskGain], say: Words) -> go.Figure:
    """One quantity over what it costs, a line a kind."""
    names = {gain.task: _kind(gain, say) for gain in gains}
    return task_curves(gains, quantity, names, answer_words(say))


def contrast_at(contrasts: Sequence[Contrast], measure: str, budget: float) -> Contrast:
    """Many valid answers against few, in one measure at one budget."""
    return next(c for c in contrasts if c.measure == measure and c.budget == budget)


def answer_html(
    budget: float, gains: Sequence[TaskGain], contrasts: Sequence[Contrast], say: Words
) -> str:
    """The answer to the article's question at one budget, in sentences that follow the numbers."""
    return f'<div class="dp-prose">{prose_html(answer_text(budget, gains, contrasts, say))}</div>'


def answer_text(
    budget: float, gains: Sequence[TaskGain], contrasts: Sequence[Contrast], say: Words
) -> str:
    own = sorted((g for g in gains if g.budget == budget), key=lambda g: g.accepted_more.value)
    spent = [gain.divergence.value for gain in own]
    parts = [_contrast(contrast_at(contrasts, name, budget), say) for name in _SCALES]
    parts.append(
        say(
            "tasks.found.most",
            most=_kind(own[-1], say),
            high=plain(100 * own[-1].accepted_more.value),
            least=_kind(own[0], say),
            low=_signed(100 * own[0].accepted_more.value),
            spent_low=plain(min(spent)),
            spent_high=plain(max(spent)),
            budget=f"{budget:g}",
        )
    )
    right = [
        say(
            "tasks.found.right.part",
            task=_kind(gain, say),
            exact=percent(gain.right.value),
            mentored=percent(gain.mentored_right.value),
        )
        for gain in own
        if gain.right is not None and gain.mentored_right is not None
    ]
    if right:
        parts.append(say("tasks.found.right", parts=say("tasks.found.comma").join(right)))
    return say("experiment.join").join(part for part in parts if part)


def _contrast(contrast: Contrast, say: Words) -> str:
    """One contrast in a sentence: by how much the kinds that it names are ahead."""
    found = contrast.difference
    if found is None:
        return ""
    shown = ends(found, _SCALES[contrast.measure])
    if contrast.answer == "narrow":
        turned = ends(found, -_SCALES[contrast.measure])
        shown = {"by": turned["by"], "low": turned["high"], "high": turned["low"]}
    key = f"tasks.found.{contrast.measure}.{contrast.answer}"
    return say(key, budget=f"{contrast.budget:g}", **shown)


def gains_html(budget: float, gains: Sequence[TaskGain], say: Words) -> str:
    """Every kind in numbers, at one budget."""
    keys = ("kind", "exact", "mentored", "more", "gain", "spent", "logprob", "surprisal")
    rows = [
        [
            _kind(gain, say),
            percent(gain.acceptance.value),
            percent(gain.mentored_acceptance.value),
            spread(gain.accepted_more, 100),
            spread(gain.gain),
            plain(gain.divergence.value),
            spread(gain.logprob_change),
            spread(gain.surprisal),
        ]
        for gain in gains
        if gain.budget == budget
    ]
    head = [say(f"tasks.head.{key}") for key in keys]
    return table_html(head, rows, say("tasks.caption", budget=f"{budget:g}"))


def _signed(value: float) -> str:
    return f"+{plain(value)}" if value >= 0 else plain(value)


def _kind(gain: TaskGain, say: Words) -> str:
    return say.known(f"tasks.kind.{gain.task}", gain.task)
