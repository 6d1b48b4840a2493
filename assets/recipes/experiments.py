"""The shipped experiments: python -m assets.recipes.experiments NAME ... [options of sweep]

Each is one sweep, whose summary, record, rows and findings go to assets/results/NAME. Killed at any
moment, it goes on when the same command is given again. Options that follow, such as `--limit 3
--out FOLDER`, replace the experiment's own; findings over fewer prompts than planned are marked as
provisional.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playground import cli, experiments
from playground.datasets import embedded
from playground.experiments.article import claims
from playground.experiments.duels import duels
from playground.experiments.gains import gains
from playground.experiments.widths import points
from playground.sweep.command import read_request
from playground.sweep.rows import ROWS, read
from playground.types import to_json

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path("assets/results")
Rows = Sequence[dict[str, Any]]
Findings = dict[str, Sequence[Any]]


def _article(rows: Rows, references: dict[str, Any]) -> Findings:
    return {"claims": claims(rows, references)}


def _lossy(rows: Rows, references: dict[str, Any]) -> Findings:
    found, verdicts = duels(rows)
    return {"duels": found, "verdicts": verdicts}


def _tasks(rows: Rows, references: dict[str, Any]) -> Findings:
    lines = embedded()["tasks"].path.read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    found, contrasts = gains(rows, {r["id"]: r["answer"] for r in records if "answer" in r})
    return {"gains": found, "contrasts": contrasts}


def _width(rows: Rows, references: dict[str, Any]) -> Findings:
    return {"points": points(rows, references)}


@dataclass(frozen=True, slots=True)
class Experiment:
    """options: of `python -m playground sweep`; answer: what its rows and references say; limit:
    prompts."""

    limit: int
    options: str
    answer: Callable[[Rows, dict[str, Any]], Findings]


# Every lossy rule over its knob; `exact` and `block` are lossless.
_RULES = (
    "--methods sample,speculative,mentored --budgets 0.02,0.05,0.1,0.2,0.4,0.8,1.6 "
    "--rules exact,block,lenience,ensemble,typical,top_k,relaxed,cactus,cascade "
    "--vary lenience=0.8,0.6,0.4,0.2 --vary target_weight=0.8,0.6,0.4,0.2 "
    "--vary typical_epsilon=0.3,0.09,0.03,0.01 --vary accept_top_k=2,3,5,10 "
    "--vary relaxed_delta=0.2,0.4,0.6,0.8 --vary cactus_delta=0.02,0.1,0.4,1 "
    "--vary cascade_alpha=0.3,0.5,0.7,0.9 "
)
_GRID = (
    "--methods sample,speculative,mentored --draft-lengths 3,5,7,9,11,13,15 "
    "--budgets 0.1,0.15,0.2 --draft-alone --temperature 0.3 "
)

EXPERIMENTS = {
    "article": Experiment(
        300,
        _GRID + "--pair translate --dataset verses --precision int8 --max-new-tokens 96",
        _article,
    ),
    "article-hub": Experiment(  # as published: needs the Hub, the `datasets` package and a GPU
        1000,
        _GRID + "--pair t5-large --dataset wmt/wmt15 --config fr-en --split validation[:1000] "
        "--prompt-column translation.en --reference-column translation.fr "
        "--template 'translate English to French: {prompt}' --max-new-tokens 200",
        _article,
    ),
    "lossy-translate": Experiment(
        150,
        _RULES + "--pair translate --dataset verses --precision int8 --max-new-tokens 96 "
        "--temperature 0.3 --num-draft-tokens 5",
        _lossy,
    ),
    "lossy-chat": Experiment(
        24,
        _RULES + "--pair chat --dataset tasks --precision int8 --max-new-tokens 48 "
        "--temperature 0.7 --proposer feature --num-draft-tokens 3",
        _lossy,
    ),
    "tasks": Experiment(
        144,
        "--methods sample,speculative,mentored --budgets 0.1,0.2,0.4 --pair chat --dataset tasks "
        "--precision int8 --max-new-tokens 48 --temperature 0.7 --proposer feature "
        "--num-draft-tokens 3",
        _tasks,
    ),
    "width": Experiment(
        80,
        "--methods beam --vary num_beams=1,2,4,8,16,32 --vary length_norm=none,length "
        "--run exact=exact,max_nodes=4000 --pair translate --dataset verses --precision bf16 "
        "--max-new-tokens 96",
        _width,
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("names", nargs="+", choices=EXPERIMENTS, metavar="NAME")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    args, options = parser.parse_known_args()
    os.chdir(ROOT)
    for name in args.names:
        run(name, args.out / name, options)


def run(name: str, folder: Path, options: Sequence[str] = ()) -> None:
    """Run an experiment, or go on with it, and write what it says."""
    chosen = EXPERIMENTS[name]
    command = ["sweep", *shlex.split(chosen.options), "--limit", str(chosen.limit), "--seed", "0"]
    command += ["--out", folder.as_posix(), *options]
    request = read_request(cli.parser().parse_args(command))
    _unpack(folder)
    subprocess.run([sys.executable, "-m", "playground", *command], check=True)
    known = {c.key for c in request.configs}
    ids = {e.id for e in request.dataset.examples}
    rows = [r for r in read(folder / ROWS).values() if r["key"] in known and r["prompt_id"] in ids]
    references = {e.id: e.reference for e in request.dataset.examples}
    record = {
        "experiment": name,
        "num_prompts": len(ids),
        "provisional": len(ids) < chosen.limit,
        **chosen.answer(rows, references),
    }
    text = json.dumps(to_json(record), ensure_ascii=False, indent=1)
    (folder / experiments.NAME).write_text(text + "\n", encoding="utf-8")
    _pack(folder)


def _unpack(folder: Path) -> None:
    """The rows of an earlier visit, as a sweep goes on with them."""
    packed, plain = folder / f"{ROWS}.gz", folder / ROWS
    if packed.exists() and not plain.exists():
        plain.write_bytes(gzip.decompress(packed.read_bytes()))


def _pack(folder: Path) -> None:
    """Rows as they ship; figures are drawn from the summary, so their files are left out."""
    plain = folder / ROWS
    (folder / f"{ROWS}.gz").write_bytes(gzip.compress(plain.read_bytes(), mtime=0))
    for name in (ROWS, "figure.html", "figure.png"):
        (folder / name).unlink(missing_ok=True)


if __name__ == "__main__":
    main()
