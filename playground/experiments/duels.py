"""Does the provable optimum win in practice? Every other lossy rule against mentored decoding.

Mentored decoding is optimal at one position: no rule accepts more within the same divergence there.
Over whole texts only averages can be compared, and a rule that spends its divergence at positions
where it buys more may do better than an equal budget at every position. So this is measured: for
each setting of a rule, what mentored decoding spends at equal acceptance, and how fast it is at
equal divergence, read off the line between its own settings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from playground.experiments.runs import (
    Row,
    Runs,
    acceptance,
    column,
    divergence,
    reverse_divergence,
    speed,
    tokens_per_pass,
)
from playground.quality import Array, Interval, interval

Winner = Literal["mentored", "rule", "open", "none"]
_LEAST = 1e-4  # nats: below it a ratio of divergences is noise

# The divergence that is compared: KL(target‖output) a verified token, which the budget counts, and
# KL(output‖target) a new token, which stays finite where a rule gives a target token nothing.
MEASURES: dict[str, Callable[[Runs, str], Array]] = {
    "kl": lambda runs, label: runs.over([label], divergence, column("num_verified")),
    "reverse_kl": lambda runs, label: runs.over(
        [label], reverse_divergence, column("num_new_tokens")
    ),
}


@dataclass(frozen=True, slots=True)
class Duel:
    """One setting of a rule against mentored decoding.

    measure: one of MEASURES. divergence: what it spends; None where that is infinite.
    times_divergence: that, over what mentored decoding spends at equal acceptance: above 1,
    mentored decoding wins. times_speed, times_passes: tokens a second, and tokens per target
    pass, of mentored decoding at equal divergence over the rule's. None outside of what mentored
    decoding's settings reach.
    """

    rule: str
    label: str
    measure: str
    acceptance: Interval | None
    divergence: Interval | None
    times_divergence: Interval | None
    times_speed: Interval | None
    times_passes: Interval | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """A rule over all settings that can be compared: geometric means of their ratios.

    winner: who spends less at equal acceptance; "open" where the interval holds 1, "none" where
    nothing can be compared. num_settings: how many were compared, of num_all.
    """

    rule: str
    measure: str
    times_divergence: Interval | None
    times_speed: Interval | None
    times_passes: Interval | None
    winner: Winner
    num_settings: int
    num_all: int


@dataclass(frozen=True, slots=True)
class _Curve:
    """Settings of mentored decoding from the exact one on; arrays [resamples, settings]."""

    acceptance: Array
    divergence: Array
    speed: Array
    passes: Array

    def at(self, known: str, values: Array, wanted: str) -> Array:
        """`wanted` on the line at these values of `known`, for every resample; NaN outside."""
        xs, ys = getattr(self, known), getattr(self, wanted)
        found = np.full(len(values), np.nan)
        for i, value in enumerate(values):
            usable = np.isfinite(xs[i]) & np.isfinite(ys[i])
            if not usable.any() or not np.isfinite(value):
                continue
            order = np.argsort(xs[i][usable], kind="stable")
            x, y = xs[i][usable][order], ys[i][usable][order]
            found[i] = np.interp(value, x, y, left=np.nan, right=np.nan)
        return found


def duels(rows: Sequence[dict[str, Any]]) -> tuple[list[Duel], list[Verdict]]:
    """All settings of all rules, and a verdict on each rule, under each measure."""
    runs = Runs(rows)
    found: list[Duel] = []
    verdicts: list[Verdict] = []
    rivals: dict[str, list[str]] = {}
    for label in runs.of_method("speculative"):
        rule = _rule(runs.first(label))
        if rule not in ("exact", "block"):
            rivals.setdefault(rule, []).append(label)
    for measure in MEASURES:
        curve = _mentored(runs, measure)
        for rule, labels in rivals.items():
            ratios = [_ratios(runs, curve, measure, label) for label in labels]
            pairs = zip(labels, ratios, strict=True)
            found += [_duel(runs, rule, label, measure, own) for label, own in pairs]
            verdicts.append(_verdict(rule, measure, ratios))
    return found, verdicts


def _rule(row: Row) -> str:
    """The rule of a run of speculative decoding."""
    return str(row["params"].get("verifier", "exact"))


def _mentored(runs: Runs, measure: str) -> _Curve:
    exact = [c for c in runs.of_method("speculative") if _rule(runs.first(c)) == "exact"]
    labels = exact + runs.of_method("mentored")

    def each(of: Callable[[Runs, str], Array]) -> Array:
        return np.stack([of(runs, label) for label in labels], axis=1)

    return _Curve(each(acceptance), each(MEASURES[measure]), each(speed), each(tokens_per_pass))


Ratios = dict[str, Array]


def _ratios(runs: Runs, curve: _Curve, measure: str, label: str) -> Ratios:
    """The three ratios of one setting, for every resample."""
    accepted, spent = acceptance(runs, label), MEASURES[measure](runs, label)
    theirs = curve.at("acceptance", accepted, "divergence")
    known = np.isfinite(spent) & (theirs > _LEAST) & (spent > 0)
    times = np.divide(spent, theirs, out=np.full(len(spent), np.nan), where=known)
    return {
        "times_divergence": times,
        "times_speed": curve.at("divergence", spent, "speed") / speed(runs, label),
        "times_passes": curve.at("divergence", spent, "passes") / tokens_per_pass(runs, label),
    }


def _duel(runs: Runs, rule: str, label: str, measure: str, ratios: Ratios) -> Duel:
    return Duel(
        rule,
        label,
        measure,
        interval(acceptance(runs, label)),
        interval(MEASURES[measure](runs, label)),
        **{name: interval(values) for name, values in ratios.items()},
    )


def _verdict(rule: str, measure: str, ratios: Sequence[Ratios]) -> Verdict:
    means: dict[str, Interval | None] = {}
    compared = 0
    for name in ("times_divergence", "times_speed", "times_passes"):
        known = [own[name] for own in ratios if np.isfinite(own[name][0])]
        if name == "times_divergence":
            compared = len(known)
        means[name] = interval(_geometric(known)) if known else None
    winner = winner_of(means["times_divergence"])
    return Verdict(
        rule, measure, **means, winner=winner, num_settings=compared, num_all=len(ratios)
    )


def _geometric(ratios: Sequence[Array]) -> Array:
    """The geometric mean over settings, for every resample, of those that it knows."""
    logs = np.log(np.stack(ratios))
    known = np.isfinite(logs)
    number = known.sum(0)
    total = np.where(known, logs, 0.0).sum(0)
    mean: Array = np.divide(total, number, out=np.full(len(total), np.nan), where=number > 0)
    return np.exp(mean)


def winner_of(times: Interval | None) -> Winner:
    """Whom a ratio of divergences, the rule's over mentored decoding's, speaks for."""
    if times is None:
        return "none"
    if times.low > 1:
        return "mentored"
    return "rule" if times.high < 1 else "open"
