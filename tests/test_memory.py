"""Memory: what is free, what a pair would take, and giving it back."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest
import torch

from playground import memory
from playground.weights import empty_model, load_model

CPU = torch.device("cpu")
SOURCES = ("translate-target", "translate-draft")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_models_need_is_what_their_weights_take(dtype: torch.dtype) -> None:
    """From the configuration alone, within the spare tenth, shared embeddings counted once."""
    taken = sum(p.nbytes for source in SOURCES for p in load_model(source, dtype).parameters())
    needed = memory.needed([empty_model(source) for source in SOURCES], dtype, int8=False)
    assert taken <= needed <= 1.11 * taken
    packed = memory.needed([empty_model(source) for source in SOURCES], dtype, int8=True)
    assert packed == pytest.approx(needed * (1 + 1 / dtype.itemsize))


def test_this_machine_has_memory() -> None:
    assert 0 < memory.available(CPU) < 1e15
    assert memory.available(CPU, spread=True) > 0


@pytest.mark.parametrize(
    ("files", "free"),
    [
        (("memory.max", "memory.current", "memory.stat", "inactive_file"), 700),
        (
            (
                "memory/memory.limit_in_bytes",
                "memory/memory.usage_in_bytes",
                "memory/memory.stat",
                "total_inactive_file",
            ),
            700,
        ),
    ],
)
def test_a_container_s_limit_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, files: tuple[str, ...], free: int
) -> None:
    """A Space sees the memory of its whole machine, and may use a part."""
    (tmp_path / "memory").mkdir()
    monkeypatch.setattr(memory, "_ROOT", tmp_path)
    limit, use, stat, droppable = files
    (tmp_path / limit).write_text("1000\n")
    (tmp_path / use).write_text("600\n")
    (tmp_path / stat).write_text(f"anon 300\n{droppable} 300\nslab 0\n")
    assert memory.available(CPU) == free
    (tmp_path / limit).write_text("max\n")
    assert memory.available(CPU) > 1000


def test_release_frees_what_only_cycles_hold() -> None:
    class Node:
        def __init__(self) -> None:
            self.own, self.tensor = self, torch.zeros(8)

    gc.disable()
    try:
        seen = weakref.ref(Node())
        assert seen() is not None
        memory.release()
        assert seen() is None
    finally:
        gc.enable()
