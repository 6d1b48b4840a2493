"""Greedy decoding and sampling: one target pass a token."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, ClassVar

import torch
from torch import Tensor

from playground.contracts import Committed, Decision, EngineEvent, Finished, Run, Settings
from playground.models import ModelPair
from playground.sampling import Limits, Sampling
from playground.types import Badge

EXHAUSTED = "No token is allowed any more: every one is banned by the settings."


class Autoregressive:
    """Base of the methods that take one token from every pass of the target."""

    name: ClassVar[str]
    Params: ClassVar[type]

    def parts(self, values: dict[str, Any]) -> dict[str, type]:
        return {}

    def validate(self, settings: Settings, pair: ModelPair) -> None:
        pass

    def choose(self, run: Run, logits: Tensor, history: list[int]) -> Decision | None:
        """The next token from logits [V], or None where none is allowed."""
        raise NotImplementedError

    def run(self, run: Run) -> Generator[EngineEvent, None, None]:
        state = run.open(run.pair.target)
        with run.clock.time("target"):
            logits = state.prefill(run.prefix)
        new_ids: list[int] = []
        notes: list[str] = []
        while (reason := run.interrupted()) is None:
            decision = self.choose(run, logits, run.prefix + new_ids)
            if decision is None:
                reason, notes = "stop", [EXHAUSTED]
                break
            decision.source = "sampled" if new_ids else "prefill"
            new_ids.append(decision.token_id)
            reason = run.finish_reason(new_ids)
            yield Committed([decision])
            if reason is not None:
                break
            with run.clock.time("target"):
                logits = state.forward(torch.tensor([[new_ids[-1]]]))[0, -1]
        yield Finished(
            reason, notes=notes, kv_bytes=state.num_bytes(), kv_bytes_naive=state.num_bytes_naive()
        )


class Greedy(Autoregressive):
    """Takes the largest logit; no softmax is computed."""

    name = "greedy"
    line: ClassVar[str] = "Takes the most probable token each time."
    Params = Limits

    def badge(self, settings: Settings) -> Badge:
        return "search"

    def choose(self, run: Run, logits: Tensor, history: list[int]) -> Decision | None:
        scores = run.warper.process(logits[None], history, len(history))[0]
        token = int(scores.argmax())
        if run.warper.needs_history and scores[token] == float("-inf"):
            return None
        return Decision(token, "sampled", logits=logits)


class Sample(Autoregressive):
    """Draws each token from the target's warped law."""

    name = "sample"
    line: ClassVar[str] = "Draws each token from the target's distribution."
    Params = Sampling

    def badge(self, settings: Settings) -> Badge:
        return "sampled"

    def choose(self, run: Run, logits: Tensor, history: list[int]) -> Decision | None:
        law = run.warper.probs(logits[None], history, len(history))[0]
        if run.warper.is_exhausted(law):
            return None
        return Decision(run.draws.categorical(law), "sampled", logits=logits, target_probs=law)
