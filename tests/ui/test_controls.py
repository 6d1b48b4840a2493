from __future__ import annotations

import gradio as gr
import pytest

from playground.compare import DEFAULT_RUNS
from playground.methods import METHODS, fields_of
from playground.ui.controls import collect, control, fields_for

FIELDS = fields_for(list(DEFAULT_RUNS))


def test_every_parameter_has_a_control() -> None:
    """The controls follow the dataclasses: a new field appears by itself."""
    known = {f.name for method in DEFAULT_RUNS for f in fields_of(method, {})}
    assert known - set(FIELDS) == {"eos_token_id", "num_return_sequences", "verifier"}


@pytest.mark.parametrize("method", METHODS)
def test_a_control_can_be_made_for_every_field(method: str) -> None:
    for field in fields_for([method]).values():
        made = control(field)
        assert made.component.label
        assert made.value(made.component.value) == field.default, field.name


def test_kinds_of_controls() -> None:
    kinds = {name: type(control(field).component) for name, field in FIELDS.items()}
    assert kinds["temperature"] is gr.Number
    assert kinds["early_stopping"] is gr.Dropdown
    assert kinds["keep_support"] is gr.Checkbox
    assert kinds["stop"] is gr.Textbox


def test_values_keep_their_type() -> None:
    stopping = control(FIELDS["early_stopping"])
    assert [stopping.value(v) for v in ("false", "true", "never")] == [False, True, "never"]
    assert stopping.value("maybe") == "maybe"  # left for the check to refuse
    stop = control(FIELDS["stop"])
    assert stop.value("a b\n\nc") == ["a b", "c"] and stop.value("") is None


def test_numbers_are_not_clamped_by_the_component() -> None:
    """Case 69: out of range is refused by name, not changed silently."""
    made = control(FIELDS["num_beams"], 4)
    assert made.component.preprocess(1000) == 1000
    assert made.component.value == 4


def test_collect_pairs_names_with_values() -> None:
    controls = [control(FIELDS[name]) for name in ("temperature", "seed")]
    assert collect(controls, [0.5, None]) == {"temperature": 0.5, "seed": None}
