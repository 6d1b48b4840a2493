"""playground/sweep in real processes: killed at any moment, and several at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from playground import cli
from playground.sweep.rows import Writer, gather, read
from tests.test_api_contract import byte_level_tokenizer, target_and_draft
from tests.test_sweep import rows

ROOT = Path(__file__).resolve().parent.parent
LAUNCH = [
    *("-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"),
    *("--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"),
    *("--main_process_port", "0", "-m"),
]
START_S = 300.0


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A sweep of 3 configurations × 60 prompts on a tiny pair, all but its folder."""
    root = tmp_path_factory.mktemp("pair")
    for role, model in zip(("target", "draft"), target_and_draft(), strict=True):
        model.save_pretrained(root / role)
        byte_level_tokenizer().save_pretrained(root / role)
    (root / "p.txt").write_text("".join(f"prompt {i} x\n" for i in range(60)))
    pair = ["--pair", str(root / "target"), "--draft", str(root / "draft"), "--device", "cpu"]
    settings = ["--precision", "fp32", "--max-new-tokens", "60", "--eos-token-id"]
    return ["sweep", *pair, *settings, "--dataset", str(root / "p.txt")]


@pytest.fixture(scope="module")
def whole(options: list[str], tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The rows of the sweep, in one go."""
    out = tmp_path_factory.mktemp("whole")
    assert cli.main([*options, "--out", str(out), "--json"]) == 0
    return rows(out)


def start(arguments: list[str]) -> subprocess.Popen[bytes]:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    nowhere = subprocess.DEVNULL
    return subprocess.Popen(
        [sys.executable, *arguments], cwd=ROOT, env=environment, stdout=nowhere, stderr=nowhere
    )


def wait_for_rows(folder: Path, count: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end and process.poll() is None:
        if sum(path.read_bytes().count(b"\n") for path in folder.glob("rows*.jsonl")) >= count:
            return
        time.sleep(0.002)
    pytest.fail(f"no {count} rows; exit code {process.poll()}")


def test_a_killed_sweep_goes_on_without_loss_or_double_rows(
    options: list[str], whole: list[dict[str, Any]], tmp_path: Path
) -> None:
    for count in (5, 40):
        process = start(["-m", "playground", *options, "--out", str(tmp_path)])
        wait_for_rows(tmp_path, count, process)
        process.send_signal(signal.SIGKILL)
        process.wait()
        known = read(tmp_path / "rows.jsonl")
        assert count <= len(known) < len(whole)
        with (tmp_path / "rows.jsonl").open("ab") as file:
            file.write(b'{"key": "torn')  # as if it had been hit in the middle of a line
    before = read(tmp_path / "rows.jsonl")
    assert cli.main([*options, "--out", str(tmp_path), "--json"]) == 0
    assert rows(tmp_path) == whole
    after = read(tmp_path / "rows.jsonl")
    assert all(after[place] == row for place, row in before.items())  # times too: none ran twice


@pytest.mark.slow
def test_two_processes_of_accelerate_make_the_rows_of_one(
    options: list[str], whole: list[dict[str, Any]], tmp_path: Path
) -> None:
    process = start([*LAUNCH, "playground", *options, "--out", str(tmp_path)])
    assert process.wait(2 * START_S) == 0
    assert rows(tmp_path) == whole
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["visits"][0]["num_processes"] == 2


def test_rows_of_killed_processes_are_gathered(tmp_path: Path) -> None:
    """Whatever their number was; of two rows of the same run the first counts."""
    made = [{"key": "k", "prompt_id": str(i), "rank": rank} for rank, i in ((0, 1), (1, 0), (1, 1))]
    for row in made:
        writer = Writer(tmp_path / f"rows-{row['rank']}.jsonl")
        writer.write(row)
        writer.close()
    with (tmp_path / "rows-1.jsonl").open("ab") as file:
        file.write(b'{"key": "k", "prompt_id": "2"}')  # no line break: torn
    found = gather(tmp_path, [("k", "0"), ("k", "1")])
    assert [row["prompt_id"] for row in found.values()] == ["0", "1"]
    assert found == read(tmp_path / "rows.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]


def test_a_line_that_is_no_row_is_told(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"key": "k", "prompt_id": "0"}\nnonsense\n')
    with pytest.raises(ValueError, match=r"^out: rows.jsonl, line 2: not a row"):
        read(path)
