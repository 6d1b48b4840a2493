"""The draft model of a pair as a model of its own, and what the target makes of its text."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch

from playground.cache import Model, forced_logits
from playground.contracts import KVState
from playground.models import ModelPair
from playground.sampling import Constraints
from playground.types import DecodeResult


class DraftAlone(ModelPair):
    """A pair's draft in the place of the target, under the target's own ends and bans."""

    def __init__(self, pair: ModelPair) -> None:
        self._pair = pair
        name = f"{pair.name} (draft alone)" if pair.name else None
        super().__init__(pair.draft, None, pair.tokenizer, name=name, lean=False)
        self.int8 = pair.int8

    def open(
        self,
        model: Model | None,
        prompt_ids: Sequence[int],
        encoded: dict[int, torch.Tensor] | None = None,
    ) -> KVState:
        return self._pair.open(model, prompt_ids, encoded)  # on the same, perhaps lean, weights

    def eos_ids(self) -> frozenset[int]:
        return self._pair.eos_ids()

    def constraints(self, prompt_ids: Sequence[int] = ()) -> Constraints:
        return self._pair.constraints(prompt_ids)

    def notes(self) -> list[str]:
        return self._pair.notes()


def judged(pair: ModelPair, result: DecodeResult) -> DecodeResult:
    """A run of the draft alone with the numbers that refer to the target: the log-likelihood of its
    tokens; no passes of it; and no law at a step, so no fidelity."""
    metrics = dataclasses.replace(
        result.metrics,
        num_draft_passes=result.metrics.num_target_passes,
        num_target_passes=0,
        tokens_per_target_pass=None,
        target_logprob=target_logprob(pair, result.prompt_ids, result.token_ids),
        perplexity=None,
        mean_reverse_divergence=None,
        fidelity=None,
    )
    return dataclasses.replace(result, metrics=metrics, badge="lossy")


@torch.inference_mode()
def target_logprob(pair: ModelPair, prompt_ids: Sequence[int], ids: Sequence[int]) -> float | None:
    """Mean log-probability of ids under the target's raw temperature-1 law, by one pass over them.
    None where there are no ids."""
    if not ids:
        return None
    with pair.lock:
        state = pair.open(pair.target, prompt_ids)
        logits = list(forced_logits(state, pair.prefix(prompt_ids), ids, len(ids)))
    laws = torch.cat(logits).float().log_softmax(-1)
    chosen = laws.gather(-1, torch.tensor(list(ids), device=laws.device)[:, None])
    return float(chosen.mean(dtype=torch.float64))
