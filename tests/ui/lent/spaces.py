"""A stand-in for the package `spaces` as it is on ZeroGPU, as far as that goes without a GPU.

Decorated generators run in a forked process; arguments and results are pickled. The process that
forks may not touch CUDA, a reservation has a limit, and the visitor is known to whoever asks.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
from collections.abc import Callable, Iterator
from functools import wraps
from multiprocessing.queues import SimpleQueue
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch

LIMIT_S = 100
_FORK = multiprocessing.get_context("fork")


def gradio_auto_wrap(task: Any) -> Any:
    """What Gradio calls for every function of a page."""
    return task


def forbid_cuda() -> None:
    """On ZeroGPU only a forked process may initialise it."""

    def refuse(*_: Any) -> None:
        raise AssertionError("CUDA was initialised in the process that forks")

    torch.cuda._lazy_init = refuse


def GPU(task: Callable[..., Any], duration: Callable[..., int]) -> Callable[..., Any]:
    @wraps(task)
    def lent(*args: Any) -> Iterator[Any]:
        import gradio as gr  # noqa: PLC0415  # it imports this module
        from gradio.context import LocalContext  # noqa: PLC0415

        seconds = duration(*args)
        print(f"GPU for {seconds} s, visitor known: {bool(LocalContext.request.get(None))}")
        if seconds > LIMIT_S:
            message = f"The requested GPU duration ({seconds}s) is larger than the maximum allowed"
            raise gr.Error(message, title="ZeroGPU illegal duration", print_exception=False)
        sent, results, left = (
            bytes(ForkingPickler.dumps(args)),
            SimpleQueue(ctx=_FORK),
            _FORK.Event(),
        )
        process = _FORK.Process(target=_serve, args=(task, sent, results, left), daemon=True)
        process.start()
        try:
            while (result := results.get()) is not None:
                yield result
        finally:
            left.set()
            process.join(10)
            print(f"GPU back, exit {process.exitcode}", flush=True)

    return lent


def _serve(task: Callable[..., Any], sent: bytes, results: Any, left: Any) -> None:
    made = task(*pickle.loads(sent))
    for item in made:
        if left.is_set():
            made.close()
            break
        results.put(item)
    results.put(None)


if os.environ.get("SPACES_ZERO_GPU"):
    forbid_cuda()
