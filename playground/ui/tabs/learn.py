"""The Learn tab: a list of lessons, one of them shown, and the way to the next.

A lesson is a tab within the tab: Gradio puts a tab's components on the page when it is first
opened, which keeps the page's start light and gives every figure its width. The address
`?tab=learn&lesson=SLUG` opens one; assets/js/page.js keeps it.
"""

from __future__ import annotations

from html import escape

import gradio as gr

from playground.ui.learn import LESSONS
from playground.ui.markup import markup
from playground.ui.strings import Words
from playground.ui.worker import Worker


def learn_tab(worker: Worker, say: Words) -> gr.Tabs:
    """Lay out the tab in the current Blocks; return the lessons, whose `selected` is a slug."""
    with gr.Tabs(elem_id="lessons", overflow_behavior="wrap") as lessons:
        for slug, lesson in LESSONS.items():
            with gr.Tab(say(f"lesson.{slug}"), id=slug, elem_id=f"lesson-{slug}"):
                markup(title_html(slug, say))
                lesson(worker, say)
                markup(turns_html(slug, say))
    return lessons


def title_html(slug: str, say: Words) -> str:
    """A lesson's number and title."""
    number = list(LESSONS).index(slug) + 1
    return (
        f'<h2 class="dp-lesson-title"><small>{number}</small>{escape(say(f"lesson.{slug}"))}</h2>'
    )


def turns_html(slug: str, say: Words) -> str:
    """The way to the lessons before and after."""
    slugs = list(LESSONS)
    index = slugs.index(slug)
    before, after = slugs[:index][-1:], slugs[index + 1 :][:1]
    turns = [_turn(other, say, "previous") for other in before]
    turns += [_turn(other, say, "next") for other in after]
    return f'<nav class="dp-turns" aria-label="{escape(say("learn.turns"))}">{"".join(turns)}</nav>'


def _turn(slug: str, say: Words, way: str) -> str:
    title = escape(say(f"lesson.{slug}"))
    return (
        f'<button type="button" class="dp-button dp-{way}" data-do="lesson" data-lesson="{slug}">'
        f"{title}</button>"
    )
