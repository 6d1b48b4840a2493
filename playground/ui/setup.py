"""The whole setup of the page as one record, and as the query string of a link.

A link is readable and uses the command line's own syntax:
`?prompt=...&pair=chat&max_new_tokens=64&temperature=0.7&runs=D0.5=mentored,divergence_budget=0.5`,
with `runs` once for every run.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl, urlencode

from playground.arguments import number, parameters, parse_runs, value_of
from playground.axes import X_AXES, Y_AXES
from playground.catalog import has_draft, page_pairs
from playground.compare import DEFAULT_COMMON, default_runs
from playground.methods import parse
from playground.params import check, fail, lookup
from playground.results import shipped
from playground.types import to_json
from playground.ui.examples import examples_of

TABS = ("compare", "frontier", "lab", "learn", "about")
LESSONS = (
    "tree",
    "step",
    "stopping",
    "length",
    "cost",
    "width",
    "repetition",
    "speculative",
    "mentored",
    "tasks",
)
PAGE_ONLY = ("lang", "embed", "run")  # for the page's script; nothing of a setup
MAX_REPEATS = 10
_MAX_QUERY, _MAX_RUNS = 100_000, 20


@dataclass(frozen=True, slots=True)
class Setup:
    """What a visitor has chosen. runs: {label: {"method": name, **settings}}, those that run;
    common: settings that go to every run that has them; baseline: "" for the comparison's own;
    reference: a right answer to score texts by, "" for none; result: of the Frontier tab, "" for
    its first."""

    prompt: str = next(iter(examples_of("chat").values()))
    pair: str = "chat"
    runs: dict[str, dict[str, Any]] = field(default_factory=lambda: default_runs("chat"))
    common: dict[str, Any] = field(default_factory=lambda: dict(DEFAULT_COMMON))
    repeats: int = 1
    raw: bool = False
    reference: str = ""
    baseline: str = ""
    tab: str = TABS[0]
    x: str = "tokens_per_s"
    y: str = "fidelity"
    lesson: str = LESSONS[0]
    result: str = ""


START = Setup()


def fresh(pair: str) -> Setup:
    """What a page that starts with this pair shows before anything was chosen."""
    return Setup(pair=pair, runs=default_runs(pair, has_draft(pair)))


def to_query(setup: Setup, language: str) -> str:
    """The setup as a query string without its question mark."""
    pairs = [("lang", language), ("prompt", setup.prompt), ("pair", setup.pair)]
    known = parameters()
    for name, value in setup.common.items():
        if name in DEFAULT_COMMON or value != known[name].source.default:
            pairs += [(name, text) for text in _texts(value)]
    pairs += [("runs", _run_text(label, run)) for label, run in setup.runs.items()]
    for name in ("repeats", "raw", "reference", "baseline", "tab", "x", "y", "lesson", "result"):
        value = getattr(setup, name)
        if value != getattr(START, name):
            pairs.append((name, _texts(value)[0]))
    return urlencode(pairs)


def to_record(setup: Setup) -> dict[str, Any]:
    """The setup as plain JSON values, for a trace file."""
    return to_json(asdict(setup))  # type: ignore[no-any-return]


def from_record(record: dict[str, Any], prompt: str | None) -> Setup:
    """The setup of a trace file; a fresh one with its prompt where the record is none."""
    start = Setup(prompt=prompt or "")
    try:
        given = {name: value for name, value in record.items() if name in asdict(start)}
        return from_query(to_query(replace(start, **given), ""))
    except (AttributeError, KeyError, TypeError, ValueError):
        return start


def from_query(query: str, pair: str = "chat") -> Setup:
    """The setup that a query string asks for; what it does not say is as on a fresh page, whose
    pair is `pair`. Raises ValueError naming the part that cannot be read."""
    if len(query) > _MAX_QUERY:
        raise fail("link", f"{len(query)} characters", f"at most {_MAX_QUERY}")
    try:
        found = parse_qsl(query.removeprefix("?"), keep_blank_values=True, errors="strict")
    except UnicodeDecodeError as error:
        raise fail("link", "bytes that are no text", "text in UTF-8") from error
    given: dict[str, list[str]] = {}
    for name, text in found:
        if name not in PAGE_ONLY and not name.startswith("__"):
            given.setdefault(name, []).append(text)
    if len(given.get("runs", ())) > _MAX_RUNS:
        raise fail("runs", f"{len(given['runs'])} runs", f"at most {_MAX_RUNS}")
    runs = parse_runs(given.pop("runs", []))
    for run in runs.values():
        parse(run["method"], {name: value for name, value in run.items() if name != "method"})
    own = {name: _own(name, texts[-1]) for name, texts in given.items() if name in _OWN}
    common = {name: _common(name, texts) for name, texts in given.items() if name not in _OWN}
    if runs:
        own["runs"] = runs
    return replace(fresh(own.pop("pair", pair)), **own, common=DEFAULT_COMMON | common)


def _own(name: str, text: str) -> Any:
    """The value of one of the page's own settings."""
    if name in ("prompt", "reference", "baseline"):
        return text
    if name == "repeats":
        repeats = number(text, whole=True)
        if repeats not in range(1, MAX_REPEATS + 1):
            raise fail(name, text, f"a whole number from 1 to {MAX_REPEATS}")
        return repeats
    allowed: dict[str, dict[str, Any]] = {
        "pair": {spec.name: spec.name for spec in page_pairs()},
        "raw": {"true": True, "false": False},
        "tab": dict.fromkeys(TABS),
        "lesson": dict.fromkeys(LESSONS),
        "result": dict.fromkeys(shipped()),
        "x": dict(X_AXES),
        "y": dict(Y_AXES),
    }
    found = lookup(allowed[name], text, name)
    return found if name == "raw" else text


_OWN = {
    "prompt",
    "pair",
    "repeats",
    "raw",
    "reference",
    "baseline",
    "tab",
    "x",
    "y",
    "lesson",
    "result",
}


def _common(name: str, texts: list[str]) -> Any:
    """The value of a parameter that goes to every run that has it."""
    known = parameters()
    if name not in known:
        raise fail("link", name, "the names of settings, as `python -m playground --help` has them")
    source = known[name].source
    return check(source, value_of(source, texts if name == "stop" else texts[-1]))


def _run_text(label: str, run: dict[str, Any]) -> str:
    """ "label=method,key=value": what `parse_runs` reads."""
    parts = [f"{label}={run['method']}"]
    for name, value in run.items():
        if name != "method":
            parts += [f"{name}={text}" for text in _texts(value)]
    return ",".join(part.replace(",", "\\,") for part in parts)


def _texts(value: Any) -> list[str]:
    """A value as it is typed; one text for each item of a list."""
    if isinstance(value, (list, tuple)):
        return [text for item in value for text in _texts(item)]
    if value is None or isinstance(value, bool):
        return [str(value).lower()]
    return [f"{value:g}" if isinstance(value, float) and value.is_integer() else str(value)]
