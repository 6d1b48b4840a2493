"""Turn a decision's tensors into the numbers of its trace. Runs with the run's clock stopped."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from playground import text
from playground.cache import forced_logits
from playground.contracts import Decision, Run, Tested
from playground.laws import summarise
from playground.models import ModelPair
from playground.sampling import Warper
from playground.types import Alternative, Beam, Candidate, LawSummary, Round, Token

_NUM_ALTERNATIVES = 5
_NUM_LISTED = 12  # of each law's largest: those that its summary keeps one by one
_CHUNK = 64  # positions re-scored at once: bounds the memory of [chunk, V] logits


class Explainer:
    """Explains the tokens of one run. `reference` gives the law that fidelity is measured against
    where the method draws from none of its own (greedy, beams)."""

    def __init__(self, pair: ModelPair, run: Run, reference: Warper) -> None:
        self._pair, self._run, self._reference = pair, run, reference
        self._history = list(run.prefix)
        self._names = text.names_of(pair.tokenizer) if pair.tokenizer is not None else None

    def tokens(self, decisions: Sequence[Decision], start: int) -> list[Token]:
        """The traces of decisions that were committed together behind `start` new tokens. All of
        them have logits, and either all or none a law that they were drawn from."""
        if not decisions:  # bans left a round without any token
            return []
        del self._history[len(self._run.prefix) + start :]
        ids = [decision.token_id for decision in decisions]
        logits = _on_host([d.logits for d in decisions if d.logits is not None])
        drawn = [d.target_probs for d in decisions if d.target_probs is not None]
        laws = _on_host(drawn) if drawn else self._reference_laws(logits, ids)
        self._history += ids
        logprobs = _raw_logprobs(logits, ids)
        tokens = []
        for i, (decision, top) in enumerate(zip(decisions, _largest(laws), strict=True)):
            sides = _Sides.of(decision, laws[i], top)
            certain = not drawn or (bool(top) and sides.target[top[0]] == 1.0)
            if decision.tested is not None:
                found = _judged(decision.tested) | {"law": self._summary(decision.tested, sides)}
            else:
                surprisal = _surprisal(sides.target[decision.token_id])
                found = {"reverse_divergence": 0.0 if drawn else surprisal}
            token = Token(
                decision.token_id,
                source=decision.source,
                special=self._special(decision.token_id),
                target_prob=sides.target[decision.token_id],
                draft_prob=sides.draft.get(decision.token_id),
                target_logprob=logprobs[i],
                logit_gap=_gap(logits[i]) if certain else None,
                alternatives=self._alternatives(sides),
                **found,
            )
            tokens.append(token)
        return tokens

    def _reference_laws(self, logits: Tensor, ids: Sequence[int]) -> Tensor:
        history = [*self._history, *ids[:-1]]
        return self._reference.probs(logits, history, len(self._history))

    def score(self, ids: Sequence[int]) -> list[Token]:
        """Tokens of a search's result, by teacher-forced passes of the target over `ids`."""
        if not ids:
            return []
        run = self._run  # whose clock stands still
        state = self._pair.open(self._pair.target, run.prompt_ids, run.encoded)
        tokens: list[Token] = []
        for rows in forced_logits(state, self._run.prefix, ids, _CHUNK):
            own = zip(ids[len(tokens) :], rows, strict=False)
            decisions = [Decision(token_id, "beam", logits=row) for token_id, row in own]
            tokens += self.tokens(decisions, len(tokens))
        return tokens

    def round(self, record: Round, decisions: Sequence[Decision]) -> Round:
        """The round with the texts of its draft, and the probabilities of what was tested."""
        tested = [d.tested for d in decisions if d.tested is not None]
        return dataclasses.replace(
            record,
            draft_texts=self._texts(record.draft_ids),
            target_probs=tuple(float(t.target_probs[t.token_id]) for t in tested),
            draft_probs=tuple(float(t.draft_probs[t.token_id]) for t in tested),
        )

    def name_beam(self, beam: Beam) -> Beam:
        """The beam with its text."""
        if self._pair.tokenizer is None:
            return beam
        return dataclasses.replace(
            beam, text=text.full_text(self._pair.tokenizer, list(beam.token_ids))
        )

    def name_candidates(self, candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
        """The candidates with the text of their last token."""
        texts = self._texts([c.token_id for c in candidates])
        if texts is None:
            return tuple(candidates)
        named = zip(candidates, texts, strict=True)
        return tuple(dataclasses.replace(c, text=name) for c, name in named)

    def _summary(self, tested: Tested, sides: _Sides) -> LawSummary:
        listed = list(sides.target)
        summary = summarise(tested.target_probs, tested.draft_probs, listed, tested.support)
        return dataclasses.replace(summary, texts=self._texts(listed))

    def _special(self, token_id: int) -> str | None:
        return self._names.special(token_id) if self._names is not None else None

    def _texts(self, ids: Sequence[int]) -> tuple[str, ...] | None:
        names = self._names
        return tuple(names.shown(i) for i in ids) if names is not None else None

    def _alternatives(self, sides: _Sides) -> tuple[Alternative, ...]:
        shown: Any = self._names.shown if self._names is not None else lambda i: None
        return tuple(
            Alternative(i, shown(i), sides.target[i], sides.draft.get(i)) for i in sides.best
        )


@dataclass(frozen=True, slots=True)
class _Sides:
    """Both models' probabilities of the tokens that matter at one position, in the order of their
    ids (the draft's side is empty where there was none), and the most probable ones."""

    target: dict[int, float]
    draft: dict[int, float]
    best: list[int]

    @classmethod
    def of(cls, decision: Decision, law: Tensor, top: list[int]) -> _Sides:
        """law [V]: what the token was drawn from, or is measured against; top: its largest."""
        tested, draft_law = decision.tested, decision.draft_probs
        draft_law = None if draft_law is None else draft_law.cpu()
        support = (
            tested.support.cpu() if tested is not None and tested.support is not None else None
        )
        draft_top = [] if draft_law is None else _largest_among(draft_law, support)
        listed = {*top, *draft_top, decision.token_id, *([tested.token_id] if tested else [])}
        ids = sorted(listed)
        target, draft = (_at(side, ids) for side in (law, draft_law))
        best = dict.fromkeys([*top[:_NUM_ALTERNATIVES], *draft_top[:_NUM_ALTERNATIVES]])
        return cls(target, draft, list(best))


def _on_host(rows: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(rows)).cpu()


def _largest(rows: Tensor) -> list[list[int]]:
    """Ids of the most probable tokens of laws [n, V], the first one first; none that is
    impossible."""
    values, index = rows.topk(min(_NUM_LISTED, rows.shape[-1]))
    pairs = zip(values.tolist(), index.tolist(), strict=True)
    return [[i for value, i in zip(*pair, strict=True) if value > 0] for pair in pairs]


def _largest_among(law: Tensor, support: Tensor | None) -> list[int]:
    """The same of one law [V] that is 0 outside `support`."""
    if support is None:
        return _largest(law[None])[0]
    (places,) = _largest(law[support][None])
    found: list[int] = support[places].tolist()
    return found


def _at(law: Tensor | None, ids: list[int]) -> dict[int, float]:
    return {} if law is None else dict(zip(ids, law.numpy()[ids].tolist(), strict=True))


def _raw_logprobs(logits: Tensor, ids: Sequence[int]) -> list[float]:
    """Of the tokens `ids` [n], under the unwarped laws of logits [n, V]."""
    rows = logits if logits.dtype == torch.float64 else logits.float()
    chosen = rows.gather(1, torch.tensor(ids)[:, None])[:, 0]
    # Not log_softmax: faster, but its sum over a large vocabulary keeps a digit less.
    found: list[float] = (chosen - rows.logsumexp(-1)).tolist()
    return found


def _gap(logits: Tensor) -> float | None:
    if len(logits) < 2:
        return None
    first, second = logits.float().topk(2).values.tolist()
    return float(first - second)


def _surprisal(prob: float) -> float:
    return -math.log(prob) if prob > 0 else math.inf


def _judged(tested: Tested) -> dict[str, Any]:
    """What verification says of its position: acceptance and the divergence really spent."""
    rule = tested.verifier
    assert rule is not None
    found: dict[str, Any] = {
        "accept_prob": tested.accept_prob,
        "exact_accept_prob": tested.exact_accept_prob,
        "u": tested.u,
        "drafted_id": tested.token_id,
    }
    kind = getattr(getattr(rule, "params", None), "divergence", None)
    if rule.lossless:
        found["accept_prob"] = (
            tested.accept_prob if tested.accept_prob is not None else tested.exact_accept_prob
        )
        found |= {"divergence": 0.0, "reverse_divergence": 0.0}
        return found | ({"budget_divergence": 0.0} if kind else {})
    kinds = dict.fromkeys(("kl", "reverse_kl", *([kind] if kind else [])))
    accept_prob, spent = rule.measure(tested, kinds)
    if tested.accept_prob is None:
        found["accept_prob"] = accept_prob
    found |= {"divergence": spent["kl"], "reverse_divergence": spent["reverse_kl"]}
    if kind:
        found["budget_divergence"] = spent[kind]
    return found
