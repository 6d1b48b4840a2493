"""The replay of a run round by round: what was drafted, where it stopped and why, what followed.

Everything that is shown stands in the HTML, as text and in a block of JSON; assets/js/rounds.js
only moves through it.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from playground.metrics import ratio, round_spans
from playground.types import DecodeResult, Round, Token
from playground.ui.numbers import NONE, percent, plain, rough
from playground.ui.strings import Words
from playground.ui.tokens import chip, data_html, draft_names, kind_of, name_of_token

_WORDS = ("round", "play", "pause", "target", "draft", "time", "totals")


def rounds_html(result: DecodeResult, say: Words) -> str:
    """The replay of a speculative run; for a run without rounds, a sentence."""
    if not result.rounds:
        return f'<p class="dp-rounds-none">{escape(say("rounds.none"))}</p>'
    text = "".join(chip(token) for token in result.tokens)
    return (
        f'<section class="dp-rounds" aria-label="{escape(say("rounds.label"))}">'
        f"{_controls(len(result.rounds), say)}"
        f'<p class="dp-hint">{escape(say("rounds.hint"))}</p>'
        '<ol class="dp-drafts"></ol><p class="dp-why" role="status"></p><dl class="dp-sums"></dl>'
        f"<h4>{escape(say('rounds.text'))}</h4>"
        f'<div class="dp-text dp-story" tabindex="0" role="group" '
        f'aria-label="{escape(say("rounds.text"))}">{text}</div>'
        f"{data_html(_data(result, say))}</section>"
    )


def _controls(count: int, say: Words) -> str:
    buttons = "".join(
        f'<button type="button" class="dp-tool dp-{name}" data-dp="{name}" '
        f'aria-label="{escape(say(f"rounds.{name}"))}">{sign}</button>'
        for name, sign in (("previous", "◂"), ("play", "▶"), ("next", "▸"))
    )
    return (
        f'<div class="dp-scrub">{buttons}<input type="range" min="1" max="{count}" value="1" '
        f'aria-label="{escape(say("rounds.round"))}"><output></output></div>'
    )


def _data(result: DecodeResult, say: Words) -> dict[str, Any]:
    spans = round_spans(result.tokens, result.rounds)
    steps, tested, accepted = [], 0, 0
    for number, (record, span) in enumerate(zip(result.rounds, spans, strict=True), 1):
        tested += record.num_tested
        accepted += record.num_accepted
        per_pass = ratio(span.stop, number + 1)  # the prompt's own pass gave the first token
        totals = say("rounds.sums", rate=plain(per_pass), accepted=accepted, tested=tested)
        step = _step(record, result.tokens[span.start : span.stop], say)
        steps.append({"start": span.start, "end": span.stop, "totals": totals, **step})
    words = {name: say(f"rounds.{name}") for name in _WORDS}
    return {"words": words, "rounds": steps}


def _step(record: Round, tokens: Sequence[Token], say: Words) -> dict[str, Any]:
    """One round, as it is drawn."""
    names = draft_names(record.draft_ids, record.draft_texts)
    follows = tokens[record.num_accepted] if len(tokens) > record.num_accepted else None
    rows = [_row(i, name, record, tokens, say) for i, name in enumerate(names)]
    return {
        "rows": rows,
        "next": [name_of_token(follows), kind_of(follows)] if follows else [],
        "why": _why(record, names, follows, say),
        "seconds": [record.draft_s, record.target_s],
        "times": [
            say("rounds.draft_time", value=plain(1000 * record.draft_s)),
            say("rounds.target_time", value=plain(1000 * record.target_s)),
        ],
    }


def _row(i: int, name: str, record: Round, tokens: Sequence[Token], say: Words) -> dict[str, Any]:
    """One drafted token: its name and kind, and what verification made of it.

    The token at the same position of the text carries the test: the drafted one itself, or the
    correction in its place.
    """
    if i >= record.num_tested or i >= len(tokens):
        return {"name": name, "kind": "dropped", "note": say("rounds.untested")}
    test = tokens[i]
    kind = kind_of(test) if i < record.num_accepted else "rejected"
    return {
        "name": name,
        "kind": kind,
        "accept": test.accept_prob,
        "exact": test.exact_accept_prob,
        "u": test.u,
        "laws": [_share(record.target_probs, i), _share(record.draft_probs, i)],
        "note": _note(test, kind, say),
    }


def _share(probs: Sequence[float] | None, i: int) -> str:
    return rough(probs[i] if probs is not None and i < len(probs) else None)


def _note(test: Token, kind: str, say: Words) -> str:
    """ "u 51.2 % < 64.0 %: accepted (exact rule: 40.1 %)"."""
    accept, exact = percent(test.accept_prob), percent(test.exact_accept_prob)
    verdict = say("rounds.rejected" if kind == "rejected" else "rounds.accepted")
    if test.u is None:
        return say("rounds.whole", accept=accept, verdict=verdict)
    key = "rounds.above" if kind == "rejected" else "rounds.below"
    note = say(key, u=percent(test.u), accept=accept, verdict=verdict)
    if exact in (accept, NONE):
        return note
    return f"{note} {say('rounds.exact', value=rough(test.exact_accept_prob))}"


def _why(record: Round, names: Sequence[str], follows: Token | None, say: Words) -> str:
    """Where the round stopped, in a sentence."""
    if follows is None:
        return say("rounds.ended")
    values = {"token": name_of_token(follows), "count": len(names)}
    if not names:
        return say("rounds.why.single", **values)
    if len(names) > record.num_accepted and record.num_tested > record.num_accepted:
        rejected = names[record.num_accepted]
        return say("rounds.why.residual", rejected=rejected, **values)
    return say("rounds.why.bonus", **values)
