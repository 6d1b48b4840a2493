"""Lesson 6, "Wider is not better": a recorded experiment over beam widths and exact search."""

from __future__ import annotations

from collections.abc import Sequence

import gradio as gr
import plotly.graph_objects as go

from playground.experiment_charts import WIDTH_SCALES, width_curves
from playground.lessons.width import PUBLISHED, Published, WidthPoint
from playground.quality import Interval
from playground.ui.learn.parts import (
    LIGHT,
    figure,
    heading,
    predict,
    sources,
    table_html,
    text,
)
from playground.ui.learn.recorded import answer_words, ends, origin, recorded, spread
from playground.ui.markup import markup
from playground.ui.numbers import NONE, count, percent, plain
from playground.ui.strings import Words
from playground.ui.worker import Worker

_EMPTY, _SHORT = 0.5, 0.8  # share of empty outputs, words over the reference's: what "most" means


def lesson(worker: Worker, say: Words) -> None:
    """Lay out the lesson in the current Blocks."""
    found = recorded("width", say)
    if not found:
        return
    points: list[WidthPoint] = found["points"]
    text(say("width.text", count=count(points[0].num_outputs)))
    _ask(points, say)
    words = answer_words(say)
    quantity = gr.Radio(
        [(words[name], name) for name in WIDTH_SCALES],
        value="bleu",
        label=say("width.quantity"),
        elem_id="width-quantity",
    )
    curves = figure(draw("bleu", points, say), "width-curves")
    quantity.input(lambda name: draw(name, points, say), quantity, curves, **LIGHT)
    text(say("width.norm.why"))
    text(found_text(points, say), "width-found")
    markup(points_html(points, say), "width-table")
    text(say("width.note.exact"))
    heading(say("width.published"))
    markup(published_html(points, say), "width-published")
    heading(say("width.why"))
    text(say("width.why.text"))
    origin("width", found, say)
    sources(
        say,
        (say("width.source.koehn"), "https://arxiv.org/abs/1706.03872"),
        (say("width.source.stahlberg"), "https://arxiv.org/abs/1908.10090"),
    )


def draw(quantity: str, points: Sequence[WidthPoint], say: Words) -> go.Figure:
    """One quantity over the widths."""
    return width_curves(points, quantity, answer_words(say))


def _ask(points: Sequence[WidthPoint], say: Words) -> gr.Radio:
    exact, widest = exact_of(points), plain_sums(points)[-1]
    return predict(
        say,
        "width.ask",
        ("good", "short", "empty"),
        right=most_probable(exact),
        empty=percent(_value(exact.empty)),
        bleu=plain(_value(exact.bleu)),
        ended=plain(_value(exact.mean_logprob)),
        tokens=plain(_value(widest.mean_tokens)),
        whole=plain(_value(widest.mean_logprob)),
        width=str(widest.width),
    )


# --- what the points say --------------------------------------------------------------------------


def exact_of(points: Sequence[WidthPoint]) -> WidthPoint:
    """The exact search."""
    return next(point for point in points if point.width is None)


def plain_sums(points: Sequence[WidthPoint]) -> list[WidthPoint]:
    """The beam searches without a length norm, from narrow to wide."""
    own = [point for point in points if point.width is not None and point.norm == "none"]
    return sorted(own, key=lambda point: point.width or 0)


def most_probable(exact: WidthPoint) -> str:
    """What exact search mostly finds: "empty", "short" or "good"."""
    if (_value(exact.empty) or 0.0) > _EMPTY:
        return "empty"
    return "short" if exact.length_ratio < _SHORT else "good"


def found_text(points: Sequence[WidthPoint], say: Words) -> str:
    """What the experiment found, in sentences that follow its numbers."""
    beams, exact = plain_sums(points), exact_of(points)
    best, widest = best_of(beams), beams[-1]
    change = lost(widest)
    parts = [say("width.found.best", width=str(best.width), bleu=plain(_value(best.bleu)))]
    if best is widest:
        parts.append(say("width.found.widest"))
    elif change is not None:
        kind = "falls" if change.low > 0 else "flat"
        parts.append(say(f"width.found.{kind}", width=str(widest.width), **ends(change)))
    parts.append(
        say(
            "width.found.exact",
            bleu=plain(_value(exact.bleu)),
            empty=percent(_value(exact.empty)),
        )
    )
    parts.append(
        say(
            "width.found.score",
            first=plain(_value(beams[0].mean_logprob)),
            last=plain(_value(widest.mean_logprob)),
            width=str(widest.width),
            exact=plain(_value(exact.mean_logprob)),
        )
    )
    return say("experiment.join").join(parts)


def best_of(beams: Sequence[WidthPoint]) -> WidthPoint:
    """The width of highest BLEU; of equal ones the narrowest."""
    return max(beams, key=lambda point: _value(point.bleu) or 0.0)


def lost(point: WidthPoint) -> Interval | None:
    """BLEU lost against the best width: the change with its sign turned."""
    change = point.bleu_change
    return None if change is None else Interval(-change.value, -change.high, -change.low)


def points_html(points: Sequence[WidthPoint], say: Words) -> str:
    """Every search in numbers."""
    keys = ("search", "bleu", "chrf", "length", "score", "empty", "cut", "misses")
    rows = [
        [
            _name(point, say),
            spread(point.bleu),
            plain(_value(point.chrf)),
            plain(point.length_ratio),
            plain(_value(point.mean_logprob)),
            percent(_value(point.empty)),
            percent(_value(point.cut)),
            percent(_value(point.misses)),
        ]
        for point in points
    ]
    head = [say(f"width.head.{key}") for key in keys]
    return table_html(head, rows, say("width.caption"), [len(points) - 1])


def _name(point: WidthPoint, say: Words) -> str:
    if point.width is None:
        return say("width.row.exact", proven=percent(_value(point.proven)))
    norm = say(f"answer.norm.{point.norm}")
    return say("width.row.beam", width=str(point.width), norm=norm)


def published_html(points: Sequence[WidthPoint], say: Words) -> str:
    """The published findings beside ours."""
    beams, exact = plain_sums(points), exact_of(points)
    narrow = max((p for p in beams if (p.width or 0) <= 10), key=lambda p: p.width or 0)
    widest = beams[-1]
    bleu, miss = _published("bleu", True), _published("misses_optimum", True)
    rows = [
        [
            say("width.finding.bleu"),
            f"{_at(bleu, say)} → {plain(_published('bleu', False).value)}",
            f"{say('width.at', value=plain(_value(narrow.bleu)), width=str(narrow.width))}"
            f" → {plain(_value(exact.bleu))}",
        ],
        [
            say("width.finding.empty"),
            f"{plain(_published('empty_is_best', False).value)} %",
            f"{spread(exact.empty, 100)} %",
        ],
        [
            say("width.finding.misses"),
            say("width.at", value=f"{plain(miss.value)} %", width=str(miss.width)),
            say("width.of", value=_share(widest.misses), width=str(widest.width)),
        ],
        [say("width.finding.falls"), say("width.falls.theirs"), _falls(beams, say)],
    ]
    return table_html([say(f"width.head.{key}") for key in ("finding", "theirs", "ours")], rows)


def _falls(beams: Sequence[WidthPoint], say: Words) -> str:
    best, widest = best_of(beams), beams[-1]
    change = lost(widest)
    if best is widest or change is None:
        return say("width.falls.no", width=str(widest.width))
    kind = "yes" if change.low > 0 else "open"
    places = {"best": str(best.width), "width": str(widest.width)}
    return say(f"width.falls.{kind}", **places, **ends(change))


def _published(name: str, of_beam: bool) -> Published:
    return next(p for p in PUBLISHED if p.name == name and (p.width is not None) == of_beam)


def _at(figure: Published, say: Words) -> str:
    return say("width.at", value=plain(figure.value), width=str(figure.width))


def _share(found: Interval | None) -> str:
    return NONE if found is None else f"{spread(found, 100)} %"


def _value(found: Interval | None) -> float | None:
    return None if found is None else found.value
