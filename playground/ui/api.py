"""The page's HTTP endpoints. Their names, arguments and records are stable; see README.

They take the same requests through the same checks as the page and return the same strict-JSON
records as the library. Docstrings and types become the endpoint's (and an MCP tool's) schema.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import gradio as gr
from gradio.events import api

from playground.catalog import has_draft, page_pairs, shown
from playground.compare import Comparison
from playground.mentored import solve as solve_optimum
from playground.params import fail
from playground.session import Plan, check, last_of, on_one_core, prepare, run_plan
from playground.types import DecodeResult, to_json
from playground.ui.operations import log_run, new_id
from playground.ui.requests import (
    CompareRequest,
    as_record,
    check_bool,
    check_prompt,
    check_work,
    pair_named,
    refusals,
    request_from_api,
)
from playground.ui.sweeps import ONE_SWEEP, sweep_endpoint
from playground.ui.worker import PageSettings, Worker
from playground.ui.zerogpu import seconds_of

_MAX_LAW = 100_000  # entries of a distribution that /solve takes


def add_endpoints(worker: Worker, model_queue: str) -> None:
    """Register the public endpoints in the current Blocks."""
    heavy: dict[str, Any] = {"concurrency_id": model_queue, "concurrency_limit": 1}
    light: dict[str, Any] = {"concurrency_limit": None}
    api(_compare(worker), api_name="compare", **heavy)
    api(_decode(worker), api_name="decode", **heavy)
    api(_solve(), api_name="solve", **light)
    api(_pairs(worker), api_name="pairs", **light)
    api(sweep_endpoint(worker), api_name="sweep", **ONE_SWEEP)


def _compare(worker: Worker) -> Callable[..., Any]:
    def compare(
        prompt: str,
        runs: dict[str, Any] | None = None,
        max_new_tokens: int = 64,
        temperature: float = 0.7,
        seed: int | None = 0,
        params: dict[str, Any] | None = None,
        repeats: int = 1,
        raw: bool = False,
        pair: str | None = None,
        reference_text: str | None = None,
        request: gr.Request = None,  # type: ignore[assignment]  # Gradio fills it in
    ) -> dict[str, Any]:
        """Run several decoding methods on one prompt, one at a time, and compare them.

        Args:
            prompt: Text, to which the pair's chat template is applied unless raw is true.
            runs: {label: {"method": name, ...settings}}; null takes five of the methods.
            max_new_tokens: Most new tokens of a run.
            temperature: Divides the logits; 0 always takes the most probable token.
            seed: Same seed and settings, same output; null picks a fresh one.
            params: Further settings, for every run that has them, such as {"top_p": 0.9}.
            repeats: Time every run this often and report the median.
            raw: Leave the chat template out.
            pair: A name of /pairs, loaded on demand; null takes the one that the page starts with.
            reference_text: A right answer, to score every text by BLEU and chrF; null for none.

        Returns:
            Prompt, baseline, results by label, seconds, and rows with all metrics.
        """
        common = {"max_new_tokens": max_new_tokens, "temperature": temperature, "seed": seed}
        settings = worker.settings
        with refusals(), worker.request(request.session_hash) as stop:
            name = pair_named(pair, settings)
            wanted = request_from_api(
                prompt,
                runs,
                common,
                params,
                repeats=repeats,
                raw=raw,
                reference_text=reference_text,
                settings=settings,
            )
            wanted.check(settings, has_draft(name))  # before another pair is loaded for it
            work = partial(_compared, wanted, settings, stop)
            return worker.call(name, work, stop, partial(wanted.gpu_seconds, settings))

    return compare


def _compared(
    wanted: CompareRequest, settings: PageSettings, stop: threading.Event, pair: Any
) -> dict[str, Any]:
    """On the model's thread: the record of a checked comparison."""
    plans = wanted.plans(pair, settings)
    _, last = last_of(wanted.events(pair, plans, settings, stop))
    if not isinstance(last, Comparison):
        raise ValueError("The comparison was stopped.")
    return last.to_dict()


def _decode(worker: Worker) -> Callable[..., Any]:
    def decode(
        prompt: str,
        method: str = "speculative",
        params: dict[str, Any] | None = None,
        raw: bool = False,
        pair: str | None = None,
        request: gr.Request = None,  # type: ignore[assignment]  # Gradio fills it in
    ) -> dict[str, Any]:
        """Run one decoding method on a prompt.

        Args:
            prompt: Text, to which the pair's chat template is applied unless raw is true.
            method: sample, greedy, beam, diverse_beam, exact, speculative or mentored.
            params: The method's settings, such as {"max_new_tokens": 32, "seed": 0}.
            raw: Leave the chat template out.
            pair: A name of /pairs, loaded on demand; null takes the one that the page starts with.

        Returns:
            The run: token ids, text, why it ended, a trace of every token, and metrics.
        """
        settings = worker.settings
        with refusals(), worker.request(request.session_hash) as stop:
            name = pair_named(pair, settings)
            check_prompt(prompt, settings)
            check_bool("raw", raw)
            given = as_record("params", params)
            check_work([check(method, given).flat()], 1, settings)

            planned = partial(_planned, prompt, method, given, raw)
            work = partial(_decoded, planned, settings.deadline_s, stop)

            def seconds(loaded: Any) -> float:
                return seconds_of([planned(loaded)], 1, settings.deadline_s)

            return worker.call(name, work, stop, seconds)

    return decode


def _planned(prompt: Any, method: str, params: dict[str, Any], raw: bool, pair: Any) -> Plan:
    return prepare(pair, prompt, method, params, raw=raw)


def _decoded(
    planned: Callable[[Any], Plan], deadline_s: float, stop: threading.Event, pair: Any
) -> dict[str, Any]:
    """On the model's thread: the record of a checked run."""
    last = last_of(run_plan(planned(pair), stop.is_set, deadline_s))
    assert isinstance(last.result, DecodeResult)
    log_run(new_id(), "/decode", last.result)
    return last.result.to_dict()


def _solve() -> Callable[..., Any]:
    def solve(
        target_probs: list[float],
        draft_probs: list[float],
        budget: float = 0.2,
        divergence: str = "kl",
        keep_support: bool = True,
    ) -> dict[str, Any]:
        """The acceptance rule that accepts most draft tokens within a divergence budget.

        Args:
            target_probs: The target's distribution, a list that sums to 1.
            draft_probs: The draft's distribution over the same tokens.
            budget: D, how far the output may depart from the target, in nats for kl; 0 is lossless.
            divergence: kl, reverse_kl, js, hellinger, chi2 or tv.
            keep_support: Never accept a token that the target excludes.

        Returns:
            alpha, beta, acceptance, divergence_spent; accept, residual and output distributions.
        """
        with refusals():
            for name, law in (("target_probs", target_probs), ("draft_probs", draft_probs)):
                _check_law(name, law)
            number = isinstance(budget, (int, float)) and not isinstance(budget, bool)
            if not number or not math.isfinite(budget):
                raise fail("budget", budget, "a number of at least 0")
            check_bool("keep_support", keep_support)
            laws = (target_probs, draft_probs)
            best = on_one_core(lambda: solve_optimum(*laws, budget, divergence, keep_support))
            return best.to_dict()

    return solve


def _check_law(name: str, law: Any) -> None:
    """A flat list of numbers of bearable length; the rest is the solver's own check."""
    if not isinstance(law, list) or not 1 <= len(law) <= _MAX_LAW:
        found = f"{len(law)} numbers" if isinstance(law, list) else law
        raise fail(name, found, f"a list of 1 to {_MAX_LAW} numbers")
    for value in law:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise fail(name, value, "numbers only")


def _pairs(worker: Worker) -> Callable[..., Any]:
    def pairs() -> list[dict[str, Any]]:
        """The model pairs that this page offers, and the state of the one it serves.

        Returns:
            A record a pair: name, title, models, license, and status where it is in memory, on its
            way there, or could not be loaded.
        """
        found = []
        for spec in page_pairs():
            status = worker.status(spec.name)
            known = None if status.state == "absent" else to_json(status)
            found.append(to_json(shown(spec)) | {"status": known})
        return found

    return pairs
