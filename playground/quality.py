"""How good the outputs of many prompts are, with bootstrap intervals over the prompts.

Everything is a function of sums over prompts, so that one set of resamples serves all: `resamples`
says how often each prompt is counted, row 0 being the sample itself, and every estimate is an array
over its rows. Two configurations with the same prompts are compared row by row, which is the paired
bootstrap. BLEU and chrF are sacrebleu's, on plain (detokenised) text, in its scale of 0 to 100.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

Array = NDArray[np.float64]
NUM_RESAMPLES = 1000
LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate, and the middle 95 % of it over the resamples."""

    value: float
    low: float
    high: float


def resamples(num_prompts: int, seed: int = 0) -> Array:
    """How often each prompt is counted: [1 + NUM_RESAMPLES, prompts]; row 0 counts each once."""
    generator = np.random.default_rng(seed)
    even = np.full(num_prompts, 1.0 / num_prompts)
    drawn = generator.multinomial(num_prompts, even, size=NUM_RESAMPLES)
    return np.vstack([np.ones((1, num_prompts)), drawn]).astype(np.float64)


def interval(estimates: Array | None) -> Interval | None:
    """The interval of estimates [1 + NUM_RESAMPLES]; None where the first does not exist."""
    if estimates is None or not np.isfinite(estimates[0]):
        return None
    known = estimates[1:][np.isfinite(estimates[1:])]
    if not len(known):
        return None
    low, high = np.quantile(known, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(estimates[0]), float(low), float(high))


def ratio(
    parts: Sequence[float | None], wholes: Sequence[float | None], counts: Array
) -> Array | None:
    """Σ parts / Σ wholes over the prompts that have both, for every row of counts [rows, prompts];
    NaN where a row's wholes are 0. None where no prompt has both."""
    pairs = zip(parts, wholes, strict=True)
    known = np.array([a is not None and b is not None for a, b in pairs], dtype=bool)
    if not known.any():
        return None
    top, bottom = (_total(values, known, counts) for values in (parts, wholes))
    return np.divide(top, bottom, out=np.full(len(counts), np.nan), where=bottom != 0)


def _total(values: Sequence[float | None], known: NDArray[np.bool_], counts: Array) -> Array:
    """Sums for every row of counts; infinite where a prompt that is counted is."""
    chosen = np.array([v for v, k in zip(values, known, strict=True) if k], dtype=np.float64)
    infinite = np.isinf(chosen)
    own = counts[:, known]
    total: Array = own @ np.where(infinite, 0.0, chosen)
    total[own[:, infinite].any(axis=1)] = np.inf
    return total


def tokenizer_for(references: Sequence[str]) -> str:
    """sacrebleu's tokenizer for a language: "zh" where most letters are Chinese, "char" where there
    are Japanese syllables, else its default "13a"."""
    letters = [char for text in references for char in text if char.isalpha()]
    if any("\u3040" <= char <= "\u30ff" for char in letters):
        return "char"
    chinese = sum("\u4e00" <= char <= "\u9fff" for char in letters)
    return "zh" if 2 * chinese > len(letters) else "13a"


@dataclass(frozen=True, slots=True)
class TextScores:
    """Estimates for every row of counts, and what exactly was computed.

    bleu, chrf: of the corpus; sentence_bleu: the mean over prompts of BLEU of the one sentence,
    with effective order, as the mentored decoding article reports it. signatures: sacrebleu's.
    """

    bleu: Array
    chrf: Array
    sentence_bleu: Array
    signatures: dict[str, str]


def text_scores(texts: Sequence[str], references: Sequence[str], counts: Array) -> TextScores:
    """Scores of texts against one reference each; counts [rows, prompts]."""
    tokenize = tokenizer_for(references)
    bleu, chrf = BLEU(tokenize=tokenize), CHRF()
    sentence = BLEU(tokenize=tokenize, effective_order=True)
    of_bleu, of_chrf = (_statistics(metric, texts, references) for metric in (bleu, chrf))
    pairs = zip(texts, references, strict=True)
    alone = [float(sentence.sentence_score(text, [answer]).score) for text, answer in pairs]
    mean = ratio(alone, [1.0] * len(alone), counts)
    assert mean is not None
    return TextScores(
        bleu=np.array([_score(bleu, sums) for sums in counts @ of_bleu]),
        chrf=np.array([_score(chrf, sums) for sums in counts @ of_chrf]),
        sentence_bleu=mean,
        signatures={
            "bleu": str(bleu.get_signature()),
            "chrf": str(chrf.get_signature()),
            "sentence_bleu": str(sentence.get_signature()),
        },
    )


def sentence_scores(text: str, reference: str) -> dict[str, Any]:
    """BLEU (with effective order) and chrF of one text against one reference, and how exactly they
    were computed: sacrebleu's signatures."""
    bleu, chrf = BLEU(tokenize=tokenizer_for([reference]), effective_order=True), CHRF()
    return {
        "bleu": float(bleu.sentence_score(text, [reference]).score),
        "chrf": float(chrf.sentence_score(text, [reference]).score),
        "bleu_signature": str(bleu.get_signature()),
        "chrf_signature": str(chrf.get_signature()),
    }


def _statistics(metric: Any, texts: Sequence[str], references: Sequence[str]) -> Array:
    """What sacrebleu sums up over sentences: [sentences, statistics]."""
    found = metric._extract_corpus_statistics(list(texts), [list(references)])
    return np.array(found, dtype=np.float64)


def _score(metric: Any, sums: Array) -> float:
    return float(metric._compute_score_from_stats([int(value) for value in sums]).score)
