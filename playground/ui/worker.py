"""The page's process-wide state: its settings, the pair in memory, the thread that runs it.

One daemon thread loads pairs, warms them up and runs every request after another, so that no
timing contends with another and decoding never waits for a browser. One pair is in memory at a
time: a request for another one frees it first. Requests hand their items back through a queue;
what belongs to a visitor lives in the request itself and ends with it.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from playground import memory
from playground.catalog import page_pair, page_pairs, start_pair
from playground.compare import prepare_all, warm_up
from playground.faults import place_of, release_values
from playground.models import load_pair
from playground.session import cores, use_cores
from playground.ui import zerogpu

if TYPE_CHECKING:
    from playground.models import ModelPair

T = TypeVar("T")
_log = logging.getLogger(__name__)
_BEAT_S = 0.2  # the page is redrawn at most this often; each time costs both ends some 10 ms
_END: Any = object()


@dataclass(frozen=True, slots=True)
class PageSettings:
    """What the operator decides, from PLAYGROUND_* variables. Raises ValueError on a bad one."""

    pair: str = "chat"
    device: str | None = None
    precision: str | None = None
    max_new_tokens: int = 512
    deadline_s: float = 120.0
    queue_size: int = 32
    max_prompt_chars: int = 20_000
    max_runs: int = 8
    max_repeats: int = 10

    @property
    def max_work(self) -> int:
        """Tokens that the runs of one request may come to, beams and repeats counted: as many as a
        hundred plain runs of the longest kind."""
        return 100 * self.max_new_tokens

    @property
    def comparison_s(self) -> float:
        """Seconds after which a whole comparison ends with what it has."""
        return 2 * self.deadline_s

    @classmethod
    def from_environment(cls) -> PageSettings:
        return cls(
            pair=start_pair().name,
            device=os.environ.get("PLAYGROUND_DEVICE") or None,
            precision=os.environ.get("PLAYGROUND_PRECISION") or None,
            max_new_tokens=int(_positive("PLAYGROUND_MAX_NEW_TOKENS", 512)),
            deadline_s=_positive("PLAYGROUND_DEADLINE_S", 120),
            queue_size=int(_positive("PLAYGROUND_QUEUE_SIZE", 32)),
        )


def _positive(name: str, default: float) -> float:
    given = os.environ.get(name)
    if not given:
        return default
    try:
        value = float(given)
    except ValueError:
        value = 0.0
    if not 1 <= value < 1e9:
        raise ValueError(f"{name}: {given!r} is not allowed; use a number of at least 1.")
    return value


@dataclass(frozen=True, slots=True)
class Status:
    """Where a pair stands: "absent" until somebody needs it; `reason` says why it failed."""

    state: Literal["absent", "loading", "ready", "failed"]
    precision: str = ""
    device: str = ""
    reason: str = ""


class Unavailable(RuntimeError):
    """The pair could not be loaded, so nothing can run."""


@dataclass(slots=True)
class _Job:
    pair: str
    start: Callable[[ModelPair], Iterator[Any]]
    stop: threading.Event
    items: SimpleQueue[Any]
    seconds: Callable[[ModelPair], float] | None = None  # of GPU, where it is lent by the second
    context: Context = field(default_factory=copy_context)  # whose visitor the GPU is lent to


class Worker:
    """Loads pairs in the background and runs requests on them, one at a time."""

    def __init__(self, settings: PageSettings) -> None:
        self.settings = settings
        self._pair: ModelPair | None = None
        self._loaded = ""
        self._status: dict[str, Status] = {}
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._running: _Job | None = None
        self._stops: dict[str, list[threading.Event]] = {}
        self._idle = threading.Condition()
        self._closed = threading.Event()
        self._cores = cores()
        if zerogpu.ON:
            names = [spec.name for spec in page_pairs()]
            zerogpu.load(names, settings.device, settings.precision)
        self._thread = self._start()
        self.want(settings.pair)
        atexit.register(self.close)

    def status(self, pair: str) -> Status:
        """Where the pair of this name stands."""
        return self._status.get(pair, Status("absent"))

    def want(self, pair: str) -> None:
        """Load a pair, after whatever runs or waits now. One that failed is tried again."""
        if self.status(pair).state in ("absent", "failed"):
            self._status[pair] = Status("loading")
            self._jobs.put(_Job(pair, lambda loaded: iter(()), threading.Event(), SimpleQueue()))
            self._revive()

    def stream(
        self,
        pair: str,
        start: Callable[[ModelPair], Iterator[T]],
        stop: threading.Event,
        seconds: Callable[[ModelPair], float] | None = None,
    ) -> Iterator[list[T]]:
        """The items of `start(pair)`, made on the model's thread, in batches of a fifth of a
        second. A batch is empty when nothing happened for half a second. Leaving early sets `stop`.
        """
        items: SimpleQueue[Any] = SimpleQueue()
        self._jobs.put(_Job(pair, start, stop, items, seconds))
        try:
            ended = False
            while not ended:
                batch, ended = _collect(items)
                error = batch.pop() if batch and isinstance(batch[-1], Exception) else None
                yield batch
                if error is not None:
                    raise error
                if not batch:
                    self._revive()
        finally:
            stop.set()

    def call(
        self,
        pair: str,
        work: Callable[[ModelPair], T],
        stop: threading.Event,
        seconds: Callable[[ModelPair], float] | None = None,
    ) -> T:
        """The result of `work(pair)` on the model's thread."""
        for batch in self.stream(pair, partial(_once, work), stop, seconds):
            if batch:
                return batch[0]
        raise Unavailable("stopped before it began")

    @contextmanager
    def request(self, session: str | None) -> Generator[threading.Event, None, None]:
        """The stop flag of one request, known under its session for as long as it lives."""
        stop, key = threading.Event(), session or ""
        if self._closed.is_set():
            stop.set()
        with self._idle:
            self._stops.setdefault(key, []).append(stop)
        try:
            yield stop
        finally:
            stop.set()
            with self._idle:
                self._stops[key].remove(stop)
                if not self._stops[key]:
                    del self._stops[key]
                self._idle.notify_all()

    def stop(self, session: str | None, wait_s: float = 0.0) -> bool:
        """Stop the requests of a session; wait until they have ended, at most `wait_s`. False where
        there was none: what was asked for still waits in the queue."""
        key = session or ""
        with self._idle:
            flags = list(self._stops.get(key, []))
            for flag in flags:
                flag.set()
            self._idle.wait_for(lambda: key not in self._stops, wait_s)
        return bool(flags)

    def attend(self, waits: Callable[[str], bool]) -> None:
        """From now on, stop the requests of sessions for which nobody waits any more: a caller of
        the HTTP API leaves without a word."""

        def watch() -> None:
            while not self._closed.wait(_BEAT_S):
                with self._idle:
                    known = {key: list(stops) for key, stops in self._stops.items() if key}
                for session, stops in known.items():
                    if not waits(session):
                        for stop in stops:
                            stop.set()

        threading.Thread(target=watch, name="callers", daemon=True).start()

    @property
    def busy(self) -> bool:
        """Whether something runs, or loads because somebody asked for it."""
        return self._running is not None

    def drain(self, wait_s: float = 3.0) -> None:
        """Let every request end with what it has; wait for that, at most `wait_s`."""
        self._closed.set()
        with self._idle:
            for flag in (flag for flags in self._stops.values() for flag in flags):
                flag.set()
            self._idle.wait_for(lambda: not self._stops, wait_s)

    def close(self, wait_s: float = 5.0) -> None:
        """End the thread, at most `wait_s` from now: what runs is stopped. A thread that lived on
        inside torch while the interpreter shuts down could abort the process."""
        self._closed.set()
        self._jobs.put(None)
        if self._running is not None:
            self._running.stop.set()
        self._thread.join(wait_s)

    def _start(self) -> threading.Thread:
        thread = threading.Thread(target=self._serve, name="model", daemon=True)
        thread.start()
        return thread

    def _revive(self) -> None:
        """Another thread in the place of one that has died; what waits is served by it."""
        with self._idle:
            if not self._thread.is_alive() and not self._closed.is_set():
                _log.error("the thread of the models has ended; another one begins")
                self._thread = self._start()

    def _serve(self) -> None:
        use_cores(self._cores)  # whatever the thread that builds the page has at this moment
        while self._serve_next():
            pass

    def _serve_next(self) -> bool:
        """Run the next request; False when there will be none. Nothing of it is kept."""
        job = self._jobs.get()
        if job is None:
            return False
        self._running = job
        try:
            if job.pair != self._loaded and not job.stop.is_set():
                self._load(job.pair)
            job.context.run(_run, job, self._pair, self._status.get(job.pair))
        finally:
            self._running = None
            job.items.put(_END)  # also where the thread dies: nobody waits for ever
        return True

    def _load(self, name: str) -> None:
        """Make `name` the pair in memory; what was there is freed before."""
        settings = self.settings
        self._status.pop(self._loaded, None)
        self._pair, self._loaded = None, ""
        memory.release()
        self._status[name] = Status("loading")
        try:
            if zerogpu.ON:
                pair = zerogpu.loaded(name)
            else:
                pair = load_pair(page_pair(name), settings.device, settings.precision)
                warm_up(pair, prepare_all(pair, "Hello", None, 1))
        except BaseException as error:  # whatever it is, the page opens and says so
            reason = " ".join(str(error).split()) or type(error).__name__
            self._status[name] = Status("failed", reason=reason)
            release_values(error)
            memory.release()
            return
        kind = pair.device.type
        device = kind.upper() if kind in ("cpu", "cuda", "mps") else kind
        self._pair, self._loaded = pair, name
        self._status[name] = Status("ready", pair.precision, device)


def _run(job: _Job, pair: ModelPair | None, status: Status | None) -> None:
    items: Iterator[Any] = iter(())
    try:
        if not job.stop.is_set():
            if pair is None:
                raise Unavailable(status.reason if status else "stopped")
            if zerogpu.ON:
                seconds = job.seconds(pair) if job.seconds else None
                items = zerogpu.run(job.pair, job.start, job.stop, seconds)
            else:
                items = job.start(pair)
        for item in items:
            job.items.put(item)
    except BaseException as error:  # it belongs to the request, not to this thread
        job.items.put(_told(error))
    finally:
        if isinstance(items, Generator):
            items.close()


def _told(error: BaseException) -> Exception:
    """What the request hears of an exception: nothing of the run is kept alive by it. A fault
    leaves its kind and place in the log, never its words, which may be a visitor's."""
    fault = not isinstance(error, (ValueError, Unavailable, zerogpu.NoGpu))
    if fault:
        _log.error("fault in a run: %s at %s", type(error).__name__, place_of(error))
    release_values(error)
    if fault:
        memory.release()
    return error if isinstance(error, Exception) else RuntimeError("it was ended from outside")


def _once(work: Callable[[ModelPair], T], pair: ModelPair) -> Iterator[T]:
    yield work(pair)


def _collect(items: SimpleQueue[Any]) -> tuple[list[Any], bool]:
    """What arrives within a beat of the first item (waited for half a second), and whether that
    was the end. An exception is always the last of its batch."""
    batch: list[Any] = []
    until = time.monotonic() + 0.5
    while (left := until - time.monotonic()) > 0:
        try:
            item = items.get(timeout=left)
        except Empty:
            break
        if item is _END:
            return batch, True
        if not batch:
            until = time.monotonic() + _BEAT_S
        batch.append(item)
        if isinstance(item, Exception):
            break
    return batch, False
