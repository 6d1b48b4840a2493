"""Beam search and diverse beam search.

One step: 1) expand: log-probabilities [W, V] of every live beam, 2) score: add each beam's sum,
3) prune: the best of the flattened [W·V], parent = index // V, token = index % V, 4) collect: ended
candidates among the best W go to the finished set, the best W others live on, and the cache is
reordered by their parents. Beams, scores and order are those of transformers' `generate`.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from playground.contracts import EngineEvent, Finished, KVState, Run, Searched, Settings
from playground.methods.autoregressive import EXHAUSTED
from playground.methods.beam_group import BeamParams, Continuation, Group
from playground.models import ModelPair
from playground.params import fail, param
from playground.types import Badge, Beam, Candidate


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
        notes = _width_notes(groups[0].width, logits.shape[-1])
        if reason is None:
            reason = run.finish_reason(beams[0].token_ids) if beams else None
            notes += [] if reason else [EXHAUSTED]
        peak, naive = peak or state.num_bytes(), naive or state.num_bytes_naive()
        yield Finished(reason or "stop", beams, notes, peak, naive)


class DiverseBeamSearch(BeamSearch):
    """Groups of beams, each penalised for what earlier groups chose (Vijayakumar et al. 2016).

    Hamming diversity: in every step a token loses `diversity_penalty` for each beam of an earlier
    group that took it in the same step. As in the authors' code the penalty stays part of what a
    group ranks by; the reported score and sum are the model's own. Each group has its own finished
    set and stops by itself. The paper knows no stopping before the limit: one that has stopped here
    penalises nobody any more, since its results, which are final, have no token at that place. So
    it was in transformers, up to the last version with groups (4.56), but for padding: there such
    a group counted as choosing the pad token.
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


def _width_notes(width: int, vocab_size: int) -> list[str]:
    if width <= vocab_size:
        return []
    return [
        f"{width} beams are more than the vocabulary's {vocab_size} tokens: the first steps have "
        "fewer continuations than that."
    ]


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
