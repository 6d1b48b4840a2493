"""What lessons are made of: text, sources, a question to predict, figures, tables.

Functions that end in `_html` are pure: texts in, finished HTML out, everything escaped once. The
others lay out a component in the current Blocks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import gradio as gr
import plotly.graph_objects as go
from gradio.context import get_render_context

from playground.lesson_charts import WORDS
from playground.ui.markup import markup
from playground.ui.strings import Words

# Events that answer at once, beside whatever runs.
LIGHT: dict[str, Any] = {
    "queue": False,
    "show_progress": "hidden",
    "api_visibility": "private",
    "concurrency_limit": None,
}
DRAG = LIGHT | {"trigger_mode": "always_last"}  # the last value counts, however fast they come
CHAPTER = "9.2"  # the section of the chapter on decoding that lessons 1 to 7 bring to life


def prose_html(text: str) -> str:
    """Paragraphs, which blank lines part; **strong** and `code` are marked so."""
    return "".join(f"<p>{inline_html(part)}</p>" for part in text.strip().split("\n\n"))


def inline_html(text: str) -> str:
    """One line of text, with **strong** and `code`."""
    safe = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
    return re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", safe)


def text(text: str, elem_id: str | None = None) -> gr.HTML:
    """A block of paragraphs as `prose_html` reads them."""
    return markup(f'<div class="dp-prose">{prose_html(text)}</div>', elem_id)


def heading(title: str) -> gr.HTML:
    """A heading inside a lesson."""
    return markup(f'<h3 class="dp-lesson-part">{escape(title)}</h3>')


def chapter(say: Words) -> tuple[str, str]:
    """The chapter as a source."""
    return say("learn.chapter", section=CHAPTER), ""


def sources(say: Words, *items: tuple[str, str]) -> gr.HTML:
    """The line at a lesson's end that says where it comes from: (text, address or "")."""
    return markup(sources_html(say("learn.sources"), items))


def sources_html(label: str, items: Sequence[tuple[str, str]]) -> str:
    """Sources in a row, those that have an address as links."""
    shown = "; ".join(
        f'<a href="{escape(url)}" target="_blank" rel="noopener">{escape(name)}</a>'
        if url
        else escape(name)
        for name, url in items
    )
    return f'<p class="dp-sources"><b>{escape(label)}</b> {shown}</p>'


# --- predict first --------------------------------------------------------------------------------


def predict(say: Words, key: str, choices: Sequence[str], right: str, **values: object) -> gr.Radio:
    """A question to answer before looking; a choice reveals whether it holds, and why.

    The question is the string `KEY`, the choices are `KEY.CHOICE`, the reason is `KEY.why`, all
    filled in with `values`; `right` is one of the choices.
    """
    with gr.Column(elem_classes="dp-predict"):
        asked = gr.Radio(
            [(say(f"{key}.{choice}", **values), choice) for choice in choices],
            label=say(key, **values),
            elem_id=f"predict-{key.replace('.', '-')}",
        )
        answer = markup()
    why = say(f"{key}.why", **values)

    def reveal(choice: str | None) -> str:
        return answer_html(choice == right, why, say) if choice else ""

    asked.input(reveal, asked, answer, **LIGHT)
    return asked


def answer_html(right: bool, why: str, say: Words) -> str:
    """What a visitor who has chosen is told."""
    verdict = say("learn.right" if right else "learn.wrong")
    kind = "right" if right else "wrong"
    return (
        f'<p class="dp-answer dp-answer-{kind}" role="status"><b>{escape(verdict)}</b> '
        f"{inline_html(why)}</p>"
    )


# --- figures and tables ---------------------------------------------------------------------------


def figure_words(say: Words) -> dict[str, str]:
    """What `lesson_charts` says, in the page's language: the strings `figure.ID`."""
    return {name: say.known(f"figure.{name}", text) for name, text in WORDS.items()}


def figure(
    value: go.Figure | None = None, elem_id: str | None = None, min_width: int = 300
) -> gr.Plot:
    """A slot for a figure without a frame. A lesson is first put on the page when it is opened, so
    that what is drawn here has its right width; `when_opened` draws what takes its time."""
    return gr.Plot(
        value,
        show_label=False,
        container=False,
        min_width=min_width,
        elem_id=elem_id,
        elem_classes="dp-figure",
    )


def when_opened(draw: Callable[..., Any], inputs: Any, outputs: Any) -> None:
    """Draw when the lesson that is being laid out is opened, rather than when the page is built.

    For what takes more than some 20 ms, ten lessons in two languages. `draw` takes the values of
    `inputs` and is called again every time that the lesson is opened.
    """
    block = get_render_context()
    while not isinstance(block, gr.Tab):
        assert block is not None, "a lesson is laid out in a tab"
        block = block.parent
    block.select(draw, inputs, outputs, **LIGHT)


def numbers_html(cells: Sequence[tuple[str, str, str]]) -> str:
    """Numbers in a row: name, value, and the line that explains it on hover or focus."""
    body = "".join(
        f'<div tabindex="0" data-tip="{escape(tip)}"><dt>{escape(name)}</dt>'
        f"<dd>{escape(value)}</dd></div>"
        for name, value, tip in cells
    )
    return f'<dl class="dp-metrics dp-lesson-numbers">{body}</dl>'


def table_html(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    caption: str = "",
    marked: Sequence[int] = (),
    raw: bool = False,
) -> str:
    """A small table that scrolls by itself where it is too wide; the first column names the rows.

    marked: indices of rows to stand out. raw: the cells are finished HTML; the head never is.
    """
    titles = "".join(f'<th scope="col">{escape(title)}</th>' for title in head)
    shown = [[cell if raw else escape(cell) for cell in row] for row in rows]
    classes = [' class="dp-marked"' if index in marked else "" for index in range(len(rows))]
    body = "".join(
        f'<tr{kind}><th scope="row">{name}</th>{"".join(f"<td>{c}</td>" for c in cells)}</tr>'
        for kind, (name, *cells) in zip(classes, shown, strict=True)
    )
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return (
        f'<div class="dp-scroll"><table class="dp-table">{title}'
        f"<thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table></div>"
    )
