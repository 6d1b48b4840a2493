"""Lesson 4, "Length bias": two texts, a norm and a penalty, and which of them a search prefers."""

from __future__ import annotations

from typing import Any

import gradio as gr
import plotly.graph_objects as go

from playground.lesson_charts import length_curves
from playground.lessons.length import (
    LONG,
    NORMS,
    SHORT,
    TABLE_9_6,
    Row,
    Text,
    crossing,
    even,
    row,
)
from playground.ui.learn.parts import (
    CHAPTER,
    DRAG,
    figure,
    figure_words,
    heading,
    inline_html,
    predict,
    sources,
    table_html,
    text,
)
from playground.ui.markup import markup
from playground.ui.numbers import decimals, plain
from playground.ui.strings import Words
from playground.ui.worker import Worker

_STEPS = [i / 20 for i in range(-20, 41)]  # the penalties of the figure and of the slider
_PROBS = {"short": 0.8, "long": 0.85}  # of each token of the chapter's two texts
_NORM, _PENALTY = "length", 1.0
_ASKED = 2.0  # the penalty of the question
_PAPER, _DOCS = (
    "https://arxiv.org/abs/1609.08144",
    "https://huggingface.co/docs/transformers/main_classes/text_generation",
)


def lesson(worker: Worker, say: Words) -> None:
    """Lay out the lesson in the current Blocks."""
    text(say("length.text"))
    before, after = row("length", 0.0), row("length", _ASKED)
    predict(
        say,
        "length.ask",
        ("short", "long", "none"),
        right=after.winner or "none",
        short0=decimals(before.short),
        long0=decimals(before.long),
        short2=f"{after.short:.4f}".replace("-", "−"),
        long2=f"{after.long:.4f}".replace("-", "−"),
    )
    _texts(say)
    heading(say("length.name"))
    text(say("length.name.text"))
    sources(
        say,
        (say("length.source.chapter", section=CHAPTER), ""),
        (f"Wu et al. 2016: {say('source.1609.08144')}", _PAPER),
        (say("length.source.docs"), _DOCS),
    )


def _texts(say: Words) -> None:
    """The two texts, the setting, and what comes of them."""
    with gr.Row(elem_id="length-texts"):
        short, long = (_sliders(key, known, say) for key, known in _chapter().items())
    with gr.Row(elem_id="length-settings"):
        norms = [(say(f"length.norm.{name}"), name) for name in NORMS]
        norm = gr.Radio(norms, value=_NORM, label=say("length.norm"), elem_id="length-norm")
        penalty = gr.Slider(
            _STEPS[0],
            _STEPS[-1],
            _PENALTY,
            step=0.05,
            label=say("length.penalty"),
            info=say("length.penalty.help"),
            elem_id="length-penalty",
        )
    start = draw(say, *_values(), _NORM, _PENALTY)
    verdict = markup(start[0], "length-verdict")
    with gr.Row(elem_classes="dp-beside"):
        curves = figure(start[1], "length-curves")
        table = markup(start[2], "length-table")
    reset = gr.Button(say("length.reset"), size="sm", elem_id="length-reset", elem_classes="dp-act")

    def redraw(*values: Any) -> tuple[str, go.Figure, str]:
        return draw(say, *values)

    inputs: list[Any] = [*short, *long, norm, penalty]
    outputs = [verdict, curves, table]
    for part in inputs:
        part.input(redraw, inputs, outputs, **DRAG)

    def restore(norm: str, penalty: float) -> tuple[Any, ...]:
        return *_values(), *draw(say, *_values(), norm, penalty)

    reset.click(restore, [norm, penalty], [*short, *long, *outputs], **DRAG)


def _chapter() -> dict[str, Text]:
    return {"short": SHORT, "long": LONG}


def _values() -> tuple[float, float, float, float]:
    """The sliders' values for the chapter's texts."""
    return SHORT.tokens, _PROBS["short"], LONG.tokens, _PROBS["long"]


def _sliders(key: str, known: Text, say: Words) -> tuple[gr.Slider, gr.Slider]:
    """Length and probability of one text."""
    with gr.Column(elem_id=f"length-{key}", min_width=260):
        name = say(f"length.{key}")
        tokens = gr.Slider(1, 60, known.tokens, step=1, label=say("length.tokens", name=name))
        label = say("length.prob", name=name)
        prob = gr.Slider(0.05, 1.0, _PROBS[key], step=0.01, label=label)
    return tokens, prob


# --- what is shown --------------------------------------------------------------------------------


def draw(
    say: Words,
    short_tokens: float,
    short_prob: float,
    long_tokens: float,
    long_prob: float,
    norm: str,
    penalty: float,
) -> tuple[str, go.Figure, str]:
    """Verdict, curves and table for two texts under a setting."""
    short, long = even(int(short_tokens), short_prob), even(int(long_tokens), long_prob)
    words = figure_words(say) | {key: say(f"length.{key}") for key in ("short", "long")}
    found = row(norm, 0.0 if norm == "none" else penalty, short, long)
    drawn = length_curves(norm, _STEPS, short, long, words, penalty)
    return verdict_html(found, short, long, say), drawn, scores_html(found, short, long, say)


def verdict_html(found: Row, short: Text, long: Text, say: Words) -> str:
    """Which text wins under this setting, and at which penalty they change places."""
    scores = {"short": decimals(found.short), "long": decimals(found.long)}
    won = say(f"length.wins.{found.winner or 'none'}", **scores)
    shown = f"{inline_html(won)} {inline_html(_crossing(found.norm, short, long, say))}"
    return f'<p class="dp-verdict" role="status">{shown}</p>'


def _crossing(norm: str, short: Text, long: Text, say: Words) -> str:
    """Where the order of two texts turns, if anywhere."""
    if norm == "none":
        return say("length.flat")
    where = crossing(norm, short, long)
    if where is None:
        return say("length.never")
    below, above = ("short", "long") if long.tokens > short.tokens else ("long", "short")
    names = {"below": say(f"length.{below}"), "above": say(f"length.{above}")}
    return say("length.cross", where=plain(where), **names)


def scores_html(found: Row, short: Text, long: Text, say: Words) -> str:
    """The settings of table 9-6 for these texts, and the visitor's own where it is another."""
    rows = [row(norm, penalty, short, long) for norm, penalty in TABLE_9_6]
    if found not in rows:
        rows.append(found)
    chapter = (short, long) == (SHORT, LONG)
    head = [say("length.setting"), *(say(f"length.{key}") for key in _chapter())]
    return table_html(
        [*head, say("length.winner")],
        [_cells(one, say) for one in rows],
        say("length.caption" if chapter else "length.caption.own"),
        marked=[rows.index(found)],
    )


def _cells(one: Row, say: Words) -> list[str]:
    setting = say(f"length.norm.{one.norm}")
    if one.norm != "none":
        setting += f", α {one.penalty:.2f}".removesuffix("0").replace("-", "−")
    winner = say(f"length.{one.winner}") if one.winner else say("length.tie")
    return [setting, decimals(one.short), decimals(one.long), winner]
