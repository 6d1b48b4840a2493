"""Length bias: which of two texts wins, by norm and penalty (table 9-6 of the chapter).

A sum of log-probabilities falls with every token. Dividing it by a power of the length lifts long
texts, so the "penalty" of that name is a reward: positive favours longer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from playground.methods.scoring import ScoringParams, length_divisor

NORMS = ("length", "gnmt", "none")


@dataclass(frozen=True, slots=True)
class Text:
    """A finished text: how many tokens, and the sum of their log-probabilities."""

    tokens: int
    sum_logprob: float


def even(tokens: int, token_prob: float) -> Text:
    """A text whose tokens all have one probability."""
    return Text(tokens, tokens * math.log(token_prob))


SHORT, LONG = even(5, 0.8), even(10, 0.85)
TABLE_9_6 = (("none", 0.0), ("gnmt", 0.6), ("gnmt", 1.0), ("length", 0.6), ("length", 1.0))


@dataclass(frozen=True, slots=True)
class Row:
    """Scores under one setting; winner "short", "long", or None where they are equal."""

    norm: str
    penalty: float
    short: float
    long: float
    winner: str | None


def score(text: Text, norm: str, penalty: float) -> float:
    """The score that a search gives the text."""
    params = ScoringParams(length_penalty=penalty, length_norm=norm)
    return params.score(text.sum_logprob, text.tokens)


def row(norm: str, penalty: float, short: Text = SHORT, long: Text = LONG) -> Row:
    """Both scores under one setting."""
    scores = score(short, norm, penalty), score(long, norm, penalty)
    winner = None if scores[0] == scores[1] else "short" if scores[0] > scores[1] else "long"
    return Row(norm, penalty, *scores, winner)


def table(short: Text = SHORT, long: Text = LONG) -> tuple[Row, ...]:
    """Table 9-6 for these two texts."""
    return tuple(row(norm, penalty, short, long) for norm, penalty in TABLE_9_6)


def curve(text: Text, norm: str, penalties: Sequence[float]) -> tuple[float, ...]:
    """The text's score at each penalty."""
    return tuple(score(text, norm, penalty) for penalty in penalties)


def crossing(norm: str, short: Text = SHORT, long: Text = LONG) -> float | None:
    """The penalty at which both score alike: s/d^a = S/D^a at a = ln(s/S) / ln(d/D).

    None where no penalty does: without a norm, at equal length, or for a text that is certain.
    """
    divisors = [length_divisor(text.tokens, norm, 1.0) for text in (short, long)]
    if divisors[0] == divisors[1] or not (short.sum_logprob < 0 and long.sum_logprob < 0):
        return None
    return math.log(short.sum_logprob / long.sum_logprob) / math.log(divisors[0] / divisors[1])
