"""The form of a sweep on the page: its components, and what they stand for."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from pathlib import Path
from typing import Any

import gradio as gr

from playground.arguments import parameters
from playground.catalog import page_pairs
from playground.datasets import Dataset, Example, embedded
from playground.methods import METHODS, fields_of
from playground.results import Result
from playground.sweep.command import LISTS, varied_values
from playground.sweep.grid import METHODS as SWEPT
from playground.sweep.grid import grid
from playground.ui.runs import name_of
from playground.ui.strings import Words
from playground.ui.sweeping import SweepRequest
from playground.ui.sweeps import (
    FILE_TYPES,
    check_seed,
    named_dataset,
    read_upload,
    sweep_request,
)
from playground.ui.worker import PageSettings
from playground.verifiers import VERIFIERS

Update = dict[Any, Any]  # component -> its new value
UPLOADED = "uploaded"  # the choice of the visitor's own file
_NUMBERS = ("limit", "temperature", "max_new_tokens", "seed")


@dataclass(frozen=True, slots=True)
class Upload:
    """The prompts of a visitor's file."""

    name: str
    examples: tuple[Example, ...]


@dataclass(frozen=True, slots=True)
class Values:
    """What the form says, as its components have it; texts of lists as on the command line."""

    pair: str = "translate"
    dataset: str = "verses"
    limit: Any = 4
    methods: list[str] = field(default_factory=lambda: list(SWEPT))
    lengths: str = "3,5"
    budgets: str = "0.1,0.2"
    rules: list[str] = field(default_factory=list)
    vary: str = ""
    draft_alone: bool = False
    temperature: Any = 0.3
    max_new_tokens: Any = 64
    seed: Any = 0

    def runs(self) -> dict[str, dict[str, Any]]:
        """The grid. Lists that no chosen method has are left out: the form always shows them."""
        texts = (self.lengths, self.budgets, ",".join(self.rules))
        lists = {name: text for (_, name, _), text in zip(LISTS, texts, strict=True)}
        known = {f.name for method in self.methods for f in fields_of(method, {})}
        rule = "verifier" in known and "mentored" in self.rules
        given = {
            name: text
            for name, text in lists.items()
            if text.strip() and (name in known or (name == "divergence_budget" and rule))
        }
        return grid(self.methods, varied_values(given, self.lines()), self.draft_alone)

    def lines(self) -> list[str]:
        """What else is varied."""
        return [line for line in self.vary.splitlines() if line.strip()]

    def request(self, upload: Upload | None, settings: PageSettings, out: str) -> SweepRequest:
        """The checked sweep. Raises ValueError for what this page refuses."""
        if not self.methods:
            raise ValueError("methods: none is selected; select at least one.")
        seed = check_seed(_whole(self.seed))
        return sweep_request(
            settings,
            pair=self.pair,
            dataset=self._dataset(upload, seed),
            runs=self.runs(),
            common={
                "temperature": self.temperature,
                "max_new_tokens": _whole(self.max_new_tokens),
            },
            seed=seed,
            command=self.command(upload, out),
        )

    def _dataset(self, upload: Upload | None, seed: int) -> Dataset:
        if self.dataset != UPLOADED:
            return named_dataset(self.dataset, _whole(self.limit), seed)
        if upload is None:
            raise ValueError("dataset: no file is open; open one, or choose another set.")
        records = [asdict(example) for example in upload.examples]
        found = named_dataset(records, _whole(self.limit), seed)
        return replace(found, name=upload.name)

    def command(self, upload: Upload | None, out: str) -> str:
        """The same sweep on the command line."""
        named = upload.name if self.dataset == UPLOADED and upload else self.dataset
        words = ["--pair", self.pair, "--dataset", named, "--limit", _text(self.limit)]
        words += ["--methods", ",".join(self.methods)]
        texts = (self.lengths, self.budgets, ",".join(self.rules))
        for (option, _, _), text in zip(LISTS, texts, strict=True):
            words += (
                [f"--{option.replace('_', '-')}", text.replace(" ", "")] if text.strip() else []
            )
        for line in self.lines():
            words += ["--vary", line.strip()]
        words += ["--draft-alone"] if self.draft_alone else []
        for name in ("temperature", "max_new_tokens", "seed"):
            words += [f"--{name.replace('_', '-')}", _text(getattr(self, name))]
        return shlex.join(["python", "-m", "playground", "sweep", *words, "--out", out])


def _whole(value: Any) -> Any:
    """A number component's value, an int where it is a whole number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def values_of(result: Result, settings: PageSettings) -> Values:
    """A form that runs a small part of a result: its grid, as many prompts as this page allows."""
    visit, configs = result.visit, result.record.get("configurations", [])
    own = [config for config in configs if config["model"] == "target"]
    if not own:
        return Values()
    varied: dict[str, list[Any]] = {}
    for config in own:
        for name, value in config["params"].items():
            known = varied.setdefault(name, [])
            known += [value] if value not in known else []
    fixed = {
        name: varied.pop(name)[0] for name in ("temperature", "max_new_tokens") if name in varied
    }
    tokens = fixed.get("max_new_tokens", 64)
    most = settings.max_work // max(1, len(configs) * tokens)
    pair = str(visit.get("pair"))
    dataset = str(visit.get("dataset"))
    start = Values()
    return Values(
        pair=pair if pair in {spec.name for spec in page_pairs()} else start.pair,
        dataset=dataset if dataset in embedded() else start.dataset,
        limit=max(1, min(start.limit, most)),
        methods=list(dict.fromkeys(config["method"] for config in own)),
        lengths=_joined(varied.pop("num_draft_tokens", [])),
        budgets=_joined(varied.pop("divergence_budget", [])),
        rules=varied.pop("verifier", []),
        vary="\n".join(f"{name}={_joined(values)}" for name, values in varied.items()),
        draft_alone=len(own) < len(configs),
        temperature=fixed.get("temperature", start.temperature),
        max_new_tokens=tokens,
        seed=result.record.get("sweep", {}).get("seed", start.seed),
    )


def _joined(values: Sequence[Any]) -> str:
    return ",".join(_text(value) for value in values)


class SweepForm:
    """The components, in the order of `Values`."""

    def __init__(self, start: Values, say: Words) -> None:
        """Lay them out in the current Blocks."""
        self._say = say
        pairs = [(say.known(f"pair.{s.name}.title", s.title), s.name) for s in page_pairs()]
        with gr.Row(elem_id="sweep-main"):
            self.pair = self._dropdown("pair", pairs, start.pair, say("pair.label"))
            self.dataset = self._dropdown(
                "dataset", self.datasets(None), start.dataset, say("sweep.dataset")
            )
            self.upload = gr.UploadButton(
                say("sweep.upload"),
                file_types=list(FILE_TYPES),
                elem_id="sweep-upload",
                size="sm",
                min_width=150,
            )
        with gr.Row(elem_classes="dp-fields", elem_id="sweep-fields"):
            names = [(name_of(name, say), name) for name in METHODS]
            methods = gr.CheckboxGroup(
                names, value=start.methods, label=say("sweep.methods"), elem_id="sweep-methods"
            )
            lengths = self._list("lengths", start.lengths)
            budgets = self._list("budgets", start.budgets)
            rules = gr.Dropdown(
                [(say.known(f"verifier.{v}", v.replace("_", " ")), v) for v in VERIFIERS],
                value=start.rules,
                multiselect=True,
                label=say("sweep.rules"),
                info=say("sweep.rules.help"),
                elem_id="sweep-rules",
            )
            vary = gr.Textbox(
                start.vary,
                label=say("sweep.vary"),
                info=say("sweep.vary.help"),
                lines=1,
                max_lines=6,
                elem_id="sweep-vary",
            )
            alone = gr.Checkbox(
                start.draft_alone, label=say("sweep.draft_alone"), elem_id="sweep-draft_alone"
            )
            boxes = {name: self._number(name, getattr(start, name)) for name in _NUMBERS}
        self.uploaded = gr.State(None)
        first = [self.pair, self.dataset, boxes["limit"], methods, lengths, budgets]
        rest = [boxes[name] for name in _NUMBERS[1:]]
        self.components: list[Any] = [*first, rules, vary, alone, *rest]

    def datasets(self, upload: Upload | None) -> list[tuple[str, str]]:
        """The sets to choose from, the visitor's own file last."""
        say = self._say
        found = [(say.known(f"sweep.dataset.{name}", name), name) for name in embedded()]
        if upload is None:
            return found
        shown = say("sweep.dataset.uploaded", name=upload.name, count=len(upload.examples))
        return [*found, (shown, UPLOADED)]

    def opened(self, path: str) -> Update:
        """An uploaded file, chosen. Raises ValueError with the line that is at fault."""
        upload = Upload(Path(path).name, tuple(read_upload(path)))
        chosen = gr.update(choices=self.datasets(upload), value=UPLOADED)
        return {self.uploaded: upload, self.dataset: chosen}

    def show(self, values: Values) -> Update:
        """The components as `values` have it."""
        return dict(zip(self.components, astuple(values), strict=True))

    def _dropdown(self, name: str, choices: Any, value: Any, label: str) -> gr.Dropdown:
        return gr.Dropdown(
            choices,
            value=value,
            label=label,
            elem_id=f"sweep-{name}",
            filterable=False,
            min_width=180,
        )

    def _list(self, name: str, value: str) -> gr.Textbox:
        return gr.Textbox(
            value,
            label=self._say(f"sweep.{name}"),
            info=self._say("sweep.list.help"),
            max_lines=1,
            elem_id=f"sweep-{name}",
        )

    def _number(self, name: str, value: Any) -> gr.Number:
        say = self._say
        source = None if name == "limit" else parameters()[name].source
        label = say("sweep.limit") if source is None else source.metadata.get("label") or name
        help = say("sweep.limit.help") if source is None else source.metadata.get("help")
        return gr.Number(
            value,
            label=say.known(f"param.{name}", label),
            info=say.known(f"param.{name}.help", help or ""),
            elem_id=f"sweep-{name}",
        )
