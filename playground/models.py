"""Load a pair: weights, tokenizer, device, precision; and check that it can serve.

A pair is refused, with the reason, when its tokenizers differ in contents, or when a cache cannot
forget tokens that were rejected.
"""

from __future__ import annotations

import dataclasses
import operator
import threading
from collections.abc import Sequence
from typing import Any

import torch
from safetensors import SafetensorError

from playground import cache, lean_t5, llama, text, weights
from playground.cache import Model
from playground.catalog import PAIRS, folder_of
from playground.contracts import KVState
from playground.feature_draft import FeatureDraft, FeatureState, LeanFeature
from playground.params import fail, lookup
from playground.precision import PRECISIONS, fastest, shapes_of
from playground.sampling import Constraints
from playground.types import PairSpec


class ModelPair:
    """A target, an optional draft over the same vocabulary, and their tokenizer.

    target, draft: any transformers causal or encoder-decoder models in memory (or modules that map
    ids [W, n] to logits [W, n, V], which run without a cache). tokenizer: None where only ids go
    in. draft_tokenizer: compared with `tokenizer` where given. lean: use the faster forward of
    `llama.py` for the models that fit it; False keeps to the models' own. int8: run both on int8
    copies of their weights, which needs that forward, bf16 models and the CPU. feature: a feature
    draft for the target, which needs that forward, too.
    Raises ValueError when the two cannot work together or a cache cannot roll back.
    """

    def __init__(
        self,
        target: Model,
        draft: Model | None = None,
        tokenizer: Any = None,
        *,
        draft_tokenizer: Any = None,
        name: str | None = None,
        lean: bool = True,
        int8: bool = False,
        feature: FeatureDraft | None = None,
    ) -> None:
        self.target, self.draft, self.tokenizer = target.eval(), draft, tokenizer
        self.name = name
        self.warmed: set[Any] = set()  # paths that ran once, see compare.warm_up
        self.lock = threading.RLock()
        self.device = cache.device_of(target)
        if draft is not None:
            self.draft = draft.eval().to(self.device)
        self.is_encoder_decoder = cache.is_encoder_decoder(target)
        self._check(draft_tokenizer)
        both = [m for m in (self.target, self.draft) if lean and m is not None]
        models = [m for m in both if llama.fits(m)]
        self.int8 = int8
        if int8 and (len(models) < 1 + (draft is not None) or self.device.type != "cpu"):
            raise fail(
                "precision", "int8", "'bf16' or 'fp32': int8 serves Llama-shaped pairs on a CPU"
            )
        self._lean = {id(model): llama.LeanLlama(model, int8) for model in models}
        self._t5 = {id(m): lean_t5.LeanT5(m) for m in both if lean_t5.fits(m)}
        self.feature = feature
        if feature is not None:
            if id(target) not in self._lean:
                raise ValueError("feature: the target must be Llama-shaped (and lean=True).")
            self._lean[id(target)].taps = feature.taps
            self._lean_feature = LeanFeature(feature, int8)
        self.vocab_size = self._vocab_size()

    def open_feature(self) -> FeatureState:
        """A fresh state of the feature draft."""
        return FeatureState(self._lean_feature)

    @property
    def precision(self) -> str:
        """What the weights are multiplied in: "fp32", "bf16", "int8", ..."""
        if self.int8:
            return "int8"
        dtype = next((p.dtype for p in self.target.parameters()), torch.float32)
        names = {torch.float32: "fp32", torch.bfloat16: "bf16"}
        return names.get(dtype, str(dtype).removeprefix("torch."))

    def open(
        self,
        model: Model | None,
        prompt_ids: Sequence[int],
        encoded: dict[int, torch.Tensor] | None = None,
    ) -> KVState:
        """A fresh KVState of target or draft. An encoder-decoder reads prompt_ids now, unless
        `encoded` (by model id; filled here) already holds what its encoder made of them."""
        assert model is not None
        if id(model) in self._lean:
            return llama.LlamaState(self._lean[id(model)])
        if not self.is_encoder_decoder:
            return cache.open_state(model)
        memory, t5 = {} if encoded is None else encoded, self._t5.get(id(model))
        if id(model) not in memory:
            read = cache.encode(model, prompt_ids) if t5 is None else t5.encode(prompt_ids)
            memory[id(model)] = read
        states = memory[id(model)]
        return cache.open_state(model, states) if t5 is None else lean_t5.T5State(t5, states)

    def prefix(self, prompt_ids: Sequence[int]) -> list[int]:
        """What the decoder starts from: the prompt, or the decoder's start token."""
        if not self.is_encoder_decoder:
            return list(prompt_ids)
        for owner in (getattr(self.target, "generation_config", None), self.target.config):
            for key in ("decoder_start_token_id", "bos_token_id"):
                start = getattr(owner, key, None)
                if start is not None:
                    return [int(start)]
        raise ValueError("pair: the target names no decoder start token")

    def encode(self, prompt: str | Sequence[int], raw: bool = False) -> list[int]:
        """Prompt ids. A string goes through the chat template where the tokenizer has one and
        `raw` is False; ids are used exactly as given. Raises ValueError naming `prompt`."""
        if isinstance(prompt, str):
            if self.tokenizer is None:
                raise fail("prompt", prompt, "a list of token ids: this pair has no tokenizer")
            return text.encode_prompt(self.tokenizer, prompt, raw=raw)
        return self._checked_ids(prompt)

    def _checked_ids(self, prompt: Any) -> list[int]:
        known = f"one flat list of token ids from 0 to {self.vocab_size - 1}"
        try:
            ids = [operator.index(i) for i in prompt]
        except TypeError as error:  # text, floats, or a batch of prompts
            raise fail("prompt", prompt, known) from error
        if not ids or any(isinstance(i, bool) for i in prompt):
            raise fail("prompt", prompt, known)
        for i in ids:
            if not 0 <= i < self.vocab_size:
                raise fail("prompt", i, known)
        return ids

    def eos_ids(self) -> frozenset[int]:
        """The model's own end tokens."""
        for owner in (
            getattr(self.target, "generation_config", None),
            self._config,
            self.tokenizer,
        ):
            eos = getattr(owner, "eos_token_id", None)
            if eos is not None:
                return frozenset([eos] if isinstance(eos, int) else [int(e) for e in eos])
        return frozenset()

    def constraints(self) -> Constraints:
        """Forced and banned tokens of the target's generation config (Marian, BART, ...)."""
        return constraints_of(getattr(self.target, "generation_config", None))

    def check_length(self, prompt_ids: Sequence[int], max_new_tokens: int) -> None:
        """Raise ValueError when prompt or output cannot fit into either model's context."""
        for role, model in (("target", self.target), ("draft", self.draft)):
            window = _context_window(model)
            if window is None:
                continue
            if len(prompt_ids) > window:
                raise fail(
                    "prompt", f"{len(prompt_ids)} tokens", f"at most {window}: the {role}'s context"
                )
            used = len(self.prefix(prompt_ids)) + max_new_tokens
            if used > window:
                room = window - len(self.prefix(prompt_ids))
                raise fail(
                    "max_new_tokens",
                    max_new_tokens,
                    f"at most {room}: the {role}'s context holds {window} tokens and the prompt "
                    f"takes {len(prompt_ids)}",
                )

    @property
    def _config(self) -> Any:
        return getattr(self.target, "config", None)

    def _check(self, draft_tokenizer: Any) -> None:
        for role, model in (("target", self.target), ("draft", self.draft)):
            reason = cache.refuse_reason(model) if model is not None else None
            if reason:
                raise ValueError(f"{role}: {reason}.")
        if self.draft is None:
            return
        if cache.is_encoder_decoder(self.draft) != self.is_encoder_decoder:
            raise ValueError("draft: one model is an encoder-decoder and the other is not.")
        if draft_tokenizer is not None and self.tokenizer is not None:
            reason = text.vocabulary_mismatch(self.tokenizer, draft_tokenizer)
            if reason:
                raise ValueError(f"draft: its tokenizer differs from the target's: {reason}")

    @torch.inference_mode()
    def _vocab_size(self) -> int:
        """Width of the target's logits, which its config may not tell (padded heads)."""
        head = (
            self.target.get_output_embeddings()
            if hasattr(self.target, "get_output_embeddings")
            else None
        )
        if head is not None and getattr(head, "weight", None) is not None:
            return int(head.weight.shape[0])
        state = self.open(self.target, [0])
        return int(state.prefill([0]).shape[-1])


def constraints_of(config: Any) -> Constraints:
    """Forced and banned tokens of a generation config; banned words of several tokens are not."""
    bad = [w[0] for w in getattr(config, "bad_words_ids", None) or [] if len(w) == 1]
    forced_last = getattr(config, "forced_eos_token_id", None)
    if isinstance(forced_last, (list, tuple)):
        forced_last = forced_last[0]
    return Constraints(
        banned=(*bad, *(getattr(config, "suppress_tokens", None) or ())),
        banned_first=tuple(getattr(config, "begin_suppress_tokens", None) or ()),
        forced_first=getattr(config, "forced_bos_token_id", None),
        forced_last=forced_last,
    )


def _context_window(model: Model | None) -> int | None:
    """Most positions a model has; None where there is no limit (relative positions)."""
    config = getattr(model, "config", None)
    if config is None:
        return None
    if hasattr(config, "get_text_config"):
        config = config.get_text_config()
    if getattr(config, "model_type", "") in ("t5", "mt5", "umt5", "longt5"):
        return None
    for key in ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length"):
        window = getattr(config, key, None)
        if isinstance(window, int) and window > 0:
            return window
    return None


def load_pair(
    pair: str | PairSpec,
    device: str | None = None,
    precision: str | None = None,
    *,
    draft: str | None = None,
) -> ModelPair:
    """Load a pair by its catalogue name, a PairSpec, or a local folder or Hub id of the target.

    device: a torch device; None takes CUDA where there is one; "auto" spreads a target that is too
    large for one GPU over all, and the CPU's memory, by accelerate's device map. precision: "fp32",
    "bf16", "int8" (weights only), or None for the fastest here, measured once (see `precision`).
    draft: folder or Hub id of the draft, in place of the catalogue's. Raises ValueError naming the
    bad argument.
    """
    spec = _resolve(pair, draft)
    spread = device == "auto"
    where = _device(None if spread else device)
    if precision is not None:
        lookup(PRECISIONS, precision, "precision")
    try:
        return _load(spec, where, precision, spread)
    except (OSError, SafetensorError) as error:  # missing or corrupt files, no network
        reason = str(error).strip().splitlines()[0]
        raise ValueError(f"pair: {spec.name!r} cannot be loaded: {reason}") from error


def _load(spec: PairSpec, where: torch.device, precision: str | None, spread: bool) -> ModelPair:
    for source in (spec.target, spec.draft, spec.feature):
        if spec.embedded and source and folder_of(source) is None:
            raise OSError(f"the embedded weights {source!r} are missing from assets/models")
    precision = precision or _fastest(spec, where)
    dtype = PRECISIONS[precision]
    tokenizer = weights.load_tokenizer(spec.target)
    target = weights.load_model(spec.target, dtype, spread=spread)
    if getattr(target, "hf_device_map", None) is None:  # else accelerate has placed it
        target = target.to(where)
    drafter, draft_tokenizer = None, None
    if spec.draft:
        folder = folder_of(spec.draft)
        shares = folder is not None and not (folder / "tokenizer.json").exists()
        draft_tokenizer = None if shares else weights.load_tokenizer(spec.draft)
        drafter = weights.load_model(spec.draft, dtype, shared=target if shares else None)
    feature = None if spec.feature is None else weights.load_feature(spec.feature, dtype, target)
    return ModelPair(
        target,
        drafter,
        tokenizer,
        draft_tokenizer=draft_tokenizer,
        name=spec.name,
        int8=precision == "int8",
        feature=feature,
    )


def _fastest(spec: PairSpec, where: torch.device) -> str:
    """The fastest precision for this pair, of which no weight is read."""
    models = [weights.empty_model(source) for source in (spec.target, spec.draft) if source]
    return fastest(
        shapes_of(models[0]),
        where,
        int8=all(llama.fits(model) for model in models),
        few_bits=weights.gguf_of(spec.target) is not None,
        folder=weights.cache_folder(),
    )


def _resolve(pair: str | PairSpec, draft: str | None) -> PairSpec:
    if isinstance(pair, str) and pair not in PAIRS and (draft or folder_of(pair)):
        return PairSpec(name=pair, target=pair, draft=draft, title=pair)
    spec = pair if isinstance(pair, PairSpec) else lookup(PAIRS, pair, "pair")
    return dataclasses.replace(spec, draft=draft, embedded=False) if draft else spec


def _device(device: str | None) -> torch.device:
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    known = "a torch device that this machine has, such as 'cpu'"
    try:
        found = torch.device(device)
    except RuntimeError as error:
        raise fail("device", device, known) from error
    if found.type == "cuda" and not torch.cuda.is_available():
        raise fail("device", device, known)
    return found
