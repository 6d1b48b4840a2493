"""Small finished runs, made by hand, for the tests of what the page shows."""

from __future__ import annotations

from typing import Any

from playground.methods import method_named, parse
from playground.types import DecodeResult, Metrics, Token

TOKENS = (
    Token(1, "The", "prefill", target_prob=0.5),
    Token(2, " sky", "accepted", None, 0.4, 0.3, 1.0, 1.0, 0.2),
    Token(3, " <b>", "accepted", None, 0.2, 0.5, 0.9, 0.4, 0.6, divergence=0.1),
    Token(4, "\n", "residual", None, 0.1, 0.0, 0.0, 0.0, 0.5, drafted_id=9, divergence=0.2),
    Token(5, "  ", "bonus", target_prob=0.9),
    Token(6, "", "sampled", special="<|end|>", target_prob=0.8),
)


def result(method: str = "mentored", **params: Any) -> DecodeResult:
    """A finished run whose text is full of what could go wrong."""
    settings = parse(method, params)
    return DecodeResult(
        method=method,
        params=settings.flat(),
        prompt_ids=[1],
        token_ids=[t.token_id for t in TOKENS],
        text="".join(t.text or "" for t in TOKENS),
        finish_reason="eos",
        tokens=TOKENS,
        rounds=(),
        beams=(),
        metrics=Metrics(
            num_new_tokens=6,
            total_s=0.5,
            ttft_s=0.05,
            tokens_per_s=12.0,
            ms_per_token=90.0,
            num_target_passes=3,
            num_drafted=4,
            acceptance_rate=0.5,
            drafted_per_round=2.0,
            tokens_per_round=2.5,
            tokens_per_target_pass=2.0,
            draft_cost=0.1,
            mean_divergence=0.15,
            mean_budget_divergence=0.15,
            fidelity=0.8,
        ),
        badge=method_named(method).badge(settings),
    )


def row(label: str, method: str = "sample", **values: Any) -> dict[str, Any]:
    """A row of `Comparison.rows()` with the keys that the page reads."""
    base = {
        "label": label,
        "method": method,
        "badge": "sampled",
        "finish_reason": "length",
        "speedup": 1.0,
        "num_repeats": 1,
        "num_new_tokens": 10,
        "params": {"seed": 0},
        "tokens_per_s": 20.0,
        "total_s": 0.5,
        "ttft_s": 0.1,
        "ms_per_token": 50.0,
        "num_drafted": 0,
        "fidelity": 1.0,
    }
    return base | values
