"""What a comparison looks like while it runs: one view a run, fed by events. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from playground.compare import Comparison, baseline_of
from playground.methods import method_named, parse
from playground.types import DecodeResult, Event

State = Literal["idle", "waiting", "running", "provisional", "done", "stopped", "failed"]


@dataclass(slots=True)
class RunView:
    """One run as its card shows it. `row` and `baseline` come once it can be compared."""

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
            self.state = "stopped" if event.result.finish_reason == "cancelled" else "done"
        else:
            self.state = "provisional" if event.kind == "beam" else "running"


class Board:
    """The views of one comparison, in the order of its runs."""

    def __init__(self, runs: dict[str, dict[str, Any]], state: State = "idle") -> None:
        self.views = {label: _view(label, run, state) for label, run in runs.items()}
        self.current: str | None = None

    def absorb(self, label: str, event: Event) -> None:
        """Take in one event of the run `label`."""
        self.current = label
        view = self.views[label]
        view.absorb(event)
        if event.result is not None:
            self._compare()

    def finish(self, comparison: Comparison) -> None:
        """Take in the comparison's own numbers: medians where runs were repeated."""
        self._set_rows(comparison)

    def stop(self) -> None:
        """Whatever has not ended will not."""
        for view in self._open():
            view.state = "stopped"

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
        return [v for v in self.views.values() if v.state not in ("done", "stopped", "failed")]

    def _compare(self) -> None:
        """Rows of what has ended with any text, against the run that all will be compared with."""
        results = {
            label: view.result
            for label, view in self.views.items()
            if view.result is not None and view.result.token_ids
        }
        baseline = baseline_of({label: view.badge for label, view in self.views.items()})
        if baseline in results:
            seconds = {label: [r.metrics.total_s] for label, r in results.items()}
            self._set_rows(Comparison(None, results, seconds, baseline))

    def _set_rows(self, comparison: Comparison) -> None:
        for row in comparison.rows():
            view = self.views[row["label"]]
            view.row, view.baseline = row, comparison.baseline


def _view(label: str, run: dict[str, Any], state: State) -> RunView:
    """The view of {"method": ..., **params}; raises ValueError where these do not fit."""
    given = {k: v for k, v in run.items() if k != "method"}
    settings = parse(run["method"], given)
    badge = method_named(run["method"]).badge(settings)
    return RunView(label, run["method"], settings.flat(), badge, state)
