"""What crosses rooms: plain dataclasses, standard library only.

A run is described by a `DecodeResult`; while it runs it is described by events, the last of which
carries the result. Everything here turns into strict JSON with `to_json`: no NaN, no Infinity.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, Literal

Source = Literal["prefill", "sampled", "accepted", "residual", "bonus", "beam"]
FinishReason = Literal["eos", "length", "stop", "cancelled", "deadline"]
Badge = Literal["lossless", "lossy", "search", "sampled"]


def to_json(value: Any) -> Any:
    """`value` as strict JSON types; a number that JSON cannot hold (NaN, Infinity) becomes None."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(k): to_json(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(v) for v in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (str, int)):
        return value
    raise TypeError(f"{type(value).__name__} does not cross rooms")


@dataclass(frozen=True, slots=True)
class Alternative:
    """One candidate for a position, with its probability under the target's and the draft's law."""

    token_id: int
    text: str | None
    target_prob: float | None
    draft_prob: float | None = None


@dataclass(frozen=True, slots=True)
class LawSummary:
    """The target's and the draft's law at one position, after warping, in few numbers.

    token_ids, texts, target_probs, draft_probs: the tokens that matter, one by one.
    rest_target_probs, rest_draft_probs, rest_sizes: all others with any mass, merged into groups of
        about equal draft/target ratio: mass under each law, and number of tokens.
    """

    token_ids: tuple[int, ...]
    target_probs: tuple[float, ...]
    draft_probs: tuple[float, ...]
    rest_target_probs: tuple[float, ...] = ()
    rest_draft_probs: tuple[float, ...] = ()
    rest_sizes: tuple[int, ...] = ()
    texts: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Token:
    """One new token and why it is there.

    text: its piece of the output ("" for a special token); pieces joined equal the full text.
    special: the name of a special token, which is part of the trace but not of the text.
    source: where it came from; "prefill" is drawn from the prompt's own pass.
    target_prob, draft_prob: probability of this token under each model's law after warping.
    accept_prob, exact_accept_prob: probability with which the rule, and the exact rule, accept
        the drafted token at this position; None where nothing was tested.
    u: the uniform draw that was compared with accept_prob.
    drafted_id: the draft's token that was tested here (differs from token_id on a correction).
    divergence: KL(target‖output law) spent at this position, nats.
    reverse_divergence: KL(output law‖target), nats; for a deterministic pick −ln target_prob.
    budget_divergence: the divergence that the rule's own budget counts, where it has one.
    logit_gap: distance of the two largest target logits at temperature 0: a tiny gap explains
        a token that flips between precisions.
    law: both models' laws where a drafted token was tested.
    """

    token_id: int
    text: str | None = None
    source: Source = "sampled"
    special: str | None = None
    target_prob: float | None = None
    draft_prob: float | None = None
    accept_prob: float | None = None
    exact_accept_prob: float | None = None
    u: float | None = None
    drafted_id: int | None = None
    divergence: float | None = None
    reverse_divergence: float | None = None
    budget_divergence: float | None = None
    target_logprob: float | None = None
    logit_gap: float | None = None
    alternatives: tuple[Alternative, ...] = ()
    law: LawSummary | None = None


@dataclass(frozen=True, slots=True)
class Round:
    """One round of propose, score, verify, commit, roll back. Seconds are device-synchronised.

    target_probs, draft_probs: probability of each tested draft token under each model's law.
    """

    draft_ids: list[int]
    num_tested: int
    num_accepted: int
    draft_s: float
    target_s: float
    draft_texts: tuple[str, ...] | None = None
    target_probs: tuple[float, ...] | None = None
    draft_probs: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class Beam:
    """One hypothesis of a search. score = sum_logprob after length normalisation."""

    token_ids: list[int]
    score: float
    sum_logprob: float
    length: int
    finished: bool
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """One expansion in a search step.

    parent: row of the beam it grew from; token_id: what was appended.
    kept: it lives on as row `row` of the next step; finished: it ended and was collected.
    """

    parent: int
    token_id: int
    sum_logprob: float
    score: float
    kept: bool
    finished: bool
    row: int | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class SearchStep:
    """One step of a search, as a finished run keeps it.

    candidates: everything that was kept, and the best of what was pruned, in the search's order.
    A candidate's parent is the `row` of one of the step before; the first step's is the prompt, 0.
    num_finished: collected so far; bound: what the stopping rule credits the live beams with.
    """

    candidates: tuple[Candidate, ...]
    num_finished: int = 0
    bound: float | None = None


@dataclass(frozen=True, slots=True)
class Metrics:
    """Numbers of one run; None where one does not exist. Definitions: `playground.metrics`."""

    num_new_tokens: int
    total_s: float
    ttft_s: float | None = None
    tokens_per_s: float | None = None
    ms_per_token: float | None = None
    num_target_passes: int = 0
    num_draft_passes: int = 0
    num_drafted: int = 0
    num_tested: int = 0
    num_accepted: int = 0
    acceptance_rate: float | None = None
    tested_acceptance_rate: float | None = None
    accepted_per_position: list[float] | None = None
    drafted_per_round: float | None = None
    tokens_per_round: float | None = None
    tokens_per_target_pass: float | None = None
    draft_s: float | None = None
    target_s: float | None = None
    other_s: float | None = None
    draft_cost: float | None = None
    predicted_speedup: float | None = None
    predicted_speedup_cheap_draft: float | None = None
    kv_bytes: int | None = None
    kv_bytes_naive: int | None = None
    target_logprob: float | None = None
    perplexity: float | None = None
    mean_divergence: float | None = None
    max_divergence: float | None = None
    mean_budget_divergence: float | None = None
    max_budget_divergence: float | None = None
    mean_reverse_divergence: float | None = None
    fidelity: float | None = None


@dataclass(frozen=True, slots=True)
class DecodeResult:
    """One finished run. token_ids are the new ids, the end token included when produced.

    proven: for exact search, whether the result is certainly the model's best sequence.
    steps: the search tree of a beam search, from its first step on; a very large one is cut.
    """

    method: str
    params: dict[str, Any]
    prompt_ids: list[int]
    token_ids: list[int]
    text: str | None
    finish_reason: FinishReason
    tokens: tuple[Token, ...]
    rounds: tuple[Round, ...]
    beams: tuple[Beam, ...]
    metrics: Metrics
    badge: Badge = "sampled"
    pair: str | None = None
    precision: str | None = None
    device: str | None = None
    notes: tuple[str, ...] = ()
    proven: bool | None = None
    steps: tuple[SearchStep, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The record as strict JSON types."""
        return to_json(self)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class TokensEvent:
    """New tokens. `text` is the whole text so far that is certain to stay."""

    tokens: tuple[Token, ...]
    text: str | None
    elapsed_s: float
    num_new_tokens: int
    round: Round | None = None
    kind: Literal["tokens"] = "tokens"
    result: None = None


@dataclass(frozen=True, slots=True)
class BeamEvent:
    """One search step: every candidate looked at, and the best text so far, which may change."""

    step: int
    candidates: tuple[Candidate, ...]
    best: Beam
    text: str | None
    elapsed_s: float
    num_new_tokens: int
    num_finished: int = 0
    bound: float | None = None
    kind: Literal["beam"] = "beam"
    result: None = None


@dataclass(frozen=True, slots=True)
class ResultEvent:
    """The last event of a run."""

    result: DecodeResult
    text: str | None = None
    elapsed_s: float = 0.0
    num_new_tokens: int = 0
    kind: Literal["result"] = "result"


Event = TokensEvent | BeamEvent | ResultEvent


@dataclass(frozen=True, slots=True)
class PairSpec:
    """A target with a draft that the catalogue knows.

    target, draft: a folder under assets/models, a local folder, or a Hub repository id.
    feature: a folder with a feature draft for the target, under assets/models or elsewhere.
    embedded: shipped with the project, needs no network. tuned: settings of the page's own runs, by
    label, that were fastest for this pair.
    """

    name: str
    target: str
    draft: str | None
    title: str
    feature: str | None = None
    embedded: bool = False
    chat: bool = False
    license: str = ""
    description: str = ""
    tuned: dict[str, dict[str, Any]] = field(default_factory=dict)
