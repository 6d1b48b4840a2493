"""A page in a process of its own: what it writes down, what it leaves behind, what it lacks."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError

from tests.conftest import ROOT, start_page

SECRET = "zebrafish"
RUN = {"max_new_tokens": 12, "seed": 0}


def end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait(60)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path, Path, Any]]:
    """Address, log, folder for temporary files, and a way to end it."""
    root = tmp_path_factory.mktemp("private")
    (root / "temporary").mkdir()
    process, url = start_page(
        root / "log", PLAYGROUND_PAIR="translate", GRADIO_TEMP_DIR=str(root / "temporary")
    )
    try:
        Client(url, verbose=False).predict("Yes.", "greedy", RUN, api_name="/decode")  # has loaded
        yield url, root / "log", root / "temporary", process
    finally:
        end(process)


def test_two_callers_at_once_get_their_own(page: tuple[str, Path, Path, Any]) -> None:
    """Case 62: interleaved runs of two sessions give what each gives alone."""
    url, *_ = page
    prompts = ("The LORD is my shepherd.", "And God said, Let there be light.")

    def ask(prompt: str) -> list[list[int]]:
        client = Client(url, verbose=False)
        found = [client.predict(prompt, "mentored", RUN, api_name="/decode") for _ in range(3)]
        return [record["token_ids"] for record in found]

    alone = [ask(prompt) for prompt in prompts]
    with ThreadPoolExecutor(2) as both:
        together = list(both.map(ask, prompts))
    assert alone == together and alone[0] != alone[1]


def test_logs_hold_no_prompt_and_no_output_and_files_go(
    page: tuple[str, Path, Path, Any],
) -> None:
    """Runs that succeed, that are refused and that fail, links and uploads; then the page ends."""
    url, log, temporary, process = page
    client = Client(url, verbose=False)
    prompt = f"And the {SECRET} went up."
    text = client.predict(prompt, "greedy", {"max_new_tokens": 24}, api_name="/decode")["text"]
    for bad in (
        {"temperature": SECRET},
        {SECRET: 1},
        {"stop": [SECRET] * 1000},
        {"max_new_tokens": 10**6},
    ):
        with pytest.raises(AppError):
            client.predict(prompt, "sample", bad, api_name="/decode")
    with pytest.raises(AppError):
        client.predict(SECRET * 10_000, "sample", {}, api_name="/decode")
    client.predict(prompt, max_new_tokens=8, api_name="/compare")
    for body in ("{", json.dumps({"data": [SECRET]}), json.dumps({"data": {SECRET: SECRET}})):
        httpx.post(f"{url}/gradio_api/call/decode", content=body, timeout=30)
    httpx.get(url, params={"prompt": SECRET, "runs": SECRET}, timeout=30)
    trace = json.dumps({"format": SECRET}).encode()
    sent = httpx.post(
        f"{url}/gradio_api/upload", files={"files": (f"{SECRET}.json", trace)}, timeout=30
    )
    assert sent.status_code == 200 and list(temporary.rglob(f"{SECRET}.json"))
    end(process)
    written = log.read_text()
    assert SECRET not in written and "Traceback" not in written
    assert text and text[:20] not in written
    assert not [path for path in temporary.rglob("*") if path.is_file()]
    assert not list(temporary.glob("decoding-playground-*"))


def test_a_page_without_weights_says_which_and_how_to_get_them(tmp_path: Path) -> None:
    root = tmp_path / "bare"
    ignored = shutil.ignore_patterns("models", "__pycache__", "*.gz")
    shutil.copytree(ROOT / "assets", root / "assets", ignore=ignored)
    shutil.copytree(ROOT / "playground", root / "playground", ignore=ignored)
    for name in ("app.py", "pyproject.toml"):
        shutil.copy(ROOT / name, root)
    process, url = start_page(tmp_path / "log", root)
    try:
        assert httpx.get(url, timeout=30).status_code == 200
        client = Client(url, verbose=False)
        with pytest.raises(AppError) as caught:
            client.predict("Hello", api_name="/decode")
        status = client.predict(api_name="/pairs")[0]["status"]
    finally:
        end(process)
    for words in ("chat-target/SmolLM2-135M-Instruct.Q4_1.gguf", "git lfs pull", "README.md"):
        assert words in str(caught.value) and words in status["reason"]
    assert status["state"] == "failed" and str(tmp_path) not in status["reason"]
    assert "Traceback" not in (tmp_path / "log").read_text()
