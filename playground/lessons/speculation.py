"""Speculative decoding: tokens per round, speed-up, the best draft length, overlapping laws."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from playground.axes import has
from playground.metrics import expected_speedup, expected_tokens_per_round

MAX_DRAFT = 32


@dataclass(frozen=True, slots=True)
class SpeedPoint:
    """What the formula says at one draft length γ; 0 is decoding without a draft."""

    num_draft_tokens: int
    tokens_per_round: float
    speedup: float


def speed_curve(
    acceptance: float, draft_cost: float, max_draft: int = MAX_DRAFT
) -> tuple[SpeedPoint, ...]:
    """The formula over γ = 0 … max_draft at acceptance α and c = draft step / target pass."""
    return tuple(
        SpeedPoint(
            gamma,
            expected_tokens_per_round(acceptance, gamma),
            expected_speedup(acceptance, gamma, draft_cost),
        )
        for gamma in range(max_draft + 1)
    )


def best_draft(acceptance: float, draft_cost: float, max_draft: int = MAX_DRAFT) -> SpeedPoint:
    """The γ of the largest speed-up, the smallest of equal ones: 0 unless α exceeds c."""
    return max(speed_curve(acceptance, draft_cost, max_draft), key=lambda point: point.speedup)


@dataclass(frozen=True, slots=True)
class MeasuredPoint:
    """A run beside the formula at its own acceptance, draft length and draft cost.

    acceptance: accepted / tested; num_draft_tokens: the γ that was asked for. predicted: the
    formula's speed-up; speedup: the measured one, None without a baseline.
    """

    label: str
    method: str
    acceptance: float
    num_draft_tokens: int
    draft_cost: float
    tokens_per_round: float
    expected_tokens_per_round: float
    speedup: float | None
    predicted: float


def measured_points(rows: Sequence[Mapping[str, Any]]) -> tuple[MeasuredPoint, ...]:
    """Those of `Comparison.rows()` that drafted anything."""
    return tuple(point for row in rows if (point := _measured(row)) is not None)


def _measured(row: Mapping[str, Any]) -> MeasuredPoint | None:
    gamma = (row.get("params") or {}).get("num_draft_tokens")
    if gamma is None or not has(row, "tested_acceptance_rate", "draft_cost", "tokens_per_round"):
        return None
    alpha, cost = float(row["tested_acceptance_rate"]), float(row["draft_cost"])
    return MeasuredPoint(
        label=str(row["label"]),
        method=str(row["method"]),
        acceptance=alpha,
        num_draft_tokens=int(gamma),
        draft_cost=cost,
        tokens_per_round=float(row["tokens_per_round"]),
        expected_tokens_per_round=expected_tokens_per_round(alpha, int(gamma)),
        speedup=row.get("speedup"),
        predicted=expected_speedup(alpha, int(gamma), cost),
    )


def pooled(
    rows: Sequence[Mapping[str, Any]], speedups: Mapping[str, float | None]
) -> tuple[dict[str, Any], ...]:
    """The rows of a sweep, a line a run, as one row a configuration for `measured_points`.

    speedups: of the configurations, by label; those without one are left out. Accepted and tested
    tokens are summed over the runs before they are divided, tokens a round over their rounds; the
    draft's cost is the median of the runs'.
    """
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        if has(row, "draft_cost", "num_tested") and speedups.get(row["label"]) is not None:
            found.setdefault(row["label"], []).append(row)
    return tuple(
        {
            "label": label,
            "method": runs[0]["method"],
            "params": runs[0]["params"],
            "speedup": speedups[label],
            "draft_cost": statistics.median(run["draft_cost"] for run in runs),
            **_pooled_counts(runs),
        }
        for label, runs in found.items()
    )


def _pooled_counts(runs: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    rounds = [run["num_drafted"] / run["drafted_per_round"] for run in runs]
    tokens = [run["tokens_per_round"] * count for run, count in zip(runs, rounds, strict=True)]
    accepted, tested = (sum(run[name] for run in runs) for name in ("num_accepted", "num_tested"))
    return {
        "tested_acceptance_rate": accepted / tested if tested else None,
        "tokens_per_round": sum(tokens) / sum(rounds),
    }


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two laws [V] as bars over each other.

    shared: min(p, q) of each token, what is accepted; rejected: what the draft has too much;
    corrected: what it has too little, and the residual fills up.
    """

    target: tuple[float, ...]
    draft: tuple[float, ...]
    shared: tuple[float, ...]
    rejected: tuple[float, ...]
    corrected: tuple[float, ...]

    @property
    def acceptance(self) -> float:
        """Σ min(p, q)."""
        return math.fsum(self.shared)

    @property
    def total_variation(self) -> float:
        """TV = ½ Σ |p − q|: the mass that is rejected, and that is put back."""
        return math.fsum(abs(q - p) for q, p in zip(self.target, self.draft, strict=True)) / 2


def overlap(target: Sequence[float], draft: Sequence[float]) -> Overlap:
    """The bars of two laws over one vocabulary."""
    pairs = list(zip(target, draft, strict=True))
    return Overlap(
        target=tuple(target),
        draft=tuple(draft),
        shared=tuple(min(q, p) for q, p in pairs),
        rejected=tuple(max(0.0, p - q) for q, p in pairs),
        corrected=tuple(max(0.0, q - p) for q, p in pairs),
    )


@dataclass(frozen=True, slots=True)
class Draws:
    """How far the emitted tokens' shares are from the target's law after `count` draws.

    distance: TV of shares and law; chance: what it is on average if the law is the target's own.
    """

    count: int
    distance: float
    chance: float


@dataclass(frozen=True, slots=True)
class Simulation:
    """Draws of one rule. shares [V]: of all emitted tokens; accepted: share of drafts that were.

    floor: TV of the rule's own output law and the target's, to which the distance falls: 0 for an
    exact rule.
    """

    rule: str
    draws: tuple[Draws, ...]
    shares: tuple[float, ...]
    accepted: float
    floor: float


def chance_distance(law: Sequence[float], count: int) -> float:
    """Mean TV of a law and the shares of `count` draws from it, for large counts:
    ½ Σ √(2 q(1−q) / (π n))."""
    return math.fsum(math.sqrt(2 * q * (1 - q) / (math.pi * count)) for q in law) / 2


def checkpoints(count: int, per_decade: int = 6) -> tuple[int, ...]:
    """Counts from 10 to `count`, evenly spaced on a logarithmic scale."""
    decades = math.log10(count / 10)
    number = max(1, round(decades * per_decade))
    return tuple(sorted({round(10 * 10 ** (decades * i / number)) for i in range(number + 1)}))
