"""Turn a decision's tensors into the numbers of its trace. Runs with the run's clock stopped."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from playground import laws, text
from playground.cache import forced_logits
from playground.contracts import Decision, Run, Tested
from playground.divergences import divergences
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
        self._names: dict[int, str] = {}

    def token(self, decision: Decision, index: int) -> Token:
        """The trace of one committed decision; call in order."""
        del self._history[len(self._run.prefix) + index :]
        chosen = decision.target_probs is None
        law = decision.target_probs
        if law is None and decision.logits is not None:
            law = self._reference.probs(decision.logits[None], self._history, len(self._history))[0]
        self._history.append(decision.token_id)
        largest = _largest(law), _largest(decision.draft_probs)
        token = Token(
            decision.token_id,
            source=decision.source,
            special=self._special(decision.token_id),
            target_prob=_at(law, decision.token_id),
            draft_prob=_at(decision.draft_probs, decision.token_id),
            target_logprob=_raw_logprob(decision.logits, decision.token_id),
            logit_gap=_gap(decision.logits) if chosen or _is_one_hot(law) else None,
            alternatives=self._alternatives(law, decision.draft_probs, largest),
        )
        if decision.tested is not None:
            listed = {*largest[0], *largest[1], decision.token_id, decision.tested.token_id}
            summary = self._summary(decision.tested, sorted(listed))
            return dataclasses.replace(token, **_judged(decision.tested), law=summary)
        if chosen:
            return dataclasses.replace(token, reverse_divergence=_surprisal(law, decision.token_id))
        return dataclasses.replace(token, reverse_divergence=0.0)

    def score(self, ids: Sequence[int]) -> list[Token]:
        """Tokens of a search's result, by teacher-forced passes of the target over `ids`."""
        if not ids:
            return []
        state = self._run.open(self._pair.target)
        tokens: list[Token] = []
        for rows in forced_logits(state, self._run.prefix, ids, _CHUNK):
            for row in rows:
                decision = Decision(ids[len(tokens)], "beam", logits=row)
                tokens.append(self.token(decision, len(tokens)))
        return tokens

    def round(self, record: Round, decisions: Sequence[Decision]) -> Round:
        """The round with the texts of its draft, and the probabilities of what was tested."""
        tested = [d.tested for d in decisions if d.tested is not None]
        named = self._pair.tokenizer is not None
        return dataclasses.replace(
            record,
            draft_texts=tuple(self._name(i) for i in record.draft_ids) if named else None,
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
        if self._pair.tokenizer is None:
            return tuple(candidates)
        return tuple(dataclasses.replace(c, text=self._name(c.token_id)) for c in candidates)

    def _summary(self, tested: Tested, listed: list[int]) -> LawSummary:
        summary = laws.summarise(tested.target_probs, tested.draft_probs, listed)
        if self._pair.tokenizer is None:
            return summary
        return dataclasses.replace(summary, texts=tuple(self._name(i) for i in listed))

    def _special(self, token_id: int) -> str | None:
        tokenizer = self._pair.tokenizer
        return text.special_name(tokenizer, token_id) if tokenizer is not None else None

    def _name(self, token_id: int) -> str:
        if token_id not in self._names:
            own = self._special(token_id) or text.full_text(self._pair.tokenizer, [token_id])
            self._names[token_id] = own
        return self._names[token_id]

    def _alternatives(
        self, law: Tensor | None, draft_law: Tensor | None, largest: tuple[list[int], list[int]]
    ) -> tuple[Alternative, ...]:
        if law is None:
            return ()
        ids = dict.fromkeys(i for side in largest for i in side[:_NUM_ALTERNATIVES])
        named: Any = self._name if self._pair.tokenizer is not None else lambda i: None
        return tuple(Alternative(i, named(i), _at(law, i), _at(draft_law, i)) for i in ids)


def _largest(law: Tensor | None) -> list[int]:
    """Ids of the most probable tokens, the first one first; none that is impossible."""
    if law is None:
        return []
    values, index = law.topk(min(_NUM_LISTED, len(law)))
    pairs = zip(values.tolist(), index.tolist(), strict=True)
    return [i for value, i in pairs if value > 0]


def _at(law: Tensor | None, token_id: int) -> float | None:
    return None if law is None else float(law[token_id])


def _raw_logprob(logits: Tensor | None, token_id: int) -> float | None:
    if logits is None:
        return None
    row = logits.double() if logits.dtype == torch.float64 else logits.float()
    return float(row[token_id] - row.logsumexp(0))


def _gap(logits: Tensor | None) -> float | None:
    if logits is None or len(logits) < 2:
        return None
    first, second = logits.float().topk(2).values.tolist()
    return first - second


def _is_one_hot(law: Tensor | None) -> bool:
    return law is not None and float(law.max()) == 1.0


def _surprisal(law: Tensor | None, token_id: int) -> float | None:
    return None if law is None else -float(law[token_id].double().log())


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
    accept_probs, law = rule.outcome_of(tested)
    if tested.accept_prob is None:
        found["accept_prob"] = float(accept_probs[tested.token_id])
    kinds = dict.fromkeys(("kl", "reverse_kl", *([kind] if kind else [])))
    spent = divergences(tested.target_probs, law, kinds)
    found |= {"divergence": spent["kl"], "reverse_divergence": spent["reverse_kl"]}
    if kind:
        found["budget_divergence"] = spent[kind]
    return found
