"""The pairs we know, and who may load what.

Embedded pairs ship with the project and need no network. The library and the command line load any
folder or Hub repository that their user names. The page offers the embedded pairs and what its
operator allows (PLAYGROUND_PAIR, PLAYGROUND_HUB_PAIRS): a visitor chooses among these by name.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

from playground.params import fail, lookup
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
        tuned={
            "speculative": {"proposer": "feature", "num_draft_tokens": 1},
            "mentored": {"proposer": "feature", "num_draft_tokens": 3},
        },
    ),
    PairSpec(
        name="translate",
        target="translate-target",
        draft="translate-draft",
        feature="translate-feature",
        title="English to French, trained on Bible verses",
        embedded=True,
        license="apache-2.0",
        description=(
            "A small T5 trained in this project on the King James Version and Louis Segond's "
            "Bible, a draft with one decoder layer, and a layer that reads the target's states. It "
            "knows that register, and little else."
        ),
        tuned={
            "speculative": {"proposer": "feature", "num_draft_tokens": 3},
            "mentored": {"proposer": "feature", "num_draft_tokens": 7},
        },
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


# What the embedded folders hold, as far as loading needs it.
_TOKENIZER = ("tokenizer.json", "tokenizer_config.json")
EMBEDDED_FILES: dict[str, tuple[str, ...]] = {
    "chat-target": (
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        *_TOKENIZER,
    ),
    "chat-draft": ("config.json", "model.safetensors"),
    "chat-feature": ("config.json", "model.safetensors"),
    "translate-target": (
        "config.json",
        "generation_config.json",
        "model.safetensors",
        *_TOKENIZER,
    ),
    "translate-draft": ("config.json", "generation_config.json", "model.safetensors", *_TOKENIZER),
    "translate-feature": ("config.json", "model.safetensors"),
}
_POINTER = b"version https://git-lfs"
_PART = r"[A-Za-z0-9](?!.*\.\.)[\w.-]{0,95}"  # of a Hub id; never "..", never a path or an address
_HUB_ID = re.compile(rf"({_PART}/)?{_PART}", re.ASCII)
_OWNED = re.compile(rf"{_PART}/{_PART}", re.ASCII)


def folder_of(source: str) -> Path | None:
    """The local folder that `source` names: an embedded one, or a path; None for a Hub id."""
    if source in EMBEDDED_FILES:
        embedded = ASSETS / "models" / source
        return embedded if embedded.is_dir() else None
    return Path(source) if os.path.isdir(source) else None  # False for any odd text, too


def missing_files(spec: PairSpec) -> list[str]:
    """Files of an embedded pair that are not there, or are only Git LFS pointers to them."""
    sources = [s for s in (spec.target, spec.draft, spec.feature) if s in EMBEDDED_FILES]
    names = [f"{source}/{name}" for source in sources for name in EMBEDDED_FILES[source]]
    return [name for name in names if not _is_there(ASSETS / "models" / name)]


def _is_there(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_POINTER)) != _POINTER
    except OSError:
        return False


def spec_of(pair: str, draft: str | None = None) -> PairSpec:
    """The pair of a catalogue name, or of folders or Hub ids of target and draft (in place of the
    catalogue's). Raises ValueError where a part is neither."""
    if pair in PAIRS:
        spec = replace(PAIRS[pair], draft=draft, embedded=False) if draft else PAIRS[pair]
    elif draft or folder_of(pair) is not None or _OWNED.fullmatch(pair):
        # A name is shown and saved: no more of a path than its last part.
        name = Path(pair).resolve().name if folder_of(pair) is not None else pair
        spec = PairSpec(name=name, target=pair, draft=draft, title=name)
    else:
        spec = lookup(PAIRS, pair, "pair")
    for role, source in (("pair", spec.target), ("draft", spec.draft)):
        if source is None or source in EMBEDDED_FILES or folder_of(source) is not None:
            continue
        if not _HUB_ID.fullmatch(source):
            raise fail(role, source, "a folder that exists, or a Hub id such as 'owner/model'")
    return spec


def start_pair() -> PairSpec:
    """The pair that the page starts with: PLAYGROUND_PAIR, as on the command line, or "chat"."""
    return spec_of(os.environ.get("PLAYGROUND_PAIR") or "chat")


def page_pairs() -> list[PairSpec]:
    """The pairs that the page offers: embedded ones, those of PLAYGROUND_HUB_PAIRS, and the one
    that it starts with. Raises ValueError on a setting that names none."""
    given = os.environ.get("PLAYGROUND_HUB_PAIRS", "").split(",")
    allowed = [_allowed(entry.strip()) for entry in given if entry.strip()]
    offered = [spec for spec in _SPECS if spec.embedded] + [*allowed, start_pair()]
    return list({spec.name: spec for spec in offered}.values())


def has_draft(pair: str) -> bool:
    """Whether the pair of this name comes with a draft model, as far as is known unloaded."""
    return pair not in PAIRS or PAIRS[pair].draft is not None


def page_pair(name: str) -> PairSpec:
    """The pair of this name among those that the page offers. Raises ValueError for any other."""
    found: PairSpec = lookup({spec.name: spec for spec in page_pairs()}, name, "pair")
    return found


def shown(spec: PairSpec) -> PairSpec:
    """The pair as visitors may see it: of a folder of the operator's, its name alone."""

    def name(source: str | None) -> str | None:
        folder = folder_of(source) if source else None
        return source if folder is None else folder.resolve().name

    target = name(spec.target) or spec.target
    return replace(spec, target=target, draft=name(spec.draft), feature=name(spec.feature))


def _allowed(entry: str) -> PairSpec:
    """A catalogue name, or Hub ids: "owner/target" or "owner/target+owner/draft"."""
    if entry in PAIRS:
        return PAIRS[entry]
    ids = entry.split("+")
    if len(ids) > 2 or not all(_OWNED.fullmatch(part) for part in ids):
        known = f"{', '.join(PAIRS)}, or Hub ids such as 'owner/target+owner/draft'"
        raise fail("PLAYGROUND_HUB_PAIRS", entry, known)
    return PairSpec(name=entry, target=ids[0], draft=ids[1] if ids[1:] else None, title=entry)
