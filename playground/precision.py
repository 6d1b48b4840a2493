"""Which precision is the fastest here: a short measured probe, remembered in the cache folder.

The probe times the products of one new token, and of four as a verification has them, with the
target's own shapes, in every precision that the pair can run in. What it found is kept for this
processor or GPU, torch version, number of threads and shapes.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import json
import math
import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from playground.quantized import Dense, quantised

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "int8": torch.bfloat16}
_ROUNDS = 5  # the fastest of these counts: another program may have had the processor
_MOST_OUTPUTS = 32_000  # wider products are timed in part
_ROWS = (1, 4)  # new tokens in a pass
_SPOILER = 16_000_000  # numbers that leave no room for weights in a cache

Shapes = Counter[tuple[int, ...]]  # of a model's matrices [outputs, inputs]


def shapes_of(model: Any) -> Shapes:
    """How often the matrices of each shape occur in a model, which may lie on the meta device."""
    return Counter(tuple(p.shape) for p in model.parameters() if p.ndim == 2)


def fastest(shapes: Shapes, device: torch.device, int8: bool, few_bits: bool, folder: Path) -> str:
    """The fastest of "fp32", "bf16" and, where `int8` allows it, "int8" for a model of these
    shapes. few_bits: whether its weights come from a 4-bit file. folder: what is known is looked up
    and kept there; a missing, corrupt or read-only file only costs the probe."""
    names = ["fp32", "bf16", *(["int8"] if int8 and device.type == "cpu" else [])]
    file, key = folder / "precision.json", _key(shapes, device, names, few_bits)
    known = _read(file)
    if known.get(key) not in names:
        known[key] = _probe(shapes, device, names, few_bits)
        _write(file, known)
    return known[key]


def _probe(shapes: Shapes, device: torch.device, names: list[str], few_bits: bool) -> str:
    """A pass reads every weight once, from memory: caches are emptied before each round."""
    spoiler = torch.zeros(_SPOILER, device=device)
    best = {(name, shape, n): math.inf for name in names for shape in shapes for n in _ROWS}
    with torch.inference_mode():
        products = {
            (name, shape): _weights(name, shape, few_bits, device) for name, shape, _ in best
        }
        for _ in range(_ROUNDS + 1):  # the first one warms up
            for name, rows in itertools.product(names, _ROWS):
                spoiler.add_(1)
                for shape in shapes:
                    x = torch.ones(rows, shape[1], dtype=PRECISIONS[name], device=device)
                    taken = _time(functools.partial(products[name, shape], x), device)
                    best[name, shape, rows] = min(best[name, shape, rows], taken)
    seconds = {name: 0.0 for name in names}
    for (name, shape, _), fastest_time in best.items():
        part = shape[0] / min(shape[0], _MOST_OUTPUTS)
        seconds[name] += shapes[shape] * part * fastest_time
    return min(names, key=lambda name: seconds[name])


def _sample(outputs: int, inputs: int, few_bits: bool) -> Tensor:
    """Weights with 16 levels, or with more than 8 bits can hold."""
    levels = 16 if few_bits else 1021
    return torch.arange(outputs * inputs).remainder_(levels).view(outputs, inputs) / levels - 0.5


def _weights(
    name: str, shape: tuple[int, ...], few_bits: bool, device: torch.device
) -> Callable[[Tensor], Tensor]:
    """The product with weights [outputs, inputs], ready to run."""
    outputs, inputs = min(shape[0], _MOST_OUTPUTS), shape[1]
    weight = _sample(outputs, inputs, few_bits).to(device, PRECISIONS[name])
    return (quantised if name == "int8" else Dense)(weight, None)


def _time(run: Callable[[], Tensor], device: torch.device) -> float:
    """Seconds of run(), the device synchronised."""
    wait = torch.cuda.synchronize if device.type == "cuda" else int
    wait()
    start = time.perf_counter()
    run()
    wait()
    return time.perf_counter() - start


def _key(shapes: Shapes, device: torch.device, names: list[str], few_bits: bool) -> str:
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    facts = (
        torch.__version__,
        gpu or sorted(torch.cpu.get_capabilities().items()),
        torch.get_num_threads(),
        os.cpu_count(),
        sorted(shapes.items()),
        names,
        few_bits,
        _ROWS,
    )
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def _read(file: Path) -> dict[str, str]:
    with contextlib.suppress(OSError, ValueError):
        known = json.loads(file.read_text("utf-8"))
        if isinstance(known, dict):
            return known
    return {}


def _write(file: Path, known: dict[str, str]) -> None:
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(f".{os.getpid()}.partial")
        partial.write_text(json.dumps(known), "utf-8")
        partial.replace(file)  # a reader never sees half a file
