from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from playground import lesson_charts
from playground.arguments import parameters
from playground.charts import WORDS
from playground.methods import METHODS
from playground.proposers import PROPOSERS
from playground.ui.runs import HIDDEN
from playground.ui.strings import LANGUAGES, Words
from playground.verifiers import VERIFIERS

EN, ZH = LANGUAGES["en"], LANGUAGES["zh"]
UI = Path(__file__).resolve().parents[2] / "playground" / "ui"


def holes(text: str) -> set[str]:
    return set(re.findall(r"\{(\w+)", text))


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_string_is_missing(language: str) -> None:
    assert sorted(set(EN) - set(LANGUAGES[language])) == []


def test_translations_have_the_same_placeholders() -> None:
    assert [key for key in EN if holes(EN[key]) != holes(ZH[key])] == []


def test_what_the_library_names_has_a_chinese_name() -> None:
    wanted = [f"{kind}.{name}" for name in METHODS for kind in ("name", "method")]
    wanted += [f"{kind}.{name}" for name in VERIFIERS for kind in ("verifier", "rule")]
    wanted += [f"proposer.{name}" for name in PROPOSERS]
    wanted += [f"chart.{name}" for name in WORDS]
    wanted += [f"figure.{name}" for name in lesson_charts.WORDS]
    for name in parameters():
        if name not in HIDDEN and name != "stop":
            wanted += [f"param.{name}", f"param.{name}.help"]
    assert [key for key in wanted if key not in ZH] == []


def test_no_chinese_string_names_nothing() -> None:
    """Left-overs of renamed parameters, rules and strings."""
    tables = ("name.", "method.", "verifier.", "rule.", "proposer.", "chart.", "param.")
    found = [key for key in ZH if key not in EN and not key.startswith((*tables, "example."))]
    drawn = {f"figure.{name}" for name in lesson_charts.WORDS}
    assert [k for k in found if not k.startswith(("trace.", "pair.")) and k not in drawn] == []
    names = {*METHODS, *VERIFIERS, *PROPOSERS, *WORDS, *parameters()}
    named = [key.split(".") for key in ZH if key.startswith(tables)]
    assert [".".join(parts) for parts in named if parts[1] not in names] == []


def test_every_string_is_used() -> None:
    """Whole ids as they stand in the code, or one that the code puts together from a prefix."""
    code = "".join(p.read_text("utf-8") for p in UI.rglob("*.py") if p.parent.name != "strings")
    words = set(re.findall(r"[\"']([\w.]+)[\"']", code))
    built = set(re.findall(r"f[\"']([a-z_.]+\.)\{", code)) | {w for w in words if w.endswith(".")}
    built |= {f"{key}." for key in re.findall(r"predict\(\s*say,\s*[\"']([\w.]+)", code)}
    unused = [key for key in EN if key not in words and not key.startswith(tuple(built))]
    assert unused == []


def test_no_visible_text_is_written_in_the_code() -> None:
    """Labels and buttons take their words from the strings."""
    for path in UI.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.keyword) and node.arg in ("label", "info", "placeholder"):
                assert not isinstance(node.value, ast.Constant) or not node.value.value, path


def test_words_fill_in_their_values() -> None:
    assert Words("zh")("card.tokens", count=3) == "3 个词元"
    assert Words("zh").known("param.temperature", "Temperature") == "温度"
    assert Words("en").known("param.temperature", "Temperature") == "Temperature"
