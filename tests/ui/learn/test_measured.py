"""Measured runs that ship: results before traces, each beside the formula."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from playground import results
from playground.metrics import expected_speedup
from playground.tables import rows_to_csv
from playground.ui.learn.measured import Measured, measured
from playground.ui.strings import ENGLISH, Words


@pytest.fixture(autouse=True)
def fresh() -> Any:
    measured.cache_clear()
    results.open_shipped.cache_clear()
    yield
    measured.cache_clear()
    results.open_shipped.cache_clear()


def row(label: str, gamma: int | None, **own: Any) -> dict[str, Any]:
    counts = {"num_drafted": 20, "num_tested": 10, "num_accepted": 8, "drafted_per_round": 4.0}
    values = {"draft_cost": 0.1, "tokens_per_round": 3.0, "model": "target"}
    method = "sample" if gamma is None else "speculative"
    params = {} if gamma is None else {"num_draft_tokens": gamma}
    base = {"label": label, "method": method, "params": params}
    return base | values | counts | own


def ship(folder: Path, name: str, rows: list[dict[str, Any]] | None) -> None:
    home = folder / name
    home.mkdir()
    records = [
        {"label": "sample", "method": "sample", "params": {}, "speedup": 1.0, "on_front": True},
        {"label": "γ 4", "method": "speculative", "params": {}, "speedup": 1.5, "on_front": True},
    ]
    (home / "summary.csv").write_text(rows_to_csv(records), encoding="utf-8")
    record = {"sweep": {"precision": "bf16"}, "visits": [{"processor": "a CPU"}]}
    (home / "run.json").write_text(json.dumps(record), encoding="utf-8")
    if rows is not None:
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (home / "rows.jsonl.gz").write_bytes(gzip.compress(text.encode()))


def test_a_shipped_result_is_pooled_over_its_prompts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "_FOLDER", tmp_path)
    rows = [
        row("sample", None, draft_cost=None, num_drafted=0, num_tested=0, drafted_per_round=None),
        row("γ 4", 4, draft_cost=0.1),
        row("γ 4", 4, draft_cost=0.3, num_tested=30, num_accepted=12, num_drafted=60),
        row("γ 4", 4, draft_cost=0.2),
        row("γ 4", 4, model="draft", draft_cost=9.0),
    ]
    ship(tmp_path, "article", rows)
    ship(tmp_path, "bare", None)
    (found,) = measured()
    assert (found.kind, found.name, found.where) == ("result", "article", ("bf16", "a CPU"))
    (point,) = found.points
    assert point.acceptance == pytest.approx(28 / 50)
    assert (point.draft_cost, point.speedup, point.num_draft_tokens) == (0.2, 1.5, 4)
    assert point.predicted == pytest.approx(expected_speedup(28 / 50, 4, 0.2))
    assert point.tokens_per_round == pytest.approx(3)


def test_without_results_the_shipped_traces_runs_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "_FOLDER", tmp_path)
    found = measured()
    assert {one.kind for one in found} == {"trace"}
    assert all(point.speedup for one in found for point in one.points)


def test_every_set_has_a_name_in_each_language() -> None:
    one = Measured("trace", "fact", (), ("int8", "CPU"))
    assert (one.title(ENGLISH), one.title(Words("zh"))) == ("Fact", "常识")
    assert Measured("result", "un-named", (), ("", "")).title(ENGLISH) == "un named"
