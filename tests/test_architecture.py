"""The rules of the house (design.md), read from the files and imports themselves."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import playground as pg
from playground.mentored import solve

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "playground"
TOP_LEVEL = {
    "app.py",
    "playground",
    "requirements.txt",
    "tests",
    "assets",
    "README.md",
    "LICENSE",
    "pyproject.toml",
}
PURE = (
    "playground.types",
    "playground.axes",
    "playground.charts",
    "playground.frontier_chart",
    "playground.label_places",
    "playground.lesson_charts",
    "playground.experiment_charts",
    "playground.experiments",
    "playground.metrics",
    "playground.results",
    "playground.tables",
    "playground.lessons",
    "app",
)
BACKEND = {"torch", "transformers"}
OPTIONAL = {"spaces"}  # the one dependency that may be imported where it is used
UI_MAY_IMPORT = {
    "playground.session",
    "playground.compare",
    "playground.traces",
    "playground.faults",
    "playground.memory",
    "playground.machine",
    "playground.arguments",
    "playground.axes",
    "playground.tables",
    "playground.verifiers",
    "playground.proposers",
    "playground.charts",
    "playground.metrics",
    "playground.lessons",
    "playground.lesson_charts",
    "playground.demonstrations",
    "playground.types",
    "playground.params",
    "playground.methods",
    "playground.catalog",
    "playground.mentored",
    "playground.models",  # load_pair only
    "playground.datasets",
    "playground.sweep",
    "playground.results",
    "playground.quality",
    "playground.experiments",
    "playground.experiments.article",
    "playground.experiment_charts",
    "playground.frontier_chart",
}
# Tests of the whole product rather than of one module.
WHOLE_PRODUCT = {"architecture", "api_contract"}
MAX_FILE_LINES, MAX_FUNCTION_LINES = 399, 60


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def sources() -> dict[str, Path]:
    """Every module of the project by its dotted name, app.py included where it exists."""
    paths = [*sorted(PACKAGE.rglob("*.py")), *ROOT.glob("app.py")]
    return {module_name(path): path for path in paths}


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imports_in(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Import statements below a node that run: those for type checkers only are left out."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child
        elif is_type_checking(child):
            assert isinstance(child, ast.If)
            yield from (found for part in child.orelse for found in imports_in(part))
        else:
            yield from imports_in(child)


def names_of(statement: ast.Import | ast.ImportFrom, known: dict[str, Path]) -> list[str]:
    """Modules that a statement names: `from playground import text` is playground.text."""
    if isinstance(statement, ast.Import):
        return [alias.name for alias in statement.names]
    assert statement.level == 0, "no relative imports"
    base = statement.module or ""
    longer = [f"{base}.{alias.name}" for alias in statement.names]
    return [name if name in known else base for name in longer]


def imported(path: Path) -> set[str]:
    known = sources()
    return {name for found in imports_in(tree_of(path)) for name in names_of(found, known)}


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def roots(names: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in names}


def tracked() -> list[str]:
    """Files that git knows or would add; skips the test where there is no git."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs git and a checkout")
    return [name for name in found.stdout.splitlines() if (ROOT / name).exists()]


# --- imports --------------------------------------------------------------------------------------


def test_the_import_graph_has_no_cycle() -> None:
    known = sources()
    graph = {name: imported(path) & set(known) for name, path in known.items()}
    assert graph["playground.session"] >= {"playground.methods", "playground.text"}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail("import cycle: " + " -> ".join(error.args[1]))


def test_pages_charts_and_records_import_no_backend() -> None:
    for name, path in sources().items():
        if name in PURE or name.startswith(("playground.ui", "playground.lessons.")):
            assert not BACKEND & roots(imported(path)), name


def test_types_import_the_standard_library_only() -> None:
    foreign = roots(imported(PACKAGE / "types.py")) - set(sys.stdlib_module_names)
    assert not foreign


def test_charts_do_not_import_gradio() -> None:
    assert "gradio" not in roots(imported(PACKAGE / "charts.py"))


def test_only_the_page_imports_gradio() -> None:
    for name, path in sources().items():
        if "gradio" in roots(imported(path)):
            assert name == "app" or name.startswith("playground.ui"), name


def test_no_imports_inside_functions() -> None:
    for name, path in sources().items():
        for function in functions(path):
            hidden = {m for found in imports_in(function) for m in names_of(found, {})}
            assert roots(hidden) <= OPTIONAL, f"{name}.{function.name} imports {hidden}"


def test_the_page_stays_above_the_session() -> None:
    known = sources()
    for name, path in known.items():
        if not name.startswith("playground.ui"):
            continue
        for statement in imports_in(tree_of(path)):
            for found in names_of(statement, known):
                if not found.startswith("playground") or found.startswith("playground.ui"):
                    continue
                room = re.sub(r"(\.lessons|\.demonstrations|\.sweep)\.\w+$", r"\1", found)
                assert room in UI_MAY_IMPORT, f"{name} imports {found}"
                if found == "playground.models":
                    assert isinstance(statement, ast.ImportFrom)
                    assert {a.name for a in statement.names} == {"load_pair"}, name


def test_only_page_and_command_line_are_above_the_sweep() -> None:
    for name, path in sources().items():
        if "playground.sweep" in imported(path):
            assert name == "playground.cli" or name.startswith("playground.ui"), name


# --- methods are told apart in methods/ only ------------------------------------------------------


def method_comparisons(tree: ast.AST) -> list[str]:
    """Comparisons and matches of something called "...method..." with a method's name."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
        elif isinstance(node, ast.Match):
            sides = [node.subject, *(case.pattern for case in node.cases)]
        else:
            continue
        if any(map(holds_method_name, sides)) and any(map(speaks_of_method, sides)):
            found.append(ast.unparse(node).splitlines()[0])
    return found


def holds_method_name(node: ast.AST) -> bool:
    """Whether it is the name of a method, or a display that lists one."""
    constants = (part.value for part in ast.walk(node) if isinstance(part, ast.Constant))
    plain = (ast.Constant, ast.Tuple, ast.List, ast.Set, ast.pattern)
    return isinstance(node, plain) and any(
        isinstance(value, str) and value in pg.METHODS for value in constants
    )


def speaks_of_method(node: ast.AST) -> bool:
    return not isinstance(node, (ast.Constant, ast.pattern)) and "method" in ast.unparse(node)


@pytest.mark.parametrize(
    ("code", "caught"),
    [
        ('if method == "beam": pass', True),
        ('if "greedy" != self.method_name: pass', True),
        ('x = 1 if run["method"] in ("beam", "exact") else 2', True),
        ('match plan.method:\n case "sample": pass', True),
        ('if method == "unheard_of": pass', False),
        ('if rule == "exact": pass', False),
        ('run = {"method": "beam"}', False),
    ],
)
def test_the_check_for_method_names_works(code: str, caught: bool) -> None:
    assert bool(method_comparisons(ast.parse(code))) == caught


def test_methods_are_told_apart_only_in_methods() -> None:
    for name, path in sources().items():
        if not name.startswith("playground.methods"):
            assert method_comparisons(tree_of(path)) == [], name


# --- names and files ------------------------------------------------------------------------------


def test_public_names_exist() -> None:
    expected = {"PAIRS", "load_pair", "ModelPair", "METHODS", "VERIFIERS", "PROPOSERS"}
    assert expected | {"decode", "stream", "compare"} <= set(pg.__all__)
    for name in pg.__all__:
        assert hasattr(pg, name), name
    assert all(map(callable, (pg.load_pair, pg.decode, pg.stream, pg.compare, solve)))


def test_the_package_root_holds_only_the_public_names() -> None:
    kinds = {type(node) for node in tree_of(PACKAGE / "__init__.py").body}
    assert kinds <= {ast.Expr, ast.ImportFrom, ast.Assign}


def test_the_top_level_holds_nothing_else() -> None:
    top = {name.partition("/")[0] for name in tracked()}
    assert {name for name in top if not name.startswith(".")} <= TOP_LEVEL


def test_files_and_functions_are_short() -> None:
    long = []
    for path in sources().values():
        shown = path.relative_to(ROOT)
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > MAX_FILE_LINES:
            long.append(f"{shown}: {lines} lines")
        for function in functions(path):
            length = (function.end_lineno or 0) - function.lineno + 1
            if length > MAX_FUNCTION_LINES:
                long.append(f"{shown}: {function.name} has {length} lines")
    assert long == []


def test_every_test_file_mirrors_a_module() -> None:
    """tests/test_text.py is about playground/text.py, tests/methods/test_beam_search.py about
    playground/methods/beam_search.py; a word may follow: test_text_streams.py."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        folder = path.parent.relative_to(ROOT / "tests")
        topic = path.stem.removeprefix("test_")
        if folder.parts[:1] == ("load",) or topic in WHOLE_PRODUCT:
            continue
        words = topic.split("_")
        stems = ["_".join(words[:count]) for count in range(1, len(words) + 1)]
        homes = [PACKAGE / folder, *([ROOT] if folder == Path() else [])]
        modules = [home / f"{stem}.py" for home in homes for stem in stems]
        packages = [PACKAGE / folder / stem / "__init__.py" for stem in stems]
        assert any(p.exists() for p in (*modules, *packages)), path.relative_to(ROOT)


def test_every_requirement_is_pinned_and_the_card_names_the_same_gradio() -> None:
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line.strip() and not line.startswith("#")]
    assert [pin for pin in pins if not re.fullmatch(r"[\w.-]+==\d[\w.]*", pin)] == []
    card = (ROOT / "README.md").read_text(encoding="utf-8").split("---")[1]
    assert f"sdk_version: {dict(pin.split('==') for pin in pins)['gradio']}\n" in card
    assert "sdk: gradio\n" in card and not (ROOT / "Dockerfile").exists()


# --- the tree in README ---------------------------------------------------------------------------


def readme_tree(text: str) -> str:
    """The first fenced block under a heading that says "Tree"; "" where there is none."""
    heading = re.search(r"^#+ .*\btree\b.*$", text, re.IGNORECASE | re.MULTILINE)
    rest = text[heading.end() :] if heading else ""
    section = re.split(r"^#{1,6} ", rest, maxsplit=1, flags=re.MULTILINE)[0]
    fence = re.search(r"^```[^\n]*\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    return fence[1] if fence else ""


def listed_files(tree: str) -> set[str]:
    """Paths of the files in an indented (or box-drawn) tree; what follows a name is a remark."""
    found, above = set(), []
    for line in tree.splitlines():
        match = re.match(r"([\s│├└─|`-]*)([\w.-]+(?:/[\w.-]+)*(?:\.\w+|/)|LICENSE)(?=\s|$)", line)
        if not match:
            continue
        indent, name = len(match[1]), match[2]
        above = [(depth, folder) for depth, folder in above if depth < indent]
        full = "".join(folder for _, folder in above) + name
        if name.endswith("/"):
            above.append((indent, name))
        else:
            found.add(full)
    return found


@pytest.mark.parametrize(
    "tree",
    [
        "app.py  the page\nplayground/\n  text.py   ids <-> text\n  ui/  never torch\n    a.py\n",
        "app.py\nplayground/\n├── text.py  # ids\n│            and more\n└── ui/\n    └── a.py\n",
        "app.py\nplayground/text.py  ids\nplayground/ui/\n  a.py\n",
    ],
)
def test_the_tree_reader_works(tree: str) -> None:
    section = f"# X\n## The tree\nwords\n```\n{tree}```\n## Next\n```\nother/\n```\n"
    expected = {"app.py", "playground/text.py", "playground/ui/a.py"}
    assert listed_files(readme_tree(section)) == expected


def test_the_tree_in_readme_lists_the_files() -> None:
    readme = ROOT / "README.md"
    if not readme.exists():
        pytest.skip("README.md is not written yet")
    listed = listed_files(readme_tree(readme.read_text(encoding="utf-8")))
    files = {p for p in PACKAGE.rglob("*") if p.is_file() and "__pycache__" not in p.parts}
    actual = {p.relative_to(ROOT).as_posix() for p in files}
    assert {name for name in listed if name.startswith("playground/")} == actual
