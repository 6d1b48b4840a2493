"""Decoding methods. A new one is one file and one entry of METHODS."""

from __future__ import annotations

import dataclasses
from typing import Any

from playground.contracts import Method, Settings
from playground.methods.autoregressive import Greedy, Sample
from playground.methods.beam_search import BeamSearch, DiverseBeamSearch
from playground.methods.exact_search import ExactSearch
from playground.methods.speculative import MentoredDecoding, Speculative
from playground.params import build, lookup, unknown

_CLASSES = (
    Sample,
    Greedy,
    BeamSearch,
    DiverseBeamSearch,
    ExactSearch,
    Speculative,
    MentoredDecoding,
)
METHODS: dict[str, Any] = {cls.name: cls for cls in _CLASSES}


def method_named(name: Any) -> Method:
    """An instance of the method `name`, or ValueError listing the names."""
    return lookup(METHODS, name, "method")()  # type: ignore[no-any-return]


def fields_of(name: str, values: dict[str, Any]) -> list[dataclasses.Field[Any]]:
    """Every parameter of method `name`, given the choices (proposer, verifier) in `values`."""
    method = method_named(name)
    owners = (method.Params, *method.parts(values).values())
    return [f for owner in owners for f in dataclasses.fields(owner)]


def parse(name: str, values: dict[str, Any]) -> Settings:
    """Checked settings of method `name`. Raises ValueError naming the first bad parameter."""
    method = method_named(name)
    parts = method.parts(values)
    owners = {"": method.Params, **parts}
    homes = {f.name: key for key, owner in owners.items() for f in dataclasses.fields(owner)}
    for key in values:
        if key not in homes:
            raise unknown(key, values[key], homes, f'method "{name}"')
    built = {
        key: build(owner, {k: v for k, v in values.items() if homes[k] == key}, f'method "{name}"')
        for key, owner in owners.items()
    }
    return Settings(built.pop(""), built)
