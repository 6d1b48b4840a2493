"""The searches of the lessons, run by the product's own methods over a little language."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from playground.cache import SharedPromptLayer
from playground.lessons.beam_step import BeamStep, CacheRows, beam_step
from playground.lessons.stopping import END, LAWS, WIDTH, StopStep
from playground.lessons.tree import WIDTHS, Path, Tree
from playground.methods.beam_group import NEVER, BeamParams, Group
from playground.methods.scoring import Hypothesis
from playground.models import ModelPair
from playground.params import fail
from playground.session import decode
from playground.types import DecodeResult

Law = Sequence[float]
PROMPT = 0  # the id that every table's prefixes begin with
MODES: dict[str, bool | str] = {"true": True, "false": False, "never": NEVER}


class TableLM(nn.Module):
    """Logits [W, n, V] for ids [W, n], float64: logarithms of the laws of a table by whole prefix,
    the prompt's id first. A prefix that is not in the table is followed by the uniform law."""

    def __init__(self, laws: Mapping[tuple[int, ...], Law], eos: int | None = None) -> None:
        super().__init__()
        size = len(next(iter(laws.values())))
        self.config = SimpleNamespace(vocab_size=size, eos_token_id=eos)
        self._rows = {
            key: torch.tensor(law, dtype=torch.float64).log() for key, law in laws.items()
        }
        self._default = torch.zeros(size, dtype=torch.float64)

    def forward(self, input_ids: Tensor) -> Tensor:
        return torch.stack([torch.stack(list(self._along(ids))) for ids in input_ids.tolist()])

    def _along(self, ids: list[int]) -> Iterator[Tensor]:
        return (self._rows.get(tuple(ids[: i + 1]), self._default) for i in range(len(ids)))


# --- greedy can lose, one beam step ---------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class TreeSearch:
    """What greedy (width None) or beam search of a width finds in a tree, and its record."""

    width: int | None
    path: Path
    result: DecodeResult


def search_tree(tree: Tree) -> tuple[TreeSearch, ...]:
    """Greedy's path, then beam search's at each width."""
    pair = _tree_pair(tree)
    common: dict[str, Any] = {"max_new_tokens": 2, "eos_token_id": []}
    runs: list[tuple[int | None, DecodeResult]]
    runs = [(None, decode(pair, [PROMPT], "greedy", **common))]
    runs += [(w, decode(pair, [PROMPT], "beam", num_beams=w, **common)) for w in WIDTHS]
    return tuple(TreeSearch(w, tree.path(run.token_ids), run) for w, run in runs)


def tree_step(tree: Tree, width: int, index: int) -> BeamStep:
    """Step 0 or 1 of a beam search in the tree, as one that goes on behind it."""
    result = decode(
        _tree_pair(tree), [PROMPT], "beam", num_beams=width, max_new_tokens=3, eos_token_id=[]
    )
    return beam_step(result.steps, index, len(tree.first))


def _tree_pair(tree: Tree) -> ModelPair:
    laws = {(PROMPT,): tree.first}
    return ModelPair(TableLM(laws | {(PROMPT, i): law for i, law in enumerate(tree.second)}))


def cache_rows(
    prompt: Sequence[int], rows: Sequence[Sequence[int]], parents: Sequence[int]
) -> CacheRows:
    """Reorder one layer of the cache: `rows` [W][t] are the tokens of the beams behind the prompt,
    and row i of the next step continues row parents[i]. Each token's key and value is its id."""
    layer = SharedPromptLayer()
    layer.update(*_keys([prompt]))
    layer.reorder_cache(torch.zeros(len(rows), dtype=torch.long))
    before, _ = layer.update(*_keys(rows))
    layer.reorder_cache(torch.tensor(list(parents)))
    after, _ = layer.update(*_keys([()] * len(parents)))
    return CacheRows(
        shared=_ids(before[:1, :, : len(prompt)])[0],
        before=_ids(before[:, :, len(prompt) :]),
        parents=tuple(parents),
        after=_ids(after[:, :, len(prompt) :]),
        num_bytes=layer.num_bytes(),
        num_bytes_naive=layer.num_bytes_naive(),
    )


def _keys(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Keys and values [W, 1 head, t, 1 number] of rows of ids."""
    keys = torch.tensor([list(row) for row in rows], dtype=torch.float32)[:, None, :, None]
    return keys, keys.clone()


def _ids(keys: Tensor) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(int(x) for x in row) for row in keys[:, 0, :, 0].tolist())


# --- when to stop ---------------------------------------------------------------------------------


def stopping_search() -> DecodeResult:
    """The search of the lesson on stopping: two beams in its little language, mode "never"."""
    prefixes: list[tuple[int, ...]] = [(PROMPT,)]
    laws: dict[tuple[int, ...], Law] = {}
    for law in LAWS:
        laws |= dict.fromkeys(prefixes, law)
        prefixes = [(*prefix, i) for prefix in prefixes for i in range(len(law)) if i != END]
    pair = ModelPair(TableLM(laws, eos=END))
    params: dict[str, Any] = {"num_beams": WIDTH, "max_new_tokens": len(LAWS)}
    return decode(pair, [PROMPT], "beam", early_stopping=NEVER, **params)


def stopping(result: DecodeResult) -> tuple[StopStep, ...]:
    """The three modes of a plain beam search that was recorded with early_stopping="never".

    Up to its end, a search's beams do not depend on the mode. Raises ValueError for another record.
    """
    if result.params.get("early_stopping") != NEVER or "num_beam_groups" in result.params:
        mode = result.params.get("early_stopping")
        raise fail("early_stopping", mode, f"{NEVER!r}, as recorded by plain beam search")
    names = [field.name for field in dataclasses.fields(BeamParams)]
    params = BeamParams(**{name: result.params[name] for name in names})
    finished: list[tuple[float, bool, Hypothesis]] = []
    found = []
    for length, step in enumerate(result.steps, 1):
        ended = [c for c in step.candidates if c.finished]
        finished += [(c.score, True, Hypothesis([], c.sum_logprob, c.sum_logprob)) for c in ended]
        finished = sorted(finished, key=lambda item: -item[0])[: params.num_beams]
        live = _best_live(step.bound, length, params)
        found.append(_stop_step(length, live, finished, params))
    return tuple(found)


def _best_live(bound: float | None, length: int, params: BeamParams) -> float | None:
    """The sum of the best live beam, from the bound that a search recorded: a multiple of it."""
    if bound is None:
        return None
    return bound / params.bound(1.0, length, params.max_new_tokens)


def _stop_step(
    length: int, live: float | None, finished: list[Any], params: BeamParams
) -> StopStep:
    bounds: dict[str, float | None] = {}
    stops: dict[str, bool] = {}
    for mode, value in MODES.items():
        group = Group(params.num_beams, dataclasses.replace(params, early_stopping=value))
        group.live = [] if live is None else [Hypothesis([0] * length, live, live)]
        group.finished = finished
        bounds[mode] = group.bound(params.max_new_tokens)
        stops[mode] = group.should_stop(params.max_new_tokens)
    scores = [score for score, _, _ in finished]
    return StopStep(
        step=length,
        best_live=live,
        num_finished=len(finished),
        worst=min(scores, default=None),
        best=max(scores, default=None),
        bounds=bounds,
        stops=stops,
    )
