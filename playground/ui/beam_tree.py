"""The tree of a beam search as inline SVG: steps from left to right, candidates from best to worst.

Server-made and complete without a script; assets/js/beam_tree.js adds the step slider, the keys
and the words on a candidate. Every outside string is escaped once, here.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from playground.types import Beam, Candidate, DecodeResult, SearchStep
from playground.ui.strings import Words

FEW = 2  # pruned candidates of a step that are shown at once
MAX_STEPS = 200  # drawn: a wider picture helps nobody
_LABEL = 8  # half-width characters of a token
_CHARACTER, _PADDING, _NARROWEST = 7.4, 12, 34
_GAP, _LANE, _BOX, _TOP = 22, 26, 20, 24  # pixels between columns, of a lane, of a box, above


@dataclass(slots=True)
class _Node:
    """One candidate in the picture; `parent` is the number of another one, None for the prompt."""

    candidate: Candidate
    step: int
    lane: int
    parent: int | None
    more: bool  # beyond the best few of the pruned ones
    wins: bool = False
    is_end: bool = False  # of the best beam


def beam_tree_html(result: DecodeResult, say: Words) -> str:
    """The search tree of a finished run, its controls, and the beams that it returned."""
    steps = result.steps[:MAX_STEPS]
    if not steps:
        return f'<p class="dp-tree-none">{escape(say("tree.none"))}</p>'
    columns = _columns(steps)
    nodes = [node for column in columns for node in column]
    paths = [_path(beam.token_ids, columns) for beam in result.beams]
    for place, number in enumerate(paths[0] if paths else [], 1):
        nodes[number].wins, nodes[number].is_end = True, place == result.beams[0].length
    words = {name: say(f"tree.{name}") for name in ("kept", "finished", "pruned")}
    words["tip"] = say("tree.tip", **{k: f"{{{k}}}" for k in ("state", "step", "sum", "score")})
    data = "".join(f' data-{name}="{escape(word)}"' for name, word in words.items())
    return (
        f'<section class="dp-tree"{data}>{_bar(len(steps), say)}'
        f'<p class="dp-tree-note" role="status"><span></span><span>{escape(say("tree.hint"))}'
        f"</span></p>{_picture(steps, columns, say)}{_legend(say)}"
        f"{_cut(result, say)}{_beams(result.beams, paths, say)}</section>"
    )


def _columns(steps: Sequence[SearchStep]) -> list[list[_Node]]:
    """The nodes of every step, kept ones first; the pruned lanes begin below the longest column."""
    lanes = max(sum(c.kept for c in step.candidates) for step in steps)
    columns: list[list[_Node]] = []
    parents: dict[int, int | None] = {0: None}
    number = 0
    for place, step in enumerate(steps):
        kept = [c for c in step.candidates if c.kept]
        pruned = sorted((c for c in step.candidates if not c.kept), key=lambda c: -c.sum_logprob)
        column = [_Node(c, place, i, parents[c.parent], False) for i, c in enumerate(kept)]
        column += [
            _Node(c, place, lanes + i, parents[c.parent], i >= FEW) for i, c in enumerate(pruned)
        ]
        parents = {c.row: number + i for i, c in enumerate(kept) if c.row is not None}
        number += len(column)
        columns.append(column)
    return columns


def _path(ids: Sequence[int], columns: Sequence[Sequence[_Node]]) -> list[int]:
    """Numbers of the nodes of a sequence, first to last; [] where the tree does not hold it.

    Two groups of a diverse search may have chosen the same tokens: any of the ways will do.
    """
    reached: list[list[tuple[int, _Node]]] = []
    before: set[int | None] = {None}
    start = 0
    for token, column in zip(ids, columns, strict=False):
        numbered = enumerate(column, start)
        found = [
            (n, x) for n, x in numbered if x.parent in before and x.candidate.token_id == token
        ]
        reached.append(found)
        before = {n for n, _ in found}
        start += len(column)
    path: list[int] = []
    wanted: int | None = None
    for found in reversed(reached):
        match = next(((n, x) for n, x in found if wanted is None or n == wanted), None)
        if match is None:
            return []
        path.append(match[0])
        wanted = match[1].parent
    return path[::-1]


def _bar(count: int, say: Words) -> str:
    """The slider that reveals step by step, and the switch for pruned candidates."""
    return (
        f'<div class="dp-tree-bar"><label>{escape(say("tree.step"))} <input type="range" min="1" '
        f'max="{count}" value="{count}"></label><output>{count} / {count}</output>'
        f'<label class="dp-tree-all"><input type="checkbox"> {escape(say("tree.all"))}</label>'
        "</div>"
    )


def _picture(steps: Sequence[SearchStep], columns: Sequence[Sequence[_Node]], say: Words) -> str:
    nodes = [node for column in columns for node in column]
    prompt = say("tree.prompt")
    width = _box_width([_label(node.candidate) for node in nodes])
    root = _box_width([prompt])
    lanes = max(node.lane for node in nodes) + 1
    few = max((node.lane for node in nodes if not node.more), default=0) + 1
    live = max(sum(c.row is not None for c in step.candidates) for step in steps)
    label = escape(say("tree.label", steps=len(steps), width=live))
    drawn = "".join(
        _step(column, nodes, root, width, _at(step, i, len(steps), say))
        for i, (step, column) in enumerate(zip(steps, columns, strict=True))
    )
    return (
        f'<div class="dp-tree-scroll" tabindex="0" role="region" aria-label="{label}">'
        f'<svg width="{_left(len(steps), root, width)}" role="img" aria-label="{label}" '
        f'style="--few:{_TOP + few * _LANE}px;--all:{_TOP + lanes * _LANE}px">'
        f'<g class="dp-root" transform="translate(2 {_TOP})">{_box(root, prompt)}</g>{drawn}'
        "</svg></div>"
    )


def _at(step: SearchStep, place: int, count: int, say: Words) -> str:
    """What there is to say of a whole step."""
    live = sum(c.row is not None for c in step.candidates)
    best = max((c.score for c in step.candidates if c.kept), default=None)
    return say(
        "tree.at",
        step=place + 1,
        count=count,
        live=live,
        finished=step.num_finished,
        best="–" if best is None else _number(best),
    )


def _step(
    column: Sequence[_Node], nodes: Sequence[_Node], root: int, width: int, words: str
) -> str:
    place = column[0].step if column else 0
    left = _left(place, root, width)
    drawn = "".join(_node(node, nodes, left, width) for node in column)
    return (
        f'<g class="dp-tree-step" data-at="{escape(words)}"><text class="dp-tree-no" '
        f'x="{left + width // 2}" y="14">{place + 1}</text>{drawn}</g>'
    )


def _node(node: _Node, nodes: Sequence[_Node], left: int, width: int) -> str:
    """The edge from its parent, a box with its token, and what the script says of it."""
    c = node.candidate
    classes = ["dp-node", "dp-finished" if c.finished else "dp-kept" if c.kept else "dp-pruned"]
    classes += ["dp-tree-more"] * node.more + ["dp-tree-win"] * node.wins
    rise = _LANE * ((0 if node.parent is None else nodes[node.parent].lane) - node.lane)
    middle, half = _BOX // 2, _GAP // 2
    edge = f"M{-_GAP} {rise + middle}C{-half} {rise + middle} {-half} {middle} 0 {middle}"
    mark = "★" if node.is_end else "■" if c.finished else ""
    parent = "" if node.parent is None else node.parent
    return (
        f'<g class="{" ".join(classes)}" data-p="{parent}" data-s="{_number(c.sum_logprob)}" '
        f'data-n="{_number(c.score)}" data-t="{escape(_text(c))}" '
        f'transform="translate({left} {_TOP + node.lane * _LANE})"><path d="{edge}"/>'
        f"{_box(width, _label(c), mark)}</g>"
    )


def _box(width: int, label: str, mark: str = "") -> str:
    end = f'<text class="dp-tree-mark" x="{width + 1}" y="5">{mark}</text>' if mark else ""
    return (
        f'<rect width="{width}" height="{_BOX}" rx="4"/><text x="{_PADDING // 2}" y="14">'
        f"{escape(label)}</text>{end}"
    )


def _left(place: int, root: int, width: int) -> int:
    """Where the column of a step begins, pixels from the left."""
    return root + 2 + _GAP + place * (width + _GAP)


def _box_width(labels: Iterable[str]) -> int:
    longest = max(map(_units, labels), default=0)
    return max(_NARROWEST, round(_CHARACTER * longest) + _PADDING)


def _units(text: str) -> int:
    """Width in half-width characters: Chinese ones take two."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _text(candidate: Candidate) -> str:
    return f"#{candidate.token_id}" if candidate.text is None else candidate.text


def _label(candidate: Candidate) -> str:
    """The token as a box shows it: blanks and line ends visible, not longer than a box."""
    text = _text(candidate)[: _LABEL + 1] or "◌"
    text = text.replace("\n", "⏎").replace("\t", "⇥").replace(" ", "·")
    if _units(text) <= _LABEL:
        return text
    while _units(text) >= _LABEL:
        text = text[:-1]
    return text + "…"


def _number(value: float) -> str:
    return f"{value:.5g}".replace("-", "−")


def _legend(say: Words) -> str:
    keys = ("wins", "kept", "finished", "pruned")
    items = (
        f'<span class="dp-tree-key dp-tree-{key}">{escape(say(f"tree.{key}"))}</span>'
        for key in keys
    )
    return f'<div class="dp-legend">{"".join(items)}</div>'


def _cut(result: DecodeResult, say: Words) -> str:
    """Whether the picture ends before the search did."""
    drawn = min(len(result.steps), MAX_STEPS)
    longest = max([len(result.steps), *(beam.length for beam in result.beams)])
    if drawn >= longest:
        return ""
    return f'<p class="dp-tree-none">{escape(say("tree.cut", count=drawn))}</p>'


def _beams(beams: Sequence[Beam], paths: Sequence[Sequence[int]], say: Words) -> str:
    """The returned beams, best first, each a button that shows its path."""
    items = (
        f'<li><button type="button" data-node="{path[-1] if path else ""}">'
        f"<span>{escape(_beam_text(beam))}</span><small>{escape(_beam_numbers(beam, say))}</small>"
        "</button></li>"
        for beam, path in zip(beams, paths, strict=True)
    )
    title = escape(say("tree.beams"))
    return f'<h4>{title}</h4><ol class="dp-tree-beams">{"".join(items)}</ol>' if beams else ""


def _beam_text(beam: Beam) -> str:
    return " ".join(map(str, beam.token_ids)) if beam.text is None else beam.text


def _beam_numbers(beam: Beam, say: Words) -> str:
    return say(
        "tree.beam",
        sum=_number(beam.sum_logprob),
        length=beam.length,
        score=_number(beam.score),
        end=say("tree.closed" if beam.finished else "tree.open"),
    )
