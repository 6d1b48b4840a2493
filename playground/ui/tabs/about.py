"""The About tab: what this is, the methods in a line each, what every number means, sources."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from playground.catalog import page_pairs
from playground.charts import colour_of
from playground.methods import METHODS
from playground.ui.markup import markup
from playground.ui.runs import name_of
from playground.ui.strings import Words
from playground.verifiers import VERIFIERS

_NUMBERS = (
    "speedup",
    "speed",
    "total",
    "first",
    "passes",
    "accepted",
    "per_pass",
    "spent",
    "fidelity",
    "logprob",
)
_ARXIV = "https://arxiv.org/abs/"
_ARTICLE = (
    "https://discuss.huggingface.co/t/"
    "novel-provably-optimal-lossy-variant-of-speculative-decoding/55518"
)
_SOURCES = (
    ("Leviathan, Kalman & Matias 2023", "2211.17192"),
    ("Chen et al. 2023", "2302.01318"),
    ("Sun et al. 2024", "2403.10444"),
    ("Tran-Thien 2023", ""),
    ("Tran-Thien & Nock 2026", "2609.30474"),
    ("Wu et al. 2016", "1609.08144"),
    ("Vijayakumar et al. 2016", "1610.02424"),
    ("Stahlberg & Byrne 2019", "1908.10090"),
)


def about_tab(say: Words) -> None:
    """Lay out the tab in the current Blocks."""
    markup(about_html(say), "about")


def about_html(say: Words) -> str:
    """Everything on it."""
    parts = [
        _section(say("about.what"), f"<p>{escape(say('about.what.text'))}</p>"),
        _section(say("about.methods"), _list(_methods(say))),
        _section(say("about.rules"), _list(_rules(say))),
        _section(say("about.numbers"), _list(_numbers(say))),
        _section(say("about.pairs"), _list(_pairs(say))),
        _section(say("about.sources"), _sources(say)),
        _section(say("about.licence"), f"<p>{escape(say('about.licence.text'))}</p>"),
    ]
    return f'<div class="dp-about">{"".join(parts)}</div>'


def _section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{body}</section>"


def _list(items: Iterable[tuple[str, ...]]) -> str:
    """Terms and what they mean; a third part is the colour of a dot before the term."""
    rows = []
    for term, text, *colour in items:
        dot = f'<i class="dp-dot" style="background:{colour[0]}"></i>' if colour else ""
        rows.append(f"<dt>{dot}{escape(term)}</dt><dd>{escape(text)}</dd>")
    return f"<dl>{''.join(rows)}</dl>"


def _methods(say: Words) -> Iterable[tuple[str, str, str]]:
    for name, method in METHODS.items():
        yield name_of(name, say), say.known(f"method.{name}", method.line), colour_of(name)


def _rules(say: Words) -> Iterable[tuple[str, str]]:
    for name, rule in VERIFIERS.items():
        yield (
            say.known(f"verifier.{name}", name_of(name, say)),
            say.known(f"rule.{name}", rule.line),
        )


def _pairs(say: Words) -> Iterable[tuple[str, str]]:
    for spec in page_pairs():
        yield say.known(f"pair.{spec.name}.title", spec.title), spec.license


def _numbers(say: Words) -> Iterable[tuple[str, str]]:
    for key in _NUMBERS:
        tip = say(f"metric.{key}.tip", baseline=say("table.baseline"))
        yield say(f"metric.{key}", divergence="KL"), tip


def _sources(say: Words) -> str:
    """Papers, with links."""
    items = []
    for name, number in _SOURCES:
        address = _ARXIV + number if number else _ARTICLE
        link = f'<a href="{address}" target="_blank" rel="noopener">{escape(name)}</a>'
        items.append(f"<li>{link}: {escape(say('source.' + (number or 'mentored')))}</li>")
    return f"<ul>{''.join(items)}</ul>"
