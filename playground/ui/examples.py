"""Prompts to start from, by the pair that they suit."""

from __future__ import annotations

_CHAT = {
    "Fact": "Why is the sky blue?",
    "Story": "Write a short story about a lighthouse keeper who finds a message in a bottle.",
    "Summary": (
        "Summarize in one sentence: Bees visit flowers to collect nectar and pollen. While they "
        "move from flower to flower, pollen sticks to their bodies and reaches other flowers, "
        "which can then make seeds and fruit. A third of the food we eat depends on this."
    ),
    "Translate": "Translate to French: Good morning, my friend.",
    "Code": "Write a Python function that returns the sum of the even numbers in a list.",
    "Arithmetic": "Tom has 5 apples and buys 8 more. How many apples does he have?",
    "List": "List five tips for sleeping better.",
    "Rewrite": "Rewrite in the past tense: I walk to school and meet my friends.",
    "Email": "Write a short email to a teacher asking for one more day for the homework.",
    "Explain": "Explain photosynthesis in three short sentences.",
}
_VERSES = {
    "Shepherd": "The LORD is my shepherd; I shall not want.",
    "Light": "And God said, Let there be light: and there was light.",
    "Love": "Beloved, let us love one another: for love is of God.",
    "Time": "To every thing there is a season, and a time to every purpose under the heaven.",
}
_BY_PAIR = {"translate": _VERSES}


def examples_of(pair: str) -> dict[str, str]:
    """Name -> prompt, for the pair of this name."""
    return _BY_PAIR.get(pair, _CHAT)
