"""Trace files: what was saved comes back, and no file, however made, breaks a panel."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import playground as pg
from playground import traces
from playground.axes import X_AXES, Y_AXES
from playground.compare import Comparison
from playground.types import to_json
from playground.ui.beam_tree import beam_tree_html
from playground.ui.board import Board
from playground.ui.cards import card_html, table_html
from playground.ui.rounds import rounds_html
from playground.ui.strings import LANGUAGES, Words
from playground.ui.verdict import verdict
from tests.test_api_contract import EOS, PROMPT, byte_level_tokenizer, target_and_draft

SHIPPED = sorted((Path(__file__).parent.parent / "assets" / "traces").glob("*.json"))
SETUP = {"prompt": "Ünï <b>", "runs": {"a": {"method": "beam", "num_beams": 3}}, "tab": "compare"}
RUNS: dict[str, dict[str, Any]] = {
    "sample": {"method": "sample", "stop": ["zz"]},
    "greedy": {"method": "greedy", "eos_token_id": [EOS]},
    "beam": {"method": "beam", "num_beams": 3, "num_return_sequences": 3},
    "diverse": {"method": "diverse_beam", "num_beams": 4},
    "exact": {"method": "exact", "max_nodes": 20},
    "block": {"method": "speculative", "verifier": "block", "num_draft_tokens": 3},
    "lookup": {"method": "speculative", "proposer": "prompt_lookup"},
    "<b>mentored": {"method": "mentored", "divergence_budget": 0.2, "divergence": "reverse_kl"},
}


@cache
def recorded() -> Comparison:
    target, draft = target_and_draft()
    pair = pg.ModelPair(target, draft, byte_level_tokenizer())
    return pg.compare(pair, "abc abc", RUNS, repeats=2, max_new_tokens=7, seed=3)


@cache
def recorded_text() -> str:
    return traces.dump(recorded(), SETUP)


def record() -> dict[str, Any]:
    """A sound trace as JSON types, fresh for every change."""
    found: dict[str, Any] = json.loads(recorded_text())
    return found


def changed(change: Callable[[dict[str, Any]], Any]) -> str:
    found = record()
    change(found)
    return json.dumps(found)


def draw_everything(comparison: Comparison, **axes: str) -> None:
    """Every panel of the page, in every language, as a browser is sent it."""
    board = Board.of(comparison, recorded=True)
    parts: list[str] = [comparison.figure(**axes).to_json()]
    for say in map(Words, LANGUAGES):
        parts += [card_html(view, say) for view in board.views.values()]
        parts += [table_html(board.rows(), say), verdict(board.rows(), comparison.baseline, say)]
        for result in comparison.results.values():
            parts += [rounds_html(result, say), beam_tree_html(result, say)]
    "".join(parts).encode()


# --- what was saved comes back --------------------------------------------------------------------


def test_a_comparison_survives_the_round_trip() -> None:
    comparison, setup = traces.load(recorded_text())
    assert setup == SETUP
    assert json.dumps(comparison.to_dict()) == json.dumps(recorded().to_dict())
    assert comparison.rows() == recorded().rows()
    assert [r.steps for r in comparison.results.values()] == [
        r.steps for r in recorded().results.values()
    ]
    draw_everything(comparison)


def test_bytes_with_a_mark_are_read_too() -> None:
    assert traces.load("\ufeff".encode() + recorded_text().encode())[1] == SETUP


def test_a_run_without_a_tokenizer_and_one_without_tokens() -> None:
    target, draft = target_and_draft()
    pair = pg.ModelPair(target, draft)
    stopped = list(
        pg.compare(
            pair, PROMPT, {"beam": {"method": "beam"}, "s": {"method": "sample"}}
        ).results.values()
    )
    assert all(result.text is None for result in stopped)
    empty = pg.decode(pair, PROMPT, "mentored", max_new_tokens=1)
    nothing = Comparison(None, {"a": empty, "beam": stopped[0]}, {"a": [0.0], "beam": [1.0]}, "a")
    again, _ = traces.load(traces.dump(nothing, {}))
    assert again.to_dict() == nothing.to_dict()
    draw_everything(again)


def test_rows_are_made_anew() -> None:
    text = changed(lambda r: r.update(rows=[{"label": "<script>", "speedup": 9e9}]))
    assert traces.load(text)[0].rows() == recorded().rows()


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_traces_are_sound_and_small(path: Path) -> None:
    assert path.stat().st_size < 500_000
    comparison, setup = traces.load(path.read_bytes())
    assert setup["prompt"] == comparison.prompt
    draw_everything(comparison)


def test_three_traces_ship() -> None:
    assert len(SHIPPED) == 3


def test_a_trace_too_large_to_open_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "MAX_BYTES", 1000)
    with pytest.raises(ValueError, match="^trace: '.* MB' is not allowed; use at most"):
        traces.dump(recorded(), {})


# --- what is no trace -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"not JSON \(line 1, column 1"),
        ("../../etc/passwd", "not JSON"),
        ("{}", "this is no trace; use a file that this page saved"),
        ("[]", "this is no trace"),
        ("null", "this is no trace"),
        ('{"format": 1}', "this is no trace"),
        ('{"format": "decoding-playground/2"}', "its format is decoding-playground/2, this page"),
        ('{"format": "decoding-playground/1", "setup": {}}', "trace: 'results' is missing."),
        ('{"format": "x", "format": "y"}', "'format' occurs twice"),
        ('{"format": NaN}', "NaN is not allowed"),
        ('{"format": -Infinity}', "-Infinity is not allowed"),
        ("[" * 200_000, "nested too deeply"),
        ('{"a":' * 200_000, "nested too deeply"),
        ("1" * 5000, "trace: "),
        (b"\xff\xfe{}", "not UTF-8"),
        (b"\x00", "not JSON"),
        (b" " * (traces.MAX_BYTES + 1), "'8.0 MB' is not allowed; use at most 8 MB"),
    ],
)
def test_what_is_no_trace_is_refused_in_one_line(text: str | bytes, message: str) -> None:
    """Case 79."""
    with pytest.raises(ValueError, match=f"^trace: .*{message}|^{message}") as caught:
        traces.load(text)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.update(more=1), "trace: 'more' is unknown here."),
        (lambda r: r.update(prompt=5), "trace.prompt: 5 is not allowed; use text"),
        (lambda r: r.update(baseline="x"), "trace.baseline: a run that is not in results"),
        (lambda r: r.update(results={}), "trace.results: anything but 1 to 64 runs"),
        (lambda r: r["seconds"].pop("beam"), "trace.seconds: other labels"),
        (lambda r: r["seconds"].update(beam=[]), "trace.seconds.beam: an empty list"),
        (lambda r: r["seconds"].update(beam=[-1.0]), r"trace.seconds.beam\[0\]: -1.0"),
        (lambda r: r.update(setup=[]), "trace.setup: use an object"),
        (lambda r: r.update(setup={"a": [[[[[[[]]]]]]]}), "trace.setup: nested too deeply"),
        (lambda r: r.update(setup={"a": "\ud800"}), "trace.setup: half a surrogate"),
        (lambda r: r.update(setup={"a": 10**30}), "trace.setup: a whole number this large"),
        (lambda r: r["results"]["beam"].update(method="magic"), "params.method: 'magic'"),
        (lambda r: r["results"]["beam"]["params"].update(num_beams=0), "params.num_beams: 0 is"),
        (lambda r: r["results"]["beam"]["params"].update(x=0), "params.x: method"),
        (lambda r: r["results"]["beam"]["params"].update(stop=7), "params.stop: 7 is not"),
        (lambda r: r["results"]["beam"].update(badge="lossless"), "beam.badge: 'lossless' with"),
        (lambda r: r["results"]["beam"].update(text="other"), "beam.text: a text that its tokens"),
        (lambda r: r["results"]["beam"]["token_ids"].pop(), "beam.tokens: another id"),
        (lambda r: r["results"]["beam"]["metrics"].update(num_new_tokens=1), "number of tokens"),
        (
            lambda r: r["results"]["sample"]["tokens"][3].update(target_prob="x"),
            r"^trace.results.sample.tokens\[3\].target_prob: 'x' is not allowed; use a number",
        ),
        (
            lambda r: r["results"]["block"]["rounds"][0].update(num_accepted=9),
            r"block.rounds\[0\]: more accepted than tested",
        ),
        (lambda r: r["results"]["block"]["rounds"].pop(), "a token that no round explains"),
        (lambda r: r["results"]["beam"]["beams"].reverse(), "another sequence than the run's"),
        (
            lambda r: r["results"]["beam"]["beams"][1].update(length=99),
            r"beams\[1\].length: another length",
        ),
        (
            lambda r: r["results"]["beam"]["steps"][1]["candidates"][0].update(parent=9),
            r"steps\[1\]: a parent that the step before lacks",
        ),
        (
            lambda r: r["results"]["beam"]["steps"][0]["candidates"][0].update(row=2),
            r"steps\[0\]: a row twice or left out",
        ),
        (
            lambda r: r["results"]["beam"]["steps"][0]["candidates"][0].update(kept=False),
            r"steps\[0\]: a pruned candidate that lives on",
        ),
    ],
)
def test_what_contradicts_itself_is_refused_with_its_place(
    change: Callable[[dict[str, Any]], Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        traces.load(changed(change))
    assert str(caught.value).startswith("trace")


# --- whatever is changed, the page stands ---------------------------------------------------------

ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-2, 70),
    st.sampled_from([2**31, 2**53, 2**63, 10**40]),
    st.floats(),
    st.sampled_from([1e308, -1e308, 5e-324, 1e-9, 0.5, 1.0]),
    st.text(max_size=8),
    st.sampled_from(["", "\ud800", "\x00", "<img src=x onerror=alert(1)>", "{0}", "\u202e"]),
    st.lists(st.integers(0, 5), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


def descend(data: st.DataObject, value: Any) -> tuple[Any, Any]:
    """A random place below `value`: its container and its key."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = data.draw(st.sampled_from(keys))
        below = value[key]
        if not isinstance(below, (dict, list)) or not below or data.draw(st.integers(0, 5)) == 0:
            return value, key
        value = below


def mutate(data: st.DataObject, found: dict[str, Any]) -> None:
    home, key = descend(data, found)
    kind = data.draw(st.sampled_from(["odd", "odd", "near", "delete", "twice", "other"]))
    if kind == "odd":
        home[key] = data.draw(ODD)
    elif kind == "near" and isinstance(home[key], (int, float)):
        home[key] = home[key] * data.draw(st.sampled_from([0, -1, 2, 0.5, 1e300, 1e-300]))
    elif kind == "delete":
        del home[key]
    elif kind == "twice" and isinstance(home, list):
        home.insert(key, copy.deepcopy(home[key]))
    else:
        elsewhere, other = descend(data, found)
        home[key] = copy.deepcopy(elsewhere[other])


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.data_too_large, HealthCheck.too_slow],
)
@given(st.data())
def test_a_changed_trace_is_refused_or_shown(data: st.DataObject) -> None:
    """Cases 60 and 79: one ValueError that begins with "trace", or a page that draws it all."""
    found = record()
    del found["rows"]
    for _ in range(data.draw(st.integers(1, 3))):
        mutate(data, found)
    try:
        comparison, setup = traces.load(json.dumps(found))
    except ValueError as error:
        assert str(error).startswith("trace") and "\n" not in str(error)
        return
    draw_everything(comparison)
    again, _ = traces.load(traces.dump(comparison, setup))
    assert to_json(dataclasses.asdict(again)) == to_json(dataclasses.asdict(comparison))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_changed_numbers_of_a_run_are_refused_or_shown(data: st.DataObject) -> None:
    """Numbers that no other number checks: the panels must stand any of them."""
    found = record()
    result = found["results"][data.draw(st.sampled_from(list(found["results"])))]
    for _ in range(data.draw(st.integers(1, 4))):
        name = data.draw(st.sampled_from(list(result["metrics"])))
        number = st.one_of(
            st.floats(min_value=0, allow_infinity=False), st.integers(0, 10), st.none()
        )
        result["metrics"][name] = data.draw(number)
    try:
        comparison, _ = traces.load(json.dumps(found))
    except ValueError as error:
        assert str(error).startswith("trace")
        return
    x, y = data.draw(st.sampled_from(list(X_AXES))), data.draw(st.sampled_from(list(Y_AXES)))
    draw_everything(comparison, x=x, y=y)
