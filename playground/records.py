"""Strict JSON back into the dataclasses that it was made from, checked against their annotations.

The counterpart of `types.to_json`, for data that anybody may have written: every value has the
annotated type, every number is finite and in its range, every text can be shown, nothing is left
over. The first fault is a ValueError that names its place.
"""

from __future__ import annotations

import dataclasses
import math
import types
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from playground.params import fail

MAX_ITEMS = 50_000  # of one list or object
MAX_WHOLE = 2**63 - 1  # ids, counts, seeds
_SHOWN = 40  # characters of an outside name that an error repeats
_PROBABILITY, _SECONDS = (0.0, 1.000001), (0.0, 1e9)
# Ranges of numbers by the end of their name.
_RANGES = {
    "_prob": _PROBABILITY,
    "_probs": _PROBABILITY,
    "_rate": _PROBABILITY,
    "fidelity": _PROBABILITY,
    "u": _PROBABILITY,
    "_s": _SECONDS,
    "seconds": _SECONDS,
    "_per_s": (0.0, 1e12),
    "ms_per_token": (0.0, 1e12),
}
T = TypeVar("T")
Range = tuple[float, float]


def from_json(cls: type[T], value: Any, path: str = "record") -> T:
    """An instance of the dataclass `cls` from the JSON types that `to_json` makes of one.

    A field that is left out takes its default, else None where that is allowed. Whole numbers are
    ids and counts, never negative. Annotations may be str, int, float, bool, Any (a plain value, or
    a list of some), Literal, lists, tuples of one type, dicts by str, dataclasses, and unions of
    these with None.
    Raises ValueError: "record.tokens[3].target_prob: 'x' is not allowed; use a number or null."
    """
    if not isinstance(value, dict):
        raise _fail(path, value, "an object")
    hints = _hints(cls)  # type: ignore[arg-type]
    for key in value:
        if key not in hints:
            raise ValueError(f"{path}: {clip(key)!r} is unknown here.")
    absent = [name for name in _required(cls) if name not in value]  # type: ignore[arg-type]
    for name in absent:
        if type(None) not in get_args(hints[name]):
            raise ValueError(f"{path}: {name!r} is missing.")
    return cls(
        **{
            name: _value(hints[name], item, f"{path}.{name}", _range_of(name))
            for name, item in (dict.fromkeys(absent) | value).items()
        }
    )


@cache
def _hints(cls: Any) -> dict[str, Any]:
    known = get_type_hints(cls)
    return {f.name: known[f.name] for f in dataclasses.fields(cls)}


@cache
def _required(cls: Any) -> tuple[str, ...]:
    missing = dataclasses.MISSING
    return tuple(
        f.name
        for f in dataclasses.fields(cls)
        if f.default is missing and f.default_factory is missing
    )


@cache
def _range_of(name: str) -> Range | None:
    ends = [end for end in _RANGES if name == end or (end[0] == "_" and name.endswith(end))]
    return _RANGES[max(ends, key=len)] if ends else None


def _value(hint: Any, value: Any, path: str, within: Range | None) -> Any:
    """`value` as the annotation `hint` wants it."""
    if hint is float:
        return _number(value, path, within)
    if hint is int:
        return _whole(value, path)
    if hint is str:
        return _text(value, path)
    if hint is bool:
        if not isinstance(value, bool):
            raise _fail(path, value, "true or false")
        return value
    if hint is Any:
        return _plain(value, path)
    if dataclasses.is_dataclass(hint):
        return from_json(hint, value, path)  # type: ignore[arg-type]
    return _generic(hint, value, path, within)


def _generic(hint: Any, value: Any, path: str, within: Range | None) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        if not isinstance(value, str) or value not in inner:
            raise _fail(path, value, "one of " + ", ".join(map(repr, inner)))
        return value
    if origin in (Union, types.UnionType):
        (kind,) = (part for part in inner if part is not type(None))
        return None if value is None else _value(kind, value, path, within)
    if origin in (list, tuple):
        items = _items(value, path, list, "a list")
        return origin(
            _value(inner[0], item, f"{path}[{i}]", within) for i, item in enumerate(items)
        )
    if origin is dict:
        items = _items(value, path, dict, "an object")
        return {
            _text(key, path): _value(inner[1], item, f"{path}.{clip(key)}", within)
            for key, item in items.items()
        }
    raise TypeError(f"{hint} cannot be read back")


def _items(value: Any, path: str, kind: type, noun: str) -> Any:
    if not isinstance(value, kind):
        raise _fail(path, value, noun)
    if len(value) > MAX_ITEMS:  # type: ignore[arg-type]
        raise ValueError(f"{path}: more than {MAX_ITEMS:,} items are not allowed.")
    return value


def _number(value: Any, path: str, within: Range | None) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _fail(path, value, "a number")
    low, high = within or (-math.inf, math.inf)
    if not low <= value <= high or not abs(value) <= 1.7e308:
        raise _fail(path, value, f"a number from {low:g} to {high:g}")
    return float(value)


def _whole(value: Any, path: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_WHOLE:
        raise _fail(path, value, "a whole number of at least 0")
    return value


def _text(value: Any, path: str) -> str:
    """Half a surrogate pair cannot be sent to a browser."""
    if not isinstance(value, str):
        raise _fail(path, value, "text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{path}: half a surrogate pair is not allowed in a text.") from None
    return value


def _plain(value: Any, path: str) -> Any:
    """Text, a number, true, false or null, or a list of these."""
    if isinstance(value, list):
        return [_scalar(item, path) for item in _items(value, path, list, "a list")]
    return _scalar(value, path)


def _scalar(value: Any, path: str) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value, path)
    if isinstance(value, int) and abs(value) <= MAX_WHOLE:
        return value
    if isinstance(value, float):
        return _number(value, path, None)
    raise _fail(path, value, "text, a number, true, false, null or a list of these")


def _fail(path: str, value: Any, allowed: str) -> ValueError:
    nouns: dict[Any, str] = {dict: "an object", list: "a list"}
    if type(value) in nouns:
        return ValueError(f"{path}: {nouns[type(value)]} is not allowed; use {allowed}.")
    if isinstance(value, str):
        value = clip(value)
    return fail(path, value, allowed)


def clip(name: str) -> str:
    """An outside name as an error may repeat it: short, on one line."""
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name[:_SHOWN])
    return shown + "…" * (len(name) > _SHOWN)
