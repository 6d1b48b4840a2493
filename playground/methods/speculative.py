"""Speculative decoding: one loop for every proposer and every verification rule.

A round: 1) propose draft tokens, 2) score them all in one target pass, 3) verify, 4) commit the
accepted ones and the token that follows, 5) roll both caches back to what was committed.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from playground.contracts import (
    Committed,
    Decision,
    Draft,
    EngineEvent,
    Finished,
    KVState,
    Run,
    Settings,
    Verdict,
)
from playground.methods.autoregressive import EXHAUSTED
from playground.models import ModelPair
from playground.params import fail, lookup, param
from playground.proposers import PROPOSERS
from playground.sampling import Sampling
from playground.types import Badge, FinishReason, Round
from playground.verifiers import VERIFIERS


@dataclass(frozen=True, slots=True)
class DraftedParams(Sampling):
    """Settings of every speculative loop."""

    num_draft_tokens: int = param(
        4, "γ: most tokens drafted in one round.", label="Draft length γ", min=1, max=32, step=1
    )
    proposer: str = param(
        "draft_model", "Who writes the draft.", label="Proposer", choices=tuple(PROPOSERS)
    )


@dataclass(frozen=True, slots=True)
class SpeculativeParams(DraftedParams):
    """Settings of speculative decoding with any rule."""

    verifier: str = param(
        "exact", "The rule that judges the draft.", label="Rule", choices=tuple(VERIFIERS)
    )


class Speculative:
    """A small draft model proposes, the target checks several tokens at once."""

    name: ClassVar[str] = "speculative"
    line: ClassVar[str] = (
        "A small draft model proposes, the target checks several tokens at once; "
        "the distribution is unchanged."
    )
    Params: ClassVar[type] = SpeculativeParams
    default_rule: ClassVar[str] = "exact"

    def parts(self, values: dict[str, Any]) -> dict[str, type]:
        rule = lookup(VERIFIERS, values.get("verifier", self.default_rule), "verifier")
        proposer = lookup(PROPOSERS, values.get("proposer", "draft_model"), "proposer")
        return {"verifier": rule.Params, "proposer": proposer.Params}

    def rule(self, settings: Settings) -> Any:
        """The verifier that these settings ask for."""
        name = getattr(settings.params, "verifier", self.default_rule)
        return VERIFIERS[name](settings.parts["verifier"])

    def badge(self, settings: Settings) -> Badge:
        return "lossless" if self.rule(settings).lossless else "lossy"

    def validate(self, settings: Settings, pair: ModelPair) -> None:
        name = settings.params.proposer
        if PROPOSERS[name].needs_draft and pair.draft is None:
            raise fail("proposer", name, "'prompt_lookup': this pair has no draft model")
        if PROPOSERS[name].needs_feature and pair.feature is None:
            raise fail("proposer", name, "'draft_model' or 'prompt_lookup': no feature draft here")

    def run(self, run: Run) -> Generator[EngineEvent, None, None]:
        verifier = self.rule(Settings(run.params, run.parts))
        state = run.open(run.pair.target)
        proposer = PROPOSERS[run.params.proposer](run.parts["proposer"], run)
        new_ids: list[int] = []
        notes: list[str] = []
        reason: FinishReason | None = None
        if not _is_read_with_draft(run):
            first = _first_token(run, state)
            if first is None:
                size = state.num_bytes()
                yield Finished("stop", notes=[EXHAUSTED], kv_bytes=size, kv_bytes_naive=size)
                return
            reason = _commit(run, new_ids, [first])
            yield Committed([first])
        while reason is None and (reason := run.interrupted()) is None:
            before = run.clock.seconds["target"], run.clock.seconds["draft"]
            context = run.prefix + new_ids
            room = run.max_new_tokens - len(new_ids) - 1  # the last place is the target's own token
            with run.clock.time("draft", passes=0):
                draft = proposer.propose(context, min(run.params.num_draft_tokens, room))
            logits, laws = _score(run, state, context, draft)
            verdict = verifier.verify(draft, laws, run.draws, run.eos_ids)
            decisions = _decisions(verdict, logits, laws)
            start = len(new_ids)
            reason = _commit(run, new_ids, decisions)
            state.rollback(len(run.prefix) + len(new_ids) - 1)
            kept = len(new_ids) - start
            yield Committed(decisions[:kept], _round(run, before, draft, verdict, kept))
            if reason is None and verdict.next_id is None:
                reason, notes = "stop", [EXHAUSTED]
        size = state.num_bytes()  # one sequence's storage only grows
        yield Finished(reason, notes=notes, kv_bytes=size, kv_bytes_naive=size)


class MentoredDecoding(Speculative):
    """The speculative loop with the mentored rule."""

    name = "mentored"
    line = (
        "As speculative, but may depart from the target by at most D nats a token, and uses that "
        "to accept as many draft tokens as possible."
    )
    Params = DraftedParams
    default_rule = "mentored"


def _is_read_with_draft(run: Run) -> bool:
    """Whether an encoder has read the prompt, and the first round reads the start token along with
    the first draft: a pass saved."""
    return run.pair.is_encoder_decoder and len(run.prefix) == 1


def _first_token(run: Run, state: KVState) -> Decision | None:
    """The prompt's own pass gives the first token; None where none is allowed."""
    with run.clock.time("target"):
        logits = state.prefill(run.prefix)
    law = run.warper.probs(logits[None], run.prefix, len(run.prefix))[0]
    if run.warper.is_exhausted(law):
        return None
    return Decision(run.draws.categorical(law), "prefill", logits=logits, target_probs=law)


def _score(run: Run, state: KVState, context: list[int], draft: Draft) -> tuple[Tensor, Tensor]:
    """One target pass over the last committed token and the draft: logits and laws [k+1, V].

    Where bans leave no token at some position, draft and laws end there.
    """
    with run.clock.time("target"):
        logits = state.forward(torch.tensor([[context[-1], *draft.ids]]))[0]
    laws = run.warper.probs(logits, context + draft.ids, len(context))
    if run.warper.needs_history:
        empty = (laws.sum(-1) == 0).nonzero()
        if len(empty):
            cut = int(empty[0])
            del draft.ids[cut:], draft.probs[cut:]
            laws = laws[: cut + 1]
    return logits, laws


def _decisions(verdict: Verdict, logits: Tensor, laws: Tensor) -> list[Decision]:
    decisions = [
        Decision(t.token_id, "accepted", logits[i], laws[i], t.draft_probs, t)
        for i, t in enumerate(verdict.tested[: verdict.num_accepted])
    ]
    if verdict.next_id is not None:
        i = verdict.num_accepted
        rejected = verdict.tested[i] if i < len(verdict.tested) else None
        draft_probs = rejected.draft_probs if rejected else None
        decisions.append(
            Decision(
                verdict.next_id, verdict.next_source, logits[i], laws[i], draft_probs, rejected
            )
        )
    return decisions


def _commit(run: Run, new_ids: list[int], decisions: list[Decision]) -> FinishReason | None:
    """Append decisions one by one until the sequence ends; what lies behind its end is dropped."""
    for decision in decisions:
        new_ids.append(decision.token_id)
        reason = run.finish_reason(new_ids)
        if reason is not None:
            return reason
    return None


def _round(
    run: Run, before: tuple[float, float], draft: Draft, verdict: Verdict, kept: int
) -> Round:
    """The record of a round of which `kept` tokens were committed: what was cut does not count."""
    return Round(
        draft_ids=list(draft.ids),
        num_tested=min(len(verdict.tested), kept),
        num_accepted=min(verdict.num_accepted, kept),
        draft_s=run.clock.seconds["draft"] - before[1],
        target_s=run.clock.seconds["target"] - before[0],
    )
