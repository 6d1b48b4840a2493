from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from playground import results
from playground.results import Result, open_shipped, read, rows_text, shipped
from playground.tables import rows_to_csv

RECORDS = [
    {
        "label": "sample",
        "method": "sample",
        "model": "target",
        "badge": "sampled",
        "params": {"temperature": 0.3},
        "num_prompts": 3,
        "tokens_per_s": 12.5,
        "acceptance_rate": None,
        "baseline": "sample",
        "on_front": True,
    },
    {
        "label": "12",  # a text that looks like a number
        "method": "mentored",
        "model": "target",
        "badge": "lossy",
        "params": {"divergence_budget": 0.2},
        "num_prompts": 3,
        "tokens_per_s": 1e-07,
        "acceptance_rate": 0.5,
        "baseline": "sample",
        "on_front": False,
    },
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(results, "_FOLDER", tmp_path)
    results.open_shipped.cache_clear()
    found = tmp_path / "mine"
    found.mkdir()
    (found / "summary.csv").write_text(rows_to_csv(RECORDS), encoding="utf-8")
    (found / "run.json").write_text(json.dumps({"visits": [{"pair": "a"}, {"pair": "b"}]}))
    return found


def test_a_summary_is_read_as_it_was_written(folder: Path) -> None:
    found = open_shipped("mine")
    assert found.records == RECORDS
    assert found.visit == {"pair": "b"}
    assert shipped() == ["mine"]


def test_rows_may_be_packed_or_left_out(folder: Path) -> None:
    assert rows_text("mine") is None
    (folder / "rows.jsonl.gz").write_bytes(gzip.compress(b'{"a": 1}\n'))
    assert rows_text("mine") == '{"a": 1}\n'
    (folder / "rows.jsonl").write_text('{"a": 2}\n')
    assert rows_text("mine") == '{"a": 2}\n'
    assert rows_text("../mine") is None


@pytest.mark.parametrize("name", ["../mine", "/etc", "", "other"])
def test_a_name_is_never_a_path(folder: Path, name: str) -> None:
    with pytest.raises(ValueError, match="^result: "):
        open_shipped(name)


def test_a_result_without_a_record_is_still_shown(folder: Path) -> None:
    (folder / "run.json").unlink()
    assert read(folder).visit == {}


def test_json_is_strict() -> None:
    found = Result("", [{"x": float("nan")}], {}).to_dict()
    assert json.loads(json.dumps(found, allow_nan=False))["summary"] == [{"x": None}]


def test_every_shipped_result_opens() -> None:
    for name in shipped():
        assert open_shipped(name).records
