"""The Token lab tab: one position of a run, or two typed laws, under any divergence budget."""

from __future__ import annotations

from dataclasses import fields
from html import escape
from typing import Any

import gradio as gr

from playground.types import DecodeResult
from playground.ui.lab import (
    DIVERGENCES,
    MAX_CHARS,
    PRESETS,
    Choice,
    Laws,
    laws_of,
    numbers_html,
    parse_laws,
    position_html,
    read,
    verified,
)
from playground.ui.lab_figures import acceptance_curve, law_bars
from playground.ui.markup import markup
from playground.ui.results import Shown, Update, line
from playground.ui.runs import name_of
from playground.ui.strings import Words
from playground.ui.tabs.compare import LIGHT
from playground.ui.tokens import kind_of

_DRAG = LIGHT | {"trigger_mode": "always_last"}  # the last value counts, however fast they come
# A figure that was drawn while its tab was hidden has no right size yet.
_FIT = "() => requestAnimationFrame(() => window.dispatchEvent(new Event('resize')))"
_PLOT: dict[str, Any] = {"show_label": False, "container": False, "min_width": 320}


class TokenLab:
    """The tab's components and what happens on them. `show` fills it with a comparison."""

    def __init__(self, tab: gr.Tab, shown: gr.State, say: Words) -> None:
        """Lay out the components in `tab`, with a typed example; `shown`: `Shown` or None."""
        self._shown, self._say = shown, say
        self._source_parts()
        self._setting_parts()
        laws, choice = parse_laws(next(iter(PRESETS.values())), say), Choice()
        reading = read(laws, choice)
        self._numbers = markup(numbers_html(laws, reading, choice, say), "lab-numbers")
        with gr.Row(elem_id="lab-figures"):
            self._bars = gr.Plot(law_bars(laws, reading, choice, say), elem_id="lab-bars", **_PLOT)
            self._curve = gr.Plot(
                acceptance_curve(reading, choice, say), elem_id="lab-curve", **_PLOT
            )
        self._wire()
        tab.select(None, None, None, js=_FIT, api_visibility="private")

    def outputs(self) -> list[Any]:
        """Every component that `show` may write to."""
        chosen = [self._source, self._of_run, self._own, self._run, self._position]
        return [*chosen, self._budget, self._divergence, self._keep, *self._drawn()]

    def show(self, shown: Shown | None) -> Update:
        """The first speculative run of a comparison, at a position where D mattered, if any."""
        results = shown.comparison.results if shown else {}
        labels = [label for label, result in results.items() if verified(result)]
        if shown is None or not labels:
            return {self._run: gr.update(choices=[], value=None), **self._switched("own")}
        label = next((k for k in labels if _choice_of(results[k]).budget), labels[0])
        choices = [(name_of(k, self._say), k) for k in results]
        update = {self._run: gr.update(choices=choices, value=label), **self._switched("run")}
        return update | self._opened(results[label])

    # --- components -------------------------------------------------------------------------------

    def _source_parts(self) -> None:
        say = self._say
        markup(f'<p class="dp-hint">{escape(say("lab.intro"))}</p>')
        sources = [(say("lab.source.run"), "run"), (say("lab.source.own"), "own")]
        self._source = gr.Radio(
            sources, value="own", label=say("lab.source"), elem_id="lab-source", container=False
        )
        with gr.Column(visible=False, elem_id="lab-run") as self._of_run:
            with gr.Row(elem_id="lab-pick"):
                self._run = gr.Dropdown(
                    [], label=say("lab.run"), filterable=False, elem_id="lab-label", min_width=150
                )
                self._previous = gr.Button(say("lab.previous"), elem_id="lab-previous")
                self._position = gr.Slider(
                    1, 2, 1, step=1, label=say("lab.position"), elem_id="lab-position", scale=3
                )
                self._next = gr.Button(say("lab.next"), elem_id="lab-next")
            self._text = markup(elem_id="lab-text")
        with gr.Row(elem_id="lab-own") as self._own:
            presets = [(say(f"lab.preset.{name}"), name) for name in PRESETS]
            self._preset = gr.Dropdown(
                presets,
                value=next(iter(PRESETS)),
                label=say("lab.preset"),
                filterable=False,
                elem_id="lab-preset",
                min_width=200,
            )
            self._typed = gr.Textbox(
                next(iter(PRESETS.values())),
                label=say("lab.typed"),
                info=say("lab.typed.help"),
                lines=5,
                max_lines=10,
                max_length=MAX_CHARS,
                elem_id="lab-typed",
                scale=2,
            )
        self._error = markup(elem_id="lab-error")

    def _setting_parts(self) -> None:
        say, start = self._say, Choice()
        with gr.Row(elem_id="lab-settings"):
            self._budget = gr.Slider(
                0,
                2,
                start.budget,
                step=0.01,
                label=say("lab.budget"),
                elem_id="lab-budget",
                scale=3,
            )
            kinds = [(say(f"divergence.{kind}"), kind) for kind in DIVERGENCES]
            self._divergence = gr.Dropdown(
                kinds,
                value=start.divergence,
                label=say("lab.divergence"),
                filterable=False,
                elem_id="lab-divergence",
                min_width=180,
            )
            self._keep = gr.Checkbox(
                start.keep_support,
                label=say("lab.keep"),
                info=say("lab.keep.help"),
                elem_id="lab-keep",
                min_width=200,
            )

    # --- events -----------------------------------------------------------------------------------

    def _wire(self) -> None:
        inputs = [self._shown, self._source, self._run, self._position, self._typed]
        inputs += [self._budget, self._divergence, self._keep]
        drawn = self._drawn()
        self._budget.input(self._draw, inputs, drawn, **_DRAG)
        parts = [self._position.input, self._divergence.input, self._keep.input]
        for listen in (*parts, self._typed.change):  # what is pasted whole makes no input event
            listen(self._redraw, inputs, [*drawn, self._budget], **_DRAG)
        groups = [self._source, self._of_run, self._own]
        self._source.input(self._switch, inputs, [*drawn, self._budget, *groups], **_DRAG)
        self._preset.input(
            self._take, [self._preset, *inputs], [*drawn, self._budget, self._typed], **_DRAG
        )
        self._run.input(self._open, [self._shown, self._run], self.outputs(), **_DRAG)
        for button, step in ((self._previous, self._back), (self._next, self._on)):
            button.click(step, inputs, [*drawn, self._budget, self._position], **_DRAG)

    def _drawn(self) -> list[Any]:
        return [self._text, self._error, self._numbers, self._bars, self._curve]

    def _switch(self, *values: Any) -> Update:
        return self._switched(values[1]) | self._redraw(*values)

    def _take(self, preset: str, *values: Any) -> Update:
        typed = PRESETS[preset]
        return {self._typed: typed} | self._redraw(*values[:4], typed, *values[5:])

    def _back(self, *values: Any) -> Update:
        return self._step(-1, *values)

    def _on(self, *values: Any) -> Update:
        return self._step(1, *values)

    def _step(self, step: int, *values: Any) -> Update:
        result = _result(values[0], values[2])
        last = len(result.tokens) if result else 1
        position = min(max(int(values[3]) + step, 1), last)
        return {self._position: position} | self._redraw(*values[:3], position, *values[4:])

    def _open(self, shown: Shown | None, label: str | None) -> Update:
        result = _result(shown, label)
        return self._opened(result) if result else {self._error: line(self._say("lab.none"))}

    def _opened(self, result: DecodeResult) -> Update:
        """A run at the position most worth seeing, under the settings that it had."""
        index, choice = _start(result), _choice_of(result)
        last = max(2, len(result.tokens))
        return {
            self._position: gr.update(minimum=1, maximum=last, value=index + 1),
            self._divergence: choice.divergence,
            self._keep: choice.keep_support,
            self._error: "",
            self._text: position_html(result, index, self._say),
            **self._figures(laws_of(result.tokens[index]), choice),
        }

    def _switched(self, source: str) -> Update:
        visible = {self._of_run: source == "run", self._own: source == "own"}
        groups = {part: gr.update(visible=seen) for part, seen in visible.items()}
        return {self._source: source, **groups}

    def _draw(self, *values: Any) -> Update:
        """As `_redraw`, the range of D left alone: it must not move under the visitor's hand."""
        update = self._redraw(*values)
        update.pop(self._budget, None)
        return update

    def _redraw(
        self,
        shown: Shown | None,
        source: str,
        run: str | None,
        position: float,
        typed: str,
        *settings: Any,
    ) -> Update:
        """Everything that the settings change. Bad laws get one line, and all else stays."""
        choice = Choice(*settings)
        if source == "own":
            try:
                laws = parse_laws(typed or "", self._say)
            except ValueError as error:
                return {self._error: line(str(error))}
            return {self._error: "", **self._figures(laws, choice)}
        result = _result(shown, run)
        if result is None:
            return {self._error: line(self._say("lab.none"))}
        index = min(max(int(position), 1), len(result.tokens)) - 1
        text = position_html(result, index, self._say)
        figures = self._figures(laws_of(result.tokens[index]), choice)
        return {self._error: "", self._text: text, **figures}

    def _figures(self, laws: Laws, choice: Choice) -> Update:
        say = self._say
        if not laws.draft:
            bars = law_bars(laws, None, choice, say)
            return {self._numbers: "", self._bars: bars, self._curve: gr.update(visible=False)}
        reading = read(laws, choice)
        curve = acceptance_curve(reading, choice, say)
        return {
            self._numbers: numbers_html(laws, reading, choice, say),
            self._bars: law_bars(laws, reading, choice, say),
            self._curve: gr.update(value=curve, visible=True),
            self._budget: gr.update(maximum=reading.limit, value=choice.budget),
        }


def _result(shown: Shown | None, label: str | None) -> DecodeResult | None:
    """The run of that label, if it has any token to look at."""
    result = shown.comparison.results.get(label or "") if shown else None
    return result if result and result.tokens else None


def _start(result: DecodeResult) -> int:
    """Where D mattered, else a correction, else any verified position, else the first."""
    kinds = [kind_of(token) for token in result.tokens]
    for kind in ("mentored", "residual"):
        if kind in kinds:
            return kinds.index(kind)
    return next(iter(verified(result)), 0)


def _choice_of(result: DecodeResult) -> Choice:
    """The run's own settings; a run that has no budget is lossless, or is shown as if it were."""
    own = {f.name: result.params.get(f.name) for f in fields(Choice)}
    own["budget"] = result.params.get("divergence_budget", 0.0)
    return Choice(**{name: value for name, value in own.items() if value is not None})
