"""What a visitor fills in: prompt, pair, settings, runs; its components and what they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from playground.catalog import page_pairs
from playground.compare import MAX_REFERENCE
from playground.ui.cards import title_of
from playground.ui.controls import Control, collect, control
from playground.ui.examples import examples_of
from playground.ui.markup import markup
from playground.ui.runs import (
    COMMON,
    OWN,
    Run,
    Runs,
    own_fields,
    presets,
    proposers_of,
    shared_names,
)
from playground.ui.setup import Setup
from playground.ui.strings import Words

Update = dict[Any, Any]  # component -> its new value

_MAIN = ("max_new_tokens", "temperature", "seed")  # beside the prompt; the rest is folded away


@dataclass(frozen=True, slots=True)
class Form:
    """The components. `runs` is the state behind names, edited, label and own."""

    say: Words
    prompt: gr.Textbox
    examples: gr.Dataset
    pair: gr.Dropdown
    pair_status: gr.HTML
    common: list[Control]
    repeats: gr.Number
    raw: gr.Checkbox
    reference: gr.Textbox
    runs: gr.State
    names: gr.CheckboxGroup
    run: gr.Button
    stop: gr.Button
    edited: gr.Dropdown
    own: list[Control]
    label: gr.Textbox
    duplicate: gr.Button
    remove: gr.Button
    add: gr.Dropdown

    def inputs(self) -> list[Any]:
        """The components that `read` wants the values of, in its order."""
        own = [c.component for c in (*self.common, *self.own)]
        chosen = [self.prompt, self.pair, self.repeats, self.raw, self.reference]
        return [self.runs, self.names, *chosen, *own]

    def read(self, values: Sequence[Any]) -> tuple[Setup, Runs]:
        """What the components say, whatever event was last to reach the server."""
        runs, names, prompt, pair, repeats, raw, reference, *rest = values
        common = collect(self.common, rest[: len(COMMON)])
        runs = runs.set(collect(self.own, rest[len(COMMON) :])).tick(names)
        return Setup(prompt, pair, runs.chosen(), common, repeats, raw, reference), runs

    def show(self, setup: Setup) -> Update:
        """Everything as the setup has it."""
        return {
            self.prompt: setup.prompt,
            self.pair: setup.pair,
            self.repeats: setup.repeats,
            self.raw: setup.raw,
            self.reference: setup.reference,
            self.examples: gr.update(**examples(setup.pair, self.say)),
            **self.show_runs(Runs.of(setup.runs, setup.pair), setup.common),
            **self.offers(setup.pair),
        }

    def offers(self, pair: str) -> Update:
        """What can be added to the runs of a pair."""
        return {
            self.add: gr.update(choices=list(presets(self.say, proposers_of(pair))), value=None)
        }

    def show_runs(self, runs: Runs, common: Run | None = None) -> Update:
        """The runs, the edited one's own settings, and those common settings that any of the runs
        has; with the values of `common` where it is given."""
        update = self.show_names(runs) | {self.add: None}
        shared = shared_names(runs.chosen())
        update |= _updates(self.common, shared, common or {})
        values = own_values(runs.edited)
        return update | _updates(self.own, set(values), values)

    def show_names(self, runs: Runs) -> Update:
        """The runs by name; a control that somebody types into at this moment is left alone."""
        titles = titles_of(runs, self.say)
        return {
            self.runs: runs,
            self.names: gr.update(choices=titles, value=list(runs.ticked)),
            self.edited: gr.update(choices=titles, value=runs.editing),
            self.label: runs.editing,
        }

    def outputs(self) -> list[Any]:
        """Every component that `show` may write to."""
        own = [self.prompt, self.examples, self.pair, self.repeats, self.raw, self.reference]
        return [*own, *self.run_outputs()]

    def run_outputs(self) -> list[Any]:
        """Every component that `show_runs` may write to."""
        controls = [c.component for c in (*self.common, *self.own)]
        return [self.runs, self.names, self.edited, self.label, self.add, *controls]


def own_values(run: Run | None) -> dict[str, Any]:
    """The values of a run's own settings, defaults included."""
    return {f.name: run.get(f.name, f.default) for f in own_fields(run)} if run else {}


def titles_of(runs: Runs, say: Words) -> list[tuple[str, str]]:
    """(shown, label) of every run."""
    return [(title_of(label, run, say), label) for label, run in runs.known.items()]


def examples(pair: str, say: Words) -> dict[str, Any]:
    """The examples that suit a pair, as properties of a dataset."""
    texts = examples_of(pair)
    return {
        "samples": [[text] for text in texts.values()],
        "sample_labels": [say.known(f"example.{name}", name) for name in texts],
    }


def _updates(controls: list[Control], shown: set[str], values: Run) -> Update:
    """Controls shown or hidden, with new values where there are some."""
    return {
        c.component: gr.update(
            visible=_visible(c.name in shown),
            **({"value": c.shown(values[c.name])} if c.name in values else {}),
        )
        for c in controls
    }


def _visible(shown: bool) -> Any:
    """Hidden components stay in the page, so that their values can be read and set."""
    return True if shown else "hidden"


def make_form(setup: Setup, say: Words) -> Form:
    """Lay the components out in the current Blocks."""
    runs = Runs.of(setup.runs, setup.pair)
    with gr.Row(elem_id="inputs"):
        with gr.Column(scale=3, min_width=320):
            prompt, dataset = _prompt(setup, say)
        with gr.Column(scale=2, min_width=320), gr.Row(elem_id="settings"):
            pair, pair_status = _pair(setup.pair, say), markup(elem_id="pair-status")
            made = [control(name, say, setup.common.get(name)) for name in _MAIN]
    with gr.Row(elem_id="actions"):
        names = _names(runs, say)
        run = gr.Button(say("run"), variant="primary", elem_id="run", min_width=120)
        stop = gr.Button(say("stop"), elem_id="stop", min_width=90)
    editor = _editor(runs, setup.pair, say)
    more, repeats, raw, reference = _advanced(setup, say)
    made += more
    common = [next(c for c in made if c.name == name) for name in COMMON]
    first = (say, prompt, dataset, pair, pair_status, common, repeats, raw, reference)
    return Form(*first, gr.State(runs), names, run, stop, *editor)


def _prompt(setup: Setup, say: Words) -> tuple[gr.Textbox, gr.Dataset]:
    prompt = gr.Textbox(
        setup.prompt,
        label=say("prompt.label"),
        placeholder=say("prompt.placeholder"),
        lines=3,
        max_lines=10,
        elem_id="prompt",
    )
    dataset = gr.Dataset(
        components=["textbox"],
        samples_per_page=20,
        label=say("examples.label"),
        elem_id="examples",
        **examples(setup.pair, say),
    )
    return prompt, dataset


def _pair(value: str, say: Words) -> gr.Dropdown:
    choices = [(say.known(f"pair.{s.name}.title", s.title), s.name) for s in page_pairs()]
    if value not in (name for _, name in choices):  # the operator serves a folder or Hub id
        choices.append((value, value))
    return gr.Dropdown(
        choices, value=value, label=say("pair.label"), elem_id="pair", filterable=False
    )


def _names(runs: Runs, say: Words) -> gr.CheckboxGroup:
    return gr.CheckboxGroup(
        titles_of(runs, say),
        value=list(runs.ticked),
        label=say("runs.label"),
        elem_id="runs",
        scale=6,
    )


def _editor(runs: Runs, pair: str, say: Words) -> tuple[Any, ...]:
    """The settings of one run, and what can be done with it: the last fields of `Form`."""
    values = own_values(runs.edited)
    toggle = '<button data-do="editor" aria-expanded="false" aria-controls="editor">{}</button>'
    markup(toggle.format(say("edit.open")), "editor-toggle")
    with gr.Column(elem_id="editor"):
        with gr.Row(elem_id="editor-head"):
            edited = gr.Dropdown(
                titles_of(runs, say),
                value=runs.editing,
                label=say("edit.label"),
                elem_id="edited",
                filterable=False,
                min_width=180,
            )
            label = gr.Textbox(
                runs.editing, label=say("edit.name"), elem_id="name", max_lines=1, min_width=120
            )
            duplicate = gr.Button(say("edit.duplicate"), elem_id="duplicate", size="sm")
            remove = gr.Button(say("edit.remove"), elem_id="remove", size="sm")
            add = gr.Dropdown(
                list(presets(say, proposers_of(pair))),
                value=None,
                label=say("edit.add"),
                elem_id="add",
                min_width=180,
            )
        with gr.Row(elem_classes="dp-fields"):
            own = [control(name, say, values.get(name), shown=name in values) for name in OWN]
    return edited, own, label, duplicate, remove, add


def _advanced(setup: Setup, say: Words) -> tuple[list[Control], gr.Number, gr.Checkbox, gr.Textbox]:
    """The other settings of every run, and those of the comparison itself."""
    start = shared_names(setup.runs)
    with (
        gr.Accordion(say("advanced"), open=False, elem_id="advanced"),
        gr.Row(elem_classes="dp-fields"),
    ):
        made = [
            control(name, say, setup.common.get(name), shown=name in start)
            for name in COMMON
            if name not in _MAIN
        ]
        repeats = gr.Number(
            setup.repeats,
            label=say("repeats.label"),
            info=say("repeats.help"),
            step=1,
            min_width=120,
            elem_id="repeats",
        )
        raw = gr.Checkbox(setup.raw, label=say("raw.label"), info=say("raw.help"), min_width=120)
        reference = gr.Textbox(
            setup.reference,
            label=say("reference.label"),
            info=say("reference.help"),
            lines=2,
            max_lines=6,
            max_length=MAX_REFERENCE,
            min_width=320,
            elem_id="reference",
        )
    return made, repeats, raw, reference
