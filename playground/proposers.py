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

from playground.cache import num_readable
from playground.contracts import Draft, Run
from playground.params import param
from playground.sampling import MIN_TEMPERATURE


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

    @property
    def any_on(self) -> bool:
        """Whether a draft may end before its full length."""
        return self.assistant_confidence_threshold > 0.0 or self.entropy_stop > 0.0

    def too_uncertain(self, law: Tensor) -> bool:
        """AdaEDL (Agrawal et al. 2024, eq. 6, factor 0.2): stop before drawing from law [V]."""
        if self.entropy_stop == 0.0:
            return False
        entropy = float(torch.special.entr(law).sum())
        return 1.0 - (0.2 * max(entropy, 0.0)) ** 0.5 < self.entropy_stop

    def too_unlikely(self, prob: float | Tensor) -> bool:
        """Confidence stop: end the draft after a token of this probability."""
        threshold = self.assistant_confidence_threshold
        return threshold > 0.0 and float(prob) < threshold


class DraftModel:
    """A small model of the same vocabulary writes the draft, token by token."""

    name: ClassVar[str] = "draft_model"
    line: ClassVar[str] = "A small model of the same vocabulary writes the draft."
    needs_draft: ClassVar[bool] = True
    needs_feature: ClassVar[bool] = False
    Params: ClassVar[type] = DraftStops

    def __init__(self, params: DraftStops, run: Run) -> None:
        self._stops, self._run = params, run
        self._vocab_size = run.pair.vocab_size
        self._look_at(getattr(run.pair.draft, "head_ids", None))
        self._num_readable = num_readable(run.pair.draft)
        self._state = run.open(run.pair.draft, self._readable(run.prompt_ids))
        self._fed: list[int] = []  # what the cache holds
        # The one-hot law of temperature 0 is always certain: stops look at temperature 1 there.
        self._sees_raw = params.any_on and run.params.temperature < MIN_TEMPERATURE

    def propose(self, context: Sequence[int], max_tokens: int) -> Draft:
        draft = Draft([], [], self._support)
        if max_tokens < 1:
            return draft
        run, history = self._run, list(context)
        logits = self._catch_up(history)
        while True:
            law = run.warper.probs(logits[None], history, len(history))[0]
            seen = logits.float().softmax(-1) if self._sees_raw else law
            if run.warper.is_exhausted(law) or self._stops.too_uncertain(seen):
                return draft
            place = run.draws.categorical(law)
            token = place if self._ids is None else self._ids.item(place)
            draft.ids.append(token)
            draft.probs.append(self._whole(law))
            history.append(token)
            last = token in run.eos_ids or len(draft.ids) >= max_tokens
            if last or self._stops.too_unlikely(seen[place]):
                return draft
            logits = self._feed([token])

    def _look_at(self, head_ids: Tensor | None) -> None:
        """Make and draw from laws over the ids alone that a cut head writes, unless penalties and
        bans must see all logits."""
        self._support = None if self._run.warper.needs_history else head_ids
        self._ids = None if self._support is None else self._support.numpy(force=True)

    def _whole(self, law: Tensor) -> Tensor:
        """The law [V]."""
        if self._support is None:
            return law
        return law.new_zeros(self._vocab_size).index_copy_(0, self._support, law)

    def _catch_up(self, context: list[int]) -> Tensor:
        """Drop rejected drafts from the cache, read what is new; logits after the context of the
        ids that are looked at: `_support`, or all."""
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
        known = self._readable(ids)
        if self._state.length == 0:
            logits = self._state.prefill(known)
        else:
            logits = self._state.forward(torch.tensor([known]))[0, -1]
        self._fed += ids
        if self._support is not None:
            return logits[self._support]
        return fit_vocabulary(logits, self._vocab_size)

    def _readable(self, ids: Sequence[int]) -> list[int]:
        """ids, with those that only the target's wider head has (padding) replaced by the last
        one that the draft can read: its law then is a poorer guess, but still its law."""
        if self._num_readable is None:
            return list(ids)
        return [min(i, self._num_readable - 1) for i in ids]


class FeatureModel(DraftModel):
    """A few layers that read the target's own hidden states write the draft (EAGLE).

    Committed tokens are read with the target's states, all new ones in one pass; drafted tokens
    with the layers' own last state, so they are read again once they are committed.
    """

    name = "feature"
    line = "A few layers that read the target's hidden states write the draft."
    needs_draft = False
    needs_feature = True

    def __init__(self, params: DraftStops, run: Run) -> None:
        self._stops, self._run = params, run
        self._vocab_size = run.pair.vocab_size
        self._sees_raw = params.any_on and run.params.temperature < MIN_TEMPERATURE
        self._features = run.pair.open_feature(run.encoded)
        self._look_at(self._features.head_ids)
        self._num_read = 0  # committed tokens in the cache
        self._pending: list[Tensor] = []  # the target's states that follow, not yet used
        self._num_seen = 0  # tokens whose target's states were taken

    def propose(self, context: Sequence[int], max_tokens: int) -> Draft:
        self._watch()
        return super().propose(context, max_tokens)

    def _watch(self) -> None:
        """Take the target's states of its last pass, as far as its tokens were committed."""
        target = self._run.opened[id(self._run.pair.target)]
        if target.length > self._num_seen:
            self._pending.append(target.features(self._num_seen))
            self._num_seen = target.length

    def _catch_up(self, context: list[int]) -> Tensor:
        self._run.clock.passes["draft"] += 1
        self._features.rollback(self._num_read)
        thoughts = torch.cat(self._pending) if self._pending else None
        logits = self._features.read(context[self._num_read :], thoughts)
        self._num_read, self._pending = len(context), []
        return self._looked_at(logits)

    def _feed(self, ids: list[int]) -> Tensor:
        self._run.clock.passes["draft"] += 1
        return self._looked_at(self._features.guess(ids[0]))

    def _looked_at(self, logits: Tensor) -> Tensor:
        if self._support is not None:
            return logits
        return fit_vocabulary(self._features.whole(logits), self._vocab_size)


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


_END = -1  # what follows the last token of an encoder-decoder's source


class PromptLookup:
    """Copies what followed the last n-gram where it occurred before (Saxena 2023): no model.

    The draft law is one-hot. Where an n-gram occurred several times, the commonest continuation is
    copied, the newest of equally common ones; its share of the occurrences is the confidence that
    the stops look at. An encoder-decoder copies from its source, too.
    """

    name: ClassVar[str] = "prompt_lookup"
    line: ClassVar[str] = "Copies what followed the same words earlier in the prompt or output."
    needs_draft: ClassVar[bool] = False
    needs_feature: ClassVar[bool] = False
    Params: ClassVar[type] = LookupParams

    def __init__(self, params: LookupParams, run: Run) -> None:
        self._params, self._run = params, run
        self._vocab_size = run.pair.vocab_size
        self._source = [*run.prompt_ids, _END] if run.pair.is_encoder_decoder else []

    def propose(self, context: Sequence[int], max_tokens: int) -> Draft:
        draft = Draft([], [])
        text = [*self._source, *context]
        ends = self._matches(text, len(context))
        while ends and len(draft.ids) < max_tokens:
            counts = Counter(text[end] for end in ends)
            token, count = counts.most_common(1)[0]
            uncertain = self._params.too_uncertain(_shares(counts))
            if uncertain or not self._may_follow(token, [*context, *draft.ids]):
                break
            draft.ids.append(token)
            draft.probs.append(self._one_hot(token))
            if token in self._run.eos_ids or self._params.too_unlikely(count / len(ends)):
                break
            ends = _going_on(text, [end + 1 for end in ends if text[end] == token])
        return draft

    def _matches(self, text: list[int], length: int) -> list[int]:
        """Where the longest n-gram that ends `text` occurred before: positions after it, newest
        first. `length`: how much of the text's end is context, within which the n-gram lies."""
        for n in range(min(self._params.max_matching_ngram_size, length), 0, -1):
            tail, last = text[-n:], text[-1]
            starts = range(len(text) - 1, n - 1, -1)
            ends = [i for i in starts if text[i - 1] == last and text[i - n : i] == tail]
            if ends := _going_on(text, ends):
                return ends
        return []

    def _may_follow(self, token: int, history: list[int]) -> bool:
        """Whether penalties and bans leave `token` any probability after `history`."""
        if token >= self._vocab_size:
            return False
        if not self._run.warper.needs_history:
            return True
        scores = torch.zeros(1, self._vocab_size)
        return bool(self._run.warper.process(scores, history, len(history))[0, token].isfinite())

    def _one_hot(self, token: int) -> Tensor:
        law = torch.zeros(self._vocab_size, device=self._run.pair.device)
        law[token] = 1.0
        return law


def _going_on(text: list[int], ends: list[int]) -> list[int]:
    """Those of the positions `ends` at which `text` has a token."""
    return [end for end in ends if end < len(text) and text[end] != _END]


def _shares(counts: Counter[int]) -> Tensor:
    values = torch.tensor(list(counts.values()), dtype=torch.float64)
    return values / values.sum()


PROPOSERS: dict[str, Any] = {cls.name: cls for cls in (DraftModel, PromptLookup, FeatureModel)}
