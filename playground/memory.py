"""Memory of a device: what is free, what models would take, and giving back what nobody holds."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil
import torch

_SPARE = 1.1  # of the weights: for what loading and running take beside them
_CGROUPS = (  # of a container: limit, use, and the part of the use that can be dropped at any time
    ("memory.max", "memory.current", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_inactive_file"),
)
_ROOT = Path("/sys/fs/cgroup")


def available(device: torch.device, spread: bool = False) -> int:
    """Free bytes of a device. spread: of all GPUs and the processor's memory together."""
    if spread:
        gpus = range(torch.cuda.device_count())
        return _free_ram() + sum(torch.cuda.mem_get_info(i)[0] for i in gpus)
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else _free_ram()


def _free_ram() -> int:
    """What this process may still take: of the machine, and of the container that it runs in."""
    return min([int(psutil.virtual_memory().available), *_free_in_containers()])


def _free_in_containers() -> Iterable[int]:
    for limit, use, droppable in _CGROUPS:
        try:
            most, used = (int((_ROOT / name).read_text()) for name in (limit, use))
            stat = (_ROOT / use).with_name("memory.stat").read_text().split()
            dropped = int(stat[stat.index(droppable) + 1]) if droppable in stat else 0
        except (OSError, ValueError):  # no such file, or "max": no limit
            continue
        yield max(0, most - used + dropped)


def needed(models: Iterable[Any], dtype: torch.dtype, int8: bool) -> int:
    """About how many bytes models (on the meta device) take once loaded. int8: the packed copy of
    their weights included."""
    numbers = sum(p.numel() for model in models for p in model.parameters())
    return int(numbers * (dtype.itemsize + int8) * _SPARE)


def release() -> None:
    """Give back what only reference cycles and torch's own pool still hold."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
