"""Record the comparisons that ship with the page: python -m assets.recipes.traces [NAME ...]

Writes assets/traces/NAME.json, on whatever machine this runs; the page shows them as recorded. A
lesson's own, in assets/traces/lessons, keeps tokens and their probabilities, no more.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

from playground import traces
from playground.compare import DEFAULT_COMMON, Comparison, compare
from playground.models import load_pair
from playground.types import DecodeResult
from playground.ui.examples import examples_of
from playground.ui.learn import repetition
from playground.ui.setup import Setup, to_record

FOLDER = Path(__file__).resolve().parent.parent / "traces"
EXAMPLES = examples_of("chat")
FEATURE = {"proposer": "feature", "num_draft_tokens": 2}
REPEATS = 3  # the median is kept: one hiccup of the machine does not count

SETUPS = {
    "fact": Setup(EXAMPLES["Fact"], repeats=REPEATS),  # what the page starts with
    "story": Setup(
        EXAMPLES["Story"],
        common=DEFAULT_COMMON | {"max_new_tokens": 48},
        runs={
            "sample": {"method": "sample"},
            "diverse beam": {"method": "diverse_beam", "num_beams": 4, "num_return_sequences": 4},
            "speculative": {"method": "speculative", **FEATURE},
            "D 0.1": {"method": "mentored", "divergence_budget": 0.1, **FEATURE},
            "D 0.5": {"method": "mentored", "divergence_budget": 0.5, **FEATURE},
        },
        repeats=REPEATS,
    ),
    "summary": Setup(
        EXAMPLES["Summary"],
        runs={
            "sample": {"method": "sample"},
            "beam": {"method": "beam", "num_beams": 4, "num_return_sequences": 4},
            "speculative": {"method": "speculative", **FEATURE},
            "prompt lookup": {"method": "speculative", "proposer": "prompt_lookup"},
            "mentored": {"method": "mentored", **FEATURE},
        },
        repeats=REPEATS,
    ),
}
LESSONS = {repetition.RECORD: repetition.SETUP}


def bare(result: DecodeResult) -> DecodeResult:
    """Without what could have been written instead."""
    tokens = tuple(dataclasses.replace(token, alternatives=()) for token in result.tokens)
    return dataclasses.replace(result, tokens=tokens, steps=(), beams=())


def slim(value: Any) -> Any:
    """Without fields that hold nothing (opening a trace puts them back), six digits a number."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, list):
        return [slim(item) for item in value]
    if isinstance(value, dict):
        return {key: slim(item) for key, item in value.items() if item is not None}
    return value


def write(path: Path, found: Comparison, setup: Setup) -> None:
    """The trace as a file, once it has been opened again."""
    record = slim(json.loads(traces.dump(found, to_record(setup))))
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    traces.load(text)
    path.parent.mkdir(exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")
    speeds = ", ".join(f"{row['label']} {row['tokens_per_s']:.1f}" for row in found.rows())
    print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB; tokens/s: {speeds}")


def main() -> None:
    setups = {FOLDER / f"{name}.json": setup for name, setup in SETUPS.items()} | LESSONS
    wanted = sys.argv[1:] or [path.stem for path in setups]
    for path, setup in setups.items():
        if path.stem not in wanted:
            continue
        pair = load_pair(setup.pair)
        found = compare(
            pair, setup.prompt, setup.runs, setup.repeats, raw=setup.raw, **setup.common
        )
        if path in LESSONS:
            results = {label: bare(result) for label, result in found.results.items()}
            found = dataclasses.replace(found, results=results)
        write(path, found, setup)


if __name__ == "__main__":
    main()
