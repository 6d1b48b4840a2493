"""The article's experiment beside ours: do the orderings agree?

Tran-Thien 2023, "An optimal lossy variant of speculative decoding": T5-large with T5-small, WMT15
English to French, temperature 0.3, one V100; BLEU there is the mean of the sentences' BLEU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from playground.experiments.runs import Runs, one, speed
from playground.quality import Array, Interval, interval, text_scores

SOURCE = "Tran-Thien 2023, An optimal lossy variant of speculative decoding"
SAMPLING_SPEED, SPECULATIVE_SPEED, MENTORED_SPEED = 18.1, 26.8, 30.0  # tokens a second
SAMPLING_BLEU = 0.217
BLEU_CHANGES = {0.15: -0.002, 0.2: -0.006}  # mentored against the lossless law, by budget

Relation = Literal["agrees", "differs", "open"]


@dataclass(frozen=True, slots=True)
class Claim:
    """One figure of the article and ours.

    name: "speculative_gain", "mentored_gain" (speed over sampling, over speculative),
    "mentored_speedup" (over sampling), "bleu_change" and "bleu_order" (of a larger budget against a
    smaller). budget: D, where the claim has one. neutral: the value that says "no difference".
    ours: None where the sweep lacks what it needs. ordering: whether ours lies on the article's
    side of `neutral` ("agrees"), on the other ("differs"), or its interval holds it ("open").
    label: our configuration.
    """

    name: str
    article: float
    ours: Interval | None
    neutral: float
    ordering: Relation
    budget: float | None = None
    label: str | None = None


def claims(rows: Sequence[dict[str, Any]], references: Mapping[str, str | None]) -> list[Claim]:
    """Every published figure beside ours. references: by prompt id.

    The fastest draft length counts for each method, as in the article. BLEU is the mean of the
    sentences' and pooled over draft lengths, which leave a method's law as it is.
    """
    runs = Runs(rows)
    sampled, exact, lossy = map(runs.of_method, ("sample", "speculative", "mentored"))
    fastest = {kind: _fastest(runs, some) for kind, some in (("exact", exact), ("lossy", lossy))}
    found = [
        _speed_claim(runs, "speculative_gain", fastest["exact"], next(iter(sampled), None)),
        _speed_claim(runs, "mentored_speedup", fastest["lossy"], next(iter(sampled), None)),
        _speed_claim(runs, "mentored_gain", fastest["lossy"], fastest["exact"]),
    ]
    return found + _bleu_claims(runs, sampled + exact, lossy, references)


_PUBLISHED = {
    "speculative_gain": SPECULATIVE_SPEED / SAMPLING_SPEED,
    "mentored_speedup": MENTORED_SPEED / SAMPLING_SPEED,
    "mentored_gain": MENTORED_SPEED / SPECULATIVE_SPEED,
}


def _fastest(runs: Runs, labels: Sequence[str]) -> str | None:
    return max(labels, key=lambda label: float(speed(runs, label)[0]), default=None)


def _speed_claim(runs: Runs, name: str, label: str | None, base: str | None) -> Claim:
    ours = None
    if label is not None and base is not None:
        ours = interval(speed(runs, label) / speed(runs, base))
    return _claim(name, _PUBLISHED[name], ours, 1.0, None, label)


def _bleu_claims(
    runs: Runs, exact: Sequence[str], lossy: Sequence[str], references: Mapping[str, str | None]
) -> list[Claim]:
    """BLEU lost at each published budget, and whether the larger budget loses more."""
    lossless = _bleu(runs, exact, references)
    change = {
        budget: _bleu(
            runs,
            [c for c in lossy if runs.first(c)["params"].get("divergence_budget") == budget],
            references,
        )
        - lossless
        for budget in BLEU_CHANGES
    }
    found = [
        _claim("bleu_change", BLEU_CHANGES[budget], interval(values), 0.0, budget, None)
        for budget, values in change.items()
    ]
    small, large = sorted(BLEU_CHANGES)
    order = interval(change[large] - change[small])
    published = BLEU_CHANGES[large] - BLEU_CHANGES[small]
    return [*found, _claim("bleu_order", published, order, 0.0, large, None)]


def _bleu(runs: Runs, labels: Sequence[str], references: Mapping[str, str | None]) -> Array:
    """Mean BLEU of the sentences, 0 to 1, over all of these configurations, for every resample."""
    scores: dict[str, dict[str, float | None]] = {
        label: _sentences(runs, label, references) for label in labels
    }
    if not labels:
        return np.full(len(runs.counts), np.nan)
    return runs.over(labels, lambda row: scores[row["label"]][row["prompt_id"]], one)


def _sentences(
    runs: Runs, label: str, references: Mapping[str, str | None]
) -> dict[str, float | None]:
    """BLEU of each prompt's text by itself, 0 to 1."""
    known = {row["prompt_id"]: row["text"] for row in runs.of(label)}
    found: dict[str, float | None] = dict.fromkeys(known)
    for prompt, text in known.items():
        answer = references.get(prompt)
        if answer is not None and text is not None:
            only = text_scores([text], [answer], np.ones((1, 1)))
            found[prompt] = float(only.sentence_bleu[0]) / 100.0
    return found


def _claim(
    name: str,
    article: float,
    ours: Interval | None,
    neutral: float,
    budget: float | None,
    label: str | None,
) -> Claim:
    return Claim(name, article, ours, neutral, ordering(article, ours, neutral), budget, label)


def ordering(article: float, ours: Interval | None, neutral: float) -> Relation:
    """Whether an interval lies on the article's side of `neutral`."""
    if ours is None or ours.low <= neutral <= ours.high:
        return "open"
    return "agrees" if (ours.value > neutral) == (article > neutral) else "differs"
