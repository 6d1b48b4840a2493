"""Two laws of a whole vocabulary in a few numbers, for the record of a run.

Tokens that matter stand alone; the others are merged into groups of about equal draft/target
ratio, on one side of equality each, and apart where one law is zero. The overlap Σ min(p, q), and
so the acceptance of exact speculation, stays exact (to the digits that are kept); a divergence
loses what the ratios differ within a group, which the cuts keep small.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from playground.types import LawSummary

_CUTS = 6  # on top of those at equality and at zeros
_TINY = 1e-6  # tokens below it under both laws are grouped by their side of equality alone
_BIN_BITS, _NUM_BINS = 4, 512  # 16 bins for each factor 2 of draft/target, from 2^-16 to 2^16

Array = NDArray[Any]
Group = tuple[float, float, int]  # target mass, draft mass, number of tokens


def summarise(
    target_probs: Tensor, draft_probs: Tensor, listed: Sequence[int], support: Tensor | None = None
) -> LawSummary:
    """Both laws [V]; the `listed` tokens (distinct ids) stand alone, in that order, unnamed.
    support: ids outside which the draft's law is known to be 0."""
    ids = list(listed)
    laws = torch.stack([target_probs, draft_probs.to(target_probs)]).numpy(force=True)
    alone = laws[:, ids].tolist()
    laws[:, ids] = 0
    outside: list[Group] = []
    if support is not None:
        target = laws[0]
        laws = laws.take(support.numpy(force=True), 1)
        outside = _without(target, laws[0])
    larger = np.maximum(*laws)
    inside = np.flatnonzero(larger > _TINY)
    groups = outside + _by_ratio(*laws[:, inside].astype(np.float64))
    laws[:, inside] = larger[inside] = 0
    if larger.max() > 0:
        groups += _by_side(laws)
    groups.sort(key=lambda group: group[1] / group[0] if group[0] else math.inf)
    return LawSummary(
        token_ids=tuple(ids),
        target_probs=_rounded(alone[0]),
        draft_probs=_rounded(alone[1]),
        rest_target_probs=_rounded(group[0] for group in groups),
        rest_draft_probs=_rounded(group[1] for group in groups),
        rest_sizes=tuple(group[2] for group in groups),
    )


def _rounded(values: Iterable[float]) -> tuple[float, ...]:
    """Seven digits, about what single precision holds: a record is read by people, too."""
    return tuple(float(f"{value:.7g}") for value in values)


def _without(target: Array, inside: Array) -> list[Group]:
    """The tokens of a law [V] that have any mass and are not among those `inside` [n]."""
    mass, within = (float(law.sum(dtype=np.float64)) for law in (target, inside))
    count = int(np.count_nonzero(target) - np.count_nonzero(inside))
    return [(max(mass - within, 0.0), 0.0, count)] if count else []


def _by_side(laws: Array) -> list[Group]:
    """The tokens of two laws [2, V] that have any mass, by which law is larger and whether the
    other is zero."""
    # By products with 0 and 1: torch and numpy both sum over a mask ten times as slowly.
    both = torch.from_numpy(laws)
    present = both.sign()
    under = (both[0] - both[1]).sign_().clamp_(min=0)
    parts = both, both * under, both * (1 - present.flip(0))
    whole, below, alone = (part.sum(1, dtype=torch.float64).tolist() for part in parts)
    numbers = torch.stack([under, *present, present[0] * present[1]]).sum(1).tolist()
    num_below, num_target, num_draft, num_both = map(round, numbers)
    only_target, only_draft = num_target - num_both, num_draft - num_both
    above = [all_of - part for all_of, part in zip(whole, below, strict=True)]
    groups = [
        (alone[0], 0.0, only_target),
        (0.0, alone[1], only_draft),
        (below[0] - alone[0], below[1], num_below - only_target),
        (above[0], above[1] - alone[1], num_both - (num_below - only_target)),
    ]
    return [group for group in groups if group[2]]


def _by_ratio(target: Array, draft: Array) -> list[Group]:
    """Tokens [n], none zero under both laws, in few groups of about equal draft/target ratio."""
    apart = [zero for zero in (target == 0, draft == 0) if zero.any()]
    groups = [
        (float(target[zero].sum()), float(draft[zero].sum()), int(zero.sum())) for zero in apart
    ]
    if apart:
        both = (target > 0) & (draft > 0)
        target, draft = target[both], draft[both]
    coarse = (draft / target).view(np.int64) >> (52 - _BIN_BITS)  # a logarithm, cut into bins
    bins = (coarse - (1023 << _BIN_BITS) + _NUM_BINS // 2).clip(0, _NUM_BINS - 1)
    sums = [np.bincount(bins, weights, _NUM_BINS) for weights in (target, draft, None)]
    return groups + _cut(np.array(sums))


def _cut(bins: Array) -> list[Group]:
    """[3, n] masses and sizes in order of the ratio, in few groups: again and again, what loses
    most by being one group is cut at its mean ratio."""
    middle = _NUM_BINS // 2
    target, draft = np.maximum(bins[:2], 1e-300)
    ratio = np.log(draft / target)
    sums = np.zeros((4, _NUM_BINS + 1))
    np.cumsum([*bins, (bins[1] - bins[0]) * ratio], axis=1, out=sums[:, 1:])
    queue = [_entry(sums, 0, middle), _entry(sums, middle, _NUM_BINS)]
    heapq.heapify(queue)
    for _ in range(_CUTS):
        loss, start, end = queue[0]
        if loss >= 0:
            break
        mass = sums[:2, end] - sums[:2, start]
        mean = middle + int(math.log2(mass[1] / mass[0]) * (1 << _BIN_BITS))
        cut = min(max(mean, start + 1), end - 1)
        heapq.heapreplace(queue, _entry(sums, start, cut))
        heapq.heappush(queue, _entry(sums, cut, end))
    spans = ((sums[:3, end] - sums[:3, start]).tolist() for _, start, end in queue)
    return [(target, draft, round(size)) for target, draft, size in spans if size]


def _entry(sums: Array, start: int, end: int) -> tuple[float, int, int]:
    """(−loss, start, end): what KL(q‖p) + KL(p‖q) loses if the tokens of a span are one."""
    target, draft, _, divergence = (sums[:, end] - sums[:, start]).tolist()
    if end - start < 2 or target <= 0 or draft <= 0:
        return 0.0, start, end
    return min(0.0, (draft - target) * math.log(draft / target) - divergence), start, end
