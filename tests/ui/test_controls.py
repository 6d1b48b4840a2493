from __future__ import annotations

import gradio as gr
import pytest

from playground.arguments import parameters
from playground.ui.controls import collect, control
from playground.ui.strings import ENGLISH, Words


@pytest.mark.parametrize("name", parameters())
def test_a_control_can_be_made_for_every_parameter(name: str) -> None:
    """The controls follow the dataclasses: a new field appears by itself."""
    made = control(name, ENGLISH)
    assert made.component.label
    if name != "eos_token_id":  # the page has no control for it
        assert made.value(made.component.value) == parameters()[name].source.default


def test_kinds_of_controls() -> None:
    kinds = {name: type(control(name, ENGLISH).component) for name in parameters()}
    assert kinds["temperature"] is gr.Number
    assert kinds["early_stopping"] is gr.Dropdown
    assert kinds["keep_support"] is gr.Checkbox
    assert kinds["stop"] is gr.Textbox


def test_values_keep_their_type() -> None:
    stopping = control("early_stopping", ENGLISH)
    assert [stopping.value(v) for v in ("false", "true", "never")] == [False, True, "never"]
    assert stopping.value("maybe") == "maybe"  # left for the check to refuse
    assert [stopping.shown(v) for v in (False, True, "never")] == ["false", "true", "never"]
    stop = control("stop", ENGLISH)
    assert stop.value("a b\n\nc") == ["a b", "c"] and stop.value("") is None
    assert stop.shown(["a b", "c"]) == "a b\nc" and stop.shown(None) == ""


def test_numbers_are_not_clamped_by_the_component() -> None:
    """Case 69: out of range is refused by name, not changed silently."""
    made = control("num_beams", ENGLISH, 4)
    assert made.component.preprocess(1000) == 1000
    assert made.component.value == 4


def test_labels_and_choices_follow_the_language() -> None:
    made = control("proposer", Words("zh"))
    assert made.component.label == "起草者"
    assert ("提示查找", "prompt_lookup") in made.component.choices


def test_collect_pairs_names_with_values() -> None:
    controls = [control(name, ENGLISH) for name in ("temperature", "seed")]
    assert collect(controls, [0.5, None]) == {"temperature": 0.5, "seed": None}
