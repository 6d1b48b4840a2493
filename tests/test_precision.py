"""The fastest precision: measured once, remembered, and never a reason for a load to fail."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from playground import precision
from playground.precision import Shapes, fastest, shapes_of

SHAPES: Shapes = Counter({(64, 32): 2, (32, 64): 1})
CPU = torch.device("cpu")


@pytest.fixture
def probes(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What each probe was asked to choose from; it always takes the last."""
    asked: list[list[str]] = []

    def probe(shapes: Any, device: Any, names: list[str], few_bits: bool) -> str:
        asked.append(names)
        return names[-1]

    monkeypatch.setattr(precision, "_probe", probe)
    return asked


def test_shapes_are_those_of_the_matrices() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.LayerNorm(64))
    assert shapes_of(model) == {(64, 32): 1}


@pytest.mark.parametrize("few_bits", [True, False])
def test_a_real_probe_names_one_of_the_candidates(tmp_path: Path, few_bits: bool) -> None:
    assert fastest(SHAPES, CPU, True, few_bits, tmp_path) in ("fp32", "bf16", "int8")
    assert fastest(SHAPES, CPU, False, few_bits, tmp_path) in ("fp32", "bf16")


def test_the_choice_is_remembered(tmp_path: Path, probes: list[list[str]]) -> None:
    """For these shapes, this kind of weights and these candidates; others are measured anew."""
    for _ in range(2):
        assert fastest(SHAPES, CPU, True, False, tmp_path / "new") == "int8"
        assert fastest(SHAPES, CPU, False, False, tmp_path / "new") == "bf16"
    assert probes == [["fp32", "bf16", "int8"], ["fp32", "bf16"]]
    fastest(SHAPES, CPU, True, True, tmp_path / "new")
    fastest(SHAPES + SHAPES, CPU, True, False, tmp_path / "new")
    assert len(probes) == 4


def test_int8_is_for_the_cpu(
    tmp_path: Path, probes: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    fastest(SHAPES, torch.device("cuda"), True, True, tmp_path)
    assert probes == [["fp32", "bf16"]]


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b"null"])
def test_a_corrupt_file_is_measured_over(
    tmp_path: Path, probes: list[list[str]], content: bytes
) -> None:
    (tmp_path / "precision.json").write_bytes(content)
    for _ in range(2):
        assert fastest(SHAPES, CPU, False, False, tmp_path) == "bf16"
    assert len(probes) == 1


@pytest.mark.parametrize("value", ["fp7", None, ["bf16"], {}])
def test_an_impossible_choice_is_measured_over(
    tmp_path: Path, probes: list[list[str]], value: Any
) -> None:
    fastest(SHAPES, CPU, False, False, tmp_path)
    file = tmp_path / "precision.json"
    file.write_text(json.dumps(dict.fromkeys(json.loads(file.read_text()), value)))
    assert fastest(SHAPES, CPU, False, False, tmp_path) == "bf16"
    assert len(probes) == 2


def test_a_folder_that_cannot_be_written_only_costs_the_probe(
    tmp_path: Path, probes: list[list[str]]
) -> None:
    (tmp_path / "file").write_text("")
    assert fastest(SHAPES, CPU, False, False, tmp_path / "file") == "bf16"
