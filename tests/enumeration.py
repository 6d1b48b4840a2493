"""Exact laws of what random code does: every outcome of every draw, with its probability.

A run's `Draws` is replaced by `Chance`, whose numbers are not drawn but branched over: a uniform
number only answers comparisons, and each answer is a branch with the length of its interval as
probability; a categorical draw branches over all tokens of positive probability. Every leaf is one
run of the real code, replayed from the start along a script of outcomes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

import torch
from torch import Tensor

from playground.contracts import Committed, Finished, Run
from playground.methods import METHODS
from playground.sampling import Clock, Warper
from playground.session import Plan

Ids = tuple[int, ...]
Law = dict[Ids, float]
T = TypeVar("T")


class Chance:
    """Plays `Draws` along one branch; `untried` are the scripts of the branches not taken here.

    weight: probability of the outcomes since `restart`.
    """

    def __init__(self, script: Sequence[int]) -> None:
        self._script, self._taken = list(script), list[int]()
        self.untried: list[list[int]] = []
        self.weight = 1.0

    def choose(self, probs: Sequence[float]) -> int:
        """The outcome that the script names, else the first possible one."""
        at = len(self._taken)
        if at < len(self._script):
            outcome = self._script[at]
        else:
            outcome, *others = (i for i, p in enumerate(probs) if p > 0)
            self.untried += [[*self._taken, other] for other in others]
        self._taken.append(outcome)
        self.weight *= probs[outcome]
        return outcome

    def restart(self) -> None:
        self.weight = 1.0

    @property
    def replaying(self) -> bool:
        """Whether the script has outcomes left: another run went this way before."""
        return len(self._taken) < len(self._script)

    def uniform(self) -> Uniform:
        return Uniform(self)

    def categorical(self, probs: Tensor) -> int:
        total = float(probs.double().sum())
        return self.choose([p / total for p in probs.tolist()])


class Uniform:
    """A uniform number in [low, high): comparing it decides more about it."""

    def __init__(self, chance: Chance) -> None:
        self._chance, self._low, self._high = chance, 0.0, 1.0

    def __lt__(self, bound: float) -> bool:
        bound = min(max(float(bound), self._low), self._high)
        share = (bound - self._low) / (self._high - self._low)
        below = self._chance.choose((share, 1.0 - share)) == 0
        self._low, self._high = (self._low, bound) if below else (bound, self._high)
        return below


def every(play: Callable[[Chance], T]) -> Iterator[tuple[float, T]]:
    """Probability and result of every way in which `play` can go."""
    scripts: list[list[int]] = [[]]
    while scripts:
        chance = Chance(scripts.pop())
        result = play(chance)
        scripts += chance.untried
        yield chance.weight, result


def every_run(plan: Plan, num_events: int | None = None) -> Iterator[tuple[float, list[Any]]]:
    """Probability and engine events (the first ones) of every way in which a run can go."""
    method = METHODS[plan.method]()
    return every(lambda chance: list(islice(method.run(make_run(plan, chance)), num_events)))


def outputs(plan: Plan) -> Law:
    """Law of the new ids: every path through the whole run is a leaf of its own."""
    law: Law = defaultdict(float)
    for weight, events in every_run(plan):
        ids = (d.token_id for e in events if isinstance(e, Committed) for d in e.decisions)
        law[tuple(ids)] += weight
    return dict(law)


def merged_outputs(plan: Plan) -> Law:
    """The same where a round depends on the committed ids alone: a prefix is expanded once.

    That they are all that a round depends on is what `outputs` does not assume.
    """
    edges: dict[Ids, Law] = defaultdict(lambda: defaultdict(float))
    ended: set[Ids] = set()
    expanded: set[Ids] = set()
    method = METHODS[plan.method]()

    def follow(chance: Chance) -> None:
        """Go along one branch until it meets a prefix that another one expanded."""
        node: Ids = ()
        engine = method.run(make_run(plan, chance))
        for event in engine:
            if isinstance(event, Finished):
                ended.add(node)
            elif event.decisions:
                ids = (*node, *(d.token_id for d in event.decisions))
                if not chance.replaying:
                    edges[node][ids] += chance.weight
                    if ids in expanded:
                        return engine.close()
                    expanded.add(ids)
                chance.restart()
                node = ids

    for _ in every(follow):
        pass
    mass: Law = defaultdict(float, {(): 1.0})
    for node in [(), *sorted(expanded, key=len)]:
        for ids, prob in edges[node].items():
            mass[ids] += mass[node] * prob
    return {ids: mass[ids] for ids in ended}


def own_outputs(plan: Plan) -> Law:
    """Law of the new ids when each is drawn from the target's own warped law, by recursion."""
    law: Law = defaultdict(float)
    params, warper = plan.settings.params, make_warper(plan)
    prefix = plan.pair.prefix(plan.prompt_ids)
    source = plan.prompt_ids if plan.pair.is_encoder_decoder else None

    def visit(ids: Ids, mass: float) -> None:
        done = len(ids) == params.max_new_tokens or bool(ids and ids[-1] in plan.eos_ids)
        row = warped(plan.pair.target, warper, [*prefix, *ids], source)
        if done or not row.any():
            law[ids] += mass
            return
        for token, prob in enumerate((row / row.sum()).tolist()):
            if prob > 0:
                visit((*ids, token), mass * prob)

    visit((), 1.0)
    return dict(law)


def warped(
    model: Any, warper: Warper, history: Sequence[int], source: Sequence[int] | None = None
) -> Tensor:
    """The warped law [V] of a module, computed without a cache, after `history`; `source`: what an
    encoder reads."""
    rows = torch.tensor([list(history)])
    given = (rows,) if source is None else (torch.tensor([list(source)]), None, rows)
    output = model(*given)
    logits = getattr(output, "logits", output)[0, -1:]
    return warper.probs(logits, list(history), len(history))[0]


def distance(one: Law, other: Law) -> float:
    """The largest difference of two laws."""
    return max(abs(one.get(ids, 0.0) - other.get(ids, 0.0)) for ids in one.keys() | other.keys())


def make_run(plan: Plan, draws: Any) -> Run:
    """What a session gives a method, with another source of randomness."""
    return Run(
        pair=plan.pair,
        prompt_ids=plan.prompt_ids,
        prefix=plan.pair.prefix(plan.prompt_ids),
        params=plan.settings.params,
        parts=plan.settings.parts,
        warper=make_warper(plan),
        draws=draws,
        eos_ids=plan.eos_ids,
        max_new_tokens=plan.settings.params.max_new_tokens,
        clock=Clock(plan.pair.device),
    )


def make_warper(plan: Plan) -> Warper:
    """The warping of a plan."""
    params = plan.settings.params
    prefix_length = len(plan.pair.prefix(plan.prompt_ids))
    constraints = plan.pair.constraints(plan.prompt_ids)
    return Warper(params, constraints, plan.eos_ids, prefix_length, params.max_new_tokens)
