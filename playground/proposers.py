"""Proposers: who drafts the tokens of a speculative round.

A stop that ends a draft early looks only at what was drafted so far and never drops a token it has
drawn, so the law of the output cannot depend on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from playground.contracts import Draft, Run
from playground.params import param


@dataclass(frozen=True, slots=True)
class DraftStops:
    """Settings of every proposer: when to end a draft before its full length."""

    assistant_confidence_threshold: float = param(
        0.0,
        "End the draft after a token the proposer gives less probability than this; 0 is off.",
        label="Confidence stop",
        min=0.0,
        max=1.0,
        step=0.05,
    )
    entropy_stop: float = param(
        0.0,
        "End the draft where 1 − √(0.2·entropy), a bound on acceptance, is below this; 0 is off.",
        label="Entropy stop (AdaEDL)",
        min=0.0,
        max=1.0,
        step=0.05,
    )

    def too_uncertain(self, law: Tensor) -> bool:
        """AdaEDL (Agrawal et al. 2024, eq. 6, factor 0.2): stop before drawing from law [V]."""
        if self.entropy_stop == 0.0:
            return False
        entropy = float(torch.special.entr(law).sum())
        return 1.0 - (0.2 * max(entropy, 0.0)) ** 0.5 < self.entropy_stop

    def too_unlikely(self, prob: float) -> bool:
        """Confidence stop: end the draft after a token of this probability."""
        return prob < self.assistant_confidence_threshold


class DraftModel:
    """A small model of the same vocabulary writes the draft, token by token."""

    name: ClassVar[str] = "draft_model"
    line: ClassVar[str] = "A small model of the same vocabulary writes the draft."
    needs_draft: ClassVar[bool] = True
    Params = DraftStops

    def __init__(self, params: DraftStops, run: Run) -> None:
        self._stops, self._run = params, run
        self._state = run.pair.open(run.pair.draft, run.prompt_ids)
        self._fed: list[int] = []
        self._vocab_size = run.pair.vocab_size

    def propose(self, context: Sequence[int], max_tokens: int) -> Draft:
        draft = Draft([], [])
        if max_tokens < 1:
            return draft
        run, history = self._run, list(context)
        logits = self._catch_up(history)
        while True:
            law = run.warper.probs(logits[None], history, len(history))[0]
            if run.warper.is_exhausted(law) or self._stops.too_uncertain(law):
                return draft
            token = run.draws.categorical(law)
            draft.ids.append(token)
            draft.probs.append(law)
            history.append(token)
            last = token in run.eos_ids or len(draft.ids) >= max_tokens
            if last or self._stops.too_unlikely(float(law[token])):
                return draft
            logits = self._feed([token])

    def _catch_up(self, context: list[int]) -> Tensor:
        """Drop rejected drafts from the cache, read what is new; logits [V] after the context."""
        keep = 0
        for ours, theirs in zip(self._fed, context[:-1], strict=False):
            if ours != theirs:
                break
            keep += 1
        self._state.rollback(keep)
        del self._fed[keep:]
        return self._feed(context[keep:])

    def _feed(self, ids: list[int]) -> Tensor:
        self._run.clock.passes["draft"] += 1
        if self._state.length == 0:
            logits = self._state.prefill(ids)
        else:
            logits = self._state.forward(torch.tensor([ids]))[0, -1]
        self._fed += ids
        return fit_vocabulary(logits, self._vocab_size)


def fit_vocabulary(logits: Tensor, size: int) -> Tensor:
    """Logits [..., V'] over the target's `size` ids: heads may be padded to different widths."""
    if logits.shape[-1] >= size:
        return logits[..., :size]
    missing = size - logits.shape[-1]
    return torch.nn.functional.pad(logits, (0, missing), value=float("-inf"))


@dataclass(frozen=True, slots=True)
class LookupParams(DraftStops):
    """Settings of prompt lookup."""

    max_matching_ngram_size: int = param(
        3,
        "Longest run of last tokens looked for earlier in the text.",
        label="N-gram",
        min=1,
        max=10,
    )


class PromptLookup:
    """Copies what followed the last n-gram where it occurred before (Saxena 2023): no model.

    The draft law is one-hot. Where an n-gram occurred several times, the commonest continuation is
    copied; its share of the occurrences is the confidence that the stops look at.
    """

    name: ClassVar[str] = "prompt_lookup"
    line: ClassVar[str] = "Copies what followed the same words earlier in the prompt or output."
    needs_draft: ClassVar[bool] = False
    Params = LookupParams

    def __init__(self, params: LookupParams, run: Run) -> None:
        self._params, self._run = params, run
        self._vocab_size = run.pair.vocab_size
        # An encoder-decoder can copy from its source text, too.
        self._source = run.prompt_ids if run.prefix != run.prompt_ids else []

    def propose(self, context: Sequence[int], max_tokens: int) -> Draft:
        draft = Draft([], [])
        text = [*self._source, *context]
        ends = self._matches(text, context)
        while ends and len(draft.ids) < max_tokens:
            counts = Counter(text[end] for end in ends)
            if self._params.too_uncertain(_shares(counts)):
                break
            token, count = counts.most_common(1)[0]
            if token >= self._vocab_size:
                break
            draft.ids.append(token)
            draft.probs.append(self._one_hot(token))
            if token in self._run.eos_ids or self._params.too_unlikely(count / len(ends)):
                break
            ends = [end + 1 for end in ends if text[end] == token and end + 1 < len(text)]
        return draft

    def _matches(self, text: list[int], context: Sequence[int]) -> list[int]:
        """Where the longest matching n-gram occurred before: positions after it, newest first."""
        for n in range(min(self._params.max_matching_ngram_size, len(context)), 0, -1):
            tail = text[-n:]
            ends = [i for i in range(len(text) - 1, n - 1, -1) if text[i - n : i] == tail]
            if ends:
                return ends
        return []

    def _one_hot(self, token: int) -> Tensor:
        law = torch.zeros(self._vocab_size, device=self._run.pair.device)
        law[token] = 1.0
        return law


def _shares(counts: Counter[int]) -> Tensor:
    values = torch.tensor(list(counts.values()), dtype=torch.float64)
    return values / values.sum()


PROPOSERS: dict[str, Any] = {cls.name: cls for cls in (DraftModel, PromptLookup)}
