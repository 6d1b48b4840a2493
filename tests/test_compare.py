"""Deadlines of a whole comparison."""

from __future__ import annotations

from typing import Any

import pytest

from playground.compare import Comparison, prepare_all, run_plans
from playground.types import DecodeResult, Event
from playground.ui.board import Board
from tests.pairs import pair

PROMPT = [5, 6, 7]
RUNS: dict[str, dict[str, Any]] = {
    "a": {"method": "greedy"},
    "b": {"method": "beam"},
    "c": {"method": "speculative"},
}
COMMON: dict[str, Any] = {"max_new_tokens": 12, "eos_token_id": [], "seed": 0}


def ran(repeats: int = 1, **limits: float) -> tuple[Comparison, list[tuple[str, DecodeResult]]]:
    """The comparison, and the results in the order in which they came."""
    tiny = pair("llama")
    plans = prepare_all(tiny, PROMPT, RUNS, repeats, **COMMON)
    *events, (_, last) = run_plans(tiny, PROMPT, plans, repeats, **limits)
    assert isinstance(last, Comparison)
    found = [(k, e.result) for k, e in events if isinstance(e, Event) and e.result is not None]
    return last, found


def test_a_comparison_out_of_time_ends_every_run_with_what_it_has() -> None:
    """The first repeat of each run is there, empty; no second one begins."""
    last, found = ran(repeats=3, total_s=0.0)
    assert [label for label, _ in found] == list(RUNS)
    assert {result.finish_reason for result in last.results.values()} == {"deadline"}
    assert {len(seconds) for seconds in last.seconds.values()} == {1}
    assert [row["num_new_tokens"] for row in last.rows()] == [0, 0, 0]
    last.to_dict()
    Board.of(last, recorded=False)


def test_the_deadline_of_a_run_leaves_time_for_the_next() -> None:
    last, found = ran(repeats=2, deadline_s=0.0)
    assert [label for label, _ in found] == list(RUNS) * 2
    assert {result.finish_reason for result in last.results.values()} == {"deadline"}


def test_a_repeat_that_was_cut_short_is_no_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time runs out in the middle of the second pass."""
    clock = iter([0.0, *[1.0] * 4, *[5.0] * 1000])
    monkeypatch.setattr("playground.compare.time.monotonic", lambda: next(clock))
    monkeypatch.setattr("playground.compare.warm_up", lambda *_: None)
    last, found = ran(repeats=2, total_s=4.0)
    assert [label for label, _ in found] == [*RUNS, "a"]
    assert {result.finish_reason for result in last.results.values()} == {"length"}
