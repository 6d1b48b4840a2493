"""Lesson 2, "One beam step": expand, score, prune, collect, and what the cache does after it."""

from __future__ import annotations

from functools import cache
from typing import Any

import gradio as gr

from playground.demonstrations.searches import cache_rows, tree_step
from playground.lessons.beam_step import BeamStep, Move, beam_step
from playground.lessons.tree import CHAPTER, FIRST, SECOND
from playground.types import SearchStep
from playground.ui.files import open_shipped
from playground.ui.learn.parts import DRAG, chapter, heading, predict, sources, text
from playground.ui.learn.step_view import (
    MOVES,
    Scene,
    cache_html,
    cache_note_html,
    grown,
    move_html,
)
from playground.ui.markup import markup
from playground.ui.strings import Words
from playground.ui.worker import Worker

_WIDTH = 2  # the chapter's beam
_TREE, _REAL = "tree", "real"
_TREE_STEPS = 2
_START = {_TREE: _TREE_STEPS, _REAL: 4}  # the step that is shown first
_TRACE, _RUN = "summary", "beam"  # a shipped trace, and the run in it that searched
VOCABULARY = 49_152  # tokens that the trace's pair knows
# The cache's example: a prompt of four tokens, three rows of two, and which rows go on.
_PROMPT, _ROWS, _PARENTS = (1, 2, 3, 4), ((5, 6), (7, 8), (9, 10)), (1, 0, 0)
_NAMES = dict(enumerate(("p₁", "p₂", "p₃", "p₄", "a₁", "a₂", "b₁", "b₂", "c₁", "c₂"), start=1))


def lesson(worker: Worker, say: Words) -> None:
    """Lay out the lesson in the current Blocks."""
    text(say("step.text"))
    best = _tree_scene(_START[_TREE]).step.moves[0]
    predict(say, "step.ask", ("first", "second", "third"), "second", flat=best.flat)
    _moves(say)
    heading(say("step.cache"))
    text(say("step.cache.text"))
    _cache(say)
    sources(say, chapter(say))


# --- the four moves -------------------------------------------------------------------------------


def _moves(say: Words) -> None:
    """Which search, which of its steps, which move; and what that does."""
    with gr.Row(elem_id="step-bar"):
        searches = [(say(f"step.source.{name}"), name) for name in (_TREE, _REAL)]
        source = gr.Radio(searches, value=_TREE, label=say("step.source"), elem_id="step-source")
        number = gr.Slider(
            1, _last(_TREE), _START[_TREE], step=1, label=say("step.number"), elem_id="step-number"
        )
    names = [(f"{i} {say(f'step.{move}')}", move) for i, move in enumerate(MOVES, 1)]
    move = gr.Radio(names, value=MOVES[0], label=say("step.move"), elem_id="step-move")
    shown = markup(move_html(_tree_scene(_START[_TREE]), MOVES[0], say), "step-shown")

    def draw_move(source: str, number: float, move: str) -> str:
        return move_html(_scene(source, int(number)), move, say)

    def switch(source: str, move: str) -> tuple[Any, str]:
        start = _START[source]
        return gr.update(maximum=_last(source), value=start), draw_move(source, start, move)

    for part in (number, move):
        part.input(draw_move, [source, number, move], shown, **DRAG)
    source.input(switch, [source, move], [number, shown], **DRAG)


def _scene(source: str, number: int) -> Scene:
    """Step `number` of a search, from 1; its last one where it has no more."""
    number = min(max(number, 1), _last(source))
    return _tree_scene(number) if source == _TREE else _real_scene(number)


def _last(source: str) -> int:
    """How many steps a search has."""
    return _TREE_STEPS if source == _TREE else len(_recorded())


def _tree_scene(number: int) -> Scene:
    first = tree_step(CHAPTER, _WIDTH, 0)
    if number == 1:
        return Scene(first, ("",), _first_name, whole=True)
    second = tree_step(CHAPTER, _WIDTH, 1)
    return Scene(second, grown([""], first, _first_name), _second_name, whole=True)


def _first_name(move: Move) -> str:
    return FIRST[move.token_id]


def _second_name(move: Move) -> str:
    return SECOND[move.token_id]


@cache
def _recorded() -> tuple[SearchStep, ...]:
    """The recorded search of the chat pair."""
    return open_shipped(_TRACE).comparison.results[_RUN].steps


def _real_scene(number: int) -> Scene:
    steps: list[BeamStep] = [beam_step(_recorded(), i, VOCABULARY) for i in range(number)]
    texts: tuple[str, ...] = ("",)
    for step in steps[:-1]:
        texts = grown(texts, step, _piece)
    return Scene(steps[-1], texts, _piece, whole=False)


def _piece(move: Move) -> str:
    return move.text or ""


# --- the cache ------------------------------------------------------------------------------------


def _cache(say: Words) -> None:
    """Which row each next row continues, and what the cache then holds."""
    with gr.Row(elem_id="step-parents"):
        parents = [
            gr.Radio(
                list(range(len(_ROWS))),
                value=parent,
                label=say("step.cache.parent", row=row),
                elem_id=f"step-parent-{row}",
                min_width=150,
            )
            for row, parent in enumerate(_PARENTS)
        ]

    def draw_cache(*parents: int) -> str:
        rows = cache_rows(_PROMPT, _ROWS, parents)
        return cache_html(rows, _NAMES, say) + cache_note_html(rows, say)

    shown = markup(draw_cache(*_PARENTS), "step-cache")
    for part in parents:
        part.input(draw_cache, parents, shown, **DRAG)
