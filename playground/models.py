"""Load a pair: weights, tokenizer, device, precision; and check that it can serve.

A pair is refused, with the reason, when its tokenizers differ in contents or write ids that a model
cannot read, when a cache cannot forget tokens that were rejected, or when it takes more memory than
there is.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from playground import cache, lean_t5, llama, memory, text, weights
from playground.cache import Model
from playground.catalog import folder_of, missing_files, spec_of
from playground.contracts import KVState
from playground.faults import first_line, is_out_of_memory
from playground.feature_draft import (
    FeatureDraft,
    FeatureState,
    LeanLlamaFeature,
    LeanT5Feature,
    LlamaFeatureState,
    T5FeatureState,
)
from playground.generation_config import constraints_of, end_ids, unmet
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
        models, t5 = ([m for m in both if kind.fits(m)] for kind in (llama, lean_t5))
        self.int8 = int8
        if int8 and (len(models + t5) < 1 + (draft is not None) or self.device.type != "cpu"):
            raise fail("precision", "int8", "'bf16' or 'fp32': int8 serves Llamas and T5s on a CPU")
        self._lean = {id(m): llama.LeanLlama(m, int8, draft=m is not target) for m in models}
        # Whose encoder reads the prompt for each of the two: a draft often keeps its target's.
        shared = len(t5) == 2 and lean_t5.same_encoder(*t5)
        self._readers = {id(self.draft): id(target)} if shared else {}
        self._t5 = {id(m): lean_t5.LeanT5(m, int8) for m in t5}
        self.feature = feature
        if feature is not None:
            host = self._lean.get(id(target)) or self._t5.get(id(target))
            if host is None:
                raise ValueError("feature: the target must be a Llama or T5 (and lean=True).")
            host.taps = feature.taps
            kind = LeanT5Feature if self.is_encoder_decoder else LeanLlamaFeature
            self._lean_feature = kind(feature, int8)
        self.vocab_size = self._vocab_size()
        self._check_ids()

    def open_feature(self, encoded: dict[int, torch.Tensor]) -> FeatureState:
        """A fresh state of the feature draft; `encoded` as `open` of the target filled it."""
        if isinstance(self._lean_feature, LeanT5Feature):
            return T5FeatureState(self._lean_feature, encoded[id(self.target)])
        return LlamaFeatureState(self._lean_feature)

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
        `encoded` (by the id of the model that encodes; filled here) already holds what its encoder
        made of them."""
        assert model is not None
        if id(model) in self._lean:
            return llama.LlamaState(self._lean[id(model)])
        if not self.is_encoder_decoder:
            return cache.open_state(model)
        memory, t5 = {} if encoded is None else encoded, self._t5.get(id(model))
        reader = self._readers.get(id(model), id(model))
        if reader not in memory:
            read = cache.encode(model, prompt_ids) if t5 is None else t5.encode(prompt_ids)
            memory[reader] = read
        states = memory[reader]
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
            ids = text.encode_prompt(self.tokenizer, prompt, raw=raw)
            if max(ids) >= self._num_ids:  # an added token that the model lacks
                raise fail(
                    "prompt", self.tokenizer.decode([max(ids)]), "no such token: the model lacks it"
                )
            return ids
        return self._checked_ids(prompt)

    def _checked_ids(self, prompt: Any) -> list[int]:
        known = f"one flat list of token ids from 0 to {self.vocab_size - 1}"
        if isinstance(prompt, (bytes, bytearray, Mapping)):  # their items may look like ids
            raise fail("prompt", prompt, known)
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
                return end_ids(eos, self.vocab_size)
        return frozenset()

    def constraints(self, prompt_ids: Sequence[int] = ()) -> Constraints:
        """What the target's own generation config asks for (Marian, BART, ...)."""
        return constraints_of(getattr(self.target, "generation_config", None), prompt_ids)

    def notes(self) -> list[str]:
        """What it asks for and no run does, a sentence each."""
        asked = unmet(getattr(self.target, "generation_config", None))
        return [
            f"The model's own generation config sets {name} = {value}, which no run here applies."
            for name, value in asked.items()
        ]

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

    def _check_ids(self) -> None:
        """An id beyond a model's embeddings would fault a GPU for good."""
        written = getattr(self.tokenizer, "vocab_size", 0)  # added tokens are `encode`'s to check
        if written > self._num_ids:
            raise ValueError(
                f"target: it knows {self._num_ids} ids, and its tokenizer writes {written}."
            )

    @property
    def _num_ids(self) -> int:
        """How many ids the target reads and writes."""
        known = cache.num_readable(self.target)
        return self.vocab_size if known is None else min(known, self.vocab_size)

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
        parts = _read(spec, where, precision, spread)
    except Exception as error:  # broken files and networks fail in any way inside three libraries
        raise ValueError(f"pair: {spec.name!r} cannot be loaded: {_reason(error, spec)}") from error
    return ModelPair(**parts, name=spec.name)


def _reason(error: Exception, spec: PairSpec) -> str:
    """What went wrong, in one line that tells nothing of the paths of this machine."""
    if is_out_of_memory(error):
        return "memory ran out; use a smaller pair"
    reason = first_line(error)
    for source in (spec.target, spec.draft, spec.feature):
        folder = folder_of(source) if source else None
        if folder is not None:
            for path in (str(folder.resolve()), str(folder)):
                reason = reason.replace(path, folder.resolve().name)
    return reason


def _read(
    spec: PairSpec, where: torch.device, precision: str | None, spread: bool
) -> dict[str, Any]:
    """What a ModelPair is made of, from the files of the pair."""
    if missing := missing_files(spec):
        raise OSError(
            f"weights are missing from assets/models: {', '.join(missing)}. `git lfs pull` fetches "
            "them where they are in Git LFS; assets/models/README.md says where each comes from"
        )
    sources = [source for source in (spec.target, spec.draft, spec.feature) if source]
    empty = [weights.empty_model(source) for source in sources]
    precision = precision or _fastest(spec, empty[: 1 + bool(spec.draft)], where)
    dtype = PRECISIONS[precision]
    _check_memory(memory.needed(empty, dtype, precision == "int8"), where, spread)
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
    return {
        "target": target,
        "draft": drafter,
        "tokenizer": tokenizer,
        "draft_tokenizer": draft_tokenizer,
        "int8": precision == "int8",
        "feature": feature,
    }


def _check_memory(needed: int, where: torch.device, spread: bool) -> None:
    """Refuse what cannot fit before anything is read; a system out of memory kills the process."""
    free = memory.available(where, spread)
    if needed > free:
        place = "on all devices" if spread else f"on {where}"
        sizes = f"{needed / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free"
        raise ValueError(f"it needs about {sizes} {place}")


def _fastest(spec: PairSpec, models: list[Model], where: torch.device) -> str:
    """The fastest precision for this pair, of which no weight is read."""
    return fastest(
        shapes_of(models[0]),
        where,
        int8=all(llama.fits(m) or lean_t5.fits(m) for m in models),
        few_bits=weights.gguf_of(spec.target) is not None,
        folder=weights.cache_folder(),
    )


def _resolve(pair: Any, draft: str | None) -> PairSpec:
    if isinstance(pair, PairSpec):
        return replace(pair, draft=draft, embedded=False) if draft else pair
    if not isinstance(pair, str):
        raise fail("pair", pair, "a name, a folder or a Hub id")
    return spec_of(pair, draft)


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
