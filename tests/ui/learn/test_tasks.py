"""Lesson 10: its answer follows the numbers, whatever they are."""

from __future__ import annotations

import pytest

from playground.experiments import findings
from playground.lessons.tasks import BROAD, NARROW, Contrast, TaskGain, contrast_of
from playground.quality import Interval
from playground.ui.learn.tasks import answer_text, gains_html
from playground.ui.strings import LANGUAGES, Words

EN = Words("en")


def at(value: float, half: float = 0.01) -> Interval:
    return Interval(value, value - half, value + half)


def gains() -> list[TaskGain]:
    """Story gains most, code least; facts have right answers."""
    return [
        TaskGain(
            task=kind,
            num_prompts=24,
            budget=0.2,
            acceptance=at(0.4),
            mentored_acceptance=at(0.4 + more),
            accepted_more=at(more),
            gain=at(1.3),
            divergence=at(0.15 + more / 10),
            per_nat=at(1.0),
            logprob_change=at(-0.3),
            surprisal=at(2.0),
            right=at(0.5) if kind == "fact" else None,
            mentored_right=at(0.25) if kind == "fact" else None,
        )
        for kind, more in zip((*BROAD, *NARROW), (0.2, 0.25, 0.3, 0.15, 0.12, 0.1), strict=True)
    ]


def contrasts(more: Interval, per_nat: Interval) -> list[Contrast]:
    return [contrast_of(0.2, "accepted_more", more), contrast_of(0.2, "per_nat", per_nat)]


def test_the_articles_expectation_holds() -> None:
    text = answer_text(0.2, gains(), contrasts(at(0.12, 0.05), at(-0.5, 0.2)), EN)
    assert "many valid answers gain **12.0** points of acceptance more [7.00, 17.0]" in text
    assert "kinds with few valid answers get 50.0 points more [30.0, 70.0]" in text
    assert "Most gains **open story** (+30.0 points), least code (+10.0)" in text
    assert "Spent are 0.160 to 0.180 nats a token, on average, of the 0.2" in text
    assert "short fact 50.0 % → 25.0 %" in text


def test_or_does_not() -> None:
    text = answer_text(0.2, gains(), contrasts(at(-0.12, 0.05), at(0.0, 0.2)), EN)
    assert "few valid answers gain **12.0** points of acceptance more [7.00, 17.0]: not" in text
    assert "may be chance" in text


def test_or_is_undecided() -> None:
    text = answer_text(0.2, gains(), contrasts(at(0.02, 0.05), at(0.1, 0.05)), EN)
    assert "**undecided**" in text and "2.00 points of acceptance [−3.00, 7.00]" in text


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_kind_has_its_row_and_name(language: str) -> None:
    found = gains_html(0.2, gains(), Words(language))
    assert found.count("<tr") == 7
    assert Words(language)("tasks.kind.story") in found and "30.0 [29.0, 31.0]" in found


def test_what_ships_can_be_told() -> None:
    found = findings("tasks")
    for language in LANGUAGES:
        for budget in dict.fromkeys(gain.budget for gain in found["gains"]):
            assert answer_text(budget, found["gains"], found["contrasts"], Words(language))
