"""`python -m playground sweep`: its options, and its progress in a terminal."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from playground.arguments import (
    add_options,
    add_pair,
    given,
    number,
    parameters,
    parse_runs,
    value_of,
)
from playground.catalog import spec_of
from playground.datasets import embedded, load_dataset
from playground.params import check as check_value
from playground.params import fail, field_of, lookup
from playground.sampling import Limits
from playground.sweep.grid import METHODS, configurations, grid
from playground.sweep.request import Progress, Report, Request

# Lists that have an option of their own, beside --vary: option, parameter, help.
LISTS = (
    ("draft_lengths", "num_draft_tokens", "draft lengths γ, such as 3,5,7"),
    ("budgets", "divergence_budget", "budgets D of the mentored rule, such as 0.1,0.15,0.2"),
    ("rules", "verifier", "rules of the method speculative, such as exact,lenience"),
)


def add_sweep_options(command: Any) -> None:
    """The options of `sweep`."""
    add_pair(command)
    sets = ", ".join(embedded())
    data = command.add_argument_group("prompts")
    known = f"{sets}, a .jsonl, .csv, .tsv or .txt file (or .gz), or a set of the Hub"
    data.add_argument("--dataset", required=True, metavar="NAME|FILE", help=known)
    data.add_argument("--prompt-column", metavar="NAME", help="where the prompts are (prompt)")
    data.add_argument("--reference-column", metavar="NAME", help="the answers (reference)")
    data.add_argument("--split", metavar="NAME", help="part of the set: test, validation, ...")
    data.add_argument("--config", metavar="NAME", help="configuration of a set of the Hub")
    data.add_argument(
        "--template", default="{prompt}", metavar="TEXT", help="what every prompt is put into"
    )
    data.add_argument("--raw", action="store_true", help="leave out the chat template")
    data.add_argument("--limit", metavar="N", help="so many prompts, chosen by --seed (all)")
    runs = command.add_argument_group("configurations: every combination")
    runs.add_argument(
        "--methods", metavar="NAME,...", help=f"some of the methods ({','.join(METHODS)})"
    )
    for option, _, help in LISTS:
        runs.add_argument(f"--{option.replace('_', '-')}", metavar="V,...", help=help)
    runs.add_argument(
        "--vary",
        action="append",
        default=[],
        metavar="NAME=V,...",
        help="values of any other parameter, for the methods and rules that have it",
    )
    runs.add_argument(
        "--run",
        dest="runs",
        action="append",
        default=[],
        metavar="LABEL=METHOD,KEY=VALUE,...",
        help="one more configuration; model=draft runs it on the draft model alone",
    )
    runs.add_argument("--draft-alone", action="store_true", help="also sample from the draft model")
    command.add_argument("--out", required=True, metavar="DIR", help="where rows and figure go")
    add_options(command)


def read_request(args: argparse.Namespace) -> Request:
    """The sweep that was asked for; raises ValueError for whatever can be known without a model."""
    spec = spec_of(args.pair, args.draft)
    common = given(args)
    seed = check_value(field_of(Limits, "seed"), common.pop("seed", 0))
    if seed is None:
        raise fail("seed", seed, "a whole number: a sweep can be repeated")
    configs, law = configurations(_runs(args), common, spec.draft is not None)
    limit = None if args.limit is None else number(args.limit, whole=True)
    dataset = load_dataset(
        args.dataset,
        prompt_column=args.prompt_column,
        reference_column=args.reference_column,
        split=args.split,
        config=args.config,
        template=args.template,
        limit=limit,
        seed=seed,
    )
    out = Path(args.out)
    if out.exists() and not out.is_dir():
        raise fail("out", args.out, "a folder")
    command = shlex.join(["python", "-m", "playground", *sys.argv[1:]])
    return Request(dataset, configs, out, seed, law, args.raw, command, spec)


def _runs(args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    lists = {name: getattr(args, option) for option, name, _ in LISTS}
    varied = varied_values({k: v for k, v in lists.items() if v is not None}, args.vary)
    extra = parse_runs(args.runs)
    default = [] if extra and not varied else METHODS
    methods = args.methods.split(",") if args.methods else default
    found = grid(methods, varied, args.draft_alone)
    twice = sorted(found.keys() & extra.keys())
    if twice:
        raise fail("run", twice[0], "a label of its own for every run")
    return found | extra


def varied_values(lists: dict[str, str], vary: Sequence[str]) -> dict[str, list[Any]]:
    """Values by parameter from texts: of `lists` with commas between them, of `vary` as NAME=V,V.

    Raises ValueError for what is no value of its parameter."""
    varied = {name: _values(name, text) for name, text in lists.items()}
    for text in vary:
        name, equals, values = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            raise fail("vary", text, "NAME=VALUE,VALUE,...")
        if name in varied:
            raise fail("vary", text, f"{name} once")
        varied[name] = _values(name, values)
    return varied


def _values(name: str, text: str) -> list[Any]:
    """What was typed for a parameter, between commas, as values of its type, checked."""
    source = lookup(parameters(), name, "vary").source
    return [check_value(source, value_of(source, part.strip())) for part in text.split(",")]


def follow(events: Iterator[Progress | Report], quiet: bool) -> Report | None:
    """The report of a sweep, its progress as a bar on stderr. None in a process that is not the
    main one."""
    report, pause = None, 0.2 if sys.stderr.isatty() else 30.0
    with tqdm(unit="run", disable=quiet, file=sys.stderr, smoothing=0, mininterval=pause) as bar:
        for event in events:
            if isinstance(event, Report):
                report = event
                continue
            if event.row is None:
                bar.reset(event.total)
                bar.initial = bar.n = event.done
            else:
                bar.set_postfix_str(f"{event.row['prompt_id']} {event.row['label']}", refresh=False)
                bar.update()
        bar.refresh()
    return report
