"""Rows of a sweep, made up: only what the experiments' analyses read."""

from __future__ import annotations

from typing import Any

PLAIN = {
    "model": "target",
    "kind": None,
    "text": "a b c d",
    "finish_reason": "eos",
    "proven": None,
    "num_new_tokens": 10,
    "total_s": 1.0,
    "num_target_passes": 5,
    "num_tested": 10,
    "num_accepted": 5,
    "num_verified": 10,
    "mean_divergence": 0.0,
    "mean_reverse_divergence": 0.0,
    "fidelity": 1.0,
    "target_logprob": -1.0,
}


def row(label: str, prompt: str, method: str, params: Any = None, **values: Any) -> dict[str, Any]:
    """One run of a configuration on a prompt."""
    own = {"label": label, "prompt_id": prompt, "method": method, "params": params or {}}
    return PLAIN | own | values
