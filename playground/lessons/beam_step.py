"""One beam step as four moves: expand, score, prune, collect; and what the cache does after it.

The numbers are read from a recorded search: nothing is searched here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from playground.types import Candidate, SearchStep

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """One line of a step's table: a continuation that the search looked at, in its order.

    flat: its place in the flattened scores [W·V], from which parent = flat // V and
    token = flat % V. score = parent_score + logprob, sums of natural logarithms. kept: it lives on
    as row `row`, or ended and was collected (`finished`).
    """

    parent: int
    token_id: int
    flat: int
    parent_score: float
    logprob: float
    score: float
    kept: bool
    finished: bool
    row: int | None
    text: str | None


@dataclass(frozen=True, slots=True)
class BeamStep:
    """A step of W live beams over V tokens.

    shapes: of logits and log-probabilities (expand), of the beams' scores and the totals (score),
    of the flattened totals (prune). reorder: for each row of the next step the row that it grew
    from, which is how the cache is reordered. copies: rows that more than one row grew from;
    dropped: rows that none did.
    """

    width: int
    vocab_size: int
    shapes: dict[str, Shape]
    moves: tuple[Move, ...]
    reorder: tuple[int, ...]
    copies: tuple[int, ...]
    dropped: tuple[int, ...]


def beam_step(steps: Sequence[SearchStep], index: int, vocab_size: int) -> BeamStep:
    """Step `index` (0 is the first) of a recorded plain beam search over V tokens."""
    scores = _live_scores(steps[index - 1]) if index else [0.0]
    width, candidates = len(scores), steps[index].candidates
    reorder = tuple(c.parent for c in _live(steps[index]))
    return BeamStep(
        width=width,
        vocab_size=vocab_size,
        shapes={
            "logits": (width, vocab_size),
            "scores": (width, 1),
            "totals": (width, vocab_size),
            "flat": (width * vocab_size,),
        },
        moves=tuple(_move(c, scores[c.parent], vocab_size) for c in candidates),
        reorder=reorder,
        copies=tuple(row for row in range(width) if reorder.count(row) > 1),
        dropped=tuple(row for row in range(width) if row not in reorder),
    )


def _live(step: SearchStep) -> list[Candidate]:
    """The candidates that live on, in the order of their rows."""
    live = [(c.row, c) for c in step.candidates if c.row is not None]
    return [c for _, c in sorted(live, key=lambda pair: pair[0])]


def _live_scores(step: SearchStep) -> list[float]:
    return [c.sum_logprob for c in _live(step)]


def _move(c: Candidate, parent_score: float, vocab_size: int) -> Move:
    return Move(
        parent=c.parent,
        token_id=c.token_id,
        flat=c.parent * vocab_size + c.token_id,
        parent_score=parent_score,
        logprob=c.sum_logprob - parent_score,
        score=c.sum_logprob,
        kept=c.kept,
        finished=c.finished,
        row=c.row,
        text=c.text,
    )


@dataclass(frozen=True, slots=True)
class CacheRows:
    """What the cache holds around one reorder: token ids in place of keys and values.

    shared: the prompt, stored once. before, after: each row's own tokens. num_bytes: what is held
    after it; num_bytes_naive: with the prompt copied to every row.
    """

    shared: tuple[int, ...]
    before: tuple[tuple[int, ...], ...]
    parents: tuple[int, ...]
    after: tuple[tuple[int, ...], ...]
    num_bytes: int
    num_bytes_naive: int
