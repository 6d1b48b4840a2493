"""What the shipped sweeps say: rows to answers, with 95 % intervals over the prompts.

An answer is a few dataclasses, which `assets/recipes/experiments.py` writes as `findings.json`
beside a sweep's summary, and which the page reads without any model.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any, TypeVar

from playground.catalog import ASSETS
from playground.experiments.article import Claim
from playground.experiments.duels import Duel, Verdict
from playground.lessons.tasks import Contrast, TaskGain
from playground.lessons.width import WidthPoint
from playground.records import from_json

NAME = "findings.json"
T = TypeVar("T")

# What a list in findings.json holds, by its name.
KINDS: dict[str, type] = {
    "claims": Claim,
    "duels": Duel,
    "verdicts": Verdict,
    "gains": TaskGain,
    "contrasts": Contrast,
    "points": WidthPoint,
}


@cache
def findings(name: str) -> dict[str, Any]:
    """The answers of a shipped experiment: lists of dataclasses by the names in KINDS, beside
    `num_prompts` and `provisional`. Empty where the experiment has not been run."""
    path = ASSETS / "results" / name / NAME
    if not path.exists():
        return {}
    return read(json.loads(path.read_text(encoding="utf-8")))


def read(record: dict[str, Any]) -> dict[str, Any]:
    """A record of findings with its lists as dataclasses; raises ValueError naming a bad place."""
    return {
        name: [from_json(KINDS[name], item, f"{name}[{i}]") for i, item in enumerate(value)]
        if name in KINDS
        else value
        for name, value in record.items()
    }
