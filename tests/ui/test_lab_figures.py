from __future__ import annotations

from typing import Any

import pytest

from playground.charts import COLOURS
from playground.ui.lab import PRESETS, Choice, Laws, laws_of, parse_laws, read
from playground.ui.lab_figures import acceptance_curve, law_bars
from playground.ui.strings import LANGUAGES, Words
from tests.ui import traces
from tests.ui.test_lab import EVIL, TESTED

SAY = Words("en")


def bars(laws: Laws, budget: float = 0.2) -> Any:
    return law_bars(laws, read(laws, Choice(budget)), Choice(budget), SAY)


def series(figure: Any) -> dict[str, list[float]]:
    return {trace.offsetgroup: list(trace.y) for trace in figure.data if trace.type == "bar"}


def test_bars_are_draft_target_and_output_of_the_same_tokens() -> None:
    laws = parse_laws(PRESETS["close"], SAY)
    found = series(bars(laws))
    order = sorted(range(4), key=lambda i: -max(laws.target[i], laws.draft[i]))
    assert found["target"] == [laws.target[i] for i in order]
    assert found["draft"] == [laws.draft[i] for i in order]
    assert sum(found["output"]) == pytest.approx(1)


def test_merged_and_minor_tokens_are_one_bar() -> None:
    figure = bars(laws_of(TESTED))
    assert figure.layout.xaxis.ticktext[-1] == "3,000 others"
    assert series(figure)["target"][-1] == pytest.approx(0.2)
    many = parse_laws("\n".join(f"t{i} 0.05 0.05" for i in range(20)), SAY)
    assert bars(many).layout.xaxis.ticktext[-1] == "8 others"
    assert sum(series(bars(many))["draft"]) == pytest.approx(1)


def test_the_output_lies_between_its_bounds() -> None:
    laws = parse_laws(PRESETS["article"], SAY)
    figure = bars(laws)
    output = series(figure)["output"]
    ceiling, floor = (t for t in figure.data if t.type == "scatter")
    for x, y in zip(ceiling.x, ceiling.y, strict=True):
        assert output[x] <= y + 1e-12
    for x, y in zip(floor.x, floor.y, strict=True):
        assert output[x] >= y - 1e-12


def test_no_budget_looks_like_speculative_decoding() -> None:
    figure = bars(parse_laws(PRESETS["article"], SAY), budget=0)
    found = series(figure)
    assert found["output"] == pytest.approx(found["target"])
    assert figure.data[2].marker.color == COLOURS["speculative"]
    assert "speculative" in figure.data[2].name
    assert all(trace.type == "bar" for trace in figure.data)  # no bounds: they are the target


def test_enough_budget_looks_like_the_draft() -> None:
    found = series(bars(parse_laws(PRESETS["article"], SAY), budget=1.6))
    assert found["output"] == pytest.approx(found["draft"])


def test_without_a_draft_the_target_stands_alone() -> None:
    laws = laws_of(traces.TOKENS[0])
    assert set(series(law_bars(laws, None, Choice(), SAY))) == {"target"}


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_curve_marks_the_settings_and_the_end(preset: str, language: str) -> None:
    choice = Choice(0.2)
    reading = read(parse_laws(PRESETS[preset], SAY), choice)
    figure = acceptance_curve(reading, choice, Words(language))
    exact, curve, here = figure.data
    assert exact.y[0] == pytest.approx(100 * reading.exact) == pytest.approx(curve.y[0])
    assert (here.x[0], here.y[0]) == (0.2, pytest.approx(100 * reading.optimum.acceptance))
    assert len(figure.layout.shapes) == (0 < reading.whole <= reading.limit)


def test_markup_stays_literal() -> None:
    figure = bars(laws_of(TESTED))
    assert "<img" not in "".join(figure.layout.xaxis.ticktext)
    for trace in figure.data:
        assert "<img" not in "".join(trace.hovertext or ())
    assert EVIL[:4] == "<img"
