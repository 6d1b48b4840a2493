"""Records as plain text for a terminal: aligned tables and one-line summaries.

Numbers have three significant digits; what does not exist is "–".
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from playground.charts import three
from playground.compare import Comparison
from playground.mentored import Optimum
from playground.types import DecodeResult, PairSpec

NONE = "–"
_MAIN = {
    "tok/s": "tokens_per_s",
    "×": "speedup",
    "accepted %": "acceptance_rate",
    "tokens/pass": "tokens_per_target_pass",
    "KL": "mean_divergence",
    "fidelity %": "fidelity",
}
_COLUMNS = _MAIN | {"first s": "ttft_s", "total s": "total_s"}
_SWEEP_COLUMNS = _MAIN | {
    "ln p": "target_logprob",
    "BLEU": "bleu",
    "chrF": "chrf",
    "sentence BLEU": "sentence_bleu",
}


def three_digits(value: float | None) -> str:
    """Three significant digits; "–" for none."""
    return NONE if value is None else three(value).replace("−", "-")  # as programs read it


def table(header: Sequence[str], rows: Sequence[Sequence[str]], num_left: int = 1) -> str:
    """Aligned columns: the first `num_left` to the left, numbers to the right."""
    columns = list(zip(header, *rows, strict=True))
    widths = [max(map(_width, column)) for column in columns]
    lines = []
    for row in (header, *rows):
        cells = [_padded(cell, widths[i], i < num_left) for i, cell in enumerate(row)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _padded(cell: str, width: int, left: bool) -> str:
    space = " " * (width - _width(cell))
    return cell + space if left else space + cell


def _width(text: str) -> int:
    """Columns that a text takes in a terminal: Chinese characters take two, accents none."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) > 0 for char in text)


def comparison(found: Comparison) -> str:
    """A row for every run, then every run's text."""
    rows, columns = [], dict(_COLUMNS)
    if found.reference_text is not None:
        columns |= {"BLEU": "bleu", "chrF": "chrf"}
    for record in found.rows():
        values = {title: record.get(key) for title, key in columns.items()}
        cells = [three_digits(_scaled(title, value)) for title, value in values.items()]
        rows.append([str(record["label"]), str(record["badge"]), *cells])
    texts = [f"[{label}]\n{text(result)}" for label, result in found.results.items()]
    return "\n\n".join([table(["run", "badge", *columns], rows, num_left=2), *texts])


def _scaled(title: str, value: float | None) -> float | None:
    return 100 * value if value is not None and title.endswith("%") else value


def text(result: DecodeResult) -> str:
    """The text of a run, its ids where there is no tokenizer, every beam where it has several."""
    if len(result.beams) > 1:
        return "\n".join(
            f"{three_digits(beam.score)}  {_words(beam.text, beam.token_ids)}"
            for beam in result.beams
        )
    return _words(result.text, result.token_ids)


def _words(text: str | None, ids: Sequence[int]) -> str:
    return " ".join(map(str, ids)) if text is None else text


def summary(label: str, result: DecodeResult) -> str:
    """One line on a finished run."""
    metrics, count = result.metrics, result.metrics.num_new_tokens
    facts = [
        f"{count} token{'' if count == 1 else 's'} ({result.finish_reason})",
        f"{three_digits(metrics.total_s)} s",
        f"{three_digits(metrics.tokens_per_s)} tokens/s",
    ]
    if metrics.acceptance_rate is not None:
        facts.append(f"accepted {three_digits(100 * metrics.acceptance_rate)} %")
    return f"{label}: {', '.join([*facts, *result.notes])}"


def optimum(
    found: Optimum, target: Sequence[float], draft: Sequence[float], exact_acceptance: float
) -> str:
    """The numbers of an optimum, then a row for every token."""
    facts = {
        "alpha": found.alpha,
        "beta": found.beta,
        "acceptance": found.acceptance,
        "exact rule's acceptance": exact_acceptance,
        "divergence spent": found.divergence_spent,
    }
    lines = [f"{name:<24}{three_digits(value)}" for name, value in facts.items()]
    columns: dict[str, Sequence[float]] = {
        "target": target,
        "draft": draft,
        "output": found.output_probs.tolist(),
        "accept": found.accept_probs.tolist(),
        "residual": found.residual_probs.tolist(),
    }
    rows = [
        [str(i), *map(three_digits, row)]
        for i, row in enumerate(zip(*columns.values(), strict=True))
    ]
    return "\n".join([*lines, "", table(["token", *columns], rows, num_left=0)])


def pairs(specs: Sequence[PairSpec]) -> str:
    """A row for every pair."""
    rows = [[p.name, p.title, "embedded" if p.embedded else "Hub", p.license] for p in specs]
    return table(["name", "title", "where", "licence"], rows, num_left=4)


def sweep(records: Sequence[Mapping[str, Any]], signatures: Mapping[str, str]) -> str:
    """A row for every configuration, * for those on the Pareto front; then each compared with the
    baseline, with intervals."""
    if not records:
        return "No prompt is complete yet."
    known = {t: name for t, name in _SWEEP_COLUMNS.items() if any(r.get(name) for r in records)}
    rows = []
    for record in records:
        cells = [three_digits(_scaled(t, record.get(name))) for t, name in known.items()]
        rows.append([record["label"] + " *" * record["on_front"], *cells])
    first, base = records[0], records[0]["baseline"]
    head = f"{first['num_prompts']} prompts; baseline: {base}; [95 % of 1000 resamples of prompts]"
    others = [f"{r['label']}: {changes(r)}" for r in records if r["label"] != base]
    scored = [f"{name}: {signature}" for name, signature in signatures.items()]
    return "\n".join([table(["run", *known], rows), "", head, *others, *scored])


def changes(record: Mapping[str, Any]) -> str:
    """What a configuration gains and loses against its baseline: "× 1.12 [1.08, 1.16] ..."."""
    parts = [f"× {_spread(record, 'faster')} as fast"] if record["faster"] else []
    for name, word in (("bleu_change", "BLEU"), ("chrf_change", "chrF")):
        if record.get(name) is not None:
            less = "lower" if record[name] < 0 else "higher"
            parts.append(f"{word} {less} by {_spread(record, name, -1 if less == 'lower' else 1)}")
    if record["mean_divergence"]:
        parts.append(f"KL spent {_spread(record, 'mean_divergence')}")
    return ", ".join(parts)


def _spread(record: Mapping[str, Any], name: str, sign: int = 1) -> str:
    ends = sorted(sign * record[f"{name}_{end}"] for end in ("low", "high"))
    return f"{three(sign * record[name])} [{', '.join(map(three, ends))}]"


def bench(record: dict[str, Any]) -> str:
    """The setup in a line, then a table for every part."""
    setup = ", ".join(f"{name} {value}" for name, value in record["setup"].items())
    parts = [(name, rows) for name, rows in record.items() if name != "setup"]
    return "\n\n".join([setup, *(f"[{name}]\n{_records(rows)}" for name, rows in parts)])


def _records(rows: Sequence[dict[str, Any]]) -> str:
    """A table of records: the columns in the order in which they first occur."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    texts = sum(isinstance(rows[0].get(name), str) for name in columns)
    columns.sort(key=lambda name: not isinstance(rows[0].get(name), str))
    cells = [[_cell(row.get(name)) for name in columns] for row in rows]
    return table([name.replace("_", " ") for name in columns], cells, num_left=texts)


def _cell(value: Any) -> str:
    if isinstance(value, int):
        return str(value)
    return value if isinstance(value, str) else three_digits(value)
