from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest

from playground import traces
from playground.lessons.repetition import laps, loop_at_end, probabilities, repeats
from playground.types import Token
from playground.ui.learn.repetition import RECORD, SETUP, draw, marked_html, recorded
from playground.ui.setup import to_record
from playground.ui.strings import ENGLISH, LANGUAGES, Words
from tests.ui.learn.events import handler, laid_out
from tests.ui.learn.idle import IdleWorker
from tests.ui.learn.test_length import cells

VISITOR: Any = SimpleNamespace(session_hash="s")


def test_the_record_is_small_and_of_the_runs_that_the_button_starts_from() -> None:
    assert RECORD.stat().st_size < 150_000
    comparison, setup = traces.load(RECORD.read_bytes())
    assert comparison.prompt == SETUP.prompt and list(comparison.results) == list(SETUP.runs)
    assert {**to_record(SETUP), **setup} == {**setup, **to_record(SETUP)}


def test_in_the_record_searches_loop_and_sampling_does_not() -> None:
    runs = recorded().results
    shares = [sum(repeats(run.token_ids, 4)) for run in runs.values()]
    assert shares[0] > 80 and shares[1] > 80 and shares[2] == 0
    assert loop_at_end(runs["sample"].token_ids) is None


def test_each_repetition_is_more_probable_than_the_one_before() -> None:
    """What the question is about, for both searches of the record."""
    for name in ("greedy", "beam"):
        run = recorded().results[name]
        loop = loop_at_end(run.token_ids)
        assert loop is not None
        found = [value for value in laps(probabilities(run.tokens), loop) if value is not None]
        assert found == sorted(found) and found[0] < 0.8 < 0.95 < found[-1]
    reveal = handler(laid_out("repetition"), "reveal")
    assert "Right." in reveal("rises") and "58.5, 82.2, 91.9, 95.4" in reveal("rises")


@pytest.mark.parametrize("language", LANGUAGES)
def test_numbers_lines_and_texts(language: str) -> None:
    numbers, lines, texts = draw(recorded(), Words(language))
    greedy, beam, sample = cells(numbers)
    assert greedy[1:] == ["74.5 %", "17 × 7.29", "79.4 %", "−0.323"]
    assert (beam[1], sample[1:3]) == ("71.3 %", ["0 %", "–"])
    assert [len(trace.y) for trace in lines.data] == [160, 160, 160]
    assert [t.name for t in lines.data] == [greedy[0], beam[0], sample[0]]
    plain = re.sub(r"<[^>]+>", "", texts)
    assert plain.count(SETUP.prompt) == 3 and texts.count("<section") == 3


def test_what_is_repeated_is_marked_and_everything_is_escaped_once() -> None:
    tokens = [Token(1, "<b>"), Token(2, "&"), Token(3, "x"), Token(4)]
    html = marked_html(tokens, (False, True, True, False))
    assert html == "&lt;b&gt;<mark>&amp;x</mark>"
    assert marked_html(tokens[:1], (True,)) == "<mark>&lt;b&gt;</mark>"
    assert marked_html((), ()) == ""


class TestDecoded:
    def test_progress_then_numbers_lines_and_texts(self) -> None:
        page = laid_out("repetition", worker=IdleWorker())
        updates = list(handler(page, "decode")("a <b> b", 0.5, 0.9, VISITOR))
        assert "Waiting" in updates[0][0]
        assert any("Greedy: " in update[0] for update in updates)
        last = updates[-1]
        assert "Decoded just now, in fp32 on CPU" in last[0] and "&lt;b&gt;" in last[0]
        assert [row[0] for row in cells(last[1])] == ["Greedy", "Beam", "Sample"]
        assert len(last) == 4

    def test_bad_input_is_one_line(self) -> None:
        page = laid_out("repetition", worker=IdleWorker())
        for values, named in ((("x" * 30_000, 1.0, 1.0), "Prompt"), (("x", 1.0, 2.0), "Top-p")):
            with pytest.raises(gr.Error, match=named):
                list(handler(page, "decode")(*values, VISITOR))

    def test_a_stop_leaves_what_was_there(self) -> None:
        worker = IdleWorker()
        worker.stopped = True
        last = list(handler(laid_out("repetition", worker=worker), "decode")("x", 1, 1, VISITOR))[
            -1
        ]
        assert ENGLISH("repetition.stopped") in last[0] and last[1] == gr.skip()
