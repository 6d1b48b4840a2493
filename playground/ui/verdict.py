"""One sentence on whether speculation paid, from the numbers alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from playground.ui import numbers
from playground.ui.runs import name_of
from playground.ui.strings import Words

_NOISE = 0.03  # a speed-up this near to 1 is neither won nor lost


def verdict(rows: Sequence[dict[str, Any]], baseline: str, say: Words) -> str:
    """Did drafting pay, at which acceptance and price; and what a lossy run bought beyond it."""
    if len(rows) < 2:
        return say("verdict.one")
    drafted = [row for row in rows if row.get("num_drafted") and row.get("speedup") is not None]
    if not drafted:
        return say("verdict.none")
    lossless = [row for row in drafted if row["badge"] == "lossless"]
    main = max(lossless or drafted, key=lambda row: row["speedup"])
    plain = next((row for row in rows if row["label"] == baseline), None)
    first = say("verdict.main", outcome=_outcome(main, say), numbers=_numbers(main, say))
    parts = [first, _price(main, plain, say)]
    lossy = [row for row in drafted if row["badge"] == "lossy" and row is not main]
    if lossy:
        parts.append(_lossy(max(lossy, key=lambda row: row["speedup"]), say))
    return say("verdict.joint").join(part for part in parts if part) + say("verdict.end")


def _outcome(row: dict[str, Any], say: Words) -> str:
    if abs(row["speedup"] - 1) <= _NOISE:
        return say("verdict.even")
    return say("verdict.paid" if row["speedup"] > 1 else "verdict.lost")


def _numbers(row: dict[str, Any], say: Words) -> str:
    return say(
        "verdict.numbers",
        speedup=numbers.plain(row["speedup"]),
        accepted=numbers.percent(row.get("acceptance_rate")),
        cost=numbers.plain(row.get("draft_cost")),
    )


def _price(row: dict[str, Any], plain: dict[str, Any] | None, say: Words) -> str:
    """What one round took and gave, in units of the baseline's time for one token."""
    rounds, gain = _rounds(row), row.get("tokens_per_round")
    if not rounds or gain is None or plain is None or not plain.get("ms_per_token"):
        return ""
    step_s = plain["ms_per_token"] / 1000.0
    round_s = (row["total_s"] - (row.get("ttft_s") or 0.0)) / rounds
    return say("verdict.why", gain=numbers.plain(gain), price=numbers.plain(round_s / step_s))


def _rounds(row: dict[str, Any]) -> float:
    per_round = row.get("drafted_per_round")
    return row["num_drafted"] / per_round if per_round else 0.0


def _lossy(row: dict[str, Any], say: Words) -> str:
    params = row.get("params") or {}
    spent = row.get("mean_budget_divergence")
    kind = params.get("divergence", "kl")
    return say(
        "verdict.lossy",
        label=name_of(str(row["label"]), say),
        speedup=numbers.plain(row["speedup"]),
        accepted=numbers.percent(row.get("acceptance_rate")),
        spent=numbers.plain(row.get("mean_divergence") if spent is None else spent),
        unit=say("unit.nats") if kind in ("kl", "reverse_kl", "js") else say(f"divergence.{kind}"),
    )
