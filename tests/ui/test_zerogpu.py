"""ZeroGPU, with a stand-in for `spaces` that forks, pickles and refuses as the real one does."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from gradio_client import Client

import playground as pg
from playground.ui import zerogpu
from playground.ui.zerogpu import NoGpu
from tests.conftest import ROOT, start_page, wait_until_ready
from tests.ui.lent import spaces

STAND_IN = str(ROOT / "tests" / "ui" / "lent")
SPACE = {
    "SYSTEM": "spaces",
    "SPACE_ID": "someone/playground",
    "SPACE_HOST": "someone-playground.hf.space",
    "SPACE_AUTHOR_NAME": "someone",
    "SPACE_REPO_NAME": "playground",
}
counted: list[int] = []  # what a forked process adds is not seen here


@pytest.fixture
def lent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pair named "chat", and work on it that happens in a forked process."""
    monkeypatch.setattr(zerogpu, "_pairs", {"chat": SimpleNamespace(name="chat")})
    work = spaces.GPU(zerogpu._work, duration=lambda name, start, seconds: round(seconds))
    monkeypatch.setattr(zerogpu, "_lent", work)
    ForkingPickler.register(threading.Event, zerogpu.as_own_stop)


def run(start: Any, stop: threading.Event | None = None, seconds: float | None = 10) -> Any:
    return zerogpu.run("chat", start, stop or threading.Event(), seconds)


def facts(pair: Any) -> Iterator[Any]:
    yield pair.name
    yield os.getpid()
    counted.append(1)
    yield len(counted)


def failing(pair: Any) -> Iterator[int]:
    yield 1
    raise ValueError("temperature: no")


class Odd(Exception):
    """It cannot be pickled."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")


def odd(pair: Any) -> Iterator[int]:
    yield 1
    raise Odd("two", "words")


class Endless:
    """Counts until its flag is set, as a run does; the flag travels with it."""

    def __init__(self, stop: threading.Event) -> None:
        self.stop = stop

    def __call__(self, pair: Any) -> Iterator[Any]:
        step = 0
        while not self.stop.is_set():
            time.sleep(0.01)
            step += 1
            yield step
        yield "ended with what it has"


def test_the_work_runs_elsewhere_and_leaves_nothing_there(lent: None) -> None:
    """Case 76: no state of a forked process is carried over, neither here nor to the next."""
    for _ in range(2):
        name, process, count = run(facts)
        assert name == "chat" and process != os.getpid() and count == 1
    assert counted == []


def test_an_exception_comes_back_after_what_preceded_it(lent: None) -> None:
    seen: list[int] = []
    with pytest.raises(ValueError, match="^temperature: no$"):
        for item in run(failing):
            seen.append(item)
    assert seen == [1]
    with pytest.raises(RuntimeError, match="^Odd: two words$"):
        list(run(odd))


def test_a_visitor_who_stops_or_leaves_ends_the_work(
    lent: None, capfd: pytest.CaptureFixture[str]
) -> None:
    """Case 65, where the flag cannot cross."""
    stop = threading.Event()
    for item in run(Endless(stop), stop):
        if item == 3:
            stop.set()
    left = run(Endless(stop))
    next(left)
    left.close()
    assert capfd.readouterr().out.count("GPU back, exit 0") == 2


def test_a_reservation_that_runs_out_stops_the_run_before_it_is_killed(
    lent: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 75."""
    monkeypatch.setattr(zerogpu, "_MARGIN_S", 9.5)
    assert list(run(Endless(threading.Event())))[-1] == "ended with what it has"


def test_a_refused_reservation_and_work_without_one_say_so(lent: None) -> None:
    """Case 75."""
    with pytest.raises(NoGpu, match="requested GPU duration .120s. is larger"):
        list(run(facts, seconds=120))
    with pytest.raises(NoGpu, match="takes longer than one is lent"):
        list(run(facts, seconds=None))


def test_seconds_follow_the_request_and_have_a_limit() -> None:
    """Case 75: a short run reserves little, and nobody reserves more than MOST_S."""

    def plan(tokens: int) -> Any:
        return SimpleNamespace(
            settings=SimpleNamespace(params=SimpleNamespace(max_new_tokens=tokens))
        )

    one = zerogpu.seconds_of([plan(64)], 1, 120)
    assert (
        one
        < zerogpu.seconds_of([plan(64)] * 5, 1, 120)
        < zerogpu.seconds_of([plan(64)] * 5, 3, 120)
    )
    assert zerogpu.seconds_of([plan(10_000)], 1, 20) < 40  # the deadline of a run counts, too
    with pytest.raises(ValueError, match="max_new_tokens: '15000 in all .*at most 3666"):
        zerogpu.seconds_of([plan(3000)] * 5, 1, 120)


def python(code: str, **environment: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout.strip()


def test_importing_the_page_touches_no_gpu_and_lends_none_elsewhere() -> None:
    code = (
        "import torch\n"
        "def refuse(*_): raise AssertionError('CUDA')\n"
        "torch.cuda._lazy_init = refuse\n"
        "import playground, playground.ui\n"
        "from playground.ui import zerogpu\n"
        "print(torch.cuda.is_initialized(), zerogpu.ON, zerogpu._lent is zerogpu._work)"
    )
    assert python(code) == "False False True"
    assert python(code, PYTHONPATH=STAND_IN) == "False False True"  # `spaces` on other hardware


class Page:
    """A page as it runs on a ZeroGPU Space."""

    def __init__(self, log: Path) -> None:
        self.log = log
        zero = {"SPACES_ZERO_GPU": "true", "PYTHONPATH": STAND_IN, "OMP_NUM_THREADS": "1"}
        limits = {"PLAYGROUND_MAX_NEW_TOKENS": "3000"}
        self.process, url = start_page(log, **SPACE, **zero, **limits)
        wait_until_ready(url)
        self.client = Client(url, verbose=False)

    def refusal(self, **values: Any) -> str:
        with pytest.raises(Exception) as caught:
            self.client.predict("Hi", **values, api_name="/compare")
        return str(caught.value)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    served = Page(tmp_path_factory.mktemp("zero") / "log.txt")
    yield served
    served.process.terminate()
    served.process.wait(30)


def test_a_page_on_zerogpu_answers_as_the_library_does(page: Page) -> None:
    """Case 76: two pairs, forked twice; CUDA is untouched in the parent."""
    runs = {"a": {"method": "greedy"}, "b": {"method": "mentored", "num_draft_tokens": 2}}
    for name in ("chat", "translate"):
        found = page.client.predict("Hello", runs, 6, pair=name, api_name="/compare")
        alone = pg.compare(
            pg.load_pair(name, precision="bf16"),
            "Hello",
            runs,
            max_new_tokens=6,
            temperature=0.7,
            seed=0,
        )
        for label, result in alone.results.items():
            assert found["results"][label]["token_ids"] == result.token_ids
    log = page.log.read_text("utf-8")
    assert "visitor known: True" in log and "visitor known: False" not in log
    assert log.count("GPU back, exit 0") == 2 and "CUDA was initialised" not in log


def test_what_is_refused_reserves_no_gpu_and_the_next_run_works(page: Page) -> None:
    """Cases 69 and 75."""
    before = page.log.read_text("utf-8").count("GPU for")
    assert page.refusal(temperature=-1).startswith("temperature: -1 is not allowed")
    assert page.refusal(max_new_tokens=3000).startswith("max_new_tokens: '15000 in all runs")
    assert page.log.read_text("utf-8").count("GPU for") == before
    said = page.refusal(max_new_tokens=640)
    assert said.startswith("No GPU was lent: The requested GPU duration (106s)")
    assert "Fewer tokens" in said and len(said.splitlines()) == 1
    found = page.client.predict("Hi", "greedy", {"max_new_tokens": 2}, api_name="/decode")
    assert len(found["token_ids"]) == 2


def test_a_sweep_reserves_a_gpu_for_each_of_its_turns(page: Page) -> None:
    before = page.log.read_text("utf-8").count("GPU for")
    given = {"dataset": [{"prompt": "Hi"}, {"prompt": "Name a colour."}], "methods": ["sample"]}
    found = page.client.predict(**given, limit=2, max_new_tokens=3, api_name="/sweep")
    assert len(found["rows"]) == 2
    assert page.log.read_text("utf-8").count("GPU for") > before
