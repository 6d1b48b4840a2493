"""Which tasks gain, on rows whose outcome is known; and the prompts that ship."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from playground.datasets import embedded, load_dataset
from playground.experiments.gains import gains
from playground.lessons.tasks import BROAD, NARROW, contrast_of
from playground.quality import Interval
from tests.experiments.rows import row


def rows(broad: int = 8, narrow: int = 6) -> list[dict[str, Any]]:
    """Accepted of 10 tested at D 0.2, where the exact rule accepts 5."""
    made = []
    for kind in (*BROAD, *NARROW):
        for i in range(6):
            prompt = f"{kind}-{i}"
            accepted = broad if kind in BROAD else narrow
            text = "it is 42" if i % 2 else "no idea"
            made.append(row("sample", prompt, "sample", kind=kind, target_logprob=-2.0))
            made.append(row("exact", prompt, "speculative", kind=kind, text="it is 42"))
            made.append(
                row(
                    "mentored",
                    prompt,
                    "mentored",
                    {"divergence_budget": 0.2},
                    kind=kind,
                    text=text,
                    num_accepted=accepted,
                    num_target_passes=4,
                    mean_divergence=0.1,
                    target_logprob=-1.25,
                )
            )
    return made


def test_gain_and_loss_of_a_kind() -> None:
    found, _ = gains(rows(), {"fact-0": ["42", "forty-two"], "fact-1": ["42"]})
    gain = next(g for g in found if g.task == "fact")
    assert (gain.budget, gain.num_prompts) == (0.2, 6)
    assert gain.acceptance.value == 0.5 and gain.mentored_acceptance.value == 0.6
    assert gain.accepted_more.value == pytest.approx(0.1) and gain.gain.value == 1.25
    assert gain.divergence.value == pytest.approx(0.1)
    assert gain.per_nat and gain.per_nat.value == pytest.approx(1.0)
    assert gain.logprob_change and gain.logprob_change.value == -0.25
    assert gain.surprisal and gain.surprisal.value == 2.0
    assert gain.right and gain.right.value == 1.0
    assert gain.mentored_right and gain.mentored_right.value == 0.5
    assert next(g for g in found if g.task == "story").right is None


@pytest.mark.parametrize(
    ("broad", "narrow", "answer"), [(8, 6, "broad"), (6, 8, "narrow"), (7, 7, "open")]
)
def test_the_contrast_says_who_gains_more(broad: int, narrow: int, answer: str) -> None:
    _, contrasts = gains(rows(broad, narrow), {})
    found = {c.measure: c for c in contrasts}
    assert found["accepted_more"].answer == answer == found["per_nat"].answer
    assert found["gain"].answer == "open"  # passes are the same in all
    difference = found["accepted_more"].difference
    assert difference and difference.value == pytest.approx((broad - narrow) / 10)


def test_an_interval_that_holds_0_decides_nothing() -> None:
    assert contrast_of(0.1, "gain", Interval(0.1, -0.1, 0.3)).answer == "open"
    assert contrast_of(0.1, "gain", Interval(-0.2, -0.3, -0.1)).answer == "narrow"
    assert contrast_of(0.1, "gain", None).answer == "open"


def test_without_one_side_there_is_no_contrast() -> None:
    _, contrasts = gains([r for r in rows() if r["kind"] in BROAD], {})
    assert {c.difference for c in contrasts} == {None}


def test_the_shipped_prompts_are_of_six_kinds() -> None:
    found = load_dataset("tasks").examples
    assert Counter(e.kind for e in found) == dict.fromkeys((*BROAD, *NARROW), 24)
    assert len({e.prompt.casefold() for e in found}) == len({e.id for e in found}) == 144
    records = [json.loads(line) for line in embedded()["tasks"].path.read_text().splitlines()]
    answered = {r["kind"] for r in records if r.get("answer")}
    assert answered == {"fact", "arithmetic"}
    assert all(isinstance(r["answer"], list) for r in records if r["kind"] in answered)
