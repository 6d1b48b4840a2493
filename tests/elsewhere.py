"""Every loop on a stand-in for a GPU: `python -m tests.elsewhere` prints a line for each.

Its tensors say that they lie on a device of their own and hold ordinary ones. An operation over
tensors of both devices is refused where CUDA refuses it, and so is reading one without a copy: what
runs here has no tensor on the wrong device. The process serves for nothing else afterwards.
"""

from __future__ import annotations

import sys
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

import playground as pg
from playground import cache
from playground.feature_draft import FeatureDraft
from playground.graphs import Graphs
from playground.models import ModelPair
from tests import feature_pairs, models_zoo
from tests.feature_pairs import llama, llama_pair

aten = torch.ops.aten
# What may take tensors of two devices: copies, and positions given on the CPU.
_CROSSING = {"aten::to", "aten::_to_copy", "aten::copy_", "aten::_copy_from"}
_INDEXING = {"aten::index", "aten::index_put_", "aten::_index_put_impl_"}
PROMPT = [3, 4, 5, 1]
EVERY_SETTING: dict[str, Any] = {
    "top_p": 0.9,
    "top_k": 5,
    "repetition_penalty": 1.2,
    "no_repeat_ngram_size": 2,
    "min_new_tokens": 3,
    "temperature": 0.7,
}
_STOPS = {"assistant_confidence_threshold": 0.2, "entropy_stop": 0.2, "temperature": 0}


class Elsewhere(Tensor):
    """A tensor on the other device, by the ordinary one that holds its numbers."""

    @staticmethod
    def __new__(cls, held: Tensor) -> Elsewhere:
        shape = {"strides": held.stride(), "storage_offset": held.storage_offset()}
        return Tensor._make_wrapper_subclass(
            cls, held.size(), dtype=held.dtype, device=torch.device("other", 0), **shape
        )

    def __init__(self, held: Tensor) -> None:
        self.held = held

    def numpy(self, *, force: bool = False) -> Any:
        if not force:
            raise TypeError("can't convert a tensor of another device to numpy")
        return self.held.numpy(force=True).copy()

    def tolist(self) -> Any:
        return self.held.tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


class _Everywhere(TorchDispatchMode):
    """Sees operations that make tensors of nothing, too."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


def _run(func: Any, args: Any, kwargs: Any) -> Any:
    """The operation on what is held; its result is elsewhere if an operand is, or if it says so."""
    leaves, name = tree_leaves((args, kwargs)), func._schema.name
    there = [x for x in leaves if isinstance(x, Elsewhere)]
    here = [x for x in leaves if isinstance(x, Tensor) and not isinstance(x, Elsewhere) and x.dim()]
    may_mix = name in _CROSSING or (name in _INDEXING and isinstance(args[0], Elsewhere))
    if there and here and not may_mix:
        raise RuntimeError(f"tensors on two devices: {func}")
    devices = [x for x in leaves if isinstance(x, torch.device)]
    result = func(*tree_map(_here, args), **tree_map(_here, kwargs))
    goes = devices[-1].type == "other" if devices else bool(there)
    if name == "aten::copy_":
        goes = isinstance(args[0], Elsewhere)
    known = {id(x.held): x for x in there}  # operations in place give back their operand
    return (
        tree_map(lambda x: known[id(x)] if id(x) in known else _there(x), result)
        if goes
        else result
    )


def _here(x: Any) -> Any:
    return x.held if isinstance(x, Elsewhere) else torch.device("cpu") if _is_device(x) else x


def _is_device(x: Any) -> bool:
    return isinstance(x, torch.device) and x.type == "other"


def _there(x: Any) -> Any:
    return Elsewhere(x) if isinstance(x, Tensor) else x


def _empty_strided(size: Any, stride: Any, dtype: Any = None, **_: Any) -> Tensor:
    return Elsewhere(torch.empty_strided(size, stride, dtype=dtype))


def _copy_from(source: Tensor, to: Elsewhere, non_blocking: bool = False) -> Tensor:
    to.held.copy_(_here(source))
    return to


@torch.inference_mode()  # in which views of them are taken
def moved(model: Any) -> Any:
    """The model with its weights elsewhere; tied ones stay tied."""
    known: dict[int, Any] = {}
    for module in model.modules():
        for name, weight in module._parameters.items():
            if weight is not None and id(weight) not in known:
                if isinstance(weight, Elsewhere):  # of a module that two models share
                    continue
                new = torch.nn.Parameter(Elsewhere(weight.data), requires_grad=False)
                known[id(weight)] = known[id(new)] = new
            module._parameters[name] = None if weight is None else known[id(weight)]
        for name, buffer in module._buffers.items():
            module._buffers[name] = _there(buffer)
    return model


def chat_pair(place: Any = lambda x: x) -> ModelPair:
    """A target with a draft and a feature draft, whose head is cut. Elsewhere, all passes that CUDA
    would record run as they would be recorded."""
    pair = llama_pair()
    assert pair.feature is not None
    pair.feature.model.register_buffer("head_ids", torch.arange(0, 32, 2), persistent=False)
    torch.manual_seed(5)
    built = placed(pair, llama(2, 32, torch.float32), place)
    for lean in (*built._lean.values(), built._lean_feature):
        lean.graphs = Graphs(lean, lambda step: step) if place is moved else None
    return built


def t5_pair(place: Any = lambda x: x) -> ModelPair:
    """The same of T5s, whose draft has an encoder of its own."""
    pair = feature_pairs.t5_pair()
    torch.manual_seed(5)
    return placed(pair, models_zoo._t5_deep_decoder(), place)


def placed(pair: ModelPair, draft: Any, place: Any) -> ModelPair:
    """The pair and this draft, all in their place."""
    feature, put = pair.feature, place if place is not moved else Elsewhere
    assert feature is not None
    model = place(feature.model)
    whole = FeatureDraft(model, feature.taps, put(feature.fuse), put(feature.own))
    return ModelPair(place(pair.target), place(draft), feature=whole)


def cases() -> list[tuple[Any, str, dict[str, Any]]]:
    """What is run: the pair, the method, its settings."""
    found: list[tuple[Any, str, dict[str, Any]]] = []
    for make in (chat_pair, t5_pair):
        found += [(make, name, {}) for name in pg.METHODS]
        found += [(make, name, {"proposer": "feature"}) for name in ("speculative", "mentored")]
        found += [(make, name, EVERY_SETTING) for name in ("sample", "mentored")]
        found += [(make, "beam", {"repetition_penalty": 1.2, "no_repeat_ngram_size": 2})]
        found += [(make, "speculative", {"verifier": rule}) for rule in pg.VERIFIERS]
        found += [(make, "speculative", {"proposer": "prompt_lookup", **_STOPS})]
    loose = {"keep_support": False, "top_k": 4}
    found += [(chat_pair, "mentored", {"divergence": kind, **loose}) for kind in ("chi2", "tv")]
    return found


def _mixing_is_refused() -> bool:
    with _Everywhere():
        try:
            Elsewhere(torch.ones(3)) + torch.ones(3)
        except RuntimeError:
            return True
    return False


def main() -> int:
    """Number of loops that failed or gave other tokens than on the CPU."""
    _setup_privateuseone_for_python_backend("other")
    library = torch.library.Library("aten", "IMPL")
    library.impl("empty_strided", _empty_strided, "PrivateUse1")
    library.impl("_copy_from", _copy_from, "PrivateUse1")
    failures = int(not _mixing_is_refused())
    # The check of a cache runs transformers' own forward, which is not ours to test.
    with mock.patch.object(cache, "refuse_reason", lambda model: None):
        pairs = {make: make() for make in (chat_pair, t5_pair)}
        with _Everywhere():
            others = {make: make(moved) for make in pairs}
    for make, method, settings in cases():
        common = {"seed": 1, "eos_token_id": [], "max_new_tokens": 4 if method == "exact" else 12}
        expected = pg.decode(pairs[make], PROMPT, method, **{**common, **settings}).to_dict()
        try:
            with _Everywhere():
                found = pg.decode(others[make], PROMPT, method, **{**common, **settings}).to_dict()
            line = "same" if found["token_ids"] == expected["token_ids"] else "other tokens"
        except Exception as error:
            line = f"{type(error).__name__}: {error}".splitlines()[0]
        failures += line != "same"
        print(make.__name__, method, settings, line)
    for lean in (*others[chat_pair]._lean.values(), others[chat_pair]._lean_feature):
        assert lean.graphs is not None
        failures += lean.graphs.failed or not lean.graphs._sets
    return failures


if __name__ == "__main__":
    sys.exit(main())
