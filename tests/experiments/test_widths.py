"""Beam widths and exact search in numbers, on made-up rows."""

from __future__ import annotations

from typing import Any

import pytest

from playground.experiments.widths import points
from tests.experiments.rows import row

ANSWERS = {str(i): "one two three four five six" for i in range(8)}


def rows() -> list[dict[str, Any]]:
    """Width 2 is right, width 4 short in half of the texts; exact search finds nothing at all, and
    proves it for all but one."""
    made = []
    for i, (prompt, answer) in enumerate(ANSWERS.items()):
        for width, text in ((2, answer), (4, "one two three four" if i % 2 else answer)):
            params = {"num_beams": width, "length_norm": "none"}
            made.append(row(f"beam {width}", prompt, "beam", params, text=text))
        made.append(
            row(
                "exact",
                prompt,
                "exact",
                {"max_nodes": 9},
                text="" if i else answer,
                proven=i > 0,
                num_new_tokens=1,
                target_logprob=-8.0,
            )
        )
    return made


def test_points_of_all_searches() -> None:
    two, four, exact = points(rows(), ANSWERS)
    assert (two.width, four.width, exact.width) == (2, 4, None)
    assert two.norm == exact.norm == "none" and two.num_outputs == 8
    assert two.bleu and two.bleu.value == pytest.approx(100) and two.length_ratio == 1
    assert two.bleu_change and two.bleu_change.value == 0
    assert four.bleu_change and four.bleu_change.high < 0  # paired with width 2
    assert four.length_ratio == pytest.approx(5 / 6)
    assert two.mean_tokens and two.mean_tokens.value == 10
    assert two.mean_logprob and two.mean_logprob.value == -10
    assert exact.mean_logprob and exact.mean_logprob.value == -8


def test_empty_proven_and_missed() -> None:
    two, _, exact = points(rows(), ANSWERS)
    assert exact.empty and exact.empty.value == pytest.approx(7 / 8)
    assert exact.proven and exact.proven.value == pytest.approx(7 / 8) and exact.misses is None
    assert two.proven is None and two.empty and two.empty.value == 0
    assert two.misses and two.misses.value == 1  # of the seven that are proven


def test_outputs_that_the_limit_ended() -> None:
    made = [r | {"finish_reason": "length"} if r["label"] == "beam 4" else r for r in rows()]
    _, four, _ = points(made, ANSWERS)
    assert four.cut and four.cut.value == 1
