"""Beam search and diverse beam search.

One step: 1) expand: log-probabilities [W, V] of every live beam, 2) score: add each beam's sum,
3) prune: the best of the flattened [W·V], parent = index // V, token = index % V, 4) collect: ended
candidates among the best W go to the finished set, the best W others live on, and the cache is
reordered by their parents.
"""

from __future__ import annotations

from collections.abc import Iterator
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


@dataclass(frozen=True, slots=True)
class ScoringParams(Limits):
    """How a search scores sequences of different length."""

    length_penalty: float = param(
        1.0,
        "Exponent of the length norm. Positive favours longer outputs, negative shorter; 0 is the plain sum.",
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
        """The best score a continuation can reach: sums only fall, so the divisor decides. It is
        largest at `longest` for a positive penalty, and at the present length otherwise."""
        grows = self.length_norm != "none" and self.length_penalty > 0
        return self.score(sum_logprob, longest if grows else max(length, 1))


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
        "Taken from a token's log-probability for every earlier group's beam that chose it in this step.",
        label="Diversity penalty",
        min=0.0,
        max=1e9,
        step=0.1,
    )


@dataclass(slots=True)
class Hypothesis:
    """A partial or finished sequence. `rank_sum` is what the search compares: the sum of
    log-probabilities, minus diversity penalties where there are any."""

    ids: list[int]
    sum_logprob: float
    rank_sum: float

    def beam(self, params: ScoringParams, finished: bool) -> Beam:
        length = len(self.ids)
        score = params.score(self.sum_logprob, max(length, 1))
        return Beam(tuple(self.ids), score, self.sum_logprob, length, finished)


@dataclass(slots=True)
class Group:
    """Beams that compete with each other: `width` live ones and a finished set of that size."""

    width: int
    params: BeamParams
    live: list[Hypothesis] = field(default_factory=lambda: [Hypothesis([], 0.0, 0.0)])
    finished: list[tuple[float, bool, Hypothesis]] = field(default_factory=list)  # score, ended, it
    parents: list[int] = field(default_factory=list)
    done: bool = False

    def step(self, logprobs: Tensor, penalties: Tensor | None, run: Run) -> list[Candidate]:
        """Advance by one token from logprobs [W, V]; penalties [V] of earlier groups. Returns every
        candidate looked at, best first; `parents` names the rows that the new beams grew from."""
        sums = torch.tensor(
            [h.rank_sum for h in self.live], dtype=logprobs.dtype, device=logprobs.device
        )
        ranked = logprobs if penalties is None else logprobs - penalties
        totals = (sums[:, None] + ranked).flatten()
        # Enough that W candidates remain even if every beam could end in each end token.
        keep = max(2, 1 + len(run.eos_ids)) * self.width
        values, index = totals.topk(min(keep, len(totals)))
        own = logprobs.flatten()[index].tolist()
        triples = zip(values.tolist(), index.tolist(), own, strict=True)
        size = logprobs.shape[1]
        reachable = [(v, i // size, i % size, lp) for v, i, lp in triples if v > float("-inf")]
        return self._collect(reachable, run)

    def _collect(self, best: list[tuple[float, int, int, float]], run: Run) -> list[Candidate]:
        old, self.live, self.parents = self.live, [], []
        candidates = []
        for place, (rank_sum, parent, token, logprob) in enumerate(best):
            grown = Hypothesis(
                [*old[parent].ids, token], old[parent].sum_logprob + logprob, rank_sum
            )
            reason = run.finish_reason(grown.ids)
            collected = reason is not None and place < self.width
            lives = reason is None and len(self.live) < self.width
            row = len(self.live) if lives else None
            if collected:
                self._finish(grown, reason)
            elif lives:
                self.live.append(grown)
                self.parents.append(parent)
            score = self.params.score(grown.sum_logprob, len(grown.ids))
            candidates.append(
                Candidate(
                    parent, token, grown.sum_logprob, score, lives or collected, collected, row
                )
            )
        return candidates

    def _finish(self, hypothesis: Hypothesis, reason: FinishReason | None) -> None:
        """Add to the finished set, which keeps its `width` best; the earlier of equals stays."""
        score = self.params.score(hypothesis.rank_sum, len(hypothesis.ids))
        self.finished.append((score, reason != "length", hypothesis))
        self.finished.sort(key=lambda item: -item[0])
        del self.finished[self.width :]

    def bound(self, run: Run) -> float | None:
        """The score that the stopping mode credits the best live beam with."""
        if not self.live:
            return None
        best, params = self.live[0], self.params
        if params.early_stopping == NEVER:
            return params.bound(best.rank_sum, len(best.ids), run.max_new_tokens)
        return params.score(best.rank_sum, len(best.ids))

    def should_stop(self, run: Run) -> bool:
        """Whether this group is done: nothing lives, or the finished set cannot improve."""
        bound = self.bound(run)
        if bound is None:
            return True
        if len(self.finished) < self.width:
            return False
        return self.params.early_stopping is True or bound <= self.finished[-1][0]

    def results(self) -> list[Beam]:
        """Finished sequences, best first; the live ones where nothing has finished yet."""
        if self.finished:
            return [h.beam(self.params, ended) for _, ended, h in self.finished]
        return [h.beam(self.params, False) for h in self.live if h.ids]


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

    def run(self, run: Run) -> Iterator[EngineEvent]:
        groups = self.groups(run.params)
        state = run.pair.open(run.pair.target, run.prompt_ids)
        with run.clock.time("target"):
            logits = state.prefill(run.prefix)[None].expand(len(groups), -1)
        step, peak, naive = 0, 0, 0
        while (reason := run.interrupted()) is None:
            candidates = _advance(groups, _logprobs(run, groups, logits), run)
            step += 1
            open_groups = [g for g in groups if not g.done]
            best = self.gather(groups, run.params)
            if best:
                yield _searched(step, candidates, best[0], groups, run)
            if not open_groups:
                break
            logits = _forward(run, state, groups)
            peak, naive = max(peak, state.num_bytes()), max(naive, state.num_bytes_naive())
        beams = self.gather(groups, run.params)
        notes = [] if beams else [EXHAUSTED]
        ended = _reason(beams, run) if reason is None else reason
        yield Finished(
            ended, beams, notes, peak or state.num_bytes(), naive or state.num_bytes_naive()
        )


class DiverseBeamSearch(BeamSearch):
    """Groups of beams, each penalised for what earlier groups chose (Vijayakumar et al. 2016).

    As in the authors' code the penalty stays part of what a group ranks by; the reported score and
    sum are the model's own. Each group has its own finished set.
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


def _logprobs(run: Run, groups: list[Group], logits: Tensor) -> Tensor:
    """Log-probabilities [rows, V] of all open groups' beams, after penalties and bans."""
    scores = logits.float() if logits.dtype != torch.float64 else logits
    scores = scores.log_softmax(-1)
    if not run.warper.needs_history:
        return scores
    histories = [run.prefix + h.ids for g in groups if not g.done for h in g.live]
    rows = zip(scores, histories, strict=True)
    return torch.stack([run.warper.process(row[None], past, len(past))[0] for row, past in rows])


def _advance(groups: list[Group], logprobs: Tensor, run: Run) -> list[Candidate]:
    """One step of every open group, in turn. Rows of `logprobs` follow the groups' live beams."""
    candidates: list[Candidate] = []
    chosen: list[int] = []
    start = 0
    for group in groups:
        if group.done:
            continue
        count = len(group.live)
        penalties = _penalties(group, chosen, logprobs)
        found = group.step(logprobs[start : start + count], penalties, run)
        candidates += [_shifted(c, start) for c in found]
        chosen += [c.token_id for c in found if c.kept]
        group.parents = [start + parent for parent in group.parents]
        start += count
        group.done = group.should_stop(run)
    return candidates


def _penalties(group: Group, chosen: list[int], logprobs: Tensor) -> Tensor | None:
    weight = getattr(group.params, "diversity_penalty", 0.0)
    if not weight or not chosen:
        return None
    index = torch.tensor(chosen, device=logprobs.device)
    counts = torch.bincount(index, minlength=logprobs.shape[1])
    return weight * counts.to(logprobs.dtype)


def _shifted(c: Candidate, start: int) -> Candidate:
    """The candidate with its parent counted over all groups' rows."""
    return Candidate(
        c.parent + start, c.token_id, c.sum_logprob, c.score, c.kept, c.finished, c.row
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
    bounds = [b for g in groups if (b := g.bound(run)) is not None]
    return Searched(
        step, candidates, best, sum(len(g.finished) for g in groups), max(bounds, default=None)
    )


def _reason(beams: list[Beam], run: Run) -> FinishReason:
    if not beams:
        return "stop"
    return run.finish_reason(beams[0].token_ids) or "stop"
