"""A language model whose whole law is a table, so that statements can be proved by enumeration."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Container, Mapping, Sequence
from types import SimpleNamespace

import torch
from torch import Tensor, nn

Prefix = tuple[int, ...]


class TableLM(nn.Module):
    """Logits [W, n, V] (float64) for ids [W, n]: the logarithm of a law looked up by whole prefix.

    The law after a prefix (prompt included) is `laws[prefix]` where given; every other one is a
    pseudo-random function of (seed, prefix): the same in every run, process and batch, and
    different for every prefix. There is no cache argument, so `playground.cache.RecomputeState`
    serves this model.

    vocab_size: V. eos: the model's own end ids (an id, several, or None), which a ModelPair finds
    as for any model. zeros: share of tokens that get probability exactly 0 (at least one stays).
    concentration: of the Dirichlet law that the weights follow; small is peaked, large is flat.
    num_calls counts forward calls, rows included only once.
    """

    def __init__(
        self,
        vocab_size: int,
        seed: int = 0,
        *,
        eos: int | Sequence[int] | None = None,
        laws: Mapping[Prefix, Sequence[float]] | None = None,
        zeros: float = 0.0,
        concentration: float = 1.0,
    ) -> None:
        super().__init__()
        self.vocab_size, self.seed = vocab_size, seed
        self.zeros, self.concentration = zeros, concentration
        ids = None if eos is None else [eos] if isinstance(eos, int) else list(eos)
        self.config = SimpleNamespace(vocab_size=vocab_size, eos_token_id=ids)
        self.num_calls = 0
        self._laws = {
            tuple(prefix): [float(p) for p in law] for prefix, law in (laws or {}).items()
        }
        self._logits: dict[Prefix, Tensor] = {}

    def law(self, prefix: Sequence[int]) -> list[float]:
        """Probabilities of the V next tokens after `prefix` (the prompt is part of it)."""
        key = tuple(prefix)
        if key not in self._laws:
            self._laws[key] = self._random_law(key)
        return self._laws[key]

    def probability(self, prompt: Sequence[int], ids: Sequence[int]) -> float:
        """Probability that `ids` follow `prompt`."""
        return math.prod(self.law((*prompt, *ids[:i]))[token] for i, token in enumerate(ids))

    def sequences(
        self, prompt: Sequence[int], eos_ids: Container[int], max_new_tokens: int
    ) -> list[tuple[list[int], float]]:
        """Every possible output with its log-probability: those that end with an end token, and
        those that the limit cuts."""
        found: list[tuple[list[int], float]] = []
        open_ones: list[tuple[list[int], float]] = [([], 0.0)]
        while open_ones:
            ids, logprob = open_ones.pop()
            for token, p in enumerate(self.law((*prompt, *ids))):
                if p > 0:
                    grown = ([*ids, token], logprob + math.log(p))
                    ended = token in eos_ids or len(grown[0]) == max_new_tokens
                    (found if ended else open_ones).append(grown)
        return found

    def forward(self, input_ids: Tensor) -> Tensor:
        self.num_calls += 1
        rows = [
            torch.stack([self._row(tuple(ids[: i + 1])) for i in range(len(ids))])
            for ids in input_ids.tolist()
        ]
        return torch.stack(rows)

    def _row(self, prefix: Prefix) -> Tensor:
        if prefix not in self._logits:
            law = torch.tensor(self.law(prefix), dtype=torch.float64)
            self._logits[prefix] = law.log()
        return self._logits[prefix]

    def _random_law(self, prefix: Prefix) -> list[float]:
        digest = hashlib.sha256(repr((self.seed, prefix)).encode()).digest()
        source = random.Random(digest)
        weights = [
            source.gammavariate(self.concentration, 1.0) + 1e-9 for _ in range(self.vocab_size)
        ]
        kept = [w if source.random() >= self.zeros else 0.0 for w in weights]
        if not any(kept):
            kept = weights
        total = sum(kept)
        return [w / total for w in kept]
