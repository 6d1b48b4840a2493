"""From a request to updates of the page: what changed, at most ten times a second."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import gradio as gr

from playground.charts import speed_fidelity
from playground.compare import Comparison
from playground.types import Event
from playground.ui import cards, numbers
from playground.ui.board import Board
from playground.ui.requests import CompareRequest
from playground.ui.strings import say
from playground.ui.verdict import verdict
from playground.ui.worker import Unavailable, Worker

if TYPE_CHECKING:
    from playground.models import ModelPair

Update = dict[Any, Any]  # component -> its new value


@dataclass(frozen=True, slots=True)
class Outputs:
    """The components that a comparison writes to; a slot for each card."""

    status: gr.HTML
    cards: list[gr.HTML]
    verdict: gr.HTML
    chart: gr.Plot
    table: gr.HTML

    def all(self) -> list[Any]:
        """Every one of them, as an event's outputs."""
        return [self.status, *self.cards, self.verdict, self.chart, self.table]


def updates(
    worker: Worker, outputs: Outputs, ask: Callable[[], CompareRequest], visitor: gr.Request
) -> Iterator[Update]:
    """Run a comparison and keep the page up to date. Bad input raises gr.Error before any model
    runs; whatever fails later is shown on the card of the run that failed."""
    with worker.request(visitor.session_hash) as stop:
        painter = _Painter(outputs)
        try:
            wanted = ask()
            if worker.status.state == "loading":
                yield {outputs.status: line(say("status.waiting"))}
            for batch in worker.stream(lambda pair: _events(worker, pair, wanted, stop), stop):
                for label, item in batch:
                    painter.take(label, item)
                if stop.is_set() and painter.board is None:
                    break  # stopped before anything began
                yield painter.paint()
        except Exception as error:
            if painter.board is None:
                raise _refusal(error) from error
            painter.board.fail(say("error.internal", reason=f"{type(error).__name__}: {error}"))
        yield painter.finish()


def line(text: str) -> str:
    """A line of text that screen readers announce."""
    return f'<p role="status" aria-live="polite">{escape(text)}</p>'


def _events(
    worker: Worker, pair: ModelPair, wanted: CompareRequest, stop: threading.Event
) -> Iterator[tuple[str, Board | Event | Comparison]]:
    """On the model's thread: check, say what is coming, then the comparison's events."""
    plans = wanted.plans(pair, worker.settings)
    runs = {k: {"method": p.method, **p.settings.flat()} for k, p in plans.items()}
    yield "", Board(runs, "waiting")
    yield from wanted.events(pair, plans, worker.settings, stop)


def _refusal(error: Exception) -> gr.Error:
    """What a visitor is told when nothing ran; the toast reads markup, so it is escaped."""
    if isinstance(error, ValueError):
        text = str(error)
    elif isinstance(error, Unavailable):
        text = say("pair.unavailable", reason=error)
    else:
        text = say("error.internal", reason=f"{type(error).__name__}: {error}")
    return gr.Error(escape(text), title=say("error.title"), print_exception=False)


class _Painter:
    """Turns a board into updates of only those components that look different now."""

    def __init__(self, outputs: Outputs) -> None:
        self.board: Board | None = None
        self._outputs = outputs
        self._shown: dict[Any, str] = {}

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
        out = self._outputs
        if self.board is None:
            return {out.status: gr.skip()}
        fresh: Update = {} if self._shown else self._cleared()
        views = list(self.board.views.values())
        texts = {out.status: line(_status(self.board))}
        for i, slot in enumerate(out.cards):
            texts[slot] = cards.card_html(views[i]) if i < len(views) else ""
        fresh |= {part: text for part, text in texts.items() if self._shown.get(part) != text}
        self._shown |= texts
        return fresh or {out.status: gr.skip()}

    def finish(self) -> Update:
        """The last update: final cards, and chart, table and verdict of what has ended."""
        out, board = self._outputs, self.board
        if board is None:
            return {out.status: line(say("status.stopped"))}
        stopped = any(view.state in ("waiting", "stopped") for view in board.views.values())
        board.stop()
        rows = board.rows()
        update = self.paint()
        update[out.status] = line(say("status.stopped") if stopped else _summary(rows))
        if rows:
            baseline = next(view.baseline for view in board.views.values() if view.row)
            update[out.verdict] = "" if stopped else line(verdict(rows, baseline))
            update[out.chart] = gr.update(value=speed_fidelity(rows), visible=True)
            update[out.table] = cards.table_html(rows)
        return update

    def _cleared(self) -> Update:
        """Old results are gone once a new comparison begins."""
        out = self._outputs
        return {out.verdict: "", out.table: "", out.chart: gr.update(value=None, visible=False)}


def _summary(rows: list[dict[str, Any]]) -> str:
    tokens = sum(row["num_new_tokens"] for row in rows)
    spent = numbers.seconds(sum(row["total_s"] for row in rows))
    return say("status.done", tokens=tokens, seconds=spent)


def _status(board: Board) -> str:
    if board.current is None:
        return say("card.waiting")
    view, count = board.views[board.current], len(board.views)
    name = cards.name_of(view.label)
    return say("status.run", label=name, number=board.number(), count=count)
