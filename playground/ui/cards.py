"""HTML of a run's card, and of the table. Every outside string is escaped once, here."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from playground.charts import colour_of
from playground.methods import METHODS, fields_of
from playground.ui import numbers
from playground.ui.board import RunView
from playground.ui.strings import say
from playground.ui.tokens import chips_html, legend_html

_NATS = {"kl", "reverse_kl", "js"}
_SHORT = {"kl": "KL", "reverse_kl": "reverse KL", "js": "JS", "tv": "TV"}

# Metrics of a card: the id of its words, the row's key, how the number is shown.
_METRICS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("speedup", "speedup", numbers.times),
    ("speed", "tokens_per_s", numbers.speed),
    ("total", "total_s", numbers.seconds),
    ("first", "ttft_s", numbers.seconds),
    ("passes", "num_target_passes", numbers.count),
    ("accepted", "acceptance_rate", numbers.percent),
    ("per_pass", "tokens_per_target_pass", numbers.plain),
)
# Columns of the table; their units stand in the heads.
_TABLE: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("speedup", "speedup", numbers.plain),
    ("speed", "tokens_per_s", numbers.plain),
    ("total", "total_s", numbers.plain),
    ("first", "ttft_s", numbers.plain),
    *_METRICS[4:],
    ("spent", "mean_divergence", numbers.plain),
    ("fidelity", "fidelity", numbers.percent),
    ("logprob", "target_logprob", numbers.plain),
)


def card_html(view: RunView) -> str:
    """The card of one run in its present state."""
    colour = colour_of(view.method)
    return (
        f'<article class="dp-card dp-{view.state}" style="--dp-colour:{colour}" '
        f'data-run="{escape(view.label)}" data-state="{view.state}">'
        f"{_head(view)}{_bar(view)}{_body(view)}{_metrics(view)}{_foot(view)}</article>"
    )


def title_of(view: RunView) -> str:
    """ "Beam W 4": the label and the settings whose names end in a symbol."""
    return " · ".join([name_of(view.label), *_symbols(view)])


def name_of(label: str) -> str:
    """A method's name, or a label, as a title."""
    text = label.replace("_", " ")
    return text[:1].upper() + text[1:]


def table_html(rows: Sequence[dict[str, Any]]) -> str:
    """The numbers of all ended runs, a row each."""
    heads = "".join(
        f"<th{_tip(key)}>{say(f'table.{key}', divergence='KL')}</th>" for key, *_ in _TABLE
    )
    body = "".join(_table_row(row) for row in rows)
    head = f"<tr><th>{say('table.run')}</th>{heads}</tr>"
    return (
        f'<div class="dp-scroll" tabindex="0" role="region" aria-label="{say("table.caption")}">'
        f'<table class="dp-table"><thead>{head}</thead><tbody>{body}</tbody></table></div>'
    )


def _head(view: RunView) -> str:
    line = METHODS[view.method].line
    return (
        f'<header><h3>{escape(title_of(view))}</h3>{_badge(view)}</header><p class="dp-line-of">'
        f"{escape(line)}</p>"
    )


def _symbols(view: RunView) -> list[str]:
    fields = fields_of(view.method, view.params)
    named = ((f.name, str(f.metadata.get("label") or "").split()[-1:]) for f in fields)
    return [f"{s[0]}\u00a0{view.params[name]:g}" for name, s in named if s and len(s[0]) == 1]


def _badge(view: RunView) -> str:
    budget = view.params.get("divergence_budget")
    key, values = view.badge, {}
    if view.badge == "lossy" and budget is not None:
        kind = str(view.params.get("divergence"))
        key, values = "bounded", {"budget": f"{budget:g}", "unit": _unit(kind)}
    text, tip = say(f"badge.{key}", **values), say(f"badge.{key}.tip")
    classes = f"dp-badge dp-badge-{view.badge}"
    return f'<span class="{classes}" title="{escape(tip)}">{escape(text)}</span>'


def _unit(divergence: str) -> str:
    return say("unit.nats") if divergence in _NATS else _SHORT.get(divergence, divergence)


def _bar(view: RunView) -> str:
    """A thin bar: how much of the token limit is written."""
    share = {"done": 1.0, "idle": 0.0, "waiting": 0.0}.get(view.state)
    share = min(1.0, view.num_tokens / view.limit) if share is None else share
    return f'<div class="dp-bar"><i style="width:{100 * share:.0f}%"></i></div>'


def _body(view: RunView) -> str:
    note = say(f"card.{view.state}")
    if view.state == "failed":
        text = escape(say("card.error", reason=view.error))
        return f'<div class="dp-text dp-error" role="alert">{text}</div>'
    ended = view.result is not None and view.state in ("done", "stopped")
    if ended and view.result is not None and view.result.tokens:
        tokens = view.result.tokens
        return f'<div class="dp-text">{chips_html(tokens)}</div>{legend_html(tokens)}'
    if view.text:
        return f'<div class="dp-text" aria-busy="true">{escape(view.text)}</div>'
    return f'<div class="dp-text dp-none">{escape(note or say("card.empty"))}</div>'


def _metrics(view: RunView) -> str:
    row = view.row or _running_row(view)
    cells = [_cell(key, row, show(row.get(name)), view) for key, name, show in _METRICS]
    cells.append(_cell("spent", row, _spent(row), view))
    return f'<dl class="dp-metrics">{"".join(cells)}</dl>'


def _cell(key: str, row: dict[str, Any], value: str, view: RunView) -> str:
    baseline = name_of(view.baseline) if view.baseline else say("runs.label")
    tip = say(f"metric.{key}.tip", baseline=baseline)
    return (
        f'<div tabindex="0" data-tip="{escape(tip)}"><dt>{_words(key, row)}</dt>'
        f"<dd>{escape(value)}</dd></div>"
    )


def _running_row(view: RunView) -> dict[str, Any]:
    """What is known before a run can be compared: its metrics, or speed and time so far."""
    row: dict[str, Any] = {"params": view.params}
    if view.result is not None:
        return row | dataclasses.asdict(view.result.metrics)
    if view.num_tokens and view.elapsed_s:
        row |= {"tokens_per_s": view.num_tokens / view.elapsed_s, "total_s": view.elapsed_s}
    return row


def _spent(row: dict[str, Any]) -> str:
    """ "0.11 of 0.2": divergence spent and its budget; the budget's own kind where it has one."""
    params = row.get("params") or {}
    spent, budget = row.get("mean_budget_divergence"), params.get("divergence_budget")
    if spent is None or budget is None:
        return numbers.plain(row.get("mean_divergence"))
    return f"{numbers.plain(spent)} of {budget:g}"


def _words(key: str, row: dict[str, Any]) -> str:
    kind = str((row.get("params") or {}).get("divergence") or "kl")
    return escape(say(f"metric.{key}", divergence=_SHORT.get(kind, kind)))


def _tip(key: str) -> str:
    return f' title="{escape(say(f"metric.{key}.tip", baseline=say("table.baseline")))}"'


def _foot(view: RunView) -> str:
    """State, end and notes on the left; all settings behind a fold."""
    parts = [say(f"card.{view.state}")] if view.state not in ("idle", "failed") else []
    if view.result is not None and view.state in ("done", "stopped"):
        parts = [say(f"finish.{view.result.finish_reason}"), *view.result.notes]
        parts.insert(0, f"{view.result.metrics.num_new_tokens} tokens")
    state = " · ".join(part for part in parts if part)
    settings = ", ".join(f"{k} {v}" for k, v in view.params.items() if v not in (None, ""))
    return (
        f'<footer><span class="dp-state">{escape(state)}</span><details><summary>'
        f"{say('card.settings')}</summary><p>{escape(settings)}</p></details></footer>"
    )


def _table_row(row: dict[str, Any]) -> str:
    dot = f'<i class="dp-dot" style="background:{colour_of(str(row["method"]))}"></i>'
    cells = "".join(f"<td>{escape(show(row.get(name)))}</td>" for _, name, show in _TABLE)
    return f"<tr><th>{dot}{escape(name_of(str(row['label'])))}</th>{cells}</tr>"
