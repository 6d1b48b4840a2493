from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from playground import traces
from playground.compare import Comparison
from playground.ui import files
from playground.ui.files import (
    open_shipped,
    open_trace,
    open_upload,
    own_uploads,
    room_for_upload,
    shipped,
)
from playground.ui.runs import MAX_RUNS
from tests.ui.traces import result


def trace(*labels: str) -> bytes:
    results = {label: result("greedy") for label in labels}
    seconds = {label: [0.5] for label in labels}
    return traces.dump(Comparison("Hi", results, seconds, labels[0]), {}).encode()


def test_every_shipped_trace_opens() -> None:
    for name in shipped():
        assert open_shipped(name).recorded


@pytest.mark.parametrize("name", ["../models/README", "/etc/passwd", "nothing", ""])
def test_a_name_is_never_a_path(name: str) -> None:
    """Case 79."""
    with pytest.raises(ValueError, match="trace: "):
        open_shipped(name)


@pytest.mark.parametrize("data", [b"", b"{}", b"[" * 100_000, b"\xff\xfe", b"x" * 9_000_000])
def test_what_is_no_trace_is_refused_in_one_line(data: bytes, tmp_path: Path) -> None:
    """Case 79."""
    path = tmp_path / "x.json"
    path.write_bytes(data)
    with pytest.raises(ValueError, match="^trace") as caught:
        open_upload(str(path))
    assert len(str(caught.value).splitlines()) == 1


def test_more_runs_than_the_page_has_cards_are_refused() -> None:
    few: Any = json.loads(trace(*(f"run {i}" for i in range(MAX_RUNS))))
    assert len(open_trace(json.dumps(few).encode()).comparison.results) == MAX_RUNS
    with pytest.raises(ValueError, match="at most 8 on this page"):
        open_trace(trace(*(f"run {i}" for i in range(MAX_RUNS + 1))))


@pytest.fixture
def uploads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))
    return own_uploads()


def test_uploads_lie_in_a_folder_of_this_process_alone(uploads: Path, tmp_path: Path) -> None:
    """Nothing that others put beside it is ever looked at, wherever the operator wants it."""
    assert uploads.parent == tmp_path and os.environ["GRADIO_TEMP_DIR"] == str(uploads)
    (tmp_path / "other").write_text("")
    assert room_for_upload(uploads) and (tmp_path / "other").exists()


def test_old_uploads_and_empty_folders_go(uploads: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a/one.json", "b/deep/two.json", "tmpempty"):
        path = uploads / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    assert room_for_upload(uploads) and len(list(uploads.rglob("*"))) == 6
    monkeypatch.setattr(files, "KEEP_S", -1)
    assert room_for_upload(uploads) and list(uploads.rglob("*")) == []


def test_there_are_only_so_many_uploads_at_a_time(
    uploads: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_UPLOADS", 3)
    for i in range(3):
        assert room_for_upload(uploads)
        (uploads / f"{i}.json").write_text("{}")
    assert not room_for_upload(uploads)
