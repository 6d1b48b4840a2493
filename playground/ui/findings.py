"""What the shipped experiments found, as HTML: the article beside ours, rules, kinds of task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from playground.experiments import findings
from playground.experiments.article import (
    MENTORED_SPEED,
    SAMPLING_BLEU,
    SAMPLING_SPEED,
    SPECULATIVE_SPEED,
)
from playground.quality import Interval
from playground.ui import numbers
from playground.ui.strings import Words

_SIGNS = {"agrees": "✓", "differs": "✗", "open": "○"}


def findings_html(name: str, say: Words) -> str:
    """Whatever a shipped result's findings hold; empty where there are none."""
    found = findings(name)
    parts = [table(found[kind], say) for kind, table in _TABLES.items() if found.get(kind)]
    if found.get("provisional"):
        parts.insert(0, f'<p class="dp-hint">{escape(say("findings.provisional"))}</p>')
    return "".join(parts)


def _claims(claims: Sequence[Any], say: Words) -> str:
    """The article's figures beside ours, and whether the orderings agree."""
    head = [say(f"claims.{part}") for part in ("claim", "article", "ours", "ordering")]
    rows = []
    for claim in claims:
        budget = {} if claim.budget is None else {"budget": f"{claim.budget:g}"}
        is_ratio = claim.neutral == 1
        show, scale = (numbers.times, 1) if is_ratio else (numbers.plain, 100)  # BLEU to 100
        ours = _interval(claim.ours, show, scale)
        sign = f"{_SIGNS[claim.ordering]} {say(f'claims.{claim.ordering}')}"
        rows.append(
            [say(f"claims.{claim.name}", **budget), show(scale * claim.article), ours, sign]
        )
    speeds = {"sampling": SAMPLING_SPEED, "exact": SPECULATIVE_SPEED, "mentored": MENTORED_SPEED}
    return _section("claims", head, rows, say, bleu=100 * SAMPLING_BLEU, **speeds)


def _verdicts(verdicts: Sequence[Any], say: Words) -> str:
    """Every rule against mentored decoding."""
    head = [
        say(f"verdicts.{part}")
        for part in ("rule", "divergence", "speed", "passes", "winner", "of")
    ]
    rows = []
    for verdict in (v for v in verdicts if v.measure == "kl"):
        times = (verdict.times_divergence, verdict.times_speed, verdict.times_passes)
        rows.append(
            [
                say.known(f"verifier.{verdict.rule}", verdict.rule.replace("_", " ")),
                *(_interval(value, numbers.times) for value in times),
                say(f"verdicts.{'rule.wins' if verdict.winner == 'rule' else verdict.winner}"),
                f"{verdict.num_settings}/{verdict.num_all}",
            ]
        )
    return _section("verdicts", head, rows, say)


def _contrasts(contrasts: Sequence[Any], say: Words) -> str:
    """Kinds with many valid answers against kinds with few."""
    head = [say(f"contrasts.{part}") for part in ("budget", "measure", "difference", "answer")]
    rows = [
        [
            f"{c.budget:g}",
            say(f"contrasts.{c.measure}"),
            _interval(c.difference, numbers.plain),
            say("claims.open" if c.answer == "open" else f"contrasts.{c.answer}"),
        ]
        for c in contrasts
    ]
    return _section("contrasts", head, rows, say)


def _interval(found: Interval | None, show: Callable[[float | None], str], scale: float = 1) -> str:
    if found is None:
        return numbers.NONE
    ends = (numbers.plain(scale * found.low), numbers.plain(scale * found.high))
    return f"{show(scale * found.value)} [{', '.join(ends)}]"


def _section(
    name: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    say: Words,
    **values: float,
) -> str:
    cells = "".join(f'<th scope="col">{escape(text)}</th>' for text in head)
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>'
        + "".join(f"<td>{escape(text)}</td>" for text in rest)
        + "</tr>"
        for first, *rest in rows
    )
    shown = {key: numbers.plain(value) for key, value in values.items()}
    return (
        f"<h3>{escape(say(f'{name}.title'))}</h3><p>{escape(say(f'{name}.text', **shown))}</p>"
        f'<div class="dp-scroll"><table class="dp-table"><thead><tr>{cells}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


_TABLES: dict[str, Callable[[Sequence[Any], Words], str]] = {
    "claims": _claims,
    "verdicts": _verdicts,
    "contrasts": _contrasts,
}
