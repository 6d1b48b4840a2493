"""Laps: all prompts through one decoder, ours or transformers', timed in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from playground.models import ModelPair
from playground.sampling import Clock
from playground.session import decode
from playground.types import DecodeResult

Row = dict[str, Any]
Prompts = Sequence[str | list[int]]
Lap = Callable[[int, Prompts], "Times"]
TEMPERATURE, BUDGET = 0.7, 0.2


@dataclass(slots=True)
class Times:
    """Sums over one lap; `results` only where the decoder is ours."""

    tokens: int = 0
    seconds: float = 0.0
    wall: float = 0.0
    results: list[DecodeResult] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Bench:
    """A pair, its prompts, and how long and how often they are run. `load` gives the same pair in
    another precision, or raises ValueError where it cannot."""

    pair: ModelPair
    load: Callable[[str], ModelPair]
    prompts: Prompts
    max_new_tokens: int = 64
    repeats: int = 3
    note: Callable[[str], None] = lambda line: None

    def ours(self, method: str, params: Row) -> Lap:
        """All prompts through one of our methods."""

        def lap(seed: int, prompts: Prompts) -> Times:
            total = Times()
            for prompt in prompts:
                start = time.perf_counter()
                found = decode(
                    self.pair,
                    prompt,
                    method,
                    seed=seed,
                    max_new_tokens=self.max_new_tokens,
                    **params,
                )
                total.wall += time.perf_counter() - start
                total.tokens += len(found.token_ids)
                total.seconds += found.metrics.total_s
                total.results.append(found)
            return total

        return lap

    def theirs(self, pair: ModelPair, options: Row) -> Lap:
        """All prompts through `generate` of transformers, on the same weights."""

        def lap(seed: int, prompts: Prompts) -> Times:
            total = Times()
            for prompt in prompts:
                ids = torch.tensor([pair.encode(prompt)], device=pair.device)
                clock = Clock(pair.device)
                with torch.random.fork_rng(), torch.inference_mode():
                    torch.manual_seed(seed)  # generate draws from the global generator
                    start = clock.now()
                    found = pair.target.generate(
                        ids,
                        attention_mask=torch.ones_like(ids),
                        max_new_tokens=self.max_new_tokens,
                        pad_token_id=min(pair.eos_ids(), default=0),
                        **_sampling(options),
                    )
                    total.seconds += clock.now() - start
                read = 1 if pair.is_encoder_decoder else ids.shape[1]
                total.tokens += found.shape[1] - read
            total.wall = total.seconds
            return total

        return lap

    def race(self, laps: dict[str, Lap], seeds: range | None = None) -> dict[str, list[Times]]:
        """Every lap's first prompt to warm up, then every lap once a seed (`repeats` of them),
        all in turn."""
        seeds = seeds or range(self.repeats)
        for lap in laps.values():
            lap(0, self.prompts[:1])
        found: dict[str, list[Times]] = {name: [] for name in laps}
        for number, seed in enumerate(seeds, start=1):
            self.note(f"lap {number} of {len(seeds)}: {len(laps)} decoders")
            for name, lap in laps.items():
                found[name].append(lap(seed, self.prompts))
        return found


def _sampling(options: Row) -> Row:
    if not options.get("do_sample"):
        return options
    return {"temperature": TEMPERATURE, "top_k": 0, "top_p": 1.0} | options
