"""The token lab: two laws at one position, and what a divergence budget makes of them.

Pure functions from a recorded token or from typed laws to numbers and HTML; no model is needed. The
numbers are those of the real solver.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from playground.lessons.mentoring import ARTICLE_DRAFT, ARTICLE_NAMES, ARTICLE_TARGET
from playground.mentored import Optimum, solve
from playground.session import on_one_core
from playground.types import DecodeResult, Token
from playground.ui.numbers import percent, plain
from playground.ui.strings import Words
from playground.ui.tokens import name_of_token, visible

MAX_TOKENS, MAX_NAME, MAX_CHARS = 200, 60, 20_000
DIVERGENCES = ("kl", "reverse_kl", "js", "hellinger", "chi2", "tv")
# Laws to start from, as a visitor would type them: token, target, draft. The first gives the curve
# of Tran-Thien's article: KL 1.58, acceptance .22, .50, .64, .885 at D 0, .2, .4, 1.
PRESETS = {
    "article": "\n".join(
        f"{name} {target:.3f} {draft:.3f}"
        for name, target, draft in zip(ARTICLE_NAMES, ARTICLE_TARGET, ARTICLE_DRAFT, strict=True)
    ),
    "close": "blue 0.50 0.42\ngrey 0.25 0.20\nclear 0.15 0.28\ndark 0.10 0.10",
    "zeros": "yes 0.60 0.30\nno 0.40 0.30\nperhaps 0 0.40",
    "greedy": "yes 1 0.40\nno 0 0.60",
}
_CURVE_POINTS = 48
_AROUND = 16  # tokens of the text that are shown on either side of the position
_NUM_RESIDUAL = 3
_SURE = 1 - 1e-9
_LINE = re.compile(r"(?:(.*\S)\s*[\s,;])?\s*([^\s,;]+)\s*[\s,;]\s*([^\s,;]+)")

Law = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Laws:
    """The target's and the draft's law: tokens one by one, then groups of merged ones.

    drafted: index of the token that a run tested here. Without a draft, `draft` is empty.
    """

    names: tuple[str, ...]
    target: Law
    draft: Law
    rest_target: Law = ()
    rest_draft: Law = ()
    rest_sizes: tuple[int, ...] = ()
    drafted: int | None = None

    def whole(self) -> tuple[Law, Law]:
        """Both laws with their groups."""
        return self.target + self.rest_target, self.draft + self.rest_draft


@dataclass(frozen=True, slots=True)
class Choice:
    """The settings of mentored decoding that are tried."""

    budget: float = 0.2
    divergence: str = "kl"
    keep_support: bool = True


@dataclass(frozen=True, slots=True)
class Reading:
    """What the solver says of two laws.

    accept, output, residual: of every token and group. exact: acceptance of speculative decoding.
    best: acceptance without a limit, and whole: the divergence that it takes, infinite where the
    draft lacks a token of the target. curve: (D, acceptance) from 0 to `limit`.
    """

    optimum: Optimum
    accept: Law
    output: Law
    residual: Law
    exact: float
    best: float
    whole: float
    limit: float
    curve: tuple[tuple[float, float], ...]


def laws_of(token: Token) -> Laws:
    """The laws recorded with a token; without a draft where none was tested, most likely first."""
    law = token.law
    if law is None:
        known = [a for a in token.alternatives if a.target_prob is not None]
        names = tuple(_name(a.text, a.token_id) for a in known)
        return Laws(names, tuple(a.target_prob or 0.0 for a in known), ())
    texts: Sequence[str | None] = law.texts or [None] * len(law.token_ids)
    ids = law.token_ids
    return Laws(
        names=tuple(_name(text, i) for text, i in zip(texts, ids, strict=True)),
        target=law.target_probs,
        draft=law.draft_probs,
        rest_target=law.rest_target_probs,
        rest_draft=law.rest_draft_probs,
        rest_sizes=law.rest_sizes,
        drafted=ids.index(token.drafted_id) if token.drafted_id in ids else None,
    )


def _name(text: str | None, token_id: int) -> str:
    return visible(text or "") or f"#{token_id}"


def parse_laws(typed: str, say: Words) -> Laws:
    """Laws from lines of "token target draft". Raises ValueError with one line for the visitor."""
    lines = [(i, line.strip()) for i, line in enumerate(typed.splitlines(), 1) if line.strip()]
    if not lines or len(lines) > MAX_TOKENS or len(typed) > MAX_CHARS:
        raise ValueError(say("lab.error.count", limit=MAX_TOKENS))
    rows = [_parsed(number, line, say) for number, line in lines]
    names, target, draft = zip(*rows, strict=True)
    for who, law in (("target", target), ("draft", draft)):
        if abs(sum(law) - 1) > 0.01:
            raise ValueError(say("lab.error.sum", law=say(f"lab.{who}"), total=plain(sum(law))))
    return Laws(names, target, draft)


def _parsed(number: int, line: str, say: Words) -> tuple[str, float, float]:
    found = _LINE.fullmatch(line)
    if found is None:
        raise ValueError(say("lab.error.line", number=number, line=_short(line)))
    name, *values = found.groups()
    name = (name or "").rstrip(",; \t") or name or f"#{number}"
    target, draft = (_probability(number, value, say) for value in values)
    return visible(name[:MAX_NAME]), target, draft


def _probability(number: int, text: str, say: Words) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise ValueError(say("lab.error.number", number=number, value=_short(text)))
    return value


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"


def read(laws: Laws, choice: Choice) -> Reading:
    """What the solver makes of two laws, and the curve around it."""
    return on_one_core(lambda: _read(laws, choice))


def _read(laws: Laws, choice: Choice) -> Reading:
    target, draft = laws.whole()

    def at(budget: float) -> Optimum:
        return solve(target, draft, budget, choice.divergence, choice.keep_support)

    chosen, most = at(choice.budget), at(math.inf)
    limit = _limit(most.divergence_spent, choice.budget)
    budgets = [limit * (i / _CURVE_POINTS) ** 2 for i in range(_CURVE_POINTS + 1)]
    if most.divergence_spent < limit:
        budgets = sorted([*budgets, most.divergence_spent])
    curve = tuple((budget, at(budget).acceptance) for budget in budgets)
    record = chosen.to_dict()
    return Reading(
        optimum=chosen,
        accept=tuple(record["accept_probs"]),
        output=tuple(record["output_probs"]),
        residual=tuple(record["residual_probs"]),
        exact=curve[0][1],
        best=most.acceptance,
        whole=most.divergence_spent,
        limit=limit,
        curve=curve,
    )


def _limit(whole: float, budget: float) -> float:
    """The end of the D axis: a little beyond where nothing is left to gain, in tenths."""
    reach = min(whole * 1.15, 10.0) if math.isfinite(whole) else 3.0
    return math.ceil(10 * max(reach, budget, 0.5)) / 10


def verified(result: DecodeResult) -> list[int]:
    """The positions at which a drafted token was tested."""
    return [i for i, token in enumerate(result.tokens) if token.law is not None]


def position_html(result: DecodeResult, index: int, say: Words) -> str:
    """The text around a position, the token marked, and what happened there."""
    tokens, token = result.tokens, result.tokens[index]
    before = "".join(t.text or "" for t in tokens[max(0, index - _AROUND) : index])
    after = "".join(t.text or "" for t in tokens[index + 1 : index + 1 + _AROUND])
    start, end = "…" if index > _AROUND else "", "…" if index + _AROUND + 1 < len(tokens) else ""
    return (
        f'<p class="dp-lab-text">{start}{escape(before)}<mark>{escape(name_of_token(token))}</mark>'
        f"{escape(after)}{end}</p><p>{escape(_event(token, say))}</p>"
    )


def _event(token: Token, say: Words) -> str:
    """What verification did here, in a sentence."""
    law = token.law
    if law is None:
        return say("lab.untested")
    values = {"token": _drafted_name(token), "final": name_of_token(token)}
    kind = "accepted" if token.source == "accepted" else "rejected"
    if token.u is None:
        return say(f"lab.{kind}", **values)
    return say(f"lab.{kind}.u", u=plain(token.u), accept=plain(token.accept_prob), **values)


def _drafted_name(token: Token) -> str:
    laws = laws_of(token)
    return laws.names[laws.drafted] if laws.drafted is not None else f"#{token.drafted_id}"


def remark(laws: Laws, reading: Reading, choice: Choice, say: Words) -> str:
    """What these settings amount to, in a sentence or two."""
    best, r = reading.optimum, reading.optimum.acceptance
    values = {
        "exact": percent(reading.exact),
        "accepted": percent(r),
        "budget": plain(choice.budget),
        "whole": plain(reading.whole),
        "spent": plain(best.divergence_spent),
    }
    if reading.exact >= _SURE:
        sentence = say("lab.same")
    elif choice.budget == 0:
        sentence = say("lab.lossless", **values)
    elif r >= _SURE:
        sentence = say("lab.is_draft" if reading.whole <= choice.budget else "lab.all", **values)
    elif r >= reading.best * _SURE:
        sentence = say("lab.support", **values)
    else:
        sentence = say("lab.between", **values)
    if laws.rest_sizes:
        count, groups = f"{sum(laws.rest_sizes):,}", len(laws.rest_sizes)
        sentence += " " + say("lab.merged", count=count, groups=groups)
    return sentence


def numbers_html(laws: Laws, reading: Reading, choice: Choice, say: Words) -> str:
    """The numbers, and the sentence above them."""
    best = reading.optimum
    cells = [
        ("acceptance", percent(best.acceptance)),
        ("exact", percent(reading.exact)),
        ("spent", plain(best.divergence_spent)),
        ("whole", plain(reading.whole)),
        ("alpha", plain(best.alpha)),
        ("beta", plain(best.beta)),
        ("rejected", percent(1 - best.acceptance)),
    ]
    if laws.drafted is not None:
        cells.append(("drafted", percent(reading.accept[laws.drafted])))
    body = "".join(
        f'<div tabindex="0" data-tip="{escape(say(f"lab.{key}.tip"))}">'
        f"<dt>{escape(say(f'lab.{key}.label'))}</dt><dd>{escape(value)}</dd></div>"
        for key, value in cells
    )
    sentence = escape(remark(laws, reading, choice, say))
    residual = escape(_residual(laws, reading, say))
    return (
        f'<p class="dp-lab-remark" role="status">{sentence}</p>'
        f'<dl class="dp-metrics">{body}</dl><p class="dp-lab-residual">{residual}</p>'
    )


def _residual(laws: Laws, reading: Reading, say: Words) -> str:
    """Where a rejected draft token's place goes."""
    if reading.optimum.acceptance >= _SURE:
        return say("lab.residual.none")
    alone = zip(reading.residual, laws.names, strict=False)
    top = sorted((pair for pair in alone if pair[0] > 0), reverse=True)[:_NUM_RESIDUAL]
    named = " · ".join(f"{name} {percent(prob)}" for prob, name in top)
    return say("lab.residual", tokens=named or "–")
