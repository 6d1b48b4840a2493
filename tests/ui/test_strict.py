from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playground.ui.strict import MAX_DEPTH, strict_json

SCALARS = st.none() | st.booleans() | st.integers(-(2**63) + 1, 2**63 - 1) | st.text()
SCALARS |= st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(SCALARS, lambda v: st.lists(v) | st.dictionaries(st.text(), v), max_leaves=20)


@given(VALUES)
def test_what_json_can_carry_comes_through(value: object) -> None:
    assert strict_json(json.dumps(value)) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("NaN", "NaN is no JSON"),
        ('{"a": [-Infinity]}', "-Infinity is no JSON"),
        ("1e999", "a number beyond 64 bits"),
        ("[9223372036854775808]", "a whole number beyond 64 bits"),
        ("9" * 5000, "digits"),
        ('"\\ud800"', "half a surrogate pair"),
        ('{"\\udfff": 1}', "half a surrogate pair"),
        ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "nested too deeply"),
        ("{", "not JSON"),
        ("", "not JSON"),
        (b'"\xff\xfe\xfd"', "not UTF-8 text"),
    ],
)
def test_what_it_cannot_is_refused(text: str | bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        strict_json(text)


def test_the_depth_that_is_allowed_is_read() -> None:
    assert strict_json("[" * MAX_DEPTH + "]" * MAX_DEPTH) != []
