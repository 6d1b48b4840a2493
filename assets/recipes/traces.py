"""Record the comparisons that ship with the page: python -m assets.recipes.traces [NAME ...]

Writes assets/traces/NAME.json, on whatever machine this runs; the page shows them as recorded.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from playground import traces
from playground.compare import DEFAULT_COMMON, compare
from playground.models import load_pair
from playground.ui.examples import examples_of
from playground.ui.setup import Setup, to_record

FOLDER = Path(__file__).resolve().parent.parent / "traces"
EXAMPLES = examples_of("chat")
REPEATS = 3  # the median is kept: one hiccup of the machine does not count

SETUPS = {
    "fact": Setup(EXAMPLES["Fact"], repeats=REPEATS),  # what the page starts with
    "story": Setup(
        EXAMPLES["Story"],
        common=DEFAULT_COMMON | {"max_new_tokens": 48},
        runs={
            "sample": {"method": "sample"},
            "diverse beam": {"method": "diverse_beam", "num_beams": 4, "num_return_sequences": 4},
            "speculative": {"method": "speculative"},
            "D 0.1": {"method": "mentored", "divergence_budget": 0.1},
            "D 0.5": {"method": "mentored", "divergence_budget": 0.5},
        },
        repeats=REPEATS,
    ),
    "summary": Setup(
        EXAMPLES["Summary"],
        runs={
            "sample": {"method": "sample"},
            "beam": {"method": "beam", "num_beams": 4, "num_return_sequences": 4},
            "speculative": {"method": "speculative"},
            "prompt lookup": {"method": "speculative", "proposer": "prompt_lookup"},
            "mentored": {"method": "mentored"},
        },
        repeats=REPEATS,
    ),
}


def slim(value: Any) -> Any:
    """Without fields that hold nothing (opening a trace puts them back), six digits a number."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, list):
        return [slim(item) for item in value]
    if isinstance(value, dict):
        return {key: slim(item) for key, item in value.items() if item is not None}
    return value


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or SETUPS:
        setup = SETUPS[name]
        pair = load_pair(setup.pair)
        found = compare(pair, setup.prompt, setup.runs, setup.repeats, **setup.common)
        path = FOLDER / f"{name}.json"
        record = slim(json.loads(traces.dump(found, to_record(setup))))
        text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
        traces.load(text)
        path.write_text(text + "\n", encoding="utf-8")
        speeds = ", ".join(f"{row['label']} {row['tokens_per_s']:.1f}" for row in found.rows())
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB; tokens/s: {speeds}")


if __name__ == "__main__":
    main()
