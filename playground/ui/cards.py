"""HTML of a run's card, and of the table. Every outside string is escaped once, here."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from playground.charts import colour_of
from playground.methods import METHODS, fields_of
from playground.ui import numbers
from playground.ui.board import ENDED, RunView
from playground.ui.runs import name_of
from playground.ui.strings import Words
from playground.ui.tokens import chips_html
from playground.verifiers import VERIFIERS

_NATS = {"kl", "reverse_kl", "js"}
_SHORT = {"kl": "KL", "reverse_kl": "reverse KL", "js": "JS", "tv": "TV"}

# The id of its words, the row's key, how the number is shown.
Columns = tuple[tuple[str, str, Callable[[Any], str]], ...]
# Metrics of a card.
_METRICS: Columns = (
    ("speedup", "speedup", numbers.times),
    ("speed", "tokens_per_s", numbers.speed),
    ("total", "total_s", numbers.seconds),
    ("first", "ttft_s", numbers.seconds),
    ("passes", "num_target_passes", numbers.count),
    ("accepted", "acceptance_rate", numbers.percent),
    ("per_pass", "tokens_per_target_pass", numbers.plain),
)
# Columns of the table; their units stand in the heads.
_TABLE: Columns = (
    ("speedup", "speedup", numbers.plain),
    ("speed", "tokens_per_s", numbers.plain),
    ("total", "total_s", numbers.plain),
    ("first", "ttft_s", numbers.plain),
    *_METRICS[4:],
    ("spent", "mean_divergence", numbers.plain),
    ("fidelity", "fidelity", numbers.percent),
    ("logprob", "target_logprob", numbers.plain),
)
# Further ones where a reference was given.
_SCORES: Columns = (("bleu", "bleu", numbers.plain), ("chrf", "chrf", numbers.plain))


def card_html(view: RunView, say: Words) -> str:
    """The card of one run in its present state."""
    colour = colour_of(view.method)
    return (
        f'<article class="dp-card dp-{view.state}" style="--dp-colour:{colour}" '
        f'data-run="{escape(view.label)}" data-state="{view.state}">'
        f"{_head(view, say)}{_bar(view)}{_body(view, say)}"
        f"{_metrics(view, say)}{_foot(view, say)}</article>"
    )


def title_of(label: str, run: dict[str, Any], say: Words) -> str:
    """ "Beam · W 4": the run's name and the settings whose labels end in a symbol."""
    return " · ".join([name_of(label, say), *_symbols(run)])


def table_html(rows: Sequence[dict[str, Any]], say: Words) -> str:
    """The numbers of all ended runs, a row each."""
    scored = next((row for row in rows if "bleu" in row), None)
    columns = _TABLE if scored is None else _TABLE + _SCORES
    heads = "".join(
        f"<th{_tip(key, say)}>{say(f'table.{key}', divergence='KL')}</th>" for key, *_ in columns
    )
    body = "".join(_table_row(row, columns, say) for row in rows)
    signatures = "" if scored is None else _signatures(scored)
    head = f"<tr><th>{say('table.run')}</th>{heads}</tr>"
    return (
        f'<div class="dp-scroll" tabindex="0" role="region" aria-label="{say("table.caption")}">'
        f'<table class="dp-table"><thead>{head}</thead><tbody>{body}</tbody></table></div>'
        f"{signatures}"
    )


def _signatures(row: dict[str, Any]) -> str:
    """What exactly sacrebleu computed."""
    both = (
        f"{name}: {row[f'{key}_signature']}" for name, key in (("BLEU", "bleu"), ("chrF", "chrf"))
    )
    return f'<p class="dp-signature">{escape(" · ".join(both))}</p>'


def _head(view: RunView, say: Words) -> str:
    title = title_of(view.label, {"method": view.method, **view.params}, say)
    head = f"<header><h3>{escape(title)}</h3>{_badge(view, say)}</header>"
    return f'{head}<p class="dp-line-of">{escape(_line(view, say))}</p>'


def _line(view: RunView, say: Words) -> str:
    """What the method does; where a lossy rule judges, what that does."""
    rule = view.params.get("verifier")
    if rule in VERIFIERS and view.badge == "lossy":
        return say.known(f"rule.{rule}", VERIFIERS[rule].line)
    return say.known(f"method.{view.method}", METHODS[view.method].line)


def _symbols(run: dict[str, Any]) -> list[str]:
    fields = fields_of(run["method"], run)
    named = ((f, str(f.metadata.get("label") or "").split()[-1:]) for f in fields)
    return [f"{s[0]}\u00a0{run.get(f.name, f.default)}" for f, s in named if s and len(s[0]) == 1]


def _badge(view: RunView, say: Words) -> str:
    budget = view.params.get("divergence_budget")
    key, values = view.badge, {}
    if view.badge == "lossy" and budget is not None:
        kind = str(view.params.get("divergence"))
        key, values = "bounded", {"budget": f"{budget:g}", "unit": _unit(kind, say)}
    text, tip = say(f"badge.{key}", **values), say(f"badge.{key}.tip")
    classes = f"dp-badge dp-badge-{view.badge}"
    return f'<span class="{classes}" title="{escape(tip)}">{escape(text)}</span>'


def _unit(divergence: str, say: Words) -> str:
    return say("unit.nats") if divergence in _NATS else _SHORT.get(divergence, divergence)


def _bar(view: RunView) -> str:
    """A thin bar: how much of the token limit is written."""
    share = {"done": 1.0, "recorded": 1.0, "idle": 0.0, "waiting": 0.0}.get(view.state)
    share = min(1.0, view.num_tokens / view.limit) if share is None else share
    return f'<div class="dp-bar"><i style="width:{100 * share:.0f}%"></i></div>'


def _body(view: RunView, say: Words) -> str:
    note = say(f"card.{view.state}")
    if view.state == "failed":
        text = escape(say("card.error", reason=view.error))
        return f'<div class="dp-text dp-error" role="alert">{text}</div>'
    result = view.result
    if result is not None and view.state in ENDED and result.tokens:
        if (say, view.mark) not in view.drawn:
            view.drawn[say, view.mark] = chips_html(result, say, view.mark)
        return view.drawn[say, view.mark]
    if view.text:
        return f'<div class="dp-text" aria-busy="true">{escape(view.text)}</div>'
    return f'<div class="dp-text dp-none">{escape(note or say("card.empty"))}</div>'


def _metrics(view: RunView, say: Words) -> str:
    row = view.row or _running_row(view)
    cells = [_cell(key, row, show(row.get(name)), view, say) for key, name, show in _METRICS]
    cells.append(_cell("spent", row, _spent(row, say), view, say))
    return f'<dl class="dp-metrics">{"".join(cells)}</dl>'


def _cell(key: str, row: dict[str, Any], value: str, view: RunView, say: Words) -> str:
    baseline = name_of(view.baseline, say) if view.baseline else say("runs.label")
    tip = say(f"metric.{key}.tip", baseline=baseline)
    return (
        f'<div tabindex="0" data-tip="{escape(tip)}"><dt>{_words(key, row, say)}</dt>'
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


def _spent(row: dict[str, Any], say: Words) -> str:
    """ "0.11 of 0.2": divergence spent and its budget; the budget's own kind where it has one."""
    params = row.get("params") or {}
    spent, budget = row.get("mean_budget_divergence"), params.get("divergence_budget")
    if spent is None or budget is None:
        return numbers.plain(row.get("mean_divergence"))
    return say("card.spent", spent=numbers.plain(spent), budget=f"{budget:g}")


def _words(key: str, row: dict[str, Any], say: Words) -> str:
    kind = str((row.get("params") or {}).get("divergence") or "kl")
    return escape(say(f"metric.{key}", divergence=_SHORT.get(kind, kind)))


def _tip(key: str, say: Words) -> str:
    return f' title="{escape(say(f"metric.{key}.tip", baseline=say("table.baseline")))}"'


def _foot(view: RunView, say: Words) -> str:
    """State, end and notes on the left; all settings behind a fold."""
    parts = [say(f"card.{view.state}")] if view.state not in ("idle", "failed") else []
    if view.result is not None and view.state in ENDED:
        parts = [say(f"finish.{view.result.finish_reason}"), *view.result.notes]
        parts += [say("card.recorded")] if view.state == "recorded" else []
        parts.insert(0, say("card.tokens", count=view.result.metrics.num_new_tokens))
    state = " · ".join(part for part in parts if part)
    settings = ", ".join(f"{k} {v}" for k, v in view.params.items() if v not in (None, ""))
    return (
        f'<footer><span class="dp-state">{escape(state)}</span><details><summary>'
        f"{say('card.settings')}</summary><p>{escape(settings)}</p></details></footer>"
    )


def _table_row(row: dict[str, Any], columns: Columns, say: Words) -> str:
    dot = f'<i class="dp-dot" style="background:{colour_of(str(row["method"]))}"></i>'
    cells = "".join(f"<td>{escape(show(row.get(name)))}</td>" for _, name, show in columns)
    return f"<tr><th>{dot}{escape(name_of(str(row['label']), say))}</th>{cells}</tr>"
