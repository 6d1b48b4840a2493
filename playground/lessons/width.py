"""Wider is not better: published figures, and the record of ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from playground.metrics import mean
from playground.types import DecodeResult

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
    """One width (None: exact search) over a set of sentences.

    mean_tokens, mean_logprob: length and sum of log-probabilities of the best output. empty, cut:
    shares of outputs without any text, and of those that the length limit ended. proven: share of
    exact searches that proved their result, None for beams.
    """

    width: int | None
    num_outputs: int
    quality: float | None
    mean_tokens: float | None
    mean_logprob: float | None
    empty: float | None
    cut: float | None
    proven: float | None


def width_point(
    width: int | None, results: Sequence[DecodeResult], quality: float | None = None
) -> WidthPoint:
    """One width from its runs; quality: of their texts together, such as BLEU."""
    best = [result.beams[0] for result in results if result.beams]
    known = [result.proven for result in results if result.proven is not None]
    return WidthPoint(
        width=width,
        num_outputs=len(results),
        quality=quality,
        mean_tokens=mean([float(beam.length) for beam in best]),
        mean_logprob=mean([beam.sum_logprob for beam in best]),
        empty=mean([float(is_empty(result)) for result in results]),
        cut=mean([float(result.finish_reason == "length") for result in results]),
        proven=mean([float(proven) for proven in known]),
    )


def is_empty(result: DecodeResult) -> bool:
    """Whether the output is nothing but its end: no text, or no token before the end token."""
    if result.text is not None:
        return not result.text.strip()
    return len(result.token_ids) <= int(result.finish_reason == "eos")
