"""Which precision is the fastest here: a short measured probe, remembered in the cache folder.

The probe times the products of one new token, and of a few as a verification has them, with the
target's own shapes, in every precision that the pair can run in. What it found is kept for this
processor or GPU, torch version, number of threads and shapes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from playground.quantized import Dense, quantised
from playground.sampling import Clock

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "int8": torch.bfloat16}
_ROUNDS = 3  # the fastest of these counts: another program may have had the processor
_MOST_OUTPUTS = 32_000  # wider products are timed in part
_ROWS = (1, 4)  # new tokens in a pass
_SPOILER = 48_000_000  # bytes that leave no room for weights in a cache
_SMALL = 16_000_000  # weights

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
    """A small model is tried with all its products in turn, of which the processor's caches keep
    as much as in a real pass; a larger one with one product a shape, from emptied caches."""
    with torch.inference_mode():
        if sum(math.prod(shape) * count for shape, count in shapes.items()) <= _SMALL:
            whole = list(shapes.elements())
            seconds = {n: _seconds(n, whole, device, few_bits, None) for n in names}
        else:
            spoiler = torch.zeros(_SPOILER, dtype=torch.uint8, device=device)
            seconds = {
                name: sum(
                    shape[0]
                    / min(shape[0], _MOST_OUTPUTS)
                    * count
                    * _seconds(name, [shape], device, few_bits, spoiler)
                    for shape, count in shapes.items()
                )
                for name in names
            }
    return min(names, key=lambda name: seconds[name])


def _seconds(
    name: str,
    shapes: list[tuple[int, ...]],
    device: torch.device,
    few_bits: bool,
    spoiler: Tensor | None,
) -> float:
    """One pass through products of these shapes, for each number of rows; the fastest of some
    rounds, of which the first warms up."""
    products = [_weights(name, shape, few_bits, device) for shape in shapes]
    total = 0.0
    for rows in _ROWS:
        inputs = [torch.ones(rows, s[1], dtype=PRECISIONS[name], device=device) for s in shapes]
        work = list(zip(products, inputs, strict=True))
        best = math.inf
        for _ in range(_ROUNDS + 1):
            if spoiler is not None:
                spoiler.add_(1)
            best = min(best, _time(lambda: [product(x) for product, x in work], device))  # noqa: B023
        total += best
    return total


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


def _time(run: Callable[[], Any], device: torch.device) -> float:
    """Seconds of run(), the device synchronised."""
    clock = Clock(device)
    start = clock.now()
    run()
    return clock.now() - start


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
