"""Exact search: the model's true best sequence, by best-first branch and bound.

After Stahlberg & Byrne 2019: a partial sequence is given up once even the best score that it can
still reach does not beat the best complete sequence. A sum of log-probabilities only falls as the
sequence grows, which gives that bound. They search depth first; here the open prefix with the
highest bound comes next, which reads the fewest prefixes, and several share one pass. Two things
make the bound bite early: greedy's path is followed first, and every prefix that is read offers
its own end at once.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Any, ClassVar

import torch
from torch import Tensor

from playground.contracts import EngineEvent, Finished, KVState, Run, Searched, Settings
from playground.methods.autoregressive import EXHAUSTED
from playground.methods.beam_group import CANDIDATES_PER_BEAM
from playground.methods.scoring import ScoringParams, length_penalty_param
from playground.models import ModelPair
from playground.params import fail, param
from playground.types import Badge, Beam, Candidate, FinishReason

NODES_PER_PASS, TOKENS_PER_PASS = 8, 64  # as many prefixes as cost little more than one
NUM_LISTED = 64  # continuations kept of a prefix; where more are needed, it is read again


@dataclass(frozen=True, slots=True)
class ExactParams(ScoringParams):
    """Settings of exact search."""

    length_penalty: float = length_penalty_param(0.0)
    max_nodes: int = param(
        500,
        "Node budget: partial texts that the target may read before the search ends unproven.",
        label="Node budget",
        min=1,
        max=1_000_000,
        step=50,
    )


@dataclass(slots=True)
class Node:
    """A prefix: some new tokens and the sum of their log-probabilities.

    children: once it has been read, its most probable continuations (logprob, token) that do not
    end, best first; place: the next of them to try; all_listed: whether there are no others.
    """

    ids: list[int]
    sum_logprob: float
    children: list[tuple[float, int]] = field(default_factory=list)
    place: int = 0
    all_listed: bool = False

    def grown(self, token: int, logprob: float) -> Node:
        return Node([*self.ids, token], self.sum_logprob + logprob)

    @property
    def next_logprob(self) -> float:
        """At least the log-probability of every child still to try; -inf where there is none."""
        if not self.children or (self.all_listed and self.place == len(self.children)):
            return float("-inf")
        return self.children[min(self.place, len(self.children) - 1)][0]


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
        _refuse_growth(pair.constraints().may_raise)

    def run(self, run: Run) -> Generator[EngineEvent, None, None]:
        _refuse_growth(run.warper.may_raise)
        search = _Search(run)
        step, reason = 0, run.interrupted()
        while reason is None and (nodes := search.next_nodes()):
            candidates = search.expand(nodes)
            step += 1
            beam = search.result()
            if beam is not None:
                found = int(search.best is not None)
                bound = search.highest_bound
                yield Searched(step, candidates, beam, found, bound, linked=False)
            reason = run.interrupted()
        yield search.finish(reason)


def _refuse_growth(may_raise: bool) -> None:
    """Raise ValueError where sums of log-probabilities may grow: then no bound holds."""
    if may_raise:
        found = "a sequence_bias above 0, or an exponential_decay_length_penalty above 1"
        raise fail("method", "exact", f"another one: this model's generation config has {found}")


class _Search:
    """The state of one search.

    best: the best complete sequence so far; partial: the longest one that is not complete.
    frontier: open prefixes by the best score that their next child may reach, best first.
    """

    def __init__(self, run: Run) -> None:
        self.run, self.params = run, run.params
        self.reader = _Reader(run)
        self.best: Node | None = None
        self.best_score = float("-inf")
        self.partial = Node([], 0.0)
        self.frontier: list[tuple[float, int, Node]] = []
        self.num_nodes = 0
        self._order = count()
        self._greedy: Node | None = self.partial  # where greedy's path goes on, until it ends

    def next_nodes(self) -> list[Node]:
        """What to read in the next pass; nothing when the search is over.

        First greedy's path, one node at a time, then the most promising ones together.
        """
        budget = self.params.max_nodes - self.num_nodes
        if self._greedy is not None:
            return [self._greedy][:budget]
        nodes: list[Node] = []
        while self.frontier and len(nodes) < min(budget, NODES_PER_PASS):
            minus_bound, _, node = self.frontier[0]
            if -minus_bound <= self.best_score:
                self.frontier.clear()  # nothing that is open can win
                break
            longest = max(len(n.ids) for n in (*nodes, node)) + 1
            if nodes and (len(nodes) + 1) * longest > TOKENS_PER_PASS:
                break
            heappop(self.frontier)
            nodes += self._take(node)
        return nodes

    def _take(self, node: Node) -> list[Node]:
        """The next prefix to read at `node`: its next child (none if that is complete, it is scored
        then), or the node itself again where its list of children was too short."""
        if node.place == len(node.children):
            return [node]
        logprob, token = node.children[node.place]
        node.place += 1
        self._offer(node)
        child = node.grown(token, logprob)
        if self.run.finish_reason(child.ids) is None:
            return [child]
        self._complete(child)
        return []

    def _offer(self, node: Node) -> None:
        """Put the node among the open ones if its next child may still win."""
        bound = self._next_bound(node)
        if bound > self.best_score:
            heappush(self.frontier, (-bound, next(self._order), node))

    def _next_bound(self, node: Node) -> float:
        """The best score that the children still to try may reach; -inf where there are none."""
        return self._bound(node.sum_logprob + node.next_logprob, len(node.ids) + 1)

    def _bound(self, sum_logprob: float, length: int) -> float:
        return float(self.params.bound(sum_logprob, length, self.run.max_new_tokens))

    def _complete(self, node: Node) -> None:
        score = self.params.score(node.sum_logprob, len(node.ids))
        if score > self.best_score:
            self.best, self.best_score = node, score

    def expand(self, nodes: list[Node]) -> list[Candidate]:
        """Read the nodes in one pass, score their own ends and list their continuations."""
        self.num_nodes += len(nodes)
        candidates: list[Candidate] = []
        for row, (node, logprobs) in enumerate(zip(nodes, self.reader.read(nodes), strict=True)):
            likely = _most_probable(logprobs, CANDIDATES_PER_BEAM)
            candidates += [self._candidate(row, node, *child) for child in likely]
            self._end(node, logprobs)
            self._list(node, logprobs)
            self._go_on(node, likely)
        return candidates

    def _end(self, node: Node, logprobs: Tensor) -> None:
        """Score the node's best end: its best end token, or its best token where the limit cuts."""
        at_limit = len(node.ids) + 1 >= self.run.max_new_tokens
        ends = list(range(len(logprobs))) if at_limit else sorted(self.run.eos_ids)
        for logprob, place in _most_probable(logprobs[ends], 1):
            self._complete(node.grown(ends[place], logprob))

    def _list(self, node: Node, logprobs: Tensor) -> None:
        """List the continuations that go on and may win: enough of them for most nodes, eight
        times more when the node is read again."""
        if len(node.ids) + 1 >= self.run.max_new_tokens:
            node.all_listed = True
            return
        going_on = logprobs.clone()
        going_on[sorted(self.run.eos_ids)] = float("-inf")
        number = max(NUM_LISTED, 8 * len(node.children))
        node.children = [
            (logprob, token)
            for logprob, token in _most_probable(going_on, number)
            if self._bound(node.sum_logprob + logprob, len(node.ids) + 1) > self.best_score
        ]
        node.all_listed = len(node.children) < number

    def _go_on(self, node: Node, likely: list[tuple[float, int]]) -> None:
        """Follow greedy from the node that it just reached, or leave the node to the frontier."""
        if likely and len(node.ids) >= len(self.partial.ids):
            logprob, token = likely[0]
            self.partial = node.grown(token, logprob)
        followed, self._greedy = self._greedy is node, None
        goes_on = likely[:1] == node.children[:1] and self._next_bound(node) > self.best_score
        if followed and goes_on:
            self._greedy = next(iter(self._take(node)), None)
        else:
            self._offer(node)

    def _candidate(self, row: int, node: Node, logprob: float, token: int) -> Candidate:
        """A continuation as readers see it; `parent` is the node's row in this pass."""
        grown = node.grown(token, logprob)
        length, ended = len(grown.ids), self.run.finish_reason(grown.ids) is not None
        score = self.params.score(grown.sum_logprob, length)
        reachable = score if ended else self._bound(grown.sum_logprob, length)
        kept = reachable > self.best_score
        return Candidate(row, token, grown.sum_logprob, score, kept, finished=kept and ended)

    @property
    def highest_bound(self) -> float | None:
        """The best score that any open prefix may still reach; None where nothing is open."""
        bounds = [-self.frontier[0][0]] if self.frontier else []
        if self._greedy is not None:
            bounds.append(self._bound(self._greedy.sum_logprob, len(self._greedy.ids)))
        return max(bounds, default=None)

    def result(self) -> Beam | None:
        """The best complete sequence, else the longest partial one, else None."""
        node = self.best or self.partial
        if not node.ids:
            return None
        length = len(node.ids)
        score = self.params.score(node.sum_logprob, length)
        finished = self.best is not None and self.run.finish_reason(node.ids) != "length"
        return Beam(list(node.ids), score, node.sum_logprob, length, finished)

    def finish(self, interruption: FinishReason | None) -> Finished:
        beam, bound = self.result(), self.highest_bound
        is_open = bound is not None and bound > self.best_score
        proven = self.best is not None and not is_open
        if proven:
            note = f"Proven best: after {self.num_nodes} nodes nothing that is open can beat it."
        elif is_open:
            note = f"Not proven within {self.num_nodes} nodes: a better sequence may exist."
        else:
            note = EXHAUSTED
        ended = self.run.finish_reason(beam.token_ids) if beam is not None else None
        reason = interruption or ended or ("length" if is_open else "stop")
        beams = [beam] if beam is not None else []
        return Finished(reason, beams, [note], *self.reader.peak_bytes, proven)


class _Reader:
    """Reads any prefixes with one cache, which rolls back to what they share."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._state: KVState = run.open(run.pair.target)
        self._stored: list[int] = []  # new tokens that the cache's first row holds
        self._root: Tensor | None = None  # logits [V] after the prompt
        self.peak_bytes = (0, 0)

    def read(self, nodes: Sequence[Node]) -> Tensor:
        """Log-probabilities [W, V], after penalties and bans, that follow each of W prefixes."""
        with self._run.clock.time("target"):
            if self._root is None:
                self._root = self._state.prefill(self._run.prefix)
            grown = [node.ids for node in nodes if node.ids]
            rows = list(self._forward(grown)) if grown else []
        logits = torch.stack([rows.pop(0) if node.ids else self._root for node in nodes])
        used = self._state.num_bytes(), self._state.num_bytes_naive()
        self.peak_bytes = (max(self.peak_bytes[0], used[0]), max(self.peak_bytes[1], used[1]))
        return self._run.warper.logprobs(logits, [self._run.prefix + node.ids for node in nodes])

    def _forward(self, prefixes: list[list[int]]) -> Tensor:
        """Logits [W, V] after each of W prefixes of new tokens. Shorter ones are filled up at their
        right end, which a causal model does not see from further left."""
        lengths = [len(ids) for ids in prefixes]
        kept = min(_num_shared([self._stored, *prefixes]), min(lengths) - 1)
        fed = [ids[kept:] + ids[-1:] * (max(lengths) - len(ids)) for ids in prefixes]
        self._state.rollback(len(self._run.prefix) + kept)
        self._state.reorder(torch.zeros(len(prefixes), dtype=torch.long))
        logits = self._state.forward(torch.tensor(fed))
        self._stored = prefixes[0]
        last = [length - kept - 1 for length in lengths]
        return logits[list(range(len(prefixes))), last]


def _most_probable(logprobs: Tensor, number: int) -> list[tuple[float, int]]:
    """The `number` largest finite entries of logprobs [n] with their places, falling."""
    values, places = logprobs.topk(min(number, len(logprobs)))
    pairs = zip(values.tolist(), places.tolist(), strict=True)
    return [pair for pair in pairs if pair[0] > float("-inf")]


def _num_shared(sequences: Sequence[Sequence[int]]) -> int:
    """How many first items all sequences share."""
    columns = zip(*sequences, strict=False)
    return next((i for i, c in enumerate(columns) if len(set(c)) > 1), min(map(len, sequences)))
