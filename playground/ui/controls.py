"""Controls from parameter fields: their metadata gives label, help, range and choices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from playground.arguments import parameters
from playground.ui.strings import Words


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

    def shown(self, value: Any) -> Any:
        """The component's value from the parameter's."""
        if self.choices:
            return choice_label(value)
        if self.name == "stop":
            return "\n".join([value] if isinstance(value, str) else value or [])
        return value


def control(name: str, say: Words, value: Any = None, *, shown: bool = True) -> Control:
    """The control of one parameter; `value` replaces the field's default as its start. One that is
    not shown is hidden only, so that its value can be read and set all the same.

    Numbers carry no bounds of their own: a value out of range is refused on the server, in the
    library's words, instead of being changed or refused silently.
    """
    field = parameters()[name].source
    meta = field.metadata
    start: Any = field.default if value is None else value
    common: dict[str, Any] = {
        "label": label_of(name, say),
        "info": say.known(f"param.{name}.help", meta.get("help") or ""),
        "elem_id": f"param-{name}",
        "min_width": 120,
        "visible": True if shown else "hidden",
    }
    if name == "stop":
        common |= {"label": say("stop.lines"), "info": say("stop.lines.help")}
        return Control(name, gr.Textbox(value="", lines=2, max_lines=4, **common))
    if meta["kind"] == "bool":
        return Control(name, gr.Checkbox(value=bool(start), **common))
    if meta.get("choices"):
        labels = [(choice_name(name, c, say), choice_label(c)) for c in meta["choices"]]
        box = gr.Dropdown(labels, value=choice_label(start), **common)
        return Control(name, box, tuple(meta["choices"]))
    return Control(name, gr.Number(value=start, step=meta.get("step") or 1, **common))


def label_of(name: str, say: Words) -> str:
    """What stands above a field: a parameter's label, or that of what a comparison asks besides."""
    found = parameters().get(name)
    if found is None:
        return say.known(f"{name}.label", name)
    return say.known(f"param.{name}", found.source.metadata.get("label") or name)


def choice_name(name: str, choice: Any, say: Words) -> str:
    """A choice as a reader meets it; rules and proposers have names of their own."""
    return say.known(f"{name}.{choice_label(choice)}", choice_label(choice).replace("_", " "))


def choice_label(choice: Any) -> str:
    """A choice as text: true and false as JSON and the help texts write them."""
    return str(choice).lower() if isinstance(choice, bool) else str(choice)


def collect(controls: Sequence[Control], values: Sequence[Any]) -> dict[str, Any]:
    """Parameters by name from the components' values, in the order of the controls."""
    pairs = zip(controls, values, strict=True)
    return {control.name: control.value(value) for control, value in pairs}
