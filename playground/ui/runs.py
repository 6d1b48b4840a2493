"""The set of runs that a visitor edits: add, duplicate, rename, remove, change settings. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from playground.arguments import parameters
from playground.catalog import PAIRS, has_draft, page_pairs
from playground.compare import DEFAULT_RUNS, LAW, default_runs
from playground.methods import METHODS, fields_of
from playground.params import fail
from playground.proposers import PROPOSERS
from playground.ui.strings import Words

Run = dict[str, Any]

MAX_RUNS = 8
_MAX_KNOWN = 32
# Parameters without a control: their value is a token id, or they change nothing that is shown.
HIDDEN = {"eos_token_id", "num_return_sequences"}
# What every run may share stands above the runs; the rest belongs to each of them.
_NAMES = [name for name in parameters() if name not in HIDDEN]
_SHARED = {f.name for method in DEFAULT_RUNS for f in fields_of(method, {})}.intersection(
    *({f.name for f in fields_of(method, {})} for method in DEFAULT_RUNS)
)
COMMON = tuple(name for name in _NAMES if name in _SHARED or name in LAW)
OWN = tuple(name for name in _NAMES if name not in COMMON)


@dataclass(frozen=True, slots=True, eq=False)  # Gradio hashes states; one is only ever itself
class Runs:
    """All runs that were made, by label; those that are ticked take part; one is being edited."""

    known: dict[str, Run]
    ticked: tuple[str, ...]
    editing: str = ""

    @classmethod
    def of(cls, chosen: dict[str, Run], pair: str = "chat") -> Runs:
        """The chosen runs ticked, and the page's own ones offered beside them."""
        rest = {label: run for label, run in _own_runs(pair).items() if label not in chosen}
        return cls({**chosen, **rest}, tuple(chosen), list(chosen)[-1])

    @property
    def edited(self) -> Run | None:
        """The run whose settings are shown."""
        return self.known.get(self.editing)

    def chosen(self) -> dict[str, Run]:
        """The runs that take part, in their order."""
        return {label: run for label, run in self.known.items() if label in self.ticked}

    def tick(self, labels: Sequence[str]) -> Runs:
        """Only these take part; one that is ticked anew is also the one to edit."""
        fresh = [label for label in labels if label not in self.ticked]
        ticked = tuple(label for label in labels if label in self.known)
        return replace(self, ticked=ticked, editing=fresh[-1] if fresh else self.editing)

    def edit(self, label: str) -> Runs:
        """Show another run's settings."""
        return replace(self, editing=label) if label in self.known else self

    def set(self, values: Run) -> Runs:
        """The edited run with these values of its own fields. Defaults are left out, except those
        that the run named already; a field that a new rule or proposer brings in starts there."""
        run = self.edited
        if run is None:
            return self
        before = {field.name for field in own_fields(run)}
        kept: Run = {"method": run["method"]}
        given = {name: value for name, value in values.items() if name in before}
        for field in own_fields({**run, **given}):
            value = given.get(field.name, field.default)
            if value != field.default or field.name in run:
                kept[field.name] = value
        return replace(self, known={**self.known, self.editing: kept})

    def add(self, label: str, run: Run) -> Runs:
        """A further run, ticked and ready to edit; its label gets a number where it is taken.
        Raises ValueError where there are too many already."""
        if len(self.known) >= _MAX_KNOWN:
            raise fail(
                "runs", f"{len(self.known) + 1} runs", f"at most {_MAX_KNOWN} to choose from"
            )
        name = self._free(label)
        return Runs({**self.known, name: run}, (*self.ticked, name), name)

    def duplicate(self) -> Runs:
        """The edited run once more, to be given other settings."""
        run = self.edited
        return self if run is None else self.add(self.editing.rstrip("0123456789 "), dict(run))

    def remove(self) -> Runs:
        """Without the edited run. The last one stays."""
        if len(self.known) < 2:
            return self
        known = {label: run for label, run in self.known.items() if label != self.editing}
        ticked = tuple(label for label in self.ticked if label != self.editing)
        return Runs(known, ticked, (ticked or tuple(known))[-1])

    def rename(self, label: str) -> Runs:
        """The edited run under another name. Raises ValueError for one that cannot be."""
        name = label.strip()
        if name == self.editing or self.edited is None:
            return self
        if not name or name in self.known or len(name) > 60:
            raise fail("runs", label, "a name of at most 60 characters that no other run has")
        known = {name if old == self.editing else old: run for old, run in self.known.items()}
        ticked = tuple(name if old == self.editing else old for old in self.ticked)
        return Runs(known, ticked, name)

    def suit(self, pair: str) -> Runs:
        """The same runs for another pair: the page's own ones, where they were left as they are,
        with what suits it, and no run with a proposer that it lacks."""
        page = [_own_runs(spec.name) for spec in page_pairs()]
        able = proposers_of(pair)

        def suited(label: str, run: Run) -> Run:
            if any(runs.get(label) == run for runs in page):
                return _own_runs(pair)[label]
            if run.get("proposer", able[0]) in able:
                return run
            return self._without_proposer(run)

        return replace(self, known={label: suited(label, r) for label, r in self.known.items()})

    @staticmethod
    def _without_proposer(run: Run) -> Run:
        kept = {name: value for name, value in run.items() if name != "proposer"}
        known = {"method", *(f.name for f in fields_of(run["method"], kept))}
        return {name: value for name, value in kept.items() if name in known}

    def _free(self, label: str) -> str:
        names = [label, *(f"{label} {number}" for number in range(2, len(self.known) + 3))]
        return next(name for name in names if name not in self.known)


def own_fields(run: Run) -> list[Any]:
    """The fields that belong to a run alone, given the rule and proposer that it names."""
    return [f for f in fields_of(run["method"], run) if f.name in OWN]


def shared_names(runs: dict[str, Run]) -> set[str]:
    """The common parameters that at least one of the runs has, and the law that the fidelity of
    all is measured against."""
    return set(LAW) | {
        f.name for run in runs.values() for f in fields_of(run["method"], run) if f.name in COMMON
    }


def with_common(runs: dict[str, Run], common: Run) -> dict[str, Run]:
    """The runs with those of the common settings that each of them has."""
    return {
        label: {f.name: common[f.name] for f in fields_of(run["method"], run) if f.name in common}
        | run
        for label, run in runs.items()
    }


def proposers_of(pair: str) -> list[str]:
    """The proposers that a pair has, as far as is known unloaded."""
    feature = pair in PAIRS and PAIRS[pair].feature is not None
    return [
        name
        for name, proposer in PROPOSERS.items()
        if (has_draft(pair) or not proposer.needs_draft) and (feature or not proposer.needs_feature)
    ]


def _own_runs(pair: str) -> dict[str, Run]:
    """The page's own runs for a pair."""
    return default_runs(pair, has_draft(pair))


def presets(say: Words, proposers: Sequence[str] = tuple(PROPOSERS)) -> dict[str, tuple[str, Run]]:
    """What can be added: shown name -> (label, run). Every method, and every method with another
    rule or another one of the proposers."""
    found: dict[str, tuple[str, Run]] = {}
    for method in METHODS:
        title = name_of(method, say)
        found[title] = (method, DEFAULT_RUNS.get(method, {"method": method}))
        for field in own_fields({"method": method}):
            if field.name not in ("verifier", "proposer"):
                continue
            for choice in field.metadata["choices"]:
                if choice != field.default and (field.name == "verifier" or choice in proposers):
                    shown = say.known(f"{field.name}.{choice}", str(choice).replace("_", " "))
                    run = {"method": method, field.name: choice}
                    found[f"{title} · {shown}"] = (str(choice), run)
    return found


def name_of(label: str, say: Words) -> str:
    """A label as a title; a method's name as the language has it."""
    text = label.replace("_", " ")
    return say.known(f"name.{label}", text[:1].upper() + text[1:])
