"""Trace files: a finished comparison and the page's inputs as one JSON text, and back.

A file may come from anybody: size, depth, types, ranges and everything that the page's panels take
for granted are checked before anything is built from it. No file is opened here, and no name in a
trace is ever used as one.
"""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any, NoReturn

from playground.compare import MAX_REFERENCE, Comparison
from playground.methods import method_named
from playground.metrics import round_spans
from playground.params import fail
from playground.records import MAX_WHOLE, clip, from_json
from playground.session import check
from playground.types import DecodeResult, LawSummary, SearchStep, to_json

FORMAT = "decoding-playground/1"
MAX_BYTES = 8_000_000
MAX_RUNS = 64
_MAX_DEPTH = 6  # of the setup
_HINT = f'a file that this page saved: an object with "format": "{FORMAT}"'
_FIELDS = ("prompt", "results", "seconds", "baseline", "reference_text")


def dump(comparison: Comparison, setup: dict[str, Any]) -> str:
    """The trace as text. setup: the page's inputs, plain JSON values.

    Raises ValueError where it would be too large to be opened again.
    """
    record = {"format": FORMAT, "setup": to_json(setup), **comparison.to_dict()}
    text = json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    _check_size(len(text.encode()))
    return text


def load(text: str | bytes) -> tuple[Comparison, dict[str, Any]]:
    """The comparison and the setup of a trace.

    Raises ValueError, one line that begins with "trace" and names the place, for anything that is
    not a sound trace of this format. The rows that a trace carries are for other readers: here
    they are made anew from the results.
    """
    record = _parse(text)
    _check_format(record)
    unknown = set(record) - {"format", "setup", "rows", *_FIELDS}
    if unknown:
        raise ValueError(f"trace: {clip(min(unknown))!r} is unknown here.")
    setup = _plain(record.get("setup", {}), "trace.setup", _MAX_DEPTH)
    if not isinstance(setup, dict):
        raise ValueError("trace.setup: use an object.")
    found = {name: record[name] for name in _FIELDS if name in record}
    return _checked(from_json(Comparison, found, "trace")), setup


def _check_size(size: int) -> None:
    if size > MAX_BYTES:
        limit = f"at most {MAX_BYTES // 1_000_000} MB"
        raise fail("trace", f"{size / 1e6:.1f} MB", limit)


def _parse(text: str | bytes) -> Any:
    """The JSON of the text; names that occur twice, NaN and Infinity are refused."""
    _check_size(len(text))
    try:
        decoded = text if isinstance(text, str) else text.decode("utf-8-sig")
        return json.loads(decoded, object_pairs_hook=_unique, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError(f"trace: nested too deeply; use {_HINT}.") from None
    except UnicodeDecodeError:
        raise ValueError(f"trace: not UTF-8 text; use {_HINT}.") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ValueError(f"trace: not JSON ({where}: {error.msg}); use {_HINT}.") from None
    except ValueError as error:
        raise ValueError(f"trace: {error}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"{clip(twice)!r} occurs twice in one object.")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not allowed; use a number or null.")


def _check_format(record: Any) -> None:
    name = record.get("format") if isinstance(record, dict) else None
    if name == FORMAT:
        return
    if isinstance(name, str) and re.fullmatch(r"decoding-playground/[0-9]{1,9}", name):
        raise ValueError(f"trace: its format is {name}, this page reads {FORMAT}; update the page.")
    raise ValueError(f"trace: this is no trace; use {_HINT}.")


def _plain(value: Any, path: str, depth: int) -> Any:
    """JSON values that can be shown and are not nested deeper than `depth`."""
    if isinstance(value, (dict, list)) and depth == 0:
        raise ValueError(f"{path}: nested too deeply.")
    if isinstance(value, dict):
        return {_plain(k, path, 0): _plain(v, path, depth - 1) for k, v in value.items()}
    if isinstance(value, list):
        return [_plain(item, path, depth - 1) for item in value]
    if isinstance(value, str) and not value.isascii():
        _need(value.encode("utf-8", "ignore").decode() == value, path, "half a surrogate pair")
    if isinstance(value, int):
        _need(abs(value) <= MAX_WHOLE, path, "a whole number this large")
    if isinstance(value, float):
        _need(abs(value) <= 1.7e308, path, "a number this large")
    return value


def _need(sound: bool, path: str, fault: str) -> None:
    if not sound:
        raise ValueError(f"{path}: {fault} is not allowed.")


def _checked(comparison: Comparison) -> Comparison:
    """The comparison, its parts in agreement; parameters get the defaults that they lack."""
    results, seconds = comparison.results, comparison.seconds
    _need(0 < len(results) <= MAX_RUNS, "trace.results", f"anything but 1 to {MAX_RUNS} runs")
    _need(comparison.baseline in results, "trace.baseline", "a run that is not in results")
    _need(seconds.keys() == results.keys(), "trace.seconds", "other labels than in results")
    answer = comparison.reference_text or ""
    _need(len(answer) <= MAX_REFERENCE, "trace.reference_text", "a text this long")
    for label, result in results.items():
        path = f"trace.results.{clip(label)}"
        _need(bool(label.strip()), "trace.results", "an empty label")
        _need(bool(seconds[label]), f"trace.seconds.{clip(label)}", "an empty list")
        results[label] = _checked_result(result, path)
    return comparison


def _checked_result(result: DecodeResult, path: str) -> DecodeResult:
    try:
        settings = check(result.method, result.params)
        badge = method_named(result.method).badge(settings)
    except ValueError as error:
        raise ValueError(f"{path}.params.{error}") from None
    _need(badge == result.badge, f"{path}.badge", f"{result.badge!r} with these parameters")
    _check_tokens(result, path)
    _check_rounds(result, path)
    _check_beams(result, path)
    _check_steps(result.steps, f"{path}.steps")
    return dataclasses.replace(result, params=settings.flat())


def _check_tokens(result: DecodeResult, path: str) -> None:
    ids = [token.token_id for token in result.tokens]
    _need(ids == result.token_ids, f"{path}.tokens", "another id than in token_ids")
    _need(result.metrics.num_new_tokens == len(ids), f"{path}.metrics", "another number of tokens")
    texts = [token.text for token in result.tokens]
    joined = None if any(text is None for text in texts) else "".join(map(str, texts))
    _need(result.text in (None, joined), f"{path}.text", "a text that its tokens do not join to")
    for i, token in enumerate(result.tokens):
        if token.law is not None:
            _check_law(token.law, f"{path}.tokens[{i}].law")


def _check_law(law: LawSummary, path: str) -> None:
    """As many probabilities as tokens, and each law's masses adding up to one."""
    texts = law.token_ids if law.texts is None else law.texts
    _need(len(texts) == len(law.token_ids), path, "a text too many or too few")
    for own, rest in (
        (law.target_probs, law.rest_target_probs),
        (law.draft_probs, law.rest_draft_probs),
    ):
        sound = len(own) == len(law.token_ids) and len(rest) == len(law.rest_sizes)
        _need(sound, path, "a probability too many or too few")
        _need(abs(sum(own) + sum(rest) - 1) < 1e-3, path, "a law that does not add up to 1")


def _check_rounds(result: DecodeResult, path: str) -> None:
    """Every round's counts, and that the accepted tokens stand where the rounds put them."""
    rounds, sources = result.rounds, [token.source for token in result.tokens]
    spans = round_spans(result.tokens, rounds)
    for i, (done, span) in enumerate(zip(rounds, spans, strict=True)):
        where, size = f"{path}.rounds[{i}]", len(done.draft_ids)
        counts = done.num_accepted <= done.num_tested <= size
        _need(counts, where, "more accepted than tested, or tested than drafted,")
        names = done.draft_texts
        _need(names is None or len(names) == size, where, "a text too many or too few")
        for law in (done.target_probs, done.draft_probs):
            _need(law is None or len(law) == done.num_tested, where, "another number of tests")
        accepted = sources[span.start : span.start + done.num_accepted]
        sound = accepted == ["accepted"] * done.num_accepted
        _need(sound, where, "another number of accepted tokens than in tokens")
    _need(not spans or spans[-1].stop == len(sources), path, "a token that no round explains")


def _check_beams(result: DecodeResult, path: str) -> None:
    for i, beam in enumerate(result.beams):
        fits = beam.length == len(beam.token_ids)
        _need(fits, f"{path}.beams[{i}].length", "another length than that of its ids")
    if result.beams:
        best = result.beams[0].token_ids
        _need(best == result.token_ids, f"{path}.beams[0]", "another sequence than the run's")


def _check_steps(steps: tuple[SearchStep, ...], path: str) -> None:
    """Parents are rows of the step before; the rows of a step are 0, 1, 2, ..."""
    num_rows = 1
    for i, step in enumerate(steps):
        rows = sorted(c.row for c in step.candidates if c.row is not None)
        parents = all(c.parent < num_rows for c in step.candidates)
        kept = all(c.kept for c in step.candidates if c.finished or c.row is not None)
        _need(parents, f"{path}[{i}]", "a parent that the step before lacks")
        _need(rows == list(range(len(rows))), f"{path}[{i}]", "a row twice or left out")
        _need(kept, f"{path}[{i}]", "a pruned candidate that lives on")
        num_rows = len(rows)
