"""Prompts and references of an experiment: files, embedded sets, sets of the Hub.

A file is JSONL (a record a line), CSV or TSV (a head, then a row a line; TSV knows no quotes), or
plain lines (.txt), each of which may be gzipped. Every fault is told with its line number.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import importlib
import importlib.util
import io
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playground.catalog import ASSETS
from playground.params import fail

Record = tuple[int, dict[str, Any]]  # line number, values by column
_HUB_ID = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
_SLOT = "{prompt}"
_INLINE = "records"  # the name of a set that came as records


@dataclass(frozen=True, slots=True)
class Example:
    """One prompt. id: the record's own, else its line number; kind: what sort of task it is."""

    id: str
    prompt: str
    reference: str | None = None
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class Dataset:
    """The chosen examples of a set. size: how many it has in all; fingerprint: of all of them."""

    name: str
    examples: tuple[Example, ...]
    size: int
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Source:
    """Where a set is and what its columns are called; "translation.fr" is a column in a column.

    reference: None takes "reference" where there is one. split: only records of this split, for
    sets that have several; None takes the set's own default.
    """

    path: Path
    prompt: str = "prompt"
    reference: str | None = None
    id: str = "id"
    split: str | None = None


def embedded() -> dict[str, Source]:
    """The sets that ship with the project, by name."""
    verses = ASSETS / "data" / "en-fr-verses.tsv.gz"
    found = {"verses": Source(verses, "en", "fr", "ref", "test")}
    files = sorted((ASSETS / "prompts").glob("*.jsonl"))
    return found | {path.stem: Source(path) for path in files}


def load_dataset(
    name: str,
    *,
    prompt_column: str | None = None,
    reference_column: str | None = None,
    split: str | None = None,
    config: str | None = None,
    template: str = _SLOT,
    limit: int | None = None,
    seed: int = 0,
) -> Dataset:
    """The examples of a file, an embedded set or a set of the Hub, in an order fixed by `seed`.

    limit: only the first so many in that order, so that a larger limit adds to a smaller one's.
    split, config: which part of the set; config for sets of the Hub only. template: what each
    prompt is put into, at {prompt}. Raises ValueError that begins with "dataset" or the name of
    the argument, with the line number where a line is at fault.
    """
    _check_limit(limit)
    if _SLOT not in template:
        raise fail("template", template, f"a text with {_SLOT} in it")
    source = _source(name)
    if source is None:
        source = Source(Path(name))
        records = _hub_records(name, config, split or "test")
    else:
        records = _of_split(_records(source.path, name), split or source.split, name)
    columns = (prompt_column or source.prompt, reference_column or source.reference, source.id)
    examples = _examples(records, columns, name)
    if template != _SLOT:
        examples = [
            Example(e.id, template.replace(_SLOT, e.prompt), e.reference, e.kind) for e in examples
        ]
    return _chosen(name, examples, limit, seed)


def dataset_of(records: Sequence[Any], *, limit: int | None = None, seed: int = 0) -> Dataset:
    """The examples of records {"prompt": ..., "reference": ...}, chosen as `load_dataset` does; a
    fault is told with the record's number as its line."""
    _check_limit(limit)
    for number, record in enumerate(records, 1):
        if not isinstance(record, dict):
            raise _fault(_INLINE, number, 'not a record such as {"prompt": "..."}')
    examples = _examples(enumerate(records, 1), ("prompt", None, "id"), _INLINE)
    return _chosen(_INLINE, examples, limit, seed)


def _check_limit(limit: Any) -> None:
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise fail("limit", limit, "a whole number of at least 1")


def _chosen(name: str, examples: list[Example], limit: int | None, seed: int) -> Dataset:
    chosen = list(examples)
    random.Random(seed).shuffle(chosen)
    return Dataset(name, tuple(chosen[:limit]), len(examples), _fingerprint(examples))


def _source(name: str) -> Source | None:
    """The embedded set or file that `name` is; None for what can only be a set of the Hub."""
    if name in embedded():
        return embedded()[name]
    path = Path(name)
    if path.is_file():
        return Source(path)
    if _reader_of(path) or not _HUB_ID.fullmatch(name):
        raise ValueError(f"dataset: there is no file {name!r}.")
    return None


# --- records --------------------------------------------------------------------------------------


def _jsonl(text: str, name: str) -> Iterator[Record]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            raise _fault(name, number, f"not JSON ({error})") from None
        if not isinstance(record, dict):
            raise _fault(name, number, 'not a record such as {"prompt": "..."}')
        yield number, record


def _csv(text: str, name: str) -> Iterator[Record]:
    return _table(csv.reader(io.StringIO(text, newline=""), strict=True), name)


def _tsv(text: str, name: str) -> Iterator[Record]:
    lines = io.StringIO(text, newline="")
    return _table(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE), name)


def _table(rows: Any, name: str) -> Iterator[Record]:
    """Rows under the head that the first one is; blank lines are left out."""
    head: list[str] | None = None
    start = 1
    try:
        for row in rows:
            number, start = start, rows.line_num + 1
            if not row:
                continue
            if head is None:
                head = row
            elif len(row) != len(head):
                raise _fault(name, number, f"{len(row)} columns, the head has {len(head)}")
            else:
                yield number, dict(zip(head, row, strict=True))
    except csv.Error as error:
        raise _fault(name, start, str(error)) from None


def _plain(text: str, name: str) -> Iterator[Record]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield number, {"prompt": line.rstrip("\r")}


_READERS: dict[str, Callable[[str, str], Iterator[Record]]] = {
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".csv": _csv,
    ".tsv": _tsv,
    ".txt": _plain,
}


def _reader_of(path: Path) -> Callable[[str, str], Iterator[Record]] | None:
    plain = path.with_suffix("") if path.suffix == ".gz" else path
    return _READERS.get(plain.suffix.lower())


def _records(path: Path, name: str) -> Iterator[Record]:
    """The records of a file, by its ending."""
    reader = _reader_of(path)
    if reader is None:
        raise fail("dataset", name, f"a file that ends in {', '.join(_READERS)} (or .gz)")
    try:
        data = path.read_bytes()
        data = gzip.decompress(data) if path.suffix == ".gz" else data
    except (OSError, EOFError) as error:
        raise ValueError(f"dataset: {name!r} cannot be read: {error}.") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _fault(name, data.count(b"\n", 0, error.start) + 1, "not UTF-8") from None
    return reader(text, name)


def _hub_records(name: str, config: str | None, split: str) -> Iterator[Record]:
    """The records of a set of the Hub, by the `datasets` package where it is installed."""
    if importlib.util.find_spec("datasets") is None:
        known = ", ".join(embedded())
        raise ValueError(
            f"dataset: {name!r} is no file and none of the embedded sets ({known}); for sets of "
            "the Hub, install the `datasets` package."
        )
    datasets = importlib.import_module("datasets")  # optional
    try:
        table = datasets.load_dataset(name, config, split=split)
    except Exception as error:  # no network, no such set or split: it fails in many ways
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ValueError(f"dataset: {name!r} cannot be loaded: {reason}") from error
    return enumerate(map(dict, table), 1)


def _of_split(records: Iterator[Record], split: str | None, name: str) -> Iterator[Record]:
    if split is None:
        yield from records
        return
    seen = set()
    for number, record in records:
        if "split" not in record:
            raise _fault(name, number, "no column 'split'")
        seen.add(record["split"])
        if record["split"] == split:
            yield number, record
    if split not in seen:
        raise fail("split", split, f"one of {', '.join(map(repr, sorted(map(str, seen))))}")


# --- examples -------------------------------------------------------------------------------------


def _examples(
    records: Iterator[Record], columns: tuple[str, str | None, str], name: str
) -> list[Example]:
    prompt, reference, own_id = columns
    found: dict[str, Example] = {}
    for number, record in records:
        text = _text(record, prompt, name, number)
        if text is None or not text.strip():
            raise _fault(name, number, f"an empty {prompt!r}")
        if reference is not None:
            answer = _text(record, reference, name, number)
        else:
            answer = _text(record, "reference", name, number) if "reference" in record else None
        key = str(record.get(own_id, number))
        if key in found:
            raise _fault(name, number, f"the id {key!r} occurs twice")
        kind = record.get("kind")
        found[key] = Example(key, text, answer or None, None if kind is None else str(kind))
    if not found:
        raise ValueError(f"dataset: {name!r} holds no prompts.")
    return list(found.values())


def _text(record: dict[str, Any], column: str, name: str, number: int) -> str | None:
    """The text in a column of a record, None for null."""
    value: Any = record
    for part in [column] if column in record else column.split("."):
        if not isinstance(value, dict) or part not in value:
            known = ", ".join(map(repr, record)) or "none"
            raise _fault(name, number, f"no column {column!r}; it has {known}")
        value = value[part]
    if value is not None and not isinstance(value, str):
        raise _fault(name, number, f"{column!r} is not a text")
    return value


def _fault(name: str, number: int, reason: str) -> ValueError:
    return ValueError(f"dataset: {name}, line {number}: {reason}.")


def _fingerprint(examples: list[Example]) -> str:
    digest = hashlib.sha256()
    for e in examples:
        digest.update(json.dumps([e.id, e.prompt, e.reference]).encode())
    return digest.hexdigest()
