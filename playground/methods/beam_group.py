"""One group of competing beams: its live ones, its finished set, and a step of one token."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from playground.contracts import Run
from playground.methods.scoring import Hypothesis, ScoringParams
from playground.params import param
from playground.types import Beam, FinishReason

NEVER = "never"
CANDIDATES_PER_BEAM = 3  # looked at in every step, as readers see them; more where W need them


@dataclass(frozen=True, slots=True)
class BeamParams(ScoringParams):
    """Settings of beam search."""

    num_beams: int = param(
        4, "W: beams kept at every step.", label="Beams W", min=1, max=64, step=1
    )
    num_return_sequences: int = param(
        1, "How many of the best sequences are reported.", label="Returned", min=1, max=64
    )
    early_stopping: bool | str = param(
        False,
        "true: stop at W finished; false: stop when the best live beam looks unable to win at its "
        "present length; 'never': only when it cannot win at any length.",
        label="Early stopping",
        choices=(False, True, NEVER),
    )


@dataclass(slots=True)
class Continuation:
    """A live beam, by its place `parent`, with one more token, and why it ends there if it does.

    row: the place that it takes among the live beams; collected: it joined the finished set.
    """

    parent: int
    hypothesis: Hypothesis
    reason: FinishReason | None
    row: int | None = None
    collected: bool = False


@dataclass(slots=True)
class Group:
    """Beams that compete with each other: up to `width` live ones and a finished set of that size.

    finished: (score, ended by itself rather than by the length limit, hypothesis), best first.
    first_row: the row of the last pass's logits, and of the cache, of the first live beam.
    parents: rows that the live beams grew from; chosen: tokens that the last step took.
    """

    width: int
    params: BeamParams
    live: list[Hypothesis] = field(default_factory=lambda: [Hypothesis([], 0.0, 0.0)])
    finished: list[tuple[float, bool, Hypothesis]] = field(default_factory=list)
    first_row: int = 0
    parents: list[int] = field(default_factory=list)
    chosen: list[int] = field(default_factory=list)
    done: bool = False

    def step(self, logprobs: Tensor, penalties: Tensor | None, run: Run) -> list[Continuation]:
        """Advance by one token: logprobs [W, V] of the live beams, penalties [V] of earlier groups.
        Returns every continuation looked at, best first."""
        best = self._expand(logprobs, penalties, run)
        if best:
            self._collect(best)
            self.done = self.should_stop(run.max_new_tokens)
        else:
            self.done = True  # the settings ban every continuation of every live beam
        self.chosen = [c.hypothesis.ids[-1] for c in best if c.collected or c.row is not None]
        return best

    def _expand(self, logprobs: Tensor, penalties: Tensor | None, run: Run) -> list[Continuation]:
        """The best continuations, best first: enough that `width` of them can live on, unless the
        length limit ends them all. (transformers' max(2, 1 + number of end tokens) · W is the most
        that end tokens alone can make necessary; stop strings may need more.)"""
        ranked = logprobs.double() if penalties is None else logprobs.double() - penalties
        sums = ranked.new_tensor([h.rank_sum for h in self.live])
        totals = (sums[:, None] + ranked).flatten()
        count = CANDIDATES_PER_BEAM * self.width
        while True:
            values, places = largest(totals, count)
            own = logprobs.flatten()[places].tolist()
            size = logprobs.shape[1]
            found = [
                self._grow(divmod(place, size), value, logprob, run)
                for value, place, logprob in zip(values, places.tolist(), own, strict=True)
            ]
            num_open = sum(c.reason is None for c in found)
            at_limit = len(self.live[0].ids) + 1 >= run.max_new_tokens
            if num_open >= self.width or at_limit or len(found) < count:
                return found
            count *= 4

    def _grow(
        self, place: tuple[int, int], rank_sum: float, logprob: float, run: Run
    ) -> Continuation:
        parent, token = place
        old = self.live[parent]
        grown = Hypothesis([*old.ids, token], old.sum_logprob + logprob, rank_sum)
        return Continuation(parent, grown, run.finish_reason(grown.ids))

    def _collect(self, best: list[Continuation]) -> None:
        """Ended ones among the best `width` go to the finished set, which keeps its `width` best
        (of equals the earlier); the best `width` others live on."""
        parents, self.live, self.parents = self.first_row, [], []
        for place, c in enumerate(best):
            if c.reason is None and len(self.live) < self.width:
                c.row = len(self.live)
                self.live.append(c.hypothesis)
                self.parents.append(parents + c.parent)
            elif c.reason is not None and place < self.width:
                c.collected = True
                score = self.params.score(c.hypothesis.rank_sum, len(c.hypothesis.ids))
                self.finished.append((score, c.reason != "length", c.hypothesis))
        self.finished.sort(key=lambda item: -item[0])
        del self.finished[self.width :]

    def bound(self, max_new_tokens: int) -> float | None:
        """The score that the stopping mode credits the best live beam with."""
        if not self.live:
            return None
        best, length = self.live[0], len(self.live[0].ids)
        if self.params.early_stopping == NEVER:
            return self.params.bound(best.rank_sum, length, max_new_tokens)
        return self.params.score(best.rank_sum, max(length, 1))

    def should_stop(self, max_new_tokens: int) -> bool:
        """Whether nothing lives, or the finished set is full and the stopping mode content.

        One beam stops at its first end, whatever the mode: it is greedy decoding.
        """
        bound = self.bound(max_new_tokens)
        if bound is None:
            return True
        if len(self.finished) < self.width:
            return False
        at_once = self.width == 1 or self.params.early_stopping is True
        return at_once or bound <= self.finished[-1][0]

    def results(self) -> list[Beam]:
        """Finished sequences, best first; live ones fill up where fewer than `width` finished."""
        finished = [h.beam(self.params, ended) for _, ended, h in self.finished]
        live = [h.beam(self.params, False) for h in self.live if h.ids]
        return (finished + live)[: self.width]


def largest(totals: Tensor, count: int) -> tuple[list[float], Tensor]:
    """The `count` largest finite entries of totals [n], falling, and their places; of equal ones
    the first, so that ties fall as argmax's do."""
    threshold = totals.topk(min(count, len(totals))).values[-1]
    places = ((totals >= threshold) & (totals > float("-inf"))).nonzero()[:, 0]
    values, order = totals[places].sort(descending=True, stable=True)
    return values[:count].tolist(), places[order[:count]]
