"""JSON from outside: numbers that fit 64 bits, sound text, bearable depth."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

MAX_DEPTH = 24
_LARGEST = 2**63 - 1


def strict_json(text: str | bytes) -> Any:
    """The value that a JSON text stands for.

    Raises ValueError, in a few words, for what is no JSON, for NaN and Infinity, for numbers that
    64 bits cannot hold, for half a surrogate pair, and for more than MAX_DEPTH levels.
    """
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except UnicodeDecodeError:
        raise ValueError("not UTF-8 text") from None
    except json.JSONDecodeError:
        raise ValueError("not JSON") from None
    check_value(value)
    return value


def check_value(value: Any, depth: int = MAX_DEPTH) -> None:
    """Raise ValueError where a parsed value is none that JSON can carry everywhere."""
    if isinstance(value, str):
        if not value.isascii() and value.encode("utf-8", "ignore").decode() != value:
            raise ValueError("half a surrogate pair")
    elif isinstance(value, int):
        if abs(value) > _LARGEST:
            raise ValueError("a whole number beyond 64 bits")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError("a number beyond 64 bits")
    elif isinstance(value, (dict, list)):
        if depth == 0:
            raise ValueError("nested too deeply")
        for item in [*value, *value.values()] if isinstance(value, dict) else value:
            check_value(item, depth - 1)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
