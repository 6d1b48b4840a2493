"""The pairs we know, and who may load what.

Embedded pairs ship with the project and need no network. Hub pairs are listed for the library and
the command line; the page offers only the embedded ones and those in PLAYGROUND_HUB_PAIRS.
"""

from __future__ import annotations

import os
from pathlib import Path

from playground.types import PairSpec

ASSETS = Path(__file__).resolve().parent.parent / "assets"

_SPECS = (
    PairSpec(
        name="chat",
        target="chat-target",
        draft="chat-draft",
        feature="chat-feature",
        title="SmolLM2-135M-Instruct with a two-layer draft",
        embedded=True,
        chat=True,
        license="apache-2.0",
        description="A small chat model and a draft distilled from it.",
    ),
    PairSpec(
        name="translate",
        target="translate-target",
        draft="translate-draft",
        title="English to French, trained on Bible verses",
        embedded=True,
        license="apache-2.0",
        description=(
            "A small T5 trained in this project on the King James Version and Louis Segond's "
            "Bible, and a draft with one decoder layer. It knows that register, and little else."
        ),
    ),
    PairSpec(
        name="smollm2-360m",
        target="HuggingFaceTB/SmolLM2-360M-Instruct",
        draft="HuggingFaceTB/SmolLM2-135M-Instruct",
        title="SmolLM2-360M-Instruct with SmolLM2-135M-Instruct",
        chat=True,
        license="apache-2.0",
    ),
    PairSpec(
        name="smollm2-1.7b",
        target="HuggingFaceTB/SmolLM2-1.7B-Instruct",
        draft="HuggingFaceTB/SmolLM2-135M-Instruct",
        title="SmolLM2-1.7B-Instruct with SmolLM2-135M-Instruct",
        chat=True,
        license="apache-2.0",
    ),
    PairSpec(
        name="qwen2.5-1.5b",
        target="Qwen/Qwen2.5-1.5B-Instruct",
        draft="Qwen/Qwen2.5-0.5B-Instruct",
        title="Qwen2.5-1.5B-Instruct with Qwen2.5-0.5B-Instruct",
        chat=True,
        license="apache-2.0",
    ),
    PairSpec(
        name="t5-large",
        target="google-t5/t5-large",
        draft="google-t5/t5-small",
        title="T5-large with T5-small",
        license="apache-2.0",
        description="The pair of the mentored decoding article.",
    ),
)
PAIRS: dict[str, PairSpec] = {spec.name: spec for spec in _SPECS}


def folder_of(source: str) -> Path | None:
    """The local folder that `source` names: an embedded one, or a path; None for a Hub id."""
    embedded = ASSETS / "models" / source
    if embedded.is_dir():
        return embedded
    return Path(source) if Path(source).is_dir() else None


def page_pairs() -> list[PairSpec]:
    """The pairs that the page offers: embedded, and those the operator allows by name."""
    allowed = {name.strip() for name in os.environ.get("PLAYGROUND_HUB_PAIRS", "").split(",")}
    return [spec for spec in _SPECS if spec.embedded or spec.name in allowed]
