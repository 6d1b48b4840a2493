"""What a visitor asks for, checked against every bound before any model runs.

The page and the HTTP endpoints go through here, so that a typed or posted value meets the same
limits as a slider's. Every refusal is a ValueError with one clear line.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import gradio as gr

from playground.catalog import page_pairs
from playground.compare import LAW, Comparison, check_answer, check_runs, prepare_all, run_plans
from playground.methods import METHODS, fields_of
from playground.params import fail, lookup
from playground.session import Plan, check
from playground.types import Event
from playground.ui.operations import log_run, new_id
from playground.ui.problems import EXPECTED, problem
from playground.ui.runs import Run
from playground.ui.setup import Setup
from playground.ui.strict import strict_json
from playground.ui.strings import ENGLISH
from playground.ui.worker import PageSettings
from playground.ui.zerogpu import seconds_of

if TYPE_CHECKING:
    from playground.models import ModelPair

_RESERVED = {"pair", "prompt", "runs", "repeats", "raw", "cancelled", "deadline_s"}
_MAX_LABEL = 60  # characters
_MAX_END_TOKENS = 32


@dataclass(frozen=True, slots=True)
class CompareRequest:
    """One comparison as asked for; `plans` says what it comes to, or why it is refused."""

    prompt: str | Sequence[int]
    runs: dict[str, dict[str, Any]] | None = None
    common: dict[str, Any] = field(default_factory=dict)
    repeats: int = 1
    raw: bool = False
    endpoint: str = "page"
    reference_text: str | None = None

    def check(self, settings: PageSettings, has_draft: bool = True) -> None:
        """Raise ValueError for all that can be judged before the pair is loaded: types, ranges,
        lengths in characters, number of runs, work."""
        check_prompt(self.prompt, settings)
        check_bool("raw", self.raw)
        check_answer(self.reference_text)
        if self.runs is not None:
            _check_runs(self.runs, settings)
        for given in (self.common, *(self.runs or {}).values()):
            check_limit(given.get("max_new_tokens"), settings)
        for name in self.common:
            if name in _RESERVED:
                raise ValueError(f"{name}: this is no setting of a run.")
        if isinstance(self.repeats, bool) or self.repeats not in range(1, settings.max_repeats + 1):
            raise fail("repeats", self.repeats, f"a whole number from 1 to {settings.max_repeats}")
        merged, _ = check_runs(self.runs, int(self.repeats), self.common, has_draft)
        values = [check(method, params).flat() for method, params in merged.values()]
        check_work(values, int(self.repeats), settings)

    def plans(self, pair: ModelPair, settings: PageSettings) -> dict[str, Plan]:
        """The checked plan of every run, by label. Raises ValueError naming the bad value."""
        self.check(settings, pair.draft is not None)
        repeats = int(self.repeats)
        return prepare_all(pair, self.prompt, self.runs, repeats, raw=self.raw, **self.common)

    def gpu_seconds(self, settings: PageSettings, pair: ModelPair) -> float:
        """What to reserve where a GPU is lent by the second. Raises ValueError as `plans` does."""
        plans = self.plans(pair, settings)
        return seconds_of(plans.values(), int(self.repeats), settings.deadline_s)

    def events(
        self,
        pair: ModelPair,
        plans: dict[str, Plan],
        settings: PageSettings,
        stop: threading.Event,
    ) -> Iterator[tuple[str, Event | Comparison]]:
        """The events of the comparison that `plans` checked. After a stop no further run begins."""
        limits = (settings.deadline_s, settings.comparison_s)
        given = (pair, self.prompt, plans, int(self.repeats), stop.is_set)
        stream = run_plans(*given, *limits, self.reference_text)
        request = new_id()
        for label, event in stream:
            yield label, event
            if isinstance(event, Comparison) or event.result is None:
                continue
            log_run(request, self.endpoint, event.result)
            if stop.is_set():
                return


@contextmanager
def refusals() -> Iterator[None]:
    """Bad input and a missing pair become one clear line for a caller of an endpoint."""
    try:
        yield
    except EXPECTED as error:
        raise gr.Error(problem(error, ENGLISH), print_exception=False) from error


def pair_named(pair: Any, settings: PageSettings) -> str:
    """The pair that a caller means, one of those that the page offers."""
    if pair is None or pair == settings.pair:
        return settings.pair
    return str(lookup({spec.name: spec.name for spec in page_pairs()}, pair, "pair"))


def work_of(values: dict[str, Any]) -> int:
    """Tokens that the target may have to read for one run, its prompt aside: tokens × beams."""
    tokens = int(values["max_new_tokens"])
    return int(values.get("max_nodes") or tokens * (values.get("num_beams") or 1))


def check_work(runs: Sequence[dict[str, Any]], repeats: int, settings: PageSettings) -> None:
    """Refuse what would keep everybody else waiting. runs: the settings of each, all of them."""
    for values in runs:
        check_limit(values["max_new_tokens"], settings)
        ends = values.get("eos_token_id")
        if isinstance(ends, (list, tuple)) and len(ends) > _MAX_END_TOKENS:
            raise fail("eos_token_id", f"{len(ends)} ids", f"at most {_MAX_END_TOKENS}")
    estimate = repeats * sum(work_of(values) for values in runs)
    if estimate > settings.max_work:
        raise ValueError(
            f"work: {estimate:,} tokens (runs × tokens × beams × repeats) are not allowed; use at "
            f"most {settings.max_work:,}."
        )


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
            value = strict_json(value)
        except ValueError as error:
            raise fail(name, value, f"a JSON object ({error})") from error
    if not isinstance(value, dict):
        raise fail(name, value, "a JSON object")
    return value


def _check_runs(runs: Any, settings: PageSettings) -> None:
    if not isinstance(runs, dict) or not 1 <= len(runs) <= settings.max_runs:
        found = f"{len(runs)} runs" if isinstance(runs, dict) else runs
        raise fail("runs", found, f"from 1 to {settings.max_runs} runs")
    for label, run in runs.items():
        if not label.strip() or len(label) > _MAX_LABEL:
            raise fail("runs", label, f"labels of 1 to {_MAX_LABEL} characters")
        method = run.get("method") if isinstance(run, dict) else None
        if not isinstance(method, str) or method not in METHODS:
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
    common = _common(setup.common, setup.runs)
    answer = setup.reference if isinstance(setup.reference, str) else ""
    return CompareRequest(
        setup.prompt,
        setup.runs,
        common,
        setup.repeats,
        setup.raw,
        reference_text=answer.strip() or None,
    )


def request_from_api(
    prompt: Any,
    runs: Any,
    common: dict[str, Any],
    params: Any,
    *,
    repeats: Any,
    raw: Any,
    reference_text: Any,
    settings: PageSettings,
) -> CompareRequest:
    """The comparison that a caller asks for. `common` goes to the runs that have it; `params`,
    which the caller named, must each fit at least one run."""
    given = as_record("runs", runs) or None
    if given is not None:
        _check_runs(given, settings)
        common = _common(common, given)
    common = common | as_record("params", params)
    return CompareRequest(prompt, given, common, repeats, raw, "/compare", reference_text)
