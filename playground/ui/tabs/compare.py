"""The Compare tab: one prompt through several runs, side by side, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from html import escape
from typing import Any

import gradio as gr

from playground.params import lookup
from playground.ui.board import Board
from playground.ui.examples import examples_of
from playground.ui.files import open_shipped, open_upload, shipped
from playground.ui.form import Form, examples, make_form, titles_of
from playground.ui.markup import markup
from playground.ui.requests import pair_named
from playground.ui.results import Choice, Shown, Update, line, make_results
from playground.ui.runs import Runs, presets, with_common
from playground.ui.setup import Setup, fresh, from_query, from_record, to_query
from playground.ui.strings import Words
from playground.ui.updates import refusal, updates
from playground.ui.worker import Worker

MODEL = "model"  # the one queue of everything that runs a model
# Events that answer at once, beside whatever runs.
LIGHT: dict[str, Any] = {
    "queue": False,
    "show_progress": "hidden",
    "api_visibility": "private",
    "concurrency_limit": None,
}
# The same for events that may have something to say: messages travel through the queue only.
TELLING = LIGHT | {"queue": True}
_CANCEL = "(queued) => { if (queued) document.querySelector('#cancel')?.click(); }"
ADDRESS = "(query) => dp.page.setup(query)"
_SAVE = "(text) => dp.page.save(text, '{kind}')"


class CompareTab:
    """The tab's components and what happens on them."""

    def __init__(self, worker: Worker, say: Words) -> None:
        """Lay out the tab in the current Blocks."""
        self._worker, self._say = worker, say
        self.form: Form = make_form(fresh(worker.settings.pair), say)
        self._status = markup(line(say("status.idle")), "status")
        self.results = make_results(self._status, say)
        self.address = gr.Textbox(visible="hidden", elem_id="address")
        self._wire_run()
        self._wire_editor()
        self._wire_views()
        self._wire_address()
        self._wire_files()

    def outputs(self) -> list[Any]:
        """Every component that opening a link or a trace may write to."""
        return [*self.form.outputs(), *self.results.outputs(), self.results.x, self.results.y]

    def inputs(self) -> list[Any]:
        """The components whose values are the setup and how results are shown."""
        return [*self.results.choices(), *self.form.inputs()]

    def _read(self, values: tuple[Any, ...]) -> tuple[Setup, Runs, Choice]:
        """What `inputs` say."""
        count = len(self.results.choices())
        choice = Choice(*values[:count])
        setup, runs = self.form.read(values[count:])
        return replace(setup, x=choice.x, y=choice.y, baseline=choice.baseline), runs, choice

    # --- opening a link or a trace ----------------------------------------------------------------

    def open_link(self, query: str) -> tuple[Setup, Update]:
        """The page as a link asks for it; a fresh page shows a recorded run of its example."""
        start = fresh(self._worker.settings.pair)
        try:
            setup = from_query(query, start.pair)
        except ValueError as error:
            gr.Warning(escape(str(error)), title=self._say("error.link"))
            setup = start
        elsewhere = replace(setup, tab=start.tab, lesson=start.lesson, result=start.result)
        if elsewhere == start and shipped():
            return setup, self._shown(open_shipped(shipped()[0]), setup)
        out = self.results
        idle = out.slots(Board(with_common(setup.runs, setup.common)))
        base = out.baselines(list(setup.runs), setup.baseline)
        return setup, {
            **self.form.show(setup),
            **out.cleared(),
            **idle,
            **base,
            **self._axes(setup),
        }

    def _open(self, read: Callable[[], Shown]) -> Update:
        """A trace and its setup; a bad one is refused in one line and nothing changes."""
        try:
            shown = read()
        except ValueError as error:
            raise refusal(error, self._say, "error.trace") from error
        return self._shown(shown, from_record(shown.setup, shown.comparison.prompt))

    def _shown(self, shown: Shown, setup: Setup) -> Update:
        out, first = self.results, next(iter(shown.comparison.results.values()))
        where = {"precision": first.precision or "?", "device": (first.device or "?").upper()}
        return {
            **self.form.show(setup),
            **self._axes(setup),
            **out.show(shown, Choice(setup.x, setup.y, setup.baseline)),
            self._status: line(self._say("status.recorded", **where)),
        }

    def _axes(self, setup: Setup) -> Update:
        return {self.results.x: setup.x, self.results.y: setup.y}

    # --- events -----------------------------------------------------------------------------------

    def _wire_run(self) -> None:
        """Run and Stop. A run that has begun ends within its step and shows what it has; one that
        still waits in the queue is cancelled there. Gradio cancels on a click only, not in `then`,
        hence a button that nobody sees."""
        worker, form, results = self._worker, self.form, self.results

        def run(request: gr.Request, *values: Any) -> Iterator[Update]:
            setup, _, choice = self._read(values)
            yield from updates(worker, results, setup, choice, request)

        def stop(request: gr.Request) -> bool:
            return not worker.stop(request.session_hash, wait_s=5.0)

        self.running = running = form.run.click(
            run,
            self.inputs(),
            results.outputs(),
            concurrency_id=MODEL,
            concurrency_limit=1,
            show_progress="full",
            show_progress_on=self._status,
            api_visibility="private",
        )
        queued = gr.Checkbox(visible=False)
        cancel = gr.Button(visible="hidden", elem_id="cancel")
        cancel.click(None, cancels=[running], api_visibility="private")
        form.stop.click(stop, None, queued, **LIGHT).then(
            None, queued, None, js=_CANCEL, api_visibility="private"
        )

    def _wire_editor(self) -> None:
        """Everything that changes the set of runs, and the pair."""
        form, known = self.form, presets(self._say)

        def added(runs: Runs, name: Any) -> Runs:
            return runs.add(*lookup(known, name, "add"))

        self._on_runs(form.names.input, lambda runs, _: runs)
        self._on_runs(form.edited.input, Runs.edit, form.edited)
        self._on_runs(form.duplicate.click, lambda runs, _: runs.duplicate())
        self._on_runs(form.remove.click, lambda runs, _: runs.remove())
        self._on_runs(form.add.select, added, form.add)
        for made in form.own:
            if made.name in ("verifier", "proposer"):
                self._on_runs(made.component.input, lambda runs, _: runs)
        for named in (form.label.submit, form.label.blur):
            self._on_runs(named, Runs.rename, form.label, self._renamed)
        form.examples.click(
            lambda row: row[0] if row else gr.skip(), form.examples, form.prompt, **LIGHT
        )
        form.pair.input(self._other_pair, self.inputs(), form.outputs(), **LIGHT)

    def _on_runs(
        self,
        listener: Any,
        change: Callable[[Runs, Any], Runs],
        given: Any = None,
        show: Callable[[Runs, Runs], Update] | None = None,
    ) -> None:
        """On an event, change the runs by the value of `given`, show them, follow in the address.
        A change that cannot be is refused in one line."""

        def edit(value: Any, *values: Any) -> Update:
            _, before, _ = self._read(values)
            try:
                after = change(before, value)
            except ValueError as error:
                raise refusal(error, self._say) from error
            return show(before, after) if show else self.form.show_runs(after)

        first = self.form.names if given is None else given
        listener(edit, [first, *self.inputs()], self.form.run_outputs(), **TELLING).then(
            self.sync, self.inputs(), self.address, **LIGHT
        ).then(None, self.address, None, js=ADDRESS, api_visibility="private")

    def _renamed(self, before: Runs, after: Runs) -> Update:
        """Names alone, where one has changed: the visitor may be typing elsewhere by now."""
        return {self.form.add: gr.skip()} if after is before else self.form.show_names(after)

    def _other_pair(self, *values: Any) -> Update:
        """The pair's own examples, the first of them where no other prompt was typed, and the runs
        as they suit it."""
        setup, runs, _ = self._read(values)
        pair, prompt = pair_named(setup.pair, self._worker.settings), setup.prompt or ""
        self._worker.want(pair)
        known = {text for spec in ("chat", "translate") for text in examples_of(spec).values()}
        typed = str(prompt).strip() and prompt not in known
        return {
            self.form.examples: gr.update(**examples(pair, self._say)),
            self.form.prompt: gr.skip() if typed else next(iter(examples_of(pair).values())),
            **self.form.show_runs(runs.suit(pair)),
            **self.form.offers(pair),
        }

    def _wire_views(self) -> None:
        """How the results are shown: axes, baseline, difference, inside. From the records alone."""
        out = self.results

        def on(parts: list[Any], draw: Callable[[Shown, Choice, Any], Update]) -> None:
            def view(shown: Shown | None, wanted: Any, *choices: Any) -> Update:
                return draw(shown, Choice(*choices), wanted) if shown else {out.panel: gr.skip()}

            for part in parts:
                part.input(view, [out.shown, out.inside, *out.choices()], out.outputs(), **LIGHT)

        on([out.x, out.y, out.baseline], lambda shown, choice, _: out.numbers(shown, choice))
        on([out.first, out.second], lambda shown, choice, _: out.differ(shown, choice))
        on([out.inside], lambda shown, _, wanted: out.look(shown, wanted))

    def _wire_address(self) -> None:
        """The page's address follows every change, a moment later."""
        form, out = self.form, self.results
        parts: list[Any] = [form.prompt, form.pair, form.repeats, form.raw, form.reference]
        parts += [out.x, out.y, out.baseline]
        parts += [made.component for made in (*form.common, *form.own)]

        def changed(*values: Any) -> Update:
            _, runs, _ = self._read(values)
            titles = gr.update(choices=titles_of(runs, self._say))
            return {self.address: self.sync(*values), form.names: titles, form.edited: titles}

        gr.on(
            [part.change for part in parts],
            changed,
            self.inputs(),
            [self.address, form.names, form.edited],
            trigger_mode="always_last",
            **LIGHT,
        ).then(None, self.address, None, js=ADDRESS, api_visibility="private")

    def sync(self, *values: Any) -> str:
        """The setup that `inputs` say, as the query of a link."""
        setup, _, _ = self._read(values)
        return to_query(setup, self._say.language)

    def _wire_files(self) -> None:
        """Open a trace, that of a visitor or one that ships with the page; save one."""
        say, out = self._say, self.results
        with gr.Row(elem_id="files"):
            names = [(say.known(f"trace.{name}", name), name) for name in shipped()]
            opened = gr.Dropdown(
                names, value=None, label=say("files.shipped"), elem_id="shipped", filterable=False
            )
            upload = gr.UploadButton(
                say("files.open"), file_types=[".json"], elem_id="upload", size="sm"
            )
        opened.input(
            lambda name: self._open(lambda: open_shipped(name)) if name else {opened: None},
            opened,
            [*self.outputs(), opened],
            **TELLING,
        )
        upload.upload(
            lambda path: self._open(lambda: open_upload(path)), upload, self.outputs(), **TELLING
        )
        payload = gr.Textbox(visible=False)
        for kind, button in out.downloads.items():

            def text(shown: Shown | None, *choices: Any, kind: str = kind) -> str:
                return out.file(shown, Choice(*choices), kind) if shown else ""

            button.click(text, [out.shown, *out.choices()], payload, **LIGHT).then(
                None, payload, None, js=_SAVE.format(kind=kind), api_visibility="private"
            )
