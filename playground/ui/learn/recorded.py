"""What the lessons that show a shipped experiment have in common."""

from __future__ import annotations

from html import escape
from typing import Any

from playground.experiment_charts import WORDS
from playground.experiments import findings
from playground.quality import Interval
from playground.ui.learn.parts import text
from playground.ui.markup import markup
from playground.ui.numbers import NONE, plain
from playground.ui.strings import Words


def recorded(name: str, say: Words) -> dict[str, Any]:
    """The findings of a shipped experiment; where there are none, the page says so."""
    found = findings(name)
    if not found:
        text(say("experiment.none"))
    return found


def origin(name: str, found: dict[str, Any], say: Words) -> None:
    """The lines that say how to make the result again, and whether it is whole."""
    command = f"python -m assets.recipes.experiments {name}"
    lines = [say("experiment.again", command=command)]
    if found["provisional"]:
        lines.insert(0, say("experiment.provisional"))
    markup("".join(f'<p class="dp-hint">{escape(line)}</p>' for line in lines))


def answer_words(say: Words) -> dict[str, str]:
    """What `experiment_charts` says, in the page's language."""
    return {name: say(f"answer.{name}") for name in WORDS}


def spread(found: Interval | None, scale: float = 1.0) -> str:
    """A value and its interval: "1.23 [1.1, 1.4]"."""
    if found is None:
        return NONE
    low, high = plain(scale * found.low), plain(scale * found.high)
    return f"{plain(scale * found.value)} [{low}, {high}]"


def ends(found: Interval, scale: float = 1.0) -> dict[str, str]:
    """A value and its interval as the placeholders by, low, high."""
    return {
        "by": plain(scale * found.value),
        "low": plain(scale * found.low),
        "high": plain(scale * found.high),
    }
