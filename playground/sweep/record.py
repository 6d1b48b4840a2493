"""run.json: what a folder of rows belongs to, and what every visit to it ran on.

A folder holds rows of one pair, data set, seed and precision; a sweep that differs in one of these
is refused. Configurations and prompts may be added at any later visit.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from playground import machine
from playground.catalog import ASSETS, folder_of
from playground.datasets import Dataset
from playground.models import ModelPair
from playground.params import fail
from playground.sweep.grid import Configuration
from playground.types import PairSpec, to_json

NAME = "run.json"
_CHUNK = 1 << 24


def identity(
    pair: ModelPair, spec: PairSpec | None, dataset: Dataset, seed: int, raw: bool
) -> dict[str, Any]:
    """What every row of a folder has in common. Names of pairs and sets are not part of it: the
    contents of their files are."""
    models: Any = pair.name
    if spec is not None:
        sources = {"target": spec.target, "draft": spec.draft, "feature": spec.feature}
        models = {role: _fingerprint(source, pair) for role, source in sources.items() if source}
    return {
        "models": models,
        "precision": pair.precision,
        "dataset": dataset.fingerprint,
        "seed": seed,
        "raw": raw,
    }


def _fingerprint(source: str, pair: ModelPair) -> Any:
    """SHA-256 of every file of a folder; of a Hub repository, its name and the commit loaded."""
    folder = folder_of(source)
    if folder is None:
        configs = [model.config for model in (pair.target, pair.draft) if model is not None]
        commits = {config._name_or_path: config._commit_hash for config in configs}
        return f"{source}@{commits.get(source)}"
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.suffix != ".md")
    return {path.name: _sha256(path) for path in files}


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def visit(pair: ModelPair, dataset: Dataset, command: str, num_processes: int) -> dict[str, Any]:
    """When, where and how rows were added."""
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command,
        "pair": pair.name,
        "dataset": dataset.name,
        "prompts": len(dataset.examples),
        "num_processes": num_processes,
        "git_commit": _git_commit(),
        **machine.facts(pair.device),
    }


def _git_commit() -> str | None:
    """The commit of this code, "+" behind it where files were changed; None outside a checkout."""
    try:
        outputs = [
            subprocess.run(
                ["git", *words], cwd=ASSETS.parent, capture_output=True, text=True, check=True
            ).stdout.strip()
            for words in (["rev-parse", "HEAD"], ["status", "--porcelain", "--", "playground"])
        ]
    except (OSError, subprocess.CalledProcessError):
        return None
    return outputs[0] + ("+" if outputs[1] else "")


def write(
    folder: Path, same: dict[str, Any], configs: Sequence[Configuration], this: dict[str, Any]
) -> None:
    """Add a visit to the folder's record.

    Raises ValueError naming what differs where the folder's rows belong to another sweep.
    """
    known = read(folder)
    for name, value in same.items():
        if known and known["sweep"].get(name) != value:
            raise fail("out", str(folder), f"another folder: this one's rows have another {name}")
    visits = [*known.get("visits", ()), this]
    found = {"sweep": same, "configurations": to_json(list(configs)), "visits": visits}
    _replace(folder, found)


def sign(folder: Path, signatures: Mapping[str, str]) -> None:
    """Add sacrebleu's signatures of the summary's scores to the folder's record."""
    path = folder / NAME
    found = json.loads(path.read_text(encoding="utf-8")) | {"signatures": dict(signatures)}
    _replace(folder, found)


def _replace(folder: Path, found: Mapping[str, Any]) -> None:
    """Write the record in one step."""
    partial = folder / f"{NAME}.partial"
    partial.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    partial.replace(folder / NAME)


def recorded_precision(folder: Path) -> str | None:
    """The precision of the rows that a folder holds; None where there are none."""
    return read(folder).get("sweep", {}).get("precision")


def read(folder: Path) -> dict[str, Any]:
    """The folder's record; empty where there is none. Raises ValueError for a file that is none."""
    path = folder / NAME
    if not path.exists():
        return {}
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        return {"sweep": dict(record["sweep"]), "visits": list(record["visits"])}
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"out: {path} is not the record of a sweep.") from error
