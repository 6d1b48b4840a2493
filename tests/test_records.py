"""Strict JSON back into dataclasses: everything that `to_json` makes, and nothing else."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from playground.records import MAX_ITEMS, from_json
from playground.types import to_json


@dataclass(frozen=True, slots=True)
class Inner:
    count: int
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Outer:
    inner: Inner
    kind: Literal["a", "b"]
    items: tuple[Inner, ...]
    numbers: list[float]
    table: dict[str, list[float]]
    params: dict[str, Any] = field(default_factory=dict)
    total_s: float | None = None
    accept_prob: float = 0.5
    flag: bool = False


@dataclass(frozen=True, slots=True)
class Named:
    name: str | None


@dataclass(frozen=True, slots=True)
class Odd:
    items: set[int]


SOUND = Outer(
    Inner(3), "b", (Inner(1, "x"), Inner(0)), [0.5, -1e300], {"l": [1.0]}, {"p": [1, None]}
)


def changed(**values: Any) -> dict[str, Any]:
    return {**to_json(SOUND), **values}


def test_what_was_written_is_read_back() -> None:
    assert from_json(Outer, json.loads(json.dumps(to_json(SOUND)))) == SOUND


def test_a_field_left_out_takes_its_default() -> None:
    record = to_json(SOUND)
    for name in ("params", "total_s", "accept_prob", "flag"):
        del record[name]
    assert from_json(Outer, record).accept_prob == 0.5


def test_a_field_left_out_is_none_where_only_that_is_allowed() -> None:
    assert from_json(Named, {}).name is None


def test_a_whole_number_may_stand_for_a_number() -> None:
    """A browser writes 1.0 as 1."""
    read = from_json(Outer, changed(numbers=[1, 2]))
    assert read.numbers == [1.0, 2.0] and all(type(n) is float for n in read.numbers)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"inner": None}, "record.inner: None is not allowed; use an object."),
        ({"inner": {}}, "record.inner: 'count' is missing."),
        ({"inner": {"count": True}}, "record.inner.count: True is not allowed; use a whole"),
        ({"inner": {"count": 1.0}}, "record.inner.count: 1.0 is not allowed; use a whole"),
        ({"inner": {"count": -1}}, "record.inner.count: -1 is not allowed"),
        ({"inner": {"count": 2**63}}, "record.inner.count: 9223372036854775808 is not allowed"),
        ({"inner": {"count": 1, "x": 2}}, "record.inner: 'x' is unknown here."),
        ({"kind": "c"}, "record.kind: 'c' is not allowed; use one of 'a', 'b'."),
        ({"kind": ["a"]}, "record.kind: a list is not allowed"),
        ({"items": {}}, "record.items: an object is not allowed; use a list."),
        ({"items": [{"count": 1}, 5]}, r"record.items\[1\]: 5 is not allowed; use an object."),
        (
            {"items": [{"count": 1, "name": 2}]},
            r"record.items\[0\].name: 2 is not allowed; use text",
        ),
        ({"numbers": ["x"]}, r"record.numbers\[0\]: 'x' is not allowed; use a number."),
        ({"numbers": [float("nan")]}, r"record.numbers\[0\]: nan is not allowed"),
        ({"numbers": [float("inf")]}, r"record.numbers\[0\]: inf is not allowed"),
        ({"numbers": [10**400]}, r"record.numbers\[0\]: 1000"),
        ({"numbers": [0.0] * (MAX_ITEMS + 1)}, "record.numbers: more than 50,000 items"),
        ({"table": {"l": 1}}, "record.table.l: 1 is not allowed; use a list."),
        ({"params": {"p": {}}}, "record.params.p: an object is not allowed"),
        ({"params": {"p": [[]]}}, "record.params.p: a list is not allowed"),
        ({"total_s": -1.0}, "record.total_s: -1.0 is not allowed; use a number from 0 to 1e"),
        ({"accept_prob": 1.5}, "record.accept_prob: 1.5 is not allowed"),
        ({"accept_prob": None}, "record.accept_prob: None is not allowed; use a number"),
        ({"flag": 1}, "record.flag: 1 is not allowed; use true or false."),
        ({"params": {"p": "\ud800"}}, "record.params.p: half a surrogate pair"),
        ({"params": {"\udfff": 1}}, "record.params: half a surrogate pair"),
    ],
)
def test_a_fault_is_one_line_with_its_place(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="^" + message) as caught:
        from_json(Outer, changed(**values))
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


def test_an_outside_name_in_an_error_is_short_and_on_one_line() -> None:
    with pytest.raises(ValueError, match="unknown") as caught:
        from_json(Outer, changed(**{"a\n" * 1000: 1}))
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 100


def test_an_annotation_without_a_rule_is_a_programming_error() -> None:
    with pytest.raises(TypeError, match="cannot be read back"):
        from_json(Odd, {"items": []})
