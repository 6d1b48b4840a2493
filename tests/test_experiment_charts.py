"""playground/experiment_charts.py: what is drawn of an experiment's answers."""

from __future__ import annotations

import pytest

from playground.experiment_charts import TASK_SCALES, WIDTH_SCALES, task_curves, width_curves
from playground.experiments.gains import gains
from playground.experiments.widths import points
from playground.lessons.tasks import BROAD
from tests.experiments import test_gains, test_widths


@pytest.mark.parametrize("quantity", WIDTH_SCALES)
def test_widths_in_order_and_exact_search_last(quantity: str) -> None:
    figure = width_curves(points(test_widths.rows(), test_widths.ANSWERS), quantity)
    assert list(figure.layout.xaxis.categoryarray) == ["2", "4", "exact"]
    beams, *exact = figure.data
    assert list(beams.x) == ["2", "4"]
    assert [list(trace.x) for trace in exact] == ([] if quantity == "misses" else [["exact"]])


def test_shares_are_drawn_in_percent_with_their_intervals() -> None:
    _, exact = width_curves(points(test_widths.rows(), test_widths.ANSWERS), "empty").data
    assert exact.y == (87.5,) and exact.error_y.arrayminus[0] > 0
    assert exact.y[0] + exact.error_y.array[0] <= 100


@pytest.mark.parametrize("quantity", TASK_SCALES)
def test_a_line_a_kind(quantity: str) -> None:
    found, _ = gains(test_gains.rows(), {})
    figure = task_curves(found, quantity, {"story": "open <story>"})
    assert len(figure.data) == 6
    dashes = {trace.name: trace.line.dash for trace in figure.data}
    assert dashes["open &lt;story&gt;"] == "solid" and dashes["fact"] == "dot"
    assert sum(dash == "solid" for dash in dashes.values()) == len(BROAD)
