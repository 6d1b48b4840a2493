"""The solver beside the published sort-and-bisect."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from playground.baselines import sort_and_bisect
from playground.bench.laps import BUDGET, TEMPERATURE, Bench, Row
from playground.mentored import solve
from playground.models import ModelPair
from playground.proposers import fit_vocabulary
from playground.session import decode


def solver(bench: Bench) -> list[Row]:
    """`solve` beside the published sort-and-bisect, one thread, on the pair's own laws."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [_duel(name, pairs) for name, pairs in _laws(bench)]
    finally:
        torch.set_num_threads(threads)


def _laws(bench: Bench) -> Iterator[tuple[str, list[tuple[Tensor, Tensor]]]]:
    generator = torch.Generator().manual_seed(0)
    dense = [
        tuple(torch.randn(49_152, generator=generator).mul(3).softmax(0) for _ in range(2))
        for _ in range(8)
    ]
    yield "random laws, V = 49152", dense  # type: ignore[misc]
    if bench.pair.draft is not None:
        own = [law for prompt in bench.prompts for law in _own_laws(bench.pair, prompt)]
        yield f"{bench.pair.name}, V = {bench.pair.vocab_size}, temperature {TEMPERATURE}", own


@torch.inference_mode()
def _own_laws(pair: ModelPair, prompt: str | list[int]) -> Iterator[tuple[Tensor, Tensor]]:
    """Laws of target and draft behind a prompt and the first words of its greedy answer."""
    found = decode(pair, prompt, "greedy", max_new_tokens=4)
    states = [pair.open(model, found.prompt_ids) for model in (pair.target, pair.draft)]
    logits = [state.prefill(pair.prefix(found.prompt_ids)) for state in states]
    for token in found.token_ids:
        draft = fit_vocabulary(logits[1], len(logits[0]))
        target_law, draft_law = (
            (x.float() / TEMPERATURE).softmax(0).cpu() for x in (logits[0], draft)
        )
        yield target_law, draft_law
        logits = [state.forward(torch.tensor([[token]]))[0, -1] for state in states]


def _duel(name: str, laws: Sequence[tuple[Tensor, Tensor]]) -> Row:
    def ours(q: Tensor, p: Tensor) -> float:
        return solve(q, p, BUDGET).divergence_spent

    def published(q: Tensor, p: Tensor) -> float:
        return sort_and_bisect(q, p, BUDGET).divergence_spent

    times: dict[str, list[float]] = {"ours": [], "published": []}
    spent: dict[str, list[float]] = {"ours": [], "published": []}
    for _ in range(8):
        for q, p in laws:
            for who, work in (("ours", ours), ("published", published)):
                start = time.perf_counter()
                spent[who].append(work(q, p))
                times[who].append(time.perf_counter() - start)
    ms = {who: 1000 * statistics.median(values[len(laws) :]) for who, values in times.items()}
    return {
        "laws": name,
        "ours_ms": ms["ours"],
        "published_ms": ms["published"],
        "ratio": ms["published"] / ms["ours"],
        "ours_most_spent": max(spent["ours"]),
        "published_most_spent": max(spent["published"]),
    }
