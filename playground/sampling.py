"""Logits -> probabilities -> token: all warping, once, in one order, for target and draft alike.

The order, that of transformers' `generate`: repetition penalty, n-gram block, minimum length,
forced and banned tokens, temperature, top-k, top-p. Temperature 0 is the one-hot law of the
largest logit. Draw, acceptance ratio and residual all use the result; nothing is warped twice.

Search methods warp log-probabilities instead of logits, as transformers does: a repetition penalty
therefore acts on log-probabilities there, and does not shift with a constant added to the logits.
On logits it does: it divides positive ones and multiplies negative ones, so that a repeat is always
less likely, but by how much depends on where zero lies. Beam search with one beam is greedy, and
warps logits as greedy does.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from playground.params import param

_MOST_GROWTH = 60.0  # exponent: e^60 times a logit is still a single-precision number
_BLOCK = 256  # tokens
_AHEAD = 64  # uniform numbers made at once
_LOW_TEMPERATURE = 0.05  # below this, logits over it lose digits that count
MIN_TEMPERATURE = 1e-6  # below this the law is one-hot in single precision anyway


@dataclass(frozen=True, slots=True)
class Limits:
    """Settings that every method has: length, end of sequence, repetition, seed."""

    max_new_tokens: int = param(
        64, "Most new tokens a run may produce.", label="Tokens", min=1, max=1_000_000, step=1
    )
    min_new_tokens: int = param(
        0, "No end token before this many new tokens.", label="Minimum tokens", min=0, max=1_000_000
    )
    repetition_penalty: float = param(
        1.0,
        "Above 1 makes tokens that already occurred (prompt included) less likely; 1 is off.",
        label="Repetition penalty",
        min=0.1,
        max=10.0,
        step=0.05,
    )
    no_repeat_ngram_size: int = param(
        0, "No n-gram of this size occurs twice; 0 is off.", label="No-repeat n-gram", min=0, max=20
    )
    eos_token_id: int | list[int] | None = param(
        None,
        "End token: an id, a list, or [] for none. Default: the model's own.",
        label="End token",
    )
    stop: str | list[str] | None = param(
        None, "Text at which a run ends; it is cut before the match.", label="Stop"
    )
    seed: int | None = param(
        None,
        "Same seed and settings, same output. None picks a fresh one.",
        label="Seed",
        min=0,
        max=2**63 - 1,
        step=1,
        kind="int",
    )


@dataclass(frozen=True, slots=True)
class Sampling(Limits):
    """Limits plus the settings that shape the law a token is drawn from."""

    temperature: float = param(
        1.0,
        "Divides the logits: below 1 sharper, above 1 flatter; 0 always takes the most probable.",
        label="Temperature",
        min=0.0,
        max=10.0,
        step=0.05,
    )
    top_k: int = param(
        0, "Keep only the k most probable tokens; 0 is off.", label="Top-k", min=0, max=1_000_000
    )
    top_p: float = param(
        1.0,
        "Keep the smallest set of tokens whose probability reaches this; 1 is off.",
        label="Top-p",
        min=0.0,
        max=1.0,
        step=0.01,
    )


@dataclass(frozen=True, slots=True)
class Constraints:
    """What a model's own generation config asks of its law, where no parameter of ours does.

    biases: (word, number): the number is added to the word's last token where the rest of the word
    has just been written. bad_words: words that may not be completed; an end token alone is none.
    end_growth: (tokens, factor): after so many tokens the end tokens gain, ever faster.
    banned, banned_first: tokens that may never, or not as the first free token, be chosen.
    forced_first: the second token of all, the first being a decoder's start; forced_last: tokens
    of which one stands at the length limit.
    """

    biases: tuple[tuple[tuple[int, ...], float], ...] = ()
    bad_words: tuple[tuple[int, ...], ...] = ()
    end_growth: tuple[int, float] | None = None
    banned: tuple[int, ...] = ()
    banned_first: tuple[int, ...] = ()
    forced_first: int | None = None
    forced_last: tuple[int, ...] = ()

    @property
    def may_raise(self) -> bool:
        """Whether they can lift a log-probability above 0, so that a sum may grow."""
        grows = self.end_growth is not None and self.end_growth[1] > 1
        return grows or any(bias > 0 for _, bias in self.biases)


class Draws:
    """The only source of randomness of a run: uniform numbers and categorical draws.

    The generator lives on the CPU, so that a seed means the same on every device.
    """

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self._ahead: list[float] = []  # numbers already made, the next one last

    def uniform(self) -> float:
        """A number in [0, 1)."""
        if not self._ahead:
            # The same numbers as one by one, for a fraction of the time.
            numbers = torch.rand(_AHEAD, generator=self._generator, dtype=torch.float64)
            self._ahead = numbers.flip(0).tolist()
        return self._ahead.pop()

    def categorical(self, probs: Tensor) -> int:
        """An index drawn from probs [V], by inverting the cumulative sum. Never one of mass 0."""
        return invert_cdf(probs, self.uniform())


def invert_cdf(probs: Tensor, u: float) -> int:
    """The index at which the cumulative sum of probs [V] first exceeds u times the total."""
    law = probs.numpy(force=True)  # a GPU's law is copied once; a small step in numpy costs least
    # Blocks first, then within one of them: a running sum over all takes twice as long.
    sums = np.add.reduceat(law, np.arange(0, len(law), _BLOCK), dtype=np.float64).cumsum()
    goal = u * sums.item(-1)
    block = int(sums.searchsorted(goal, "right"))
    # Rounding can put u at the very end: then it is the last block, or token, that has any mass.
    if block == len(sums):
        block = int(sums.searchsorted(sums.item(-1)))
    goal -= sums.item(block - 1) if block else 0.0
    masses = law[block * _BLOCK : (block + 1) * _BLOCK]
    inside = int(masses.cumsum(dtype=np.float64).searchsorted(goal, "right"))
    if inside == len(masses) or not masses[inside] > 0:
        inside = int(masses.nonzero()[0][-1])
    return block * _BLOCK + inside


class Warper:
    """Turns rows of raw logits into the laws that a run draws from. Pure: it holds settings only.

    prefix_length: how many ids of every history are prompt (or decoder start), not new.
    """

    def __init__(
        self,
        settings: Limits,
        constraints: Constraints,
        eos_ids: frozenset[int],
        prefix_length: int,
        max_new_tokens: int,
    ) -> None:
        self._settings = settings
        self._temperature: float = getattr(settings, "temperature", 1.0)
        self._top_k: int = getattr(settings, "top_k", 0)
        self._top_p: float = getattr(settings, "top_p", 1.0)
        self._constraints = constraints
        self._eos_ids = sorted(eos_ids)
        self._bad_words = [
            word for word in constraints.bad_words if len(word) > 1 or word[0] not in eos_ids
        ]
        forces_first = constraints.forced_first is not None and prefix_length == 1
        self._first_free = int(forces_first)  # how many new tokens come before a free one
        self._prefix_length = prefix_length
        self._max_new_tokens = max_new_tokens
        self.needs_history = bool(
            settings.repetition_penalty != 1.0
            or settings.no_repeat_ngram_size
            or settings.min_new_tokens
            or constraints != Constraints()
        )

    def probs(self, logits: Tensor, history: Sequence[int], start: int) -> Tensor:
        """Laws [k, V] for rows logits [k, V]; row i follows history[: start + i].

        A row in which everything is banned comes back all zero (see `is_exhausted`).
        """
        return self.law(self.process(logits, history, start))

    def process(self, scores: Tensor, history: Sequence[int], start: int) -> Tensor:
        """Penalties, bans and forced tokens on rows [k, V] of logits or log-probabilities."""
        scores = scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores
        if not self.needs_history:
            return scores
        rows = [
            self._process_row(row, list(history[: start + i]))
            for i, row in enumerate(scores.unbind(0))
        ]
        return torch.stack(rows)

    def logprobs(self, logits: Tensor, histories: Sequence[Sequence[int]]) -> Tensor:
        """What searches add up: log-probabilities [k, V], penalised and banned, from raw logits
        [k, V]; row i follows histories[i]."""
        logits = logits if logits.dtype == torch.float64 else logits.float()
        logprobs = logits.log_softmax(-1)
        if not self.needs_history:
            return logprobs
        rows = zip(logprobs, histories, strict=True)
        return torch.stack([self._process_row(row, list(history)) for row, history in rows])

    def law(self, logits: Tensor) -> Tensor:
        """Temperature, top-k, top-p and softmax over rows [k, V] of processed logits."""
        if self._temperature < MIN_TEMPERATURE:
            index = logits.argmax(-1, keepdim=True)
            one_hot = torch.zeros_like(logits).scatter_(-1, index, 1.0)
            return one_hot * (logits.gather(-1, index) > float("-inf"))
        if self._temperature < _LOW_TEMPERATURE:
            # Subtracting the maximum first keeps the digits of those near it.
            logits = logits - logits.amax(-1, keepdim=True)
        if self._temperature != 1.0:
            logits = logits / self._temperature
        if 0 < self._top_k < logits.shape[-1]:
            smallest = logits.topk(self._top_k).values[..., -1:]
            logits = logits.masked_fill(logits < smallest, float("-inf"))
        probs = logits.softmax(-1)
        if self.needs_history:
            probs = probs.nan_to_num(0.0)  # softmax of a row in which everything is banned
        return probs if self._top_p >= 1.0 else _nucleus(probs, self._top_p)

    @property
    def may_raise(self) -> bool:
        """Whether a processed log-probability can lie above 0, so that a sum may grow."""
        return self._constraints.may_raise

    def is_exhausted(self, probs: Tensor) -> bool:
        """Whether the law probs [V] has no mass at all: every token is banned."""
        return self.needs_history and not bool(probs.any())

    def _process_row(self, row: Tensor, history: list[int]) -> Tensor:
        settings, num_new = self._settings, len(history) - self._prefix_length
        row = row.clone()
        for word, bias in self._constraints.biases:
            if 0 <= word[-1] < len(row) and _is_next(word, history):
                row[word[-1]] += bias
        if settings.repetition_penalty != 1.0 and history:
            seen = torch.tensor(sorted({t for t in history if t < len(row)}), device=row.device)
            old = row[seen]
            # Sign-aware (CTRL, Keskar et al. 2019, as corrected in practice): always less likely.
            penalty = settings.repetition_penalty
            row[seen] = torch.where(old < 0, old * penalty, old / penalty)
        if self._eos_ids and self._constraints.end_growth is not None:
            self._favour_end(row, num_new)
        banned = self._banned(history, num_new)
        if banned:
            row[[t for t in banned if 0 <= t < len(row)]] = float("-inf")
        forced = [t for t in self._forced(history, num_new) if 0 <= t < len(row)]
        if forced:
            row = torch.full_like(row, float("-inf"))
            row[forced] = 0.0
        return row

    def _favour_end(self, row: Tensor, num_new: int) -> None:
        assert self._constraints.end_growth is not None
        start, factor = self._constraints.end_growth
        if num_new > start:
            growth = math.exp(min((num_new - start) * math.log(factor), _MOST_GROWTH)) - 1.0
            row[self._eos_ids] += row[self._eos_ids].abs().nan_to_num(posinf=0.0) * growth

    def _banned(self, history: list[int], num_new: int) -> set[int]:
        banned = set(self._constraints.banned)
        if num_new == self._first_free:
            banned |= set(self._constraints.banned_first)
        banned |= {word[-1] for word in self._bad_words if _is_next(word, history)}
        if num_new < self._settings.min_new_tokens:
            banned |= set(self._eos_ids)
        if self._settings.no_repeat_ngram_size:
            banned |= repeated_ngram_ends(history, self._settings.no_repeat_ngram_size)
        return banned

    def _forced(self, history: list[int], num_new: int) -> tuple[int, ...]:
        if num_new == self._max_new_tokens - 1 and self._constraints.forced_last:
            return self._constraints.forced_last
        first = self._constraints.forced_first
        return () if first is None or len(history) != 1 else (first,)


def _is_next(word: tuple[int, ...], history: list[int]) -> bool:
    """Whether `history` ends with all of the word but its last token."""
    num_before = len(word) - 1
    return not num_before or tuple(history[-num_before:]) == word[:-1]


def repeated_ngram_ends(history: Sequence[int], n: int) -> set[int]:
    """Tokens that would complete an n-gram which `history` already holds."""
    head = tuple(history[len(history) - n + 1 :]) if n > 1 else ()
    if len(head) < n - 1:
        return set()
    return {
        history[i + n - 1]
        for i in range(len(history) - n + 1)
        if tuple(history[i : i + n - 1]) == head
    }


def _nucleus(probs: Tensor, top_p: float) -> Tensor:
    """Keep, per row of probs [k, V], the fewest largest entries whose mass reaches top_p (≥ 1)."""
    size = probs.shape[-1]
    count = min(size, 512)  # a sort of the whole vocabulary is rarely needed
    while True:
        values, index = probs.topk(count)
        cumulative = values.cumsum(-1)
        if count == size or bool((cumulative[..., -1] >= top_p).all()):
            break
        count = min(size, count * 8)
    keep = (cumulative - values) < top_p
    keep[..., 0] = True
    kept = torch.zeros_like(probs).scatter_(-1, index, values * keep)
    total = kept.sum(-1, keepdim=True)
    return torch.where(total > 0, kept / total, kept)


class Clock:
    """Where a run's time and passes go. Seconds are measured with the device synchronised."""

    def __init__(self, device: torch.device) -> None:
        self._cuda = device if device.type == "cuda" else None
        self.seconds = {"target": 0.0, "draft": 0.0}
        self.passes = {"target": 0, "draft": 0}

    def now(self) -> float:
        """Seconds, after all work given to the device is done."""
        if self._cuda is not None:
            torch.cuda.synchronize(self._cuda)
        return time.perf_counter()

    @contextmanager
    def time(self, model: str, passes: int = 1) -> Iterator[None]:
        """Charge the block's time, and `passes` forward passes, to "target" or "draft"."""
        start = self.now()
        yield
        self.seconds[model] += self.now() - start
        self.passes[model] += passes
