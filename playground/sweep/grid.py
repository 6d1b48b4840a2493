"""The configurations of a sweep: methods × lists of values, checked before anything is loaded."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from playground.compare import check_runs
from playground.methods import fields_of, method_named
from playground.params import fail, lookup
from playground.session import check
from playground.types import Badge, to_json

Role = Literal["target", "draft"]
ROLES = {"target": "target", "draft": "draft"}
METHODS = ("sample", "speculative", "mentored")  # of a sweep that names none
_FIRST = ("verifier", "proposer")  # choices that bring in further parameters
_SHORT = {"verifier": "", "proposer": "", "num_draft_tokens": "γ", "divergence_budget": "D"}


@dataclass(frozen=True, slots=True)
class Configuration:
    """One method with its settings.

    model: "draft" runs the method on the pair's draft model alone. params: as given; the rest are
    defaults. key: a hash of method, model and all settings, defaults included, the seed left out:
    what a row is found by when a sweep goes on.
    """

    label: str
    method: str
    model: Role
    params: dict[str, Any]
    badge: Badge
    key: str


def grid(
    methods: Sequence[str], varied: dict[str, list[Any]], draft_alone: bool = False
) -> dict[str, dict[str, Any]]:
    """Runs by label: every method with every combination of those varied parameters that it has.

    Raises ValueError for a method twice, an empty list, or a parameter that no method here has.
    """
    runs: dict[str, dict[str, Any]] = {}
    used: set[str] = set()
    for method in methods:
        for params in _combinations(method, varied):
            used |= params.keys()
            label = _label(method, params)
            if label in runs:
                raise fail("methods", label, "every method and value once")
            runs[label] = {"method": method, **params}
    for name, values in varied.items():
        if name not in used:
            raise fail(name, values, f"a method that has it, beside {', '.join(methods)}")
    if draft_alone:
        runs["draft alone"] = {"method": "sample", "model": "draft"}
    return runs


def _combinations(method: str, varied: dict[str, list[Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{}]
    for name in sorted(varied, key=lambda name: name not in _FIRST):
        if not varied[name]:
            raise fail(name, varied[name], "at least one value")
        found = [
            params | ({name: value} if value is not None else {})
            for params in found
            for value in (varied[name] if _has(method, name, params) else [None])
        ]
    return found


def _has(method: str, name: str, params: dict[str, Any]) -> bool:
    return name in {f.name for f in fields_of(method, params)}


def _label(method: str, params: dict[str, Any]) -> str:
    """The method, then every varied value behind its name; a rule's knob may be called as it is."""
    words = [method]
    for name, value in params.items():
        words += _SHORT.get(name, name.replace("_", " ")).split()
        words.append(f"{value:g}" if isinstance(value, float) else str(value))
    return " ".join(word for word, _ in itertools.groupby(words))


def configurations(
    runs: dict[str, dict[str, Any]], common: dict[str, Any], has_draft: bool = True
) -> tuple[list[Configuration], dict[str, Any]]:
    """The checked configurations of runs {label: {"method": ..., "model": ..., **params}}, and the
    law that fidelity refers to. common: parameters for every method that has them.

    Raises ValueError for what can be judged before a pair is loaded.
    """
    roles = {label: _role(run, has_draft) for label, run in runs.items()}
    own = {label: {k: v for k, v in run.items() if k != "model"} for label, run in runs.items()}
    merged, law = check_runs(own, 1, common, has_draft)
    found = [
        _configuration(label, method, roles[label], params)
        for label, (method, params) in merged.items()
    ]
    labels: dict[str, str] = {}
    for one in found:
        other = labels.setdefault(one.key, one.label)
        if other != one.label:
            raise fail("runs", one.label, f"settings that differ from those of {other!r}")
    return found, law


def _role(run: dict[str, Any], has_draft: bool) -> Role:
    role: Role = lookup(ROLES, run.get("model", "target"), "model")
    if role == "draft" and not has_draft:
        raise fail("model", role, "'target': this pair has no draft model")
    return role


def _configuration(label: str, method: str, model: Role, params: dict[str, Any]) -> Configuration:
    if "seed" in params:
        raise fail("seed", params["seed"], "the sweep's own: every prompt's follows from it")
    settings = check(method, params)
    every = {k: v for k, v in settings.flat().items() if k != "seed"}
    identity = json.dumps([method, model, to_json(every)], sort_keys=True)
    key = hashlib.sha256(identity.encode()).hexdigest()[:16]
    badge = method_named(method).badge(settings) if model == "target" else "lossy"
    return Configuration(label, method, model, params, badge, key)


def seed_of(seed: int, prompt_id: str) -> int:
    """The seed of all runs on a prompt: the first 63 bits of SHA-256 of "seed:prompt id". The same
    for every configuration, so that they are compared on the same luck, and whatever the order."""
    digest = hashlib.sha256(f"{seed}:{prompt_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
