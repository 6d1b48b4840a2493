"""Beam search and diverse beam search.

One step: 1) expand: log-probabilities [W, V] of every live beam, 2) score: add each beam's sum,
3) prune: the best of the flattened [W·V], parent = index // V, token = index % V, 4) collect: ended
candidates among the best W go to the finished set, the best W others live on, and the cache is
reordered by their parents. Beams, scores and order are those of transformers' `generate`.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from playground.contracts import EngineEvent, Finished, KVState, Run, Searched, Settings
from playground.methods.autoregressive import EXHAUSTED
from playground.models import ModelPair
from playground.params import fail, param
from playground.sampling import Limits
from playground.types import Badge, Beam, Candidate, FinishReason

NEVER = "never"
CANDIDATES_PER_BEAM = 3  # looked at in every step, as readers see them; more where W need them


@dataclass(frozen=True, slots=True)
class ScoringParams(Limits):
    """How a search scores sequences of different length."""

    length_penalty: float = param(
        1.0,
        "Exponent of the length norm. Positive favours longer outputs, negative shorter; "
        "0 is the plain sum.",
        label="Length penalty (positive favours longer)",
        min=-10.0,
        max=10.0,
        step=0.1,
    )
    length_norm: str = param(
        "length",
        "length: sum / length^penalty; gnmt: sum / ((5+length)/6)^penalty; none: plain sum.",
        label="Length norm",
        choices=("length", "gnmt", "none"),
    )

    def score(self, sum_logprob: float, length: int) -> float:
        """The normalised score of a sequence of `length` new tokens, its end token included."""
        return sum_logprob / length_divisor(length, self.length_norm, self.length_penalty)

    def bound(self, sum_logprob: float, length: int, longest: int) -> float:
        """The best score that a sequence of `length` tokens can reach by going on: sums only fall,
        so the divisor decides. It is largest at `longest` for a positive penalty, and after one
        more token otherwise."""
        grows = self.length_norm != "none" and self.length_penalty > 0
        return self.score(sum_logprob, longest if grows else min(length + 1, longest))


def length_divisor(length: int, norm: str, penalty: float) -> float:
    """length^penalty (transformers), ((5 + length)/6)^penalty (GNMT, Wu et al. 2016), or 1."""
    if norm == "none" or penalty == 0:
        return 1.0
    return float((length if norm == "length" else (5.0 + length) / 6.0) ** penalty)


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


@dataclass(frozen=True, slots=True)
class DiverseBeamParams(BeamParams):
    """Settings of diverse beam search."""

    num_beam_groups: int = param(
        2,
        "Groups that search in turn; must divide the beams.",
        label="Groups",
        min=2,
        max=64,
        step=1,
    )
    diversity_penalty: float = param(
        0.5,
        "Taken from a token's log-probability for every earlier group's beam that chose it in "
        "this step.",
        label="Diversity penalty",
        min=0.0,
        max=1e9,
        step=0.1,
    )


@dataclass(slots=True)
class Hypothesis:
    """A partial or complete sequence. `rank_sum` is what the search compares: the sum of
    log-probabilities, minus diversity penalties where there are any."""

    ids: list[int]
    sum_logprob: float
    rank_sum: float

    def beam(self, params: ScoringParams, finished: bool) -> Beam:
        length = len(self.ids)
        score = params.score(self.sum_logprob, max(length, 1))
        return Beam(list(self.ids), score, self.sum_logprob, length, finished)


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
    exhausted: the settings ban every continuation of every live beam.
    """

    width: int
    params: BeamParams
    live: list[Hypothesis] = field(default_factory=lambda: [Hypothesis([], 0.0, 0.0)])
    finished: list[tuple[float, bool, Hypothesis]] = field(default_factory=list)
    first_row: int = 0
    parents: list[int] = field(default_factory=list)
    chosen: list[int] = field(default_factory=list)
    done: bool = False
    exhausted: bool = False

    def step(self, logprobs: Tensor, penalties: Tensor | None, run: Run) -> list[Continuation]:
        """Advance by one token: logprobs [W, V] of the live beams, penalties [V] of earlier groups.
        Returns every continuation looked at, best first."""
        best = self._expand(logprobs, penalties, run)
        if best:
            self._collect(best)
            self.done = self.should_stop(run.max_new_tokens)
        else:
            self.done = self.exhausted = True
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


class BeamSearch:
    """Keeps the W best partial texts and returns the best finished one."""

    name: ClassVar[str] = "beam"
    line: ClassVar[str] = "Keeps the W best partial texts and returns the best finished one."
    Params: ClassVar[type] = BeamParams

    def parts(self, values: dict[str, Any]) -> dict[str, type]:
        return {}

    def badge(self, settings: Settings) -> Badge:
        return "search"

    def validate(self, settings: Settings, pair: ModelPair) -> None:
        p = settings.params
        if p.num_return_sequences > p.num_beams:
            raise fail(
                "num_return_sequences", p.num_return_sequences, f"at most num_beams ({p.num_beams})"
            )

    def groups(self, params: Any) -> list[Group]:
        """The competing groups of this search."""
        return [Group(params.num_beams, params)]

    def gather(self, groups: list[Group], params: Any) -> list[Beam]:
        """The reported beams, best first."""
        return groups[0].results()[: params.num_return_sequences]

    def run(self, run: Run) -> Generator[EngineEvent, None, None]:
        groups = self.groups(run.params)
        state = run.open(run.pair.target)
        with run.clock.time("target"):
            logits = state.prefill(run.prefix)[None]
        step, peak, naive = 0, 0, 0
        while (reason := run.interrupted()) is None:
            candidates = _advance(groups, _logprobs(run, groups, logits), run)
            step += 1
            best = self.gather(groups, run.params)
            if best:
                yield _searched(step, candidates, best[0], groups, run)
            if all(group.done for group in groups):
                break
            logits = _forward(run, state, groups)
            peak, naive = max(peak, state.num_bytes()), max(naive, state.num_bytes_naive())
        beams = self.gather(groups, run.params)
        notes = []
        if reason is None:
            reason = run.finish_reason(beams[0].token_ids) if beams else None
            notes = [] if reason else [EXHAUSTED]
        peak, naive = peak or state.num_bytes(), naive or state.num_bytes_naive()
        yield Finished(reason or "stop", beams, notes, peak, naive)


class DiverseBeamSearch(BeamSearch):
    """Groups of beams, each penalised for what earlier groups chose (Vijayakumar et al. 2016).

    Hamming diversity: in every step a token loses `diversity_penalty` for each beam of an earlier
    group that took it in the same step. As in the authors' code the penalty stays part of what a
    group ranks by; the reported score and sum are the model's own. Each group has its own finished
    set and stops by itself.
    """

    name = "diverse_beam"
    line = "Beam search in groups, each penalised for tokens that earlier groups chose."
    Params = DiverseBeamParams

    def validate(self, settings: Settings, pair: ModelPair) -> None:
        super().validate(settings, pair)
        p = settings.params
        if p.num_beams % p.num_beam_groups:
            raise fail(
                "num_beam_groups", p.num_beam_groups, f"a divisor of num_beams ({p.num_beams})"
            )
        if p.diversity_penalty == 0:
            raise fail(
                "diversity_penalty",
                0.0,
                "a number above 0: at 0 every group repeats plain beam search",
            )

    def groups(self, params: Any) -> list[Group]:
        width = params.num_beams // params.num_beam_groups
        return [Group(width, params) for _ in range(params.num_beam_groups)]

    def gather(self, groups: list[Group], params: Any) -> list[Beam]:
        """The best of every group, then their seconds, and so on; each tier best first."""
        results = [g.results() for g in groups]
        tiers = zip(*(r + [None] * (groups[0].width - len(r)) for r in results), strict=True)
        ordered = [sorted((b for b in tier if b), key=lambda b: -b.score) for tier in tiers]
        wanted = max(params.num_return_sequences, params.num_beam_groups)
        return [beam for tier in ordered for beam in tier][:wanted]


def largest(totals: Tensor, count: int) -> tuple[list[float], Tensor]:
    """The `count` largest finite entries of totals [n], falling, and their places; of equal ones
    the first, so that ties fall as argmax's do."""
    threshold = totals.topk(min(count, len(totals))).values[-1]
    places = ((totals >= threshold) & (totals > float("-inf"))).nonzero()[:, 0]
    values, order = totals[places].sort(descending=True, stable=True)
    return values[:count].tolist(), places[order[:count]]


def _logprobs(run: Run, groups: list[Group], logits: Tensor) -> Tensor:
    """Log-probabilities [rows, V] after penalties and bans; rows as in logits [rows, V].

    Penalties act on log-probabilities, as in transformers, but with one beam on the logits: one
    beam is greedy decoding, there as here.
    """
    # By row: before the first step all groups stand on the same one.
    histories = {
        group.first_row + i: run.prefix + h.ids
        for group in groups
        if not group.done
        for i, h in enumerate(group.live)
    }
    if run.params.num_beams == 1 and run.warper.needs_history:
        processed = run.warper.process(logits, histories[0], len(histories[0]))
        return processed - logits.to(processed.dtype).logsumexp(-1, keepdim=True)
    return run.warper.logprobs(logits, list(histories.values()))


def _advance(groups: list[Group], logprobs: Tensor, run: Run) -> list[Candidate]:
    """One step of every open group, in turn; logprobs [rows, V] of their live beams."""
    candidates: list[Candidate] = []
    chosen: list[int] = []
    num_rows = 0
    for group in groups:
        if group.done:
            continue
        first = group.first_row
        rows = logprobs[first : first + len(group.live)]
        found = group.step(rows, _penalties(group, chosen, logprobs), run)
        chosen += group.chosen
        group.first_row = num_rows
        candidates += [_candidate(c, first, group) for c in found]
        num_rows += 0 if group.done else len(group.live)
    return candidates


def _penalties(group: Group, chosen: list[int], logprobs: Tensor) -> Tensor | None:
    """What each token [V] loses for the earlier groups' choices of this step."""
    weight = getattr(group.params, "diversity_penalty", 0.0)
    if not weight or not chosen:
        return None
    index = torch.tensor(chosen, device=logprobs.device)
    return weight * torch.bincount(index, minlength=logprobs.shape[1]).double()


def _candidate(c: Continuation, first: int, group: Group) -> Candidate:
    """The public record of a continuation: rows are counted over all groups, and nothing lives on
    in a group that is done."""
    row = None if c.row is None or group.done else group.first_row + c.row
    hypothesis = c.hypothesis
    return Candidate(
        parent=first + c.parent,
        token_id=hypothesis.ids[-1],
        sum_logprob=hypothesis.sum_logprob,
        score=group.params.score(hypothesis.sum_logprob, len(hypothesis.ids)),
        kept=c.collected or row is not None,
        finished=c.collected,
        row=row,
    )


def _forward(run: Run, state: KVState, groups: list[Group]) -> Tensor:
    """Reorder the cache by parents and read the new tokens of all open groups: logits [rows, V]."""
    live = [
        (p, h.ids[-1]) for g in groups if not g.done for p, h in zip(g.parents, g.live, strict=True)
    ]
    parents = torch.tensor([parent for parent, _ in live])
    with run.clock.time("target"):
        state.reorder(parents)
        return state.forward(torch.tensor([[token] for _, token in live]))[:, -1]


def _searched(
    step: int, candidates: list[Candidate], best: Beam, groups: list[Group], run: Run
) -> Searched:
    bounds = [b for g in groups if (b := g.bound(run.max_new_tokens)) is not None]
    return Searched(
        step, candidates, best, sum(len(g.finished) for g in groups), max(bounds, default=None)
    )
