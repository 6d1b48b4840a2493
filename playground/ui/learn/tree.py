"""Lesson 1, "Greedy can lose": a tree of two steps whose probabilities a visitor may change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gradio as gr

from playground.demonstrations.searches import TreeSearch, search_tree
from playground.lessons.tree import CHAPTER, FIRST, SECOND, WIDTHS, Tree, edited, first_fault
from playground.ui.learn.parts import DRAG, LIGHT, chapter, heading, predict, sources, text
from playground.ui.learn.tree_view import fault_text, paths_html, tree_html, verdict_html
from playground.ui.markup import markup
from playground.ui.numbers import decimals
from playground.ui.results import line
from playground.ui.strings import Words
from playground.ui.worker import Worker

_WIDTH = 2  # the chapter's beam


def lesson(worker: Worker, say: Words) -> None:
    """Lay out the lesson in the current Blocks: nobody has searched until the visitor predicts."""
    text(say("lose.text"))
    asked = _question(say)
    with gr.Row(elem_id="tree-bar"):
        width = gr.Radio(list(WIDTHS), value=_WIDTH, label=say("lose.width"), elem_id="tree-width")
        search = gr.Button(say("lose.search"), variant="primary", elem_id="tree-search")
    verdict = markup(elem_id="tree-verdict")
    with gr.Row(elem_id="tree-found"):
        figure = markup(tree_html(CHAPTER, (), say), "tree-figure")
        table = markup(elem_id="tree-paths")
    heading(say("lose.change"))
    text(say("lose.change.text"))
    numbers = _numbers(say)
    with gr.Row(elem_id="tree-end"):
        reset = gr.Button(say("lose.reset"), size="sm", elem_id="tree-reset")
        fault = markup(elem_id="tree-fault")
    outputs = [verdict, figure, table, fault]

    def draw(width: int, *values: Any) -> tuple[Any, ...]:
        """Everything, or what is wrong with the numbers beside what was shown before."""
        first, *second = _laws(values)
        found = first_fault(first, second)
        if found is not None:
            return (*[gr.skip()] * 3, line(fault_text(found, say)))
        return (*_draw(edited(first, second), width, say), "")

    def restore(width: int) -> tuple[Any, ...]:
        return (*_draw(CHAPTER, width, say), "", *_values(CHAPTER))

    changes = [search.click, asked.input, width.input, *(part.input for part in numbers)]
    gr.on(changes, draw, [width, *numbers], outputs, **DRAG)
    reset.click(restore, width, [*outputs, *numbers], **LIGHT)
    sources(say, chapter(say))


def _question(say: Words) -> gr.Radio:
    """Which text will a beam of two find?"""
    searches = _searches(CHAPTER)
    greedy, beam = searches[None].path.joint, searches[_WIDTH].path.joint
    return predict(
        say,
        "lose.ask",
        ("first", "second", "other"),
        "second",
        greedy=decimals(greedy),
        beam=decimals(beam),
        ratio=f"{beam / greedy:.2g}",
    )


def _searches(tree: Tree) -> dict[int | None, TreeSearch]:
    """What greedy (None) and a beam of each width find."""
    return {found.width: found for found in search_tree(tree)}


def _draw(tree: Tree, width: int, say: Words) -> tuple[str, str, str]:
    """Verdict, tree and table."""
    searches = _searches(tree)
    pair = searches[None], searches[width]
    return (
        verdict_html(tree, *pair, say),
        tree_html(tree, pair, say),
        paths_html(tree, *pair, say),
    )


def _numbers(say: Words) -> list[gr.Number]:
    """A field for each probability, a group for each law."""
    titles = [say("lose.first"), *(say("lose.after", name=name) for name in FIRST)]
    laws = (CHAPTER.first, *CHAPTER.second)
    found = []
    with gr.Row(elem_id="tree-laws"):
        for title, names, law in zip(titles, (FIRST, *[SECOND] * len(FIRST)), laws, strict=True):
            with gr.Column(min_width=150, elem_classes="dp-law"):
                markup(f"<h4>{title}</h4>")
                with gr.Row():
                    for name, value in zip(names, law, strict=True):
                        field = gr.Number(value, label=name, step=0.05, min_width=56)
                        found.append(field)
    return found


def _laws(values: Sequence[Any]) -> list[tuple[Any, ...]]:
    """The values of the fields, a law of three each."""
    return [tuple(values[i : i + len(SECOND)]) for i in range(0, len(values), len(SECOND))]


def _values(tree: Tree) -> list[float]:
    return [value for law in (tree.first, *tree.second) for value in law]
