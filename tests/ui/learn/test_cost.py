from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest

from playground.lessons.cost import SHAPES
from playground.ui.learn.cost import bounded, draw
from playground.ui.strings import ENGLISH, LANGUAGES, Words
from tests.ui.learn.events import handler, laid_out
from tests.ui.learn.idle import IdleWorker
from tests.ui.learn.test_length import cells

VISITOR: Any = SimpleNamespace(session_hash="s")


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_chapters_example_to_the_digit(language: str) -> None:
    numbers, bars, table = draw(Words(language), "Llama 3 8B", 4, 1000, 200)
    for value in ("128 KiB", "600 MiB", "225 MiB", "62.5 %", "1,800", "1.50×"):
        assert f"<dd>{value}</dd>" in numbers
    assert "2 × 32 × 8 × 128 × 2" in numbers
    rows = {row[0]: row[1:] for row in cells(table)}
    assert list(rows) == list(SHAPES)
    assert rows["Llama 3 8B"] == ["32 × 8 × 128", "128", "600", "225"]
    assert rows["Llama 3 70B"] == ["80 × 8 × 128", "320", "1,500", "562.5"]
    assert table.count("dp-marked") == 1
    assert list(bars.data[0].x) == ["1", "2", "4", "8"] and bars.data[0].y[2] == 600


def test_the_width_that_is_asked_for_has_bars() -> None:
    bars = draw(ENGLISH, "SmolLM2 135M", 11, 0, 10)[1]
    assert list(bars.data[1].x) == ["1", "2", "4", "8", "11"]
    assert bars.data[0].y == bars.data[1].y  # no prompt, nothing to share


def test_sharing_a_long_prompt_saves_three_quarters_of_four_copies() -> None:
    reveal = handler(laid_out("cost"), "reveal")
    assert "Right." in reveal("most") and "73.2 %: 1,100 MiB instead of 4,100" in reveal("most")


def test_a_recorded_search_shows_what_was_certain_and_when() -> None:
    text = "".join(str(b.value) for b in laid_out("cost").blocks.values() if isinstance(b, gr.HTML))
    assert "search of 4 beams for “Why is the sky blue?”" in text and "config.json" in text


class TestMeasured:
    def updates(self, *values: float, worker: IdleWorker | None = None) -> list[Any]:
        page = laid_out("cost", worker=worker or IdleWorker())
        return list(handler(page, "measure")(*values, VISITOR))

    def test_the_caches_bytes_equal_both_formulas(self) -> None:
        first, last = self.updates(4, 40, 12)
        assert "Measuring" in first[0]
        assert "fp32 on CPU" in last[0] and "The bytes equal both formulas." in last[0]
        one, four = cells(last[1])
        assert one[0] == "1" and len(set(one[2:])) == 1
        assert four[0] == "4" and four[2] == four[3] and four[4] == four[5]
        assert "40 prompt tokens, 12 new ones" in last[1]

    def test_what_is_asked_for_is_bounded(self) -> None:
        assert bounded(32, 8000, 2000) == (8, 256, 32)
        assert bounded(1, 0, 10) == (1, 1, 10)

    def test_one_beam_is_compared_with_nothing(self) -> None:
        last = self.updates(1, 0, 10)[-1]
        assert "times as long" not in last[0] and len(cells(last[1])) == 1

    def test_a_search_that_was_stopped_is_not_shown(self) -> None:
        worker = IdleWorker()
        worker.stopped = True
        assert "Stopped" in self.updates(4, 40, 12, worker=worker)[-1][0]

    def test_a_failure_is_one_line_and_leaves_no_status(self) -> None:
        worker = IdleWorker()
        worker.call = lambda *_: 1 / 0  # type: ignore[method-assign, assignment]
        page = laid_out("cost", worker=worker)
        steps = handler(page, "measure")(4, 40, 12, VISITOR)
        assert "Measuring" in next(steps)[0] and "Measuring" not in next(steps)[0]
        with pytest.raises(gr.Error, match="ZeroDivisionError"):
            next(steps)
