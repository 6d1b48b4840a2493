"""A stand-in for the package `spaces` as it is on ZeroGPU, as far as that goes without a GPU.

Decorated generators run in a forked process; arguments and results are pickled. The process that
forks may not touch CUDA, a reservation has a limit, and the visitor must be known.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
from collections.abc import Callable, Iterator
from functools import wraps
from multiprocessing.queues import SimpleQueue
from typing import Any

import torch

LIMIT_S = 100
FORK = multiprocessing.get_context("fork")


def _refuse(*_: Any) -> None:
    raise AssertionError("CUDA was initialised in the process that forks")


torch.cuda._lazy_init = _refuse


def gradio_auto_wrap(task: Any) -> Any:
    """What Gradio calls for every function of a page."""
    return task


def GPU(task: Callable[..., Any], duration: Callable[..., int]) -> Callable[..., Any]:
    @wraps(task)
    def lent(*args: Any) -> Iterator[Any]:
        import gradio as gr
        from gradio.context import LocalContext

        seconds = duration(*args)
        visitor = LocalContext.request.get(None)
        print(f"GPU {seconds} s for {'a visitor' if visitor else 'nobody'}", flush=True)
        if seconds > LIMIT_S:
            message = f"The requested GPU duration ({seconds}s) is larger than the maximum allowed"
            raise gr.Error(message, title="ZeroGPU illegal duration", print_exception=False)
        results: Any = SimpleQueue(ctx=FORK)
        left = FORK.Event()
        process = FORK.Process(
            target=_serve, args=(task, pickled(args), results, left), daemon=True
        )
        process.start()
        try:
            while (result := results.get()) is not None:
                yield result
        finally:
            left.set()
            process.join(10)
            print(f"GPU back after exit {process.exitcode}", flush=True)

    return lent


def pickled(args: Any) -> bytes:
    """As it travels through a queue of multiprocessing."""
    from multiprocessing.reduction import ForkingPickler

    return bytes(ForkingPickler.dumps(args))


def _serve(task: Callable[..., Any], sent: bytes, results: Any, left: Any) -> None:
    args = pickle.loads(sent)
    print(f"forked {os.getpid()}", flush=True)
    made = task(*args)
    for item in made:
        if left.is_set():
            made.close()
            break
        results.put(item)
    results.put(None)
