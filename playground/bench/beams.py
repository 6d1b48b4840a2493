"""What beams cost: time a token and memory, by width."""

from __future__ import annotations

import statistics

from playground.bench.laps import Bench, Row
from playground.demonstrations.costs import shape_of
from playground.metrics import beam_kv_bytes

_WIDTHS = (1, 2, 4, 8)


def beams(bench: Bench) -> list[Row]:
    """Cost and memory of beam width 1 to 8, beside what the formulas say of the memory."""
    laps = {f"{w}": bench.ours("beam", {"num_beams": w}) for w in _WIDTHS}
    found = bench.race(laps)
    shape = shape_of(bench.pair)
    first = statistics.median(lap.seconds / lap.tokens for lap in found["1"])
    rows = []
    for width in _WIDTHS:
        laps_of = found[f"{width}"]
        cost = statistics.median(lap.seconds / lap.tokens for lap in laps_of)
        largest = max(laps_of[0].results, key=lambda r: r.metrics.kv_bytes or 0)
        steps = largest.metrics.num_target_passes - 1
        prompt = len(bench.pair.prefix(largest.prompt_ids))
        naive, shared = beam_kv_bytes(width, prompt, steps, shape.bytes_per_token if shape else 0)
        rows.append(
            {
                "width": width,
                "ms_per_token": 1000 * cost,
                "over_width_1": cost / first,
                "prompt": prompt,
                "steps": steps,
                "kv_mib": _mib(largest.metrics.kv_bytes),
                "formula_shared_mib": _mib(shared),
                "kv_naive_mib": _mib(largest.metrics.kv_bytes_naive),
                "formula_naive_mib": _mib(naive),
            }
        )
    return rows


def _mib(count: int | None) -> float | None:
    return count / 2**20 if count else None
