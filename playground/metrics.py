"""Numbers of a run, as pure functions of its trace. Definitions (shown on the page, too):

acceptance_rate: accepted / drafted; tested_acceptance_rate: accepted / tested, where a draft behind
the first rejection was drafted but not tested. Bonus and residual tokens are never "accepted".
tokens_per_target_pass (block efficiency): new tokens / target passes, the prompt's own included.
accepted_per_position[i]: rounds that accept position i / rounds.
tokens_per_s: new ids / total seconds, prefill included; ms_per_token leaves the first token out.
mean/max_divergence: KL(target‖output law) over verified positions, nats; 0 for exact rules,
infinite where a rule gives a token of the target no mass.
mean_reverse_divergence: KL(output law‖target) over new tokens; fidelity: exp(−that), 1 for exact.
target_logprob: mean log-probability of the new tokens under the target's raw temperature-1 law.
agreement: share of positions, up to the end of the shorter text, with the same token as greedy's.
A value that does not exist is None, never NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from playground.types import Metrics, Round, Token


@dataclass(frozen=True, slots=True)
class Timing:
    """Measured parts of a run: seconds (device synchronised) and forward passes."""

    total_s: float
    ttft_s: float | None
    target_s: float
    draft_s: float
    num_target_passes: int
    num_draft_passes: int


def expected_tokens_per_round(acceptance: float, num_draft_tokens: int) -> float:
    """(1 − α^(γ+1)) / (1 − α): Leviathan et al. 2023, eq. 1, i.i.d. acceptance α."""
    if acceptance >= 1.0:
        return num_draft_tokens + 1.0
    return (1.0 - acceptance ** (num_draft_tokens + 1)) / (1.0 - acceptance)


def expected_speedup(acceptance: float, num_draft_tokens: int, draft_cost: float) -> float:
    """Tokens per round over its cost γc + 1, c = draft step / target step: ibid., theorem 3.8."""
    tokens = expected_tokens_per_round(acceptance, num_draft_tokens)
    return tokens / (num_draft_tokens * draft_cost + 1.0)


def per_position_acceptance(rounds: Sequence[Round]) -> list[float] | None:
    """Share of all rounds that accept position i, for i up to the longest draft."""
    longest = max((len(r.draft_ids) for r in rounds), default=0)
    if not longest:
        return None
    return [sum(r.num_accepted > i for r in rounds) / len(rounds) for i in range(longest)]


def draft_cost(rounds: Sequence[Round]) -> float | None:
    """c: a draft step's seconds over a target pass's, the prompt-reading first round left out."""
    steady = [r for r in rounds[1:] if r.draft_ids]
    drafted = sum(len(r.draft_ids) for r in steady)
    target_s = sum(r.target_s for r in steady)
    if not drafted or target_s <= 0:
        return None
    return (sum(r.draft_s for r in steady) / drafted) / (target_s / len(steady))


def round_spans(tokens: Sequence[Token], rounds: Sequence[Round]) -> list[range]:
    """Positions of the tokens that each round committed: what it accepted, and the one that follows
    unless the text ended before it. What no round made, the prompt pass's own token, comes first.
    """
    spans, start = [], int(bool(tokens) and tokens[0].source == "prefill")
    for record in rounds:
        end = start + record.num_accepted
        follows = end < len(tokens) and tokens[end].source != "accepted"
        spans.append(range(min(start, len(tokens)), min(end + follows, len(tokens))))
        start = spans[-1].stop
    return spans


def first_difference(first: Sequence[int], second: Sequence[int]) -> int | None:
    """The first position where two sequences of ids differ, the end of one being a difference;
    None where they are equal."""
    for i, (a, b) in enumerate(zip(first, second, strict=False)):
        if a != b:
            return i
    shorter, longer = sorted((len(first), len(second)))
    return shorter if shorter < longer else None


def agreement(ids: Sequence[int], reference: Sequence[int]) -> float | None:
    """Share of positions with equal ids, up to the end of the shorter; None where one is empty."""
    pairs = list(zip(ids, reference, strict=False))
    return ratio(sum(a == b for a, b in pairs), len(pairs))


def kv_bytes_per_token(layers: int, kv_heads: int, head_dim: int, bytes_per_number: int) -> int:
    """Bytes of one token in a cache: a key and a value for each layer and key-value head."""
    return 2 * layers * kv_heads * head_dim * bytes_per_number


def beam_kv_bytes(width: int, prompt: int, steps: int, bytes_per_token: int) -> tuple[int, int]:
    """Bytes of W beams' keys and values after `steps` tokens behind `prompt` ones: each beam with a
    copy of the prompt, W·(P+t), and all sharing it, P + W·t."""
    naive = width * (prompt + steps)
    return naive * bytes_per_token, (prompt + width * steps) * bytes_per_token


def mean(values: Sequence[float | None]) -> float | None:
    """Mean of the values that exist; None when there are none. Infinite values stay infinite."""
    present = [v for v in values if v is not None]
    return sum(present) / len(present) if present else None


def finite(value: float | None) -> float | None:
    """`value`, or None where it is infinite or does not exist."""
    return value if value is not None and math.isfinite(value) else None


def ratio(part: float, whole: float) -> float | None:
    """part / whole, or None for an empty whole."""
    return part / whole if whole else None


def summarise(
    tokens: Sequence[Token],
    rounds: Sequence[Round],
    timing: Timing,
    *,
    num_draft_tokens: int | None = None,
    kv_bytes: int | None = None,
    kv_bytes_naive: int | None = None,
) -> Metrics:
    """All metrics of one run from its trace and timing."""
    count = len(tokens)
    drafted = sum(len(r.draft_ids) for r in rounds)
    tested = sum(r.num_tested for r in rounds)
    accepted = sum(r.num_accepted for r in rounds)
    cost = draft_cost(rounds)
    verified = [t for t in tokens if t.source in ("accepted", "residual")]
    divergences = [t.divergence for t in verified if t.divergence is not None]
    budgeted = [t.budget_divergence for t in verified if t.budget_divergence is not None]
    reverse = mean([t.reverse_divergence for t in tokens])
    logprob = mean([t.target_logprob for t in tokens])
    rate = ratio(accepted, tested)
    later = timing.total_s - (timing.ttft_s or 0.0)
    return Metrics(
        num_new_tokens=count,
        total_s=timing.total_s,
        ttft_s=timing.ttft_s,
        tokens_per_s=ratio(count, timing.total_s),
        ms_per_token=1000.0 * later / (count - 1) if count > 1 else None,
        num_target_passes=timing.num_target_passes,
        num_draft_passes=timing.num_draft_passes,
        num_drafted=drafted,
        num_tested=tested,
        num_accepted=accepted,
        acceptance_rate=ratio(accepted, drafted),
        tested_acceptance_rate=rate,
        accepted_per_position=per_position_acceptance(rounds),
        drafted_per_round=ratio(drafted, len(rounds)),
        tokens_per_round=ratio(sum(t.source != "prefill" for t in tokens), len(rounds)),
        tokens_per_target_pass=ratio(count, timing.num_target_passes),
        draft_s=timing.draft_s if rounds else None,
        target_s=timing.target_s,
        other_s=max(0.0, timing.total_s - timing.target_s - timing.draft_s),
        draft_cost=cost,
        predicted_speedup=_predicted(rate, num_draft_tokens, cost),
        predicted_speedup_cheap_draft=_predicted(rate, num_draft_tokens, 0.05),
        kv_bytes=kv_bytes or None,
        kv_bytes_naive=kv_bytes_naive or None,
        target_logprob=finite(logprob),
        perplexity=finite(math.exp(-logprob)) if logprob is not None and logprob > -700 else None,
        mean_divergence=mean(divergences),
        max_divergence=max(divergences, default=None),
        mean_budget_divergence=mean(budgeted),
        max_budget_divergence=max(budgeted, default=None),
        mean_reverse_divergence=reverse,
        fidelity=math.exp(-reverse) if reverse is not None else None,
    )


def _predicted(
    rate: float | None, num_draft_tokens: int | None, cost: float | None
) -> float | None:
    if rate is None or num_draft_tokens is None or cost is None:
        return None
    return expected_speedup(rate, num_draft_tokens, cost)
