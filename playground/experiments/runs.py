"""Rows of a sweep by label and prompt; ratios of sums over them, with resamples of the prompts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from playground.quality import Array, ratio, resamples

Row = Mapping[str, Any]
Part = Callable[[Row], float | None]


class Runs:
    """The rows of those prompts that every configuration has done.

    counts: [1 + resamples, prompts], the same for all, so that whatever is compared is paired.
    """

    def __init__(self, rows: Sequence[Row], seed: int = 0) -> None:
        self.rows = {(row["label"], row["prompt_id"]): row for row in rows}
        self.labels = list(dict.fromkeys(row["label"] for row in rows))
        ids = dict.fromkeys(row["prompt_id"] for row in rows)
        self.prompts = [p for p in ids if all((c, p) in self.rows for c in self.labels)]
        self.counts = resamples(len(self.prompts), seed)

    def of(self, label: str) -> list[Row]:
        """The rows of a configuration, in the order of the prompts."""
        return [self.rows[label, prompt] for prompt in self.prompts]

    def first(self, label: str) -> Row:
        """One row of a configuration, for its method and settings."""
        return self.rows[label, self.prompts[0]]

    def of_method(self, method: str, model: str = "target") -> list[str]:
        """The labels of the configurations that run this method, on this model of the pair."""
        rows = [(label, self.first(label)) for label in self.labels]
        return [label for label, row in rows if (row["method"], row["model"]) == (method, model)]

    def over(self, labels: Sequence[str], part: Part, whole: Part) -> Array:
        """Σ part / Σ whole over all rows of these configurations, for every resample; NaN where
        there is none."""
        rows = [row for label in labels for row in self.of(label)]
        counts = np.tile(self.counts, (1, len(labels)))
        found = ratio([part(row) for row in rows], [whole(row) for row in rows], counts)
        return np.full(len(counts), np.nan) if found is None else found


def column(name: str) -> Part:
    """The value in a column."""
    return lambda row: row[name]


def one(row: Row) -> float:
    """What a mean over rows is divided by."""
    return 1.0


def divergence(row: Row) -> float:
    """Sum of KL(target‖output) over verified positions; infinite where JSON could not say so."""
    mean, number = row["mean_divergence"], row["num_verified"]
    if not number:
        return 0.0
    return math.inf if mean is None else float(mean * number)


def reverse_divergence(row: Row) -> float | None:
    """Sum of KL(output‖target) over new tokens; infinite where a fidelity of 0 tells so."""
    mean = row["mean_reverse_divergence"]
    if mean is not None:
        return float(mean * row["num_new_tokens"])
    return math.inf if row["fidelity"] == 0.0 else None


def logprob(row: Row) -> float | None:
    """Sum of the tokens' log-probabilities under the target's raw law."""
    mean = row["target_logprob"]
    return None if mean is None else float(mean * row["num_new_tokens"])


def speed(runs: Runs, label: str) -> Array:
    """Tokens a second."""
    return runs.over([label], column("num_new_tokens"), column("total_s"))


def tokens_per_pass(runs: Runs, label: str) -> Array:
    """New tokens per target pass."""
    return runs.over([label], column("num_new_tokens"), column("num_target_passes"))


def acceptance(runs: Runs, label: str) -> Array:
    """Accepted of tested draft tokens."""
    return runs.over([label], column("num_accepted"), column("num_tested"))
