"""Token chips: the text of a run, each token marked with why it is there.

Chips are inline spans whose only text is the token's own, so that a copied selection is exactly
the run's text. Everything else in them (names of special tokens, signs for blanks, rejected draft
tokens, the flag at a difference) is drawn by the style sheet from attributes. What the details of a
token say stands in a block of JSON, which assets/js/tokens.js shows on hover, tap and focus.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from playground.metrics import first_difference, round_spans
from playground.types import DecodeResult, Token, to_json
from playground.ui.numbers import percent, plain, rough
from playground.ui.strings import Words

KINDS = ("accepted", "mentored", "residual", "bonus", "plain")  # in the order of the legend
NEAR_TIE = 0.25  # two steps of bfloat16 between 16 and 32, where the best logits usually lie
_SIGNS = {" ": "·", "\n": "⏎", "\t": "⇥"}
_ROWS = ("target", "draft", "rejected", "accept", "exact", "u", "spent", "counted", "gap")


def kind_of(token: Token) -> str:
    """Which chip a token gets: a source, "mentored" for what exact speculation would have refused,
    or "plain" for what was drawn or searched without a draft."""
    if token.source == "accepted":
        exact, u = token.exact_accept_prob, token.u
        return "mentored" if exact is not None and u is not None and u >= exact else "accepted"
    return token.source if token.source in KINDS else "plain"


def chips_html(result: DecodeResult, say: Words, mark: int | None = None) -> str:
    """The text of a run as chips, with the legend, the switches and the data of the details.

    mark: position of a token to flag, as the first that differs from another run's.
    """
    rejected = rejected_at(result)
    label = escape(say("chips.label"))
    return (
        f'<div class="dp-tokens"><div class="dp-text" role="group" aria-label="{label}">'
        f"{_chips(result.tokens, rejected, say, mark)}</div>"
        f'<div class="dp-tools">{_legend(result, bool(rejected), say)}'
        f"{_switches(bool(rejected), say)}</div>{data_html(_details(result, rejected, say))}</div>"
    )


def chip(token: Token, attributes: str = "") -> str:
    """One token as a span."""
    text = token.text or ""
    classes = f"dp-t dp-{kind_of(token)}"
    if token.special:
        classes += " dp-special"
        attributes += f' data-name="{escape(token.special)}"'
    elif not text:
        classes += " dp-part"  # a piece of a character that a later token completes
    elif text.isspace() and text != " ":
        classes += " dp-blank"
    return f'<span class="{classes}"{attributes}>{_marked(text)}</span>'


def visible(text: str) -> str:
    """The text with signs in place of blanks and line ends."""
    return "".join(_SIGNS.get(c, c) for c in text)


def name_of_token(token: Token) -> str:
    """What a token is called in details and sentences: its text, its special name, or its id."""
    return token.special or visible(token.text or "") or f"#{token.token_id}"


def data_html(value: Any) -> str:
    """`value` as an inert block of JSON; no character of it can end the block or be markup."""
    text = json.dumps(to_json(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return f'<script type="application/json" class="dp-data">{text}</script>'


def rejected_at(result: DecodeResult) -> dict[int, tuple[str, list[str]]]:
    """By position of the token that replaced it: the draft token that was rejected there, and those
    behind it that were dropped untested, by name."""
    found = {}
    spans = round_spans(result.tokens, result.rounds)
    for record, span in zip(result.rounds, spans, strict=True):
        at = span.start + record.num_accepted
        names = draft_names(record.draft_ids, record.draft_texts)[record.num_accepted :]
        if record.num_tested > record.num_accepted and at in span and names:
            found[at] = (names[0], names[1:])
    return found


def draft_names(ids: Sequence[int], texts: Sequence[str] | None) -> list[str]:
    """Drafted tokens as they are called: their texts, or their ids where no text is known."""
    texts = texts or [""] * len(ids)
    return [visible(t) or f"#{i}" for i, t in zip(ids, texts, strict=False)]


def difference_html(
    first: DecodeResult, second: DecodeResult, names: tuple[str, str], say: Words
) -> str:
    """A sentence: where two runs first differ and, where that is known, why."""
    at = first_difference(first.token_ids, second.token_ids)
    if at is None:
        return f'<p class="dp-difference">{escape(say("difference.none"))}</p>'
    there = [run.tokens[at] if at < len(run.tokens) else None for run in (first, second)]
    shown = [name_of_token(t) if t else say("difference.end") for t in there]
    sentence = say(
        "difference.at",
        number=at + 1,
        first=shown[0],
        name=names[0],
        second=shown[1],
        other=names[1],
    )
    sentences = [sentence, *_reasons([t for t in there if t is not None], say)]
    return f'<p class="dp-difference">{escape(" ".join(sentences))}</p>'


def _reasons(tokens: Sequence[Token], say: Words) -> list[str]:
    """Why tokens at the same position may differ: a budget, or a near-tie of the best logits."""
    bought = [name_of_token(t) for t in tokens if kind_of(t) == "mentored"]
    if bought:
        return [say("difference.mentored", token=bought[0])]
    picked = [t.logit_gap for t in tokens if t.logit_gap is not None and t.source != "beam"]
    if not picked or len(picked) < len(tokens):
        return []
    key = "tie" if min(picked) < NEAR_TIE else "apart"
    return [say(f"difference.{key}", gap=plain(min(picked)))]


def _marked(text: str) -> str:
    """The text, each blank and line end in an element that can show a sign for it."""
    marked = re.sub("[ \n\t]", lambda m: f'<i data-s="{_SIGNS[m[0]]}">{m[0]}</i>', escape(text))
    return marked.replace("\r", "&#13;")  # a bare one would be read as a line feed


def _chips(
    tokens: Sequence[Token],
    rejected: dict[int, tuple[str, list[str]]],
    say: Words,
    mark: int | None,
) -> str:
    flag = f'<i class="dp-flag" role="img" aria-label="{escape(say("chips.flag"))}"></i>'
    parts = []
    for i, token in enumerate(tokens):
        parts += [flag] if i == mark else []
        parts += [_struck(*rejected[i])] if i in rejected else []
        parts.append(chip(token, ' tabindex="0"' if i == 0 else ""))
    return "".join([*parts, flag if mark is not None and mark >= len(tokens) else ""])


def _struck(first: str, rest: Sequence[str]) -> str:
    dropped = f'<i class="dp-x dp-dropped" data-text="{escape("".join(rest))}"></i>'
    return f'<i class="dp-x" data-text="{escape(first)}"></i>{dropped if rest else ""}'


def kind_names(result: DecodeResult, say: Words) -> dict[str, str]:
    """What the kinds of chips are called in a run."""
    names = {kind: say(f"kind.{kind}") for kind in KINDS}
    if result.params.get("divergence_budget") is None:
        names["mentored"] = say("kind.lossy")  # a rule without a D
    return names


def _legend(result: DecodeResult, rejected: bool, say: Words) -> str:
    """A key to the kinds that occur; empty where every token is plain."""
    found = {kind_of(token) for token in result.tokens}
    keys = [
        f'<span class="dp-key dp-{kind}">{escape(name)}</span>'
        for kind, name in kind_names(result, say).items()
        if kind in found and not found <= {"plain"}
    ]
    if rejected:
        keys.append(f'<span class="dp-key dp-x">{escape(say("kind.rejected"))}</span>')
    return f'<span class="dp-legend">{"".join(keys)}</span>'


def _switches(rejected: bool, say: Words) -> str:
    switches = ["spaces", *(["rejected"] if rejected else [])]
    pressed = {name: ' aria-pressed="false"' for name in switches}
    buttons = "".join(
        f'<button type="button" class="dp-tool" data-dp="{name}"{pressed.get(name, "")} '
        f'title="{escape(say(f"chips.{name}.tip"))}">{escape(say(f"chips.{name}"))}</button>'
        for name in (*switches, "copy")
    )
    return f'<span class="dp-switches">{buttons}</span>'


def _details(
    result: DecodeResult, rejected: dict[int, tuple[str, list[str]]], say: Words
) -> dict[str, Any]:
    """The run's text, the words of the details, and for every token what there is to know of it."""
    words = {name: say(f"chip.{name}") for name in _ROWS}
    words |= {f"kind.{kind}": name for kind, name in kind_names(result, say).items()}
    words |= {key: say(f"chips.{key}") for key in ("copy", "copied", "others")}
    return {
        "text": result.text or "",
        "words": words,
        "tokens": [
            {
                "name": name_of_token(token),
                "id": token.token_id,
                "kind": kind_of(token),
                "rows": _rows(token, rejected.get(i), result.badge == "lossy", say),
                "others": _others(token),
            }
            for i, token in enumerate(result.tokens)
        ],
    }


def _rows(
    token: Token, rejected: tuple[str, list[str]] | None, lossy: bool, say: Words
) -> dict[str, str]:
    """Named values; what does not exist is left out."""
    nats = say("unit.nats")
    counted = token.budget_divergence if token.budget_divergence != token.divergence else None
    found = {
        "target": _known(token.target_prob, percent),
        "draft": _known(token.draft_prob, percent),
        "rejected": rejected[0] if rejected else None,
        "accept": _known(token.accept_prob, percent),
        "exact": _known(token.exact_accept_prob if lossy else None, percent),
        "u": _known(token.u, percent),
        "spent": _known(token.divergence, lambda value: f"{plain(value)} {nats}"),
        "counted": _known(counted, plain),
        "gap": _known(token.logit_gap, plain),
    }
    return {name: value for name, value in found.items() if value is not None}


def _known(value: float | None, show: Callable[[float], str]) -> str | None:
    return None if value is None else show(value)


def _others(token: Token) -> list[list[str]]:
    """The most probable tokens of both laws: name, probability under the target and the draft."""
    return [
        [
            visible(a.text) if a.text else f"#{a.token_id}",
            *(rough(prob) for prob in (a.target_prob, a.draft_prob) if prob is not None),
        ]
        for a in token.alternatives
    ]
