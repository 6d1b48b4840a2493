from __future__ import annotations

import itertools
import threading
import time
import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from playground.session import cores, use_cores
from playground.ui import worker as module
from playground.ui.worker import PageSettings, Unavailable, Worker

PAIR: Any = SimpleNamespace(precision="fp32", device=SimpleNamespace(type="cpu"))


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Worker:
    """A worker whose pair loads at once."""
    monkeypatch.setattr(module, "load_pair", lambda *_: PAIR)
    monkeypatch.setattr(module, "page_pair", str)
    monkeypatch.setattr(module, "prepare_all", lambda *_: {})
    monkeypatch.setattr(module, "warm_up", lambda *_: None)
    return Worker(PageSettings())


def ticks(count: int, pause_s: float = 0.0) -> Iterator[int]:
    for i in range(count):
        time.sleep(pause_s)
        yield i


def test_updates_are_bundled_to_five_a_second(worker: Worker) -> None:
    """Case 70."""
    start = time.monotonic()
    batches = list(worker.stream("chat", lambda pair: ticks(100, 0.005), threading.Event()))
    assert [item for batch in batches for item in batch] == list(range(100))
    assert len(batches) <= (time.monotonic() - start) / 0.2 + 2


def test_the_end_does_not_wait_for_the_beat(worker: Worker) -> None:
    list(worker.stream("chat", lambda pair: ticks(1), threading.Event()))  # the pair has loaded
    start = time.monotonic()
    list(worker.stream("chat", lambda pair: ticks(3), threading.Event()))
    assert time.monotonic() - start < 0.09


def test_an_error_comes_after_what_preceded_it_and_the_next_request_works(worker: Worker) -> None:
    def failing(pair: Any) -> Iterator[int]:
        yield 1
        raise ValueError("no")

    seen: list[int] = []
    with pytest.raises(ValueError, match="no"):
        for batch in worker.stream("chat", failing, threading.Event()):
            seen += batch
    assert seen == [1]
    assert worker.call("chat", lambda pair: 7, threading.Event()) == 7


def test_the_models_thread_keeps_its_cores_whatever_other_threads_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A page that is built on one core, so that no second team of threads slows the decoding,
    leaves the model's thread the cores that there were."""
    monkeypatch.setattr(module, "load_pair", lambda *_: PAIR)
    monkeypatch.setattr(module, "page_pair", str)
    monkeypatch.setattr(module, "prepare_all", lambda *_: {})
    monkeypatch.setattr(module, "warm_up", lambda *_: None)
    before = cores()
    try:
        use_cores(3)
        worker = Worker(PageSettings())
        use_cores(1)
        assert worker.call("chat", lambda pair: cores(), threading.Event()) == 3
    finally:
        use_cores(before)


def test_requests_run_one_at_a_time(worker: Worker) -> None:
    running: list[int] = []
    most = 0

    def alone(pair: Any) -> Iterator[int]:
        nonlocal most
        running.append(1)
        most = max(most, len(running))
        yield from ticks(5, 0.002)
        running.pop()

    streams = [
        threading.Thread(target=lambda: list(worker.stream("chat", alone, threading.Event())))
        for _ in range(4)
    ]
    for thread in streams:
        thread.start()
    for thread in streams:
        thread.join()
    assert most == 1


def test_leaving_early_sets_the_flag_and_forgets_the_session(worker: Worker) -> None:
    """Cases 62 and 65."""
    with worker.request("visitor") as stop:
        more = itertools.takewhile(lambda _: not stop.is_set(), ticks(10_000, 0.001))
        stream = worker.stream("chat", lambda pair: more, stop)
        next(stream)
        stream.close()  # type: ignore[attr-defined]
        assert stop.is_set()
    assert worker._stops == {}


def test_stop_reaches_only_its_own_session(worker: Worker) -> None:
    with worker.request("one") as one, worker.request("two") as two:
        worker.stop("one")
        assert one.is_set() and not two.is_set()
        worker.stop("stranger", wait_s=1)  # nothing to stop, nothing to wait for


def test_a_request_ends_when_nobody_waits_for_it_any_more(worker: Worker) -> None:
    """Case 65: a caller of the HTTP API leaves without a word."""
    waiting = {"here", "leaving"}
    worker.attend(lambda session: session in waiting)
    with worker.request("here") as here, worker.request("leaving") as leaving:
        assert not leaving.wait(0.3)
        waiting.remove("leaving")
        assert leaving.wait(10) and not here.is_set()


def test_a_pair_that_does_not_load_is_reported_and_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(*_: Any) -> Any:
        raise FileNotFoundError("no weights\nin there")

    monkeypatch.setattr(module, "load_pair", missing)
    worker = Worker(PageSettings())
    with pytest.raises(Unavailable, match="no weights in there"):
        worker.call("chat", lambda pair: 1, threading.Event())
    assert worker.status("chat").state == "failed"


def test_another_pair_replaces_the_one_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """One pair in memory: the first is gone before the second loads, and comes back on demand."""
    alive: weakref.WeakSet[Any] = weakref.WeakSet()
    most: list[int] = []

    class Pair:
        precision, device = "fp32", SimpleNamespace(type="cpu")

        def __init__(self, name: str, *_: Any) -> None:
            self.name = name
            most.append(len(alive))
            alive.add(self)

    monkeypatch.setattr(module, "load_pair", Pair)
    monkeypatch.setattr(module, "page_pair", str)
    monkeypatch.setattr(module, "prepare_all", lambda *_: {})
    monkeypatch.setattr(module, "warm_up", lambda *_: None)
    worker = Worker(PageSettings(pair="first"))
    for name in ("first", "second", "second", "first"):
        assert worker.call(name, lambda pair: pair.name, threading.Event()) == name
        assert worker.status(name).state == "ready"
    assert worker.status("second").state == "absent"
    assert most == [0, 0, 0]
    worker.want("second")
    assert worker.status("second").state in ("loading", "ready")
    worker.call("second", lambda pair: None, threading.Event())
    assert worker.status("second").state == "ready"


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAYGROUND_MAX_NEW_TOKENS", "64")
    monkeypatch.setenv("PLAYGROUND_DEADLINE_S", "1.5")
    settings = PageSettings.from_environment()
    assert (settings.max_new_tokens, settings.deadline_s, settings.queue_size) == (64, 1.5, 32)
    for bad in ("many", "0", "nan", "inf"):
        monkeypatch.setenv("PLAYGROUND_QUEUE_SIZE", bad)
        with pytest.raises(ValueError, match="PLAYGROUND_QUEUE_SIZE"):
            PageSettings.from_environment()


def test_a_closed_worker_stops_what_runs_and_ends(worker: Worker) -> None:
    stop, seen = threading.Event(), threading.Event()

    def until_stopped(pair: Any) -> Iterator[int]:
        seen.set()
        while not stop.is_set():
            yield 1
            time.sleep(0.01)

    running = worker.stream("chat", until_stopped, stop)
    next(running)
    assert seen.wait(5)
    worker.close()
    assert stop.is_set() and not worker._thread.is_alive()
