"""Wider is not better: published figures, and the record of ours."""

from __future__ import annotations

from dataclasses import dataclass

from playground.quality import Interval

KOEHN = "Koehn & Knowles 2017, Six Challenges for Neural Machine Translation"
STAHLBERG = (
    "Stahlberg & Byrne 2019, On NMT Search Errors and Model Errors: Cat Got Your Tongue? "
    "(WMT15 English-German)"
)
HOLTZMAN = "Holtzman et al. 2020, The Curious Case of Neural Text Degeneration"


@dataclass(frozen=True, slots=True)
class Published:
    """A figure from a paper. width: the beam's, None for exact search; value None for a finding
    without one number."""

    name: str
    width: int | None
    value: float | None
    unit: str
    source: str


PUBLISHED = (
    Published("bleu", 10, 30.3, "BLEU", STAHLBERG),
    Published("bleu", None, 2.1, "BLEU", STAHLBERG),
    Published("empty_is_best", None, 51.8, "%", STAHLBERG),
    Published("misses_optimum", 100, 53.62, "%", STAHLBERG),
    Published("falls_past_optimum", None, None, "", KOEHN),
    Published("repeats", None, None, "", HOLTZMAN),
)


@dataclass(frozen=True, slots=True)
class WidthPoint:
    """One width (None: exact search) over a set of sentences; shares are from 0 to 1.

    norm: how scores of different length were compared ("none": plain sums). mean_tokens,
    mean_logprob: length and sum of log-probabilities of the best output. length_ratio: words of the
    outputs over words of the references. empty, cut: shares of outputs without any text, and of
    those that the length limit ended. bleu_change: BLEU minus that of the best width under the same
    norm, on the same sentences. proven: share of exact searches that proved their result,
    None for beams; misses: share of the proven results that a beam search did not return.
    """

    width: int | None
    norm: str
    num_outputs: int
    bleu: Interval | None
    chrf: Interval | None
    mean_tokens: Interval | None
    mean_logprob: Interval | None
    length_ratio: float
    empty: Interval | None
    cut: Interval | None
    bleu_change: Interval | None = None
    proven: Interval | None = None
    misses: Interval | None = None
