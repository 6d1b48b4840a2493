from __future__ import annotations

import csv
import io

import pytest

from playground.tables import rows_to_csv
from tests.ui.traces import row


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_a_line_a_row_under_all_keys() -> None:
    found = read(rows_to_csv([{"label": "a", "x": 1.5, "y": None}, {"label": "b", "z": True}]))
    assert found == [
        {"label": "a", "x": "1.5", "y": "", "z": ""},
        {"label": "b", "x": "", "y": "", "z": "True"},
    ]


def test_texts_survive_whatever_is_in_them() -> None:
    text = 'line\n"quoted", comma; 中文 <b>'
    assert read(rows_to_csv([row("a", text=text)]))[0]["text"] == text


def test_records_are_json() -> None:
    found = read(rows_to_csv([row("a", params={"stop": ["中"], "x": float("inf")})]))
    assert found[0]["params"] == '{"stop": ["中"], "x": null}'


@pytest.mark.parametrize("text", ["=1+1", "+A1", "-cmd|' /C calc'!A0", "@SUM(A1)", "\t=1", "\r=1"])
def test_no_text_is_a_formula(text: str) -> None:
    assert read(rows_to_csv([{"text": text}]))[0]["text"] == "'" + text
    assert list(read(rows_to_csv([{text: 1}]))[0]) == ["'" + text]


@pytest.mark.parametrize("value", [-1.5, "-1.5", "+2", -3, "-1e-7", "a=b", ""])
def test_numbers_and_other_texts_are_left_alone(value: object) -> None:
    assert read(rows_to_csv([{"label": "x", "v": value}]))[0]["v"] == str(value)


def test_no_rows_no_table() -> None:
    assert rows_to_csv([]).strip() == ""
