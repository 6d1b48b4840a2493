"""Lesson 8: what it shows of two laws, of draws, of the formula and of measured runs."""

from __future__ import annotations

import gradio as gr
import pytest

from playground.charts import COLOURS
from playground.lessons.speculation import best_draft, overlap
from playground.metrics import expected_speedup
from playground.ui.learn import speculative_view as view
from playground.ui.learn.measured import measured
from playground.ui.learn.speculative import lesson, recorded
from playground.ui.strings import ENGLISH, LANGUAGES, Words

SEA = view.moved(view.starts(ENGLISH)["sea"], 0, ENGLISH)


@pytest.mark.parametrize("language", LANGUAGES)
def test_it_is_laid_out_and_answers_to_nothing_but_light_events(language: str) -> None:
    with gr.Blocks() as page, gr.Tabs(), gr.Tab("8"):
        lesson(None, Words(language))  # type: ignore[arg-type]  # no model takes part
    assert page.fns and not any(fn.queue for fn in page.fns.values())


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", view.starts(ENGLISH))
def test_every_start_is_two_laws(name: str, language: str) -> None:
    say = Words(language)
    laws = view.moved(view.starts(say)[name], 0, say)
    assert sum(laws.target) == pytest.approx(1) == sum(laws.draft)
    assert "100 %" in view.overlap_html(laws, say)  # acceptance and distance together


def test_the_question_has_one_right_answer_which_the_draws_confirm() -> None:
    asked = view.question(ENGLISH)
    assert asked == {
        "token": "red",
        "target": "10.0 %",
        "draft": "60.0 %",
        "middle": "35.0 %",
        "ratio": "16.7 %",
    }
    exact, _ = view.drawn(SEA, 100_000, 1, "lenience")
    assert exact.shares[-1] == pytest.approx(0.1, abs=0.005)


def test_a_draft_moved_all_the_way_is_the_target_and_half_way_halves_the_distance() -> None:
    def distance(better: float) -> float:
        laws = view.moved(view.starts(ENGLISH)["sea"], better, ENGLISH)
        return overlap(laws.target, laws.draft).total_variation

    assert [distance(better) for better in (0, 50, 100)] == pytest.approx([0.5, 0.25, 0])
    same = view.moved("a 0.5 0.1\nb 0.5 0.9", 100, ENGLISH)
    assert "never used" in view.overlap_html(same, ENGLISH)


def test_laws_that_sum_to_one_but_roughly_are_made_to() -> None:
    laws = view.moved("a 0.333 0.5\nb 0.333 0.25\nc 0.333 0.25", 0, ENGLISH)
    assert sum(laws.target) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("typed", ["", "a 0.5 x", "a 0.5 0.5\nb 0.1 0.5", None])
def test_bad_laws_are_refused_in_one_line(typed: str | None) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        view.moved(typed or "", 0, ENGLISH)


@pytest.mark.parametrize("rule", view.LOSSY)
def test_the_exact_rule_falls_with_chance_and_any_other_to_its_own_floor(rule: str) -> None:
    exact, other = view.drawn(SEA, 100_000, 0, rule)
    assert exact.floor == 0
    assert exact.draws[-1].distance < 3 * exact.draws[-1].chance
    assert abs(other.draws[-1].distance - other.floor) < 3 * other.draws[-1].chance
    shown = view.drawn_html(SEA, (exact, other), ENGLISH)
    assert "100,000 tokens" in shown and "<td>10.0 %</td>" in shown


def test_an_exact_hit_of_few_draws_does_not_stretch_the_axis() -> None:
    runs = view.drawn(SEA, 10_000, 0, "mentored")
    assert runs[0].draws[0].distance < 1e-12  # ten draws: 4, 3, 2, 1
    low, high = view.distance_figure(runs, ENGLISH).layout.yaxis.range
    assert -4 < low < high < 0.1


def test_names_that_are_markup_stay_literal() -> None:
    laws = view.moved("<img/onerror=1> 0.5 0.4\nb 0.5 0.6", 0, ENGLISH)
    runs = view.drawn(laws, 100, 0, "typical")
    shown = view.overlap_html(laws, ENGLISH) + view.drawn_html(laws, runs, ENGLISH)
    assert "<img" not in shown and "&lt;img" in shown


def test_the_formulas_numbers_are_those_of_the_library() -> None:
    shown = view.speed_html(0.8, 4, 0.1, ENGLISH)
    best = best_draft(0.8, 0.1, view.MAX_GAMMA)
    assert "<dd>2.40×</dd>" in shown and expected_speedup(0.8, 4, 0.1) == pytest.approx(2.40, 0.01)
    assert f"<dd>{best.num_draft_tokens}</dd>" in shown


@pytest.mark.parametrize("alpha", [0.0, 1.0])
@pytest.mark.parametrize("gamma", [0, view.MAX_GAMMA])
@pytest.mark.parametrize("cost", [0.0, 1.0])
def test_the_ends_of_the_sliders_have_a_curve(alpha: float, gamma: int, cost: float) -> None:
    figure = view.speed_figure(alpha, gamma, cost, None, ENGLISH)
    assert len(figure.data) == 3 and "–" not in view.speed_html(alpha, gamma, cost, ENGLISH)


@pytest.mark.parametrize("language", LANGUAGES)
def test_measured_runs_are_marked_in_their_methods_colour_and_listed(language: str) -> None:
    say = Words(language)
    for runs in measured():
        figure = view.speed_figure(0.8, 4, 0.1, runs, say)
        marks = [trace for trace in figure.data if trace.mode == "markers"]
        assert {mark.marker.color for mark in marks} >= {
            COLOURS[point.method] for point in runs.points if point.method in COLOURS
        }
        table = view.measured_html(runs, say)
        assert table.count("<tr") == 1 + len(runs.points) and runs.where[0] in table


def test_recorded_runs_have_rounds() -> None:
    assert recorded()
    assert all(result.rounds for result in recorded().values())
