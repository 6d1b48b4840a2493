"""ZeroGPU: on such a Space a GPU is lent to one request at a time, in a process forked for it.

Every pair is loaded when the program starts, on its main thread, where the package `spaces` lets
weights seem to lie on a GPU; the forked process finds them on a real one. A request goes there
pickled, its items come back pickled, and nothing that it changes there comes back. Everywhere else
`ON` is false, `spaces` is not even imported, and nothing here is called.
"""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any

import gradio as gr

from playground.catalog import page_pair
from playground.machine import ZERO_GPU
from playground.models import load_pair
from playground.params import fail

if TYPE_CHECKING:
    from playground.models import ModelPair
    from playground.session import Plan

ON = ZERO_GPU
MOST_S = 120.0  # what a visitor may reserve at once
_START_S = 10.0  # to fork, to move the weights to the GPU, to warm up
_TOKEN_S = 0.03  # of any method; what a run did not use is given back to the visitor
_MARGIN_S = 3.0  # a process that outlives its reservation is killed, and its work lost
_BEAT_S = 0.1

_pairs: dict[str, ModelPair | Exception] = {}
_stop = threading.Event()  # of the work that this process does, once it is a forked one


class NoGpu(RuntimeError):
    """No GPU was lent, or it was taken back; says why."""


def load(names: Iterable[str], device: str | None, precision: str | None) -> None:
    """Load these pairs, on the main thread. bf16 unless told: nothing can be measured yet."""
    for name in names:
        try:
            _pairs[name] = load_pair(page_pair(name), device, precision or "bf16")
        except Exception as error:  # the page opens and says so
            _pairs[name] = error


def loaded(name: str) -> ModelPair:
    """The pair of this name, or the error that loading it ended with."""
    pair = _pairs[name]
    if isinstance(pair, Exception):
        raise pair
    return pair


def seconds_of(plans: Iterable[Plan], repeats: int, deadline_s: float) -> float:
    """Seconds to reserve for checked runs. Raises ValueError where nobody may have that many."""
    tokens = [plan.settings.params.max_new_tokens for plan in plans]
    needed = _START_S + repeats * sum(min(deadline_s, _TOKEN_S * count) for count in tokens)
    if needed > MOST_S:
        most = int((MOST_S - _START_S) / _TOKEN_S)
        found = f"{repeats * sum(tokens)} in all runs and repeats"
        raise fail("max_new_tokens", found, f"at most {most}: a GPU is lent for {MOST_S:g} seconds")
    return needed


def run(
    name: str,
    start: Callable[[ModelPair], Iterator[Any]],
    stop: threading.Event,
    seconds: float | None,
) -> Iterator[Any]:
    """The items of `start(pair)`, made on a GPU that is reserved for some seconds. `start` and the
    items are pickled. Ends within a step after `stop`. Raises NoGpu, and what `start` raises."""
    if seconds is None:
        raise NoGpu("this takes longer than one is lent here.")
    try:
        with closing(_lent(name, start, seconds)) as batches:
            for batch in batches:
                for item in batch:
                    if isinstance(item, Exception):
                        raise item
                    yield item
                if stop.is_set():
                    return
    except gr.Error as error:  # how `spaces` says no
        raise NoGpu(str(error.message)) from error


def _work(
    name: str, start: Callable[[ModelPair], Iterator[Any]], seconds: float
) -> Iterator[list[Any]]:
    """In the forked process: the items in batches, the last of which may end with an exception.
    Shortly before the reservation ends, the run is stopped with what it has."""
    _stop.clear()
    timer = threading.Timer(seconds - _MARGIN_S, _stop.set)
    timer.start()
    batch: list[Any] = []
    until = time.monotonic() + _BEAT_S
    try:
        for item in start(loaded(name)):
            batch.append(item)
            if time.monotonic() > until:
                yield batch
                batch, until = [], time.monotonic() + _BEAT_S
    except Exception as error:
        batch.append(_portable(error))
    finally:
        timer.cancel()
    yield batch


def _portable(error: Exception) -> Exception:
    """The exception, or its words where it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _own_stop() -> threading.Event:
    return _stop


def as_own_stop(flag: threading.Event) -> tuple[Callable[[], threading.Event], tuple[()]]:
    """How a visitor's flag is pickled: it cannot leave its process, and becomes that of the other
    one, whose work ends when the visitor's stream is closed."""
    return _own_stop, ()


_lent: Callable[..., Any] = _work
if ON:
    import spaces

    _lent = spaces.GPU(_work, duration=lambda name, start, seconds: round(seconds))
    ForkingPickler.register(threading.Event, as_own_stop)
