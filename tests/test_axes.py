from __future__ import annotations

import math
from typing import Any

import pytest

from playground.axes import X_AXES, Y_AXES, available, left_out, pareto
from tests.ui.traces import row


def labels(rows: list[dict[str, Any]], x: str = "tokens_per_s", y: str = "fidelity") -> list[str]:
    return [str(found["label"]) for found in pareto(rows, x, y)]


def point(label: str, x: float, y: float | None) -> dict[str, Any]:
    return row(label, tokens_per_s=x, fidelity=y, mean_divergence=y)


class TestPareto:
    def test_only_rows_that_no_other_beats_by_rising_speed(self) -> None:
        rows = [
            point("c", 30, 0.5),
            point("a", 10, 1.0),
            point("beaten", 10, 0.9),
            point("b", 20, 0.8),
        ]
        assert labels(rows) == ["a", "b", "c"]

    def test_a_tie_on_one_axis_is_lost_on_the_other(self) -> None:
        assert labels([point("slow", 10, 1.0), point("fast", 20, 1.0)]) == ["fast"]
        assert labels([point("near", 10, 1.0), point("far", 10, 0.5)]) == ["near"]

    def test_equal_rows_stay_together(self) -> None:
        assert labels([point("a", 10, 1.0), point("b", 10, 1.0)]) == ["a", "b"]

    def test_where_less_is_better_the_lowest_wins(self) -> None:
        rows = [point("a", 10, 0.0), point("beaten", 10, 0.3), point("b", 20, 0.2)]
        assert labels(rows, y="mean_divergence") == ["a", "b"]

    @pytest.mark.parametrize("value", [None, math.inf, math.nan])
    def test_a_row_without_a_finite_value_has_no_place(self, value: float | None) -> None:
        rows = [point("a", 10, 1.0), point("none", 99, value)]
        assert labels(rows) == ["a"]
        assert left_out(rows, "tokens_per_s", "fidelity") == ["none"]

    def test_no_rows_no_front(self) -> None:
        assert pareto([], "tokens_per_s", "fidelity") == []

    @pytest.mark.parametrize(("x", "y"), [("total_s", "fidelity"), ("speedup", "x"), ("", "")])
    def test_an_unknown_axis_is_named(self, x: str, y: str) -> None:
        with pytest.raises(ValueError, match="is not allowed; use one of"):
            pareto([row("a")], x, y)


def test_axes_are_offered_where_a_run_has_a_value() -> None:
    rows = [row("a"), row("b", agreement=0.5)]
    assert available(rows, X_AXES) == ["tokens_per_s", "speedup"]
    assert available(rows, Y_AXES) == ["fidelity", "agreement"]
    assert available([row("a", bleu=31.0)], Y_AXES) == ["fidelity", "bleu"]
