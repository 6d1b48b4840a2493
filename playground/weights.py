"""Read weights: a transformers folder or Hub id, the embedded GGUF, and drafts without embeddings.

Only safetensors and GGUF are read: no pickles, which can run code, and no code of a repository.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    PretrainedConfig,
)
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from playground.cache import Model
from playground.catalog import folder_of
from playground.feature_draft import FeatureDraft
from playground.gguf_weights import read_llama

# Where a Hub repository has pickles alone, transformers would ask a service to convert them.
os.environ["DISABLE_SAFETENSORS_CONVERSION"] = "1"
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


def load_tokenizer(source: str) -> Any:
    """The tokenizer of a folder or Hub id."""
    return AutoTokenizer.from_pretrained(str(folder_of(source) or source), trust_remote_code=False)


def load_model(
    source: str, dtype: torch.dtype, shared: Model | None = None, spread: bool = False
) -> Model:
    """The model of a folder or Hub id. `shared`: whose embeddings a draft without its own uses.
    spread: over all devices, by accelerate's device map; an embedded model is small and is not.
    Raises OSError where there are no weights that may be read."""
    folder, file = folder_of(source), gguf_of(source)
    if file is not None:
        return _fill(empty_model(source, dtype), _converted(file, dtype))
    if folder is not None and shared is not None:
        model = empty_model(source, dtype)
        return _sharing(model, load_file(folder / "model.safetensors"), dtype, shared)
    auto, _ = _kind(source)
    device_map = "auto" if spread else None
    try:
        return auto.from_pretrained(
            str(folder or source),
            dtype=dtype,
            use_safetensors=True,
            trust_remote_code=False,
            device_map=device_map,
        )
    except OSError as error:
        if "safetensors" in str(error) and not _has_safetensors(folder):
            raise OSError(
                f"{_name(source)} has no weights as safetensors{_pickled(folder)}"
            ) from None
        raise


def _has_safetensors(folder: Path | None) -> bool:
    return folder is not None and any(folder.glob("*.safetensors"))


def _pickled(folder: Path | None) -> str:
    """What is said of weights in a form that is never read."""
    found = sorted(p.name for p in folder.iterdir() if p.suffix in _PICKLES) if folder else []
    return f"; pickles can run code and are never read{': ' * bool(found)}{', '.join(found)}"


def _name(source: str) -> str:
    """A source without the path to it."""
    folder = folder_of(source)
    return source if folder is None else folder.resolve().name


def gguf_of(source: str) -> Path | None:
    """The GGUF file of a folder that has one."""
    folder = folder_of(source)
    return None if folder is None else next(iter(sorted(folder.glob("*.gguf"))), None)


def empty_model(source: str, dtype: torch.dtype = torch.bfloat16) -> Model:
    """The model of a folder or Hub id on the meta device: shapes without weights."""
    auto, config = _kind(source)
    with torch.device("meta"):
        return auto.from_config(config, dtype=dtype, trust_remote_code=False)


def _kind(source: str) -> tuple[Any, Any]:
    """(transformers' auto class, configuration) of a folder or Hub id. Code that its repository
    brings is never run: without it the model must be one that transformers knows."""
    where = str(folder_of(source) or source)
    given, _ = PretrainedConfig.get_config_dict(where)
    if "auto_map" in given and given.get("model_type") not in CONFIG_MAPPING:
        raise OSError(f"{_name(source)} needs code of its own repository, which is never run here")
    if not str(given.get("transformers_weights") or ".safetensors").endswith(".safetensors"):
        raise OSError(f"{_name(source)} names weights that are not safetensors")
    config = AutoConfig.from_pretrained(where, trust_remote_code=False)
    auto = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    return auto, config


def _fill(model: Model, weights: dict[str, torch.Tensor]) -> Model:
    """Give a model built on the meta device its weights; buffers are computed anew."""
    _, unexpected = model.load_state_dict(weights, strict=False, assign=True)
    model.tie_weights()
    absent = [name for name, weight in model.named_parameters() if weight.is_meta]
    if absent or unexpected:
        raise ValueError(f"weights: missing {absent[:3]}, unexpected {unexpected[:3]}")
    if not model.config.is_encoder_decoder:
        rotary = model.model.rotary_emb
        model.model.rotary_emb = type(rotary)(config=model.config)
    return model


def _converted(weights: Path, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """The tensors of a GGUF; a copy that loads faster is kept in the user's cache folder."""
    stamp = f"{weights.stat().st_size}-{str(dtype).removeprefix('torch.')}"
    kept = cache_folder() / f"{weights.stem}-{stamp}.safetensors"
    try:
        with safe_open(kept, "pt") as file:
            return {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError):
        pass  # none yet, or a broken one: both are made anew
    tensors = {key: value.to(dtype) for key, value in read_llama(weights).items()}
    partial = kept.with_suffix(f".{os.getpid()}.partial")
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        save_file(tensors, partial)
        partial.replace(kept)  # a reader never sees half a file
    except (OSError, SafetensorError):  # a read-only or full disk only costs the next start time
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
    return tensors


def cache_folder() -> Path:
    """Where converted weights and what was measured are kept: in the user's cache folder."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "decoding-playground"


def load_feature(source: str, dtype: torch.dtype, target: Model) -> FeatureDraft:
    """The feature draft of a folder: layers that share the target's embeddings (and encoder), two
    projections, and in the configuration the taps."""
    folder = folder_of(source)
    if folder is None:
        raise OSError(f"no folder {source!r}")
    weights = load_file(folder / "model.safetensors")
    fuse, own = (weights.pop(f"{name}.weight").to(target.device, dtype) for name in ("fuse", "own"))
    model = empty_model(source, dtype)
    if model.config.is_encoder_decoder:
        model.encoder = target.encoder
        for block in model.decoder.block:
            del block.layer[0]  # its attention to itself
    model = _sharing(model, weights, dtype, target).to(target.device)
    return FeatureDraft(model, tuple(model.config.taps), fuse, own)


def _sharing(
    model: Model, weights: dict[str, torch.Tensor], dtype: torch.dtype, shared: Model
) -> Model:
    """An empty draft with its weights: it ships only its layers, and reads and writes through the
    target's embeddings.

    `head_ids`, where the file has them, are the only tokens it writes: a cheaper head, which never
    changes what verification lets through.
    """
    head_ids = weights.pop("head_ids", None)
    weights = {key: value.to(dtype) for key, value in weights.items()}
    name = "shared" if model.config.is_encoder_decoder else "model.embed_tokens"
    weights[f"{name}.weight"] = shared.get_input_embeddings().weight
    model = _fill(model, weights)
    if head_ids is not None:
        model.register_buffer("head_ids", head_ids.long(), persistent=False)
    return model
