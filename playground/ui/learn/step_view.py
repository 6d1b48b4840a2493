"""Lesson 2 as pure functions: the four moves of a beam step, and the cache after it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from playground.lessons.beam_step import BeamStep, CacheRows, Move
from playground.ui.learn.parts import inline_html, table_html
from playground.ui.numbers import count, decimals
from playground.ui.strings import Words

MOVES = ("expand", "score", "prune", "collect")
_SHOWN = 22  # characters of a beam's text


@dataclass(frozen=True, slots=True)
class Scene:
    """A step to look at, the texts of the beams that it begins with, and the name of a token as it
    is shown. whole: all W·V continuations are on record."""

    step: BeamStep
    texts: tuple[str, ...]
    piece: Callable[[Move], str]
    whole: bool


def grown(texts: Sequence[str], step: BeamStep, piece: Callable[[Move], str]) -> tuple[str, ...]:
    """The texts of the beams that live on after a step, by row."""
    live = [(move.row, texts[move.parent] + piece(move)) for move in step.moves if _lives(move)]
    return tuple(text for _, text in sorted(live))


def _lives(move: Move) -> bool:
    return move.row is not None


def shape(step: BeamStep, name: str) -> str:
    """A tensor with its shape: "logits [2, 3]"."""
    return f"{name} [{', '.join(count(size) for size in step.shapes[name])}]"


def move_html(scene: Scene, move: str, say: Words) -> str:
    """One of the four moves: what it does to which tensors, and the numbers."""
    tensors = {
        "expand": f"{shape(scene.step, 'logits')}  →  log_softmax",
        "score": f"{shape(scene.step, 'scores')}  +  log_softmax  =  {shape(scene.step, 'totals')}",
        "prune": f"{shape(scene.step, 'flat')}  →  top W",
        "collect": f"parents {list(scene.step.reorder)}",
    }
    table = {"expand": _expand, "score": _score, "prune": _prune, "collect": _collect}[move]
    sizes = {"width": scene.step.width, "size": count(scene.step.vocab_size)}
    note = "" if scene.whole else f'<p class="dp-note">{escape(say("step.recorded"))}</p>'
    return (
        f'<p class="dp-tensors"><code>{escape(tensors[move])}</code></p>'
        f'<p class="dp-move">{inline_html(say(f"step.{move}.text", **sizes))}</p>'
        f"{table(scene, say)}{note if move != 'collect' else ''}"
    )


def _beam(scene: Scene, row: int, say: Words) -> str:
    """A beam's row and the end of its text."""
    return f"{row} {end_of(scene.texts[row])}" if scene.texts[row] else str(row)


def end_of(text: str) -> str:
    """The end of a text, on one line."""
    shown = text.strip().replace("\n", "⏎")
    return shown if len(shown) <= _SHOWN else f"…{shown[-_SHOWN:]}"


def name_of(scene: Scene, move: Move) -> str:
    """A continuation's token, seen even where it is blank."""
    return scene.piece(move).strip() or "␣"


def _expand(scene: Scene, say: Words) -> str:
    """ln p of each beam's continuations."""
    return _by_beam(scene, say, lambda move: move.logprob, say("step.head.logprobs"))


def _score(scene: Scene, say: Words) -> str:
    """The beams' scores, and the totals."""
    return _by_beam(scene, say, lambda move: move.score, say("step.head.totals"), True)


def _by_beam(
    scene: Scene, say: Words, value: Callable[[Move], float], title: str, scores: bool = False
) -> str:
    """A row for each beam, its continuations side by side."""
    rows = []
    for row in range(scene.step.width):
        own = [move for move in scene.step.moves if move.parent == row]
        own = sorted(own, key=lambda move: move.token_id) if scene.whole else own
        cells = "".join(
            f"<span><b>{escape(name_of(scene, move))}</b> {decimals(value(move))}</span>"
            for move in own
        )
        name = escape(_beam(scene, row, say))
        parent = [decimals(own[0].parent_score) if own else "–"] if scores else []
        rows.append([name, *parent, f'<div class="dp-cells">{cells or "–"}</div>'])
    head = [say("step.head.beam"), *([say("step.head.score")] if scores else []), title]
    return table_html(head, rows, raw=True)


def _prune(scene: Scene, say: Words) -> str:
    """Every continuation by its total, where it stands in the flattened tensor, what is kept."""
    size = scene.step.vocab_size
    rows = [
        [
            end_of(scene.texts[move.parent] + scene.piece(move)),
            count(move.flat),
            f"{move.flat // size} = {count(move.flat)} // {count(size)}",
            f"{count(move.flat % size)} = {count(move.flat)} % {count(size)}",
            decimals(move.parent_score),
            decimals(move.logprob),
            decimals(move.score),
            decimals(math.exp(move.score)),
            say("step.ended" if move.finished else "step.kept" if move.kept else "step.pruned"),
        ]
        for move in scene.step.moves
    ]
    names = ("text", "flat", "parent", "token", "score", "logprob", "total", "joint", "kept")
    marked = [i for i, move in enumerate(scene.step.moves) if move.kept]
    return table_html([say(f"step.head.{name}") for name in names], rows, marked=marked)


def _collect(scene: Scene, say: Words) -> str:
    """Where the kept ones go: rows of the next step, or the finished set."""
    kept = [move for move in scene.step.moves if move.kept or move.finished]
    rows = []
    for move in sorted(kept, key=lambda move: (move.row is None, move.row or 0)):
        place = say("step.finished") if move.row is None else str(move.row)
        text = end_of(scene.texts[move.parent] + scene.piece(move))
        rows.append([place, str(move.parent), text, decimals(move.score)])
    names = ("row", "from", "text", "total")
    return table_html([say(f"step.head.{name}") for name in names], rows) + _note(scene.step, say)


def _note(step: BeamStep, say: Words) -> str:
    """Which rows of the cache are copied, which are dropped."""
    parts = [
        say(f"step.{kind}", rows=", ".join(map(str, rows)))
        for kind, rows in (("copies", step.copies), ("drops", step.dropped))
        if rows
    ]
    text = say("learn.join").join(parts) or say("step.each_once")
    return f'<p class="dp-note">{escape(text)}</p>'


# --- the cache ------------------------------------------------------------------------------------

_CELL, _LINE, _GAP = 30, 34, 96  # a cell's width, from row to row, from the rows to the next ones
_TOP = 82  # where the rows begin, below the prompt
_HUES = ("#0072b2", "#e69f00", "#009e73")


def cache_html(rows: CacheRows, names: dict[int, str], say: Words) -> str:
    """The rows before and after, each drawn in the colour of the row that it came from, and the
    prompt that all share. names: of the ids."""
    length = len(rows.before[0])
    wide = length * _CELL
    left, right = 26, 26 + wide + _GAP
    height = _TOP + _LINE * max(len(rows.before), len(rows.after))
    body = _cells(rows.shared, names, left, 22, "currentColor")
    body += _label(say("step.cache.prompt"), left, 12)
    body += _label(say("step.cache.before"), left, _TOP - 7)
    body += _label(say("step.cache.after"), right, _TOP - 7)
    for row, ids in enumerate(rows.before):
        kind = "" if row in rows.parents else ' class="dp-dropped-row"'
        cells = _cells(ids, names, left, _TOP + _LINE * row, _HUES[row])
        body += f"<g{kind}>{_label(str(row), 10, _TOP + _LINE * row + 18)}{cells}</g>"
    for row, (parent, ids) in enumerate(zip(rows.parents, rows.after, strict=True)):
        y0, y1 = (_TOP + _LINE * place + 13 for place in (parent, row))
        x0, x1 = left + wide + 4, right - 22
        line = f"M{x0},{y0}C{x0 + 30},{y0} {x1 - 30},{y1} {x1},{y1}"
        body += f'<path d="{line}" stroke="{_HUES[parent]}"/>'
        body += _label(str(row), right - 16, _TOP + _LINE * row + 18)
        body += _cells(ids, names, right, _TOP + _LINE * row, _HUES[parent])
    parents = ", ".join(map(str, rows.parents))
    return (
        f'<svg class="dp-cache" viewBox="0 0 {right + wide + 6} {height}" role="img" '
        f'aria-label="{escape(say("step.cache.figure", parents=parents))}">{body}</svg>'
    )


def _label(text: str, x: float, y: float) -> str:
    return f'<text class="dp-cache-label" x="{x}" y="{y}">{escape(text)}</text>'


def _cells(ids: Sequence[int], names: dict[int, str], x: float, y: float, colour: str) -> str:
    """A row of cells, a token each."""
    return "".join(
        f'<rect x="{x + i * _CELL}" y="{y}" width="{_CELL - 3}" height="26" rx="3" '
        f'style="stroke:{colour};fill:color-mix(in srgb, {colour} 16%, transparent)"/>'
        f'<text x="{x + i * _CELL + (_CELL - 3) / 2}" y="{y + 17.5}">{escape(names[token])}</text>'
        for i, token in enumerate(ids)
    )


def cache_note_html(rows: CacheRows, say: Words) -> str:
    """What was kept, copied and dropped, and the bytes held."""
    width, length, prompt = len(rows.after), len(rows.after[0]), len(rows.shared)
    per_token = rows.num_bytes // (prompt + width * length)
    parents = rows.parents
    copied = sorted({row for row in parents if parents.count(row) > 1})
    dropped = [row for row in range(len(rows.before)) if row not in parents]
    parts = [say("step.cache.reorder", parents=", ".join(map(str, parents)))]
    parts += [say("step.copies", rows=", ".join(map(str, copied)))] if copied else []
    parts += [say("step.drops", rows=", ".join(map(str, dropped)))] if dropped else []
    sizes = say(
        "step.cache.bytes",
        tokens=rows.num_bytes // per_token,
        sum=f"{prompt} + {width} × {length}",
        bytes=rows.num_bytes,
        naive_tokens=rows.num_bytes_naive // per_token,
        naive_sum=f"{width} × ({prompt} + {length})",
        naive_bytes=rows.num_bytes_naive,
    )
    lines = (say("learn.join").join(parts), sizes)
    return "".join(f'<p class="dp-move">{inline_html(line)}</p>' for line in lines)
