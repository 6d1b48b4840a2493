"""The Compare tab: one prompt through several methods, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from playground.compare import DEFAULT_COMMON, DEFAULT_RUNS
from playground.ui import cards
from playground.ui.board import Board
from playground.ui.controls import Control, Field, collect, control, fields_for
from playground.ui.markup import markup
from playground.ui.requests import request_from_page, shared
from playground.ui.strings import EXAMPLES, say
from playground.ui.updates import Outputs, Update, line, updates
from playground.ui.worker import Worker

if TYPE_CHECKING:
    pass

MODEL = "model"  # the one queue of everything that runs a model

# Where a control goes: the row under the prompt, or a group of the fold; the rest is the first.
_MAIN = (
    "max_new_tokens",
    "temperature",
    "seed",
    "num_beams",
    "num_draft_tokens",
    "divergence_budget",
)
_GROUPS = {"advanced.law": "sample", "advanced.search": "beam", "advanced.draft": "mentored"}

_CANCEL = "(queued) => { if (queued) document.querySelector('#cancel')?.click(); }"
_START = DEFAULT_COMMON | {k: v for run in DEFAULT_RUNS.values() for k, v in run.items()}


@dataclass(frozen=True, slots=True)
class _Inputs:
    """The components that a comparison reads, its buttons and its status line."""

    prompt: gr.Textbox
    names: gr.CheckboxGroup
    controls: list[Control]
    repeats: gr.Number
    raw: gr.Checkbox
    run: gr.Button
    stop: gr.Button
    status: gr.HTML


def compare_tab(worker: Worker) -> None:
    """Lay out the tab in the current Blocks and wire its events."""
    inputs = _inputs()
    with gr.Column(elem_id="cards"):
        views = Board(_default_runs()).views.values()
        slots = [markup(cards.card_html(view)) for view in views]
    verdict = markup(elem_id="verdict")
    with gr.Row(elem_id="results"):
        chart = gr.Plot(show_label=False, container=False, elem_id="chart", visible=False)
        table = markup(elem_id="table")
    _wire(worker, inputs, Outputs(inputs.status, slots, verdict, chart, table))


def _default_runs() -> dict[str, dict[str, Any]]:
    """The runs that the page starts with, all their settings spelled out."""
    return {
        label: run | shared(DEFAULT_COMMON, {label: run}) for label, run in DEFAULT_RUNS.items()
    }


def _inputs() -> _Inputs:
    """Prompt, examples, settings, runs and buttons."""
    with gr.Row(elem_id="inputs"):
        with gr.Column(scale=3, min_width=320):
            prompt = _prompt()
        with gr.Column(scale=2, min_width=320), gr.Row(elem_id="settings"):
            fields = fields_for(list(DEFAULT_RUNS))
            controls = [control(fields.pop(name), _START.get(name)) for name in _MAIN]
    with gr.Row(elem_id="actions"):
        names = gr.CheckboxGroup(
            [(cards.name_of(label), label) for label in DEFAULT_RUNS],
            value=list(DEFAULT_RUNS),
            label=say("runs.label"),
            elem_id="runs",
            scale=6,
        )
        run = gr.Button(say("run"), variant="primary", elem_id="run", min_width=120)
        stop = gr.Button(say("stop"), elem_id="stop", min_width=90)
    more, repeats, raw = _advanced(fields)
    status = markup(line(say("status.idle")), "status")
    return _Inputs(prompt, names, controls + more, repeats, raw, run, stop, status)


def _prompt() -> gr.Textbox:
    """The prompt, with the first example filled in and the others one press away."""
    prompt = gr.Textbox(
        next(iter(EXAMPLES.values())),
        label=say("prompt.label"),
        placeholder=say("prompt.placeholder"),
        lines=3,
        max_lines=10,
        elem_id="prompt",
    )
    gr.Examples(
        [[text] for text in EXAMPLES.values()],
        prompt,
        label=say("examples.label"),
        example_labels=list(EXAMPLES),
        examples_per_page=len(EXAMPLES),
        elem_id="examples",
        api_visibility="private",
    )
    return prompt


def _advanced(fields: dict[str, Field]) -> tuple[list[Control], gr.Number, gr.Checkbox]:
    """The controls of every other parameter of the page's methods, by what they act on."""
    made: list[Control] = []
    groups = {key: set(fields_for([method])) for key, method in _GROUPS.items()}
    groups = {"advanced.all": set.intersection(*groups.values()), **groups}
    with gr.Accordion(say("advanced"), open=False, elem_id="advanced"):
        for key, names in groups.items():
            gr.Markdown(f"**{say(key)}**")
            with gr.Row(elem_classes="dp-group"):
                own = [name for name in fields if name in names]
                made += [control(fields.pop(name), _START.get(name)) for name in own]
                if key == "advanced.all":
                    repeats, raw = _own_controls()
    return made, repeats, raw


def _own_controls() -> tuple[gr.Number, gr.Checkbox]:
    """Settings of the comparison rather than of a method."""
    repeats = gr.Number(
        1, label=say("repeats.label"), info=say("repeats.help"), step=1, min_width=120
    )
    raw = gr.Checkbox(False, label=say("raw.label"), info=say("raw.help"), min_width=120)
    return repeats, raw


def _wire(worker: Worker, inputs: _Inputs, outputs: Outputs) -> None:
    """Run and Stop. A run that has begun ends within its step and shows what it has; one that
    still waits in the queue is cancelled there. Gradio cancels on a click only, not in `then`,
    hence a button that nobody sees."""

    def run(
        request: gr.Request, prompt: str, names: list[str], repeats: Any, raw: bool, *values: Any
    ) -> Iterator[Update]:
        given = collect(inputs.controls, values)
        yield from updates(
            worker, outputs, lambda: request_from_page(prompt, names, given, repeats, raw), request
        )

    def stop(request: gr.Request) -> bool:
        return not worker.stop(request.session_hash, wait_s=5.0)

    components = [control.component for control in inputs.controls]
    running = inputs.run.click(
        run,
        [inputs.prompt, inputs.names, inputs.repeats, inputs.raw, *components],
        outputs.all(),
        concurrency_id=MODEL,
        concurrency_limit=1,
        show_progress="full",
        show_progress_on=outputs.status,
        api_visibility="private",
    )
    queued = gr.Checkbox(visible=False)
    cancel = gr.Button(visible="hidden", elem_id="cancel")
    cancel.click(None, cancels=[running], api_visibility="private")
    inputs.stop.click(
        stop, None, queued, queue=False, concurrency_limit=None, api_visibility="private"
    ).then(None, queued, None, js=_CANCEL, api_visibility="private")
