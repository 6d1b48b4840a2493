"""Beam search is transformers' beam search; with enough beams it is brute force; diverse groups
follow their paper. `generate` appears in tests only, as the reference."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from playground.contracts import KVState
from playground.methods import fields_of
from playground.methods.scoring import ScoringParams
from playground.models import ModelPair
from playground.session import decode, stream
from playground.types import Beam, BeamEvent
from tests import models_zoo
from tests.table_lm import TableLM

GOLDEN = Path(__file__).parent.parent / "golden"
PENALTIES = (-1.0, 0.0, 0.5, 1.0, 2.0)
STOPPING: tuple[bool | str, ...] = (True, False, "never")
ENDS = ([1], [21], [1, 4, 7], list(range(2, 12)), [])  # rare, rare, likely, very likely, none
MAX_WIDTH = 64  # of the parameter


def beams_of(
    pair: ModelPair, prompt: Sequence[int], method: str = "beam", **settings: Any
) -> list[Beam]:
    return list(decode(pair, prompt, method, **settings).beams)


def assert_equals_transformers(
    family: str,
    prompt: list[int],
    eos: list[int] | None,
    settings: dict[str, Any],
    scale: float = 2.0,
) -> list[Beam]:
    """Same sequences in the same order with the same scores. Rows that `generate` fills up with a
    score of -1e9 are no beams."""
    rows, scores = models_zoo.generate(family, prompt, eos, scale=scale, **settings)
    assert scores is not None
    found = beams_of(models_zoo.pair(family, scale=scale), prompt, eos_token_id=eos, **settings)
    expected = [(ids, score) for ids, score in zip(rows, scores, strict=True) if score > -1e8]
    assert [beam.token_ids for beam in found] == [ids for ids, _ in expected]
    assert [beam.score for beam in found] == pytest.approx(
        [score for _, score in expected], abs=1e-4, rel=1e-5
    )
    return found


class TestTransformers:
    """3 · 15 combinations for each of 8 families (360), 15 with peaked laws on 2 prompts for 4 of
    them (120), and those of the other settings (48)."""

    @pytest.mark.parametrize("family", models_zoo.FAMILIES)
    def test_beams_scores_and_order(self, family: str) -> None:
        """Widths 2 to 8, every length penalty, every stopping mode, end tokens from none to ten
        (case 6), outputs of 1 to 12 tokens, prompts of 1 to 9. A sequence holds at most one end
        token, as its last, and none occurs twice (case 7); T5's pad id 0 ends nothing (case 18)."""
        prompts = [p for length in (1, 4, 9) for p in models_zoo.prompts(5, length, seed=3)]
        num_ended = 0
        for i, (penalty, early) in enumerate(product(PENALTIES, STOPPING)):
            for width in (2 + i % 2, 4 + i % 3, 7 + i % 2):
                eos = ENDS[(i + width) % len(ENDS)]
                settings = {
                    "num_beams": width,
                    "length_penalty": penalty,
                    "early_stopping": early,
                    "num_return_sequences": 1 + (i + width) % width if i % 3 else width,
                    "max_new_tokens": (1, 5, 8, 12)[i % 4],
                }
                found = assert_equals_transformers(family, prompts[i], eos, settings)
                for beam in found:
                    assert not set(beam.token_ids[:-1]) & set(eos)
                    assert beam.length == len(beam.token_ids)
                    num_ended += beam.token_ids[-1] in eos
                assert len({tuple(beam.token_ids) for beam in found}) == len(found)
        assert num_ended > 10, "end tokens are too rare to prove anything"

    @pytest.mark.parametrize("family", ["llama", "mistral", "t5", "marian"])
    def test_stopping_with_peaked_laws(self, family: str) -> None:
        """Case 3: where a live beam may go on for long at little cost, stopping too early or too
        late shows."""
        for i, (penalty, early) in enumerate(product(PENALTIES, STOPPING)):
            settings = {
                "num_beams": 2 + i % 3,
                "length_penalty": penalty,
                "early_stopping": early,
                "num_return_sequences": 2,
                "max_new_tokens": 20,
            }
            for prompt in models_zoo.prompts(2, seed=5):
                assert_equals_transformers(family, prompt, [2, 9, 14, 20], settings, scale=8.0)

    @pytest.mark.parametrize("family", models_zoo.FAMILIES)
    def test_penalties_bans_and_minimum_length(self, family: str) -> None:
        """Cases 17 and 20: they act on log-probabilities, for every beam by its own past."""
        others: list[dict[str, Any]] = [
            {"repetition_penalty": 1.5},
            {"repetition_penalty": 0.7},
            {"no_repeat_ngram_size": 1},
            {"no_repeat_ngram_size": 2, "repetition_penalty": 1.2},
            {"min_new_tokens": 6},
        ]
        for i, other in enumerate(others):
            settings = {
                "num_beams": 4,
                "num_return_sequences": 4,
                "max_new_tokens": 10,
                "early_stopping": STOPPING[i % 3],
                **other,
            }
            prompt = models_zoo.prompts(5, 6, seed=4)[i]
            assert_equals_transformers(family, prompt, list(range(2, 9)), settings)

    @pytest.mark.parametrize("family", models_zoo.FAMILIES)
    def test_the_models_own_end_tokens_are_the_default(self, family: str) -> None:
        settings = {"num_beams": 3, "num_return_sequences": 3, "max_new_tokens": 20}
        assert_equals_transformers(family, models_zoo.prompts(1)[0], None, settings)


class TestOneBeam:
    @pytest.mark.parametrize("early", STOPPING)
    def test_one_beam_is_greedy(self, early: bool | str) -> None:
        """Case 8: 50 prompts that end early, whatever the stopping mode and length penalty."""
        pair = models_zoo.pair("llama")
        for i, prompt in enumerate(models_zoo.prompts(50, seed=8)):
            free = decode(pair, prompt, "greedy", max_new_tokens=10, eos_token_id=[])
            common = {"max_new_tokens": 10, "eos_token_id": [free.token_ids[i % 6], 2]}
            greedy = decode(pair, prompt, "greedy", **common)
            assert greedy.finish_reason == "eos"
            beam = decode(
                pair,
                prompt,
                "beam",
                num_beams=1,
                early_stopping=early,
                length_penalty=PENALTIES[i % 5],
                **common,
            )
            assert beam.token_ids == greedy.token_ids
            assert beam.finish_reason == "eos"

    @pytest.mark.parametrize(
        "settings",
        [
            {"repetition_penalty": 1.5},
            {"repetition_penalty": 0.7},
            {"no_repeat_ngram_size": 2},
            {"min_new_tokens": 5},
        ],
        ids=str,
    )
    @pytest.mark.parametrize("family", ["gpt2", "t5", "bart"])
    def test_with_every_penalty(self, family: str, settings: dict[str, Any]) -> None:
        """Case 8: greedy penalises logits and wider beams log-probabilities; one beam is greedy."""
        pair = models_zoo.pair(family)
        common = {"max_new_tokens": 10, "eos_token_id": [3, 4, 5, 6], **settings}
        for prompt in models_zoo.prompts(10, seed=9):
            greedy = decode(pair, prompt, "greedy", **common)
            assert decode(pair, prompt, "beam", num_beams=1, **common).token_ids == greedy.token_ids

    def test_ties_fall_as_greedys_do(self) -> None:
        """Case 8: equal logits, as half precision makes them: the first id."""
        law = [0.1, 0.3, 0.3, 0.3]
        pair = ModelPair(
            TableLM(4, laws={p: law for n in range(5) for p in product(range(4), repeat=n)})
        )
        common: dict[str, Any] = {"max_new_tokens": 3, "eos_token_id": []}
        assert decode(pair, [0], "greedy", **common).token_ids == [1, 1, 1]
        assert decode(pair, [0], "beam", num_beams=1, **common).token_ids == [1, 1, 1]
        best = decode(pair, [0], "beam", num_beams=2, num_return_sequences=2, **common).beams
        assert [beam.token_ids for beam in best] == [[1, 1, 1], [1, 1, 2]]


class TestBruteForce:
    """Over every sequence of a table model."""

    @pytest.mark.parametrize("norm", ["length", "gnmt", "none"])
    @pytest.mark.parametrize("penalty", [-1.0, 0.0, 1.0, 2.0])
    def test_never_finds_the_best_of_all_sequences(self, penalty: float, norm: str) -> None:
        """Case 3: 4 tokens, depth 4. With 64 beams, more than there are live prefixes, all 64 best
        sequences are found, in order; other modes may stop earlier, never with better scores."""
        scoring = ScoringParams(length_norm=norm, length_penalty=penalty)
        for seed in range(4):
            lm = TableLM(4, seed=seed, eos=0, concentration=(0.3, 1.0, 3.0, 1.0)[seed])
            sequences = lm.sequences([1, 2], {0}, 4)
            ranked = sorted(
                ((scoring.score(lp, len(ids)), ids) for ids, lp in sequences), reverse=True
            )
            settings = {
                "num_beams": MAX_WIDTH,
                "num_return_sequences": MAX_WIDTH,
                "max_new_tokens": 4,
                "length_norm": norm,
                "length_penalty": penalty,
            }
            found = beams_of(ModelPair(lm), [1, 2], early_stopping="never", **settings)
            assert [b.token_ids for b in found] == [ids for _, ids in ranked[:MAX_WIDTH]]
            assert [b.score for b in found] == pytest.approx([s for s, _ in ranked[:MAX_WIDTH]])
            for early in (True, False):
                best = beams_of(ModelPair(lm), [1, 2], early_stopping=early, **settings)[0]
                assert best.score <= ranked[0][0] + 1e-12

    @pytest.mark.parametrize("penalty", [-1.0, 0.0, 1.0, 2.0])
    @pytest.mark.parametrize("width", [2, 3, 5])
    def test_never_stops_neither_too_early_nor_too_late(self, width: int, penalty: float) -> None:
        """Case 3: narrow beams and peaked laws, against the reference, which goes on to the last
        step."""
        for seed in range(10):
            lm = TableLM(4, seed=seed, eos=[0, 3][: 1 + seed % 2], concentration=0.3)
            eos = set(lm.config.eos_token_id)
            settings = {"max_new_tokens": 16, "length_penalty": penalty}
            group = Reference(lm, [2], eos, 16, width, penalty).finish()
            found = beams_of(
                ModelPair(lm),
                [2],
                num_beams=width,
                num_return_sequences=width,
                early_stopping="never",
                **settings,
            )
            assert [tuple(b.token_ids) for b in found] == [ids for _, ids, _ in group[:width]]

    @pytest.mark.parametrize(("vocab_size", "width"), [(5, 8), (2, 8), (3, 64), (1, 4)])
    def test_more_beams_than_tokens(self, vocab_size: int, width: int) -> None:
        """Case 13: the beam is as wide as there are sequences. transformers fills the missing rows
        with copies of a score of -1e9, which can then displace real beams: no reference here, so
        that the reference is the slow search below and, where the width allows, brute force."""
        for seed, limit, eos in product(range(3), (1, 2, 4), ([], [0])):
            lm = TableLM(vocab_size, seed=seed)
            found = beams_of(
                ModelPair(lm),
                [0],
                num_beams=width,
                num_return_sequences=width,
                max_new_tokens=limit,
                early_stopping="never",
                eos_token_id=eos,
            )
            group = Reference(lm, [0], set(eos), limit, width, 1.0).finish()
            assert [tuple(b.token_ids) for b in found] == [ids for _, ids, _ in group[:width]]
            assert all(math.isfinite(beam.score) for beam in found)
            sequences = lm.sequences([0], set(eos), limit)
            if len(sequences) <= width:
                ranked = sorted(sequences, key=lambda s: -s[1] / len(s[0]))
                assert [b.token_ids for b in found] == [ids for ids, _ in ranked]

    def test_more_beams_than_tokens_are_pointed_out(self) -> None:
        """Case 13: the result says so, and only then."""
        pair = ModelPair(TableLM(5))
        for width, said in ((5, False), (6, True), (8, True)):
            result = decode(pair, [1], "beam", num_beams=width, max_new_tokens=3)
            assert any("5 tokens" in note for note in result.notes) == said

    @pytest.mark.parametrize("width", [2, 5, 8])
    def test_impossible_tokens_are_never_chosen(self, width: int) -> None:
        """Case 13: probabilities of exactly 0 leave fewer continuations than beams."""
        for seed in range(5):
            lm = TableLM(5, seed=seed, eos=0, zeros=0.6)
            found = beams_of(
                ModelPair(lm), [1], num_beams=width, num_return_sequences=width, max_new_tokens=5
            )
            assert found
            for beam in found:
                assert math.isclose(math.exp(beam.sum_logprob), lm.probability([1], beam.token_ids))
                assert beam.sum_logprob > -math.inf


@dataclass
class Reference:
    """A slow, independent beam search over a table model: one group, one dictionary, no tensors.

    It follows Vijayakumar et al. 2016, section 4: `taken` counts the tokens that earlier groups
    chose in the same step, each of which costs `diversity`. The augmented sum ranks inside the
    group. It never stops before the limit unless `stop` says that nothing can improve.
    """

    lm: TableLM
    prompt: list[int]
    eos: set[int]
    limit: int
    width: int
    penalty: float
    diversity: float = 0.0
    live: dict[tuple[int, ...], tuple[float, float]] = field(default_factory=lambda: {(): (0, 0)})
    finished: list[tuple[float, tuple[int, ...], float]] = field(default_factory=list)

    def step(self, taken: Counter[int]) -> list[int]:
        """One token further; returns the tokens that this group took."""
        options = []
        for ids, (augmented, own) in self.live.items():
            for token, p in enumerate(self.lm.law([*self.prompt, *ids])):
                if p > 0:
                    rank = augmented + math.log(p) - self.diversity * taken[token]
                    options.append((rank, (*ids, token), own + math.log(p)))
        options.sort(key=lambda option: -option[0])
        self.live, chosen = {}, []
        for place, (rank, ids, own) in enumerate(options):
            if ids[-1] in self.eos or len(ids) == self.limit:
                if place < self.width:
                    self.finished.append((rank / len(ids) ** self.penalty, ids, own))
                    chosen.append(ids[-1])
            elif len(self.live) < self.width:
                self.live[ids] = (rank, own)
                chosen.append(ids[-1])
        self.finished = sorted(self.finished, key=lambda f: -f[0])[: self.width]
        return chosen

    @property
    def stop(self) -> bool:
        """Whether no live sequence can enter the finished set at any of the lengths left."""
        if not self.live:
            return True
        best = max(rank for rank, _ in self.live.values())
        lengths = range(len(next(iter(self.live))) + 1, self.limit + 1)
        reachable = max(best / length**self.penalty for length in lengths)
        return len(self.finished) == self.width and reachable <= self.finished[-1][0]

    def finish(self) -> list[tuple[float, tuple[int, ...], float]]:
        while self.live:
            self.step(Counter())
        return self.finished


class TestGolden:
    def test_two_step_tree(self) -> None:
        """The book's tree: greedy finds A x (0.200), two beams find B x (0.360). The law after C,
        which the book leaves out, is even."""
        tree = json.loads((GOLDEN / "two_step_tree.json").read_text())
        names = ["A", "B", "C", "x", "y", "z"]

        def law(table: dict[str, float]) -> list[float]:
            return [table.get(name, 0.0) for name in names]

        prompt = [5]
        laws = {(5,): law(tree["step1"]), (5, 2): law(dict.fromkeys("xyz", 1 / 3))}
        for first, table in tree["step2"].items():
            laws[(5, names.index(first))] = law(table)
        pair = ModelPair(TableLM(6, laws=laws))
        common: dict[str, Any] = {"max_new_tokens": 2, "eos_token_id": [], "length_penalty": 0.0}

        greedy = decode(pair, prompt, "greedy", max_new_tokens=2, eos_token_id=[])
        assert [names[i] for i in greedy.token_ids] == tree["greedy"]["path"]
        probability = math.prod(t.target_prob for t in greedy.tokens if t.target_prob)
        assert probability == pytest.approx(tree["greedy"]["joint"])

        events = list(stream(pair, prompt, "beam", num_beams=2, num_return_sequences=2, **common))
        first, second = (e for e in events if isinstance(e, BeamEvent))
        result = events[-1].result
        assert result is not None
        assert [names[i] for i in result.token_ids] == tree["beam2"]["path"]
        assert math.exp(result.beams[0].score) == pytest.approx(tree["beam2"]["joint"])

        rows = {c.row: names[c.token_id] for c in first.candidates if c.kept}
        assert rows == {0: "A", 1: "B"}
        assert [rows[c.parent] for c in second.candidates if c.kept] == tree["beam2"]["parents"]
        assert len(second.candidates) == len(tree["round2"])
        for candidate, line in zip(second.candidates, tree["round2"], strict=True):
            assert rows[candidate.parent] + names[candidate.token_id] == line["path"]
            assert candidate.score == pytest.approx(line["score"], abs=1.5e-3)
            assert math.exp(candidate.score) == pytest.approx(line["joint"], abs=1e-12)
            assert candidate.kept == line["kept"]

    def test_length_penalties(self) -> None:
        """Table 9-6: which of two outputs wins under each norm."""
        table = json.loads((GOLDEN / "length_penalty.json").read_text())
        sums = {
            key: (table[key]["tokens"] * math.log(table[key]["token_prob"]), table[key]["tokens"])
            for key in ("short", "long")
        }
        for row in table["rows"]:
            params = ScoringParams(length_norm=row["norm"], length_penalty=row["alpha"])
            scores = {key: params.score(*value) for key, value in sums.items()}
            for key, score in scores.items():
                assert score == pytest.approx(row[key], abs=6e-4)
            assert max(scores, key=scores.__getitem__) == row["winner"]


class TestScores:
    @pytest.mark.parametrize("penalty", [0.5, 1.0, 2.0])
    def test_the_prompt_does_not_count(self, penalty: float) -> None:
        """Case 1: equal log-probabilities, prompts of 3 and 200 tokens: the same scores, those of
        the new tokens alone."""

        class Even(torch.nn.Module):
            def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
                return torch.zeros(*input_ids.shape, 4)

        pair = ModelPair(Even())
        for length in (3, 200):
            beams = beams_of(
                pair,
                [1] * length,
                num_beams=3,
                max_new_tokens=5,
                eos_token_id=[],
                length_penalty=penalty,
            )
            assert beams[0].score == pytest.approx(5 * math.log(1 / 4) / 5**penalty)
            assert beams[0].length == 5

    def test_positive_penalty_favours_longer(self) -> None:
        """Case 4: lengths never fall as the penalty rises; 0 is the plain sum; labels say so."""
        lm = TableLM(4, seed=11, eos=0)
        lengths = []
        for penalty in (-2.0, -1.0, 0.0, 1.0, 2.0):
            best = beams_of(
                ModelPair(lm),
                [1],
                num_beams=MAX_WIDTH,
                max_new_tokens=4,
                length_penalty=penalty,
                early_stopping="never",
            )[0]
            lengths.append(best.length)
            if penalty == 0:
                assert best.score == best.sum_logprob
        assert lengths == sorted(lengths) and lengths[0] < lengths[-1]
        label = next(f for f in fields_of("beam", {}) if f.name == "length_penalty").metadata
        assert "positive favours longer" in label["label"]
        assert "0 is the plain sum" in label["help"]

    @pytest.mark.parametrize("method", ["beam", "diverse_beam"])
    @pytest.mark.parametrize("family", models_zoo.FAMILIES)
    @torch.inference_mode()
    def test_equal_teacher_forced_scores(self, family: str, method: str) -> None:
        """A fresh pass over prompt and output gives the same sum, within 1e-4."""
        pair, prompt = models_zoo.pair(family), models_zoo.prompts(1, 7)[0]
        settings: dict[str, Any] = {"num_beams": 6, "num_return_sequences": 6, "length_penalty": 0}
        beams = beams_of(pair, prompt, method, max_new_tokens=9, eos_token_id=[4, 9], **settings)
        constraints = pair.constraints()
        assert len(beams) == 6
        for beam in beams:
            logits = whole_pass(pair, prompt, beam.token_ids)
            rows = logits.log_softmax(-1)[range(len(beam.token_ids)), beam.token_ids]
            if constraints.forced_first is not None:
                rows[0] = 0.0
            if constraints.forced_last and len(rows) == 9:
                rows[-1] = 0.0
            assert beam.sum_logprob == pytest.approx(float(rows.sum()), abs=1e-4)
            assert beam.score == beam.sum_logprob


def whole_pass(pair: ModelPair, prompt: list[int], ids: list[int]) -> torch.Tensor:
    """Logits [n, V] at every new token, from one pass without a cache."""
    fed = torch.tensor([pair.prefix(prompt) + ids[:-1]])
    if pair.is_encoder_decoder:
        given = {"input_ids": torch.tensor([prompt]), "decoder_input_ids": fed}
    else:
        given = {"input_ids": fed}
    logits: torch.Tensor = pair.target(**given, use_cache=False).logits[0]
    return logits[-len(ids) :]


class Spy(ModelPair):
    """A pair that records, after every pass, the bytes its state holds: (t, W, bytes, naive)."""

    log: list[tuple[int, int, int, int]]

    def open(self, *args: Any, **kwargs: Any) -> KVState:
        state = super().open(*args, **kwargs)
        forward = state.forward

        def recorded(ids: torch.Tensor) -> torch.Tensor:
            logits = forward(ids)
            self.log.append((state.length, len(ids), state.num_bytes(), state.num_bytes_naive()))
            return logits

        state.forward = recorded  # type: ignore[method-assign]
        return state


class TestMemory:
    @pytest.mark.parametrize("lean", [True, False])
    @pytest.mark.parametrize("method", ["beam", "diverse_beam"])
    def test_the_prompt_is_stored_once(self, method: str, lean: bool) -> None:
        """After every step exactly (P + W·t) tokens' keys and values, against W·(P + t) naively;
        the result reports the most of both."""
        pair = Spy(models_zoo.model("llama"), lean=lean)
        unit = 2 * 2 * 2 * 4 * 4  # keys and values, layers, heads, numbers, bytes
        prompt, width, limit = models_zoo.prompts(1, 40)[0], 4, 10
        pair.log = []
        result = decode(
            pair, prompt, method, num_beams=width, max_new_tokens=limit, eos_token_id=[]
        )
        steps = pair.log[: limit - 1]  # the last token is never read; explaining it comes after
        assert [length - len(prompt) for length, *_ in steps] == list(range(1, limit))
        for length, rows, used, naive in steps:
            t = length - len(prompt)
            assert rows == width
            assert used == (len(prompt) + width * t) * unit
            assert naive == width * (len(prompt) + t) * unit
        assert result.metrics.kv_bytes == (len(prompt) + width * (limit - 1)) * unit
        assert result.metrics.kv_bytes_naive == width * (len(prompt) + limit - 1) * unit


class TestEvents:
    @pytest.mark.parametrize("method", ["beam", "diverse_beam"])
    @pytest.mark.parametrize("family", ["llama", "bart"])
    def test_they_tell_the_whole_search(self, family: str, method: str) -> None:
        """From parents and rows alone every live and finished sequence can be rebuilt; scores are
        sums divided by lengths; pruned candidates are there, and never better than kept ones."""
        pair, prompt = models_zoo.pair(family), models_zoo.prompts(1)[0]
        eos = list(range(2, 9))
        events = list(
            stream(
                pair,
                prompt,
                method,
                num_beams=4,
                num_return_sequences=4,
                max_new_tokens=8,
                eos_token_id=eos,
            )
        )
        result = events[-1].result
        assert result is not None
        rows: dict[int, list[int]] = {0: []}
        sums: dict[int, float] = {0: 0.0}
        finished: dict[tuple[int, ...], float] = {}
        for step, event in enumerate((e for e in events if isinstance(e, BeamEvent)), start=1):
            assert event.step == step
            grown: dict[int, list[int]] = {}
            new_sums: dict[int, float] = {}
            for c in event.candidates:
                ids = [*rows[c.parent], c.token_id]
                assert c.sum_logprob <= sums[c.parent] + 1e-9
                assert c.score == pytest.approx(c.sum_logprob / step)
                assert c.kept == (c.finished or c.row is not None)
                if c.finished:
                    finished[tuple(ids)] = c.score
                elif c.row is not None:
                    grown[c.row], new_sums[c.row] = ids, c.sum_logprob
            pruned = [c for c in event.candidates if not c.kept]
            if method == "beam" and grown:
                worst = min(new_sums.values())
                assert pruned or len(event.candidates) == 1  # a forced token
                assert all(c.sum_logprob <= worst or c.token_id in eos for c in pruned)
            assert sorted(grown) == list(range(len(grown)))
            rows, sums = grown, new_sums
        for beam in result.beams:
            assert finished[tuple(beam.token_ids)] == pytest.approx(beam.score)

    def test_width_is_not_shrunk_by_ends(self) -> None:
        """Cases 6 and 7: ten common end tokens, 3 beams: 3 live beams after every step but the
        last."""
        eos = list(range(2, 12))
        for prompt in models_zoo.prompts(10, seed=6):
            events = list(
                stream(
                    models_zoo.pair("llama"),
                    prompt,
                    "beam",
                    num_beams=3,
                    num_return_sequences=3,
                    max_new_tokens=8,
                    early_stopping="never",
                    length_penalty=2.0,
                    eos_token_id=eos,
                )
            )
            steps = [e for e in events if isinstance(e, BeamEvent)]
            for event in steps[:-1]:
                assert sum(c.row is not None for c in event.candidates) == 3
            assert any(c.finished for event in steps for c in event.candidates)


def diverse_reference(
    lm: TableLM, prompt: list[int], limit: int, width: int, groups: int, diversity: float
) -> list[Reference]:
    """Every group's search, step by step in turn, each until nothing can improve it."""
    eos = set(lm.config.eos_token_id or [])
    found = [Reference(lm, prompt, eos, limit, width, 1.0, diversity) for _ in range(groups)]
    is_open = [True] * groups
    while any(is_open):
        taken: Counter[int] = Counter()
        for i, group in enumerate(found):
            if is_open[i]:
                taken.update(group.step(taken))
                is_open[i] = not (group.stop or (width == 1 and group.finished))
    return found


class TestDiverse:
    @pytest.mark.parametrize("diversity", [0.1, 0.5, 2.0, 1e3])
    @pytest.mark.parametrize(("groups", "width"), [(2, 1), (2, 2), (3, 2), (4, 1), (2, 4)])
    def test_equals_the_paper(self, groups: int, width: int, diversity: float) -> None:
        """Vijayakumar et al. 2016, by the slow reference: every group's sequences, in the order of
        their augmented scores, with the model's own scores reported."""
        for seed in range(6):
            lm = TableLM(6, seed=seed, eos=[[0], [0, 1], []][seed % 3])
            expected = diverse_reference(lm, [3, 2], 6, width, groups, diversity)
            found = beams_of(
                ModelPair(lm),
                [3, 2],
                "diverse_beam",
                num_beams=groups * width,
                num_beam_groups=groups,
                num_return_sequences=groups * width,
                diversity_penalty=diversity,
                max_new_tokens=6,
                early_stopping="never",
            )
            tiers = [
                sorted((g.finished[i] for g in expected), key=lambda f: -f[2] / len(f[1]))
                for i in range(width)
            ]
            sequences = [f for tier in tiers for f in tier]
            assert [tuple(b.token_ids) for b in found] == [ids for _, ids, _ in sequences]
            for beam, (_, ids, own) in zip(found, sequences, strict=True):
                assert beam.sum_logprob == pytest.approx(own)
                assert beam.score == pytest.approx(own / len(ids))

    @pytest.mark.parametrize("penalty", [1e6, 1e9])
    @pytest.mark.parametrize("family", ["llama", "t5"])
    def test_one_result_a_group_with_its_own_first_token(self, family: str, penalty: float) -> None:
        """Case 14: 4 beams in 4 groups, a huge penalty."""
        beams = beams_of(
            models_zoo.pair(family),
            models_zoo.prompts(1)[0],
            "diverse_beam",
            num_beams=4,
            num_beam_groups=4,
            diversity_penalty=penalty,
            max_new_tokens=6,
        )
        assert len(beams) == 4
        assert len({beam.token_ids[0] for beam in beams}) == 4
        assert [b.score for b in beams] == sorted((b.score for b in beams), reverse=True)

    def test_no_group_crowds_out_another(self) -> None:
        """Case 14: each group has a finished set of its own, however much better the first is."""
        beams = beams_of(
            models_zoo.pair("gpt2"),
            models_zoo.prompts(1)[0],
            "diverse_beam",
            num_beams=6,
            num_beam_groups=3,
            num_return_sequences=6,
            max_new_tokens=8,
            eos_token_id=list(range(2, 12)),
        )
        assert len(beams) == 6
        assert len({tuple(beam.token_ids) for beam in beams}) >= 3

    def test_a_penalty_of_a_billion_keeps_every_decimal(self) -> None:
        """Case 14: three groups over two tokens must share a token; the order inside a group is
        still that of the log-probabilities, for a model in single precision, too."""

        class Single(TableLM):
            def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
                return super().forward(input_ids).float()

        lm = Single(2, seed=2)
        expected = diverse_reference(lm, [0], 5, 2, 3, 1e9)
        found = beams_of(
            ModelPair(lm),
            [0],
            "diverse_beam",
            num_beams=6,
            num_beam_groups=3,
            num_return_sequences=6,
            diversity_penalty=1e9,
            max_new_tokens=5,
            early_stopping="never",
        )
        rows = sorted(tuple(b.token_ids) for b in found)
        assert rows == sorted(ids for g in expected for _, ids, _ in g.finished)

    @pytest.mark.parametrize(
        ("settings", "named"),
        [
            ({"num_beam_groups": 2, "diversity_penalty": 0.0}, "diversity_penalty"),
            ({"num_beams": 4, "num_beam_groups": 3}, "num_beam_groups"),
            ({"num_beams": 4, "num_beam_groups": 8}, "num_beam_groups"),
            ({"num_beam_groups": 1}, "num_beam_groups"),
            ({"diversity_penalty": -1.0}, "diversity_penalty"),
            ({"num_beams": 4, "num_return_sequences": 5}, "num_return_sequences"),
        ],
        ids=str,
    )
    def test_settings_that_do_nothing_are_refused(
        self, settings: dict[str, Any], named: str
    ) -> None:
        """Case 15: with a message, before any model runs."""
        lm = TableLM(4)
        pair = ModelPair(lm)
        calls = lm.num_calls
        with pytest.raises(ValueError, match=f"^{named}: "):
            decode(pair, [1], "diverse_beam", **settings)
        assert lm.num_calls == calls


def spelled_pair(words: Sequence[str], seed: int = 0, eos: int | None = None) -> ModelPair:
    """A table model whose tokens are these words, joined without spaces."""
    core = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token=words[0]))
    core.decoder = decoders.Fuse()
    tokenizer: Any = PreTrainedTokenizerFast
    lm = TableLM(len(words), seed=seed, eos=eos)
    return ModelPair(lm, tokenizer=tokenizer(tokenizer_object=core))


class TestEnding:
    @pytest.mark.parametrize("stop", ["bc", "ab", ["cc", "ba"], "aa"])
    def test_stop_strings_end_sequences(self, stop: str | list[str]) -> None:
        """Case 56: also across tokens ("b" + "c", "ab" + "c"); with enough beams the result is the
        best of all sequences that end where a stop string is first complete."""
        words, stops = ["a", "b", "c", "ab"], [stop] if isinstance(stop, str) else stop
        for seed in range(4):
            pair = spelled_pair(words, seed)
            ended = stopped_sequences(pair.target, words, stops, limit=3)
            ranked = sorted(ended, key=lambda s: -s[1] / len(s[0]))
            result = decode(
                pair,
                [2],
                "beam",
                num_beams=MAX_WIDTH,
                num_return_sequences=5,
                max_new_tokens=3,
                eos_token_id=[],
                early_stopping="never",
                stop=stop,
            )
            assert [beam.token_ids for beam in result.beams] == [ids for ids, _ in ranked[:5]]
            text = "".join(words[i] for i in result.token_ids)
            cut = min((text.find(s) for s in stops if s in text), default=len(text))
            assert result.text == text[:cut]
            assert result.finish_reason == ("stop" if cut < len(text) else "length")

    def test_stop_strings_do_not_shrink_the_width(self) -> None:
        """Case 7: nearly every token completes the stop string; three beams live on."""
        words = ["x", *(f"{c}." for c in "abcdefghijklmnopqrst"), "y", "z"]
        events = list(
            stream(
                spelled_pair(words, 4),
                [0],
                "beam",
                num_beams=3,
                max_new_tokens=4,
                early_stopping="never",
                length_penalty=5.0,
                stop=".",
                eos_token_id=[],
            )
        )
        steps = [e for e in events if isinstance(e, BeamEvent)]
        assert [sum(c.row is not None for c in e.candidates) for e in steps] == [3, 3, 3, 0]

    @pytest.mark.parametrize("method", ["beam", "diverse_beam", "exact"])
    def test_cancelling_returns_the_best_so_far(self, method: str) -> None:
        """After three steps: the search's own best, marked unfinished, and the reason."""
        pair, prompt = models_zoo.pair("llama"), models_zoo.prompts(1)[0]
        steps = 0

        def cancelled() -> bool:
            return steps == 3

        events = stream(
            pair, prompt, method, max_new_tokens=30, eos_token_id=[], cancelled=cancelled
        )
        best, result = None, None
        for event in events:
            if isinstance(event, BeamEvent):
                steps += 1
                best = event.best
            result = event.result
        assert result is not None and best is not None
        assert (steps, result.finish_reason) == (3, "cancelled")
        assert result.token_ids == best.token_ids and len(result.token_ids) == 3
        assert not result.beams[0].finished
        assert result.proven is not True
        json.dumps(result.to_dict(), allow_nan=False)

    @pytest.mark.parametrize("method", ["beam", "diverse_beam", "exact"])
    def test_cancelling_before_the_first_step(self, method: str) -> None:
        """Nothing was found, and nothing says that tokens were banned."""
        result = decode(
            models_zoo.pair("llama"), models_zoo.prompts(1)[0], method, cancelled=lambda: True
        )
        assert (result.token_ids, result.finish_reason, result.beams) == ([], "cancelled", ())
        assert not any("banned" in note for note in result.notes)

    @pytest.mark.parametrize("method", ["beam", "diverse_beam", "exact"])
    def test_the_deadline_returns_the_best_so_far(self, method: str) -> None:
        class Slow(TableLM):
            def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
                torch.linalg.inv(torch.rand(60, 60))  # well under a millisecond
                return super().forward(input_ids)

        result = decode(ModelPair(Slow(8)), [1], method, max_new_tokens=100_000, deadline_s=0.2)
        assert result.finish_reason == "deadline"
        assert result.beams and result.token_ids == result.beams[0].token_ids

    def test_live_beams_fill_up_an_interrupted_result(self) -> None:
        """Finished sequences come first, then live ones, as many as were asked for."""
        steps: list[BeamEvent] = []
        pair, prompt = models_zoo.pair("llama"), models_zoo.prompts(1)[0]
        events = stream(
            pair,
            prompt,
            "beam",
            num_beams=4,
            num_return_sequences=4,
            early_stopping="never",
            length_penalty=3.0,
            max_new_tokens=30,
            eos_token_id=[3, 4],
            cancelled=lambda: bool(steps and steps[-1].num_finished),
        )
        result = None
        for event in events:
            steps += [event] if isinstance(event, BeamEvent) else []
            result = event.result
        assert result is not None and len(result.beams) == 4
        flags = [beam.finished for beam in result.beams]
        assert flags == sorted(flags, reverse=True)
        assert flags.count(True) == steps[-1].num_finished


def stopped_sequences(
    lm: TableLM, words: Sequence[str], stops: Sequence[str], limit: int
) -> list[tuple[list[int], float]]:
    """Every sequence that ends where a stop string is first complete, or at the limit."""
    found: list[tuple[list[int], float]] = []

    def grow(ids: list[int], logprob: float) -> None:
        text = "".join(words[i] for i in ids)
        if len(ids) == limit or any(s in text for s in stops):
            found.append((ids, logprob))
            return
        for token, p in enumerate(lm.law([2, *ids])):
            grow([*ids, token], logprob + math.log(p))

    grow([], 0.0)
    return found
