"""Where the labels of a chart go so that they cover no mark or line, and each other little."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

_SIDES = (
    "middle right",
    "middle left",
    "top center",
    "bottom center",
    "top right",
    "bottom right",
    "top left",
    "bottom left",
)
_MARK, _LABEL = 6.0, 5.0  # a hidden mark is worse than two labels that touch
Point = tuple[float, float]  # in shares of the plot, from its lower left corner
Box = tuple[float, float, float, float]  # left, bottom, right, top


def label_sides(
    points: Sequence[Point],
    labels: Sequence[str],
    others: Sequence[Point] = (),
    letter: float = 0.022,
) -> list[str]:
    """Plotly's `textposition` for the label of every point; `others` are marks without a label, a
    letter is so wide."""
    marks = [_box(x, y, 0.02, 0.05) for x, y in (*points, *others)]
    taken: list[Box] = []
    sides = []
    for i, (x, y) in enumerate(points):
        near = marks[:i] + marks[i + 1 :]
        boxes = {side: _label_box(side, x, y, letter * len(labels[i])) for side in _SIDES}
        costs = {side: _cost(box, near, taken) for side, box in boxes.items()}
        side = min(_SIDES, key=costs.__getitem__)
        sides.append(side)
        taken.append(boxes[side])
    return sides


def along(corners: Sequence[Point], step: float = 0.04) -> list[Point]:
    """Points on a line of these corners, near enough to each other to keep labels off it."""
    found: list[Point] = []
    for (x, y), (to_x, to_y) in pairwise(corners):
        count = math.ceil(max(abs(to_x - x), abs(to_y - y)) / step)
        shares = [i / count for i in range(count + 1)] if count else []
        found += [(x + s * (to_x - x), y + s * (to_y - y)) for s in shares]
    return found


def _box(x: float, y: float, width: float, height: float) -> Box:
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def _label_box(side: str, x: float, y: float, width: float) -> Box:
    vertical, horizontal = side.split()
    across = {"left": -1.0, "center": 0.0, "right": 1.0}[horizontal]
    up = {"bottom": -1.0, "middle": 0.0, "top": 1.0}[vertical]
    return _box(x + across * (width / 2 + 0.018), y + up * 0.06, width, 0.06)


def _cost(box: Box, marks: Sequence[Box], labels: Sequence[Box]) -> float:
    """Area that a label would cover, of marks above all, plus what sticks out of the plot."""
    left, bottom, right, top = box
    spare = (right - left) / 2  # on a phone, letters are wider against the plot
    across = max(0.0, spare - left) + max(0.0, right + spare - 1.0)
    outside = across + max(0.0, -bottom) + max(0.0, top - 1.02)
    return _MARK * _covered(box, marks) + _LABEL * _covered(box, labels) + 0.1 * outside


def _covered(box: Box, others: Sequence[Box]) -> float:
    left, bottom, right, top = box
    return sum(
        max(0.0, min(right, o[2]) - max(left, o[0])) * max(0.0, min(top, o[3]) - max(bottom, o[1]))
        for o in others
    )
