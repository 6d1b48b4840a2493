from __future__ import annotations

import json
from typing import Any

import plotly.graph_objects as go
import pytest

from playground import lesson_charts as charts
from playground.charts import COLOURS
from playground.demonstrations.rules import family, mentored_points, rule_curves, simulate
from playground.demonstrations.searches import stopping, stopping_search
from playground.lesson_charts import WORDS
from playground.lessons import cost
from playground.lessons.mentoring import ARTICLE_DRAFT, ARTICLE_NAMES, ARTICLE_TARGET
from playground.lessons.speculation import MeasuredPoint, overlap, speed_curve
from playground.lessons.stopping import provisional

ARTICLE = ARTICLE_TARGET, ARTICLE_DRAFT
EVIL = "<img src=x> %{x}&amp;"
RUN = MeasuredPoint(EVIL, "mentored", 0.8, 4, 0.1, 3.2, 3.4, 1.4, 2.4)


def figures() -> dict[str, go.Figure]:
    """One of each kind, with a label that must stay literal where one comes from outside."""
    steps = stopping_search()
    (here,) = mentored_points(*ARTICLE, [0.2])
    names = [EVIL, *ARTICLE_NAMES[1:]]
    return {
        "speed": charts.speed_curve({EVIL: speed_curve(0.8, 0.1)}, [RUN]),
        "rules": charts.rule_tradeoffs(rule_curves(*ARTICLE, 6), here, {"lenience": EVIL}),
        "behind": charts.rule_shortfalls(rule_curves(*ARTICLE, 6), {"lenience": EVIL}),
        "family": charts.family_curves(family(*ARTICLE, 4), {"kl": EVIL}),
        "overlap": charts.overlap_bars(overlap(*ARTICLE), names),
        "length": charts.length_curves("length", [0.0, 0.5, 1.0]),
        "memory": charts.memory_bars(cost.costs(cost.MODELS[0], (1, 4), 1000, 200)),
        "stopping": charts.stopping_lines(stopping(steps)),
        "settled": charts.settled_lines(provisional(steps)),
        "distance": charts.distance_lines({EVIL: simulate(*ARTICLE, count=100)}),
        "probability": charts.probability_lines({EVIL: [0.1, None, 0.3]}, {EVIL: "#0072B2"}),
    }


def named(figure: go.Figure, name: str) -> Any:
    return next(trace for trace in figure.data if trace.name == name)


@pytest.fixture(scope="module")
def drawn() -> dict[str, go.Figure]:
    return figures()


def test_figures_are_plain_json_on_no_paper_and_literal(drawn: dict[str, go.Figure]) -> None:
    for name, figure in drawn.items():
        text = figure.to_json()
        layout = json.loads(text)["layout"]
        assert layout["paper_bgcolor"] == layout["plot_bgcolor"] == "rgba(0,0,0,0)", name
        assert "<img" not in text and "bdata" not in text, name
        assert all(trace.hovertemplate is None for trace in figure.data), name
        assert len(figure.data) > 0, name


def test_every_word_is_used(drawn: dict[str, go.Figure]) -> None:
    said = " ".join(figure.to_json() for figure in drawn.values())
    said += charts.distance_lines({"m": simulate(*ARTICLE, count=100, rule="typical")}).to_json()
    for key, word in WORDS.items():
        assert json.dumps(word, ensure_ascii=True)[1:-1] in said or word in said, key


def test_the_best_draft_length_and_the_measured_run_are_marked(
    drawn: dict[str, go.Figure],
) -> None:
    curve = speed_curve(0.8, 0.1)
    best = max(curve, key=lambda point: point.speedup)
    line, star, run = drawn["speed"].data
    assert list(line.y) == [point.speedup for point in curve]
    assert (star.x[0], star.y[0]) == (best.num_draft_tokens, best.speedup)
    assert (run.x[0], run.y[0], run.marker.color) == (4, 1.4, COLOURS["mentored"])
    assert "&lt;img" in run.hovertext[0] and "α 0.800, c 0.100 → 2.40" in run.hovertext[0]


def test_a_chosen_draft_length_is_ringed_and_a_method_has_one_entry() -> None:
    curve = speed_curve(0.8, 0.1)
    figure = charts.speed_curve({"f": curve}, [RUN, RUN], curve[4], {"mentored": "导师解码"})
    *_, ring, runs = figure.data
    assert (ring.x[0], ring.y[0], ring.marker.symbol) == (4, curve[4].speedup, "circle-open")
    assert (runs.name, len(runs.x)) == ("导师解码", 2)


def test_mentored_has_its_colour_and_a_point(drawn: dict[str, go.Figure]) -> None:
    line = named(drawn["rules"], "mentored")
    assert line.line.color == COLOURS["mentored"]
    assert line.y[0] == pytest.approx(22.2) and line.y[-1] == pytest.approx(100)
    star = drawn["rules"].data[-1]
    assert (star.x[0], star.y[0]) == (pytest.approx(0.2), pytest.approx(50, abs=0.5))


def test_rules_that_move_in_steps_are_marks(drawn: dict[str, go.Figure]) -> None:
    modes = {trace.name: trace.mode for trace in drawn["behind"].data}
    assert modes["mentored"] == modes["ensemble"] == "lines"
    assert modes["top_k"] == modes["cascade"] == "markers"
    assert max(named(drawn["behind"], "mentored").y) == pytest.approx(0, abs=1e-6)


def test_bars_of_both_laws_stack_to_them(drawn: dict[str, go.Figure]) -> None:
    shared, rejected, corrected = (trace.y for trace in drawn["overlap"].data)
    assert [a + b for a, b in zip(shared, rejected, strict=True)] == pytest.approx(ARTICLE_DRAFT)
    assert [a + b for a, b in zip(shared, corrected, strict=True)] == pytest.approx(ARTICLE_TARGET)


def test_a_crossing_is_drawn_where_it_is_in_sight(drawn: dict[str, go.Figure]) -> None:
    assert len(drawn["length"].layout.shapes) == 1
    assert not charts.length_curves("none", [0.0, 1.0]).layout.shapes


def test_memory_is_drawn_in_mib(drawn: dict[str, go.Figure]) -> None:
    naive, shared = drawn["memory"].data
    assert (naive.y[1], shared.y[1]) == (600, 225) and naive.x == ("1", "4")


def test_modes_stop_where_their_bound_falls_to_the_worst(drawn: dict[str, go.Figure]) -> None:
    ends = {t.name.partition(":")[0]: t for t in drawn["stopping"].data if "markers" in t.mode}
    assert {mode: trace.x[0] for mode, trace in ends.items()} == {
        "false": 4,
        "never": 6,
        "true": 2,
    }
    worst = named(drawn["stopping"], WORDS["worst"])
    assert worst.y[0] is None and worst.y[1] is not None
    for trace in (ends["false"], ends["never"]):
        assert trace.y[0] <= worst.y[trace.x[0] - 1]


def test_nothing_to_draw_is_an_empty_figure() -> None:
    assert not charts.distance_lines({}).data and not charts.rule_tradeoffs([]).data
