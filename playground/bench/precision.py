"""Every precision: how fast a forward is, and how far its law is from that of fp32."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from playground.bench.laps import TEMPERATURE, Bench, Row
from playground.cache import forced_logits
from playground.models import ModelPair
from playground.sampling import Clock

_ROWS = (1, 2, 3, 4, 5, 6, 8, 16)  # new tokens in one forward


def precision(bench: Bench) -> list[Row]:
    """Every precision: ms of a forward over k new tokens, and how far its law is from fp32's on
    text that the pair wrote itself (temperature 1, teacher-forced)."""
    sample = bench.ours("sample", {"temperature": TEMPERATURE})
    texts = [(r.prompt_ids, r.token_ids) for r in sample(0, bench.prompts).results]
    reference: list[Tensor] = []
    rows = []
    for name in ("fp32", "bf16", "int8"):
        try:
            pair = bench.load(name)
        except ValueError as error:  # int8 serves only some pairs
            bench.note(str(error))
            continue
        laws = [_log_laws(pair, prompt, new) for prompt, new in texts]
        reference = reference or laws
        rows.append({"precision": name, **_forward_ms(bench, pair), **_distance(reference, laws)})
    return rows


@torch.inference_mode()
def _log_laws(pair: ModelPair, prompt: list[int], new: list[int]) -> Tensor:
    """Log-probabilities [n, V] of the target at every new token, passes of four tokens each."""
    state = pair.open(pair.target, prompt)
    rows = forced_logits(state, pair.prefix(prompt), new, 4)
    return torch.cat(list(rows)).float().log_softmax(-1)


def _distance(reference: Sequence[Tensor], laws: Sequence[Tensor]) -> Row:
    p, q = torch.cat(list(reference)), torch.cat(list(laws))
    return {
        "positions": len(p),
        "mean_kl": float(F.kl_div(q, p, log_target=True, reduction="none").sum(-1).mean()),
        "agreement": float((p.argmax(-1) == q.argmax(-1)).double().mean()),
    }


@torch.inference_mode()
def _forward_ms(bench: Bench, pair: ModelPair) -> Row:
    """ms of a target pass over k new tokens behind the longest prompt, and of a draft step."""
    ids = max((pair.encode(prompt) for prompt in bench.prompts), key=len)
    found = {f"k{k}": _pass_ms(pair, pair.target, ids, k, bench.repeats) for k in _ROWS}
    if pair.draft is not None:
        found["draft"] = _pass_ms(pair, pair.draft, ids, 1, bench.repeats)
    return found


def _pass_ms(pair: ModelPair, model: Any, ids: list[int], count: int, repeats: int) -> float:
    state = pair.open(model, ids)
    prefix = pair.prefix(ids)
    state.prefill(prefix)
    new = torch.tensor([(ids * count)[:count]])
    clock, times = Clock(pair.device), []
    for _ in range(3 + 5 * repeats):
        start = clock.now()
        state.forward(new)
        times.append(clock.now() - start)
        state.rollback(len(prefix))
    return 1000 * statistics.median(times[3:])
