"""When to stop: the three modes of `early_stopping` on one recorded search, and what is certain
of its text before it ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from playground.types import DecodeResult, SearchStep

Ids = tuple[int, ...]

# A little language in which each mode ends later than the one before, and finds a better text: the
# laws of the tokens a, b and the end, by step, whatever came before.
NAMES, END = ("a", "b", "end"), 2
LAWS = (
    (0.64, 0.16, 0.20),
    (0.42, 0.18, 0.40),
    (0.72, 0.08, 0.20),
    (0.30, 0.30, 0.40),
    (0.85, 0.10, 0.05),
    (0.09, 0.01, 0.90),
    (0.10, 0.10, 0.80),
    (0.14, 0.06, 0.80),
)
WIDTH = 2


@dataclass(frozen=True, slots=True)
class StopStep:
    """Where a search stands after a step.

    step: tokens so far. best_live: sum of log-probabilities of the best live beam, None where none
    lives. num_finished, worst, best: of the finished set, which holds at most W. bounds: by mode,
    the score that it credits the best live beam with and compares with `worst` once the set is
    full; for mode "true" it is not compared. stops: by mode, whether the search would end here.
    """

    step: int
    best_live: float | None
    num_finished: int
    worst: float | None
    best: float | None
    bounds: dict[str, float | None]
    stops: dict[str, bool]


@dataclass(frozen=True, slots=True)
class Stop:
    """Where a mode ends the search (tokens so far), and the best finished score by then."""

    mode: str
    step: int
    best: float | None


def stops(steps: Sequence[StopStep]) -> dict[str, Stop]:
    """The first step at which each mode ends the search; a mode that goes on beyond the record is
    left out."""
    found: dict[str, Stop] = {}
    for step in steps:
        for mode, ends in step.stops.items():
            if ends and mode not in found:
                found[mode] = Stop(mode, step.step, step.best)
    return found


@dataclass(frozen=True, slots=True)
class Provisional:
    """What a search could show after a step.

    best: ids of the best text so far. agrees: how many of its first tokens are those of the final
    text. certain: how many tokens all live and finished beams begin with, all that could be shown
    as final.
    """

    step: int
    best: Ids
    agrees: int
    certain: int


def provisional(result: DecodeResult) -> tuple[Provisional, ...]:
    """Step by step, how much of the text of a plain beam search was settled: why it can't be
    streamed. At its end all is certain."""
    width, final = result.params["num_beams"], tuple(result.token_ids)
    rows: list[Ids] = [()]
    finished: list[tuple[float, Ids]] = []
    found = []
    for number, step in enumerate(result.steps, 1):
        rows, ended = _grown(rows, step)
        finished = sorted(finished + ended, key=lambda item: -item[0])[:width]
        ended_search = not rows  # nothing lives on: the final text is the only one left
        best = final if ended_search else (finished[0][1] if finished else rows[0])
        every = [final] if ended_search else [*rows, *(ids for _, ids in finished)]
        certain = min(common_prefix(best, ids) for ids in every)
        found.append(Provisional(number, best, common_prefix(best, final), certain))
    return tuple(found)


def _grown(rows: Sequence[Ids], step: SearchStep) -> tuple[list[Ids], list[tuple[float, Ids]]]:
    """The next step's rows, and what ended, with its score."""
    live = [(c.row, (*rows[c.parent], c.token_id)) for c in step.candidates if c.row is not None]
    ended = [(c.score, (*rows[c.parent], c.token_id)) for c in step.candidates if c.finished]
    return [ids for _, ids in sorted(live)], ended


def common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """How many first tokens two sequences share."""
    pairs = enumerate(zip(first, second, strict=False))
    shorter = min(len(first), len(second))
    return next((i for i, (a, b) in pairs if a != b), shorter)
