"""playground/datasets.py: what is read, and what is said of a line at fault."""

from __future__ import annotations

import gzip
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from playground.datasets import Example, load_dataset

JSONL = '{"prompt": "one", "reference": "eins"}\n\n{"prompt": "two\\u2028x", "id": "b"}\n'


def write(folder: Path, name: str, text: str | bytes) -> str:
    data = text.encode() if isinstance(text, str) else text
    path = folder / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return str(path)


def by_id(name: str, **options: Any) -> list[Example]:
    return sorted(load_dataset(name, **options).examples, key=lambda e: e.id)


def test_jsonl_ids_are_the_records_own_or_line_numbers(tmp_path: Path) -> None:
    expected = [Example("1", "one", "eins"), Example("b", "two\u2028x")]
    assert by_id(write(tmp_path, "a.jsonl", JSONL)) == expected
    assert by_id(write(tmp_path, "a.jsonl.gz", JSONL)) == expected
    assert by_id(write(tmp_path, "bom.jsonl", "\ufeff" + JSONL)) == expected


def test_csv_knows_quotes_and_lines_within_them(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", 'prompt,reference,kind\r\n"a, ""b""\nc",d,fact\r\ne,,\r\n')
    assert by_id(path) == [Example("2", 'a, "b"\nc', "d", "fact"), Example("4", "e", None, "")]


def test_tsv_knows_no_quotes(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", 'q\ta\n"open\tx\n')
    assert by_id(path, prompt_column="q", reference_column="a") == [Example("2", '"open', "x")]


def test_plain_lines_have_no_references(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", "one\r\n\n  two\n")
    assert by_id(path) == [Example("1", "one"), Example("3", "  two")]


def test_a_column_may_be_in_a_column(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", '{"translation": {"en": "yes", "fr": "oui"}}')
    columns = {"prompt_column": "translation.en", "reference_column": "translation.fr"}
    assert by_id(path, **columns) == [Example("1", "yes", "oui")]


def test_a_template_wraps_every_prompt(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", "{x}\n")
    assert by_id(path, template="Say {prompt}!") == [Example("1", "Say {x}!")]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.jsonl", '{"prompt": "x"}\n{"prompt": ', "line 2: not JSON"),
        ("a.jsonl", '{"prompt": "x"}\n[1]', "line 2: not a record"),
        ("a.jsonl", '{"text": "x", "b": 1}', "line 1: no column 'prompt'; it has 'text', 'b'"),
        ("a.jsonl", '\n{"prompt": 3}', "line 2: 'prompt' is not a text"),
        ("a.jsonl", '{"prompt": " "}', "line 1: an empty 'prompt'"),
        ("a.jsonl", '{"prompt": "x", "reference": ["y"]}', "line 1: 'reference' is not a text"),
        ("a.jsonl", '{"prompt": "x", "id": 1}\n{"prompt": "y", "id": 1}', "line 2: the id '1'"),
        ("a.csv", "prompt\na,b\n", "line 2: 2 columns, the head has 1"),
        ("a.csv", 'prompt\n"a\nb\nc"x\n', "line 2: "),
        ("a.tsv", "prompt\ty\na\tb\nc\n", "line 3: 1 columns, the head has 2"),
        ("a.csv", b"prompt\na\n\xff\n", "line 3: not UTF-8"),
        ("a.txt", "\n\n", "holds no prompts"),
        ("a.json", "[]", "ends in .jsonl"),
        ("a.jsonl.gz.txt", "", "holds no prompts"),
    ],
)
def test_a_fault_is_told_with_its_line(
    tmp_path: Path, name: str, text: str | bytes, words: str
) -> None:
    path = write(tmp_path, name, text)
    with pytest.raises(ValueError, match="^dataset: ") as caught:
        load_dataset(path)
    assert words in str(caught.value) and path in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_no_gzip_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(b"plain")
    with pytest.raises(ValueError, match="cannot be read"):
        load_dataset(str(path))


def test_a_limit_takes_the_first_of_one_fixed_order(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", "".join(f"{i}\n" for i in range(100)))
    every = load_dataset(path, seed=1)
    assert sorted(int(e.prompt) for e in every.examples) == list(range(100))
    few = load_dataset(path, seed=1, limit=7)
    assert few.examples == every.examples[:7] and few.size == 100
    assert few.fingerprint == every.fingerprint
    assert load_dataset(path, seed=2, limit=7).examples != few.examples
    for bad in (0, -1, 1.5, "3", True):
        with pytest.raises(ValueError, match="^limit: "):
            load_dataset(path, limit=bad)  # type: ignore[arg-type]


def test_the_verses_have_two_splits() -> None:
    test = load_dataset("verses")
    assert test.size == 750 and all(e.reference for e in test.examples)
    assert load_dataset("verses", split="validation").size == 946
    with pytest.raises(ValueError, match="^split: .*'test', 'train', 'validation'"):
        load_dataset("verses", split="tset")


def test_unknown_names_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="no file 'gone.csv'"):
        load_dataset("gone.csv")
    with pytest.raises(ValueError, match="no file '/no/such'"):
        load_dataset("/no/such")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"embedded sets \(verses.*install the `datasets`"):
        load_dataset("wmt/wmt15")


def test_a_set_of_the_hub_is_loaded_by_the_datasets_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def from_hub(name: str, config: str | None, split: str) -> list[dict[str, Any]]:
        asked.append((name, config, split))
        if config is None:
            raise RuntimeError("pick a config\nmore")
        return [{"translation": {"en": "yes", "fr": "oui"}}]

    package = types.ModuleType("datasets")
    package.load_dataset = from_hub  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", package)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    columns = {"prompt_column": "translation.en", "reference_column": "translation.fr"}
    found = by_id("wmt/wmt15", config="fr-en", split="validation", **columns)
    assert found == [Example("1", "yes", "oui")]
    assert asked == [("wmt/wmt15", "fr-en", "validation")]
    with pytest.raises(ValueError, match="cannot be loaded: pick a config$"):
        load_dataset("wmt/wmt15")
