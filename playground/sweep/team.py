"""The processes that share a sweep: `accelerate launch` (or torchrun) starts them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import torch
from accelerate import PartialState

_PATIENCE = timedelta(days=30)  # the last process may take much longer than the first


@dataclass(frozen=True, slots=True)
class Team:
    """One process's place among all: its rank, their number, and how it waits for the others."""

    rank: int = 0
    num_processes: int = 1
    wait: Callable[[], None] = lambda: None
    device: str | None = None

    @property
    def is_main(self) -> bool:
        return self.rank == 0


def join() -> Team:
    """This process's place among those that a launcher has started; alone where none has."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        return Team()
    state = PartialState(cpu=not torch.cuda.is_available(), timeout=_PATIENCE)
    return Team(
        state.process_index, state.num_processes, state.wait_for_everyone, str(state.device)
    )
