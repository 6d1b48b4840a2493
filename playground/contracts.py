"""Protocols of the backend: what a method, a proposer, a verifier and a KV state must offer.

A method is a generator of engine events over ids. It never sees text, never reads a clock that
somebody else could stop, and takes every random number from the run's own `Draws`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from torch import Tensor

from playground.types import Badge, Beam, Candidate, FinishReason, Round, Source

if TYPE_CHECKING:
    from playground.models import ModelPair
    from playground.sampling import Clock, Draws, Warper


class KVState(Protocol):
    """The keys and values of one or more sequences that share a prompt, and the model behind them.

    `length` counts the tokens whose keys and values are stored. Logits are [V] or [W, k, V] in the
    model's own dtype. For an encoder-decoder, tokens are the decoder's and the encoder ran once.
    """

    length: int

    def prefill(self, ids: Sequence[int]) -> Tensor:
        """Store the prompt; logits [V] after its last token."""

    def forward(self, ids: Tensor) -> Tensor:
        """Append ids [W, k] to the W sequences; logits [W, k, V] after each."""

    def rollback(self, length: int) -> None:
        """Forget everything after the first `length` tokens."""

    def reorder(self, parents: Tensor) -> None:
        """Row i continues sequence parents[i], parents [W']; the shared prompt is not copied."""

    def num_bytes(self) -> int:
        """Bytes that the stored keys and values take now."""

    def num_bytes_naive(self) -> int:
        """Bytes that they would take with the prompt copied to every sequence."""


@dataclass(frozen=True, slots=True)
class Draft:
    """What a proposer offers for one round: k ids and the laws [V] they were really drawn from.

    support: ids outside which all these laws are 0, where that is known of a draft that writes
    only some ids: who looks for where they are not 0 need look no further.
    """

    ids: list[int]
    probs: list[Tensor]
    support: Tensor | None = field(default=None, compare=False)


class Proposer(Protocol):
    """Proposes draft tokens. `Params` is a dataclass of its own settings.

    needs_draft, needs_feature: whether the pair must have a draft model, a feature draft.
    """

    Params: ClassVar[type]
    needs_draft: ClassVar[bool]
    needs_feature: ClassVar[bool]

    def propose(self, context: Sequence[int], max_tokens: int) -> Draft:
        """At most `max_tokens` ids that may follow `context` (prompt and committed ids)."""


@dataclass(slots=True)
class Tested:
    """One verified position: the drafted id, both laws [V], and what the rule made of them."""

    token_id: int
    accepted: bool
    u: float | None
    accept_prob: float | None  # None where a cheaper test already accepted
    exact_accept_prob: float
    target_probs: Tensor
    draft_probs: Tensor
    verifier: Verifier | None = None
    support: Tensor | None = None  # ids outside which the draft's law is 0, where known
    solution: Any = None  # what a rule had to solve for it, kept for its explanation


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of one round: `tested` up to and including the first rejection, then the token
    that follows the accepted ones (None after an accepted end token)."""

    tested: list[Tested]
    num_accepted: int
    next_id: int | None
    next_source: Source


class Verifier(Protocol):
    """A verification rule."""

    name: ClassVar[str]
    Params: ClassVar[type]

    @property
    def lossless(self) -> bool:
        """True where the emitted tokens follow the target's law exactly."""

    def verify(
        self, draft: Draft, target_probs: Tensor, draws: Draws, eos_ids: frozenset[int]
    ) -> Verdict:
        """Judge a draft of k tokens against target_probs [k+1, V]."""

    def outcome(self, target_probs: Tensor, draft_probs: Tensor) -> tuple[Tensor, Tensor]:
        """At one position, float64: accept_probs [V], and the law [V] of the token it emits."""

    def measure(self, test: Tested, kinds: Iterable[str]) -> tuple[float, dict[str, float]]:
        """At a position that was verified: the drafted token's acceptance, and divergences of the
        law of the token it emits from the target's, by the names of `mentored.divergence`."""

    def output_law(self, target_probs: Tensor, draft_probs: Tensor) -> Tensor:
        """The second of `outcome`: the law [V] of the token this rule emits at one position."""


@dataclass(slots=True)
class Decision:
    """One committed token with the tensors that explain it (None where nothing was computed).

    logits: the target's raw logits [V]; target_probs: its warped law [V]; tested: its verification.
    """

    token_id: int
    source: Source
    logits: Tensor | None = None
    target_probs: Tensor | None = None
    draft_probs: Tensor | None = None
    tested: Tested | None = None


@dataclass(slots=True)
class Committed:
    """Engine event: tokens that are final, and the round they came from, if any."""

    decisions: list[Decision]
    round: Round | None = None


@dataclass(slots=True)
class Searched:
    """Engine event: one step of a search. Nothing is final yet.

    linked: a candidate's parent is a row of the step before, so that all steps make up a tree.
    """

    step: int
    candidates: list[Candidate]
    best: Beam
    num_finished: int = 0
    bound: float | None = None
    linked: bool = True


@dataclass(slots=True)
class Finished:
    """Engine event, the last one: why the run ended, and the beams where it was a search.

    kv_bytes, kv_bytes_naive: most that the keys and values took, and would take unshared.
    proven: for exact search, whether the result is certainly the best; else None.
    """

    reason: FinishReason
    beams: list[Beam] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    kv_bytes: int = 0
    kv_bytes_naive: int = 0
    proven: bool | None = None


EngineEvent = Committed | Searched | Finished


@dataclass(slots=True)
class Run:
    """Everything a method is given. One per run; nothing in it outlives the run.

    params: the method's own `Params`; parts: those of its proposer and verifier, if any.
    prompt_ids: the prompt (the encoder's input for an encoder-decoder).
    prefix: what the decoder starts from: the prompt, or the decoder's start token.
    stop: given all new ids so far, says whether a stop string is complete (text is not seen here).
    interrupted: "cancelled" or "deadline" when the run must end now, else None.
    encoded: what the encoders of an encoder-decoder pair made of the prompt, by model.
    opened: the newest state of each model, by the model's id (a feature draft reads the target's).
    """

    pair: ModelPair
    prompt_ids: list[int]
    prefix: list[int]
    params: Any
    parts: dict[str, Any]
    warper: Warper
    draws: Draws
    eos_ids: frozenset[int]
    max_new_tokens: int
    clock: Clock
    stop: Callable[[Sequence[int]], bool] = lambda ids: False
    interrupted: Callable[[], FinishReason | None] = lambda: None
    encoded: dict[int, Tensor] = field(default_factory=dict)
    opened: dict[int, Any] = field(default_factory=dict)

    def open(self, model: Any, prompt_ids: list[int] | None = None) -> KVState:
        """A fresh KVState of the pair's target or draft. An encoder reads the prompt (or what
        `prompt_ids` makes of it for this model) once a run, on the model's time."""
        with self.clock.time("target" if model is self.pair.target else "draft", passes=0):
            state = self.pair.open(model, prompt_ids or self.prompt_ids, self.encoded)
        self.opened[id(model)] = state
        return state

    def finish_reason(self, new_ids: Sequence[int]) -> FinishReason | None:
        """Why the sequence ends after `new_ids`, or None while it goes on."""
        if new_ids and new_ids[-1] in self.eos_ids:
            return "eos"
        if self.stop(new_ids):
            return "stop"
        return "length" if len(new_ids) >= self.max_new_tokens else None


@dataclass(frozen=True, slots=True)
class Settings:
    """Checked parameters of one run: the method's own, and those of its parts."""

    params: Any
    parts: dict[str, Any]

    def flat(self) -> dict[str, Any]:
        """All of them under their public names."""
        owners = (self.params, *self.parts.values())
        return {f.name: getattr(owner, f.name) for owner in owners for f in fields(owner)}


class Method(Protocol):
    """A decoding method. `Params` is a dataclass of its settings; `line` says what it does."""

    name: ClassVar[str]
    line: ClassVar[str]
    Params: ClassVar[type]

    def parts(self, values: dict[str, Any]) -> dict[str, type]:
        """Further parameter dataclasses that these settings bring in: {"verifier": Params, ...}."""

    def badge(self, settings: Settings) -> Badge:
        """lossless, lossy, search or sampled, for these settings."""

    def validate(self, settings: Settings, pair: ModelPair) -> None:
        """Raise ValueError for settings that do not fit each other or this pair."""

    def run(self, run: Run) -> Generator[EngineEvent, None, None]:
        """Decode: engine events, ending with `Finished`."""
