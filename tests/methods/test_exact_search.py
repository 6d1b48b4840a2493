"""Exact search is brute force where it says "proven", and says so only then."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import pairwise, product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from playground.methods import exact_search
from playground.methods.scoring import ScoringParams
from playground.models import ModelPair
from playground.session import decode, stream
from playground.types import BeamEvent, DecodeResult
from tests import models_zoo
from tests.table_lm import TableLM

NORMS = ("length", "gnmt", "none")


def exact(pair: ModelPair, prompt: Sequence[int], **values: Any) -> DecodeResult:
    return decode(pair, prompt, "exact", **{"max_nodes": 100_000, **values})


def best_of(
    sequences: Sequence[tuple[list[int], float]], scoring: ScoringParams
) -> tuple[float, list[int]]:
    """The best score of all sequences, and the sequence."""
    return max((scoring.score(logprob, len(ids)), ids) for ids, logprob in sequences)


class TestBruteForce:
    @pytest.mark.parametrize("norm", NORMS)
    @pytest.mark.parametrize("penalty", [-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0])
    def test_equal_for_every_norm_and_penalty(self, norm: str, penalty: float) -> None:
        """Vocabularies of 2 to 5, limits of 1 to 5 that cut sequences, no, one or two end tokens,
        laws with and without zeros."""
        scoring = ScoringParams(length_norm=norm, length_penalty=penalty)
        for seed, (vocab_size, limit) in enumerate(product((2, 3, 5), (1, 3, 5))):
            eos = [[0], [0, 1], []][seed % 3]
            lm = TableLM(
                vocab_size,
                seed=seed,
                eos=eos,
                zeros=0.3 * (seed % 2),
                concentration=(0.3, 2)[seed % 2],
            )
            score, ids = best_of(lm.sequences([1], set(eos), limit), scoring)
            result = exact(
                ModelPair(lm), [1], max_new_tokens=limit, length_norm=norm, length_penalty=penalty
            )
            assert result.proven is True
            assert result.token_ids == ids
            assert result.beams[0].score == pytest.approx(score)
            assert result.finish_reason == ("eos" if ids[-1] in eos else "length")

    @settings(max_examples=60, deadline=None)
    @given(
        seed=st.integers(0, 10_000),
        vocab_size=st.integers(1, 5),
        limit=st.integers(1, 5),
        num_eos=st.integers(0, 3),
        zeros=st.sampled_from([0.0, 0.5]),
        concentration=st.sampled_from([0.1, 1.0, 10.0]),
        norm=st.sampled_from(NORMS),
        penalty=st.floats(-3, 3),
        minimum=st.integers(0, 5),
    )
    def test_equal_for_anything(
        self,
        seed: int,
        vocab_size: int,
        limit: int,
        num_eos: int,
        zeros: float,
        concentration: float,
        norm: str,
        penalty: float,
        minimum: int,
    ) -> None:
        """Among others with a minimum length, which no sequence that ends before it keeps."""
        minimum = min(minimum, limit)
        eos = list(range(min(num_eos, vocab_size)))
        lm = TableLM(vocab_size, seed, eos=eos, zeros=zeros, concentration=concentration)
        scoring = ScoringParams(length_norm=norm, length_penalty=penalty)
        sequences = [
            (ids, logprob)
            for ids, logprob in lm.sequences([0], set(eos), limit)
            if not set(ids[:minimum]) & set(eos)
        ]
        result = exact(
            ModelPair(lm),
            [0],
            max_new_tokens=limit,
            min_new_tokens=minimum,
            length_norm=norm,
            length_penalty=penalty,
        )
        if not sequences:  # every continuation is impossible before the minimum
            assert result.proven is False
            return
        assert result.proven is True
        assert result.beams[0].score == pytest.approx(best_of(sequences, scoring)[0])
        assert result.token_ids in [ids for ids, _ in sequences]

    @pytest.mark.parametrize("family", models_zoo.FAMILIES)
    def test_no_beam_is_better(self, family: str) -> None:
        """On real models: proven, never below the widest beam search, equal to it where that
        holds every sequence (2 tokens), and its score is the teacher-forced one."""
        pair = models_zoo.pair(family)
        for prompt, limit in zip(models_zoo.prompts(2), (2, 6), strict=True):
            common: dict[str, Any] = {
                "max_new_tokens": limit,
                "eos_token_id": list(range(2, 9)),
                "length_penalty": 0.0,
            }
            result = exact(pair, prompt, **common)
            beam = decode(pair, prompt, "beam", num_beams=64, early_stopping="never", **common)
            assert result.proven is True
            assert result.beams[0].score >= beam.beams[0].score - 1e-5
            if limit == 2:
                assert result.token_ids == beam.token_ids
            raw = [t.target_logprob for t in result.tokens]
            forced = pair.constraints()
            if forced.forced_first is None and not forced.forced_last:
                assert result.beams[0].sum_logprob == pytest.approx(
                    sum(filter(None, raw)), abs=1e-4
                )

    @pytest.mark.parametrize(
        "values",
        [{"repetition_penalty": 1.5}, {"no_repeat_ngram_size": 1}, {"no_repeat_ngram_size": 2}],
        ids=str,
    )
    def test_penalties_and_bans(self, values: dict[str, Any]) -> None:
        """They act as in beam search: the reference is the widest one, which holds everything."""
        for seed in range(4):
            pair = ModelPair(TableLM(4, seed=seed, eos=0))
            common = {"max_new_tokens": 4, "length_penalty": 1.0, **values}
            result = exact(pair, [1], **common)
            beam = decode(pair, [1], "beam", num_beams=64, early_stopping="never", **common)
            assert result.proven is True
            assert result.token_ids == beam.token_ids
            assert result.beams[0].score == pytest.approx(beam.beams[0].score)


class TestBudget:
    def test_a_small_budget_is_not_a_proof(self) -> None:
        """The best found is returned, with the note; more nodes never give a worse score; enough
        of them prove it."""
        lm = TableLM(6, seed=4, eos=0, concentration=5.0)
        scores, proofs = [], []
        for budget in (1, 2, 5, 20, 100, 1000, 100_000):
            result = exact(
                ModelPair(lm), [1], max_new_tokens=6, length_penalty=1.0, max_nodes=budget
            )
            scores.append(result.beams[0].score)
            proofs.append(result.proven)
            note = "Proven best" if result.proven else f"Not proven within {budget} nodes"
            assert note in result.notes[0]
            assert result.token_ids and result.finish_reason in ("eos", "length")
            json.dumps(result.to_dict(), allow_nan=False)
        assert all(a <= b for a, b in pairwise(scores))
        assert proofs[0] is False and proofs[-1] is True
        best, _ = best_of(lm.sequences([1], {0}, 6), ScoringParams(length_penalty=1.0))
        assert scores[-1] == pytest.approx(best)

    def test_as_good_as_greedy_once_its_path_is_read(self) -> None:
        """The budget of one greedy run gives at least greedy's score."""
        for seed in range(20):
            lm = TableLM(6, seed=seed, eos=0)
            for penalty in (0.0, 1.0):
                greedy = decode(ModelPair(lm), [1], "greedy", max_new_tokens=8)
                result = exact(
                    ModelPair(lm), [1], max_new_tokens=8, max_nodes=8, length_penalty=penalty
                )
                logprob = math.log(lm.probability([1], greedy.token_ids))
                score = ScoringParams(length_penalty=penalty).score(logprob, len(greedy.token_ids))
                assert result.beams[0].score >= score - 1e-12

    def test_without_an_end_within_the_budget(self) -> None:
        """What greedy's path has so far, marked unfinished and unproven."""
        pair = ModelPair(TableLM(6, seed=4))
        greedy = decode(pair, [1], "greedy", max_new_tokens=50)
        result = exact(pair, [1], max_new_tokens=50, max_nodes=3)
        assert result.token_ids == greedy.token_ids[:3]
        assert result.proven is False and not result.beams[0].finished

    def test_the_budget_is_kept(self) -> None:
        """Nodes are prefixes that were read, however many share a pass."""
        pair = ModelPair(TableLM(6, seed=1, concentration=10.0))
        for budget in (1, 7, 50):
            values = {"max_new_tokens": 9, "length_penalty": 1.0, "max_nodes": budget}
            events = list(stream(pair, [1], "exact", **values))
            steps = [e for e in events if isinstance(e, BeamEvent)]
            assert sum(1 + max(c.parent for c in e.candidates) for e in steps) == budget

    @pytest.mark.parametrize("nodes_per_pass", [1, 2, 3, 8])
    @pytest.mark.parametrize("num_listed", [1, 2, 64])
    def test_however_many_are_listed_and_read_at_once(
        self, num_listed: int, nodes_per_pass: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Where more continuations can win than were listed, a prefix is read again; prefixes and
        their continuations share passes, whatever the cache holds from the last one."""
        monkeypatch.setattr(exact_search, "NUM_LISTED", num_listed)
        monkeypatch.setattr(exact_search, "NODES_PER_PASS", nodes_per_pass)
        for seed, (vocab_size, limit, penalty) in enumerate(
            product((3, 7), (3, 4, 6), (-1.0, 0.0, 1.0))
        ):
            if vocab_size**limit > 3000:
                continue
            lm = TableLM(vocab_size, seed=seed, eos=0, concentration=(20.0, 1.0)[seed % 2])
            scoring = ScoringParams(length_penalty=penalty)
            score, ids = best_of(lm.sequences([1], {0}, limit), scoring)
            result = exact(ModelPair(lm), [1], max_new_tokens=limit, length_penalty=penalty)
            assert result.proven and result.token_ids == ids
            assert result.beams[0].score == pytest.approx(score)

    @pytest.mark.parametrize("penalty", [-1.0, 0.0, 1.0])
    def test_nothing_is_read_that_could_not_win(
        self, penalty: float, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """After greedy's path, only prefixes whose bound is not below the best score of all."""
        monkeypatch.setattr(exact_search, "NODES_PER_PASS", 1)
        limit, scoring = 5, ScoringParams(length_penalty=penalty)
        for seed in range(6):
            lm = TableLM(5, seed=seed, eos=0)
            best, _ = best_of(lm.sequences([1], {0}, limit), scoring)
            worth = 0
            open_ones: list[tuple[list[int], float]] = [([], 0.0)]
            while open_ones:
                ids, logprob = open_ones.pop()
                if ids and scoring.bound(logprob, len(ids), limit) < best - 1e-12:
                    continue
                worth += 1
                if len(ids) + 1 < limit:
                    law = lm.law([1, *ids])
                    open_ones += [([*ids, t], logprob + math.log(law[t])) for t in range(1, 5)]
            result = exact(ModelPair(lm), [1], max_new_tokens=limit, length_penalty=penalty)
            num_nodes = int(result.notes[0].split(" nodes")[0].split()[-1])
            assert result.proven and num_nodes <= worth + limit


class TestWhatItShows:
    def test_the_empty_output_can_win(self) -> None:
        """Stahlberg & Byrne: every first word is likelier than ending at once (0.22), but no text
        as a whole is (0.195). Greedy and two beams find texts; a length norm brings them back."""
        laws = {(0,): [0.22, 0.39, 0.39], (0, 1): [0.0, 0.5, 0.5], (0, 2): [0.0, 0.5, 0.5]}
        laws |= {(0, a, b): [1.0, 0.0, 0.0] for a in (1, 2) for b in (1, 2)}
        lm = TableLM(3, laws=laws, eos=0)
        common: dict[str, Any] = {"max_new_tokens": 5}
        empty = exact(ModelPair(lm), [0], **common)
        assert (empty.token_ids, empty.proven) == ([0], True)
        assert empty.beams[0].score == pytest.approx(math.log(0.22))
        assert len(decode(ModelPair(lm), [0], "greedy", **common).token_ids) == 3
        assert len(decode(ModelPair(lm), [0], "beam", num_beams=2, **common).token_ids) == 3
        assert len(exact(ModelPair(lm), [0], length_penalty=1.0, **common).token_ids) == 3

    def test_events(self) -> None:
        """The best so far never gets worse, what could still win never gets better, and at a proof
        nothing is left between them."""
        lm = TableLM(5, seed=8, eos=0, concentration=3.0)
        events = list(stream(ModelPair(lm), [1], "exact", max_new_tokens=6, length_penalty=0.5))
        steps = [e for e in events if isinstance(e, BeamEvent)]
        assert [e.step for e in steps] == list(range(1, len(steps) + 1))
        found = [e.best.score for e in steps if e.num_finished]
        bounds = [e.bound for e in steps if e.bound is not None]
        assert all(a <= b for a, b in pairwise(found))
        assert all(a >= b - 1e-12 for a, b in pairwise(bounds))
        result = events[-1].result
        assert result is not None and result.proven
        assert result.beams[0].score == found[-1]
        for event in steps:
            assert event.candidates
            for c in event.candidates:
                assert math.isfinite(c.score)
                assert c.kept or not c.finished

    def test_prefixes_share_passes_and_the_prompt(self) -> None:
        """Many nodes a pass; their keys and values hang on one stored prompt."""
        pair, prompt = models_zoo.pair("llama"), models_zoo.prompts(1, 30)[0]
        result = exact(pair, prompt, max_new_tokens=8, length_penalty=1.0, max_nodes=400)
        metrics = result.metrics
        assert metrics.num_target_passes < 400 / 4
        unit = 2 * 2 * 2 * 4 * 4
        most = 30 + exact_search.TOKENS_PER_PASS
        assert metrics.kv_bytes is not None and metrics.kv_bytes_naive is not None
        assert metrics.kv_bytes <= most * unit
        assert metrics.kv_bytes < metrics.kv_bytes_naive

    @torch.inference_mode()
    def test_batched_prefixes_of_different_length_are_read_right(self) -> None:
        """Shorter prefixes are filled up at the right: past a window, every law is still that of
        the prefix alone."""
        pair, prompt = models_zoo.pair("mistral"), models_zoo.prompts(1, 9)[0]
        result = exact(pair, prompt, max_new_tokens=7, eos_token_id=list(range(2, 14)))
        assert result.proven
        raw = sum(t.target_logprob or 0.0 for t in result.tokens)
        assert result.beams[0].sum_logprob == pytest.approx(raw, abs=1e-4)
