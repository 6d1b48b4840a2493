"""The lessons of the Learn tab, a file each.

A lesson is a function that lays out its components in the current Blocks and wires their events,
all of them light: it answers in well under a second, on the product's own functions.
"""

from __future__ import annotations

from collections.abc import Callable

from playground.ui.learn import (
    cost,
    length,
    mentored,
    repetition,
    speculative,
    step,
    stopping,
    tasks,
    tree,
    width,
)
from playground.ui.strings import Words
from playground.ui.worker import Worker

Lesson = Callable[[Worker, Words], None]

# In the order of the tab; the same slugs as in links (`playground.ui.setup.LESSONS`).
LESSONS: dict[str, Lesson] = {
    "tree": tree.lesson,
    "step": step.lesson,
    "stopping": stopping.lesson,
    "length": length.lesson,
    "cost": cost.lesson,
    "width": width.lesson,
    "repetition": repetition.lesson,
    "speculative": speculative.lesson,
    "mentored": mentored.lesson,
    "tasks": tasks.lesson,
}
