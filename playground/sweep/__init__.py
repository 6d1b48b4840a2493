"""A grid of configurations × prompts -> rows on disk, a summary, a figure.

Rows are appended as runs end, so that a sweep that was killed goes on where it stopped when it is
started again. A row does not depend on the order of runs or on the number of processes: its seed
follows from the sweep's seed and the prompt (`grid.seed_of`). Several processes share the prompts,
each with all of its configurations, so that a comparison on a prompt is one machine's.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import playground.sweep.rows as row_files
from playground.compare import warm_up
from playground.datasets import Example
from playground.frontier_chart import frontier
from playground.models import ModelPair
from playground.params import fail
from playground.session import Cancelled, prepare, run_plan
from playground.sweep import record
from playground.sweep.draft_alone import DraftAlone, judged
from playground.sweep.grid import Configuration, seed_of
from playground.sweep.request import Progress, Report, Request
from playground.sweep.rows import Place, Row
from playground.sweep.summary import summarise
from playground.sweep.team import Team
from playground.tables import rows_to_csv
from playground.types import DecodeResult, to_json

SUMMARY, FIGURE, PICTURE = "summary.csv", "figure.html", "figure.png"


def sweep(
    pair: ModelPair,
    request: Request,
    *,
    team: Team | None = None,
    cancelled: Cancelled | None = None,
) -> Iterator[Progress | Report]:
    """Run what is still to be run, as events. cancelled: asked all the time; what is done counts.

    Raises ValueError, before any run, for a folder that holds another sweep's rows, or a prompt
    that does not fit a model.
    """
    team = team or Team()
    examples = request.dataset.examples
    _check_prompts(pair, request)
    try:
        request.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise fail("out", str(request.out), "a folder that can be written to") from error
    if team.is_main:
        same = record.identity(pair, request.spec, request.dataset, request.seed, request.raw)
        this = record.visit(pair, request.dataset, request.command, team.num_processes)
        record.write(request.out, same, request.configs, this)
        row_files.gather(request.out, request.places())
    team.wait()
    known = row_files.read(request.out / row_files.ROWS)
    own = [e for i, e in enumerate(examples) if i % team.num_processes == team.rank]
    writer = row_files.Writer(row_files.file_of(request.out, team.rank, team.num_processes))
    try:
        yield from _run_all(_Runner(pair, request, cancelled), own, known, writer)
    finally:
        writer.close()
    team.wait()
    if team.is_main:
        yield _report(request)


def _check_prompts(pair: ModelPair, request: Request) -> None:
    """Every prompt and configuration fits the pair."""
    runner = _Runner(pair, request, None)
    first = request.dataset.examples[0]
    longest = max(runner.plan(c, first).settings.params.max_new_tokens for c in request.configs)
    for example in request.dataset.examples:
        try:
            pair.check_length(pair.encode(example.prompt, raw=request.raw), longest)
        except ValueError as error:
            raise ValueError(f"prompt {example.id}: {error}") from error


def _run_all(
    runner: _Runner, examples: Sequence[Example], known: dict[Place, Row], writer: row_files.Writer
) -> Iterator[Progress]:
    configs = runner.request.configs
    todo = [(c, e) for e in examples for c in configs if (c.key, e.id) not in known]
    total = len(examples) * len(configs)
    yield Progress(total - len(todo), total)
    start = time.monotonic()
    for count, (config, example) in enumerate(todo, 1):
        row = runner.row(config, example)
        if row is None:
            return
        writer.write(row)
        left_s = (time.monotonic() - start) / count * (len(todo) - count)
        yield Progress(total - len(todo) + count, total, row, left_s)


class _Runner:
    """Runs configurations on prompts."""

    def __init__(self, pair: ModelPair, request: Request, cancelled: Cancelled | None) -> None:
        self.request = request
        self._cancelled = cancelled
        alone = any(c.model == "draft" for c in request.configs)
        self._pairs = {"target": pair, "draft": DraftAlone(pair) if alone else pair}

    def plan(self, config: Configuration, example: Example) -> Any:
        """The checked run."""
        params = config.params | {"seed": seed_of(self.request.seed, example.id)}
        return prepare(
            self._pairs[config.model],
            example.prompt,
            config.method,
            params,
            raw=self.request.raw,
            reference=self.request.law,
        )

    def row(self, config: Configuration, example: Example) -> Row | None:
        """The row of one run; None where it was cancelled."""
        plan = self.plan(config, example)
        warm_up(plan.pair, {config.label: plan}, self._cancelled)
        *_, last = run_plan(plan, self._cancelled)
        assert last.result is not None
        if last.result.finish_reason == "cancelled":
            return None
        result = last.result
        if config.model == "draft":
            result = judged(self._pairs["target"], result)
        return _row(config, example, plan.seed, result)


def _row(config: Configuration, example: Example, seed: int, result: DecodeResult) -> Row:
    verified = [t for t in result.tokens if t.source in ("accepted", "residual")]
    return {
        "key": config.key,
        "prompt_id": example.id,
        "label": config.label,
        "method": config.method,
        "model": config.model,
        "params": to_json(config.params),
        "kind": example.kind,
        "seed": seed,
        "text": result.text,
        "finish_reason": result.finish_reason,
        "num_prompt_tokens": len(result.prompt_ids),
        "num_verified": sum(t.divergence is not None for t in verified),
        **to_json(result.metrics),
    }


def _report(request: Request) -> Report:
    """Gather the rows, and write what they add up to."""
    rows = row_files.gather(request.out, request.places())
    references = {e.id: e.reference for e in request.dataset.examples}
    found = summarise(request.configs, rows, references, request.seed)
    notes = []
    (request.out / SUMMARY).write_text(rows_to_csv(found.records), encoding="utf-8")
    if found.records:
        figure = frontier(found.records, *found.front)
        figure.write_html(request.out / FIGURE, include_plotlyjs=True)
        try:
            figure.write_image(request.out / PICTURE, width=1000, height=640, scale=2)
        except Exception as error:  # kaleido runs a Chrome, which may be missing or refuse to start
            reason = next((line for line in str(error).splitlines() if line.strip()), "no Chrome")
            notes.append(f"{PICTURE} is left out: {reason.strip()}")
    return Report(found, request.out, tuple(notes))
