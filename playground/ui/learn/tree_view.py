"""Lesson 1 as pure functions: the tree as SVG, the table of its paths, what the searches found."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape

from playground.demonstrations.searches import TreeSearch
from playground.lessons.tree import FIRST, SECOND, Fault, Path, Tree
from playground.ui.learn.parts import prose_html, table_html
from playground.ui.numbers import decimals
from playground.ui.strings import Words

_WIDTH, _HEIGHT = 400, 318
_COLUMNS = (14, 124, 254)  # of the root, the first and the second tokens
_LEAF, _ROW, _GROUP = 22, 31, 12  # the first leaf, from leaf to leaf, between groups
_RADIUS = 11
Point = tuple[float, float]
Searches = tuple[TreeSearch, ...]  # greedy and a beam; none where nobody has searched yet


def product(tree: Tree, path: Path) -> str:
    """How a path's probability comes about: "0.4 × 0.9", which no line breaks."""
    steps = [tree.law(path.ids[:i])[token] for i, token in enumerate(path.ids)]
    return "\u00a0×\u00a0".join(f"{step:.3g}" for step in steps)


def marks(path: Path, tree: Tree, searches: Searches) -> list[str]:
    """What a path is: "greedy", "beam", "best", none or more of them; nothing before a search."""
    found = dict(zip(("greedy", "beam"), (search.path.ids for search in searches), strict=False))
    if searches:
        found["best"] = tree.paths()[0].ids
    return [name for name, ids in found.items() if ids == path.ids]


def fault_text(fault: Fault, say: Words) -> str:
    """What is wrong with the numbers typed, in one line."""
    where = say("lose.after", name=FIRST[fault.row - 1]) if fault.row else say("lose.first")
    if fault.column is None:
        return say("lose.fault.sum", where=where, total=f"{fault.value:.4g}")
    name = (SECOND if fault.row else FIRST)[fault.column]
    value = say("lose.nothing") if fault.value is None else str(fault.value)
    return say("lose.fault.number", where=where, name=name, value=value)


# --- words and table ------------------------------------------------------------------------------


def verdict_html(tree: Tree, greedy: TreeSearch, beam: TreeSearch, say: Words) -> str:
    """Which text each search finds, and whether it is the best of all."""

    def told(path: Path) -> dict[str, str]:
        return {"name": path.name, "product": product(tree, path), "joint": decimals(path.joint)}

    best, won = tree.paths()[0], beam.path.joint
    ratio = won / greedy.path.joint if greedy.path.joint else math.inf
    same = "lose.same" if ratio < 1.0005 else "lose.times"
    than = say(same, ratio=f"{ratio:.3g}" if math.isfinite(ratio) else "∞")
    lines = [
        say("lose.greedy", **told(greedy.path)),
        say("lose.beam", width=beam.width, than=than, **told(beam.path)),
        say("lose.best" if best.joint <= won * (1 + 1e-9) else "lose.missed", **told(best)),
    ]
    return f'<div class="dp-prose dp-verdict">{"".join(map(prose_html, lines))}</div>'


def paths_html(tree: Tree, greedy: TreeSearch, beam: TreeSearch, say: Words) -> str:
    """All nine texts, the most probable one first."""
    rows, marked = [], []
    for index, path in enumerate(tree.paths()):
        found = marks(path, tree, (greedy, beam))
        names = " · ".join(say(f"lose.mark.{name}") for name in found)
        calculation = product(tree, path)
        rows.append([path.name, calculation, decimals(path.joint), decimals(path.logprob), names])
        if found:
            marked.append(index)
    head = [say(f"lose.head.{name}") for name in ("text", "product", "joint", "logprob", "found")]
    return table_html(head, rows, marked=marked)


# --- the tree -------------------------------------------------------------------------------------


def tree_html(tree: Tree, searches: Searches, say: Words) -> str:
    """The tree, with the paths of greedy and beam and what their lines mean, once they searched."""
    summary = say("lose.figure")
    legend = ""
    if searches:
        greedy, beam = (search.path.name for search in searches)
        summary += " " + say("lose.figure.found", greedy=greedy, beam=beam)
        legend = "".join(
            f'<span class="dp-path-key dp-{kind}-key">{escape(say(f"lose.key.{kind}"))}</span>'
            for kind in ("greedy", "beam", "best", "unseen")
        )
    body = "".join(_parts(tree, searches, say))
    return (
        f'<figure class="dp-two-steps"><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{escape(summary)}">{body}</svg><figcaption>{legend}</figcaption></figure>'
    )


def _parts(tree: Tree, searches: Searches, say: Words) -> Iterator[str]:
    """Edges below, then nodes and texts."""
    seen = _looked_at(searches)
    paths = sorted(tree.paths(), key=lambda path: path.ids)
    nodes = [(first,) for first in range(len(FIRST))] + [path.ids for path in paths]
    for ids in nodes:
        yield _edge(ids, searches, len(ids) == 1 or ids[0] in seen)
    yield f'<circle class="dp-root" cx="{_COLUMNS[0]}" cy="{_place(())[1]}" r="4"/>'
    for ids in nodes:
        yield _node(ids, tree.law(ids[:-1])[ids[-1]], ids[0] in seen)
    for path in paths if searches else ():
        yield _leaf(path, marks(path, tree, searches), path.ids[0] in seen, say)


def _looked_at(searches: Searches) -> set[int]:
    """The first tokens that a search went on from; all before a search."""
    if not searches:
        return set(range(len(FIRST)))
    greedy, beam = searches
    kept = {c.token_id for c in beam.result.steps[0].candidates if c.row is not None}
    return kept | {greedy.path.ids[0]}


def _place(ids: tuple[int, ...]) -> Point:
    """Where a node stands: a parent at the height of its middle child."""
    first, second = (*ids, 1, 1)[:2]
    row = len(SECOND) * first + second
    return _COLUMNS[len(ids)], _LEAF + _ROW * row + _GROUP * first


def _edge(ids: tuple[int, ...], searches: Searches, seen: bool) -> str:
    """The line from a node's parent, once more for each search that took it."""
    (x0, y0), (x1, y1) = _place(ids[:-1]), _place(ids)
    middle = (x0 + x1) / 2
    line = f"M{x0},{y0}C{middle:g},{y0} {middle:g},{y1} {x1},{y1}"
    kinds = ["seen" if seen else "unseen"]
    for kind, search in zip(("greedy", "beam"), searches, strict=False):
        if search.path.ids[: len(ids)] == ids:
            kinds.append(kind)
    return "".join(f'<path class="dp-{kind}" d="{line}"/>' for kind in kinds)


def _node(ids: tuple[int, ...], prob: float, seen: bool) -> str:
    """A token, and its probability at the line that leads to it: over it, or under the lowest."""
    x, y = _place(ids)
    beside = y + 14 if ids[-1] == len(SECOND) - 1 else y - 5
    name = escape((FIRST, SECOND)[len(ids) - 1][ids[-1]])
    kind = "seen" if seen else "unseen"
    return (
        f'<g class="dp-{kind}"><circle cx="{x}" cy="{y}" r="{_RADIUS}"/>'
        f'<text class="dp-name" x="{x}" y="{y + 4.5}">{name}</text>'
        f'<text class="dp-prob" x="{x - _RADIUS - 6}" y="{beside}">{prob:.3g}</text></g>'
    )


def _leaf(path: Path, found: list[str], seen: bool, say: Words) -> str:
    """A text's joint probability, and who found it."""
    x, y = _place(path.ids)
    kind = "seen" if seen else "unseen"
    signs = " ".join(say(f"lose.sign.{name}") for name in found)
    weight = " dp-found" if found else ""
    return (
        f'<text class="dp-joint dp-{kind}{weight}" x="{x + _RADIUS + 8}" y="{y + 4.5}">'
        f"{decimals(path.joint)}"
        f'<tspan class="dp-sign" dx="8">{escape(signs)}</tspan></text>'
    )
