"""The torch boundary: text in, events out; seed, lock, deadline, timing.

`decode` and `stream` run one method, `compare` several on the same prompt, one at a time. A run's
clock counts only the decoding itself: explaining tokens, turning ids into text and whatever the
consumer of the events does happen between two steps, with the clock stopped.
"""

from __future__ import annotations

import dataclasses
import secrets
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from playground import text
from playground.contracts import Committed, EngineEvent, Finished, Run, Searched, Settings
from playground.explain import Explainer
from playground.methods import method_named, parse
from playground.metrics import Timing, summarise
from playground.models import ModelPair
from playground.params import build, fail
from playground.sampling import Clock, Draws, Limits, Sampling, Warper
from playground.types import (
    BeamEvent,
    Candidate,
    DecodeResult,
    Event,
    FinishReason,
    ResultEvent,
    Round,
    SearchStep,
    Token,
    TokensEvent,
)

Cancelled = Callable[[], bool]
T = TypeVar("T")

MAX_PRUNED = 8  # pruned candidates that a finished run keeps of a search step
MAX_CANDIDATES = 20_000  # candidates that it keeps in all: some megabytes


def decode(
    pair: ModelPair, prompt: str | Sequence[int], method: str = "speculative", **params: Any
) -> DecodeResult:
    """Run one method to its end. See `stream` for the arguments."""
    last = last_of(stream(pair, prompt, method, **params))
    assert last.result is not None
    return last.result


def stream(
    pair: ModelPair,
    prompt: str | Sequence[int],
    method: str = "speculative",
    *,
    raw: bool = False,
    cancelled: Cancelled | None = None,
    deadline_s: float | None = None,
    reference: dict[str, Any] | None = None,
    **params: Any,
) -> Iterator[Event]:
    """Run one method; events as it goes, the last one carrying the result.

    prompt: text (chat template applied unless `raw`) or token ids, used as given.
    cancelled: asked before every step; deadline_s: seconds after which the run ends with what it
    has. reference: temperature, top_k and top_p of the law that search methods, which have none of
    their own, are measured against. params: the method's own.
    Raises ValueError, before any model runs, naming the bad parameter, its value and the range.
    """
    check_deadline(deadline_s)
    plan = prepare(pair, prompt, method, params, raw=raw, reference=reference)
    return run_plan(plan, cancelled, deadline_s)


def last_of(events: Iterable[T]) -> T:
    """The last event; the others, each of which may hold all the text so far, are not kept."""
    return deque(events, maxlen=1).pop()


def run_plan(
    plan: Plan, cancelled: Cancelled | None = None, deadline_s: float | None = None
) -> Iterator[Event]:
    """Run a checked request; see `stream`."""
    return _Session(plan, cancelled, deadline_s).events()


@dataclass(frozen=True, slots=True)
class Plan:
    """A checked request: everything a run needs, nothing run yet."""

    pair: ModelPair
    method: str
    settings: Settings
    prompt_ids: list[int]
    seed: int
    eos_ids: frozenset[int]
    stops: text.StopStrings
    reference: Sampling


def check(method: str, params: dict[str, Any]) -> Settings:
    """Checked settings, as far as they can be judged before a pair is loaded."""
    settings = parse(method, params)
    limits = settings.params
    if limits.min_new_tokens > limits.max_new_tokens:
        raise fail(
            "min_new_tokens",
            limits.min_new_tokens,
            f"at most max_new_tokens ({limits.max_new_tokens})",
        )
    text.StopStrings(limits.stop)
    return settings


def check_deadline(seconds: Any) -> None:
    """Raise ValueError unless `seconds` is None or a time that a run may take."""
    number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if seconds is not None and not (number and 0 <= seconds < float("inf")):
        raise fail("deadline_s", seconds, "a number of seconds, at least 0, or None")


def prepare(
    pair: ModelPair,
    prompt: str | Sequence[int],
    method: str,
    params: dict[str, Any],
    *,
    raw: bool = False,
    reference: dict[str, Any] | None = None,
) -> Plan:
    """Check a request as `stream` does, without running it."""
    settings = check(method, params)
    limits = settings.params
    method_named(method).validate(settings, pair)
    stops = text.StopStrings(limits.stop)
    if stops and pair.tokenizer is None:
        raise fail("stop", limits.stop, "nothing: this pair has no tokenizer, so text is unknown")
    eos_ids = _eos_ids(pair, limits.eos_token_id)
    prompt_ids = pair.encode(prompt, raw=raw)
    pair.check_length(prompt_ids, limits.max_new_tokens)
    seed = limits.seed if limits.seed is not None else secrets.randbelow(2**31)
    return Plan(
        pair, method, settings, prompt_ids, seed, eos_ids, stops, _reference(limits, reference)
    )


def _eos_ids(pair: ModelPair, value: Any) -> frozenset[int]:
    if value is None:
        return pair.eos_ids()
    ids = list(value) if isinstance(value, (list, tuple)) else [value]
    for i in ids:
        if isinstance(i, bool) or not isinstance(i, int) or not 0 <= i < pair.vocab_size:
            raise fail(
                "eos_token_id", value, f"ids from 0 to {pair.vocab_size - 1}, a list of them, or []"
            )
    return frozenset(ids)


def _reference(limits: Limits, reference: dict[str, Any] | None) -> Sampling:
    """The law that fidelity is measured against: the run's own, or the comparison's."""
    values = {f.name: getattr(limits, f.name) for f in dataclasses.fields(limits)}
    own = {f.name for f in dataclasses.fields(Sampling)}
    merged = {k: v for k, v in ({**(reference or {}), **values}).items() if k in own}
    return build(Sampling, merged, "the reference law")  # type: ignore[no-any-return]


def cores() -> int:
    """How many threads torch's work may take in this thread."""
    return torch.get_num_threads()


def use_cores(count: int) -> None:
    """Give this thread a team of so many, whatever other threads have."""
    torch.get_num_threads()  # a thread's first question, or work, takes the newest count of any
    torch.set_num_threads(count)


def on_one_core(work: Callable[[], T]) -> T:
    """`work()` without a team of threads of its own, for torch work beside a running decode.

    A second OpenMP team in the process makes the first one sleep at its barriers for as long as
    the second one's thread lives: decoding was 30 to 40 % slower (measured on two cores).
    """
    count = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return work()
    finally:
        torch.set_num_threads(count)


class _Session:
    """One run: drives the engine, keeps the time, turns ids into text and decisions into tokens."""

    def __init__(self, plan: Plan, cancelled: Cancelled | None, deadline_s: float | None) -> None:
        self._plan, self._pair = plan, plan.pair
        self._cancelled = cancelled
        self._deadline = None if deadline_s is None else time.monotonic() + deadline_s
        self._clock = Clock(self._pair.device)
        self._elapsed = 0.0
        self._ttft: float | None = None
        self._tokens: list[Token] = []
        self._rounds: list[Round] = []
        self._steps: list[SearchStep] = []
        self._candidates_left = MAX_CANDIDATES
        self._stream = text.TextStream(self._pair.tokenizer) if self._pair.tokenizer else None
        self._text = ""
        self._run = self._make_run()
        reference = self._warper(plan.reference, self._run.prefix)
        self._explainer = Explainer(self._pair, self._run, reference)

    def _make_run(self) -> Run:
        plan = self._plan
        prefix = self._pair.prefix(plan.prompt_ids)
        return Run(
            pair=self._pair,
            prompt_ids=plan.prompt_ids,
            prefix=prefix,
            params=plan.settings.params,
            parts=plan.settings.parts,
            warper=self._warper(plan.settings.params, prefix),
            draws=Draws(plan.seed),
            eos_ids=plan.eos_ids,
            max_new_tokens=plan.settings.params.max_new_tokens,
            clock=self._clock,
            stop=self._stop if plan.stops else lambda ids: False,
            interrupted=self._interrupted,
        )

    def _warper(self, settings: Limits, prefix: list[int]) -> Warper:
        return Warper(
            settings,
            self._pair.constraints(self._plan.prompt_ids),
            self._plan.eos_ids,
            len(prefix),
            self._plan.settings.params.max_new_tokens,
        )

    def _interrupted(self) -> FinishReason | None:
        if self._cancelled is not None and self._cancelled():
            return "cancelled"
        if self._deadline is not None and time.monotonic() > self._deadline:
            return "deadline"
        return None

    def _stop(self, ids: Sequence[int]) -> bool:
        """Whether a stop string is complete. All ids are decoded: a window could begin inside a
        character, and a short decode costs far less than a model's pass."""
        return self._plan.stops.find(text.full_text(self._pair.tokenizer, ids)) is not None

    def events(self) -> Iterator[Event]:
        engine = method_named(self._plan.method).run(self._run)
        try:
            while True:
                # Asked before the first step, too: a run cancelled in the queue costs no pass.
                reason = self._interrupted() if not self._clock.passes["target"] else None
                event = Finished(reason) if reason else self._step(engine)
                if isinstance(event, Finished):
                    result = self._finish(event)
                    yield ResultEvent(result, result.text, self._elapsed, len(result.token_ids))
                    return
                yield (
                    self._committed(event)
                    if isinstance(event, Committed)
                    else self._searched(event)
                )
        finally:
            engine.close()  # frees the caches even when the consumer leaves early

    def _step(self, engine: Generator[EngineEvent, None, None]) -> EngineEvent:
        """One engine step, alone on the pair and timed. inference_mode must not outlive the step:
        it is a thread's state, and the generator may be resumed by another thread."""
        with self._pair.lock, torch.inference_mode():
            start = self._clock.now()
            event = next(engine)
            self._elapsed += self._clock.now() - start
        return event

    def _committed(self, event: Committed) -> TokensEvent:
        if self._ttft is None:
            self._ttft = self._elapsed
        with torch.inference_mode():
            tokens = self._explainer.tokens(event.decisions, len(self._tokens))
        if self._stream is not None:
            tokens = [self._with_text(token) for token in tokens]
        self._tokens += tokens
        shown = event.round and self._explainer.round(event.round, event.decisions)
        if shown:
            self._rounds.append(shown)
        return TokensEvent(tuple(tokens), self._visible(), self._elapsed, len(self._tokens), shown)

    def _with_text(self, token: Token) -> Token:
        assert self._stream is not None
        piece = self._stream.push(token.token_id)
        self._text += piece
        return dataclasses.replace(token, text=piece)

    def _visible(self) -> str | None:
        """The text so far that is sure to stay: nothing that may become part of a stop string."""
        if self._stream is None:
            return None
        cut = self._plan.stops.find(self._text)
        return self._text[: self._plan.stops.safe_length(self._text) if cut is None else cut]

    def _searched(self, event: Searched) -> BeamEvent:
        if self._ttft is None:
            self._ttft = self._elapsed
        best = self._explainer.name_beam(event.best)
        candidates = self._explainer.name_candidates(event.candidates)
        if event.linked:
            self._record(candidates, event)
        count = len(event.best.token_ids)
        return BeamEvent(
            event.step,
            candidates,
            best,
            best.text,
            self._elapsed,
            count,
            event.num_finished,
            event.bound,
        )

    def _record(self, candidates: Sequence[Candidate], event: Searched) -> None:
        """Keep the step for the finished run, unless the tree has grown too large."""
        pruned = sorted((c for c in candidates if not c.kept), key=lambda c: -c.sum_logprob)
        shown = {id(c) for c in pruned[:MAX_PRUNED]}
        kept = tuple(c for c in candidates if c.kept or id(c) in shown)
        self._candidates_left -= len(kept)
        if self._candidates_left >= 0:
            self._steps.append(SearchStep(kept, event.num_finished, event.bound))

    def _finish(self, event: Finished) -> DecodeResult:
        beams = tuple(self._explainer.name_beam(b) for b in event.beams)
        if beams:
            with self._pair.lock, torch.inference_mode():
                self._tokens = self._explainer.score(list(beams[0].token_ids))
        ids = [t.token_id for t in self._tokens]
        full, tokens = self._texts(ids)
        settings = self._plan.settings
        metrics = summarise(
            tokens,
            self._rounds,
            self._timing(),
            num_draft_tokens=getattr(settings.params, "num_draft_tokens", None),
            kv_bytes=event.kv_bytes,
            kv_bytes_naive=event.kv_bytes_naive,
        )
        return DecodeResult(
            method=self._plan.method,
            params={**settings.flat(), "seed": self._plan.seed},
            prompt_ids=list(self._plan.prompt_ids),
            token_ids=ids,
            text=full,
            finish_reason=event.reason,
            tokens=tuple(tokens),
            rounds=tuple(self._rounds),
            beams=beams,
            metrics=metrics,
            badge=method_named(self._plan.method).badge(settings),
            pair=self._pair.name,
            precision=self._pair.precision,
            device=str(self._pair.device),
            notes=(*event.notes, *self._pair.notes()),
            proven=event.proven,
            steps=tuple(self._steps),
        )

    def _timing(self) -> Timing:
        seconds, passes = self._clock.seconds, self._clock.passes
        return Timing(
            self._elapsed,
            self._ttft,
            seconds["target"],
            seconds["draft"],
            passes["target"],
            passes["draft"],
        )

    def _texts(self, ids: list[int]) -> tuple[str | None, list[Token]]:
        """Full text, cut at a stop string, and tokens whose pieces join to exactly it."""
        if self._pair.tokenizer is None:
            return None, self._tokens
        pieces = text.pieces(self._pair.tokenizer, ids)
        full = "".join(pieces)
        cut = self._plan.stops.find(full)
        if cut is not None:
            full, pieces = full[:cut], text.cut_pieces(pieces, cut)
        named = zip(self._tokens, pieces, strict=True)
        return full, [
            token if token.text == piece else dataclasses.replace(token, text=piece)
            for token, piece in named
        ]
