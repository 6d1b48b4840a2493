"""`python -m tests.load.soak`: many runs in one process, and whether its memory grows.

Runs of every method on the chat pair, in turn and by seeds that all differ, through the page's own
worker and checks. The first runs warm up; then the process's resident memory is looked
at after every third run. Growth is the median of the last fifth of these figures over that of the
first. Exits 1 where it is 2 % or more.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import threading
from functools import partial
from typing import Any

import psutil

from playground.compare import Comparison
from playground.ui.requests import CompareRequest
from playground.ui.worker import PageSettings, Worker

LIMIT = 0.02
KINDS: list[dict[str, Any]] = [
    {"method": "sample"},
    {"method": "greedy"},
    {"method": "beam", "num_beams": 4},
    {"method": "diverse_beam", "num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5},
    {"method": "speculative", "num_draft_tokens": 2},
    {"method": "speculative", "proposer": "prompt_lookup"},
    {"method": "mentored", "num_draft_tokens": 2, "divergence_budget": 0.2},
]
WARM_UP = 3 * len(KINDS)
PROMPTS = ("Name a colour.", "Why is the sky blue?", "Tell me a story about a fox and a crow.")


def soak(pair: str, runs: int, tokens: int) -> dict[str, Any]:
    """Figures of a number of runs after the warm-up: resident MiB and what they grew by."""
    worker = Worker(PageSettings(pair=pair))
    process, seen = psutil.Process(), []
    for number in range(WARM_UP + runs):
        run, prompt = KINDS[number % len(KINDS)], PROMPTS[number % len(PROMPTS)]
        limits = {"max_new_tokens": tokens, "seed": number}
        asked = CompareRequest(prompt, {"run": {**run, **limits}})
        work = partial(run_once, asked, worker.settings)
        assert worker.call(pair, work, threading.Event()) > 0
        if number >= WARM_UP and number % 3 == 0:
            gc.collect()
            seen.append(process.memory_info().rss / 2**20)
    worker.close()
    part = max(1, len(seen) // 5)
    first, last = statistics.median(seen[:part]), statistics.median(seen[-part:])
    return {
        "pair": pair,
        "runs": runs,
        "tokens": tokens,
        "first_mib": round(first, 1),
        "last_mib": round(last, 1),
        "most_mib": round(max(seen), 1),
        "growth": round(last / first - 1, 4),
    }


def run_once(asked: CompareRequest, settings: PageSettings, pair: Any) -> int:
    """New tokens of a comparison of one run, whose record is made and dropped, as in a request."""
    plans = asked.plans(pair, settings)
    *_, (_, last) = asked.events(pair, plans, settings, threading.Event())
    assert isinstance(last, Comparison)
    return int(last.to_dict()["rows"][0]["num_new_tokens"])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.load.soak", description=__doc__)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--pair", default="chat")
    parser.add_argument("--tokens", type=int, default=48)
    options = parser.parse_args()
    figures = soak(options.pair, options.runs, options.tokens)
    print(json.dumps(figures))
    return 1 if figures["growth"] >= LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())
