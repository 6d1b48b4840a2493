"""What a visitor asks for, checked against every bound before any model runs.

The page and the HTTP endpoints go through here, so that a typed or posted value meets the same
limits as a slider's. Every refusal is a ValueError with one clear line.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from playground.compare import LAW, Comparison, prepare_all, run_plans
from playground.methods import METHODS, fields_of
from playground.params import fail
from playground.session import Plan
from playground.types import Event
from playground.ui.runs import Run
from playground.ui.setup import Setup
from playground.ui.worker import PageSettings

if TYPE_CHECKING:
    from playground.models import ModelPair

_RESERVED = {"pair", "prompt", "runs", "repeats", "raw", "cancelled", "deadline_s"}


@dataclass(frozen=True, slots=True)
class CompareRequest:
    """One comparison as asked for; `plans` says what it comes to, or why it is refused."""

    prompt: str | Sequence[int]
    runs: dict[str, dict[str, Any]] | None = None
    common: dict[str, Any] = field(default_factory=dict)
    repeats: int = 1
    raw: bool = False

    def plans(self, pair: ModelPair, settings: PageSettings) -> dict[str, Plan]:
        """The checked plan of every run, by label. Raises ValueError naming the bad value."""
        check_prompt(self.prompt, settings)
        check_bool("raw", self.raw)
        if self.runs is not None:
            _check_runs(self.runs, settings)
        for given in (self.common, *(self.runs or {}).values()):
            check_limit(given.get("max_new_tokens"), settings)
        for name in self.common:
            if name in _RESERVED:
                raise ValueError(f"{name}: this is no setting of a run.")
        if self.repeats not in range(1, settings.max_repeats + 1):
            raise fail("repeats", self.repeats, f"a whole number from 1 to {settings.max_repeats}")
        plans = prepare_all(
            pair, self.prompt, self.runs, int(self.repeats), raw=self.raw, **self.common
        )
        for plan in plans.values():
            check_limit(plan.settings.params.max_new_tokens, settings)
        return plans

    def events(
        self,
        pair: ModelPair,
        plans: dict[str, Plan],
        settings: PageSettings,
        stop: threading.Event,
    ) -> Iterator[tuple[str, Event | Comparison]]:
        """The events of the comparison that `plans` checked. After a stop no further run begins."""
        repeats, deadline_s = int(self.repeats), settings.deadline_s
        stream = run_plans(pair, self.prompt, plans, repeats, stop.is_set, deadline_s)
        for label, event in stream:
            yield label, event
            if stop.is_set() and not isinstance(event, Comparison) and event.result is not None:
                return


def check_limit(wanted: Any, settings: PageSettings) -> None:
    """Refuse more tokens than this page allows; other faults are the library's to name."""
    if isinstance(wanted, (int, float)) and wanted > settings.max_new_tokens:
        limit = f"a whole number from 1 to {settings.max_new_tokens} on this page"
        raise fail("max_new_tokens", wanted, limit)


def check_prompt(prompt: Any, settings: PageSettings) -> None:
    """A prompt is text or token ids, and not longer than anybody needs."""
    if not isinstance(prompt, (str, list)):
        raise fail("prompt", prompt, "text or a list of token ids")
    if len(prompt) > settings.max_prompt_chars:
        found = f"{len(prompt)} characters" if isinstance(prompt, str) else f"{len(prompt)} ids"
        raise fail("prompt", found, f"at most {settings.max_prompt_chars} characters")


def check_bool(name: str, value: Any) -> None:
    """JSON knows true and false; anything else here is a mistake."""
    if not isinstance(value, bool):
        raise fail(name, value, "true or false")


def as_record(name: str, value: Any) -> dict[str, Any]:
    """A JSON object given as such or as its text; None is an empty one."""
    if value is None or value == "":
        return {}
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise fail(name, value, "a JSON object") from error
    if not isinstance(value, dict):
        raise fail(name, value, "a JSON object")
    return value


def _check_runs(runs: Any, settings: PageSettings) -> None:
    if not isinstance(runs, dict) or not 1 <= len(runs) <= settings.max_runs:
        found = f"{len(runs)} runs" if isinstance(runs, dict) else runs
        raise fail("runs", found, f"from 1 to {settings.max_runs} runs")
    for label, run in runs.items():
        if not isinstance(run, dict) or run.get("method") not in METHODS:
            names = ", ".join(METHODS)
            raise fail("runs", {label: run}, f'{{"method": one of {names}, ...}} for every label')


def _common(values: dict[str, Any], runs: dict[str, Run]) -> dict[str, Any]:
    """Those settings that at least one of the runs has, or that fidelity is measured against."""
    names = {f.name for run in runs.values() for f in fields_of(run["method"], {**values, **run})}
    return {name: value for name, value in values.items() if name in names or name in LAW}


def request_from_page(setup: Setup) -> CompareRequest:
    """The comparison that the page asks for."""
    if not setup.runs:
        raise ValueError("runs: none is selected; select at least one.")
    return CompareRequest(
        setup.prompt, setup.runs, _common(setup.common, setup.runs), setup.repeats, setup.raw
    )


def request_from_api(
    prompt: Any,
    runs: Any,
    common: dict[str, Any],
    params: Any,
    *,
    repeats: Any,
    raw: Any,
    settings: PageSettings,
) -> CompareRequest:
    """The comparison that a caller asks for. `common` goes to the runs that have it; `params`,
    which the caller named, must each fit at least one run."""
    given = as_record("runs", runs) or None
    if given is not None:
        _check_runs(given, settings)
        common = _common(common, given)
    return CompareRequest(prompt, given, common | as_record("params", params), repeats, raw)
