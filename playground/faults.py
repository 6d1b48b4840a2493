"""What an exception tells somebody who did not write this, and what it must not hold on to."""

from __future__ import annotations

import traceback

_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory")


def first_line(error: BaseException) -> str:
    """The first line of its message that says anything; its type where there is none."""
    lines = (line.strip() for line in str(error).splitlines())
    return next((line for line in lines if line), type(error).__name__)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: Python's, or a device's (torch raises a RuntimeError for both)."""
    if isinstance(error, MemoryError):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and any(words in text for words in _OUT_OF_MEMORY)


def place_of(error: BaseException) -> str:
    """Where it was raised: file and line."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else "?"


def release_values(error: BaseException) -> BaseException:
    """The same exception, without traceback and causes: their frames, and what functions in them
    close over, would keep tensors alive for as long as somebody holds the exception."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)
