"""What a visitor is told of an exception: one line, and never the inside of this machine."""

from __future__ import annotations

from playground.faults import first_line, is_out_of_memory
from playground.ui.strings import Words
from playground.ui.worker import Unavailable
from playground.ui.zerogpu import NoGpu

EXPECTED = (ValueError, Unavailable, NoGpu)  # everything else is a fault of ours, or of the machine


def problem(error: Exception, say: Words) -> str:
    """In the visitor's language, except for the library's own refusals."""
    if isinstance(error, ValueError):
        return str(error)
    if isinstance(error, Unavailable):
        return say("pair.unavailable", reason=error)
    if isinstance(error, NoGpu):
        return say("error.gpu", reason=error)
    if is_out_of_memory(error):
        return say("error.memory")
    words = error.strerror if isinstance(error, OSError) else first_line(error)  # without paths
    return say("error.internal", reason=f"{type(error).__name__}: {words}")
