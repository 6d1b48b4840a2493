"""What a sweep is asked for, and the events that come back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playground.datasets import Dataset
from playground.sweep.grid import Configuration
from playground.sweep.rows import Place, Row
from playground.sweep.summary import Summary
from playground.types import PairSpec


@dataclass(frozen=True, slots=True)
class Request:
    """A checked sweep. law: what fidelity refers to; raw: no chat template; command: how it was
    asked for, for the record; spec: where the pair's files are, for their hashes."""

    dataset: Dataset
    configs: Sequence[Configuration]
    out: Path
    seed: int = 0
    law: dict[str, Any] = field(default_factory=dict)
    raw: bool = False
    command: str = ""
    spec: PairSpec | None = None

    def places(self) -> list[Place]:
        """What has to be done, in order: prompt by prompt, so that a drift of the machine hits all
        configurations alike."""
        return [(c.key, e.id) for e in self.dataset.examples for c in self.configs]


@dataclass(frozen=True, slots=True)
class Progress:
    """Event: runs done and in all, those of earlier visits and this process's share included; the
    row just written; seconds left, once known."""

    done: int
    total: int
    row: Row | None = None
    left_s: float | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """The last event, of the main process only: the summary, and the notes on what is missing."""

    summary: Summary
    folder: Path
    notes: tuple[str, ...] = ()
