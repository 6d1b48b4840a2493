"""Every word of the page, by language and id."""

from __future__ import annotations

from dataclasses import dataclass

from playground.ui.strings.en import EN
from playground.ui.strings.zh import ZH

LANGUAGES: dict[str, dict[str, str]] = {"en": EN, "zh": ZH}


@dataclass(frozen=True, slots=True)
class Words:
    """One language: `say(id, name=value)` is its string with the placeholders filled in."""

    language: str = "en"

    def __call__(self, key: str, **values: object) -> str:
        return LANGUAGES[self.language].get(key, EN[key]).format(**values)

    def known(self, key: str, default: str) -> str:
        """The string of `key` where the language has one of its own, else `default`: for names that
        the library already has in English."""
        return LANGUAGES[self.language].get(key, default)


ENGLISH = Words()
