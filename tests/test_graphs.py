"""Recorded passes give what the pass itself gives, or are not used.

A tape stands in for CUDA: it records the kernels of a step and replays them over the same memory,
without a line of Python of ours, and refuses what waits for the device, as a capture does.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import playground as pg
from playground import graphs
from playground.feature_draft import LlamaFeatureState
from playground.graphs import Graphs, Step, recorder_for
from playground.llama import LeanLlama, LlamaState
from playground.models import ModelPair
from tests import models_zoo
from tests.feature_pairs import llama_pair
from tests.test_llama import FAMILIES, make

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
CROSSING = 245  # a prompt from which a few steps lead over the end of the smallest buffers


@pytest.fixture(autouse=True)
def no_gradients() -> Iterator[None]:
    """As a session runs its engines."""
    with torch.inference_mode():
        yield


class Tape(TorchDispatchMode):
    """Kernels and their operands, as a CUDA graph holds them. `num_replays` counts all tapes'."""

    num_replays = 0

    def __init__(self, step: Step) -> None:
        super().__init__()
        self._calls: list[tuple[Any, Any, Any, Any]] = []
        with self:
            self._result = step()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        waits = torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape
        if set(waits) & set(func.tags):
            raise RuntimeError(f"operation not permitted when stream is capturing: {func}")
        result = func(*args, **(kwargs or {}))
        self._calls.append((func, args, kwargs or {}, result))
        return result

    def __call__(self) -> Tensor:
        Tape.num_replays += 1
        for func, args, kwargs, result in self._calls:
            again = func(*args, **kwargs)
            for old, new in zip(tree_leaves(result), tree_leaves(again), strict=True):
                if isinstance(old, Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)
        return self._result


def with_graphs(lean: LeanLlama, capture: Callable[[Step], Step] = Tape) -> Graphs:
    lean.graphs = Graphs(lean, capture)
    return lean.graphs


def both(model: Any, capture: Callable[[Step], Step] = Tape) -> tuple[LlamaState, LlamaState]:
    """A state without graphs and one with them."""
    plain, lean = LeanLlama(model), LeanLlama(model)
    with_graphs(lean, capture)
    return LlamaState(plain), LlamaState(lean)


def ids_of(count: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 32, (1, count), generator=generator)


def replays(work: Callable[[], Any]) -> int:
    before = Tape.num_replays
    work()
    return Tape.num_replays - before


def play(state: LlamaState, start: int) -> Tensor:
    """Logits of a prompt and of steps of 1 to 8 tokens, some of them taken back."""
    rows = [state.prefill(ids_of(start)[0].tolist())[None]]
    for number, count in enumerate((1, 2, 3, 4, 5, 6, 7, 8, 1, 3, 8, 2)):
        rows.append(state.forward(ids_of(count, seed=number))[0])
        state.rollback(state.length - (number * 5) % count)
    return torch.cat(rows)


@pytest.mark.parametrize("start", [3, 30, CROSSING])
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_gets_the_logits_of_its_plain_pass(name: str, start: int) -> None:
    """Double precision: prompt, steps of 1 to 8 tokens, rollbacks, and (from a long prompt) the
    move to larger buffers. Every step was a replay, and the state holds the same tokens."""
    plain, recorded = both(make(name, torch.float64))
    expected = play(plain, start)
    found: list[Tensor] = []
    assert replays(lambda: found.append(play(recorded, start))) > 12
    torch.testing.assert_close(found[0], expected, atol=1e-12, rtol=1e-12)
    assert recorded.length == plain.length
    assert not recorded._lean.graphs.failed  # type: ignore[union-attr]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 0.05)])
@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_lower_precision_stays_within_its_rounding(
    family: str, dtype: torch.dtype, tolerance: float
) -> None:
    config = models_zoo.model(family).config
    model = type(models_zoo.model(family))(config).to(dtype).eval()
    model.load_state_dict(models_zoo.model(family).state_dict())
    plain, recorded = both(model)
    expected, found = play(plain, 30), play(recorded, 30)
    torch.testing.assert_close(
        found, expected, atol=tolerance * float(expected.abs().max()), rtol=0
    )
    assert not recorded._lean.graphs.failed  # type: ignore[union-attr]


def test_passes_are_recorded_once_for_a_size_and_all_smaller_ones() -> None:
    """Sizes are filled up to powers of two; another run, or the way back, records nothing."""
    recorded: list[Any] = []

    def capture(step: Step) -> Step:
        recorded.append(step)
        return step

    _, state = both(make("llama"), capture)
    state.prefill([1, 2, 3])
    state.forward(ids_of(3))
    assert len(recorded) == 3  # of 1, 2 and 4
    for count in (1, 2, 3, 4, 4):
        state.forward(ids_of(count))
    other = LlamaState(state._lean)
    other.prefill([4])
    other.forward(ids_of(2))
    assert len(recorded) == 3
    other.forward(ids_of(5))
    assert len(recorded) == 4


def test_what_was_given_stays_as_it_was() -> None:
    """A replay writes where the one before wrote; logits and features are not there."""
    pair = llama_pair()
    lean = pair._lean[id(pair.target)]
    with_graphs(lean)
    state = LlamaState(lean)
    state.prefill([1, 2, 3])
    logits = state.forward(ids_of(2))
    features = state.features(3)
    kept = logits.clone(), features.clone()
    state.forward(ids_of(2, seed=1))
    assert torch.equal(logits, kept[0]) and torch.equal(features, kept[1])


def test_a_feature_draft_reads_the_same_of_the_target_and_guesses_the_same() -> None:
    """Double precision: hidden states of committed tokens after a rollback, the draft's own
    passes over them, and its guesses behind them."""

    def drive(recorded: bool) -> Tensor:
        pair = llama_pair(dtype=torch.float64)
        target, feature = pair._lean[id(pair.target)], pair._lean_feature
        if recorded:
            with_graphs(target)
            with_graphs(feature)
        state, draft = LlamaState(target), LlamaFeatureState(feature)
        state.prefill([3, 4, 5, 1])
        rows = [draft.read([3, 4, 5, 1, 7], state.features(0)), draft.guess(9), draft.guess(2)]
        for number in range(4):
            start = state.length
            state.forward(ids_of(4, seed=number))
            state.rollback(start + 1 + number % 3)
            draft.rollback(start + 1)
            states = state.features(start)
            rows += [states.flatten(), draft.read(list(range(len(states))), states)]
            rows += [draft.guess(token) for token in (5, 6, 7)]
        return torch.cat(rows)

    expected = drive(recorded=False)
    found: list[Tensor] = []
    assert replays(lambda: found.append(drive(recorded=True))) > 20
    torch.testing.assert_close(found[0], expected, atol=1e-12, rtol=1e-12)


def test_beams_continue_from_what_recorded_passes_stored() -> None:
    plain, recorded = both(make("llama", torch.float64))
    rows = []
    for state in (plain, recorded):
        state.prefill([1, 2, 3])
        state.forward(ids_of(4))
        state.reorder(torch.tensor([0, 0]))
        first = state.forward(torch.tensor([[5], [6]]))
        state.reorder(torch.tensor([1, 0, 1]))
        rows.append(torch.cat((first, state.forward(torch.tensor([[1], [2], [3]])))))
    torch.testing.assert_close(rows[1], rows[0], atol=1e-12, rtol=1e-12)


def test_the_newest_state_has_the_buffers_and_older_ones_stay_right() -> None:
    """Two states in turn on one model; the older gets the buffers back when the newer is gone."""
    model = make("llama", torch.float64)
    lean, plain = LeanLlama(model), LeanLlama(model)
    with_graphs(lean)
    prompts = {"old": [1, 2, 3], "new": [9, 8, 7, 6]}
    states = {name: (LlamaState(lean), LlamaState(plain)) for name in prompts}

    def step(name: str, count: int, seed: int) -> int:
        state, twin = states[name]
        ids, before = ids_of(count, seed), Tape.num_replays
        torch.testing.assert_close(state.forward(ids), twin.forward(ids), atol=1e-12, rtol=1e-12)
        return Tape.num_replays - before

    for name, prompt in prompts.items():
        for each in states[name]:
            each.prefill(prompt)
        assert step(name, 4, seed=0) > 0
    for seed in range(4):
        assert step("old", 3, seed) == 0
        assert step("new", 2, seed) == 1
    del each, states["new"]
    gc.collect()
    assert step("old", 1, seed=5) == 1


def test_what_one_run_left_in_the_buffers_does_not_reach_the_next() -> None:
    """Not even as 0 · NaN."""
    _, state = both(make("llama", torch.float64))
    state.prefill(list(range(20)))
    state.forward(ids_of(8))
    for buffer in state._lean.graphs._lent.stored:  # type: ignore[union-attr]
        buffer.fill_(float("nan"))
    plain, new = LlamaState(LeanLlama(make("llama", torch.float64))), LlamaState(state._lean)
    for each in (plain, new):
        each.prefill([1, 2, 3])
    ids = ids_of(2)
    torch.testing.assert_close(new.forward(ids), plain.forward(ids), atol=1e-12, rtol=1e-12)


def never(step: Step) -> Step:
    raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nmore")


def other(step: Step) -> Step:
    return lambda: step() + 0.2


def empty(step: Step) -> Step:
    return lambda: step() * float("nan")


class Forgetful(Tape):
    """Stores no keys and values: what it reads is there only if an earlier pass stored it."""

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        stores = torch.ops.aten.index_copy_.default
        self._calls = [call for call in self._calls if call[0] is not stores]


def later(step: Step) -> Step:
    calls: list[Tensor] = []

    def replay() -> Tensor:
        calls.append(step())
        if len(calls) > 3:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return calls[-1]

    return replay


@pytest.mark.parametrize("capture", [never, other, empty, Forgetful, later])
def test_what_fails_is_said_once_and_never_tried_again(
    capture: Callable[[Step], Step], caplog: pytest.LogCaptureFixture
) -> None:
    """A capture that is refused, a replay that gives something else, or fails later: one warning,
    the right logits all along, and the model's next states do not try."""
    tried: list[Step] = []

    def counted(step: Step) -> Step:
        tried.append(step)
        return capture(step)

    plain, state = both(make("llama", torch.float64), counted)
    with caplog.at_level(logging.WARNING):
        torch.testing.assert_close(play(state, 30), play(plain, 30), atol=1e-12, rtol=1e-12)
    assert [r.name for r in caplog.records] == ["playground.graphs"]
    count = len(tried)
    assert state._lean.graphs.failed and 0 < count < 5  # type: ignore[union-attr]
    play(LlamaState(state._lean), 30)
    assert len(tried) == count


@pytest.mark.parametrize("method", ["sample", "greedy", "beam", "speculative", "mentored", "exact"])
def test_whole_runs_are_the_same(method: str) -> None:
    """Every method on a pair with a feature draft, whose models all have graphs."""
    pair, plain = (llama_pair(dtype=torch.float64) for _ in range(2))
    for lean in (*pair._lean.values(), pair._lean_feature):
        with_graphs(lean)
    settings: dict[str, Any] = dict(max_new_tokens=24, seed=3, eos_token_id=[])
    if method in ("speculative", "mentored"):
        settings |= dict(proposer="feature", num_draft_tokens=3)
    if method == "exact":
        settings |= dict(max_new_tokens=4)
    found: list[Any] = []
    count = replays(lambda: found.append(pg.decode(pair, [3, 4, 5, 1], method, **settings)))
    expected = pg.decode(plain, [3, 4, 5, 1], method, **settings)
    assert found[0].token_ids == expected.token_ids
    drafts = [[r.draft_ids for r in result.rounds] for result in (found[0], expected)]
    assert drafts[0] == drafts[1]
    assert count > 20 or method in ("beam", "exact")


def test_only_short_passes_of_one_sequence_behind_a_prompt_are_recorded() -> None:
    _, state = both(make("llama"))
    assert replays(lambda: state.prefill([1, 2])) == 0
    assert replays(lambda: state.forward(ids_of(17))) == 0
    with torch.inference_mode(False), torch.no_grad():
        other_state = LlamaState(state._lean)
        other_state.prefill([1])
        assert replays(lambda: other_state.forward(ids_of(1))) == 0
    assert replays(lambda: state.forward(ids_of(16))) > 0
    state.reorder(torch.tensor([0]))
    assert replays(lambda: state.forward(ids_of(1))) == 0


def test_the_largest_buffers_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind it the state goes on in memory of its own."""
    monkeypatch.setattr(graphs, "_LARGEST", graphs._SMALLEST)
    plain, state = both(make("llama", torch.float64))
    torch.testing.assert_close(play(state, CROSSING), play(plain, CROSSING), atol=1e-12, rtol=1e-12)
    assert list(state._lean.graphs._sets) == [graphs._SMALLEST]  # type: ignore[union-attr]


def test_only_cuda_has_them_and_zero_gpu_has_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the CPU nothing is built and no pass asks for anything."""
    assert LeanLlama(make("llama")).graphs is None
    assert recorder_for(torch.device("cpu")) is None
    assert recorder_for(torch.device("cuda", 0)) is not None
    monkeypatch.setattr(graphs, "ZERO_GPU", True)
    assert recorder_for(torch.device("cuda", 0)) is None


# --- on a GPU -------------------------------------------------------------------------------------


@needs_cuda
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", FAMILIES)
def test_cuda_graphs_give_the_logits_of_the_plain_pass(name: str, dtype: torch.dtype) -> None:
    model = make(name, dtype).cuda()
    plain, state = LeanLlama(model), LlamaState(LeanLlama(model))
    plain.graphs = None
    expected, found = play(LlamaState(plain), CROSSING), play(state, CROSSING)
    tolerance = 1e-4 if dtype == torch.float32 else 0.1
    torch.testing.assert_close(
        found, expected, atol=tolerance * float(expected.abs().max()), rtol=0
    )
    kept = state._lean.graphs
    assert kept is not None and not kept.failed and sorted(kept._sets) == [256, 512]


@needs_cuda
@pytest.mark.parametrize("method", ["greedy", "speculative", "mentored"])
def test_whole_runs_on_cuda_are_those_without_graphs(method: str) -> None:
    pairs = [_on_cuda(llama_pair()) for _ in range(2)]
    for lean in (*pairs[1]._lean.values(), pairs[1]._lean_feature):
        lean.graphs = None
    settings: dict[str, Any] = dict(max_new_tokens=48, seed=3, eos_token_id=[])
    if method != "greedy":
        settings |= dict(proposer="feature", num_draft_tokens=3)
    found, expected = (pg.decode(pair, [3, 4, 5, 1], method, **settings) for pair in pairs)
    assert found.token_ids == expected.token_ids
    for lean in (*pairs[0]._lean.values(), pairs[0]._lean_feature):
        assert lean.graphs is not None and not lean.graphs.failed
        assert method == "greedy" or lean.graphs._sets


def _on_cuda(pair: ModelPair) -> ModelPair:
    feature = pair.feature
    assert feature is not None
    moved = type(feature)(
        feature.model.cuda(), feature.taps, feature.fuse.cuda(), feature.own.cuda()
    )
    return ModelPair(pair.target.cuda(), feature=moved)
