"""Deadlines of a whole comparison, and what it is scored by."""

from __future__ import annotations

import dataclasses
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

from playground.compare import Comparison, check_answer, prepare_all, run_plans
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
    module = import_module("playground.compare")  # the package's name `compare` is the function
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    last, found = ran(repeats=2, total_s=4.0)
    assert [label for label, _ in found] == [*RUNS, "a"]
    assert {result.finish_reason for result in last.results.values()} == {"length"}


def test_a_reference_scores_every_text() -> None:
    """BLEU and chrF stand in every row, with sacrebleu's signatures; without one, in none."""
    last, _ = ran()
    assert "bleu" not in last.rows()[0] and last.to_dict()["reference_text"] is None
    texts = {"a": "the cat sat on the mat", "b": "a dog"}
    results = {k: dataclasses.replace(last.results[k], text=text) for k, text in texts.items()}
    scored = dataclasses.replace(last, results=results, reference_text="The cat sat on the mat")
    first, second = scored.rows()
    assert 0 < first["bleu"] < 100 and first["chrf"] > 80 > second["chrf"]
    assert "version:" in first["bleu_signature"] and "version:" in first["chrf_signature"]


@pytest.mark.parametrize("given", ["", "  ", 3, ["a"], "x" * 20_001])
def test_a_reference_that_is_no_text_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match=r"^reference_text: .*use (a text|at most 20000)"):
        check_answer(given)


def test_every_path_has_run_before_anything_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 81: the path of every run is warmed up once, so their order does not matter."""
    module, begun = import_module("playground.compare"), list[str]()
    run_plan = module.run_plan

    def noted(plan: Any, *rest: Any) -> Any:
        begun.append(plan.method)
        return run_plan(plan, *rest)

    tiny = pair("llama")
    monkeypatch.setattr(tiny, "warmed", set())
    monkeypatch.setattr(module, "run_plan", noted)
    plans = prepare_all(tiny, PROMPT, RUNS, 1, **COMMON)
    list(run_plans(tiny, PROMPT, plans))
    assert begun == ["greedy", "beam", "speculative"] * 2
    begun.clear()
    list(run_plans(tiny, PROMPT, dict(reversed(plans.items()))))
    assert begun == ["speculative", "beam", "greedy"]
