"""What a run depends on beside the models: processor, threads, versions, the kind of GPU."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from typing import Any

import torch

# ZeroGPU: such a Space lends a GPU to one request at a time, in a process forked for it.
ZERO_GPU = os.environ.get("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true")


def facts(device: torch.device) -> dict[str, Any]:
    """The machine, the device and the versions of what computes on it."""
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    return {
        "device": gpu or str(device),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "transformers")},
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            names = [line.partition(":")[2].strip() for line in lines if "model name" in line]
        return names[0]
    except (OSError, IndexError):
        return platform.processor() or platform.machine()
