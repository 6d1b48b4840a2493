"""Parameters: one dataclass a method or rule, whose field metadata is also its control.

The page's sliders, the command line's options and every error message come from the same fields.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import numbers
from collections.abc import Sequence
from typing import Any

_MISSING: Any = dataclasses.MISSING


def param(
    default: Any,
    help: str,
    *,
    label: str | None = None,
    min: float | None = None,
    max: float | None = None,
    step: float | None = None,
    choices: Sequence[Any] | None = None,
    kind: str | None = None,
) -> Any:
    """A dataclass field with what its control needs.

    kind: "int", "float", "bool", "choice", or "any" for values with their own check;
    None infers it from the default. Ranges are inclusive.
    """
    inferred = kind or ("choice" if choices else _kind_of(default))
    metadata = dict(
        label=label, help=help, min=min, max=max, step=step, choices=choices, kind=inferred
    )
    return dataclasses.field(default=default, metadata=metadata)


def _kind_of(default: Any) -> str:
    if isinstance(default, bool):
        return "bool"
    if isinstance(default, int):
        return "int"
    return "float" if isinstance(default, float) else "any"


def field_of(cls: type, name: str) -> dataclasses.Field[Any]:
    """The field `name` of a parameter dataclass."""
    return next(f for f in dataclasses.fields(cls) if f.name == name)


def allowed(f: dataclasses.Field[Any]) -> str:
    """The allowed range of a field, in words."""
    m = f.metadata
    if m.get("kind") == "bool":
        return "true or false"
    if m.get("choices"):
        return "one of " + ", ".join(repr(c) for c in m["choices"])
    noun = "a whole number" if m.get("kind") == "int" else "a number"
    low, high = m.get("min"), m.get("max")
    if low is not None and high is not None:
        return f"{noun} from {low} to {high}"
    if low is not None:
        return f"{noun} of at least {low}"
    return noun


def fail(name: str, value: Any, allowed_range: str) -> ValueError:
    """The one style of error for a bad input: its name, the value, the allowed range."""
    return ValueError(f"{name}: {_shown(value)} is not allowed; use {allowed_range}.")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def check(f: dataclasses.Field[Any], value: Any) -> Any:
    """`value` in the field's own type, or ValueError. None stays None where it is the default."""
    kind, choices = f.metadata.get("kind", "any"), f.metadata.get("choices")
    if kind == "any" or (value is None and f.default is None):
        return value
    if kind == "bool":
        if not isinstance(value, bool):
            raise fail(f.name, value, allowed(f))
        return value
    if choices:
        if not any(value == c and type(value) is type(c) for c in choices):
            raise fail(f.name, value, allowed(f))
        return value
    return _check_number(f, value, kind)


def _check_number(f: dataclasses.Field[Any], value: Any, kind: str) -> float | int:
    if not _is_finite(value) or (kind == "int" and int(value) != value):
        raise fail(f.name, value, allowed(f))
    low, high = f.metadata.get("min"), f.metadata.get("max")
    if (low is not None and value < low) or (high is not None and value > high):
        raise fail(f.name, value, allowed(f))
    return int(value) if kind == "int" else float(value)


def _is_finite(value: Any) -> bool:
    """Whether it is a number, numpy's among them; an int may be too large for a float."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return False
    return isinstance(value, numbers.Integral) or math.isfinite(value)


def build(cls: type, values: dict[str, Any], owner: str) -> Any:
    """An instance of the parameter dataclass `cls` from keyword values.

    Raises ValueError naming the parameter: an unknown one (with the nearest known name), or one
    outside its range. `owner` says whose parameters these are, e.g. 'method "greedy"'.
    """
    known = {f.name: f for f in dataclasses.fields(cls) if f.init}
    for name in values:
        if name not in known:
            raise unknown(name, values[name], known, owner)
    return cls(**{name: check(known[name], value) for name, value in values.items()})


def unknown(name: str, value: Any, known: Any, owner: str) -> ValueError:
    """The error for a parameter that `owner` does not have."""
    name = name if len(name) <= 80 else name[:77] + "..."
    near = difflib.get_close_matches(name, list(known), n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    listing = ", ".join(known) or "none"
    return ValueError(
        f"{name}: {owner} has no such parameter (got {_shown(value)}).{hint} It has: {listing}."
    )


def lookup(table: dict[str, Any], name: Any, what: str) -> Any:
    """`table[name]`, or a ValueError that lists the names."""
    if isinstance(name, str) and name in table:
        return table[name]
    raise fail(what, name, "one of " + ", ".join(repr(k) for k in table))
