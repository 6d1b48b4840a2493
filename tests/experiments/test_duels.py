"""Every lossy rule against mentored decoding, on rows whose outcome is known."""

from __future__ import annotations

from typing import Any

import pytest

from playground.experiments.duels import duels, winner_of
from playground.quality import Interval
from tests.experiments.rows import row

# Mentored decoding: KL spent, accepted of 100 tested, seconds, by budget; D 0 is the exact rule.
MENTORED = {0.0: (0.0, 50, 1.0), 0.1: (0.1, 60, 0.8), 0.2: (0.2, 70, 0.6)}


def run(label: str, prompt: str, method: str, params: Any, spent: Any) -> dict[str, Any]:
    divergence, accepted, seconds = spent
    return row(
        label,
        prompt,
        method,
        params,
        mean_divergence=divergence,
        mean_reverse_divergence=divergence,
        num_tested=100,
        num_accepted=accepted,
        total_s=seconds,
    )


def rows(**rivals: tuple[float | None, int, float]) -> list[dict[str, Any]]:
    """Mentored decoding and one setting of each rival: KL, accepted, seconds."""
    made = []
    for prompt in "abcdefgh":
        for budget, spent in MENTORED.items():
            if budget:
                params: dict[str, Any] = {"divergence_budget": budget}
                made.append(run(f"mentored {budget}", prompt, "mentored", params, spent))
            else:
                made.append(run("exact", prompt, "speculative", {"verifier": "exact"}, spent))
        made.append(row("sample", prompt, "sample", num_tested=0))
        for rule, own in rivals.items():
            made.append(run(rule, prompt, "speculative", {"verifier": rule}, own))
    return made


def test_equal_acceptance_and_equal_divergence_are_read_off_the_line() -> None:
    """At 65 % mentored decoding spends 0.15; 0.18 nats lie 0.8 of the way from D 0.1 to 0.2."""
    (found, _), (verdict, _) = duels(rows(lenience=(0.18, 65, 0.8)))
    assert (found.rule, found.label, found.measure) == ("lenience", "lenience", "kl")
    assert found.acceptance == Interval(0.65, 0.65, 0.65)
    assert found.times_divergence and found.times_divergence.value == pytest.approx(0.18 / 0.15)
    speeds = (10 / 0.8, 10 / 0.6)  # on the line between speeds, not between seconds
    at = speeds[0] + 0.8 * (speeds[1] - speeds[0])
    assert found.times_speed and found.times_speed.value == pytest.approx(at / (10 / 0.8))
    assert found.times_passes and found.times_passes.value == pytest.approx(1.0)
    assert verdict.winner == "mentored" and (verdict.num_settings, verdict.num_all) == (1, 1)


def test_a_rule_may_win_and_is_said_to() -> None:
    _, verdicts = duels(rows(cactus=(0.12, 65, 0.8)))
    assert {v.winner for v in verdicts} == {"rule"}
    assert winner_of(Interval(1.1, 0.9, 1.3)) == "open"


def test_an_infinite_divergence_cannot_be_compared() -> None:
    """In KL(target‖output); in the other direction it is finite, and is."""
    made = rows(top_k=(None, 65, 0.8))
    for one in made:
        if one["label"] == "top_k":
            one["mean_reverse_divergence"] = 0.3
    found, verdicts = duels(made)
    by_measure = {d.measure: d for d in found}
    assert by_measure["kl"].divergence is None is by_measure["kl"].times_divergence
    assert by_measure["reverse_kl"].times_divergence is not None
    assert [(v.measure, v.winner) for v in verdicts] == [
        ("kl", "none"),
        ("reverse_kl", "mentored"),
    ]


def test_outside_of_what_mentored_decoding_reaches_nothing_is_said() -> None:
    (found, _), (verdict, _) = duels(rows(typical=(0.5, 40, 0.8)))
    assert found.times_divergence is None is found.times_speed
    assert verdict.winner == "none" and (verdict.num_settings, verdict.num_all) == (0, 1)


def test_exact_rules_do_not_duel() -> None:
    assert duels(rows(block=(0.0, 52, 1.0))) == ([], [])
