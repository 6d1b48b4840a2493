"""Controls from parameter fields: their metadata gives label, help, range and choices."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from playground.methods import fields_of
from playground.ui.strings import say

Field = dataclasses.Field[Any]

# Fields without a control: their value is a token id, or they change nothing that the page shows.
_HIDDEN = {"eos_token_id", "num_return_sequences", "verifier"}


@dataclass(frozen=True, slots=True)
class Control:
    """A component and the parameter that its value stands for."""

    name: str
    component: Any
    choices: tuple[Any, ...] = ()

    def value(self, given: Any) -> Any:
        """The parameter's value from the component's. Ranges are checked later, with all others."""
        if self.choices:
            named = {choice_label(choice): choice for choice in self.choices}
            return named.get(given, given)
        if self.name == "stop":
            return [line for line in str(given or "").splitlines() if line] or None
        return given


def fields_for(methods: Sequence[str]) -> dict[str, Field]:
    """Every parameter of these methods by name, the first owner's field where several have it."""
    found: dict[str, Field] = {}
    for method in methods:
        for field in fields_of(method, {}):
            if field.name not in _HIDDEN:
                found.setdefault(field.name, field)
    return found


def control(field: Field, value: Any = None) -> Control:
    """The control of one parameter; `value` replaces the field's default as its start.

    Numbers carry no bounds of their own: a value out of range is refused on the server, in the
    library's words, instead of being changed or refused silently.
    """
    meta = field.metadata
    start: Any = field.default if value is None else value
    common: dict[str, Any] = {
        "label": meta.get("label") or field.name,
        "info": meta.get("help"),
        "elem_id": f"param-{field.name}",
        "min_width": 120,
    }
    if field.name == "stop":
        common |= {"label": say("stop.lines"), "info": say("stop.lines.help")}
        return Control(field.name, gr.Textbox(value="", lines=2, max_lines=4, **common))
    if meta["kind"] == "bool":
        return Control(field.name, gr.Checkbox(value=bool(start), **common))
    if meta.get("choices"):
        labels = [choice_label(choice) for choice in meta["choices"]]
        box = gr.Dropdown(labels, value=choice_label(start), **common)
        return Control(field.name, box, tuple(meta["choices"]))
    return Control(field.name, gr.Number(value=start, step=meta.get("step") or 1, **common))


def choice_label(choice: Any) -> str:
    """A choice as text: true and false as JSON and the help texts write them."""
    return str(choice).lower() if isinstance(choice, bool) else str(choice)


def collect(controls: Sequence[Control], values: Sequence[Any]) -> dict[str, Any]:
    """Parameters by name from the components' values, in the order of the controls."""
    pairs = zip(controls, values, strict=True)
    return {control.name: control.value(value) for control, value in pairs}
