"""What the Frontier tab says about a sweep, as HTML and a figure. Pure: records in, text out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from playground.axes import X_AXES, Y_AXES, available
from playground.charts import WORDS
from playground.frontier_chart import colour_of_record, frontier
from playground.results import Result
from playground.ui import numbers
from playground.ui.runs import name_of
from playground.ui.strings import Words
from playground.ui.sweeping import Sweeping

Record = Mapping[str, Any]
Show = Callable[[float | None], str]

# Columns of the table: string id, key in a record, how it is shown.
_COLUMNS: tuple[tuple[str, str, Show], ...] = (
    ("speed", "tokens_per_s", numbers.plain),
    ("faster", "faster", numbers.times),
    ("accepted", "tested_acceptance_rate", numbers.percent),
    ("per_pass", "tokens_per_target_pass", numbers.plain),
    ("spent", "mean_divergence", numbers.plain),
    ("fidelity", "fidelity", numbers.percent),
    ("logprob", "target_logprob", numbers.plain),
    ("bleu", "bleu", numbers.plain),
    ("bleu_change", "bleu_change", numbers.plain),
    ("chrf", "chrf", numbers.plain),
    ("sentence_bleu", "sentence_bleu", numbers.plain),
)
_FACTS = ("device", "processor", "cores", "threads", "python", "torch", "transformers")
_LATEST = 4  # rows beside the bar
_SIGNS = ("γ", "D")
_SHORT = {" num beams ": " W ", " length norm ": " norm "}


def axes_of(result: Result) -> tuple[list[str], list[str]]:
    """The axes on which a result has values: across, up. What is best to start with comes first."""
    across, up = available(result.records, X_AXES), available(result.records, Y_AXES)
    up.sort(key=lambda name: name != "bleu")  # what readers ask for first, where there is one
    return across or list(X_AXES), up or list(Y_AXES)


def figure(result: Result, x: str, y: str, say: Words) -> Any:
    """Speed against quality, in the page's language."""
    records = [record | {"label": label_of(record, say)} for record in result.records]
    words = {name: say.known(f"chart.{name}", text) for name, text in WORDS.items()}
    drawn = frontier(records, x, y, words)
    below = {"orientation": "h", "x": 0, "y": -0.14, "yanchor": "top"}  # a phone has no room beside
    return drawn.update_layout(height=560, legend=below)


def label_of(record: Record, say: Words) -> str:
    """A configuration's label as the page has it: "Mentored γ 3 D 0.2"; a rule of speculative
    decoding by its own name, "Lenience 0.8"."""
    label, method = str(record["label"]), str(record["method"])
    if record["model"] == "draft":
        return say("frontier.draft_alone")
    for long, short in _SHORT.items():
        label = label.replace(long, short)
    head, *rest = label.split()
    if head != method:
        return label
    rule = str(record["params"].get("verifier", ""))
    if not rest or rest[0] != rule:
        return " ".join([name_of(method, say), *rest])
    own = [word for word in rest[1:] if word in _SIGNS or word[0].isdigit()]
    shown = say.known(f"verifier.{rule}", rule.replace("_", "-"))
    return " ".join([shown[:1].upper() + shown[1:], *own])


# --- the table ------------------------------------------------------------------------------------


def table_html(records: Sequence[Record], say: Words) -> str:
    """A row for every configuration, intervals under the values; a star for the Pareto front."""
    shown = [c for c in _COLUMNS if any(record.get(c[1]) is not None for record in records)]
    head = "".join(_head(key, say) for key, _, _ in shown)
    body = "".join(_row(record, shown, say) for record in records)
    return (
        '<div class="dp-scroll dp-tall"><table class="dp-table dp-frontier"><thead><tr>'
        f"<th>{escape(say('frontier.configuration'))}</th>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _head(key: str, say: Words) -> str:
    tip = escape(say(f"frontier.{key}.tip"))
    return f'<th scope="col" title="{tip}">{escape(say(f"frontier.{key}"))}</th>'


def _row(record: Record, columns: Sequence[tuple[str, str, Show]], say: Words) -> str:
    star = f' <abbr title="{escape(say("chart.front"))}">★</abbr>' if record["on_front"] else ""
    cells = "".join(_cell(record, name, show) for _, name, show in columns)
    dot = f'<i class="dp-dot" style="background:{colour_of_record(record)}"></i>'
    return f'<tr><th scope="row">{dot}{escape(label_of(record, say))}{star}</th>{cells}</tr>'


def _cell(record: Record, name: str, show: Show) -> str:
    low, high = record.get(f"{name}_low"), record.get(f"{name}_high")
    span = ""
    if low is not None and high is not None and low != high:
        span = f"<small>{escape(_bare(show(low)))} – {escape(_bare(show(high)))}</small>"
    return f"<td>{escape(show(record.get(name)))}{span}</td>"


def _bare(text: str) -> str:
    """Without the unit, which the value above has."""
    return text.rstrip(" %×")


# --- what beats what ------------------------------------------------------------------------------


def paired_html(records: Sequence[Record], say: Words) -> str:
    """What each configuration on the front gains and loses against the fastest exact one."""
    if not records:
        return ""
    base = next((r for r in records if r["label"] == records[0]["baseline"]), records[0])
    items = [
        f"<li>{escape(paired(record, say))}</li>"
        for record in records
        if record["on_front"] and record["label"] != base["label"]
    ]
    head = say("frontier.paired", baseline=label_of(base, say), prompts=base["num_prompts"])
    return f"<p>{escape(head)}</p><ul>{''.join(items)}</ul>" if items else ""


def paired(record: Record, say: Words) -> str:
    """ "Mentored γ 7 D 0.2: faster by 1.21× [1.08, 1.35], BLEU lower by 0.5 [0.1, 0.9]" """
    parts = []
    if record.get("faster") is not None:
        word = "faster" if record["faster"] >= 1 else "slower"
        parts.append(say(f"frontier.{word}.by", value=_spread(record, "faster", numbers.times)))
    for name, shown in (("bleu_change", "BLEU"), ("chrf_change", "chrF")):
        if record.get(name) is not None:
            key, sign = _direction(record, name)
            value = _spread(record, name, numbers.plain, sign)
            parts.append(say(key, metric=shown, value=value))
    if record.get("mean_divergence"):
        value = _spread(record, "mean_divergence", numbers.plain)
        parts.append(say("frontier.spends", value=value))
    joined = say("frontier.comma").join(parts)
    return say("frontier.sentence", label=label_of(record, say), parts=joined)


def _direction(record: Record, name: str) -> tuple[str, int]:
    """What a change is called, and the sign that it then has; none where its interval holds 0."""
    if record[f"{name}_low"] <= 0 <= record[f"{name}_high"]:
        return "frontier.unclear", 1
    return ("frontier.lower", -1) if record[name] < 0 else ("frontier.higher", 1)


def _spread(record: Record, name: str, show: Show, sign: int = 1) -> str:
    ends = sorted(sign * record[f"{name}_{end}"] for end in ("low", "high"))
    return f"{show(sign * record[name])} [{', '.join(numbers.plain(end) for end in ends)}]"


# --- how it was made ------------------------------------------------------------------------------


def note_html(result: Result, say: Words) -> str:
    """What a result is, in a few words; the script reads its name for the address."""
    key = f"result.{result.name}.note" if result.name else "result.own.note"
    prompts = result.records[0]["num_prompts"] if result.records else 0
    text = say.known(key, "")
    count = say("frontier.count", prompts=prompts, configurations=len(result.records))
    return f'<p data-result="{escape(result.name)}">{escape(text)} {escape(count)}</p>'


def record_html(result: Result, say: Words) -> str:
    """Machine, versions, precision, seed, data and scores: what anybody needs to repeat it."""
    sweep, visit = result.record.get("sweep", {}), result.visit
    facts = {
        "pair": visit.get("pair"),
        "dataset": visit.get("dataset"),
        "prompts": visit.get("prompts"),
        "precision": sweep.get("precision"),
        "seed": sweep.get("seed"),
        "started": visit.get("started"),
        **{name: visit.get(name) for name in _FACTS},
        "git_commit": visit.get("git_commit"),
        "settings": _common(result, say),
        **{f"score.{k}": text for k, text in result.record.get("signatures", {}).items()},
    }
    rows = "".join(
        f"<dt>{escape(_fact(name, say))}</dt><dd>{escape(str(value))}</dd>"
        for name, value in facts.items()
        if value not in (None, "")
    )
    return f'<dl class="dp-facts">{rows}</dl>'


def _fact(name: str, say: Words) -> str:
    kind, _, score = name.partition("score.")
    if kind:
        return say(f"fact.{name}")
    names = {"bleu": "BLEU", "chrf": "chrF", "sentence_bleu": say("frontier.sentence_bleu")}
    return say("fact.score", metric=names.get(score, score))


def _common(result: Result, say: Words) -> str:
    """The settings that all configurations share."""
    every = [record["params"] or {} for record in result.records]
    if not every:
        return ""
    shared = {k: v for k, v in every[0].items() if all(p.get(k) == v for p in every)}
    return say("frontier.comma").join(f"{k} {v}" for k, v in shared.items())


def command_html(command: str, say: Words, name: str) -> str:
    """A command line to copy."""
    if not command:
        return ""
    return (
        f'<div class="dp-command"><textarea id="command-{name}" rows="3" readonly '
        f'spellcheck="false" aria-label="{escape(say("frontier.command"))}">{escape(command)}'
        f'</textarea><button type="button" class="dp-button" data-do="snippet" '
        f'data-done="{escape(say("chips.copied"))}">{escape(say("embed.copy"))}</button></div>'
    )


# --- a sweep on its way ---------------------------------------------------------------------------


def progress_html(sweeping: Sweeping, say: Words) -> str:
    """A bar, how long it may still take, and the latest runs."""
    done, total = sweeping.done, sweeping.total
    text = say("sweep.progress", done=done, total=total)
    if sweeping.left_s is not None and done < total:
        left = say("sweep.left", seconds=numbers.seconds(max(1.0, round(sweeping.left_s))))
        text = f"{text}{say('frontier.comma')}{left}"
    latest = list(sweeping.rows.values())[-_LATEST:][::-1]
    items = "".join(f"<li>{escape(_latest(row, say))}</li>" for row in latest)
    bar = f'<progress max="{total}" value="{done}" aria-label="{escape(text)}"></progress>'
    return f'<div class="dp-sweeping"><p>{escape(text)}</p>{bar}<ol>{items}</ol></div>'


def _latest(row: Record, say: Words) -> str:
    return say(
        "sweep.latest",
        prompt=row["prompt_id"],
        label=label_of(row, say),
        tokens=row["num_new_tokens"],
        speed=numbers.speed(row["tokens_per_s"]),
    )
