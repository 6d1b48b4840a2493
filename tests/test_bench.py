"""playground/bench.py: what it reports is what ran, on a tiny pair."""

from __future__ import annotations

import json
from typing import Any

import pytest

from playground.bench import PARTS, prompts_for, run
from playground.bench.laps import Bench
from playground.bench.speed import ratios
from playground.params import fail
from playground.report import bench as as_text
from playground.types import to_json
from tests.pairs import pair

PROMPTS = [[3, 4, 5], [7, 8, 9, 10]]
TOKENS = 6


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    tiny = pair("llama")

    def load(precision: str) -> Any:
        if precision == "int8":
            raise fail("precision", precision, "another one")
        return tiny

    return run(Bench(tiny, load, PROMPTS, TOKENS, repeats=2), PARTS)


def test_the_record_is_strict_json_and_a_table(record: dict[str, Any]) -> None:
    assert json.loads(json.dumps(to_json(record), allow_nan=False)).keys() == record.keys()
    text = as_text(record)
    for name in ("[speed]", "[transformers]", "[ratios]", "[beams]", "[precision]", "[solver]"):
        assert name in text


def test_every_decoder_is_measured_over_the_same_tokens(record: dict[str, Any]) -> None:
    rows = {row["decoder"]: row for row in record["speed"]}
    assert rows["sample"]["speedup"] == 1.0
    for name in ("greedy", "beam 4", "prompt lookup", "speculative γ 1", "mentored γ 8"):
        row = rows[name]
        assert 0 < row["low"] <= row["tokens_per_s"] <= row["high"]
        assert row["wall_tokens_per_s"] < row["tokens_per_s"]  # the trace takes time, too
    assert 0 < rows["speculative γ 2"]["acceptance"] <= 1
    assert rows["mentored γ 2"]["acceptance"] >= rows["speculative γ 2"]["acceptance"]
    assert {row["decoder"] for row in record["transformers"]} == {
        "sample",
        "greedy",
        "beam 4",
        "prompt lookup",
        "assisted",
        "assisted, γ 4",
    }


def test_ratios_take_the_best_draft_length() -> None:
    def rows(**speeds: float) -> list[dict[str, Any]]:
        return [{"decoder": n.replace("_", " "), "tokens_per_s": s} for n, s in speeds.items()]

    ours = rows(sample=10, greedy=12, speculative_1=14, speculative_2=15, mentored_2=30)
    found = {r["over"]: (r["ours"], r["ratio"]) for r in ratios(ours, rows(greedy=4, assisted=5))}
    assert found == {
        "transformers greedy": ("greedy", 3.0),
        "transformers assisted": ("speculative 2", 3.0),
    }


def test_our_own_ratios_are_of_fresh_runs_and_have_intervals(record: dict[str, Any]) -> None:
    speculative, mentored = (r for r in record["ratios"] if r["over"].startswith("our "))
    assert speculative["over"] == "our sample"
    assert mentored["over"] == "our " + speculative["ours"]
    speeds = {row["decoder"]: row["tokens_per_s"] for row in record["speed"]}
    for row, name in (speculative, "speculative"), (mentored, "mentored"):
        assert row["ours"] == max((n for n in speeds if n.startswith(name)), key=speeds.__getitem__)
        assert 0 < row["low"] < row["ratio"] < row["high"]


def test_memory_is_measured_beside_its_formulas(record: dict[str, Any]) -> None:
    for row in record["beams"]:
        assert row["kv_mib"] >= row["formula_shared_mib"]  # storage grows in blocks
        assert row["formula_naive_mib"] >= row["formula_shared_mib"]
    assert record["beams"][0]["over_width_1"] == 1.0


def test_fp32_is_its_own_reference_and_int8_is_left_out_where_it_cannot_serve(
    record: dict[str, Any],
) -> None:
    names = [row["precision"] for row in record["precision"]]
    assert names == ["fp32", "bf16"]
    first = record["precision"][0]
    assert first["mean_kl"] == 0.0 and first["agreement"] == 1.0
    assert first["positions"] <= len(PROMPTS) * TOKENS and first["k1"] > 0 and first["draft"] > 0


def test_our_solver_stays_within_the_budget_that_the_published_one_overspends(
    record: dict[str, Any],
) -> None:
    for row in record["solver"]:
        assert row["ours_most_spent"] <= 0.2 + 1e-12
        assert row["published_most_spent"] <= 0.2 * 1.2 + 1e-6


def test_prompts_follow_the_kind_of_the_pair() -> None:
    assert prompts_for("chat", True) == prompts_for("smollm2-360m", True)
    assert prompts_for("t5-large", False) == prompts_for("translate", False)
