"""What is typed on the command line: options from the parameter dataclasses, and their values.

Text that is no value of its parameter's type is passed on as text, so that the one check of the
library refuses it: every front door gives the same message.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import Field, dataclass, field
from pathlib import Path
from typing import Any

from playground.methods import METHODS, fields_of
from playground.params import allowed, fail

_DEST = "parameter "  # keeps parameters apart from the command's own options


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of one or more methods: its dataclass field, and its default by owner, such as
    "beam" or "speculative --verifier typical"."""

    source: Field[Any]
    defaults: dict[str, Any] = field(default_factory=dict)

    @property
    def owners(self) -> str:
        """Who has it, in words."""
        return "every method" if set(METHODS) <= set(self.defaults) else ", ".join(self.defaults)

    @property
    def help(self) -> str:
        """Label, help, allowed values and default, for --help."""
        label = self.source.metadata.get("label")
        facts = [*_range(self.source), *self._defaults()]
        text = f"{label}. " if label else ""
        return (text + self.source.metadata["help"] + f" ({'; '.join(facts)})").replace("%", "%%")

    def _defaults(self) -> list[str]:
        first = next(iter(self.defaults.values()))
        others = [f"{o}: {_shown(v)}" for o, v in self.defaults.items() if v != first]
        return [f"default {_shown(first)}", *others]


def parameters() -> dict[str, Parameter]:
    """Every parameter that any method can have, by name."""
    found: dict[str, Parameter] = {}
    for method in METHODS:
        for owner, f in _owned_fields(method):
            found.setdefault(f.name, Parameter(f)).defaults[owner] = f.default
    return found


def _owned_fields(method: str) -> Iterator[tuple[str, Field[Any]]]:
    """The method's fields, and those that a choice of its own (rule, proposer) brings in."""
    own = {f.name: f for f in fields_of(method, {})}
    for f in own.values():
        yield method, f
    for chooser in own.values():
        for choice in chooser.metadata.get("choices") or ():
            for f in fields_of(method, {chooser.name: choice}):
                if f.name not in own:
                    yield f"{method} {_flag(chooser.name)} {choice}", f


def add_options(parser: argparse.ArgumentParser) -> None:
    """One option for every parameter, grouped by who has it. What is not given stays away."""
    groups: dict[str, Any] = {}
    for name, parameter in parameters().items():
        owners = parameter.owners
        if owners not in groups:
            groups[owners] = parser.add_argument_group(f"settings of {owners}")
        groups[owners].add_argument(
            _flag(name),
            dest=_DEST + name,
            default=argparse.SUPPRESS,
            help=parameter.help,
            **_shape(parameter.source),
        )


def given(args: argparse.Namespace) -> dict[str, Any]:
    """The parameters that were given, in their own types."""
    known = parameters()
    typed = {
        key.removeprefix(_DEST): text for key, text in vars(args).items() if key.startswith(_DEST)
    }
    return {name: value_of(known[name].source, text) for name, text in typed.items()}


def value_of(f: Field[Any], text: Any) -> Any:
    """What was typed for a field (text, a list of texts, or a bool) as a value of its type."""
    if isinstance(text, bool):
        return text
    if _item(f) == "int":
        return token_ids(f.name, text.split() if isinstance(text, str) else text)
    if _item(f) == "str":
        return [text] if isinstance(text, str) else list(text)
    if f.default is None and text == "none":
        return None
    if f.metadata["kind"] in ("bool", "choice"):
        choices = f.metadata.get("choices") or (True, False)
        return {_shown(choice): choice for choice in choices}.get(text, text)
    if f.metadata["kind"] in ("int", "float"):
        return number(text, whole=f.metadata["kind"] == "int")
    return text


def number(text: str, *, whole: bool = False) -> Any:
    """The number that a text is, an int where it can be and `whole` asks for one; else the text."""
    for kind in (int, float) if whole else (float,):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def token_ids(name: str, texts: Sequence[str]) -> list[int]:
    """Token ids; raises ValueError naming `name` for what cannot be one in any vocabulary."""
    for text in texts:
        if not re.fullmatch(r"[0-9]{1,18}", text):
            raise fail(name, text, "token ids: whole numbers of at least 0")
    return [int(text) for text in texts]


def numbers(name: str, text: str) -> list[float]:
    """Numbers between commas; raises ValueError naming `name`."""
    found = [number(part) for part in text.split(",")]
    if any(isinstance(value, str) for value in found):
        raise fail(name, text, "numbers with commas between them, such as 0.5,0.3,0.2")
    return found


def parse_runs(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Runs of a comparison from texts 'label=method,key=value,key=value'; the label may be left
    out, and a comma that is part of a label or value is written as \\, ."""
    runs: dict[str, dict[str, Any]] = {}
    for text in texts:
        label, run = _run(text)
        if label in runs:
            raise fail("run", label, "a label of its own for every run")
        runs[label] = run
    return runs


def _run(text: str) -> tuple[str, dict[str, Any]]:
    head, *settings = (part.replace("\\,", ",") for part in re.split(r"(?<!\\),", text))
    label, _, method = head.rpartition("=")
    run: dict[str, Any] = {"method": method.strip()}
    known = parameters()
    for setting in settings:
        key, equals, typed = setting.partition("=")
        name = key.strip().replace("-", "_")
        if not equals:
            raise fail("run", setting, "key=value after 'label=method', with commas between them")
        value = value_of(known[name].source, typed) if name in known else typed
        if name not in run:
            run[name] = value
        elif name in known and _item(known[name].source):
            run[name] = run[name] + value
        else:
            raise fail("run", setting, f"{name} once in a run")
    return label.strip() or method.strip(), run


def add_input(command: Any) -> None:
    """The options of the prompt and the pair."""
    prompt = command.add_mutually_exclusive_group(required=True)
    prompt.add_argument("--prompt", metavar="TEXT", help="the prompt; - reads stdin")
    prompt.add_argument("--prompt-file", metavar="FILE", help="a UTF-8 file; - reads stdin")
    prompt.add_argument("--ids", nargs="+", metavar="ID", help="token ids, used as they are")
    command.add_argument("--raw", action="store_true", help="leave out the chat template")
    add_pair(command)
    command.add_argument("--deadline-s", metavar="S", help="seconds after which a run ends")


def add_pair(command: Any) -> None:
    """The options of the pair, and of where and in what it runs."""
    command.add_argument("--pair", default="chat", help="name, folder or Hub id (chat)")
    command.add_argument("--draft", help="folder or Hub id of a draft model for --pair")
    command.add_argument("--device", help="cpu, cuda, ...; auto: over all GPUs (one)")
    command.add_argument("--precision", help="fp32, bf16, int8 (the fastest here)")


def read_prompt(args: argparse.Namespace) -> str | list[int]:
    """The prompt of --prompt, --prompt-file or --ids; "-" stands for stdin."""
    if args.ids is not None:
        return token_ids("ids", args.ids)
    from_file = args.prompt_file is not None or args.prompt == "-"
    text = _read(args.prompt_file or "-") if from_file else str(args.prompt)
    if not text.strip():
        raise fail("prompt", text, "a text with at least one character that is not blank")
    return text


def read_lines(source: str | None) -> list[str]:
    """The lines of a UTF-8 file that are not blank; none without a file."""
    return [line for line in _read(source).splitlines() if line.strip()] if source else []


def _read(source: str) -> str:
    """A UTF-8 file, or stdin; its last line break belongs to the file, not to the prompt."""
    try:
        data = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
        return re.sub(r"\r?\n\Z", "", data.decode("utf-8-sig"))
    except OSError as error:
        raise fail("prompt_file", source, f"a file that can be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise fail("prompt_file", source, "a text in UTF-8") from error


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _item(f: Field[Any]) -> str | None:
    """What a list-valued field holds: "int" or "str"; None for any other field."""
    found = re.search(r"list\[(int|str)\]", str(f.type))
    return found[1] if found else None


def _shape(f: Field[Any]) -> dict[str, Any]:
    """How argparse reads a field."""
    if f.metadata["kind"] == "bool":
        return {"action": argparse.BooleanOptionalAction}
    if _item(f) == "int":
        return {"nargs": "*", "metavar": "ID"}
    if _item(f) == "str":
        return {"action": "append", "metavar": "TEXT"}
    if f.metadata["kind"] == "choice":
        return {"metavar": "NAME"}
    return {"metavar": "N" if f.metadata["kind"] == "int" else "X"}


def _range(f: Field[Any]) -> list[str]:
    """The allowed values in words, where the field's help does not say them already."""
    if f.metadata.get("choices"):
        return [", ".join(map(_shown, f.metadata["choices"]))]
    return [allowed(f)] if f.metadata["kind"] in ("int", "float") else []


def _shown(value: Any) -> str:
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)
