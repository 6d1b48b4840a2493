"""What a finished run keeps of a search: the tree. Everything else of a session is tested with the
methods and in test_api_contract.py."""

from __future__ import annotations

import json
import math

import pytest

from playground import session
from playground.session import decode, stream
from playground.types import BeamEvent, DecodeResult, SearchStep
from tests import models_zoo

PROMPT = models_zoo.prompts(1)[0]
SEARCHES = [
    ("beam", {"num_beams": 4, "num_return_sequences": 4}),
    ("beam", {"num_beams": 1}),
    ("beam", {"num_beams": 3, "early_stopping": True, "eos_token_id": [3, 4, 5, 6]}),
    ("diverse_beam", {"num_beams": 6, "num_beam_groups": 3, "num_return_sequences": 6}),
]


def searched(
    method: str, params: dict[str, object], **limits: object
) -> tuple[list[BeamEvent], DecodeResult]:
    events = list(
        stream(
            models_zoo.pair("llama"), PROMPT, method, **{"max_new_tokens": 9, **params, **limits}
        )
    )
    result = events[-1].result
    assert result is not None
    return [e for e in events if isinstance(e, BeamEvent)], result


def sequences(steps: tuple[SearchStep, ...]) -> list[tuple[list[int], float]]:
    """Token ids and sum of every candidate of the last step that continues each one's row, read
    from the record alone."""
    rows: dict[int, list[int]] = {0: []}
    found = []
    for step in steps:
        grown = [(c, [*rows[c.parent], c.token_id]) for c in step.candidates]
        found += [(ids, c.sum_logprob) for c, ids in grown]
        rows = {c.row: ids for c, ids in grown if c.row is not None}
    return found


@pytest.mark.parametrize(("method", "params"), SEARCHES)
def test_the_record_keeps_the_kept_and_the_best_pruned_candidates(
    method: str, params: dict[str, object]
) -> None:
    events, result = searched(method, params)
    assert len(events) == len(result.steps) > 0
    for event, step in zip(events, result.steps, strict=True):
        assert (event.num_finished, event.bound) == (step.num_finished, step.bound)
        assert [c for c in event.candidates if c.kept] == [c for c in step.candidates if c.kept]
        left = [c.sum_logprob for c in event.candidates if not c.kept]
        shown = [c.sum_logprob for c in step.candidates if not c.kept]
        assert sorted(shown) == sorted(left)[-len(shown) :] if shown else not left
        assert len(shown) <= session.MAX_PRUNED


@pytest.mark.parametrize(("method", "params"), SEARCHES)
def test_every_returned_beam_is_a_path_through_the_record(
    method: str, params: dict[str, object]
) -> None:
    _, result = searched(method, params)
    found = sequences(result.steps)
    for beam in result.beams:
        assert any(
            ids == beam.token_ids and math.isclose(total, beam.sum_logprob) for ids, total in found
        )


@pytest.mark.parametrize("method", ["greedy", "sample", "exact"])
def test_other_methods_have_no_tree(method: str) -> None:
    assert decode(models_zoo.pair("llama"), PROMPT, method, max_new_tokens=4).steps == ()


def test_a_very_large_tree_is_cut_and_stays_a_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "MAX_CANDIDATES", 40)
    events, result = searched("beam", {"num_beams": 4}, eos_token_id=[])
    assert 0 < len(result.steps) < len(events)
    assert sum(len(step.candidates) for step in result.steps) <= 40
    assert sequences(result.steps)


def test_eight_beams_and_sixty_steps_stay_small() -> None:
    _, result = searched("beam", {"num_beams": 8}, max_new_tokens=60, eos_token_id=[])
    assert len(result.steps) == 60
    assert len(json.dumps(result.to_dict()["steps"])) < 300_000
