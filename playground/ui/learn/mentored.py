"""Lesson 9, "Mentored decoding": the optimum as bars, every other rule beside it, what D buys."""

from __future__ import annotations

from functools import cache
from typing import Any

import gradio as gr

from playground.demonstrations.rules import family, mentored_points, rule_curves
from playground.lesson_charts import family_curves, rule_shortfalls, rule_tradeoffs
from playground.lessons.mentoring import (
    ARTICLE_CURVE,
    ARTICLE_DRAFT,
    ARTICLE_NAMES,
    ARTICLE_TARGET,
    BUMPS_DRAFT,
    BUMPS_TARGET,
    FamilyPoint,
    Gain,
    RuleCurve,
    gains,
)
from playground.mentored import divergence
from playground.ui.lab import PRESETS, Choice, Laws, numbers_html, parse_laws, read
from playground.ui.lab_figures import law_bars
from playground.ui.learn.parts import (
    DRAG,
    LIGHT,
    figure,
    figure_words,
    heading,
    predict,
    prose_html,
    sources,
    table_html,
    text,
    when_opened,
)
from playground.ui.markup import markup
from playground.ui.numbers import NONE, percent, plain
from playground.ui.runs import name_of
from playground.ui.strings import ENGLISH, Words
from playground.ui.worker import Worker

LAWS = {
    "article": Laws(ARTICLE_NAMES, ARTICLE_TARGET, ARTICLE_DRAFT),
    "bumps": Laws(tuple("abcdefghijkl"), BUMPS_TARGET, BUMPS_DRAFT),
    "close": parse_laws(PRESETS["close"], ENGLISH),
}
_START, _BUDGET = "article", 0.2
_SHARES = (0, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 1)
_SOURCES = (
    (
        "Tran-Thien 2023",
        "https://discuss.huggingface.co/t/"
        "novel-provably-optimal-lossy-variant-of-speculative-decoding/55518",
    ),
    ("Tran-Thien & Nock 2026", "https://arxiv.org/abs/2609.30474"),
)
Update = dict[Any, Any]


def lesson(worker: Worker, say: Words) -> None:
    """Lay out the lesson in the current Blocks."""
    text(say("mentored.lede"))
    heading(say("mentored.problem"))
    text(say("mentored.problem.text"))
    choices = ("less", "line", "most", "much")
    predict(say, "mentored.ask", choices, "most", **question())
    _pictures(say)
    sources(say, *_SOURCES)


# --- what is shown --------------------------------------------------------------------------------


@cache
def curves(name: str) -> tuple[RuleCurve, ...]:
    """Every rule on these laws."""
    return rule_curves(LAWS[name].target, LAWS[name].draft)


@cache
def families(name: str) -> dict[str, tuple[FamilyPoint, ...]]:
    """The optimum of every divergence on these laws."""
    return family(LAWS[name].target, LAWS[name].draft)


@cache
def bought(name: str) -> tuple[Gain, ...]:
    """What budgets up to KL(target‖draft) buy: the article's own on its laws."""
    laws = LAWS[name]
    whole = divergence(laws.target, laws.draft, "kl")
    budgets = [share * whole for share in _SHARES]
    if name == _START:
        budgets = [*(budget for budget, _ in ARTICLE_CURVE[:-1]), whole]
    return gains(mentored_points(laws.target, laws.draft, budgets))


def question() -> dict[str, str]:
    """The numbers of the question, on the laws that the lesson begins with."""
    first, *_, last = bought(_START)
    (here,) = (gain for gain in bought(_START) if gain.budget == _BUDGET)
    room = 1 - first.acceptance
    line = first.acceptance + room * here.budget / last.budget
    shares = {
        "exact": first.acceptance,
        "accepted": here.acceptance,
        "share": here.share,
        "line": line,
        "less": (first.acceptance + line) / 2,
        "much": first.acceptance + 2 * (here.acceptance - first.acceptance),
    }
    numbers = {"budget": f"{here.budget:g}", "whole": plain(last.budget)}
    return numbers | {name: percent(share) for name, share in shares.items()}


def rule_names(say: Words) -> dict[str, str]:
    """The rules in the page's language."""
    return {
        curve.rule: say.known(f"verifier.{curve.rule}", name_of(curve.rule, say))
        for curve in curves(_START)
    }


def behind_html(name: str, say: Words) -> str:
    """How far each rule falls behind the optimum, at most."""
    rows = [_behind(curve, rule_names(say)[curve.rule], say) for curve in curves(name)]
    head = [say(f"mentored.{key}") for key in ("rule", "behind", "where")]
    own = [i for i, curve in enumerate(curves(name)) if curve.rule == "mentored"]
    return table_html(head, rows, marked=own)


def _behind(curve: RuleCurve, title: str, say: Words) -> list[str]:
    points = curve.finite()
    if not points:
        return [title, NONE, say("mentored.no_kl")]
    worst = max(points, key=lambda point: point.behind or 0.0)
    gap = round(100 * (worst.behind or 0.0), 6)  # the rest is rounding
    return [title, plain(gap) if gap else "0", plain(worst.divergence) if gap else NONE]


def gains_html(name: str, say: Words) -> str:
    """What each budget buys, in a table and a sentence."""
    found = bought(name)
    keys = ["budget", "accepted", "share", "slope"]
    rows = [_gain(gain) for gain in found]
    if name == _START:
        keys.append("article")
        for row, (_, accepted) in zip(rows, ARTICLE_CURVE, strict=True):
            row.append(percent(accepted))
    head = [say(f"mentored.gain.{key}") for key in keys]
    table = table_html(head, rows, say("mentored.gain.note"))
    return f'<div class="dp-prose">{prose_html(_most(found, say))}</div>{table}'


def _gain(gain: Gain) -> list[str]:
    slope = NONE if gain.slope is None else plain(100 * gain.slope)
    return [f"{gain.budget:.3g}", percent(gain.acceptance), percent(gain.share), slope]


def _most(found: tuple[Gain, ...], say: Words) -> str:
    """The first nat, or half of what takes the draft whole where that is less."""
    half = found[-1].budget / 2
    here = next((g for g in found if g.budget == 1.0), None)
    here = here or min(found, key=lambda gain: abs(gain.budget - half))
    return say(
        "mentored.free.here",
        budget=f"{here.budget:.3g}",
        share=percent(here.share),
        exact=percent(found[0].acceptance),
        accepted=percent(here.acceptance),
        whole=plain(found[-1].budget),
    )


# --- components -----------------------------------------------------------------------------------


def _pictures(say: Words) -> None:
    text(say("mentored.bars.text"))
    laws, start = LAWS[_START], Choice(_BUDGET)
    reading = read(laws, start)
    name, budget = _controls(reading.limit, say)
    numbers = markup(numbers_html(laws, reading, start, say), "mentored-numbers")
    bars = figure(law_bars(laws, reading, start, say), "mentored-bars")
    heading(say("mentored.rules"))
    text(say("mentored.rules.text"))
    rules, gaps = figure(elem_id="mentored-rules"), figure(elem_id="mentored-gaps")
    behind = markup(elem_id="mentored-behind")
    heading(say("mentored.free"))
    text(say("mentored.free.text"))
    gained = markup(elem_id="mentored-gains")
    heading(say("mentored.family"))
    text(say("mentored.family.text"))
    kinds = figure(elem_id="mentored-family")

    def draw(name: str, budget: float) -> Update:
        """What moves with D."""
        laws, choice = LAWS[name], Choice(budget)
        reading = read(laws, choice)
        (here,) = mentored_points(laws.target, laws.draft, [budget])
        words = figure_words(say)
        return {
            numbers: numbers_html(laws, reading, choice, say),
            bars: law_bars(laws, reading, choice, say),
            rules: rule_tradeoffs(curves(name), here, rule_names(say), words),
        }

    def show(name: str, budget: float) -> Update:
        """Everything that the laws decide, too."""
        words, kinds_named = figure_words(say), {k: say(f"divergence.{k}") for k in families(name)}
        return draw(name, budget) | {
            gaps: rule_shortfalls(curves(name), rule_names(say), words),
            behind: behind_html(name, say),
            gained: gains_html(name, say),
            kinds: family_curves(families(name), kinds_named, words),
        }

    def take(name: str) -> Update:
        """Other laws, D at an eighth of what takes the draft whole."""
        limit = read(LAWS[name], Choice()).limit
        start = _BUDGET if name == _START else round(bought(name)[2].budget, 2)
        return {budget: gr.update(maximum=limit, value=start), **show(name, start)}

    moving, shown = [numbers, bars, rules], [numbers, bars, rules, gaps, behind, gained, kinds]
    when_opened(show, [name, budget], shown)
    budget.input(draw, [name, budget], moving, **DRAG)
    name.input(take, name, [budget, *shown], **LIGHT)


def _controls(limit: float, say: Words) -> tuple[gr.Dropdown, gr.Slider]:
    """The laws, and D from 0 to `limit`."""
    with gr.Row(elem_classes="dp-lesson-controls"):
        name = gr.Dropdown(
            [(say(f"mentored.laws.{key}"), key) for key in LAWS],
            value=_START,
            label=say("mentored.laws"),
            filterable=False,
            elem_id="mentored-laws",
            min_width=220,
        )
        budget = gr.Slider(
            0,
            limit,
            _BUDGET,
            step=0.01,
            label=say("mentored.budget"),
            elem_id="mentored-budget",
            scale=2,
            min_width=220,
        )
    return name, budget
