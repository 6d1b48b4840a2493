"""A sweep as a visitor or a caller asks for it, checked against every bound, and its endpoint."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import gradio as gr

from playground.arguments import parameters
from playground.catalog import has_draft
from playground.datasets import Dataset, Example, dataset_of, embedded, load_dataset
from playground.params import check as check_value
from playground.params import fail, lookup
from playground.session import check
from playground.sweep.grid import METHODS, configurations, grid
from playground.ui.requests import (
    as_record,
    check_bool,
    check_limit,
    check_prompt,
    pair_named,
    refusals,
)
from playground.ui.sweeping import SWEEP_ENDPOINT, SweepRequest, run_sweep
from playground.ui.worker import PageSettings, Worker

# The queue of sweeps, apart from that of single runs.
ONE_SWEEP: dict[str, Any] = {"concurrency_id": "sweep", "concurrency_limit": 1}
MAX_FILE_BYTES = 2_000_000
FILE_TYPES = (".jsonl", ".csv", ".tsv", ".txt")
_MAX_PROMPTS, _MAX_CONFIGS = 1000, 64


def read_upload(path: str) -> list[Example]:
    """The examples of an uploaded file, which Gradio has put at `path`, in the file's own order.

    Raises ValueError, with the line where one is at fault, that names the file and not its folder.
    """
    file = Path(path)
    if file.suffix.lower() not in FILE_TYPES:
        raise fail("dataset", file.name, f"a file that ends in {', '.join(FILE_TYPES)}")
    if file.stat().st_size > MAX_FILE_BYTES:
        found = f"{file.name}: {file.stat().st_size:,} bytes"
        raise fail("dataset", found, f"a file of at most {MAX_FILE_BYTES:,} bytes")
    try:
        return list(load_dataset(path).examples)
    except ValueError as error:
        raise ValueError(str(error).replace(path, file.name)) from None


def named_dataset(dataset: Any, limit: Any, seed: int) -> Dataset:
    """An embedded set by name, or records {"prompt": ...}; never a path, never a set of the Hub."""
    if isinstance(dataset, list):
        if not 1 <= len(dataset) <= _MAX_PROMPTS:
            raise fail("dataset", f"{len(dataset)} records", f"from 1 to {_MAX_PROMPTS} records")
        return dataset_of(dataset, limit=limit, seed=seed)
    known = {name: name for name in embedded()}
    name = lookup(known, dataset, "dataset")
    if isinstance(limit, int):
        return _embedded(name, limit, seed)
    return load_dataset(name, limit=limit, seed=seed)


@lru_cache(maxsize=32)
def _embedded(name: str, limit: int, seed: int) -> Dataset:
    """The form asks for the same ones at every change."""
    return load_dataset(name, limit=limit, seed=seed)


def check_seed(seed: Any) -> int:
    """A sweep can be repeated, so its seed is a number."""
    if seed is None:
        raise fail("seed", seed, "a whole number: a sweep can be repeated")
    return int(check_value(parameters()["seed"].source, seed))


def sweep_request(
    settings: PageSettings,
    *,
    pair: Any,
    dataset: Dataset,
    runs: dict[str, dict[str, Any]],
    common: dict[str, Any],
    seed: int,
    raw: bool = False,
    command: str = "",
) -> SweepRequest:
    """The sweep of these runs over these prompts. Raises ValueError for what this page refuses."""
    check_bool("raw", raw)
    name = pair_named(pair, settings)
    if not 1 <= len(runs) <= _MAX_CONFIGS:
        raise fail("runs", f"{len(runs)} configurations", f"from 1 to {_MAX_CONFIGS}")
    configs, law = configurations(runs, common, has_draft(name))
    for example in dataset.examples:
        check_prompt(example.prompt, settings)
    for config in configs:
        check_limit(check(config.method, config.params).flat()["max_new_tokens"], settings)
    asked = SweepRequest(name, dataset, configs, law, seed, raw, command)
    if asked.tokens() > settings.max_work:
        raise ValueError(
            f"limit: {len(dataset.examples)} prompts × {len(configs)} configurations × their "
            f"tokens are {asked.tokens():,} tokens; this page allows {settings.max_work:,}. Take "
            "fewer of them, or use the command line."
        )
    return asked


def sweep_endpoint(worker: Worker) -> Callable[..., Any]:
    """The function behind /sweep."""

    def sweep(
        dataset: str | list[dict[str, Any]],
        methods: list[str] | None = None,
        draft_lengths: list[int] | None = None,
        budgets: list[float] | None = None,
        rules: list[str] | None = None,
        limit: int = 4,
        max_new_tokens: int = 64,
        temperature: float = 0.7,
        seed: int = 0,
        vary: dict[str, Any] | None = None,
        params: dict[str, Any] | None = None,
        draft_alone: bool = False,
        raw: bool = False,
        pair: str | None = None,
        request: gr.Request = None,  # type: ignore[assignment]  # Gradio fills it in
    ) -> dict[str, Any]:
        """Run every combination of methods and settings over many prompts, and sum them up.

        Args:
            dataset: The name of a set of the project, such as verses, or a list of records
                {"prompt": ..., "reference": ...}; references give BLEU and chrF.
            methods: Some of the methods; null takes sample, speculative and mentored.
            draft_lengths: Numbers of draft tokens, such as [3, 5].
            budgets: Budgets D of the mentored rule, in nats.
            rules: Rules of the method speculative, such as ["exact", "lenience"].
            limit: So many prompts, chosen by the seed.
            max_new_tokens: Most new tokens of a run.
            temperature: Divides the logits; 0 always takes the most probable token.
            seed: Every prompt's seed follows from it.
            vary: Values of any other setting, such as {"lenience": [0.9, 0.5]}.
            params: Further settings, for every run that has them, such as {"top_p": 0.9}.
            draft_alone: Also sample from the draft model.
            raw: Leave the chat template out.
            pair: A name of /pairs, loaded on demand; null takes the one that the page starts with.

        Returns:
            summary: a record a configuration, with intervals; rows: one a run; record: machine,
            versions, configurations; complete: false where time ran out first.
        """
        lists = {"num_draft_tokens": draft_lengths, "divergence_budget": budgets, "verifier": rules}
        common = {"max_new_tokens": max_new_tokens, "temperature": temperature}
        with refusals(), worker.request(request.session_hash) as stop:
            asked = sweep_request(
                worker.settings,
                pair=pair,
                dataset=named_dataset(dataset, limit, check_seed(seed)),
                runs=_grid(methods, lists, vary, draft_alone),
                common=common | as_record("params", params),
                seed=check_seed(seed),
                raw=raw,
                command=SWEEP_ENDPOINT,
            )
            *_, ended = run_sweep(worker, asked, stop)
            return ended.result().to_dict() | {"complete": ended.done == ended.total}

    return sweep


def _grid(
    methods: Any, lists: dict[str, Any], vary: Any, draft_alone: Any
) -> dict[str, dict[str, Any]]:
    """The runs of a caller's lists, those left out that are null."""
    check_bool("draft_alone", draft_alone)
    varied = {name: values for name, values in lists.items() if values is not None}
    varied |= as_record("vary", vary)
    return grid(_methods(methods), _checked(varied), draft_alone)


def _methods(methods: Any) -> list[str]:
    if methods is None:
        return list(METHODS)
    if not isinstance(methods, list) or not all(isinstance(name, str) for name in methods):
        raise fail("methods", methods, "a list of names of methods")
    return methods


def _checked(varied: dict[str, Any]) -> dict[str, list[Any]]:
    """Lists of values by parameter, every value one that the parameter may have."""
    found = {}
    for name, values in varied.items():
        source = lookup(parameters(), name, "vary").source
        if not isinstance(values, list):
            raise fail(name, values, "a list of values")
        found[name] = [check_value(source, value) for value in values]
    return found
