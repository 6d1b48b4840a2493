"""Warping and drawing: transformers' own order and effect, whole laws, and no token of mass 0."""

from __future__ import annotations

import math
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import LlamaConfig
from transformers.generation import GenerationConfig, GenerationMixin
from transformers.generation.logits_process import LogitsProcessorList

from playground import sampling
from playground.params import build
from playground.sampling import (
    Clock,
    Constraints,
    Draws,
    Limits,
    Sampling,
    Warper,
    invert_cdf,
    repeated_ngram_ends,
)

PREFIX = 4  # of every history here, so many ids are prompt
EOS = (1, 2)


def warper_of(constraints: Constraints | None = None, **own: Any) -> Warper:
    params = build(Sampling, {"max_new_tokens": 20, **own}, "test")
    return Warper(params, constraints or Constraints(), frozenset(EOS), PREFIX, 20)


def logits_of(seed: int, size: int, scale: float = 3.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(1, size, generator=generator, dtype=torch.float64)


class _Host(GenerationMixin):
    """Just enough of a model for `generate` to build its own list of processors."""

    config = LlamaConfig()
    device = torch.device("cpu")


def processors(sampled: bool, **own: Any) -> LogitsProcessorList:
    """The processors, in their order, that transformers' `generate` would apply."""
    config = GenerationConfig(do_sample=sampled, eos_token_id=list(EOS), **own)
    config._eos_token_tensor = torch.tensor(EOS)
    found: LogitsProcessorList = _Host()._get_logits_processor(
        generation_config=config,
        input_ids_seq_length=PREFIX,
        encoder_input_ids=None,
        prefix_allowed_tokens_fn=None,
        logits_processor=LogitsProcessorList(),
        device="cpu",
    )
    return found


SHAPES = st.fixed_dictionaries(
    {
        "temperature": st.sampled_from([0.3, 0.7, 1.0, 2.5]),
        "top_k": st.sampled_from([0, 1, 3, 10, 1000]),
        "top_p": st.sampled_from([0.05, 0.5, 0.9, 0.999, 1.0]),
    }
)
PENALTIES = st.fixed_dictionaries(
    {
        "repetition_penalty": st.sampled_from([0.7, 1.0, 1.5]),
        "no_repeat_ngram_size": st.sampled_from([0, 1, 2, 3]),
        "min_new_tokens": st.sampled_from([0, 3, 9]),
    }
)


class TestOrder:
    """The same processors as transformers, in the same order, on random logits."""

    @settings(derandomize=True, deadline=None, max_examples=150)
    @given(SHAPES, PENALTIES, st.integers(0, 10_000), st.integers(12, 40), st.integers(0, 8))
    def test_sampling(
        self, shape: dict[str, Any], penalties: dict[str, Any], seed: int, size: int, new: int
    ) -> None:
        logits = logits_of(seed, size)
        generator = torch.Generator().manual_seed(seed)
        history = torch.randint(0, 12, (PREFIX + new,), generator=generator).tolist()
        found = warper_of(**shape, **penalties).probs(logits, history, len(history))
        theirs = processors(True, **shape, **penalties)(torch.tensor([history]), logits.clone())
        assert torch.allclose(found, theirs.softmax(-1).nan_to_num(0.0), atol=1e-12)

    @settings(derandomize=True, deadline=None, max_examples=80)
    @given(PENALTIES, st.integers(0, 10_000), st.integers(0, 8))
    def test_greedy_and_temperature_zero(
        self, penalties: dict[str, Any], seed: int, new: int
    ) -> None:
        logits = logits_of(seed, 16)
        generator = torch.Generator().manual_seed(seed)
        history = torch.randint(0, 12, (PREFIX + new,), generator=generator).tolist()
        theirs = processors(False, **penalties)(torch.tensor([history]), logits.clone())
        ours = warper_of(temperature=0, **penalties)
        assert torch.equal(ours.process(logits, history, len(history)), theirs)
        law = ours.probs(logits, history, len(history))[0]
        assert (law.argmax(), law.max(), law.sum()) == (theirs.argmax(), 1.0, 1.0)

    def test_rows_follow_their_own_histories(self) -> None:
        """One call over a draft warps each row as a call of its own would."""
        warper = warper_of(
            repetition_penalty=1.4, no_repeat_ngram_size=2, min_new_tokens=6, top_p=0.9
        )
        rows, history = logits_of(0, 12).expand(4, -1), [3, 5, 3, 4, 5, 3, 4, 5]
        together = warper.probs(rows, history, 5)
        for i in range(4):
            alone = warper.probs(rows[i : i + 1], history[: 5 + i], 5 + i)
            assert torch.equal(together[i : i + 1], alone)

    @pytest.mark.parametrize("offset", [-20.0, 0.0, 20.0])
    def test_repetition_penalty_always_discourages(self, offset: float) -> None:
        """Case 17. Sign-aware; on logits it does depend on a constant added to them, as it does in
        transformers, but never makes a token that occurred more likely."""
        logits = logits_of(2, 10, scale=1.0) + offset
        plain = warper_of().probs(logits, [], 0)[0]
        for token in range(10):
            history = [token] * 5
            fined = warper_of(repetition_penalty=1.5).probs(logits, history, 5)[0]
            assert fined[token] < plain[token]

    def test_minimum_length_counts_new_tokens_only(self) -> None:
        """Case 20."""
        warper = warper_of(min_new_tokens=3)
        for new in range(5):
            history = [7] * (PREFIX + new)
            law = warper.probs(logits_of(3, 10), history, len(history))[0]
            assert (law[list(EOS)] == 0).all() == (new < 3)

    def test_every_token_banned_is_an_empty_law_not_nan(self) -> None:
        """Case 11."""
        for temperature in (0, 1):
            warper = warper_of(no_repeat_ngram_size=1, temperature=temperature)
            law = warper.probs(logits_of(0, 4), [0, 1, 2, 3], 4)[0]
            assert (law == 0).all()
            assert warper.is_exhausted(law)
            assert not warper.is_exhausted(warper.probs(logits_of(0, 4), [0, 1, 2], 3)[0])


class TestShape:
    """Temperature, top-k and top-p at and beyond the ends of their ranges."""

    @settings(derandomize=True, deadline=None, max_examples=150)
    @given(
        st.sampled_from([0, 1e-7, 1e-6, 1e-5, 0.01, 0.5, 1, 2, 10]),
        st.sampled_from([0, 1, 2, 5, 10**6]),
        st.sampled_from([0, 0.0, 1e-9, 0.5, 0.999999, 1, 1.0]),
        st.sampled_from([torch.float64, torch.float32, torch.bfloat16, torch.float16]),
        st.integers(0, 1000),
    )
    def test_every_slider_end_gives_a_law(
        self, temperature: float, top_k: int, top_p: float, dtype: torch.dtype, seed: int
    ) -> None:
        """Cases 27, 58. Whole numbers and fractions; never NaN, always at least one token."""
        warper = warper_of(temperature=temperature, top_k=top_k, top_p=top_p)
        logits = logits_of(seed, 9, scale=30.0).to(dtype)
        law = warper.probs(logits, [], 0)[0]
        assert law.isfinite().all() and (law >= 0).all()
        assert abs(float(law.sum()) - 1) < 1e-5
        assert law[logits[0].argmax()] > 0
        if top_k:
            assert (law > 0).sum() <= max(top_k, int((logits[0] == logits[0].max()).sum()))

    def test_top_p_zero_keeps_the_best_token(self) -> None:
        """Case 58."""
        law = warper_of(top_p=0).probs(logits_of(4, 20), [], 0)[0]
        assert law.max() == 1.0 and (law > 0).sum() == 1

    def test_temperature_zero_is_the_first_of_the_largest(self) -> None:
        law = warper_of(temperature=0).probs(torch.tensor([[1.0, 3.0, 3.0, 2.0]]), [], 0)[0]
        assert law.tolist() == [0.0, 1.0, 0.0, 0.0]

    @settings(derandomize=True, deadline=None, max_examples=25)
    @given(st.integers(0, 1000), st.sampled_from([0.01, 0.5, 0.9, 0.999]), st.booleans())
    def test_nucleus_without_a_full_sort_equals_one(
        self, seed: int, top_p: float, flat: bool
    ) -> None:
        """Large vocabularies are sorted only as far as the nucleus reaches."""
        logits = logits_of(seed, 6000, scale=0.1 if flat else 4.0)
        found = warper_of(top_p=top_p).probs(logits, [], 0)[0]
        probs = logits[0].softmax(0)
        values, index = probs.sort(descending=True)
        keep = values.cumsum(0) - values < top_p
        expected = torch.zeros_like(probs)
        expected[index[keep]] = values[keep] / values[keep].sum()
        assert torch.allclose(found, expected, atol=1e-12)
        assert float(probs[found > 0].sum()) >= top_p - 1e-12

    def test_laws_of_half_precision_logits_are_single_precision(self) -> None:
        law = warper_of(temperature=0.7).probs(logits_of(0, 8).to(torch.bfloat16), [], 0)
        assert law.dtype == torch.float32

    def test_logits_stay_as_they_are(self) -> None:
        logits = logits_of(0, 8)
        kept = logits.clone()
        warper = warper_of(temperature=0.5, top_k=2, top_p=0.5, repetition_penalty=2.0)
        warper.probs(logits, [1, 2, 3, 4, 5], 5)
        assert torch.equal(logits, kept)

    def test_search_limits_have_no_shape(self) -> None:
        """Greedy and beams have penalties, but neither temperature nor top-k nor top-p."""
        warper = Warper(Limits(), Constraints(), frozenset(), 0, 64)
        logits = logits_of(0, 8)
        assert torch.allclose(warper.probs(logits, [], 0), logits.softmax(-1))


class TestNgrams:
    @settings(derandomize=True, deadline=None)
    @given(st.lists(st.integers(0, 3), max_size=14), st.integers(1, 4))
    def test_ends_of_ngrams_that_occurred(self, history: list[int], n: int) -> None:
        grams = {tuple(history[i : i + n]) for i in range(len(history) - n + 1)}
        for token in range(4):
            gram = tuple([*history, token][-n:])
            assert (token in repeated_ngram_ends(history, n)) == (gram in grams)


class TestDraws:
    @settings(derandomize=True, deadline=None, max_examples=200)
    @given(
        st.lists(st.sampled_from([0.0, 0.0, 1e-30, 1e-9, 0.1, 1.0, 5.0]), min_size=1, max_size=9),
        st.one_of(st.floats(0, 1, exclude_max=True), st.just(math.nextafter(1.0, 0.0))),
        st.sampled_from([torch.float64, torch.float32]),
        st.sampled_from([4, 256]),
    )
    def test_inversion_never_returns_a_token_of_mass_zero(
        self, weights: list[float], u: float, dtype: torch.dtype, block: int
    ) -> None:
        """Nor does rounding at the very end of the sum, in one block of tokens or in several."""
        if not any(weights):
            return
        probs = torch.tensor(weights, dtype=dtype)
        with patch.object(sampling, "_BLOCK", block):
            index = invert_cdf(probs, u)
        assert probs[index] > 0
        total, before = float(probs.double().sum()), float(probs[:index].double().sum())
        assert before <= u * total * (1 + 1e-12)

    @settings(derandomize=True, deadline=None, max_examples=50)
    @given(st.lists(st.integers(0, 5), min_size=2, max_size=6))
    def test_each_token_has_an_interval_of_its_own_mass(self, weights: list[int]) -> None:
        """u = (k + ½)/total falls on the token that owns unit k: the law is exact by inversion."""
        total = sum(weights)
        owners = [token for token, weight in enumerate(weights) for _ in range(weight)]
        probs = torch.tensor(weights, dtype=torch.float64)
        for block in (4, 256):
            with patch.object(sampling, "_BLOCK", block):
                assert [invert_cdf(probs, (k + 0.5) / total) for k in range(total)] == owners

    def test_a_seed_is_a_stream_of_its_own(self) -> None:
        """Case 38. Private, the same again, and apart from torch's own stream."""
        torch.manual_seed(0)
        state = torch.get_rng_state()
        one, two, other = Draws(7), Draws(7), Draws(8)
        numbers = [one.uniform() for _ in range(5)]
        other.uniform()
        torch.rand(3)
        assert [two.uniform() for _ in range(5)] == numbers
        assert all(0 <= u < 1 for u in numbers)
        torch.manual_seed(0)
        assert torch.equal(torch.get_rng_state(), state)
        Draws(1).categorical(torch.tensor([0.5, 0.5]))
        assert torch.equal(torch.get_rng_state(), state)


def test_the_clock_waits_for_a_gpu_at_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 80."""
    waited: list[Any] = []
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    gpu = torch.device("cuda", 1)
    clock = Clock(gpu)
    with clock.time("draft", passes=2):
        assert waited == [gpu]
    assert waited == [gpu, gpu]
    assert clock.passes == {"target": 0, "draft": 2} and clock.seconds["draft"] > 0
    Clock(torch.device("cpu")).now()
    assert len(waited) == 2


def test_numbers_of_numpy_are_numbers() -> None:
    """Grids of settings are often made with it; what a result tells of them is plain JSON."""
    values = {"temperature": np.float32(0.5), "top_k": np.int64(5), "max_new_tokens": np.float64(3)}
    params = build(Sampling, values, "test")
    found = (params.temperature, params.top_k, params.max_new_tokens)
    assert found == (0.5, 5, 3) and [type(v) for v in found] == [float, int, int]
    bad = (np.float32("nan"), np.float64("inf"), np.bool_(True), 10**400, 1j, np.array([1.0]))
    for value in bad:
        with pytest.raises(ValueError, match=r"^temperature: "):
            build(Sampling, {"temperature": value}, "test")
