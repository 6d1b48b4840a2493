"""The feature draft: what it reads of the target, its laws, its rollback, and whole outputs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

import playground as pg
from playground import weights
from playground.catalog import ASSETS
from playground.contracts import Draft
from playground.models import ModelPair
from playground.sampling import Draws
from playground.session import prepare
from tests.enumeration import distance, make_run, outputs, own_outputs
from tests.feature_pairs import PROMPT, TAPS, Rounds, llama_pair, run_of, states_of, t5_pair

EMBEDDED = {"chat": "Why is the sky blue?", "translate": "And God saw the light, that it was good."}
BOTH = pytest.mark.parametrize("make", [llama_pair, t5_pair])


@pytest.fixture(autouse=True)
def no_gradients() -> Iterator[None]:
    """As a session runs its engines."""
    with torch.inference_mode():
        yield


def check(rounds: Rounds, draft: Draft, atol: float = 2e-5, rtol: float = 1e-4) -> None:
    """The laws of a draft are those computed anew."""
    for law, expected in zip(draft.probs, rounds.expected(draft), strict=True):
        torch.testing.assert_close(law, expected, atol=atol, rtol=rtol)


@BOTH
def test_the_target_hands_out_the_states_of_its_last_pass(make: Any) -> None:
    """Those of the committed tokens only, equal to the model's own; nothing where nobody asks."""
    pair, ids = make(), [1, 5, 3, 8, 2, 9, 4]
    state = pair.open(pair.target, PROMPT)
    state.prefill(ids[:3])
    torch.testing.assert_close(state.features(0), states_of(pair, ids[:3]), atol=1e-5, rtol=1e-4)
    state.forward(torch.tensor([ids[3:]]))
    state.rollback(5)
    torch.testing.assert_close(state.features(4), states_of(pair, ids)[4:5], atol=1e-5, rtol=1e-4)
    plain = ModelPair(pair.target)
    state = plain.open(plain.target, PROMPT)
    state.prefill(ids)
    assert state._tapped == []


@BOTH
def test_laws_are_right_after_any_acceptance(make: Any) -> None:
    """Nothing, a part, or all of a draft is kept: the next laws are those of a fresh computation
    with the target's states for every committed token and the draft's own ones after them."""
    rounds = Rounds(run_of(make(), temperature=0.8))
    for number, kept in enumerate((4, 0, 2, 4, 1, 3, 0)):
        draft = rounds.propose(4)
        assert len(draft.ids) == 4
        check(rounds, draft)
        rounds.commit(draft, kept, 6 + number)


@BOTH
def test_a_round_without_room_loses_nothing(make: Any) -> None:
    """No draft was asked for, the target went on: its states are read with the next draft."""
    rounds = Rounds(run_of(make(), temperature=0.8))
    for token in (5, 9):
        assert rounds.propose(0) == Draft([], [])
        rounds.commit(Draft([], []), 0, token)
    draft = rounds.propose(2)
    check(rounds, draft)


@BOTH
@pytest.mark.parametrize("temperature", [0, 0.7])
def test_the_law_given_is_the_law_drawn_from(temperature: float, make: Any) -> None:
    """Warped once; never a token without mass; equal draws give equal tokens."""
    settings = dict(temperature=temperature, top_k=3, top_p=0.9, repetition_penalty=1.4)
    rounds = Rounds(run_of(make(), **settings))
    draft = rounds.propose(8)
    draws = Draws(0)
    assert draft.ids == [draws.categorical(law) for law in draft.probs]
    check(rounds, draft)
    assert all((law > 0).sum() <= (3 if temperature else 1) for law in draft.probs)


@BOTH
def test_one_pass_a_drafted_token(make: Any) -> None:
    rounds = Rounds(run_of(make()))
    for kept in (3, 0, 2):
        rounds.commit(rounds.propose(3), kept, 9)
    assert rounds.run.clock.passes["draft"] == 9


@BOTH
def test_drafts_end_with_an_end_token(make: Any) -> None:
    rounds = Rounds(run_of(make(), eos_token_id=list(range(32))))
    assert len(rounds.propose(4).ids) == 1


@BOTH
@pytest.mark.parametrize("rule", ["exact", "block", "mentored"])
def test_whole_outputs_follow_the_targets_law(rule: str, make: Any) -> None:
    """Every path of the real loop enumerated, on four tokens."""
    # A lean T5 has no double precision, and a Llama's rotary tables have it neither.
    dtype, tolerance = (torch.float64, 1e-7) if make is llama_pair else (torch.float32, 1e-5)
    pair = make(vocab=4, dtype=dtype)
    settings = {"proposer": "feature", "verifier": rule, "max_new_tokens": 3, "eos_token_id": [2]}
    settings |= {"divergence_budget": 0.0} if rule == "mentored" else {}
    for length in (1, 2):
        plan = prepare(pair, [3, 1], "speculative", {**settings, "num_draft_tokens": length})
        assert distance(outputs(plan), own_outputs(plan)) < tolerance


@BOTH
@pytest.mark.parametrize("length", [1, 2, 4, 7])
def test_greedy_is_the_targets_own(length: int, make: Any) -> None:
    pair = make()
    common = dict(max_new_tokens=40, eos_token_id=[], temperature=0)
    found = pg.decode(pair, PROMPT, proposer="feature", num_draft_tokens=length, **common)
    del common["temperature"]
    assert found.token_ids == pg.decode(pair, PROMPT, "greedy", **common).token_ids
    assert found.metrics.num_drafted > 0


@BOTH
def test_nothing_of_a_run_is_left_for_the_next(make: Any) -> None:
    pair = make()
    settings: dict[str, Any] = dict(proposer="feature", max_new_tokens=24, seed=3)
    first = pg.decode(pair, PROMPT, **settings)
    pg.decode(pair, [9, 8, 7, 6, 5], **settings)
    again = pg.decode(pair, PROMPT, **settings)
    assert again.token_ids == first.token_ids
    assert [r.draft_ids for r in again.rounds] == [r.draft_ids for r in first.rounds]


@BOTH
def test_int8_applies_to_its_matrices(make: Any) -> None:
    """Near the bf16 laws, and not the same."""
    exact, small = (make(dtype=torch.bfloat16, int8=int8) for int8 in (False, True))
    laws = [Rounds(run_of(pair, temperature=1.0)).propose(1).probs[0] for pair in (exact, small)]
    assert 0 < float((laws[0] - laws[1]).abs().sum()) < 0.3


@BOTH
def test_who_lacks_one_refuses_the_proposer_and_who_lacks_states_refuses_it(make: Any) -> None:
    pair = make()
    with pytest.raises(ValueError, match="proposer.*feature"):
        pg.decode(ModelPair(pair.target), PROMPT, proposer="feature")
    with pytest.raises(ValueError, match="feature"):
        make(lean=False)


def test_a_folder_loads_as_what_was_saved(tmp_path: Path) -> None:
    """Layers without embeddings, two projections, the ids that the head writes, the taps."""
    pair = llama_pair()
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
        check(rounds, draft)


def test_a_t5s_folder_has_neither_encoder_nor_embeddings(tmp_path: Path) -> None:
    pair = t5_pair()
    assert pair.feature is not None
    feature, model = pair.feature, pair.feature.model
    model.config.taps = list(TAPS)
    model.config.save_pretrained(tmp_path)
    kept = {"fuse.weight": feature.fuse, "own.weight": feature.own}
    state = model.decoder.state_dict(prefix="decoder.").items()
    kept |= {name: weight.contiguous() for name, weight in state if "embed" not in name}
    save_file(kept, tmp_path / "model.safetensors")
    loaded = weights.load_feature(str(tmp_path), torch.float32, pair.target)
    assert loaded.taps == TAPS and torch.equal(loaded.fuse, feature.fuse)
    rounds = Rounds(run_of(ModelPair(pair.target, feature=loaded), temperature=0.8))
    check(rounds, rounds.propose(4))
    del kept["decoder.block.0.layer.1.DenseReluDense.wo.weight"]
    save_file(kept, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="missing.*DenseReluDense.wo"):
        weights.load_feature(str(tmp_path), torch.float32, pair.target)


@pytest.mark.parametrize("name", EMBEDDED)
def test_the_embedded_ones_draft_by_their_own_laws_and_change_nothing(name: str) -> None:
    """The shipped weights: laws equal a fresh computation; greedy text is the target's own."""
    folder = ASSETS / "models" / f"{name}-feature" / "model.safetensors"
    if not folder.exists():
        pytest.skip("embedded weights are missing")
    pair, prompt = pg.load_pair(name, precision="fp32"), EMBEDDED[name]
    plan = prepare(pair, prompt, "speculative", {"proposer": "feature"})
    rounds = Rounds(make_run(plan, Draws(0)))
    for kept in (2, 0, 3):
        draft = rounds.propose(3)
        check(rounds, draft, 1e-4, 1e-3)
        rounds.commit(draft, min(kept, len(draft.ids)), 253)
    common: dict[str, Any] = dict(max_new_tokens=24)
    found = pg.decode(pair, prompt, temperature=0, proposer="feature", **common)
    assert found.token_ids == pg.decode(pair, prompt, "greedy", **common).token_ids
    assert found.metrics.num_accepted > 4
