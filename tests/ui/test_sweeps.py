from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gradio_client import Client

import playground as pg
from playground.datasets import Dataset, Example
from playground.sweep.grid import grid
from playground.ui.sweeping import SweepRequest, run_sweep
from playground.ui.sweeps import MAX_FILE_BYTES, named_dataset, read_upload, sweep_request
from playground.ui.worker import PageSettings, Worker
from tests.test_api_contract import byte_level_tokenizer, target_and_draft

SETTINGS = PageSettings()
RECORDS = [
    {"prompt": "The sky is", "reference": "Le ciel est"},
    {"prompt": "The sea is", "reference": "La mer est"},
]


def request(settings: PageSettings = SETTINGS, **values: Any) -> SweepRequest:
    runs = grid(["sample", "speculative"], {"num_draft_tokens": [2, 3]})
    common = {"max_new_tokens": 8}
    asked: dict[str, Any] = {"pair": "chat", "runs": runs, "common": common, "seed": 0} | values
    asked.setdefault("dataset", named_dataset(RECORDS, None, 0))
    return sweep_request(settings, **asked)


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["../prompts/bench", "/etc/passwd", "squad", "assets/x.txt", None])
def test_a_data_set_is_never_a_path_nor_one_of_the_hub(name: Any) -> None:
    with pytest.raises(ValueError, match="^dataset: "):
        named_dataset(name, 1, 0)


@pytest.mark.parametrize(
    ("dataset", "words"),
    [
        ([], "from 1 to 1000 records"),
        ([{"prompt": "a"}] * 1001, "from 1 to 1000 records"),
        (["a"], "line 1: not a record"),
        ([{"prompt": "a"}, {"text": "b"}], "line 2: no column 'prompt'"),
        ([{"prompt": 3}], "line 1: 'prompt' is not a text"),
    ],
)
def test_bad_records_are_refused_by_number(dataset: Any, words: str) -> None:
    with pytest.raises(ValueError, match=f"^dataset: .*{words}"):
        named_dataset(dataset, None, 0)


def test_a_limit_chooses_by_the_seed() -> None:
    many = [{"prompt": str(i)} for i in range(50)]
    first, again = (named_dataset(many, 5, 7) for _ in range(2))
    assert first.examples == again.examples and first.size == 50
    assert named_dataset(many, 5, 8).examples != first.examples


def test_work_is_bounded_and_the_limit_named() -> None:
    asked = request()
    assert asked.tokens() == 2 * 3 * 8
    many = named_dataset([{"prompt": str(i)} for i in range(1000)], None, 0)
    limit = f"limit: 1000 prompts × 3 .* this page allows {SETTINGS.max_work:,}"
    with pytest.raises(ValueError, match=limit):
        request(dataset=many, common={"max_new_tokens": 500})


def test_beams_count_as_work() -> None:
    runs = {"b": {"method": "beam", "num_beams": 5}}
    assert request(runs=runs).tokens() == 2 * 5 * 8


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"common": {"max_new_tokens": 513}}, "max_new_tokens: 513 .* on this page"),
        ({"common": {"max_new_tokens": 8, "nothing": 1}}, "nothing"),
        ({"runs": {}}, "runs: .* from 1 to 64"),
        ({"runs": {"a": {"method": "sample", "seed": 3}}}, "seed"),
        ({"dataset": named_dataset([{"prompt": "a" * 20_001}], None, 0)}, "^prompt: "),
        ({"pair": "t5-large"}, "^pair: "),
    ],
)
def test_every_bound_is_checked(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        request(**values)


# --- uploaded files -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.jsonl", '{"prompt": "x"}\n{', "a.jsonl, line 2: not JSON"),
        ("a.csv", "prompt,reference\nx,y\nz\n", "a.csv, line 3: 1 columns, the head has 2"),
        ("a.tsv", "text\nx\n", "a.tsv, line 2: no column 'prompt'"),
        ("a.txt", "\n\n", "'a.txt' holds no prompts"),
        ("a.txt.gz", "", "use a file that ends in .jsonl, .csv, .tsv, .txt"),
        ("a.py", "x", "use a file that ends in"),
        ("a.txt", "x" * (MAX_FILE_BYTES + 1), "at most 2,000,000 bytes"),
    ],
)
def test_a_bad_file_is_refused_without_its_folder(
    tmp_path: Path, name: str, text: str, words: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ValueError, match="^dataset: ") as caught:
        read_upload(str(path))
    assert words in str(caught.value) and str(tmp_path) not in str(caught.value)


def test_lines_of_a_text_file_are_prompts(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\n\ntwo\n")
    assert {e.prompt for e in read_upload(str(path))} == {"one", "two"}


# --- the run --------------------------------------------------------------------------------------


class InlineWorker(Worker):
    """Runs a turn where it is asked for; counts them."""

    def __init__(self, pair: pg.ModelPair) -> None:
        self.settings, self.loaded, self.turns = PageSettings(), pair, 0

    def stream(self, pair: str, start: Any, stop: Any, seconds: Any = None) -> Iterator[list[Any]]:
        self.turns += 1
        for item in start(self.loaded):
            yield [item]


@pytest.fixture
def worker() -> InlineWorker:
    pair = pg.ModelPair(*target_and_draft(), tokenizer=byte_level_tokenizer(), name="tiny")
    return InlineWorker(pair)


def tiny() -> SweepRequest:
    examples = tuple(Example(str(i), text, text[::-1]) for i, text in enumerate(("abc", "de", "f")))
    return request(dataset=Dataset("tiny", examples, 3, ""))


def test_turns_make_the_same_rows_as_one_go(
    worker: InlineWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = [*run_sweep(worker, tiny(), threading.Event())][-1]
    assert worker.turns == 1 and whole.done == whole.total == 9
    assert [r["num_prompts"] for r in whole.summary.records] == [3, 3, 3]
    monkeypatch.setattr("playground.ui.sweeping._TURN_S", 0.0)
    sliced = [*run_sweep(worker, tiny(), threading.Event())][-1]
    assert worker.turns == 10
    texts = [[row["text"] for row in s.rows.values()] for s in (whole, sliced)]
    assert texts[0] == texts[1]
    assert sliced.result().visit["dataset"] == "tiny"


def test_a_stop_keeps_the_rows_and_sums_up_whole_prompts(worker: InlineWorker) -> None:
    stop = threading.Event()
    for sweeping in run_sweep(worker, tiny(), stop):
        if sweeping.done == 4:
            stop.set()
    assert sweeping.done == 4
    assert [r["num_prompts"] for r in sweeping.summary.records] == [1, 1, 1]


def test_a_sweep_out_of_time_ends(worker: InlineWorker) -> None:
    worker.settings = PageSettings(deadline_s=0.0)
    *_, ended = run_sweep(worker, tiny(), threading.Event())
    assert ended.late and ended.done < ended.total


# --- the endpoint ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def client(page_url: str) -> Client:
    return Client(page_url, verbose=False)


def test_sweep_returns_rows_and_what_they_add_up_to(client: Client) -> None:
    found = client.predict(
        RECORDS,
        ["sample", "mentored"],
        draft_lengths=[2],
        budgets=[0.1, 0.4],
        limit=2,
        max_new_tokens=6,
        api_name="/sweep",
    )
    assert found["complete"] and len(found["rows"]) == 6
    labels = [record["label"] for record in found["summary"]]
    assert labels == ["sample", "mentored γ 2 D 0.1", "mentored γ 2 D 0.4"]
    assert all(record["bleu"] is not None for record in found["summary"])
    assert found["record"]["sweep"]["seed"] == 0
    assert set(found["record"]["signatures"]) == {"bleu", "chrf", "sentence_bleu"}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"dataset": "/etc/passwd"}, "dataset: "),
        ({"dataset": "verses", "limit": 0}, "limit: "),
        ({"dataset": "verses", "seed": None}, "seed: "),
        ({"dataset": "verses", "methods": "sample"}, "methods: "),
        ({"dataset": "verses", "rules": ["nothing"]}, "verifier: "),
        ({"dataset": "verses", "budgets": ["much"]}, "divergence_budget: "),
        ({"dataset": "verses", "vary": {"eyes": [1]}}, "vary: "),
        ({"dataset": "verses", "pair": "t5-large"}, "pair: "),
    ],
)
def test_a_bad_request_is_refused_in_one_line(
    client: Client, values: dict[str, Any], words: str
) -> None:
    with pytest.raises(Exception, match=words):
        client.predict(api_name="/sweep", **values)
