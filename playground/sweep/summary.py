"""Rows of a sweep -> one record a configuration, with intervals, and what beats what.

Tokens, seconds, passes and counts are summed over prompts before they are divided; log-likelihood
is per token, divergence per verified position, so long outputs count for more. The baseline of
`speedup` is sampling; `faster` and `bleu_change` compare with `baseline`, the fastest configuration
that follows the target's law exactly, on the same prompts and the same resamples of them. Only
prompts that every configuration has done count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from playground.axes import pareto
from playground.quality import Array, TextScores, interval, ratio, resamples, text_scores
from playground.sweep.grid import Configuration
from playground.sweep.rows import Place, Row

Estimates = dict[str, Array | None]
_CHANGES = ("bleu", "chrf", "sentence_bleu")
_SPEED = "tokens_per_s"


@dataclass(slots=True)
class Summary:
    """records: one a configuration; front: the names of the two axes of `on_front`; signatures:
    sacrebleu's, where there are references."""

    records: list[dict[str, Any]] = field(default_factory=list)
    front: tuple[str, str] = (_SPEED, "fidelity")
    signatures: dict[str, str] = field(default_factory=dict)


def summarise(
    configs: Sequence[Configuration],
    rows: Mapping[Place, Row],
    references: Mapping[str, str | None],
    seed: int = 0,
) -> Summary:
    """The summary of all prompts that are complete; it is empty where none is.

    references: by prompt id, in the order of the prompts. seed: of the resamples.
    """
    prompts = [p for p in references if all((c.key, p) in rows for c in configs)]
    if not prompts:
        return Summary()
    counts = resamples(len(prompts), seed)
    answers = [references[p] for p in prompts]
    own = {c.label: [rows[c.key, p] for p in prompts] for c in configs}
    scores = {label: _scores(some, answers, counts) for label, some in own.items()}
    estimates = {label: _estimates(own[label], scores[label], counts) for label in own}
    sampled, lossless = baselines(configs, estimates)
    found = Summary([_totals(c, own[c.label]) for c in configs])
    for record in found.records:
        mine = estimates[record["label"]]
        record |= _spread("speedup", _over(mine, estimates[sampled]))
        for name, values in mine.items():
            record |= _spread(name, values)
        record |= {"baseline": lossless, **_spread("faster", _over(mine, estimates[lossless]))}
        for name in _CHANGES:
            if name in mine:
                record |= _spread(f"{name}_change", _minus(mine, estimates[lossless], name))
    known = next((score for score in scores.values() if score is not None), None)
    if known is not None:
        found.front, found.signatures = (_SPEED, "bleu"), known.signatures
    best = {record["label"] for record in pareto(found.records, *found.front)}
    for record in found.records:
        record["on_front"] = record["label"] in best
    return found


def _totals(config: Configuration, rows: Sequence[Row]) -> dict[str, Any]:
    return {
        "label": config.label,
        "method": config.method,
        "model": config.model,
        "badge": config.badge,
        "params": config.params,
        "num_prompts": len(rows),
        "num_new_tokens": sum(row["num_new_tokens"] for row in rows),
        "total_s": sum(row["total_s"] for row in rows),
    }


def _estimates(rows: Sequence[Row], scores: TextScores | None, counts: Array) -> Estimates:
    """Every metric of one configuration, for every row of counts [resamples, prompts]."""

    def over(parts: Sequence[float | None], whole: str) -> Array | None:
        return ratio(parts, [row[whole] for row in rows], counts)

    def column(name: str) -> list[float | None]:
        return [row[name] for row in rows]

    reverse = over([_sum_reverse(row) for row in rows], "num_new_tokens")
    found: Estimates = {
        _SPEED: over(column("num_new_tokens"), "total_s"),
        "tokens_per_target_pass": over(column("num_new_tokens"), "num_target_passes"),
        "acceptance_rate": over(column("num_accepted"), "num_drafted"),
        "tested_acceptance_rate": over(column("num_accepted"), "num_tested"),
        "mean_divergence": over([_sum_divergence(row) for row in rows], "num_verified"),
        "fidelity": None if reverse is None else np.exp(-reverse),
        "target_logprob": over([_sum_logprob(row) for row in rows], "num_new_tokens"),
    }
    if scores is not None:
        found |= {name: getattr(scores, name) for name in _CHANGES}
    return found


def _sum_divergence(row: Row) -> float:
    """Over verified positions; infinite where JSON could not say so."""
    if not row["num_verified"]:
        return 0.0
    mean = row["mean_divergence"]
    return math.inf if mean is None else mean * row["num_verified"]


def _sum_reverse(row: Row) -> float | None:
    """Over new tokens; infinite where JSON could not say so, which a fidelity of 0 tells."""
    mean = row["mean_reverse_divergence"]
    if mean is not None:
        return float(mean * row["num_new_tokens"])
    return math.inf if row["fidelity"] == 0.0 else None


def _sum_logprob(row: Row) -> float | None:
    mean = row["target_logprob"]
    return None if mean is None else mean * row["num_new_tokens"]


def _scores(rows: Sequence[Row], answers: Sequence[str | None], counts: Array) -> TextScores | None:
    """Scores over the prompts that have a reference; None where none has."""
    known = [
        i for i, answer in enumerate(answers) if answer is not None and rows[i]["text"] is not None
    ]
    if not known:
        return None
    texts = [rows[i]["text"] for i in known]
    return text_scores(texts, [str(answers[i]) for i in known], counts[:, known])


def baselines(
    configs: Sequence[Configuration], estimates: Mapping[str, Estimates]
) -> tuple[str, str]:
    """Labels of what `speedup` and the paired comparison refer to: sampling, else the first; the
    fastest configuration that follows the target's law exactly, else the first."""
    sampled = next((c.label for c in configs if c.badge == "sampled"), configs[0].label)
    lossless = [c.label for c in configs if c.badge in ("lossless", "sampled")]
    return sampled, max(lossless, key=lambda label: _speed(estimates[label]), default=sampled)


def _speed(estimates: Estimates) -> float:
    speeds = estimates[_SPEED]
    return -math.inf if speeds is None else float(speeds[0])


def _over(one: Estimates, other: Estimates) -> Array | None:
    """The ratio of two speeds."""
    ours, theirs = one[_SPEED], other[_SPEED]
    return None if ours is None or theirs is None else ours / theirs


def _minus(one: Estimates, other: Estimates, name: str) -> Array | None:
    ours, theirs = one[name], other.get(name)
    return None if ours is None or theirs is None else ours - theirs


def _spread(name: str, estimates: Array | None) -> dict[str, float | None]:
    """A value and its interval as three columns."""
    found = interval(estimates)
    values = (None, None, None) if found is None else (found.value, found.low, found.high)
    return dict(zip((name, f"{name}_low", f"{name}_high"), values, strict=True))
