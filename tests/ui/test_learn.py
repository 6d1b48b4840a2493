"""The registry of lessons and the tab that shows them."""

from __future__ import annotations

import pytest

from playground.ui.learn import LESSONS
from playground.ui.setup import LESSONS as SLUGS
from playground.ui.strings import ENGLISH, LANGUAGES, Words
from playground.ui.tabs.learn import title_html, turns_html


def test_links_and_the_tab_have_the_same_lessons_in_one_order() -> None:
    assert tuple(LESSONS) == SLUGS


def test_a_lesson_leads_to_the_ones_beside_it() -> None:
    assert 'data-lesson="step"' in turns_html("tree", ENGLISH)
    assert "dp-previous" not in turns_html("tree", ENGLISH)
    middle = turns_html("step", ENGLISH)
    assert 'data-lesson="tree"' in middle and 'data-lesson="stopping"' in middle
    assert "dp-next" not in turns_html("tasks", ENGLISH)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("slug", SLUGS)
def test_a_lesson_is_numbered_and_named(slug: str, language: str) -> None:
    say = Words(language)
    html = title_html(slug, say)
    assert say(f"lesson.{slug}") in html and f"<small>{SLUGS.index(slug) + 1}</small>" in html
