from __future__ import annotations

import pytest

from playground.label_places import along, label_sides


def test_a_label_stands_to_the_right_where_nothing_is_in_its_way() -> None:
    assert label_sides([(0.3, 0.5)], ["run"]) == ["middle right"]


def test_it_covers_no_mark_with_or_without_a_label() -> None:
    assert label_sides([(0.4, 0.5), (0.48, 0.5)], ["label", "b"])[0] != "middle right"
    assert label_sides([(0.4, 0.5)], ["label"], [(0.48, 0.5)])[0] != "middle right"


def test_it_keeps_off_a_line() -> None:
    line = along([(0.4, 0.5), (0.9, 0.5), (0.9, 0.1)])
    assert line[0] == (0.4, 0.5) and line[-1] == pytest.approx((0.9, 0.1))
    assert label_sides([(0.4, 0.5)], ["label"], line[1:]) != ["middle right"]


def test_near_labels_take_different_sides() -> None:
    points = [(0.5 + 0.001 * i, 0.5 - 0.005 * i) for i in range(4)]
    assert len(set(label_sides(points, ["run"] * 4))) == 4


def test_it_stays_inside_the_plot() -> None:
    assert label_sides([(0.98, 0.5)], ["a long label"])[0].endswith("left")
    assert not label_sides([(0.5, 1.0)], ["top"])[0].startswith("top")
