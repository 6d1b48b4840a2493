"""The rules and the solver of the lessons: one position, two laws [V] over a small vocabulary."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from playground.lessons.mentoring import FamilyPoint, RuleCurve, RulePoint
from playground.lessons.speculation import Draws, Simulation, chance_distance, checkpoints
from playground.mentored import DIVERGENCES, divergence, solve
from playground.params import build, fail, lookup
from playground.session import on_one_core
from playground.verifiers import VERIFIERS

Law = Sequence[float]
MAX_DRAWS = 200_000
_BUDGET = "divergence_budget"
_NO_END = 3.0  # nats: the end of a budget's axis where no budget lets the draft be taken whole


def simulate(
    target: Law,
    draft: Law,
    count: int = 20_000,
    seed: int = 0,
    rule: str = "exact",
    **settings: Any,
) -> Simulation:
    """Draw `count` tokens by a rule at one position: draft, test, and correct where it is rejected.

    The same seed gives the same draws. Raises ValueError on what is no law, rule or count.
    """
    if not 10 <= count <= MAX_DRAWS:
        raise fail("count", count, f"a whole number from 10 to {MAX_DRAWS}")
    return on_one_core(lambda: _simulate(*_laws(target, draft), count, seed, _rule(rule, settings)))


def _simulate(target: Tensor, draft: Tensor, count: int, seed: int, rule: Any) -> Simulation:
    generator = torch.Generator().manual_seed(seed)
    accept, residual = rule.plan(target, draft)
    drafted, replaced = (
        law.multinomial(count, replacement=True, generator=generator) for law in (draft, residual)
    )
    accepted = torch.rand(count, generator=generator, dtype=torch.float64) < accept[drafted]
    emitted = torch.where(accepted, drafted, replaced)
    law = target.tolist()

    def at(number: int) -> Draws:
        shares = _shares(emitted[:number], len(law))
        return Draws(number, divergence(target, shares, "tv"), chance_distance(law, number))

    return Simulation(
        rule=rule.name,
        draws=tuple(at(number) for number in checkpoints(count)),
        shares=tuple(_shares(emitted, len(law)).tolist()),
        accepted=float(accepted.double().mean()),
        floor=divergence(target, rule.output_law(target, draft), "tv"),
    )


def _shares(tokens: Tensor, size: int) -> Tensor:
    return torch.bincount(tokens, minlength=size).double() / len(tokens)


def mentored_points(target: Law, draft: Law, budgets: Sequence[float]) -> tuple[RulePoint, ...]:
    """Mentored decoding at these budgets, in nats of KL(target‖output)."""
    q, p = _laws(target, draft)
    return on_one_core(lambda: tuple(_point("mentored", _BUDGET, d, q, p) for d in budgets))


def rule_curves(target: Law, draft: Law, num_points: int = 40) -> tuple[RuleCurve, ...]:
    """Acceptance and KL(target‖output) of every rule that has settings, along its first one."""
    q, p = _laws(target, draft)
    settings = {name: dataclasses.fields(rule.Params) for name, rule in VERIFIERS.items()}
    knobs = {name: fields[0] for name, fields in settings.items() if fields}
    return on_one_core(
        lambda: tuple(_rule_curve(name, knob, q, p, num_points) for name, knob in knobs.items())
    )


def _rule_curve(
    name: str, knob: dataclasses.Field[Any], target: Tensor, draft: Tensor, num_points: int
) -> RuleCurve:
    values = _knob_values(knob, len(target), divergence(target, draft, "kl"), num_points)
    points = (_point(name, knob.name, value, target, draft) for value in values)
    return RuleCurve(name, knob.name, tuple(points))


def _point(name: str, knob: str, value: float, target: Tensor, draft: Tensor) -> RulePoint:
    accept, output = _rule(name, {knob: value}).outcome(target, draft)
    acceptance, spent = min(1.0, float(draft @ accept.double())), divergence(target, output, "kl")
    if math.isinf(spent):
        return RulePoint(value, acceptance, spent)
    best = solve(target, draft, spent, keep_support=False).acceptance
    return RulePoint(value, acceptance, spent, best - acceptance)


def _knob_values(
    knob: dataclasses.Field[Any], size: int, reach: float, num_points: int
) -> list[float]:
    """Values of a rule's setting over its range. One that may go beyond 1 is a budget, and ends at
    `reach`, where the draft can be taken whole; a number of tokens ends at V."""
    low, high = knob.metadata["min"], knob.metadata["max"]
    if knob.metadata["kind"] == "int":
        return [float(k) for k in range(int(low), min(int(high), size) + 1)]
    if high > 1:
        high = min(high, max(1.0, reach if math.isfinite(reach) else _NO_END))
        return [low + (high - low) * (i / num_points) ** 2 for i in range(num_points + 1)]
    return [low + (high - low) * i / num_points for i in range(num_points + 1)]


def family(target: Law, draft: Law, num_points: int = 24) -> dict[str, tuple[FamilyPoint, ...]]:
    """Acceptance over the budget for each divergence, from 0 to where the draft is taken whole."""
    return on_one_core(
        lambda: {kind: _family(target, draft, kind, num_points) for kind in DIVERGENCES}
    )


def _family(target: Law, draft: Law, kind: str, num_points: int) -> tuple[FamilyPoint, ...]:
    whole = solve(target, draft, math.inf, kind).divergence_spent
    reach = whole if math.isfinite(whole) else _NO_END
    budgets = [reach * (i / num_points) ** 2 for i in range(num_points + 1)]
    found = []
    for budget in budgets:
        best = solve(target, draft, budget, kind)
        spent = divergence(target, best.output_probs, "kl")
        found.append(FamilyPoint(budget, best.acceptance, spent))
    return tuple(found)


def _rule(name: str, settings: Mapping[str, Any]) -> Any:
    """The rule with these settings."""
    rule = lookup(VERIFIERS, name, "rule")
    return rule(build(rule.Params, dict(settings), f'rule "{name}"'))


def _laws(target: Law, draft: Law) -> tuple[Tensor, Tensor]:
    """Both laws [V] in double precision with a sum of exactly 1; ValueError on what is no law."""
    solve(target, draft, 0.0)  # its checks
    laws = (torch.tensor(list(law), dtype=torch.float64) for law in (target, draft))
    q, p = (law / law.sum() for law in laws)
    return q, p
