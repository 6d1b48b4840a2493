"""What a comparison looks like, while it runs and afterwards: one view a run. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from playground.compare import Comparison, baseline_of
from playground.methods import method_named, parse
from playground.metrics import first_difference
from playground.types import DecodeResult, Event

ENDED = ("done", "stopped", "failed", "recorded")
State = Literal[
    "idle", "waiting", "running", "provisional", "done", "stopped", "failed", "recorded"
]


@dataclass(slots=True)
class RunView:
    """One run as its card shows it. `row` and `baseline` come once it can be compared. `mark` is
    the position of a token to flag: the first that differs from another run's. `drawn` keeps the
    HTML of the finished text, by what it depends on: cards are painted five times a second."""

    label: str
    method: str
    params: dict[str, Any]
    badge: str
    state: State = "idle"
    text: str = ""
    num_tokens: int = 0
    elapsed_s: float = 0.0
    result: DecodeResult | None = None
    row: dict[str, Any] | None = None
    baseline: str = ""
    error: str = ""
    mark: int | None = None
    drawn: dict[Any, str] = field(default_factory=dict)

    @property
    def limit(self) -> int:
        """Most tokens that this run may produce."""
        return int(self.params["max_new_tokens"])

    def absorb(self, event: Event) -> None:
        """Move on with one event of this run."""
        self.num_tokens, self.elapsed_s = event.num_new_tokens, event.elapsed_s
        self.text = event.text or ""
        if event.result is not None:
            self.result = event.result
            self.drawn.clear()
            self.state = "stopped" if event.result.finish_reason == "cancelled" else "done"
        else:
            self.state = "provisional" if event.kind == "beam" else "running"


class Board:
    """The views of one comparison, in the order of its runs. baseline: the run that a visitor wants
    speed-up to refer to, "" for the comparison's own choice."""

    def __init__(
        self,
        runs: dict[str, dict[str, Any]],
        state: State = "idle",
        baseline: str = "",
        prompt: str | None = None,
    ) -> None:
        self.views = {label: _view(label, run, state) for label, run in runs.items()}
        self.current: str | None = None
        self.comparison: Comparison | None = None
        self._baseline, self._prompt = baseline if baseline in runs else "", prompt

    @classmethod
    def of(cls, comparison: Comparison, recorded: bool, baseline: str = "") -> Board:
        """The views of a finished comparison: one that was decoded here, or a record."""
        results = comparison.results
        runs = {label: {"method": r.method, **r.params} for label, r in results.items()}
        board = cls(runs, "recorded" if recorded else "done", baseline)
        for label, result in results.items():
            view = board.views[label]
            view.result, view.text = result, result.text or ""
            if result.finish_reason == "cancelled" and not recorded:
                view.state = "stopped"
        board.finish(comparison)
        return board

    def absorb(self, label: str, event: Event) -> None:
        """Take in one event of the run `label`."""
        self.current = label
        view = self.views[label]
        view.absorb(event)
        if event.result is not None:
            self._compare()

    def finish(self, comparison: Comparison) -> None:
        """Take in the comparison's own numbers: medians where runs were repeated."""
        if self._baseline in comparison.results:
            comparison = dataclasses.replace(comparison, baseline=self._baseline)
        self.comparison = comparison
        for row in comparison.rows():
            view = self.views[row["label"]]
            view.row, view.baseline = row, comparison.baseline

    def mark(self, first: str, second: str) -> None:
        """Flag where these two runs first differ."""
        if first in self.views and second in self.views and first != second:
            both = [self.views[label] for label in (first, second)]
            if both[0].result is not None and both[1].result is not None:
                at = first_difference(both[0].result.token_ids, both[1].result.token_ids)
                both[0].mark = both[1].mark = at

    def stop(self) -> None:
        """Whatever has not ended will not; what has is compared with its own first run where the
        one that all would be compared with is missing."""
        for view in self._open():
            view.state = "stopped"
        if self.comparison is None:
            self._compare(last=True)

    def fail(self, reason: str) -> None:
        """The run at hand failed, and those after it will not start."""
        for i, view in enumerate(self._open()):
            view.state, view.error = ("failed", reason) if i == 0 else ("stopped", "")

    def rows(self) -> list[dict[str, Any]]:
        """The rows of all ended runs."""
        return [view.row for view in self.views.values() if view.row is not None]

    def number(self) -> int:
        """How many runs have begun."""
        return sum(view.state not in ("idle", "waiting") for view in self.views.values())

    def _open(self) -> Iterable[RunView]:
        return [v for v in self.views.values() if v.state not in ENDED]

    def _compare(self, last: bool = False) -> None:
        """Rows of what has ended with any text, against the run that all will be compared with."""
        results = {
            label: view.result
            for label, view in self.views.items()
            if view.result is not None and view.result.token_ids
        }
        badges = {label: view.badge for label, view in self.views.items()}
        baseline = self._baseline or baseline_of(badges)
        if last and results:
            baseline = next(iter(results))
        if baseline in results:
            seconds = {label: [r.metrics.total_s] for label, r in results.items()}
            self.finish(Comparison(self._prompt, results, seconds, baseline))


def _view(label: str, run: dict[str, Any], state: State) -> RunView:
    """The view of {"method": ..., **params}; raises ValueError where these do not fit."""
    given = {k: v for k, v in run.items() if k != "method"}
    settings = parse(run["method"], given)
    badge = method_named(run["method"]).badge(settings)
    return RunView(label, run["method"], settings.flat(), badge, state)
