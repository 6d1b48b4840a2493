from __future__ import annotations

import logging
from typing import Any

import gradio as gr
import pytest

from playground.ui.page import MAX_TEXT, Page, check_payload
from tests.conftest import in_a_loop

CHOICES = {"choices": ["a", "b"]}


@pytest.mark.parametrize(
    ("component", "good", "bad"),
    [
        (gr.Number(), [1, 2.5, None], [True, "1", [1], {}]),
        (gr.Slider(0, 1, 0.5), [0.5], [False, "x", [0.5], None]),
        (gr.Checkbox(), [True, False, None], [1, "true", []]),
        (gr.Textbox(), ["", "x" * MAX_TEXT], [5, ["x"], {}, "x" * (MAX_TEXT + 1)]),
        (gr.Dropdown(**CHOICES), ["a", 5], [["a"], {"a": 1}, "x" * (MAX_TEXT + 1)]),
        (gr.Dropdown(**CHOICES, multiselect=True), [["a", "b"], []], [[["a"]], ["a"] * 101]),
        (gr.Radio(**CHOICES), ["a", None], [["a"], {}]),
        (gr.Radio(**CHOICES, value="a"), ["b"], [None]),
        (gr.Dropdown(**CHOICES, value="a"), ["b"], [None]),
        (gr.CheckboxGroup(**CHOICES), [["a"], []], ["a", [{}], ["a"] * 101]),
    ],
)
def test_a_component_is_given_only_values_of_its_kind(
    component: Any, good: list[Any], bad: list[Any]
) -> None:
    """Case 69: a caller may give any of the page's events anything."""
    for value in good:
        check_payload(component, value)
    for value in bad:
        with pytest.raises(ValueError, match="is not allowed"):
            check_payload(component, value)


def ask(work: Any, *values: Any) -> str:
    """What a caller is told whose event does not work."""
    with Page() as page:
        gr.Button().click(work, gr.Dropdown(["a"]), None, api_visibility="private")
    with pytest.raises(gr.Error) as caught:
        in_a_loop(page.process_api(page.fns[0], list(values)))
    assert not caught.value.print_exception
    return str(caught.value.message)


def test_a_refusal_is_one_escaped_line() -> None:
    def refuse(value: str) -> None:
        raise ValueError("x: <b> is not allowed")

    assert ask(refuse, "a") == "x: &lt;b&gt; is not allowed"
    assert "is not in the list of choices" in ask(refuse, "c")
    assert ask(refuse, {"a": 1}).endswith("use one of its choices.")
    assert ask(refuse, "a", "b").startswith("data: &#x27;2 values&#x27; is not allowed")
    assert ask(refuse).startswith("data: ")


def test_a_fault_is_logged_by_kind_and_place_without_its_words(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(value: str) -> None:
        raise KeyError("a visitor's own words")

    with caplog.at_level(logging.ERROR):
        assert "KeyError" in ask(fail, "a")
    (record,) = caplog.records
    assert "fault in fail: KeyError at test_page.py" in record.getMessage()
    assert "words" not in record.getMessage() and record.exc_info is None
