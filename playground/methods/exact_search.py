"""Exact search: the model's true best sequence, by depth-first branch and bound.

After Stahlberg & Byrne 2019: a partial sequence is given up once even its best possible score
cannot beat the best complete one. One sequence's cache serves the whole search; it rolls back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from playground.contracts import EngineEvent, Finished, KVState, Run, Searched, Settings
from playground.methods.beam_search import Hypothesis, ScoringParams
from playground.models import ModelPair
from playground.params import param
from playground.types import Badge, Candidate, FinishReason


@dataclass(frozen=True, slots=True)
class ExactParams(ScoringParams):
    """Settings of exact search."""

    length_penalty: float = param(
        0.0,
        "Exponent of the length norm. Positive favours longer outputs, negative shorter; 0 is the plain sum.",
        label="Length penalty (positive favours longer)",
        min=-10.0,
        max=10.0,
        step=0.1,
    )
    max_nodes: int = param(
        500,
        "Node budget: target passes after which the search ends, its result then not proven best.",
        label="Node budget",
        min=1,
        max=1_000_000,
        step=50,
    )


@dataclass(slots=True)
class Node:
    """A partial sequence with its children still to be tried, best first: (logprob, token)."""

    ids: list[int]
    sum_logprob: float
    children: list[tuple[float, int]]
    next_child: int = 0


class ExactSearch:
    """Finds the highest-scoring sequence of all, and says whether that is proven."""

    name: ClassVar[str] = "exact"
    line: ClassVar[str] = (
        "Finds the target's single best-scoring text, if its budget suffices to prove it."
    )
    Params: ClassVar[type] = ExactParams

    def parts(self, values: dict[str, Any]) -> dict[str, type]:
        return {}

    def badge(self, settings: Settings) -> Badge:
        return "search"

    def validate(self, settings: Settings, pair: ModelPair) -> None:
        pass

    def run(self, run: Run) -> Iterator[EngineEvent]:
        search = _Search(run)
        reason: FinishReason | None = None
        while search.stack and not search.over_budget:
            reason = run.interrupted()
            if reason is not None:
                break
            candidates = search.expand()
            if candidates:
                best = search.best or Hypothesis(
                    search.stack[-1].ids, search.stack[-1].sum_logprob, 0.0
                )
                yield Searched(
                    search.num_nodes,
                    candidates,
                    best.beam(run.params, search.best is not None),
                    num_finished=int(search.best is not None),
                )
        yield search.finish(reason)


class _Search:
    """The state of one search."""

    def __init__(self, run: Run) -> None:
        self.run, self.params = run, run.params
        self.state: KVState = run.pair.open(run.pair.target, run.prompt_ids)
        self.best: Hypothesis | None = None
        self.best_score = float("-inf")
        self.num_nodes, self.peak = 0, 0
        with run.clock.time("target"):
            logits = self.state.prefill(run.prefix)
        self.stack = [self._node([], 0.0, logits)]

    @property
    def over_budget(self) -> bool:
        return self.num_nodes >= self.params.max_nodes

    def _node(self, ids: list[int], sum_logprob: float, logits: torch.Tensor) -> Node:
        self.num_nodes += 1
        history = self.run.prefix + ids
        scores = logits.float() if logits.dtype != torch.float64 else logits
        logprobs = self.run.warper.process(scores.log_softmax(-1)[None], history, len(history))[0]
        # Only children that could still win are worth sorting.
        alive = logprobs > float("-inf")
        floor = self._floor(sum_logprob, len(ids) + 1)
        index = (alive & (logprobs.double() > floor)).nonzero()[:, 0]
        values, order = logprobs[index].sort(descending=True, stable=True)
        return Node(
            ids, sum_logprob, list(zip(values.tolist(), index[order].tolist(), strict=True))
        )

    def _floor(self, sum_logprob: float, length: int) -> float:
        """Log-probabilities up to this cannot lead to a better score (an admissible bound)."""
        if self.best is None:
            return float("-inf")
        divisor = self.params.bound(-1.0, length, self.run.max_new_tokens) / -1.0
        return self.best_score / divisor - sum_logprob - 1e-9

    def expand(self) -> list[Candidate]:
        """Try the next child of the deepest open node; returns what was looked at."""
        node = self.stack[-1]
        if node.next_child >= len(node.children):
            self.stack.pop()
            return []
        logprob, token = node.children[node.next_child]
        node.next_child += 1
        grown = Hypothesis([*node.ids, token], node.sum_logprob + logprob, 0.0)
        length = len(grown.ids)
        if self.params.bound(grown.sum_logprob, length, self.run.max_new_tokens) <= self.best_score:
            self.stack.pop()  # the children are sorted: none of the rest can win either
            return []
        finished = self.run.finish_reason(grown.ids) is not None
        score = self.params.score(grown.sum_logprob, length)
        if finished:
            if score > self.best_score:
                self.best, self.best_score = grown, score
        else:
            self._descend(grown)
        return [Candidate(len(node.ids), token, grown.sum_logprob, score, True, finished)]

    def _descend(self, grown: Hypothesis) -> None:
        start = len(self.run.prefix) + len(grown.ids) - 1
        self.state.rollback(start)
        with self.run.clock.time("target"):
            logits = self.state.forward(torch.tensor([[grown.ids[-1]]]))[0, -1]
        self.peak = max(self.peak, self.state.num_bytes())
        self.stack.append(self._node(grown.ids, grown.sum_logprob, logits))

    def finish(self, reason: FinishReason | None) -> Finished:
        proven = reason is None and not self.stack
        best = self.best
        if best is None and self.stack:
            best = Hypothesis(self.stack[-1].ids, self.stack[-1].sum_logprob, 0.0)
        if proven:
            note = f"Proven best after {self.num_nodes} nodes."
        else:
            note = f"Not proven within {self.num_nodes} nodes: a better sequence may exist."
        beams = [best.beam(self.params, self.best is not None)] if best is not None else []
        ended = (
            reason or (self.run.finish_reason(best.ids) if best is not None else None) or "length"
        )
        bytes_used = self.peak or self.state.num_bytes()
        return Finished(ended, beams, [note], bytes_used, bytes_used, proven)
