from __future__ import annotations

import json
from typing import Any

import pytest

from playground.axes import X_AXES, Y_AXES
from playground.charts import COLOURS, WORDS, publication, speed_fidelity, three
from playground.ui.strings import LANGUAGES
from tests.ui.traces import row

EVIL = "<img src=x onerror=alert(1)> <b>bold</b><br>%{x}&amp;"


def marks(figure: Any) -> list[Any]:
    """The traces that are runs."""
    return [trace for trace in figure.data if trace.mode == "markers+text"]


def test_one_mark_a_run_in_its_colour() -> None:
    rows = [row("a", "sample"), row("b", "mentored", fidelity=0.7, tokens_per_s=30.0)]
    found = marks(speed_fidelity(rows))
    assert [trace.x[0] for trace in found] == [20.0, 30.0]
    assert [trace.y[0] for trace in found] == [100.0, 70.0]
    assert [t.marker.color for t in found] == [COLOURS["sample"], COLOURS["mentored"]]


def test_further_methods_and_rules_have_other_shapes() -> None:
    rows = [
        row("beam", "beam"),
        row("diverse", "diverse_beam"),
        row("exact", "speculative", params={"verifier": "exact"}),
        row("typical", "speculative", params={"verifier": "typical"}),
    ]
    shapes = [trace.marker.symbol for trace in marks(speed_fidelity(rows))]
    assert shapes[0] != shapes[1] and shapes[2] == "circle" and shapes[3] != "circle"


@pytest.mark.parametrize("missing", [{"fidelity": None}, {"tokens_per_s": None}])
def test_runs_without_a_number_are_left_out(missing: dict[str, None]) -> None:
    assert len(marks(speed_fidelity([row("a"), row("b", **missing)]))) == 1
    assert len(speed_fidelity([row("b", **missing)]).data) == 0
    assert len(speed_fidelity([]).data) == 0


def test_repeats_show_their_range() -> None:
    spread = {"num_repeats": 3, "tokens_per_s_low": 15.0, "tokens_per_s_high": 22.0}
    once, thrice = marks(speed_fidelity([row("a"), row("b", **spread)]))
    assert once.error_x.array is None
    assert (thrice.error_x.arrayminus[0], thrice.error_x.array[0]) == (5.0, 2.0)
    scaled = marks(speed_fidelity([row("b", speedup=2.0, **spread)], "speedup"))[0]
    assert (scaled.error_x.arrayminus[0], scaled.error_x.array[0]) == (0.5, pytest.approx(0.2))


@pytest.mark.parametrize("x", X_AXES)
@pytest.mark.parametrize("y", Y_AXES)
def test_any_speed_goes_with_any_fidelity(x: str, y: str) -> None:
    first, second = row("a", **{x: 1.0, y: 0.5}), row("b", **{x: 2.0, y: 0.25})
    figure = speed_fidelity([first, second], x, y)
    scale = 100.0 if y in ("fidelity", "agreement") else 1.0
    assert [(t.x[0], t.y[0]) for t in marks(figure)] == [(1.0, 0.5 * scale), (2.0, 0.25 * scale)]
    assert figure.layout.xaxis.title.text == WORDS[x]
    assert figure.layout.yaxis.title.text == WORDS[y]
    low, high = figure.layout.yaxis.range
    assert low <= 0.25 * scale < 0.5 * scale <= high


def test_the_front_is_drawn_as_steps_with_a_name() -> None:
    rows = [row("a"), row("b", tokens_per_s=30.0, fidelity=0.7), row("c", fidelity=0.1)]
    (line,) = (t for t in speed_fidelity(rows).data if t.mode == "lines")
    assert (line.x, line.y) == ((20.0, 30.0), (100.0, 70.0))
    assert (line.name, line.line.shape, line.line.dash) == (WORDS["front"], "vh", "dot")
    assert all(t.mode != "lines" for t in speed_fidelity(rows[:1]).data)


def test_predictions_are_hollow_marks_beside_the_measured_speed_up() -> None:
    known = {"predicted_speedup": 1.7, "predicted_speedup_cheap_draft": 2.1, "speedup": 1.3}
    rows = [row("sample"), row("mentored", "mentored", **known)]
    at_cost, cheap = (t for t in speed_fidelity(rows, "speedup").data if t.mode == "markers")
    assert (at_cost.x, cheap.x) == ((1.7,), (2.1,))
    assert at_cost.y == cheap.y == (100.0,)
    assert at_cost.marker.symbol == ("circle-open",) != cheap.marker.symbol
    assert at_cost.marker.color == (COLOURS["mentored"],)
    assert max(speed_fidelity(rows, "speedup").layout.xaxis.range) > 2.1
    assert not [t for t in speed_fidelity(rows).data if t.mode == "markers"]


def test_words_may_be_of_another_language() -> None:
    words = WORDS | {"speedup": "加速比", "front": "帕累托前沿"}
    rows = [row("a"), row("b", speedup=2.0, fidelity=0.5)]
    figure = speed_fidelity(rows, "speedup", words=words)
    assert figure.layout.xaxis.title.text == "加速比"
    assert "帕累托前沿" in [trace.name for trace in figure.data]
    assert all("加速比" in t.hovertext[0] for t in marks(figure))


def test_the_page_has_the_same_words_in_every_language() -> None:
    assert {key: LANGUAGES["en"].get(f"chart.{key}") for key in WORDS} == WORDS
    assert all({f"chart.{key}" for key in WORDS} <= set(words) for words in LANGUAGES.values())


def test_a_figure_for_print_is_on_white_and_larger() -> None:
    figure = speed_fidelity([row("a")])
    printed = publication(figure)
    assert printed.layout.paper_bgcolor == printed.layout.plot_bgcolor == "#FFFFFF"
    assert printed.layout.font.size > 14 and printed.layout.width > printed.layout.height
    assert marks(printed)[0].marker.size > marks(figure)[0].marker.size
    assert figure.layout.paper_bgcolor == "rgba(0,0,0,0)"  # the page's own is left as it was


def test_markup_stays_literal() -> None:
    """Case 60: Plotly reads tags in names, texts and hovers."""
    trace = marks(speed_fidelity([row(EVIL, "beam", params={"stop": EVIL})]))[0]
    for shown in (trace.name, trace.text[0]):
        assert "<" not in shown and "&lt;b&gt;" in shown and "&amp;amp;" in shown
    own_tags = trace.hovertext[0].replace("<b>", "", 1).replace("</b>", "", 1).split("<br>")
    assert not any("<" in line for line in own_tags)
    assert trace.hovertemplate is None  # a template would fill in %{x}


def test_labels_of_near_marks_do_not_cover_each_other() -> None:
    rows = [row(f"run {i}", tokens_per_s=20 + 0.1 * i, fidelity=1 - 0.01 * i) for i in range(3)]
    sides = [trace.textposition for trace in marks(speed_fidelity(rows))]
    assert len(set(sides)) == 3


def test_the_figure_is_plain_json_on_no_paper() -> None:
    layout = json.loads(speed_fidelity([row("a")]).to_json())["layout"]
    assert layout["paper_bgcolor"] == layout["plot_bgcolor"] == "rgba(0,0,0,0)"
    assert "text" not in layout.get("title", {})
    assert "bdata" not in speed_fidelity([row("a")]).to_json()


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (1, "1.00"),
        (12.345, "12.3"),
        (1234.5, "1,230"),
        (0.01234, "0.0123"),
        (9.999, "10.0"),
        (-1.214, "−1.21"),
        (1.5e-9, "1.50e-09"),
    ],
)
def test_three_significant_digits(value: float, shown: str) -> None:
    assert three(value) == shown
