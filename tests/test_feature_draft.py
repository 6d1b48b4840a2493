"""The feature draft: what it reads of the target, its laws, its rollback, and whole outputs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

import playground as pg
from playground import weights
from playground.catalog import ASSETS
from playground.contracts import Draft, Run
from playground.feature_draft import FeatureDraft
from playground.models import ModelPair
from playground.sampling import Draws
from playground.session import prepare
from tests.enumeration import distance, make_run, outputs, own_outputs

TAPS = (1, 2)
EMBEDDED = ASSETS / "models" / "chat-feature" / "model.safetensors"
PROMPT = [3, 4, 5, 1]


@pytest.fixture(autouse=True)
def no_gradients() -> Iterator[None]:
    """As a session runs its engines."""
    with torch.inference_mode():
        yield


def llama(layers: int, vocab: int, dtype: torch.dtype) -> Any:
    """A random Llama with weights large enough for peaky laws."""
    config = LlamaConfig(
        vocab_size=vocab,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=True,
        eos_token_id=2,
        pad_token_id=None,
    )
    model = LlamaForCausalLM(config).to(dtype).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def feature_pair(vocab: int = 32, dtype: torch.dtype = torch.float32, **more: Any) -> ModelPair:
    torch.manual_seed(0)
    target, model = llama(3, vocab, dtype), llama(2, vocab, dtype)
    model.model.embed_tokens.weight = target.model.embed_tokens.weight
    model.tie_weights()
    fuse = torch.randn(32, 32 * (len(TAPS) + 1), dtype=dtype) * 0.2
    own = torch.randn(32, 32, dtype=dtype) * 0.2
    return ModelPair(target, feature=FeatureDraft(model, TAPS, fuse, own), **more)


def run_of(pair: ModelPair, **params: Any) -> Run:
    settings = {"max_new_tokens": 64, "proposer": "feature", "eos_token_id": [], **params}
    return make_run(prepare(pair, PROMPT, "speculative", settings), Draws(0))


def states_of(pair: ModelPair, ids: list[int]) -> Tensor:
    """The target's states [n, taps + 1, d] by the model's own forward."""
    assert pair.feature is not None
    found = pair.target(torch.tensor([ids]), output_hidden_states=True).hidden_states
    return torch.stack([found[tap][0] for tap in (*pair.feature.taps, -1)], 1)


def unit(x: Tensor) -> Tensor:
    return F.rms_norm(x, x.shape[-1:])


def naive_logits(pair: ModelPair, context: list[int], drafted: list[int]) -> Tensor:
    """The draft's logits [V] after context and drafted ids, everything computed anew."""
    assert pair.feature is not None
    feature, decoder = pair.feature, pair.feature.model.model
    inputs = decoder.embed_tokens(torch.tensor(context + drafted))
    inputs[1 : len(context)] += unit(states_of(pair, context[:-1])).flatten(1) @ feature.fuse.T
    for at in range(len(context), len(inputs)):
        last = decoder(inputs_embeds=inputs[None, :at]).last_hidden_state[0, -1]
        inputs[at] += unit(last) @ feature.own.T
    logits = feature.model.lm_head(decoder(inputs_embeds=inputs[None]).last_hidden_state[0, -1])
    kept = getattr(feature.model, "head_ids", slice(None))
    cut = torch.full_like(logits, -torch.inf)
    cut[kept] = logits[kept]
    return cut


class Rounds:
    """Plays the loop's part around a proposer: the target reads, tokens are committed."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.proposer = pg.PROPOSERS["feature"](run.parts["proposer"], run)
        self.state = run.open(run.pair.target)
        self.state.prefill(run.prefix)
        self.context = [*run.prefix, 7]

    def propose(self, num: int) -> Draft:
        return self.proposer.propose(self.context, num)

    def commit(self, draft: Draft, kept: int, token: int) -> None:
        """The target reads the draft, of which `kept` tokens stay, and `token` follows."""
        self.state.forward(torch.tensor([[self.context[-1], *draft.ids]]))
        self.context = [*self.context, *draft.ids[:kept], token]
        self.state.rollback(len(self.context) - 1)

    def expected(self, draft: Draft) -> list[Tensor]:
        laws = []
        for i in range(len(draft.ids)):
            history = self.context + draft.ids[:i]
            logits = naive_logits(self.run.pair, self.context, draft.ids[:i])
            laws.append(self.run.warper.probs(logits[None], history, len(history))[0])
        return laws


def test_the_target_hands_out_the_states_of_its_last_pass() -> None:
    """Those of the committed tokens only, equal to the model's own; nothing where nobody asks."""
    pair, ids = feature_pair(), [1, 5, 3, 8, 2, 9, 4]
    state = pair.open(pair.target, [])
    state.prefill(ids[:3])
    torch.testing.assert_close(state.features(0), states_of(pair, ids[:3]), atol=1e-5, rtol=1e-4)
    state.forward(torch.tensor([ids[3:]]))
    state.rollback(5)
    torch.testing.assert_close(state.features(4), states_of(pair, ids)[4:5], atol=1e-5, rtol=1e-4)
    plain = ModelPair(pair.target)
    state = plain.open(plain.target, [])
    state.prefill(ids)
    assert state._tapped == []


def test_laws_are_right_after_any_acceptance() -> None:
    """Nothing, a part, or all of a draft is kept: the next laws are those of a fresh computation
    with the target's states for every committed token and the draft's own ones after them."""
    rounds = Rounds(run_of(feature_pair(), temperature=0.8))
    for number, kept in enumerate((4, 0, 2, 4, 1, 3, 0)):
        draft = rounds.propose(4)
        assert len(draft.ids) == 4
        for law, expected in zip(draft.probs, rounds.expected(draft), strict=True):
            torch.testing.assert_close(law, expected, atol=2e-5, rtol=1e-4)
        rounds.commit(draft, kept, 6 + number)


def test_a_round_without_room_loses_nothing() -> None:
    """No draft was asked for, the target went on: its states are read with the next draft."""
    rounds = Rounds(run_of(feature_pair(), temperature=0.8))
    for token in (5, 9):
        assert rounds.propose(0) == Draft([], [])
        rounds.commit(Draft([], []), 0, token)
    draft = rounds.propose(2)
    for law, expected in zip(draft.probs, rounds.expected(draft), strict=True):
        torch.testing.assert_close(law, expected, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("temperature", [0, 0.7])
def test_the_law_given_is_the_law_drawn_from(temperature: float) -> None:
    """Warped once; never a token without mass; equal draws give equal tokens."""
    settings = dict(temperature=temperature, top_k=3, top_p=0.9, repetition_penalty=1.4)
    rounds = Rounds(run_of(feature_pair(), **settings))
    draft = rounds.propose(8)
    draws = Draws(0)
    assert draft.ids == [draws.categorical(law) for law in draft.probs]
    for law, expected in zip(draft.probs, rounds.expected(draft), strict=True):
        torch.testing.assert_close(law, expected, atol=2e-5, rtol=1e-4)
        assert (law > 0).sum() <= (3 if temperature else 1)


def test_one_pass_a_drafted_token() -> None:
    rounds = Rounds(run_of(feature_pair()))
    for kept in (3, 0, 2):
        rounds.commit(rounds.propose(3), kept, 9)
    assert rounds.run.clock.passes["draft"] == 9


def test_drafts_end_with_an_end_token() -> None:
    rounds = Rounds(run_of(feature_pair(), eos_token_id=list(range(32))))
    assert len(rounds.propose(4).ids) == 1


@pytest.mark.parametrize("rule", ["exact", "block", "mentored"])
def test_whole_outputs_follow_the_targets_law(rule: str) -> None:
    """Every path of the real loop enumerated, in double precision on four tokens."""
    pair = feature_pair(vocab=4, dtype=torch.float64)
    settings = {"proposer": "feature", "verifier": rule, "max_new_tokens": 3, "eos_token_id": [2]}
    settings |= {"divergence_budget": 0.0} if rule == "mentored" else {}
    for length in (1, 2):
        plan = prepare(pair, [3, 1], "speculative", {**settings, "num_draft_tokens": length})
        assert (
            distance(outputs(plan), own_outputs(plan)) < 1e-7
        )  # rotary tables are single precision


@pytest.mark.parametrize("length", [1, 2, 4, 7])
def test_greedy_is_the_targets_own(length: int) -> None:
    pair = feature_pair()
    common = dict(max_new_tokens=40, eos_token_id=[], temperature=0)
    found = pg.decode(pair, PROMPT, proposer="feature", num_draft_tokens=length, **common)
    del common["temperature"]
    assert found.token_ids == pg.decode(pair, PROMPT, "greedy", **common).token_ids
    assert found.metrics.num_drafted > 0


def test_nothing_of_a_run_is_left_for_the_next() -> None:
    pair = feature_pair()
    settings: dict[str, Any] = dict(proposer="feature", max_new_tokens=24, seed=3)
    first = pg.decode(pair, PROMPT, **settings)
    pg.decode(pair, [9, 8, 7, 6, 5], **settings)
    again = pg.decode(pair, PROMPT, **settings)
    assert again.token_ids == first.token_ids
    assert [r.draft_ids for r in again.rounds] == [r.draft_ids for r in first.rounds]


def test_int8_applies_to_its_matrices() -> None:
    """Near the bf16 laws, and not the same."""
    exact, small = (feature_pair(dtype=torch.bfloat16, int8=int8) for int8 in (False, True))
    laws = [Rounds(run_of(pair, temperature=1.0)).propose(1).probs[0] for pair in (exact, small)]
    assert 0 < float((laws[0] - laws[1]).abs().sum()) < 0.3


def test_pairs_without_one_refuse_the_proposer_and_targets_without_states_refuse_it() -> None:
    pair = feature_pair()
    with pytest.raises(ValueError, match="proposer.*feature"):
        pg.decode(ModelPair(pair.target), PROMPT, proposer="feature")
    with pytest.raises(ValueError, match="feature"):
        feature_pair(lean=False)


def test_a_folder_loads_as_what_was_saved(tmp_path: Path) -> None:
    """Layers without embeddings, two projections, the ids that the head writes, the taps."""
    pair = feature_pair()
    assert pair.feature is not None
    feature, model = pair.feature, pair.feature.model
    model.config.taps = list(TAPS)
    model.config.save_pretrained(tmp_path / "feature")
    kept = {"fuse.weight": feature.fuse, "own.weight": feature.own}
    kept |= {n: w for n, w in model.state_dict().items() if "embed" not in n and "head" not in n}
    kept["head_ids"] = torch.tensor([2, 5, 9], dtype=torch.int32)
    save_file({n: w.contiguous() for n, w in kept.items()}, tmp_path / "feature/model.safetensors")
    loaded = weights.load_feature(str(tmp_path / "feature"), torch.float32, pair.target)
    assert loaded.taps == TAPS and torch.equal(loaded.fuse, feature.fuse)
    for settings in (
        {"temperature": 0.8},
        {"temperature": 0},
        {"top_k": 2},
        {"top_k": 4},  # more than it writes
        {"top_p": 0.7},
        {"repetition_penalty": 1.3},
    ):
        rounds = Rounds(run_of(ModelPair(pair.target, feature=loaded), **settings))
        draft = rounds.propose(4)
        assert set(draft.ids) <= {2, 5, 9}
        for law, expected in zip(draft.probs, rounds.expected(draft), strict=True):
            torch.testing.assert_close(law, expected, atol=2e-5, rtol=1e-4)


@pytest.mark.skipif(not EMBEDDED.exists(), reason="embedded weights are missing")
def test_the_embedded_one_drafts_by_its_own_laws_and_changes_nothing() -> None:
    """The shipped weights: laws equal a fresh computation; greedy text is the target's own."""
    pair = pg.load_pair("chat", precision="fp32")
    plan = prepare(pair, "Why is the sky blue?", "speculative", {"proposer": "feature"})
    rounds = Rounds(make_run(plan, Draws(0)))
    for kept in (2, 0, 3):
        draft = rounds.propose(3)
        for law, expected in zip(draft.probs, rounds.expected(draft), strict=True):
            torch.testing.assert_close(law, expected, atol=1e-4, rtol=1e-3)
        rounds.commit(draft, min(kept, len(draft.ids)), 253)
    common: dict[str, Any] = dict(max_new_tokens=24)
    found = pg.decode(pair, "Why is the sky blue?", temperature=0, proposer="feature", **common)
    assert found.token_ids == pg.decode(pair, "Why is the sky blue?", "greedy", **common).token_ids
    assert found.metrics.num_accepted > 4
