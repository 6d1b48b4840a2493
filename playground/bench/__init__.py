"""What `python -m playground bench` measures: our loops beside transformers' own, on one machine.

Everything that is compared runs in turn within one repeat, so that a drift of the machine hits all
alike; a figure is the median over repeats, and its spread goes from the slowest repeat to the
fastest. A lap is all prompts once: tokens and seconds are summed before they are divided. Our
seconds are those of decoding; the traces that the page shows are made off that clock, and
`wall_tokens_per_s` counts them, too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from playground import machine
from playground.bench.beams import beams
from playground.bench.laps import BUDGET, TEMPERATURE, Bench, Row
from playground.bench.precision import precision
from playground.bench.solver import solver
from playground.bench.speed import speed
from playground.catalog import ASSETS

PARTS = ("speed", "beams", "precision", "solver")


def run(bench: Bench, parts: Sequence[str]) -> dict[str, Any]:
    """The record of all `parts`: machine, versions, and a list of rows for each part."""
    record: dict[str, Any] = {"setup": setup(bench)}
    if "speed" in parts:
        record |= speed(bench)
    if "beams" in parts:
        record["beams"] = beams(bench)
    if "precision" in parts:
        record["precision"] = precision(bench)
    if "solver" in parts:
        record["solver"] = solver(bench)
    return record


def setup(bench: Bench) -> Row:
    """What the figures depend on."""
    return {
        "pair": bench.pair.name,
        "precision": bench.pair.precision,
        **machine.facts(bench.pair.device),
        "prompts": len(bench.prompts),
        "max_new_tokens": bench.max_new_tokens,
        "repeats": bench.repeats,
        "temperature": TEMPERATURE,
        "divergence_budget": BUDGET,
    }


def prompts_for(name: str | None, chat: bool) -> list[str]:
    """The embedded bench prompts of a pair; another pair gets those of its kind."""
    known = json.loads((ASSETS / "prompts" / "bench.json").read_text(encoding="utf-8"))
    return list(known.get(name or "", known["chat" if chat else "translate"]))
