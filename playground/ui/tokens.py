"""Token chips: the text of a run, each token marked with why it is there.

Chips are inline spans whose only text is the token's own, so that a copied selection is exactly
the run's text. Names of special tokens and signs for line ends are drawn by the style sheet.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from playground.types import Alternative, Token
from playground.ui.numbers import percent, plain
from playground.ui.strings import say

KINDS = ("accepted", "mentored", "residual", "bonus")  # in the order of the legend


def kind_of(token: Token) -> str:
    """Which chip a token gets: a source, "mentored" for what exact speculation would have refused,
    or "plain" for what was drawn or searched without a draft."""
    if token.source == "accepted":
        exact, u = token.exact_accept_prob, token.u
        return "mentored" if exact is not None and u is not None and u >= exact else "accepted"
    return token.source if token.source in KINDS else "plain"


def chips_html(tokens: Sequence[Token]) -> str:
    """All tokens as spans; joined, their text is the run's text."""
    return "".join(_chip(token) for token in tokens)


def legend_html(tokens: Sequence[Token]) -> str:
    """A key to the kinds that occur; empty where every token is plain."""
    found = {kind_of(token) for token in tokens}
    shown = [kind for kind in KINDS if kind in found]
    keys = (f'<span class="dp-key dp-{k}">{escape(say(f"kind.{k}"))}</span>' for k in shown)
    return f'<div class="dp-legend">{"".join(keys)}</div>' if shown else ""


def _chip(token: Token) -> str:
    text = token.text or ""
    classes = f"dp-t dp-{kind_of(token)}"
    extra = ""
    if token.special:
        classes += " dp-special"
        extra = f' data-name="{escape(token.special)}"'
    elif not text:
        classes += " dp-part"  # a piece of a character that a later token completes
    elif "\n" in text:
        classes += " dp-line"
    return f'<span class="{classes}"{extra} title="{escape(_tip(token))}">{escape(text)}</span>'


def _tip(token: Token) -> str:
    """What there is to know of a token, a line each."""
    name = token.special or (repr(token.text)[1:-1] if token.text else f"#{token.token_id}")
    lines = [f"{name} · {say('kind.' + kind_of(token))}"]
    probs = [("target", token.target_prob), ("draft", token.draft_prob)]
    known = [say(f"tip.{who}", value=percent(p)) for who, p in probs if p is not None]
    if known:
        lines.append(" · ".join(known))
    if token.source == "residual":
        lines.append(say("tip.rejected"))
    lines += _acceptance(token)
    if token.divergence:
        lines.append(say("tip.divergence", value=plain(token.divergence)))
    lines += [_alternative(a) for a in token.alternatives[:3] if a.token_id != token.token_id]
    return "\n".join(lines)


def _acceptance(token: Token) -> list[str]:
    if token.accept_prob is None:
        return []
    line = say("tip.accept", value=percent(token.accept_prob))
    if token.exact_accept_prob is not None and token.exact_accept_prob != token.accept_prob:
        line += f" ({say('tip.exact', value=percent(token.exact_accept_prob))})"
    return [line]


def _alternative(other: Alternative) -> str:
    name = repr(other.text)[1:-1] if other.text is not None else f"#{other.token_id}"
    return f"  {name}: {percent(other.target_prob)}"
