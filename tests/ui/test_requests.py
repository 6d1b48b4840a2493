from __future__ import annotations

from typing import Any

import pytest

from playground.catalog import has_draft
from playground.ui.requests import CompareRequest, as_record, check_work, work_of
from playground.ui.worker import PageSettings

SETTINGS = PageSettings(max_new_tokens=100)


def refusal(**values: Any) -> str:
    """Why a comparison is refused; no pair is needed for it."""
    with pytest.raises(ValueError) as caught:
        CompareRequest(**{"prompt": "Hello", **values}).check(SETTINGS)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


@pytest.mark.parametrize(
    ("run", "repeats", "estimate"),
    [
        ({"method": "greedy", "max_new_tokens": 100}, 1, 100),
        ({"method": "greedy", "max_new_tokens": 100}, 10, 1000),
        ({"method": "beam", "max_new_tokens": 50, "num_beams": 4}, 3, 600),
        ({"method": "exact", "max_new_tokens": 50, "max_nodes": 700}, 2, 1400),
    ],
)
def test_work_is_runs_times_tokens_times_beams_times_repeats(
    run: dict[str, Any], repeats: int, estimate: int
) -> None:
    values = {"num_beams": None, "max_nodes": None, **run}
    assert repeats * work_of(values) == estimate
    check_work([values] * 2, repeats, PageSettings(max_new_tokens=max(100, estimate // 50)))


def test_too_much_work_is_refused_with_estimate_and_limit() -> None:
    beams = {"method": "beam", "num_beams": 64, "max_new_tokens": 100}
    said = refusal(runs={"a": beams}, repeats=2)
    assert said.startswith("work: 12,800 tokens") and "at most 10,000" in said
    CompareRequest("Hello", {"a": beams}).check(SETTINGS)
    assert refusal(runs={"a": {"method": "exact", "max_nodes": 10**6}}).startswith("work: ")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"repeats": True}, "repeats: True"),
        ({"repeats": 1.5}, "repeats: 1.5"),
        ({"repeats": [1]}, "repeats: [1]"),
        ({"repeats": None}, "repeats: None"),
        ({"raw": 1}, "raw: 1"),
        ({"prompt": None}, "prompt: None"),
        ({"prompt": {"a": 1}}, "prompt: "),
        ({"prompt": "x" * 20_001}, "prompt: '20001 characters'"),
        ({"runs": {}}, "runs: '0 runs'"),
        ({"runs": []}, "runs: []"),
        ({"runs": {"a": {"method": []}}}, "runs: "),
        ({"runs": {" ": {"method": "greedy"}}}, "runs: ' '"),
        ({"runs": {"x" * 61: {"method": "greedy"}}}, "runs: 'xxx"),
        ({"runs": {"a": {"method": "greedy", "stop": ["x"] * 1000}}}, "stop: "),
        ({"runs": {"a": {"method": "greedy", "eos_token_id": [1] * 33}}}, "eos_token_id: '33 ids'"),
        ({"runs": {"a": {"method": "greedy", "max_new_tokens": 101}}}, "max_new_tokens: 101"),
        ({"common": {"max_new_tokens": float("inf")}}, "max_new_tokens: inf"),
        ({"common": {"temperature": float("nan")}}, "temperature: nan"),
        ({"common": {"cancelled": 1}}, "cancelled: "),
        ({"common": {"y" * 10_000: "z" * 10_000}}, "yyy"),
    ],
)
def test_each_bad_value_is_named_in_one_short_line(values: dict[str, Any], message: str) -> None:
    """Case 69."""
    said = refusal(**values)
    assert said.startswith(message) and len(said) < 1500


@pytest.mark.parametrize("text", ["{", "[]", "5", "[" * 10_000, '{"a": NaN}', '{"a": 1e999}', 5])
def test_a_record_is_a_json_object(text: Any) -> None:
    with pytest.raises(ValueError, match=r"^params: "):
        as_record("params", text)


def test_only_pairs_that_are_known_to_lack_a_draft_do() -> None:
    assert has_draft("chat") and has_draft("somebody/else")
