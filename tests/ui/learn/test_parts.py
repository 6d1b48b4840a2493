from __future__ import annotations

import gradio as gr
import pytest

from playground.ui.learn import parts
from playground.ui.strings import ENGLISH
from tests.ui.learn.events import handler

EVIL = '<img src=x onerror="alert(1)">&amp;'
SAFE = "&lt;img src=x onerror=&quot;alert(1)&quot;&gt;&amp;amp;"


def test_prose_is_paragraphs_with_strong_words_and_code_and_nothing_else() -> None:
    assert parts.prose_html("One **two**.\n\n`a // b` <b>") == (
        "<p>One <b>two</b>.</p><p><code>a // b</code> &lt;b&gt;</p>"
    )


def test_everything_is_escaped_once() -> None:
    shown = [
        parts.prose_html(EVIL),
        parts.sources_html(EVIL, [(EVIL, ""), (EVIL, f"https://example.org/{EVIL}")]),
        parts.answer_html(True, EVIL, ENGLISH),
        parts.table_html([EVIL], [[EVIL, EVIL]], EVIL),
    ]
    for html in shown:
        assert "<img" not in html and SAFE in html and "&amp;amp;amp;" not in html


def test_a_table_names_its_rows_and_columns_and_marks_some() -> None:
    html = parts.table_html(["a", "b"], [["x", "1"], ["y", "2"]], "title", marked=[1])
    assert "<caption>title</caption>" in html
    assert html.count('<th scope="col">') == 2
    assert '<tr><th scope="row">x</th><td>1</td>' in html
    assert '<tr class="dp-marked"><th scope="row">y</th>' in html


def test_finished_cells_are_left_alone() -> None:
    assert "<td><b>1</b></td>" in parts.table_html(["a"], [["x", "<b>1</b>"]], raw=True)


@pytest.mark.parametrize(
    ("choice", "told"), [("second", "Right."), ("first", "Not so."), (None, "")]
)
def test_a_prediction_is_judged_and_explained(choice: str | None, told: str) -> None:
    with gr.Blocks() as page:
        parts.predict(ENGLISH, "step.ask", ("first", "second", "third"), "second", flat=3)
    answer = handler(page, "reveal")(choice)
    assert told in answer
    assert ("3 // 3 = 1" in answer) == (choice is not None)


def test_what_takes_its_time_is_drawn_when_its_tab_is_opened() -> None:
    with gr.Blocks() as page, gr.Tabs(), gr.Tab("one") as tab, gr.Column():
        slot = parts.figure()
        parts.when_opened(lambda: None, None, slot)
    (event,) = page.fns.values()
    assert event.targets == [(tab._id, "select")] and not event.queue
