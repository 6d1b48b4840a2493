from __future__ import annotations

import json

import pytest

from playground.charts import COLOURS, speed_fidelity, three
from tests.ui.traces import row

EVIL = "<img src=x onerror=alert(1)> <b>bold</b><br>%{x}&amp;"


def test_one_mark_a_run_in_its_colour() -> None:
    rows = [row("a", "sample"), row("b", "mentored", fidelity=0.7, tokens_per_s=30.0)]
    figure = speed_fidelity(rows)
    assert [trace.x[0] for trace in figure.data] == [20.0, 30.0]
    assert [trace.y[0] for trace in figure.data] == [100.0, 70.0]
    assert [t.marker.color for t in figure.data] == [COLOURS["sample"], COLOURS["mentored"]]


def test_further_methods_and_rules_have_other_shapes() -> None:
    rows = [
        row("beam", "beam"),
        row("diverse", "diverse_beam"),
        row("exact", "speculative", params={"verifier": "exact"}),
        row("typical", "speculative", params={"verifier": "typical"}),
    ]
    shapes = [trace.marker.symbol for trace in speed_fidelity(rows).data]
    assert shapes[0] != shapes[1] and shapes[2] == "circle" and shapes[3] != "circle"


@pytest.mark.parametrize("missing", [{"fidelity": None}, {"tokens_per_s": None}])
def test_runs_without_a_number_are_left_out(missing: dict[str, None]) -> None:
    assert len(speed_fidelity([row("a"), row("b", **missing)]).data) == 1
    assert len(speed_fidelity([row("b", **missing)]).data) == 0
    assert len(speed_fidelity([]).data) == 0


def test_repeats_show_their_range() -> None:
    spread = {"num_repeats": 3, "tokens_per_s_low": 15.0, "tokens_per_s_high": 22.0}
    once, thrice = speed_fidelity([row("a"), row("b", **spread)]).data
    assert once.error_x.array is None
    assert (thrice.error_x.arrayminus[0], thrice.error_x.array[0]) == (5.0, 2.0)


def test_markup_stays_literal() -> None:
    """Case 60: Plotly reads tags in names, texts and hovers."""
    trace = speed_fidelity([row(EVIL, "beam", params={"stop": EVIL})]).data[0]
    for shown in (trace.name, trace.text[0]):
        assert "<" not in shown and "&lt;b&gt;" in shown and "&amp;amp;" in shown
    own_tags = trace.hovertext[0].replace("<b>", "", 1).replace("</b>", "", 1).split("<br>")
    assert not any("<" in line for line in own_tags)
    assert trace.hovertemplate is None  # a template would fill in %{x}


def test_labels_of_near_marks_do_not_cover_each_other() -> None:
    rows = [row(f"run {i}", tokens_per_s=20 + 0.1 * i, fidelity=1 - 0.01 * i) for i in range(3)]
    sides = [trace.textposition for trace in speed_fidelity(rows).data]
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
        (-1.214, "-1.21"),
        (1.5e-9, "1.50e-09"),
    ],
)
def test_three_significant_digits(value: float, shown: str) -> None:
    assert three(value) == shown
