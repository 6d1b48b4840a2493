"""What the Token lab tab does on its events, called as Gradio calls it."""

from __future__ import annotations

import dataclasses
from typing import Any

import gradio as gr
import pytest

from playground.compare import Comparison
from playground.types import Token
from playground.ui.lab import PRESETS
from playground.ui.results import Shown
from playground.ui.strings import LANGUAGES, Words
from playground.ui.tabs.token_lab import TokenLab
from tests.ui import traces
from tests.ui.test_lab import TESTED

BOUGHT = dataclasses.replace(
    TESTED, token_id=8, source="accepted", u=0.45, accept_prob=0.6, exact_accept_prob=0.4
)


def make(language: str = "en") -> TokenLab:
    with gr.Blocks(), gr.Tabs(), gr.Tab("lab") as tab:
        return TokenLab(tab, gr.State(None), Words(language))


def shown(**runs: tuple[Token, ...]) -> Shown:
    results = {
        label: dataclasses.replace(traces.result(label, **own), tokens=tokens)
        for label, tokens in runs.items()
        for own in [{"divergence_budget": 0.3} if label == "mentored" else {}]
    }
    return Shown(Comparison("p", results, {k: [1.0] for k in results}, next(iter(results))), {})


def value(update: dict[Any, Any], part: Any) -> Any:
    found = update[part]
    return found["value"] if isinstance(found, dict) else found


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_comparison_opens_at_a_token_that_the_budget_bought(language: str) -> None:
    lab = make(language)
    plain = traces.TOKENS[0]
    update = lab.show(shown(sample=(plain,), mentored=(plain, TESTED, BOUGHT)))
    assert value(update, lab._run) == "mentored"
    assert value(update, lab._position) == 3
    assert value(update, lab._budget) == 0.3
    assert update[lab._source] == "run" and update[lab._of_run]["visible"]
    assert set(update) <= set(lab.outputs())


def test_without_a_verified_token_typed_laws_stay() -> None:
    lab = make()
    for nothing in (None, shown(sample=(traces.TOKENS[0],))):
        update = lab.show(nothing)
        assert update[lab._source] == "own" and update[lab._own]["visible"]
        assert lab._bars not in update


class TestEvents:
    def inputs(self, lab: TokenLab, **own: Any) -> list[Any]:
        values = {
            "shown": shown(mentored=(traces.TOKENS[0], TESTED, BOUGHT)),
            "source": "run",
            "run": "mentored",
            "position": 2,
            "typed": PRESETS["article"],
            "budget": 0.2,
            "divergence": "kl",
            "keep": True,
        }
        return list((values | own).values())

    def test_bad_laws_get_one_line_and_change_nothing_else(self) -> None:
        lab = make()
        update = lab._redraw(*self.inputs(lab, source="own", typed="<b>a</b> 0.5 x"))
        assert list(update) == [lab._error]
        assert "Line 1: ‘x’" in update[lab._error] and "<b>" not in update[lab._error]

    def test_the_range_of_the_budget_rests_while_it_moves(self) -> None:
        lab = make()
        assert lab._budget not in lab._draw(*self.inputs(lab))
        assert lab._redraw(*self.inputs(lab))[lab._budget]["maximum"] >= 0.2

    def test_arrows_walk_and_stop_at_the_ends(self) -> None:
        lab = make()
        assert lab._on(*self.inputs(lab))[lab._position] == 3
        assert lab._on(*self.inputs(lab, position=3))[lab._position] == 3
        assert lab._back(*self.inputs(lab, position=1))[lab._position] == 1

    def test_a_position_without_a_draft_shows_the_target(self) -> None:
        lab = make()
        update = lab._redraw(*self.inputs(lab, position=1))
        assert update[lab._curve]["visible"] is False and update[lab._numbers] == ""
        assert len(update[lab._bars].data) == 1

    @pytest.mark.parametrize(
        "own", [{"shown": None}, {"run": None}, {"run": "gone"}, {"shown": None, "run": None}]
    )
    def test_no_run_is_said(self, own: dict[str, Any]) -> None:
        lab = make()
        assert "No run" in lab._redraw(*self.inputs(lab, **own))[lab._error]

    def test_a_position_of_another_run_is_the_last_one(self) -> None:
        lab = make()
        assert "Drafted" in lab._redraw(*self.inputs(lab, position=99))[lab._text]

    @pytest.mark.parametrize("preset", PRESETS)
    def test_a_preset_is_typed_and_drawn(self, preset: str) -> None:
        lab = make()
        update = lab._take(preset, *self.inputs(lab, source="own", typed="lost"))
        assert update[lab._typed] == PRESETS[preset] and lab._bars in update

    def test_the_source_is_switched(self) -> None:
        lab = make()
        update = lab._switch(*self.inputs(lab, source="own"))
        assert update[lab._own]["visible"] and not update[lab._of_run]["visible"]
        assert update[lab._error] == ""
