"""The page's HTTP endpoints. Their names, arguments and records are stable; see README.

They take the same requests through the same checks as the page and return the same strict-JSON
records as the library. Docstrings and types become the endpoint's (and an MCP tool's) schema.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import gradio as gr
from gradio.events import api

from playground.catalog import page_pairs
from playground.compare import Comparison
from playground.mentored import solve as solve_optimum
from playground.params import fail, lookup
from playground.session import on_one_core, prepare, run_plan
from playground.types import DecodeResult, to_json
from playground.ui.requests import (
    CompareRequest,
    as_record,
    check_bool,
    check_limit,
    check_prompt,
    request_from_api,
)
from playground.ui.strings import ENGLISH
from playground.ui.worker import PageSettings, Unavailable, Worker

_MAX_LAW = 300_000  # entries of a distribution that /solve takes


def add_endpoints(worker: Worker, model_queue: str) -> None:
    """Register the public endpoints in the current Blocks."""
    heavy: dict[str, Any] = {"concurrency_id": model_queue, "concurrency_limit": 1}
    light: dict[str, Any] = {"concurrency_limit": None}
    api(_compare(worker), api_name="compare", **heavy)
    api(_decode(worker), api_name="decode", **heavy)
    api(_solve(), api_name="solve", **light)
    api(_pairs(worker), api_name="pairs", **light)


@contextmanager
def _refusals() -> Iterator[None]:
    """Bad input and a missing pair become one clear line for the caller."""
    try:
        yield
    except Unavailable as error:
        message = ENGLISH("pair.unavailable", reason=error)
        raise gr.Error(message, print_exception=False) from error
    except ValueError as error:
        raise gr.Error(str(error), print_exception=False) from error


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

        Returns:
            Prompt, baseline, results by label, seconds, and rows with all metrics.
        """
        common = {"max_new_tokens": max_new_tokens, "temperature": temperature, "seed": seed}
        settings = worker.settings
        with _refusals(), worker.request(request.session_hash) as stop:
            name = _pair_named(pair, settings)
            wanted = request_from_api(
                prompt, runs, common, params, repeats=repeats, raw=raw, settings=settings
            )
            return worker.call(name, lambda p: _compared(p, wanted, settings, stop), stop)

    return compare


def _pair_named(pair: Any, settings: PageSettings) -> str:
    """The pair that a caller means, one of those that the page offers."""
    if pair is None or pair == settings.pair:
        return settings.pair
    return str(lookup({spec.name: spec.name for spec in page_pairs()}, pair, "pair"))


def _compared(
    pair: Any, wanted: CompareRequest, settings: PageSettings, stop: threading.Event
) -> dict[str, Any]:
    """On the model's thread: the record of a checked comparison."""
    plans = wanted.plans(pair, settings)
    *_, (_, last) = wanted.events(pair, plans, settings, stop)
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
        with _refusals(), worker.request(request.session_hash) as stop:
            name = _pair_named(pair, settings)
            check_prompt(prompt, settings)
            check_bool("raw", raw)
            given = as_record("params", params)
            check_limit(given.get("max_new_tokens"), settings)

            def work(loaded: Any) -> dict[str, Any]:
                plan = prepare(loaded, prompt, method, given, raw=raw)
                check_limit(plan.settings.params.max_new_tokens, settings)
                *_, last = run_plan(plan, stop.is_set, settings.deadline_s)
                assert isinstance(last.result, DecodeResult)
                return last.result.to_dict()

            return worker.call(name, work, stop)

    return decode


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
        with _refusals():
            for name, law in (("target_probs", target_probs), ("draft_probs", draft_probs)):
                _check_law(name, law)
            if (
                isinstance(budget, bool)
                or not isinstance(budget, (int, float))
                or math.isnan(budget)
            ):
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
            found.append(to_json(spec) | {"status": known})
        return found

    return pairs
