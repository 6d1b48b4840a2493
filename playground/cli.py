"""python -m playground: pairs, compare, decode, sweep, solve, bench.

Results go to stdout, progress to stderr. Bad input is told in one line and exit code 2, before a
model is loaded wherever that can be known without one.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from huggingface_hub.utils.tqdm import disable_progress_bars
from transformers.utils import logging

from playground import bench, report
from playground.arguments import (
    add_input,
    add_options,
    add_pair,
    given,
    number,
    numbers,
    parse_runs,
    read_lines,
    read_prompt,
)
from playground.bench.laps import Bench
from playground.catalog import PAIRS, spec_of
from playground.compare import (
    DEFAULT_COMMON,
    DEFAULT_RUNS,
    Comparison,
    check_answer,
    check_runs,
    compare_stream,
)
from playground.faults import first_line, is_out_of_memory
from playground.mentored import DIVERGENCES, solve
from playground.methods import METHODS
from playground.models import ModelPair, load_pair
from playground.params import fail, field_of, lookup
from playground.proposers import PROPOSERS
from playground.session import check, check_deadline, stream
from playground.sweep import sweep
from playground.sweep.command import add_sweep_options, follow, read_request
from playground.sweep.record import recorded_precision
from playground.sweep.team import join
from playground.types import BeamEvent, DecodeResult, Event, PairSpec, to_json
from playground.verifiers import VERIFIERS, MentoredParams

Command = Callable[[argparse.Namespace], None]
_INPUT = "(--prompt TEXT | --prompt-file FILE | --ids ID ...)"


class _Parser(argparse.ArgumentParser):
    """Raises its errors, so that `main` tells them all in one style."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. The exit code: 0, 1 where disk or memory ran out, 2 for bad input, 130 after
    Ctrl+C."""
    _settle_output()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            args = parser().parse_args(_utf8(sys.argv[1:] if argv is None else argv))
            args.run(args)
            sys.stdout.flush()
    except ValueError as error:
        _note(f"playground: {first_line(error)}")
        return 2
    except KeyboardInterrupt:
        _note("playground: interrupted")
        return 130
    except BrokenPipeError:  # the reader, `head` perhaps, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:  # a full disk, a folder that may not be written to
        _note(f"playground: {first_line(error)}")
        return 1
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        _note("playground: memory ran out; fewer tokens, fewer beams or a smaller pair need less")
        return 1
    return 0


def _settle_output() -> None:
    """UTF-8 on stdout whatever the locale; no bars and chatter of the libraries on stderr."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(encoding="utf-8")
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    if not sys.stderr.isatty():
        disable_progress_bars()  # a download's bar is welcome where somebody waits for it


def _utf8(arguments: Sequence[str]) -> list[str]:
    """The arguments, of which none has stray bytes, which could be neither encoded nor printed."""
    for argument in arguments:
        if any("\ud800" <= char <= "\udfff" for char in argument):
            raise fail("argument", argument, "text in UTF-8")
    return list(arguments)


def _note(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _print_json(record: Any) -> None:
    print(json.dumps(record, ensure_ascii=False, allow_nan=False))


# --- options --------------------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    whole = _Parser(
        prog="python -m playground",
        description="Greedy, beam, speculative and mentored decoding, side by side.",
        allow_abbrev=False,
    )
    commands = whole.add_subparsers(metavar="command", dest="command", required=True)
    _add(commands, "pairs", _pairs, "List the pairs of models that are known by name.")
    _add_compare(commands)
    _add_decode(commands)
    _add_sweep(commands)
    _add_solve(commands)
    _add_bench(commands)
    return whole


def _add(commands: Any, name: str, run: Command, help: str, epilog: str = "") -> Any:
    command = commands.add_parser(
        name,
        help=help,
        description=help,
        epilog=epilog,
        usage=f"%(prog)s {_INPUT} [options]" if epilog else None,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("--json", action="store_true", help="print the library's record as JSON")
    command.set_defaults(run=run)
    return command


def _add_compare(commands: Any) -> None:
    help = "Run one prompt through several methods, one after another, and compare them."
    common = ", ".join(f"{name} {value}" for name, value in DEFAULT_COMMON.items())
    default = f"Without --run: {', '.join(DEFAULT_RUNS)}; {common}, where nothing else is said."
    command = _add(commands, "compare", _compare, help, f"{_lines()}\n\n{default}")
    add_input(command)
    command.add_argument(
        "--run",
        dest="runs",
        action="append",
        metavar="LABEL=METHOD,KEY=VALUE,...",
        help="one run, such as 'D0.5=mentored,divergence_budget=0.5'; may be given several times",
    )
    command.add_argument("--repeats", default="1", metavar="N", help="timed runs of each (1)")
    command.add_argument(
        "--reference-text", metavar="TEXT", help="a right answer, for BLEU and chrF of every text"
    )
    add_options(command)


def _add_decode(commands: Any) -> None:
    help = "Run one method on a prompt and print its text as it is decoded."
    command = _add(commands, "decode", _decode, help, _lines())
    add_input(command)
    command.add_argument("--method", default="speculative", help="see below (speculative)")
    add_options(command)


def _add_sweep(commands: Any) -> None:
    help = "Run a grid of configurations over many prompts: rows, a summary, a figure."
    add_sweep_options(_add(commands, "sweep", _sweep, help))


def _add_solve(commands: Any) -> None:
    help = "Find the acceptance rule of highest acceptance within a divergence budget."
    command = _add(commands, "solve", _solve, help)
    for role in ("target", "draft"):
        law = f"the {role}'s probabilities, such as 0.5,0.3,0.2"
        command.add_argument(f"--{role}", required=True, metavar="P,P,...", help=law)
    budget = field_of(MentoredParams, "divergence_budget")
    command.add_argument("--budget", default=str(budget.default), help=budget.metadata["help"])
    names = ", ".join(DIVERGENCES)
    command.add_argument("--divergence", default="kl", metavar="NAME", help=f"{names} (kl)")
    keep = field_of(MentoredParams, "keep_support")
    command.add_argument(
        "--keep-support",
        action=argparse.BooleanOptionalAction,
        default=keep.default,
        help=keep.metadata["help"],
    )


def _add_bench(commands: Any) -> None:
    help = (
        "Measure our loops beside transformers', beams, precisions and the solver on this machine."
    )
    command = _add(commands, "bench", _bench, help)
    add_pair(command)
    parts = ",".join(bench.PARTS)
    command.add_argument("--parts", default=parts, metavar="NAME,...", help=f"some of {parts}")
    command.add_argument("--prompts", metavar="FILE", help="a prompt a line, for the embedded ones")
    command.add_argument("--repeats", default="3", metavar="N", help="timed laps of each (3)")
    command.add_argument(
        "--max-new-tokens", default="64", metavar="N", help="most tokens of a run (64)"
    )


def _lines() -> str:
    """Every method, rule and proposer in one line, as its class words it."""
    tables = {"--method": METHODS, "--verifier": VERIFIERS, "--proposer": PROPOSERS}
    blocks = [
        "\n".join([f"{title}:", *(f"  {name:<14}{cls.line}" for name, cls in table.items())])
        for title, table in tables.items()
    ]
    return "\n\n".join(blocks)


# --- commands -------------------------------------------------------------------------------------


def _pairs(args: argparse.Namespace) -> None:
    if args.json:
        _print_json(to_json(list(PAIRS.values())))
    else:
        print(report.pairs(list(PAIRS.values())))


def _decode(args: argparse.Namespace) -> None:
    params, deadline_s = given(args), _deadline(args)
    check(args.method, params)
    prompt, spec = read_prompt(args), spec_of(args.pair, args.draft)
    pair, loaded = _load(args, spec)
    events = stream(pair, prompt, args.method, raw=args.raw, deadline_s=deadline_s, **params)
    _note(loaded)
    result = _follow(events, show=not args.json)
    if args.json:
        _print_json(result.to_dict())
    _note(report.summary(args.method, result))


def _follow(events: Iterator[Event], show: bool) -> DecodeResult:
    """The result of a run; where `show`, its text is printed as it is decoded, a search's at the
    end, since its best text may still change."""
    num_shown, result = 0, None
    for event in events:
        result = event.result
        if show and event.text is not None and not isinstance(event, BeamEvent):
            print(event.text[num_shown:], end="", flush=True)
            num_shown = max(num_shown, len(event.text))
    assert result is not None
    if show:
        print() if result.text is not None else print(report.text(result))
    return result


def _compare(args: argparse.Namespace) -> None:
    common, deadline_s = given(args), _deadline(args)
    runs, repeats = parse_runs(args.runs or []) or None, number(args.repeats, whole=True)
    spec = spec_of(args.pair, args.draft)
    merged, _ = check_runs(runs, repeats, common, spec.draft is not None)
    check_answer(args.reference_text)
    prompt = read_prompt(args)
    pair, loaded = _load(args, spec)
    others = {"deadline_s": deadline_s, "reference_text": args.reference_text, "raw": args.raw}
    items = compare_stream(pair, prompt, runs, repeats, **others, **common)
    _note(loaded)
    found = _progress(items, len(merged) * repeats)
    if args.json:
        _print_json(found.to_dict())
    else:
        print(report.comparison(found))


def _progress(items: Iterator[tuple[str, Event | Comparison]], total: int) -> Comparison:
    """The comparison, with a note on every run that has ended."""
    count = 0
    for label, item in items:
        if isinstance(item, Comparison):
            return item
        if item.result is not None:
            count += 1
            _note(f"{count}/{total} {report.summary(label, item.result)}")
    raise AssertionError("a comparison ends with its record")


def _sweep(args: argparse.Namespace) -> None:
    request, team = read_request(args), join()
    assert request.spec is not None
    args.device = args.device or team.device
    args.precision = args.precision or recorded_precision(request.out)
    if not team.is_main:
        team.wait()  # until the main process knows the fastest precision
    pair, loaded = _load(args, request.spec)
    if team.is_main:
        team.wait()
        _note(loaded)
    found = follow(sweep(pair, request, team=team), quiet=not team.is_main)
    if found is None:
        return
    for note in found.notes:
        _note(note)
    if args.json:
        _print_json(to_json({**dataclasses.asdict(found.summary), "folder": str(found.folder)}))
    else:
        print(report.sweep(found.summary.records, found.summary.signatures))


def _solve(args: argparse.Namespace) -> None:
    target, draft = numbers("target", args.target), numbers("draft", args.draft)
    budget = number(args.budget)
    if isinstance(budget, str):
        raise fail("budget", budget, "a number of at least 0")
    found = solve(target, draft, budget, args.divergence, args.keep_support)
    if args.json:
        _print_json(found.to_dict())
    else:
        exact = solve(target, draft, 0.0)
        print(report.optimum(found, target, draft, exact.acceptance))


def _bench(args: argparse.Namespace) -> None:
    parts = args.parts.split(",")
    for part in parts:
        lookup(dict.fromkeys(bench.PARTS), part, "parts")
    repeats, tokens = (
        _count(name, text, limit)
        for name, text, limit in (
            ("repeats", args.repeats, 100),
            ("max_new_tokens", args.max_new_tokens, 4096),
        )
    )
    spec = spec_of(args.pair, args.draft)
    pair, loaded = _load(args, spec)
    _note(loaded)
    prompts = read_lines(args.prompts) or bench.prompts_for(spec.name, spec.chat)

    def load(precision: str) -> ModelPair:
        return load_pair(spec, args.device, precision)

    record = bench.run(Bench(pair, load, prompts, tokens, repeats, _note), parts)
    if args.json:
        _print_json(to_json(record))
    else:
        print(report.bench(record))


def _count(name: str, text: str, limit: int) -> int:
    """A whole number from 1 to `limit`, as it was typed."""
    value = number(text, whole=True)
    if not isinstance(value, int) or not 1 <= value <= limit:
        raise fail(name, value, f"a whole number from 1 to {limit}")
    return value


def _deadline(args: argparse.Namespace) -> float | None:
    if args.deadline_s is None:
        return None
    seconds = number(args.deadline_s)
    check_deadline(seconds)
    return float(seconds)


def _load(args: argparse.Namespace, spec: PairSpec) -> tuple[ModelPair, str]:
    """The pair, and a note on it; raises ValueError for anything that is wrong with its files."""
    if sys.stderr.isatty():
        _note(f"loading {spec.name} ...")
    start = time.perf_counter()
    try:
        pair = load_pair(spec, args.device, args.precision)
    except Exception as error:  # a broken file can fail in any way inside three libraries
        reason = first_line(error)
        if isinstance(error, ValueError) and re.match(r"[a-z_]+: ", reason):
            raise  # the library's own message, which names what is wrong
        raise ValueError(f"pair: {spec.name!r} cannot be loaded: {reason}") from error
    seconds = report.three_digits(time.perf_counter() - start)
    return pair, f"{spec.name}: {pair.precision} on {pair.device}, loaded in {seconds} s"
