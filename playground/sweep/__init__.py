"""A grid of configurations × prompts -> rows on disk, a summary, a figure.

Rows are appended as runs end, so that a sweep that was killed goes on where it stopped when it is
started again. A row does not depend on the order of runs or on the number of processes: its seed
follows from the sweep's seed and the prompt (`grid.seed_of`). Several processes share the prompts,
each with all of its configurations, so that a comparison on a prompt is one machine's.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import playground.sweep.rows as row_files
from playground.datasets import Example
from playground.frontier_chart import frontier
from playground.models import ModelPair
from playground.params import fail
from playground.session import Cancelled
from playground.sweep import record
from playground.sweep.request import Progress, Report, Request
from playground.sweep.rows import Place, Row
from playground.sweep.runner import Runner
from playground.sweep.summary import summarise
from playground.sweep.team import Team
from playground.tables import rows_to_csv

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
    runner = Runner(
        pair,
        request.configs,
        seed=request.seed,
        law=request.law,
        raw=request.raw,
        cancelled=cancelled,
    )
    runner.check(examples)
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
        yield from _run_all(runner, own, known, writer)
    finally:
        writer.close()
    team.wait()
    if team.is_main:
        yield _report(request)


def _run_all(
    runner: Runner, examples: Sequence[Example], known: dict[Place, Row], writer: row_files.Writer
) -> Iterator[Progress]:
    configs = runner.configs
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


def _report(request: Request) -> Report:
    """Gather the rows, and write what they add up to."""
    rows = row_files.gather(request.out, request.places())
    references = {e.id: e.reference for e in request.dataset.examples}
    found = summarise(request.configs, rows, references, request.seed)
    notes = []
    (request.out / SUMMARY).write_text(rows_to_csv(found.records), encoding="utf-8")
    record.sign(request.out, found.signatures)
    if found.records:
        figure = frontier(found.records, *found.front)
        figure.write_html(request.out / FIGURE, include_plotlyjs=True)
        try:
            figure.write_image(request.out / PICTURE, width=1000, height=640, scale=2)
        except Exception as error:  # kaleido runs a Chrome, which may be missing or refuse to start
            reason = next((line for line in str(error).splitlines() if line.strip()), "no Chrome")
            notes.append(f"{PICTURE} is left out: {reason.strip()}")
    return Report(found, request.out, tuple(notes))
