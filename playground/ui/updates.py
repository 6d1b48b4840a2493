"""From a request to updates of the page: what changed, at most five times a second."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

import gradio as gr

from playground.catalog import has_draft
from playground.compare import Comparison
from playground.types import Event
from playground.ui import numbers
from playground.ui.board import Board
from playground.ui.controls import label_of
from playground.ui.problems import problem
from playground.ui.requests import CompareRequest, request_from_page
from playground.ui.results import Choice, Results, Shown, Update, line
from playground.ui.runs import name_of
from playground.ui.setup import Setup, to_record
from playground.ui.strings import Words
from playground.ui.worker import PageSettings, Worker

if TYPE_CHECKING:
    from playground.models import ModelPair


def updates(
    worker: Worker, results: Results, setup: Setup, choice: Choice, visitor: gr.Request
) -> Iterator[Update]:
    """Run a comparison and keep the page up to date. Bad input raises gr.Error before any model
    runs; whatever fails later is shown on the card of the run that failed."""
    say = results.say
    with worker.request(visitor.session_hash) as stop:
        painter = Painter(results, setup, choice)
        try:
            wanted = request_from_page(setup)
            wanted.check(worker.settings, has_draft(setup.pair))  # before another pair is loaded
            if worker.status(setup.pair).state != "ready":
                yield {results.status: line(say("status.waiting"))}
            start = partial(_events, wanted, worker.settings, setup, stop)
            seconds = partial(wanted.gpu_seconds, worker.settings)
            for batch in worker.stream(setup.pair, start, stop, seconds):
                for label, item in batch:
                    painter.take(label, item)
                if stop.is_set() and painter.board is None:
                    break  # stopped before anything began
                yield painter.paint()
        except Exception as error:
            if painter.board is None:
                raise refusal(error, say) from error
            painter.board.fail(problem(error, say))
        yield painter.finish()


def _events(
    wanted: CompareRequest,
    settings: PageSettings,
    setup: Setup,
    stop: threading.Event,
    pair: ModelPair,
) -> Iterator[tuple[str, Board | Event | Comparison]]:
    """On the model's thread: check, say what is coming, then the comparison's events."""
    plans = wanted.plans(pair, settings)
    runs = {k: {"method": p.method, **p.settings.flat()} for k, p in plans.items()}
    yield "", Board(runs, "waiting", setup.baseline, setup.prompt)
    yield from wanted.events(pair, plans, settings, stop)


def refusal(error: Exception, say: Words, title: str = "error.title") -> gr.Error:
    """What a visitor is told when nothing ran; the toast reads markup, so it is escaped."""
    name, colon, rest = problem(error, say).partition(": ")
    rest = rest.replace("None is not allowed", say("error.empty"), 1)  # Gradio's empty number
    text = label_of(name, say) + colon + rest  # the field as the visitor knows it
    return gr.Error(escape(text), title=say(title), print_exception=False)


class Painter:
    """Turns a board into updates of only those components that look different now."""

    def __init__(self, results: Results, setup: Setup, choice: Choice) -> None:
        self.board: Board | None = None
        self._results, self._setup, self._choice = results, setup, choice
        self._painted: dict[Any, str] = {}

    def take(self, label: str, item: Board | Event | Comparison) -> None:
        """One item of the run's stream: the board itself first, then what happens on it."""
        if isinstance(item, Board):
            self.board = item
        elif self.board is None:
            raise RuntimeError("an event came before its board")
        elif isinstance(item, Comparison):
            self.board.finish(item)
        else:
            self.board.absorb(label, item)

    def paint(self) -> Update:
        """Status line and cards. Never empty: Gradio takes an empty dict for a missing output,
        and needs a chance now and then to see that the visitor has left."""
        out = self._results
        if self.board is None:
            return {out.status: gr.skip()}
        fresh: Update = {} if self._painted else out.cleared()
        texts = {out.status: line(_status(self.board, out.say)), **out.slots(self.board)}
        fresh |= {part: text for part, text in texts.items() if self._painted.get(part) != text}
        self._painted |= texts
        return fresh or {out.status: gr.skip()}

    def finish(self) -> Update:
        """The last update: final cards, and the results of what has ended."""
        out, board, say = self._results, self.board, self._results.say
        if board is None:
            return {out.status: line(say("status.stopped"))}
        stopped = any(view.state in ("waiting", "stopped") for view in board.views.values())
        board.stop()
        update = self.paint()
        if board.comparison is not None:
            shown = Shown(board.comparison, to_record(self._setup))
            update |= out.show(shown, self._choice, board)
            update |= {out.verdict: ""} if stopped else {}
        text = say("status.stopped") if stopped else _summary(board.rows(), say)
        return update | {out.status: line(text)}


def _summary(rows: list[dict[str, Any]], say: Words) -> str:
    tokens = sum(row["num_new_tokens"] for row in rows)
    spent = numbers.seconds(sum(row["total_s"] for row in rows))
    return say("status.done", tokens=tokens, seconds=spent)


def _status(board: Board, say: Words) -> str:
    if board.current is None:
        return say("card.waiting")
    view, count = board.views[board.current], len(board.views)
    name = name_of(view.label, say)
    return say("status.run", label=name, number=board.number(), count=count)
