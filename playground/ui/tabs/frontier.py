"""The Frontier tab: sweeps that ship with the page, and one of the visitor's own."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from html import escape
from typing import Any

import gradio as gr

from playground.axes import X_AXES, Y_AXES
from playground.charts import publication
from playground.results import Result, has_rows, open_shipped, rows_text, shipped
from playground.tables import rows_to_csv
from playground.ui.findings import findings_html
from playground.ui.frontier import (
    axes_of,
    command_html,
    figure,
    note_html,
    paired_html,
    progress_html,
    record_html,
    table_html,
)
from playground.ui.markup import markup
from playground.ui.results import Update, line
from playground.ui.strings import Words
from playground.ui.sweep_form import SweepForm, Upload, Values, values_of
from playground.ui.sweeping import Sweeping, run_sweep
from playground.ui.sweeps import ONE_SWEEP
from playground.ui.tabs.compare import LIGHT, TELLING
from playground.ui.updates import refusal
from playground.ui.worker import Worker

_OWN = "own"  # the choice of the visitor's sweep
_SAVED = ("png", "svg", "html", "table", "result", "rows")
_KINDS = {"table": "csv", "result": "json", "rows": "jsonl"}  # how their files end
_FIT = "() => requestAnimationFrame(() => window.dispatchEvent(new Event('resize')))"
_CANCEL = "(queued) => { if (queued) document.querySelector('#sweep-cancel')?.click(); }"
_REDRAW_S = 1.0


class FrontierTab:
    """The tab's components and what happens on them."""

    def __init__(self, tab: gr.Tab, worker: Worker, say: Words) -> None:
        """Lay out the components in `tab`, with the first of the shipped results."""
        self._worker, self._say = worker, say
        names = shipped()
        start = open_shipped(names[0]) if names else Result("", [], {})
        self.own = gr.State(None)  # the visitor's last sweep: a Result
        markup(f'<p class="dp-hint">{escape(say("frontier.intro"))}</p>', "frontier-intro")
        self._views(start)
        self._form_parts(start)
        self._result_parts(start)
        self._wire()
        tab.select(None, None, None, js=_FIT, api_visibility="private")

    def outputs(self) -> list[Any]:
        """Every component that `open` may write to."""
        return [self.chosen, self.x, self.y, *self._drawn(), *self.form.components, self.command]

    def open(self, name: str) -> Update:
        """A shipped result, as a link asks for it; nothing changes where it names none."""
        return {self.chosen: name, **self._choose(name, None)} if name else {}

    # --- components -------------------------------------------------------------------------------

    def _views(self, start: Result) -> None:
        say = self._say
        across, up = axes_of(start)
        with gr.Row(elem_id="frontier-views"):
            self.chosen = gr.Dropdown(
                self._names(None),
                value=start.name or None,
                label=say("frontier.shown"),
                elem_id="frontier-shown",
                filterable=False,
                min_width=240,
                scale=2,
            )
            self.x = self._axis("x", across, list(X_AXES))
            self.y = self._axis("y", up, list(Y_AXES))
        self.note = markup(self._note(start), "frontier-note")

    def _axis(self, name: str, known: list[str], every: list[str]) -> gr.Dropdown:
        return gr.Dropdown(
            [(self._say(f"axis.{axis}"), axis) for axis in known or every],
            value=(known or every)[0],
            label=self._say(f"view.{name}"),
            elem_id=f"frontier-{name}",
            filterable=False,
            min_width=150,
        )

    def _names(self, own: Result | None) -> list[tuple[str, str]]:
        """What can be shown, by title."""
        say = self._say
        found = [(say.known(f"result.{name}", name), name) for name in shipped()]
        return found + ([(say("frontier.own"), _OWN)] if own is not None else [])

    def _form_parts(self, start: Result) -> None:
        say, settings = self._say, self._worker.settings
        values = values_of(start, settings)
        with gr.Accordion(say("sweep.title"), open=False, elem_id="sweep"):
            markup(f'<p class="dp-hint">{escape(say("sweep.text"))}</p>')
            self.form = SweepForm(values, say)
            self.command = markup(self._asked(values, None), "sweep-command")
            with gr.Row(elem_id="sweep-actions"):
                self.run = gr.Button(
                    say("run"), variant="primary", elem_id="sweep-run", min_width=120
                )
                self.stop = gr.Button(say("stop"), elem_id="sweep-stop", min_width=90)
            self.progress = markup(elem_id="sweep-progress")

    def _result_parts(self, start: Result) -> None:
        say = self._say
        self.chart = gr.Plot(
            figure(start, self.x.value, self.y.value, say),
            show_label=False,
            container=False,
            elem_id="frontier-chart",
        )
        self.paired = markup(paired_html(start.records, say), "frontier-paired")
        self.findings = markup(findings_html(start.name, say), "frontier-findings")
        self.table = markup(table_html(start.records, say), "frontier-table")
        with gr.Row(elem_id="frontier-downloads"):
            self.downloads = {
                kind: gr.Button(
                    say(f"save.{kind}"),
                    elem_id=f"frontier-{kind}",
                    size="sm",
                    visible=kind != "rows" or has_rows(start.name),
                )
                for kind in _SAVED
            }
        with gr.Accordion(say("frontier.record"), open=False, elem_id="frontier-how"):
            self.record = markup(self._record(start), "frontier-record")

    def _drawn(self) -> list[Any]:
        texts = [self.note, self.paired, self.findings, self.table, self.record]
        return [self.chart, *texts, self.downloads["rows"]]

    # --- what is shown ----------------------------------------------------------------------------

    def _note(self, result: Result) -> str:
        if not result.records and not result.name:
            return line(self._say("frontier.none"))
        return note_html(result, self._say)

    def _record(self, result: Result) -> str:
        command = str(result.visit.get("command") or "")
        return record_html(result, self._say) + command_html(command, self._say, "made")

    def _asked(self, values: Values, upload: Upload | None) -> str:
        """The form's command line, and how much work it is."""
        say, settings = self._say, self._worker.settings
        command = values.command(upload, "results/own")
        try:
            asked = values.request(upload, settings, "results/own")
        except ValueError as error:
            return command_html(command, say, "form") + line(str(error))
        text = say(
            "sweep.work",
            prompts=len(asked.dataset.examples),
            configurations=len(asked.configs),
            tokens=f"{asked.tokens():,}",
            limit=f"{settings.max_work:,}",
        )
        return command_html(command, say, "form") + line(text)

    def _show(self, result: Result, x: str, y: str) -> Update:
        say = self._say
        return {
            self.chart: figure(result, x, y, say) if result.records else None,
            self.note: self._note(result),
            self.paired: paired_html(result.records, say),
            self.findings: findings_html(result.name, say),
            self.table: table_html(result.records, say),
            self.record: self._record(result),
            self.downloads["rows"]: gr.update(visible=bool(result.rows) or has_rows(result.name)),
        }

    def _axes(self, result: Result) -> Update:
        """Only axes on which the result has values, the best ones chosen."""
        known = zip((self.x, self.y), axes_of(result), strict=True)
        return {
            part: gr.update(choices=[(self._say(f"axis.{a}"), a) for a in axes], value=axes[0])
            for part, axes in known
        }

    def _choose(self, name: str | None, own: Result | None) -> Update:
        """Another result, and a form that runs a small part of it."""
        result = self._result(name, own)
        x, y = (axes[0] for axes in axes_of(result))
        update = self._axes(result) | self._show(result, x, y)
        if name != _OWN:
            values = values_of(result, self._worker.settings)
            update |= self.form.show(values) | {self.command: self._asked(values, None)}
        return update

    def _result(self, name: str | None, own: Result | None) -> Result:
        if name == _OWN or not name:
            return own or Result("", [], {})
        return open_shipped(name)

    # --- events -----------------------------------------------------------------------------------

    def _wire(self) -> None:
        what = [self.chosen, self.own]
        self.chosen.input(self._choose, what, self.outputs(), **LIGHT).then(
            None, None, None, js="() => dp.page.follow()", api_visibility="private"
        )

        def redraw(x: str, y: str, name: str | None, own: Result | None) -> Any:
            return figure(self._result(name, own), x, y, self._say)

        for part in (self.x, self.y):
            part.input(redraw, [self.x, self.y, *what], self.chart, **LIGHT)
        self._wire_form()
        self._wire_run()
        payload = gr.Textbox(visible=False)
        for kind, button in self.downloads.items():

            def text(x: str, y: str, *chosen: Any, kind: str = kind) -> str:
                return self._file(self._result(*chosen), kind, x, y)

            ending = _KINDS.get(kind, kind)
            button.click(text, [self.x, self.y, *what], payload, **LIGHT).then(
                None,
                payload,
                None,
                js=f"(text) => dp.page.save(text, '{ending}')",
                api_visibility="private",
            )

    def _wire_form(self) -> None:
        form, inputs = self.form, [self.form.uploaded, *self.form.components]

        def asked(upload: Upload | None, *values: Any) -> str:
            return self._asked(Values(*values), upload)

        def opened(path: str) -> Update:
            try:
                return form.opened(path)
            except ValueError as error:
                raise refusal(error, self._say, "error.trace") from error

        for part in form.components:
            part.input(asked, inputs, self.command, trigger_mode="always_last", **LIGHT)
        form.upload.upload(opened, form.upload, [form.uploaded, form.dataset], **TELLING).then(
            asked, inputs, self.command, **LIGHT
        )

    def _wire_run(self) -> None:
        """Run and Stop, as on the Compare tab."""
        worker, form = self._worker, self.form

        def stop(request: gr.Request) -> bool:
            return not worker.stop(request.session_hash, wait_s=5.0)

        running = self.run.click(
            self._run,
            [self.x, self.y, form.uploaded, *form.components],
            [self.progress, self.chosen, self.own, self.x, self.y, *self._drawn()],
            show_progress="full",
            show_progress_on=self.progress,
            api_visibility="private",
            **ONE_SWEEP,
        )
        queued = gr.Checkbox(visible=False)
        cancel = gr.Button(visible="hidden", elem_id="sweep-cancel")
        cancel.click(None, cancels=[running], api_visibility="private")
        self.stop.click(stop, None, queued, **LIGHT).then(
            None, queued, None, js=_CANCEL, api_visibility="private"
        )

    def _run(
        self, request: gr.Request, x: str, y: str, upload: Upload | None, *values: Any
    ) -> Iterator[Update]:
        """A sweep of the visitor's own, drawn as it grows."""
        say, worker = self._say, self._worker
        painter = _Painter(x, y)
        with worker.request(request.session_hash) as stop:
            try:
                asked = Values(*values).request(upload, worker.settings, "results/own")
                yield {self.progress: line(say("sweep.started"))}
                for sweeping in run_sweep(worker, asked, stop):
                    yield {
                        self.progress: progress_html(sweeping, say),
                        **self._paint(painter, sweeping),
                    }
            except Exception as error:
                raise refusal(error, say) from error
            yield self._ended(painter, sweeping, stop.is_set())

    def _paint(self, painter: _Painter, sweeping: Sweeping) -> Update:
        """Table and chart where there is something new to see, at most once a second."""
        if not painter.due(sweeping):
            return {}
        result = sweeping.result()
        update: Update = {}
        if not painter.begun:
            painter.begun = True
            painter.x, painter.y = (axes[0] for axes in axes_of(result))
            update = {self.chosen: gr.update(choices=self._names(result), value=_OWN)}
            update |= self._axes(result)
        return update | self._show(result, painter.x, painter.y)

    def _ended(self, painter: _Painter, sweeping: Sweeping, stopped: bool) -> Update:
        """The last update: what was done, and the whole result."""
        say, counts = self._say, {"done": sweeping.done, "total": sweeping.total}
        whole = sweeping.done == sweeping.total
        key = "done" if whole else "late" if sweeping.late else "stopped"
        text = say(f"sweep.{key}", **counts) + ("" if whole else f" {say('sweep.partial')}")
        update: Update = {self.progress: line(text)}
        if not sweeping.summary.records:
            return update
        return update | {self.own: sweeping.result()} | self._paint(painter, sweeping)

    def _file(self, result: Result, kind: str, x: str, y: str) -> str:
        """The text of a file to save; for a picture, the figure that it is drawn from."""
        if not result.records:
            return ""
        if kind == "table":
            return rows_to_csv(result.records)
        if kind == "result":
            return json.dumps(result.to_dict(), ensure_ascii=False, indent=1)
        if kind == "rows":
            lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in result.rows)
            return "".join(lines) or rows_text(result.name) or ""
        drawn = figure(result, x, y, self._say)
        if kind == "html":
            return str(drawn.to_html(include_plotlyjs=True))
        return str(publication(drawn).to_json())


class _Painter:
    """When to draw, and on which axes."""

    def __init__(self, x: str, y: str) -> None:
        self.x, self.y, self.begun = x, y, False
        self._seen, self._drawn = 0, 0.0  # the summary that was drawn, and when

    def due(self, sweeping: Sweeping) -> bool:
        """Whether there is a summary that is not drawn yet, and the last one is old enough."""
        fresh = bool(sweeping.summary.records) and id(sweeping.summary) != self._seen
        over = sweeping.done == sweeping.total
        if not fresh or (not over and time.monotonic() - self._drawn < _REDRAW_S):
            return False
        self._seen, self._drawn = id(sweeping.summary), time.monotonic()
        return True
