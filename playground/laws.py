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
_LISTED = 2.0  # more than any probability
_BIN_BITS, _NUM_BINS = 4, 512  # 16 bins for each factor 2 of draft/target, from 2^-16 to 2^16

Array = NDArray[Any]
Group = tuple[float, float, int]  # target mass, draft mass, number of tokens


def summarise(target_probs: Tensor, draft_probs: Tensor, listed: Sequence[int]) -> LawSummary:
    """Both laws [V]; the `listed` tokens (distinct ids) stand alone, in that order, unnamed."""
    ids = list(listed)
    laws = torch.stack([target_probs, draft_probs.to(target_probs)]).numpy(force=True)
    target, draft = laws
    larger = np.maximum(target, draft)
    larger[ids] = _LISTED
    (inside,) = ((larger > _TINY) & (larger < _LISTED)).nonzero()
    groups = _by_ratio(target[inside].astype(np.float64), draft[inside].astype(np.float64))
    groups += _by_side(target, draft, larger <= _TINY)
    groups.sort(key=lambda group: group[1] / group[0] if group[0] else math.inf)
    alone = laws[:, ids].tolist()
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


def _by_side(target: Array, draft: Array, chosen: Array) -> list[Group]:
    """The tokens of a mask [V], by which law is larger and whether the other is zero."""
    under, over = chosen & (draft < target), chosen & (draft >= target) & (draft > 0)
    parts = [under, over]
    if not target.min() > 0:
        parts += [over & (target == 0)]
        parts[1] = over & (target > 0)
    if not draft.min() > 0:
        parts += [under & (draft == 0)]
        parts[0] = under & (draft > 0)
    return [_sums(target, draft, part) for part in parts if part.any()]


def _sums(target: Array, draft: Array, chosen: Array) -> Group:
    # numpy's sum over a mask takes ten times as long.
    laws, mask = (torch.from_numpy(law) for law in (target, draft)), torch.from_numpy(chosen)
    first, second = (float(torch.where(mask, x, 0.0).sum(dtype=torch.float64)) for x in laws)
    return first, second, int(np.count_nonzero(chosen))


def _by_ratio(target: Array, draft: Array) -> list[Group]:
    """Tokens [n], none zero under both laws, in few groups of about equal draft/target ratio."""
    apart = [zero for zero in (target == 0, draft == 0) if zero.any()]
    groups = [_sums(target, draft, zero) for zero in apart]
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
