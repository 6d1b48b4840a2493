"""A sweep on the page's worker, in turns with everybody else's requests.

One sweep runs at a time. It goes to the back of the worker's line every few seconds, so that a
comparison waits for no more than a turn. Its rows live in memory, for as long as the request.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from playground.datasets import Dataset, Example
from playground.results import Result
from playground.session import check
from playground.sweep import record
from playground.sweep.grid import Configuration
from playground.sweep.rows import Place, Row, place_of
from playground.sweep.runner import Runner
from playground.sweep.summary import Summary, summarise
from playground.types import to_json
from playground.ui import zerogpu
from playground.ui.operations import log_row, new_id
from playground.ui.worker import Worker

if TYPE_CHECKING:
    from playground.models import ModelPair

_TURN_S = 30.0 if zerogpu.ON else 2.0  # a GPU takes seconds to be lent
SWEEP_ENDPOINT = "/sweep"
_RESERVED_S = 75.0  # of such a GPU: to start, a turn, and its last run


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """A checked sweep. law: what fidelity refers to; command: the same on the command line,
    or the name of the endpoint."""

    pair: str
    dataset: Dataset
    configs: Sequence[Configuration]
    law: dict[str, Any]
    seed: int
    raw: bool = False
    command: str = ""

    @property
    def endpoint(self) -> str:
        """Where it was asked for, as the log names it."""
        return SWEEP_ENDPOINT if self.command == SWEEP_ENDPOINT else "page"

    def tokens(self) -> int:
        """The work of it all: tokens that the target may have to read."""
        return len(self.dataset.examples) * sum(_work(config) for config in self.configs)

    def runs(self) -> list[tuple[Configuration, Example]]:
        """What has to be done, prompt by prompt."""
        return [(config, e) for e in self.dataset.examples for config in self.configs]


def _work(config: Configuration) -> int:
    """Tokens for one prompt, beams counted."""
    values = check(config.method, config.params).flat()
    tokens = int(values["max_new_tokens"])
    return int(values.get("max_nodes") or tokens * (values.get("num_beams") or 1))


@dataclass(slots=True)
class Sweeping:
    """A sweep on its way. rows: those of the runs that have ended; summary: of the prompts that
    were complete when it was made; running_s: seconds that its turns took; late: out of time."""

    asked: SweepRequest
    rows: dict[Place, Row] = field(default_factory=dict)
    summary: Summary = field(default_factory=Summary)
    running_s: float = 0.0
    late: bool = False
    record: dict[str, Any] = field(default_factory=dict)
    _summed: tuple[int, float, float] = (0, 0.0, 0.0)  # runs in the summary, its time, its seconds

    @property
    def total(self) -> int:
        """Runs in all."""
        return len(self.asked.dataset.examples) * len(self.asked.configs)

    @property
    def done(self) -> int:
        """Runs that have ended."""
        return len(self.rows)

    @property
    def left_s(self) -> float | None:
        """Seconds of running still to come, once known."""
        return self.running_s / self.done * (self.total - self.done) if self.done else None

    def take(self, item: dict[str, Any]) -> bool:
        """What a turn has handed over: the record, or, if so, a row."""
        is_row = "visits" not in item
        if is_row:
            self.rows[place_of(item)] = item
        else:
            self.record = item
        return is_row

    def sum_up(self, now: bool = False) -> None:
        """A new summary where another prompt is complete; unless `now`, only where the last one is
        old enough for another to be cheap beside the runs."""
        count, made, took = self._summed
        whole, start = self.done // len(self.asked.configs), time.monotonic()
        if whole == count or (not now and start - made < max(1.0, 5 * took)):
            return
        references = {e.id: e.reference for e in self.asked.dataset.examples}
        self.summary = summarise(self.asked.configs, self.rows, references, self.asked.seed)
        self._summed = (whole, time.monotonic(), time.monotonic() - start)

    def result(self) -> Result:
        """What is known by now, as it is shown and saved."""
        known = {**self.record, "signatures": self.summary.signatures}
        return Result("", self.summary.records, known, list(self.rows.values()))


def run_sweep(worker: Worker, asked: SweepRequest, stop: threading.Event) -> Iterator[Sweeping]:
    """Run a sweep in turns; yields it again and again while it grows, and once it has ended: when
    all is done, after a stop, or when its time is up, five times that of a run."""
    sweeping, most_s, request = Sweeping(asked), 5 * worker.settings.deadline_s, new_id()
    while sweeping.done < sweeping.total and not (stop.is_set() or sweeping.late):
        turn, before = threading.Event(), sweeping.running_s  # the worker sets it after the turn
        start, begun = partial(_turn, asked, sweeping.done, turn), 0.0
        for batch in worker.stream(asked.pair, start, turn, _reserved):
            for item in batch:
                begun = begun or time.monotonic()
                if sweeping.take(item):
                    log_row(request, asked.endpoint, asked.pair, item)
            sweeping.running_s = before + (time.monotonic() - begun if begun else 0.0)
            sweeping.late = sweeping.running_s > most_s
            yield sweeping
            if stop.is_set() or sweeping.late:
                break
        sweeping.sum_up()
    sweeping.sum_up(now=True)
    yield sweeping


def _turn(
    asked: SweepRequest, done: int, stop: threading.Event, pair: ModelPair
) -> Iterator[dict[str, Any]]:
    """On the model's thread, or in a process with a GPU: a row for each of the next runs, and
    before the first of all what a run.json would hold."""
    begun = time.monotonic()
    runner = Runner(
        pair, asked.configs, seed=asked.seed, law=asked.law, raw=asked.raw, cancelled=stop.is_set
    )
    if not done:
        runner.check(asked.dataset.examples)
        yield {
            "sweep": record.identity(pair, None, asked.dataset, asked.seed, asked.raw),
            "configurations": to_json(list(asked.configs)),
            "visits": [record.visit(pair, asked.dataset, asked.command, 1)],
        }
    for config, example in asked.runs()[done:]:
        row = None if stop.is_set() else runner.row(config, example)
        if row is None:
            return
        yield row
        if time.monotonic() - begun > _TURN_S:
            return


def _reserved(pair: ModelPair) -> float:
    return _RESERVED_S
