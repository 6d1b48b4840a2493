"""What a finished comparison shows below its cards: chart, table, verdict, a look inside, files.

Everything is made from the records alone, so that a trace file opens without any model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

import gradio as gr

from playground import traces
from playground.axes import X_AXES, Y_AXES
from playground.charts import WORDS, publication, speed_fidelity
from playground.compare import Comparison
from playground.tables import rows_to_csv
from playground.types import DecodeResult
from playground.ui.beam_tree import beam_tree_html
from playground.ui.board import Board
from playground.ui.cards import card_html, table_html
from playground.ui.markup import markup
from playground.ui.rounds import rounds_html
from playground.ui.runs import MAX_RUNS, name_of
from playground.ui.setup import START
from playground.ui.strings import Words
from playground.ui.tokens import difference_html
from playground.ui.verdict import verdict

Update = dict[Any, Any]  # component -> its new value

# Panels of "Look inside": for which runs there is something to see, and what.
PANELS: dict[str, tuple[Callable[[DecodeResult], bool], Callable[[DecodeResult, Words], str]]] = {
    "rounds": (lambda result: bool(result.rounds), rounds_html),
    "tree": (lambda result: bool(result.steps), beam_tree_html),
}


@dataclass(frozen=True, slots=True, eq=False)  # Gradio hashes states; one is only ever itself
class Shown:
    """What the page shows: a comparison, the setup that it came from, and whether it was decoded
    here or is a record."""

    comparison: Comparison
    setup: dict[str, Any]
    recorded: bool = False

    def inside(self) -> list[tuple[str, str]]:
        """(panel, label) of everything there is to look into, rounds first."""
        results = self.comparison.results.items()
        return [(panel, k) for panel, (has, _) in PANELS.items() for k, r in results if has(r)]


@dataclass(frozen=True, slots=True)
class Choice:
    """How a visitor wants to see a comparison: axes, baseline, two runs whose texts to compare."""

    x: str = START.x
    y: str = START.y
    baseline: str = ""
    first: str | None = None
    second: str | None = None


@dataclass(frozen=True, slots=True)
class Results:
    """The components. Cards have a slot each; `shown` is the state behind all of them."""

    say: Words
    status: gr.HTML
    cards: list[gr.HTML]
    body: gr.Column
    verdict: gr.HTML
    chart: gr.Plot
    table: gr.HTML
    x: gr.Dropdown
    y: gr.Dropdown
    baseline: gr.Dropdown
    first: gr.Dropdown
    second: gr.Dropdown
    difference: gr.HTML
    inside: gr.Dropdown
    panel: gr.HTML
    downloads: dict[str, gr.Button]
    shown: gr.State

    def choices(self) -> list[Any]:
        """The components of a `Choice`, in its order."""
        return [self.x, self.y, self.baseline, self.first, self.second]

    def outputs(self) -> list[Any]:
        """Every component that a comparison writes to."""
        own = [self.status, self.body, self.verdict, self.chart, self.table, self.baseline]
        look = [self.first, self.second, self.difference, self.inside, self.panel, self.shown]
        return [*own, *self.cards, *look]

    def cleared(self) -> Update:
        """Old results are gone once a new comparison begins."""
        return {self.body: gr.update(visible=False), self.shown: None, self.chart: None}

    def show(self, shown: Shown, choice: Choice, board: Board | None = None) -> Update:
        """Everything for a comparison that was not shown before; `board` is the one that it was
        decoded on, if it was."""
        board = board or self._board(shown, choice)
        results = list(shown.comparison.results)
        texts = [(self.say("view.nothing"), "")]
        texts += [(name_of(label, self.say), label) for label in results]
        return {
            self.body: gr.update(visible=True),
            self.shown: shown,
            self.first: gr.update(choices=texts, value=""),
            self.second: gr.update(choices=texts, value=""),
            self.difference: "",
            **self.baselines(results, choice.baseline),
            **self._numbers(board, shown, replace(choice, first=None, second=None)),
            **self.look(shown, ""),
        }

    def baselines(self, labels: Sequence[str], wanted: str) -> Update:
        """The runs that speed-up can refer to, and the one that it does."""
        named = [(name_of(label, self.say), label) for label in labels]
        choices = [(self.say("baseline.auto"), ""), *named]
        return {self.baseline: gr.update(choices=choices, value=wanted if wanted in labels else "")}

    def numbers(self, shown: Shown, choice: Choice) -> Update:
        """Cards, chart, table and verdict, as the visitor wants to see them."""
        return self._numbers(self._board(shown, choice), shown, choice)

    def _numbers(self, board: Board, shown: Shown, choice: Choice) -> Update:
        rows = board.rows()
        baseline = board.comparison.baseline if board.comparison else ""
        return {
            self.verdict: line(verdict(rows, baseline, self.say)),
            self.table: table_html(rows, self.say),
            self.chart: figure(board, choice, self.say),
            **self._differ(board, shown, choice),
        }

    def differ(self, shown: Shown, choice: Choice) -> Update:
        """The cards, and where the two chosen runs part, if there are two."""
        return self._differ(self._board(shown, choice), shown, choice)

    def _board(self, shown: Shown, choice: Choice) -> Board:
        return Board.of(shown.comparison, shown.recorded, choice.baseline)

    def _differ(self, board: Board, shown: Shown, choice: Choice) -> Update:
        results = shown.comparison.results
        first, second = choice.first or "", choice.second or ""
        if first == second or not {first, second} <= set(results):
            return {**self.slots(board), self.difference: ""}
        board.mark(first, second)
        names = (name_of(first, self.say), name_of(second, self.say))
        sentence = difference_html(results[first], results[second], names, self.say)
        return {**self.slots(board), self.difference: sentence}

    def file(self, shown: Shown, choice: Choice, kind: str) -> str:
        """The text of a file to save; for a picture, the figure that it is drawn from."""
        if kind == "csv":
            return rows_to_csv(shown.comparison.rows())
        if kind == "json":
            return traces.dump(shown.comparison, shown.setup)
        board = self._board(shown, choice)
        return str(publication(figure(board, choice, self.say)).to_json())

    def slots(self, board: Board) -> Update:
        """The cards of a board."""
        cards = [card_html(view, self.say) for view in board.views.values()]
        return dict(zip(self.cards, cards + [""] * (MAX_RUNS - len(cards)), strict=True))

    def look(self, shown: Shown, wanted: str | None) -> Update:
        """The panel "kind label" of one run's inside; the first there is where that is missing."""
        say, names = self.say, {}
        for kind, label in shown.inside():
            names[f"{kind} {label}"] = say(f"inside.{kind}", name=name_of(label, say))
        if not names:
            none = gr.update(choices=[], value=None)
            return {self.inside: none, self.panel: line(say("inside.none"))}
        key = wanted if wanted in names else next(iter(names))
        kind, _, label = key.partition(" ")
        html = PANELS[kind][1](shown.comparison.results[label], say)
        choices = [(text, name) for name, text in names.items()]
        return {self.inside: gr.update(choices=choices, value=key), self.panel: html}


def figure(board: Board, choice: Choice, say: Words) -> Any:
    """The chart of a board's rows, in the page's language."""
    rows = [row | {"label": name_of(row["label"], say)} for row in board.rows()]
    words = {name: say.known(f"chart.{name}", text) for name, text in WORDS.items()}
    return speed_fidelity(rows, choice.x, choice.y, words)


def line(text: str) -> str:
    """A line of text that screen readers announce."""
    return f'<p role="status" aria-live="polite">{escape(text)}</p>'


def make_results(status: gr.HTML, say: Words) -> Results:
    """Lay out cards and results in the current Blocks, still empty."""
    with gr.Column(elem_id="cards"):
        cards = [markup(elem_id=f"card-{i}") for i in range(MAX_RUNS)]
    with gr.Column(visible=False, elem_id="body") as body:
        verdict_line = markup(elem_id="verdict")
        with gr.Row(elem_id="views"):
            x = _choice("x", X_AXES, say)
            y = _choice("y", Y_AXES, say)
            baseline = _labels("baseline", say)
            first, second = _labels("first", say), _labels("second", say)
        difference = markup(elem_id="difference")
        with gr.Row(elem_id="results"):
            chart = gr.Plot(show_label=False, container=False, elem_id="chart")
            table = markup(elem_id="table")
        with gr.Row(elem_id="downloads"):
            downloads = {
                kind: gr.Button(say(f"save.{kind}"), elem_id=f"save-{kind}", size="sm")
                for kind in ("png", "svg", "csv", "json")
            }
        with gr.Column(elem_id="inside"):
            inside = _labels("inside", say)
            panel = markup(elem_id="panel")
    return Results(
        say,
        status,
        cards,
        body,
        verdict_line,
        chart,
        table,
        x,
        y,
        baseline,
        first,
        second,
        difference,
        inside,
        panel,
        downloads,
        gr.State(None),
    )


def _choice(name: str, values: Iterable[str], say: Words) -> gr.Dropdown:
    """One of a few named values, the first to start with."""
    choices = [(say(f"axis.{value}"), value) for value in values]
    return _dropdown(name, say, choices, next(iter(values)))


def _labels(name: str, say: Words) -> gr.Dropdown:
    """One of the runs that are shown; the choices come with them."""
    return _dropdown(name, say, [], None)


def _dropdown(name: str, say: Words, choices: list[tuple[str, str]], value: Any) -> gr.Dropdown:
    return gr.Dropdown(
        choices,
        value=value,
        label=say(f"view.{name}"),
        elem_id=f"view-{name}",
        filterable=False,
        min_width=130,
    )
