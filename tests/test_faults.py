"""Faults anywhere in a run: a clear message, memory released, the next run right."""

from __future__ import annotations

import gc
import importlib
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch

import playground as pg
from playground.faults import first_line, is_out_of_memory, place_of, release_values
from playground.models import ModelPair
from playground.session import prepare, run_plan
from playground.ui import worker as page_worker
from playground.ui.problems import problem
from playground.ui.strings import ENGLISH
from playground.ui.worker import PageSettings, Worker
from tests.test_api_contract import byte_level_tokenizer, target_and_draft

# Where a run can fail: module, function, method whose run passes there, which call fails.
PLACES = {
    "the prompt's own pass": ("playground.llama:LlamaState.prefill", "sample", 1),
    "target": ("playground.methods.speculative:_score", "speculative", 2),
    "inside the target": ("playground.llama:LeanLlama._attend", "greedy", 5),
    "draft": ("playground.proposers:DraftModel._feed", "speculative", 3),
    "rollback": ("playground.cache:LayeredState.rollback", "speculative", 2),
    "rule": ("playground.verification:TokenwiseVerifier.verify", "speculative", 2),
    "solver": ("playground.verifiers:solution", "mentored", 1),
    "warping": ("playground.sampling:Warper.probs", "sample", 3),
    "draw": ("playground.sampling:Draws.categorical", "sample", 3),
    "beam": ("playground.methods.beam_group:Group.step", "beam", 2),
    "beam's cache": ("playground.llama:LlamaState.reorder", "beam", 2),
    "groups": ("playground.methods.beam_search:_forward", "diverse_beam", 2),
    "exact search": ("playground.methods.exact_search:_Reader.read", "exact", 2),
    "explanation": ("playground.explain:Explainer.tokens", "speculative", 2),
    "a beam's score": ("playground.explain:Explainer.score", "beam", 1),
    "text": ("playground.text:TextStream.push", "sample", 2),
    "numbers": ("playground.session:summarise", "greedy", 1),
}
ERRORS: dict[str, Callable[[], BaseException]] = {
    "fault": lambda: RuntimeError("a bug\nin several lines"),
    "GPU memory": lambda: torch.cuda.OutOfMemoryError(
        "CUDA out of memory. Tried to allocate 2 GiB"
    ),
    "memory": MemoryError,
    "allocator": lambda: RuntimeError(
        "[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory"
    ),
    "killed": SystemExit,
}
EVERY_FAULT = [(where, "GPU memory") for where in PLACES]
EVERY_FAULT += [
    (where, kind) for where in ("target", "beam") for kind in ERRORS if kind != "GPU memory"
]
PARAMS = {"max_new_tokens": 12, "eos_token_id": []}


@pytest.fixture
def pair() -> ModelPair:
    return ModelPair(*target_and_draft(), byte_level_tokenizer())


class Trap:
    """Makes the call number `count` of a function raise, with a tensor in the frame that raises."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, place: str, count: int) -> None:
        module, _, name = place.partition(":")
        *owners, self._name = name.split(".")
        self._owner: Any = importlib.import_module(module)
        for owner in owners:
            self._owner = getattr(self._owner, owner)
        self._real: Callable[..., Any] = getattr(self._owner, self._name)
        self._left, self._patch = count, monkeypatch
        self.held: list[weakref.ref[Any]] = []

    def set(self, error: Callable[[], BaseException]) -> None:
        trap = self

        def failing(*args: Any, **options: Any) -> Any:
            trap._left -= 1
            if trap._left:
                return trap._real(*args, **options)
            allocated = torch.zeros(1000)
            trap.held.append(weakref.ref(allocated))
            raise error()  # made here: a test that held it would hold its frames

        self._patch.setattr(self._owner, self._name, failing)

    def lift(self) -> None:
        self._patch.setattr(self._owner, self._name, self._real)


def watch_states(monkeypatch: pytest.MonkeyPatch) -> list[weakref.ref[Any]]:
    """Weak references to every KV state that is opened from now on."""
    seen: list[weakref.ref[Any]] = []
    real = ModelPair.open

    def opening(*args: Any, **options: Any) -> Any:
        state = real(*args, **options)
        seen.append(weakref.ref(state))
        return state

    monkeypatch.setattr(ModelPair, "open", opening)
    return seen


def alive(references: list[weakref.ref[Any]]) -> int:
    return sum(reference() is not None for reference in references)


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch, pair: ModelPair) -> Iterator[Worker]:
    """The page's worker with a small pair of real models."""
    monkeypatch.setattr(page_worker, "load_pair", lambda *_: pair)
    monkeypatch.setattr(page_worker, "warm_up", lambda *_: None)
    worker = Worker(PageSettings())
    yield worker
    worker.close()


def decoding(method: str, pair: ModelPair) -> Iterator[Any]:
    return run_plan(prepare(pair, "abcab", method, {**PARAMS, **seeded(method)}))


def seeded(method: str) -> dict[str, Any]:
    return {"seed": 3} if method in ("sample", "speculative", "mentored") else {}


def last_ids(worker: Worker, method: str) -> list[int]:
    items = [
        event
        for batch in worker.stream("chat", partial(decoding, method), threading.Event())
        for event in batch
    ]
    return list(items[-1].result.token_ids)


@pytest.mark.parametrize(("where", "kind"), EVERY_FAULT)
def test_a_fault_anywhere_is_told_frees_memory_and_hurts_no_other_run(
    monkeypatch: pytest.MonkeyPatch, worker: Worker, where: str, kind: str
) -> None:
    """What the run held is gone while its error is still in somebody's hands; the next run on the
    same worker gives what it gave before."""
    place, method, count = PLACES[where]
    expected = last_ids(worker, method)
    states, trap = watch_states(monkeypatch), Trap(monkeypatch, place, count)
    trap.set(ERRORS[kind])
    with pytest.raises((RuntimeError, MemoryError)) as caught:
        last_ids(worker, method)
    told = problem(caught.value, ENGLISH)
    assert trap.held and len(told.splitlines()) == 1
    assert ("not enough memory" in told) == (kind not in ("fault", "killed"))
    assert alive(trap.held) == alive(states) == 0
    trap.lift()
    assert last_ids(worker, method) == expected


@pytest.mark.parametrize("where", PLACES)
def test_a_fault_in_the_library_is_its_caller_s_and_the_pair_stays_sound(
    monkeypatch: pytest.MonkeyPatch, pair: ModelPair, where: str
) -> None:
    place, method, count = PLACES[where]
    expected = pg.decode(pair, "abcab", method, **PARAMS, **seeded(method)).token_ids
    states, trap = watch_states(monkeypatch), Trap(monkeypatch, place, count)
    trap.set(MemoryError)
    with pytest.raises(MemoryError) as caught:
        pg.decode(pair, "abcab", method, **PARAMS, **seeded(method))
    del caught
    gc.collect()
    assert alive(trap.held) == alive(states) == 0
    trap.lift()
    assert pg.decode(pair, "abcab", method, **PARAMS, **seeded(method)).token_ids == expected


def test_a_thread_that_dies_is_replaced_and_whoever_waits_is_served(
    monkeypatch: pytest.MonkeyPatch, worker: Worker
) -> None:
    expected, first = last_ids(worker, "greedy"), worker._thread
    real, calls = Worker._serve_next, []

    def dying(self: Worker) -> bool:
        calls.append(1)
        if len(calls) == 2:
            raise SystemExit  # outside any request's own care
        return real(self)

    monkeypatch.setattr(Worker, "_serve_next", dying)
    for _ in range(3):
        assert last_ids(worker, "greedy") == expected
    assert worker._thread is not first and worker._thread.is_alive()


def test_loading_that_fails_frees_what_it_had_and_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, pair: ModelPair
) -> None:
    """Out of memory while the models load: said so, nothing kept, the next request loads anew."""
    held: list[weakref.ref[Any]] = []

    def loading(*_: Any) -> ModelPair:
        if not held:
            weights = torch.zeros(1000)
            held.append(weakref.ref(weights))
            raise torch.cuda.OutOfMemoryError("CUDA out of memory.")
        return pair

    monkeypatch.setattr(page_worker, "load_pair", loading)
    monkeypatch.setattr(page_worker, "warm_up", lambda *_: None)
    worker = Worker(PageSettings())
    while worker.status("chat").state == "loading":
        threading.Event().wait(0.01)
    assert worker.status("chat").reason == "CUDA out of memory." and alive(held) == 0
    assert len(last_ids(worker, "greedy")) == 12
    worker.close()


def test_a_second_pair_frees_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Real models: nothing of the first is alive when the second begins to load."""
    models: list[weakref.ref[Any]] = []
    left: list[int] = []

    def loading(name: str, *_: Any) -> ModelPair:
        left.append(alive(models))
        made = [type(m)(m.config).eval() for m in target_and_draft()]
        models.extend(weakref.ref(model) for model in made)
        return ModelPair(*made, byte_level_tokenizer(), name=name)

    monkeypatch.setattr(page_worker, "load_pair", loading)
    monkeypatch.setattr(page_worker, "page_pair", str)
    worker = Worker(PageSettings(pair="first"))
    for name in ("first", "second", "first"):
        seen = list(worker.stream(name, partial(decoding, "mentored"), threading.Event()))
        assert seen[-1][-1].result.pair == name
        with pytest.raises(ValueError, match="prompt"):
            worker.call(name, lambda pair: pg.decode(pair, [99], "greedy"), threading.Event())
    assert left == [0, 0, 0]
    worker.close()


def test_an_exception_in_hand_holds_nothing() -> None:
    tensors: list[weakref.ref[Any]] = []

    def inner() -> None:
        value = torch.zeros(10)
        tensors.append(weakref.ref(value))
        raise KeyError("cause")

    def outer() -> None:
        value = torch.zeros(10)
        tensors.append(weakref.ref(value))
        try:
            inner()
        except KeyError as error:
            raise RuntimeError("\n  first words\nmore") from error

    try:
        outer()
    except RuntimeError as error:
        place = place_of(error)
        kept = release_values(error)
    gc.disable()
    try:
        assert alive(tensors) == 0
    finally:
        gc.enable()
    assert place.startswith("test_faults.py:") and place_of(kept) == "?"
    assert first_line(kept) == "first words"


def test_out_of_memory_is_recognised_whoever_says_so() -> None:
    assert all(is_out_of_memory(ERRORS[k]()) for k in ("GPU memory", "memory", "allocator"))
    assert not any(
        is_out_of_memory(error)
        for error in (RuntimeError("shapes differ"), ValueError("out of memory"), KeyError("x"))
    )
    assert first_line(MemoryError()) == "MemoryError"
