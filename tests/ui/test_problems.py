"""What a visitor is told: one line in their language, nothing of the inside of the machine."""

from __future__ import annotations

import pytest

from playground.ui.problems import problem
from playground.ui.strings import ENGLISH, Words
from playground.ui.worker import Unavailable
from playground.ui.zerogpu import NoGpu


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("seed: 'x' is not allowed"), "seed: 'x' is not allowed"),
        (Unavailable("no weights"), "no weights"),
        (NoGpu("quota."), "quota."),
        (MemoryError(), "not enough memory"),
        (RuntimeError("CUDA out of memory. Tried to allocate\n2 GiB"), "not enough memory"),
        (RuntimeError("\nshapes differ\nat x"), "RuntimeError: shapes differ"),
        (KeyError(), "KeyError"),
    ],
)
def test_every_exception_is_one_clear_line(error: Exception, words: str) -> None:
    told = problem(error, ENGLISH)
    assert words in told and len(told.splitlines()) == 1
    assert isinstance(error, ValueError) or problem(error, Words("zh")) != told


def test_a_path_of_the_machine_is_not_told() -> None:
    error = OSError(28, "No space left on device", "/home/somebody/file")
    assert problem(error, ENGLISH).endswith("OSError: No space left on device")
