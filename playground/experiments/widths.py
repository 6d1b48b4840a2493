"""Quality, length and score of beam search by width, and of exact search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sacrebleu.metrics.bleu import BLEU

from playground.experiments.runs import Part, Row, Runs, column, logprob, one
from playground.lessons.width import WidthPoint
from playground.quality import Interval, TextScores, interval, text_scores

Texts = Mapping[str, str]


def points(rows: Sequence[dict[str, Any]], references: Texts) -> list[WidthPoint]:
    """A record for every configuration, in their order. references: by prompt id."""
    runs = Runs(rows)
    answers = [references[prompt] for prompt in runs.prompts]
    scores = {
        label: text_scores([row["text"] for row in runs.of(label)], answers, runs.counts)
        for label in runs.labels
    }
    best = _best_widths(runs, scores)
    return [
        _point(runs, label, answers, scores[label], scores[best[_norm(runs, label)]])
        for label in runs.labels
    ]


def _norm(runs: Runs, label: str) -> str:
    """How a search compares texts of different length; exact search adds up, as the sweep asks."""
    return str(runs.first(label)["params"].get("length_norm", "none"))


def _best_widths(runs: Runs, scores: Mapping[str, TextScores]) -> dict[str, str]:
    """The label of the beam search of highest BLEU, by norm."""
    found: dict[str, str] = {}
    for label in runs.of_method("beam"):
        other = found.setdefault(_norm(runs, label), label)
        if scores[label].bleu[0] > scores[other].bleu[0]:
            found[_norm(runs, label)] = label
    return found


def _proven(runs: Runs) -> Texts:
    """The texts that are proven to be the most probable ones, by prompt id."""
    exact = runs.of_method("exact")
    return {row["prompt_id"]: row["text"] for c in exact for row in runs.of(c) if row["proven"]}


def _point(
    runs: Runs, label: str, answers: Sequence[str], scores: TextScores, best: TextScores
) -> WidthPoint:
    rows, is_exact = runs.of(label), label in runs.of_method("exact")
    optima = _proven(runs)

    def mean(part: Part) -> Interval | None:
        return interval(runs.over([label], part, one))

    def misses(row: Row) -> float | None:
        known = optima.get(row["prompt_id"])
        return None if known is None else float(row["text"].strip() != known.strip())

    return WidthPoint(
        width=None if is_exact else runs.first(label)["params"]["num_beams"],
        norm=_norm(runs, label),
        num_outputs=len(rows),
        bleu=interval(scores.bleu),
        chrf=interval(scores.chrf),
        mean_tokens=mean(column("num_new_tokens")),
        mean_logprob=mean(logprob),
        length_ratio=float(BLEU().corpus_score([row["text"] for row in rows], [answers]).ratio),
        empty=mean(lambda row: float(not row["text"].strip())),
        cut=mean(lambda row: float(row["finish_reason"] == "length")),
        bleu_change=interval(scores.bleu - best.bleu),
        proven=mean(lambda row: float(row["proven"])) if is_exact else None,
        misses=None if is_exact else mean(misses),
    )
