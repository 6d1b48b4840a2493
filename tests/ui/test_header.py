from __future__ import annotations

import re

import pytest

from playground.ui.header import header_html
from playground.ui.strings import LANGUAGES, Words


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_s_own_language_is_marked(language: str) -> None:
    html = header_html(Words(language))
    assert re.findall(r'data-language="(\w+)"[^>]*aria-current', html) == [language]
    assert html.count("data-language") == len(LANGUAGES)


def test_every_button_says_what_it_does() -> None:
    buttons = re.findall(r"<button [^>]*>", header_html(Words()))
    assert {re.search(r'data-do="(\w+)"', b)[1] for b in buttons} >= {  # type: ignore[index]
        "theme",
        "link",
        "embed",
        "close",
    }
    assert all('title="' in button for button in buttons)
