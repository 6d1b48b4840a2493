"""Our loops as a custom generation function of transformers:

    model.generate(**inputs, assistant_model=draft, custom_generate=playground.generate,
                   method="mentored", divergence_budget=0.2)

returns what `generate` returns. `method` is one of METHODS; without it, the one that the other
arguments stand for (num_beams: "beam", assistant_model: "speculative", do_sample: "sample", else
"greedy"). Settings that transformers has a name for come from the generation config, with its
defaults (do_sample=False is temperature 0); ours (divergence_budget, num_draft_tokens, verifier,
seed, ...) are arguments of their own. What our loops cannot do is refused, not ignored. Searches
return their scores, not those of every step.
"""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig
from transformers.generation.stopping_criteria import (
    EosTokenCriteria,
    MaxLengthCriteria,
    MaxTimeCriteria,
)
from transformers.generation.utils import (
    GenerateBeamDecoderOnlyOutput,
    GenerateBeamEncoderDecoderOutput,
    GenerateDecoderOnlyOutput,
    GenerateEncoderDecoderOutput,
)

from playground.arguments import parameters
from playground.cache import is_untouched
from playground.contracts import Committed, Decision, Finished, Run, Settings
from playground.generation_config import as_ids, constraints_of, end_ids, unmet
from playground.methods import fields_of, method_named
from playground.models import ModelPair
from playground.params import fail
from playground.sampling import MIN_TEMPERATURE, Clock, Draws, Warper
from playground.session import check
from playground.types import FinishReason

_OWN_CRITERIA = (MaxLengthCriteria, EosTokenCriteria, MaxTimeCriteria)  # which our loops have, too
_KINDS = {  # (a search, an encoder-decoder): what `generate` returns
    (False, False): GenerateDecoderOnlyOutput,
    (False, True): GenerateEncoderDecoderOutput,
    (True, False): GenerateBeamDecoderOnlyOutput,
    (True, True): GenerateBeamEncoderDecoderOutput,
}
_UNKNOWN = (
    *("assistant_early_exit", "assistant_ensemble_weight", "speculation_type", "use_mtp"),
    *("output_attentions", "output_hidden_states"),
)
_KNOBS = sorted(parameters().keys() - vars(GenerationConfig()).keys() - {"stop"})


@torch.no_grad()
def generate(
    model: Any,
    input_ids: Tensor,
    *,
    generation_config: GenerationConfig,
    inputs_tensor: Tensor | None = None,
    stopping_criteria: Any = (),
    assistant_model: Any = None,
    method: str | None = None,
    **given: Any,
) -> Any:
    """Decode one prompt; transformers' `generate` calls this, see the module.

    Raises ValueError for a batch, and for settings that our loops do not have.
    """
    call = _call()
    draft = assistant_model or call.get("assistant_model")
    _refuse(generation_config, call, input_ids if inputs_tensor is None else inputs_tensor)
    if model.training:  # then transformers' own pass of the encoder had dropout
        given.pop("encoder_outputs", None)
    inputs = (input_ids, inputs_tensor, stopping_criteria)
    with _evaluating(model, draft):
        return _decoded(model, draft, generation_config, inputs, method, call, given)


def _decoded(
    model: Any,
    draft: Any,
    config: GenerationConfig,
    inputs: tuple[Tensor, Tensor | None, Any],
    method: str | None,
    call: dict[str, Any],
    given: dict[str, Any],
) -> Any:
    """What `generate` returns."""
    input_ids, inputs_tensor, stopping_criteria = inputs
    knobs = {name: given[name] for name in _KNOBS if name in given}
    wanted = call.get("kwargs", {}).get("num_assistant_tokens") or config.prompt_lookup_num_tokens
    name = method or _method_of(config, draft)
    settings = check(name, _params(name, config, input_ids.shape[1], knobs, wanted))
    pair = _pair(model, draft)
    method_named(name).validate(settings, pair)
    if (config.num_return_sequences or 1) > getattr(settings.params, "num_return_sequences", 1):
        raise fail("num_return_sequences", config.num_return_sequences, f"1 with {name!r}")
    run = _run(pair, settings, config, input_ids, inputs_tensor, given)
    run.stop = _stop(stopping_criteria, run.prefix)
    streamer = call.get("streamer")
    decisions, finished = _decode(name, run, streamer)
    if streamer is not None:
        streamer.end()
    return _output(model, config, run, input_ids, decisions, finished)


def _call() -> dict[str, Any]:
    """The arguments of the `generate` that called. It does not hand on to a custom function its
    assistant_model, its streamer, and the processors as they were given."""
    frame = sys._getframe(1)
    while frame is not None:
        here = frame.f_code.co_name, frame.f_globals.get("__name__")
        if here == ("generate", "transformers.generation.utils"):
            return frame.f_locals
        frame = frame.f_back  # type: ignore[assignment]
    return {}


def _refuse(config: GenerationConfig, call: dict[str, Any], inputs: Tensor) -> None:
    """Raise ValueError for what our loops cannot do."""
    if inputs.dim() != 2 or inputs.is_floating_point():
        raise fail("inputs", f"a tensor of shape {list(inputs.shape)}", "token ids [1, length]")
    if inputs.shape[0] != 1:
        raise fail("inputs", f"a batch of {inputs.shape[0]}", "one prompt at a time")
    for name in ("logits_processor", "prefix_allowed_tokens_fn", "negative_prompt_ids"):
        value = call.get(name)
        if value is not None and not (isinstance(value, list) and not value):
            raise fail(name, value, "none: our loops have settings of their own")
    asked = {name: getattr(config, name, None) for name in _UNKNOWN}
    for name, value in (unmet(config) | {k: v for k, v in asked.items() if v}).items():
        raise fail(name, value, "its default: our loops do not have it")
    if config.do_sample and config.num_beams > 1:
        raise fail("do_sample", True, "False with beam search")


def _method_of(config: GenerationConfig, draft: Any) -> str:
    """The method that `generate` would choose by these arguments."""
    if config.num_beams > 1:
        return "diverse_beam" if (config.num_beam_groups or 1) > 1 else "beam"
    if draft is not None or config.prompt_lookup_num_tokens:
        return "speculative"
    return "sample" if config.do_sample else "greedy"


def _params(
    method: str, config: GenerationConfig, start: int, knobs: dict[str, Any], wanted: int | None
) -> dict[str, Any]:
    """The method's parameters from the generation config and our own arguments.

    start: length of what the decoder starts from; wanted: transformers' number of draft tokens.
    """
    least = config.min_new_tokens or max(0, (config.min_length or 0) - start)
    known = {
        "max_new_tokens": config.max_length - start,
        "min_new_tokens": least,
        "temperature": config.temperature if config.do_sample else 0.0,
        "top_k": config.top_k or 0,
        "top_p": config.top_p,
        "repetition_penalty": config.repetition_penalty,
        "no_repeat_ngram_size": config.no_repeat_ngram_size,
        "num_beams": config.num_beams,
        "num_beam_groups": config.num_beam_groups,
        "diversity_penalty": config.diversity_penalty,
        "num_return_sequences": config.num_return_sequences,
        "length_penalty": config.length_penalty,
        "early_stopping": config.early_stopping or False,
        "num_draft_tokens": wanted,
        "proposer": "prompt_lookup" if config.prompt_lookup_num_tokens else None,
    }
    has = {f.name for f in fields_of(method, knobs)}
    return {k: v for k, v in known.items() if k in has and v is not None} | knobs


class _Kept:
    """The last pair made of a model, kept on it so that fused weights are made once. Copies and
    pickles of the model start without one."""

    def __init__(self) -> None:
        self.pair: ModelPair | None = None
        self.stamp: Any = None

    def __deepcopy__(self, memo: Any) -> _Kept:
        return _Kept()

    def __reduce__(self) -> Any:
        return _Kept, ()


def _pair(model: Any, draft: Any) -> ModelPair:
    """Model and draft as a pair; a new one where either was replaced, moved or cast."""
    kept = getattr(model, "_playground_pair", None) or _Kept()
    if kept.pair is None or kept.pair.draft is not draft or kept.stamp != _stamp(model, draft):
        kept.pair = ModelPair(model, draft)
        kept.stamp = _stamp(model, draft)
        model._playground_pair = kept
    return kept.pair


def _stamp(*models: Any) -> list[Any]:
    """What a pair of these models was made of: other weights, also by a step of training, or an
    adapter, make another one."""
    given = [m for m in models if m is not None]
    weights = [p for m in given for p in m.parameters()]
    versions = [0 if p.is_inference() else p._version for p in weights]
    found = [(p.data_ptr(), p.dtype, v) for p, v in zip(weights, versions, strict=True)]
    return [*map(is_untouched, given), *found]


@contextmanager
def _evaluating(*models: Any) -> Iterator[None]:
    """Without dropout meanwhile: `generate` may be called in the middle of a training."""
    training = [part for m in models if m is not None for part in m.modules() if part.training]
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True


def _run(
    pair: ModelPair,
    settings: Settings,
    config: GenerationConfig,
    input_ids: Tensor,
    inputs_tensor: Tensor | None,
    given: dict[str, Any],
) -> Run:
    """The run; padding is left out of the prompt, and the encoder's states are taken over."""
    mask, encoded = given.get("attention_mask"), given.get("encoder_outputs")
    prompt = inputs_tensor if pair.is_encoder_decoder and inputs_tensor is not None else input_ids
    kept = slice(None) if mask is None else mask[0].bool()
    prompt_ids = prompt[0][kept].tolist()
    prefix = input_ids[0].tolist() if pair.is_encoder_decoder else prompt_ids
    pair.check_length(prompt_ids, settings.params.max_new_tokens)
    constraints = constraints_of(config, prompt_ids)
    eos_ids = end_ids(config.eos_token_id, pair.vocab_size)
    seed = settings.params.seed
    if seed is None:  # so that torch.manual_seed does what users of `generate` expect
        seed = int(torch.randint(2**62, ()))
    most = settings.params.max_new_tokens
    end_s = None if config.max_time is None else time.monotonic() + config.max_time

    def interrupted() -> FinishReason | None:
        return "deadline" if end_s is not None and time.monotonic() > end_s else None

    return Run(
        pair=pair,
        prompt_ids=prompt_ids,
        prefix=prefix,
        params=settings.params,
        parts=settings.parts,
        warper=Warper(settings.params, constraints, eos_ids, len(prefix), most),
        draws=Draws(seed),
        eos_ids=eos_ids,
        max_new_tokens=most,
        clock=Clock(pair.device),
        interrupted=interrupted,
        encoded={} if encoded is None else {id(pair.target): encoded[0][:1, kept]},
    )


def _stop(criteria: Any, prefix: list[int]) -> Any:
    """The caller's own stopping criteria as a function of the new ids."""
    own = [c for c in criteria if not isinstance(c, _OWN_CRITERIA)]

    def stop(new_ids: Any) -> bool:
        ids = torch.tensor([[*prefix, *new_ids]])
        return any(bool(torch.as_tensor(c(ids, None)).all()) for c in own)

    return stop if own else lambda new_ids: False


def _decode(name: str, run: Run, streamer: Any) -> tuple[list[Decision], Finished]:
    """Run the method to its end: what it committed, and its last event."""
    decisions: list[Decision] = []
    with run.pair.lock, torch.inference_mode():
        for event in method_named(name).run(run):
            if isinstance(event, Finished):
                return decisions, event
            if isinstance(event, Committed):
                room = run.max_new_tokens - len(decisions)
                decisions += event.decisions[:room]
                if streamer is not None:
                    for decision in event.decisions[:room]:
                        streamer.put(torch.tensor([decision.token_id]))
    raise AssertionError("a method ends with Finished")


def _output(
    model: Any,
    config: GenerationConfig,
    run: Run,
    input_ids: Tensor,
    decisions: list[Decision],
    finished: Finished,
) -> Any:
    """Ids [sequences, length], or the dict with scores."""
    rows = [beam.token_ids for beam in finished.beams] or [[d.token_id for d in decisions]]
    longest = max(map(len, rows))
    ends = [*as_ids(config.eos_token_id), 0]
    fill = ends[0] if config.pad_token_id is None else config.pad_token_id
    new = torch.tensor([[*ids, *[fill] * (longest - len(ids))] for ids in rows])
    start = input_ids[:1].expand(len(rows), -1)
    sequences = torch.cat([start, new.to(input_ids)], dim=1)
    if not config.return_dict_in_generate:
        return sequences
    kind: Any = _KINDS[bool(finished.beams), bool(model.config.is_encoder_decoder)]
    if finished.beams:
        scores = torch.tensor([beam.score for beam in finished.beams], device=input_ids.device)
        return kind(sequences=sequences, sequences_scores=scores if config.output_scores else None)
    logits = [d.logits[None].clone() for d in decisions if d.logits is not None]
    return kind(
        sequences=sequences,
        scores=tuple(_scores(run, decisions)) if config.output_scores else None,
        logits=tuple(logits) if config.output_logits else None,
    )


def _scores(run: Run, decisions: list[Decision]) -> Iterator[Tensor]:
    """The target's processed scores [1, V] that each token was drawn from or judged by."""
    history = list(run.prefix)
    drawn = getattr(run.params, "temperature", 0.0) >= MIN_TEMPERATURE
    for decision in decisions:
        assert decision.logits is not None
        scores = run.warper.process(decision.logits[None], history, len(history))
        yield run.warper.law(scores).log() if drawn else scores.clone()
        history.append(decision.token_id)


# `generate` finds by name which of its arguments are ours.
_own = inspect.signature(generate)
_plain = [p for p in _own.parameters.values() if p.kind != inspect.Parameter.VAR_KEYWORD]
_more = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in _KNOBS]
_rest = inspect.Parameter("given", inspect.Parameter.VAR_KEYWORD)
generate.__signature__ = _own.replace(parameters=[*_plain, *_more, _rest])  # type: ignore[attr-defined]
