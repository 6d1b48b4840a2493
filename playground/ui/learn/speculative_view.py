"""What lesson 8 shows of two laws, of draws and of the formula: pure functions to HTML, figures."""

from __future__ import annotations

import math
from dataclasses import fields

import plotly.graph_objects as go

from playground.charts import colour_of
from playground.demonstrations.rules import simulate
from playground.lesson_charts import distance_lines, overlap_bars, speed_curve
from playground.lessons import speculation
from playground.lessons.speculation import MeasuredPoint, Simulation, overlap
from playground.ui.lab import PRESETS, Laws, parse_laws
from playground.ui.learn.measured import Measured
from playground.ui.learn.parts import figure_words, numbers_html, prose_html, table_html
from playground.ui.numbers import count, percent, plain, times
from playground.ui.results import line
from playground.ui.runs import name_of
from playground.ui.strings import Words
from playground.verifiers import VERIFIERS

MAX_GAMMA = 16
LOSSY = tuple(name for name, rule in VERIFIERS.items() if fields(rule.Params))
_LOSSY_COLOUR = "#D55E00"
_NUM_RESIDUAL = 4


def starts(say: Words) -> dict[str, str]:
    """Laws to start from, as a visitor would type them."""
    own = {name: say(f"speculative.start.{name}.laws") for name in ("sea", "apart")}
    return {"sea": own["sea"], "close": PRESETS["close"], "apart": own["apart"]}


def moved(typed: str, better: float, say: Words) -> Laws:
    """The typed laws with sums of exactly 1, the draft moved `better` % of the way to the target.
    Raises ValueError with one line for the visitor."""
    laws = parse_laws(typed or "", say)
    target, draft = (_normalised(law) for law in (laws.target, laws.draft))
    share = better / 100
    mixed = tuple((1 - share) * p + share * q for q, p in zip(target, draft, strict=True))
    return Laws(laws.names, target, mixed)


def _normalised(law: tuple[float, ...]) -> tuple[float, ...]:
    total = math.fsum(law)
    return tuple(x / total for x in law)


# --- the overlap ----------------------------------------------------------------------------------


def question(say: Words) -> dict[str, str]:
    """The numbers of the question, on the laws that the lesson begins with: its last token."""
    laws = moved(starts(say)["sea"], 0, say)
    q, p = laws.target[-1], laws.draft[-1]
    passes = overlap(laws.target, laws.draft).shared[-1] / p
    shares = {"target": q, "draft": p, "middle": (q + p) / 2, "ratio": passes}
    return {"token": laws.names[-1], **{name: percent(share) for name, share in shares.items()}}


def overlap_html(laws: Laws, say: Words) -> str:
    """The identity in numbers, and what a rejected token is replaced from."""
    seen = overlap(laws.target, laws.draft)
    values = {
        "accepted": seen.acceptance,
        "distance": seen.total_variation,
        "together": seen.acceptance + seen.total_variation,
    }
    cells = [
        (say(f"speculative.{key}"), percent(value), say(f"speculative.{key}.tip"))
        for key, value in values.items()
    ]
    return numbers_html(cells) + line(_residual(laws, say))


def _residual(laws: Laws, say: Words) -> str:
    seen = overlap(laws.target, laws.draft)
    if seen.total_variation < 1e-9:
        return say("lab.residual.none")
    put_back = sorted(zip(seen.corrected, laws.names, strict=True), reverse=True)
    shown = [f"{name} {percent(x / seen.total_variation)}" for x, name in put_back if x > 0]
    more = ["…"] if len(shown) > _NUM_RESIDUAL else []
    return say("lab.residual", tokens=" · ".join(shown[:_NUM_RESIDUAL] + more))


def overlap_figure(laws: Laws, say: Words) -> go.Figure:
    """Both laws as bars over each other."""
    return overlap_bars(overlap(laws.target, laws.draft), laws.names, figure_words(say))


# --- the proof by drawing -------------------------------------------------------------------------


def rule_title(name: str, say: Words) -> str:
    """A rule and the setting that it has by default."""
    knob = fields(VERIFIERS[name].Params)[0]
    label = say.known(f"param.{knob.name}", knob.metadata["label"])
    return f"{_drawn_title(name, say)} · {label} {knob.default:g}"


def _drawn_title(name: str, say: Words) -> str:
    if name in LOSSY:
        return say.known(f"verifier.{name}", name_of(name, say))
    return say("speculative.exact")


def drawn(laws: Laws, number: int, seed: int, rule: str) -> tuple[Simulation, Simulation]:
    """Draws of the exact and of a lossy rule."""
    exact, other = (
        simulate(laws.target, laws.draft, number, seed, name) for name in ("exact", rule)
    )
    return exact, other


def distance_figure(runs: tuple[Simulation, Simulation], say: Words) -> go.Figure:
    """Distances from the target's law as they fall."""
    named = {_drawn_title(run.rule, say): run for run in runs}
    colours = {_drawn_title(run.rule, say): _colour(run.rule) for run in runs}
    return distance_lines(named, figure_words(say), colours)


def _colour(rule: str) -> str:
    known = {"exact": colour_of("speculative"), "mentored": colour_of("mentored")}
    return known.get(rule, _LOSSY_COLOUR)


def drawn_html(laws: Laws, runs: tuple[Simulation, Simulation], say: Words) -> str:
    """The distances in a sentence, and the shares that came out beside both laws."""
    exact, other = runs
    title = _drawn_title(other.rule, say)
    end = exact.draws[-1]
    note = say(
        "speculative.drawn.note",
        count=count(end.count),
        distance=plain(end.distance),
        chance=plain(end.chance),
        rule=title,
        other=plain(other.draws[-1].distance),
        floor=plain(other.floor),
    )
    head = [say(f"speculative.drawn.{key}") for key in ("token", "target", "draft")]
    columns = zip(laws.names, laws.target, laws.draft, exact.shares, other.shares, strict=True)
    rows = [[name, *map(percent, values)] for name, *values in columns]
    return _prose(note) + table_html([*head, say("speculative.exact"), title], rows)


# --- speed ----------------------------------------------------------------------------------------


def speed_html(alpha: float, gamma: int, cost: float, say: Words) -> str:
    """The formula at these values, and its best draft length."""
    here = speculation.speed_curve(alpha, cost, MAX_GAMMA)[gamma]
    best = speculation.best_draft(alpha, cost, MAX_GAMMA)
    values = {
        "per_round": plain(here.tokens_per_round),
        "speedup": times(here.speedup),
        "best": str(best.num_draft_tokens),
        "best_speedup": times(best.speedup),
    }
    return numbers_html(
        [
            (say(f"speculative.{k}"), v, say(f"speculative.{k}.tip", limit=MAX_GAMMA))
            for k, v in values.items()
        ]
    )


def speed_figure(
    alpha: float, gamma: int, cost: float, runs: Measured | None, say: Words
) -> go.Figure:
    """The formula's curve over γ, the chosen γ on it, and the measured runs."""
    points = speculation.speed_curve(alpha, cost, MAX_GAMMA)
    label = say("speculative.curve", alpha=f"{alpha:.3g}", cost=f"{cost:.3g}")
    shown = runs.points if runs else ()
    names = {point.method: name_of(point.method, say) for point in shown}
    return speed_curve({label: points}, shown, points[gamma], names, figure_words(say))


def _prose(words: str) -> str:
    return f'<div class="dp-prose">{prose_html(words)}</div>'


def measured_html(runs: Measured, say: Words) -> str:
    """Each measured run beside what the formula makes of it."""
    precision, place = runs.where
    note = say("speculative.measured", precision=precision, place=place)
    keys = ("run", "alpha", "gamma", "cost", "per_round", "expected", "speedup", "predicted")
    head = [say(f"speculative.row.{key}") for key in keys]
    return _prose(note) + table_html(head, [_row(point, say) for point in runs.points])


def _row(point: MeasuredPoint, say: Words) -> list[str]:
    return [
        name_of(point.label, say),
        plain(point.acceptance),
        str(point.num_draft_tokens),
        plain(point.draft_cost),
        plain(point.tokens_per_round),
        plain(point.expected_tokens_per_round),
        times(point.speedup),
        times(point.predicted),
    ]
