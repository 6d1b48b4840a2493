from __future__ import annotations

from playground.ui.strings import ENGLISH
from playground.ui.verdict import verdict
from tests.ui.traces import row

DRAFTED = {
    "badge": "lossless",
    "num_drafted": 40,
    "drafted_per_round": 4.0,
    "tokens_per_round": 2.0,
    "acceptance_rate": 0.25,
    "draft_cost": 0.2,
    "total_s": 1.1,
}


def test_says_why_speculation_lost() -> None:
    """Case 88."""
    rows = [row("sample"), row("speculative", "speculative", speedup=0.8, **DRAFTED)]
    said = verdict(rows, "sample", ENGLISH)
    assert said.startswith("Speculation lost here: 0.800×")
    # ten rounds in one second are 100 ms each, two plain tokens' time
    for part in ("25.0 % accepted", "0.200 of a target pass", "2.00 tokens", "2.00 plain"):
        assert part in said


def test_says_that_it_paid_and_what_a_budget_bought() -> None:
    lossy = DRAFTED | {"badge": "lossy", "mean_budget_divergence": 0.11}
    rows = [
        row("sample"),
        row("speculative", "speculative", speedup=1.3, **DRAFTED),
        row("mentored", "mentored", speedup=1.6, **lossy),
    ]
    said = verdict(rows, "sample", ENGLISH)
    assert said.startswith("Speculation paid here: 1.30×")
    assert "Mentored reached 1.60×" in said and "0.110 nats a token" in said


def test_within_noise_is_no_difference() -> None:
    rows = [row("sample"), row("speculative", "speculative", speedup=1.01, **DRAFTED)]
    assert verdict(rows, "sample", ENGLISH).startswith("Speculation made no difference")


def test_says_when_there_is_nothing_to_judge() -> None:
    assert "One run alone" in verdict([row("sample")], "sample", ENGLISH)
    assert "No speculative run" in verdict(
        [row("sample"), row("greedy", "greedy")], "sample", ENGLISH
    )
