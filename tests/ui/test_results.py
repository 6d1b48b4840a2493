from __future__ import annotations

import csv
import dataclasses
import io
import json
from typing import Any

import pytest

from playground import traces
from playground.compare import Comparison
from playground.types import Round
from playground.ui.results import Choice, Results, Shown
from playground.ui.strings import ENGLISH, Words
from tests.ui.traces import result

EVIL = '=HYPERLINK("x")<img src=x onerror=a()>'


def results(say: Words = ENGLISH) -> Any:
    """Names instead of components."""
    names: Any = {f.name: f.name for f in dataclasses.fields(Results)}
    return Results(**names | {"say": say, "cards": [f"card{i}" for i in range(8)]})


def shown(**others: Any) -> Shown:
    rounds = (Round([2, 3, 9], 3, 2, 0.01, 0.1), *[Round([], 0, 0, 0.0, 0.1)] * 2)
    mentored = dataclasses.replace(result("mentored"), rounds=rounds)
    found = {"sample": result("sample"), "mentored": mentored, **others}
    comparison = Comparison(EVIL, found, {k: [0.5] for k in found}, "sample")
    return Shown(comparison, {"prompt": EVIL}, recorded=True)


def test_a_record_is_marked_as_one() -> None:
    """A cached replay never shows old latency as fresh."""
    update = results().show(shown(), Choice())
    assert 'data-state="recorded"' in update["card0"] and "recorded" in update["card0"]
    assert update["card2"] == ""
    assert update["body"]["visible"]


def test_the_baseline_can_be_chosen() -> None:
    update = results().numbers(shown(), Choice(baseline="mentored"))
    assert "Tokens per second over those of Mentored." in update["card0"]
    assert results().show(shown(), Choice(baseline="gone"))["baseline"]["value"] == ""


@pytest.mark.parametrize("say", [ENGLISH, Words("zh")])
def test_a_chart_has_the_axes_asked_for(say: Words) -> None:
    figure = results(say).numbers(shown(), Choice(x="speedup", y="mean_divergence"))["chart"]
    titles = [figure.layout.xaxis.title.text, figure.layout.yaxis.title.text]
    assert all(titles) and titles[0] != titles[1]


def test_two_runs_are_compared_in_both_their_cards() -> None:
    other = dataclasses.replace(result("greedy"), token_ids=[1, 2, 7, 4, 5, 6])
    record = shown(greedy=other)
    update = results().differ(record, Choice(first="sample", second="greedy"))
    assert "token 3" in update["difference"]
    assert "dp-flag" in update["card0"] and "dp-flag" in update["card2"]
    assert "dp-flag" not in update["card1"]
    assert results().differ(record, Choice(first="sample"))["difference"] == ""


def test_only_what_has_an_inside_can_be_looked_into() -> None:
    update = results().look(shown(), "")
    assert [key for _, key in update["inside"]["choices"]] == ["rounds mentored"]
    assert "dp-rounds" in update["panel"]
    assert results().look(shown(), "rounds nobody")["inside"]["value"] == "rounds mentored"
    plain = Shown(Comparison(None, {"a": result("sample")}, {"a": [1.0]}, "a"), {})
    assert "Nothing to look into" in results().look(plain, "")["panel"]


def test_files_hold_the_numbers_and_no_formula_runs() -> None:
    record = shown(**{EVIL: result("greedy")})
    table = list(csv.DictReader(io.StringIO(results().file(record, Choice(), "csv"))))
    assert [row["method"] for row in table] == ["sample", "mentored", "greedy"]
    assert table[2]["label"] == "'" + EVIL
    assert float(table[0]["tokens_per_s"]) == 12.0
    comparison, setup = traces.load(results().file(shown(), Choice(), "json"))
    assert list(comparison.results) == ["sample", "mentored"] and setup == {"prompt": EVIL}
    figure = json.loads(results().file(shown(), Choice(), "png"))
    assert figure["layout"]["paper_bgcolor"] == "#FFFFFF"


def test_markup_stays_literal_in_every_panel() -> None:
    """Case 60."""
    update = results().show(shown(**{EVIL: result("greedy")}), Choice())
    htmls = [value for value in update.values() if isinstance(value, str)]
    assert htmls and not any("<img" in html for html in htmls)
    assert not any("<img" in str(trace.name) for trace in update["chart"].data)
