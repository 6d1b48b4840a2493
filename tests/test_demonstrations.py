"""The lessons' demonstrations: the product's own code gives what the texts say."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playground.demonstrations.costs import beam_searches, shape_of
from playground.demonstrations.rules import (
    MAX_DRAWS,
    family,
    mentored_points,
    rule_curves,
    simulate,
)
from playground.demonstrations.searches import (
    MODES,
    PROMPT,
    TableLM,
    cache_rows,
    search_tree,
    stopping,
    stopping_search,
    tree_step,
)
from playground.lessons import cost, tree
from playground.lessons.mentoring import (
    ARTICLE_CURVE,
    ARTICLE_DRAFT,
    ARTICLE_TARGET,
    BUMPS_DRAFT,
    BUMPS_TARGET,
)
from playground.lessons.speculation import overlap
from playground.lessons.stopping import END, LAWS, WIDTH, provisional, stops
from playground.lessons.tree import CHAPTER, FIRST, SECOND
from playground.mentored import DIVERGENCES, divergence, solve
from playground.models import ModelPair
from playground.session import decode
from playground.ui.lab import PRESETS
from playground.verifiers import VERIFIERS
from tests import models_zoo
from tests.table_lm import TableLM as RandomLM
from tests.ui.learn.idle import WordPair

GOLDEN = json.loads((Path(__file__).parent / "golden" / "two_step_tree.json").read_text())
ARTICLE = ARTICLE_TARGET, ARTICLE_DRAFT
BUMPS = BUMPS_TARGET, BUMPS_DRAFT

# --- greedy can lose ------------------------------------------------------------------------------


def test_greedy_loses_and_two_beams_win() -> None:
    greedy, one, two, three = search_tree(CHAPTER)
    assert list(greedy.path.name) == list(one.path.name) == GOLDEN["greedy"]["path"]
    assert greedy.path.joint == pytest.approx(GOLDEN["greedy"]["joint"])
    assert list(two.path.name) == GOLDEN["beam2"]["path"]
    assert two.path.joint == pytest.approx(GOLDEN["beam2"]["joint"])
    assert three.path == CHAPTER.paths()[0]


weights = st.lists(st.integers(0, 20), min_size=3, max_size=3).filter(any)


@settings(max_examples=25, deadline=None)
@given(st.lists(weights, min_size=4, max_size=4))
def test_any_edited_tree_is_searched_as_enumeration_says(drawn: list[list[int]]) -> None:
    laws = [[w / sum(row) for w in row] for row in drawn]
    made = tree.edited(laws[0], laws[1:])
    greedy, one, two, three = search_tree(made)
    first = max(range(3), key=lambda i: (made.first[i], -i))
    second = max(made.second[first])
    assert greedy.path.joint == pytest.approx(made.first[first] * second)
    assert one.path.joint == pytest.approx(greedy.path.joint)
    assert three.path.joint == pytest.approx(made.paths()[0].joint)
    ranked = sorted(range(3), key=lambda i: -made.first[i])[:2]
    assert two.path.joint == pytest.approx(max(made.first[i] * max(made.second[i]) for i in ranked))


# --- one beam step --------------------------------------------------------------------------------


def test_table_9_5() -> None:
    step = tree_step(CHAPTER, width=2, index=1)
    assert len(step.moves) == len(GOLDEN["round2"]) == 6
    for move, row in zip(step.moves, GOLDEN["round2"], strict=True):
        path = FIRST[move.parent] + SECOND[move.token_id]  # after step 1, row 0 is A and row 1 is B
        assert path == row["path"]
        assert round(move.parent_score, 3) == row["parent_score"]
        assert round(move.logprob, 3) == row["logp"]
        assert round(move.score, 3) == row["score"]
        assert move.kept == row["kept"]
        assert divmod(move.flat, step.vocab_size) == (move.parent, move.token_id)
    assert [FIRST[parent] for parent in step.reorder] == GOLDEN["beam2"]["parents"]
    assert step.shapes == {"logits": (2, 3), "scores": (2, 1), "totals": (2, 3), "flat": (6,)}
    assert (step.copies, step.dropped) == ((), ())


def test_the_first_step_expands_the_prompt_alone() -> None:
    step = tree_step(CHAPTER, width=2, index=0)
    assert step.shapes["logits"] == (1, 3)
    assert (step.reorder, step.copies) == ((0, 0), (0,))
    assert [round(move.score, 3) for move in step.moves] == [-0.693, -0.916, -2.303]


def test_the_caches_rows_follow_their_parents_and_share_the_prompt() -> None:
    rows = cache_rows([7, 8, 9], [[0], [1]], tree_step(CHAPTER, 2, 1).reorder)
    assert rows.shared == (7, 8, 9)
    assert (rows.before, rows.after) == (((0,), (1,)), ((1,), (0,)))
    number = 2 * 4  # a key and a value of single precision
    assert rows.num_bytes == (3 + 2) * number
    assert rows.num_bytes_naive == (2 * 3 + 2) * number
    copied = cache_rows([7], [[0, 4], [1, 5], [2, 6]], [1, 1, 0])
    assert copied.after == ((1, 5), (1, 5), (0, 4))


# --- when to stop ---------------------------------------------------------------------------------


def replayed(pair: ModelPair, result: Any) -> None:
    """Each mode, run for itself, ends where the record says, and finds what it says.

    Mode "never" proves sooner than the heuristic believes where shorter texts are favoured: then
    the heuristic's end lies beyond the record.
    """
    params = {k: v for k, v in result.params.items() if k != "early_stopping"}
    found = stops(stopping(result))
    for mode, value in MODES.items():
        run = decode(pair, result.prompt_ids, "beam", early_stopping=value, **params)
        if mode in found:
            assert len(run.steps) == found[mode].step, mode
            assert run.beams[0].score == found[mode].best, mode
        else:
            assert mode == "false" and params["length_penalty"] < 0
            assert len(run.steps) > len(result.steps)


def test_the_three_modes_end_one_after_another_and_each_finds_more() -> None:
    record = stopping_search()
    prefixes: list[tuple[int, ...]] = [(PROMPT,)]
    table: dict[tuple[int, ...], tuple[float, ...]] = {}
    for law in LAWS:
        table |= dict.fromkeys(prefixes, law)
        prefixes = [(*prefix, i) for prefix in prefixes for i in range(3) if i != END]
    replayed(ModelPair(TableLM(table, eos=END)), record)
    found = stops(stopping(record))
    assert [found[mode].step for mode in MODES] == [2, 4, 6]
    best = [found[mode].best or 0.0 for mode in MODES]
    assert best == sorted(best) and len(set(best)) == 3
    assert found["never"].step < len(LAWS)  # it proved that nothing better can come


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "scoring",
    [
        {},
        {"length_penalty": -0.5},
        {"length_norm": "gnmt", "length_penalty": 0.6},
        {"length_norm": "none"},
    ],
)
def test_modes_replay_on_any_search(seed: int, scoring: dict[str, Any]) -> None:
    pair = ModelPair(RandomLM(6, seed, eos=5))
    for width in (1, 3):
        record = decode(
            pair, [1], "beam", num_beams=width, max_new_tokens=7, early_stopping="never", **scoring
        )
        replayed(pair, record)


def test_bounds_are_those_of_the_modes() -> None:
    for step in stopping(stopping_search()):
        assert step.best_live is not None
        assert step.bounds["false"] == pytest.approx(step.best_live / step.step)
        assert step.bounds["never"] == pytest.approx(step.best_live / len(LAWS))
        if step.num_finished == WIDTH:
            assert step.worst is not None
            for mode in ("false", "never"):
                assert step.stops[mode] == ((step.bounds[mode] or 0.0) <= step.worst)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("greedy", {}),
        ("beam", {}),
        ("beam", {"early_stopping": True}),
        ("diverse_beam", {"early_stopping": "never"}),
    ],
)
def test_only_a_record_of_mode_never_tells_the_others(method: str, params: dict[str, Any]) -> None:
    pair = ModelPair(TableLM({(PROMPT,): LAWS[0]}, eos=END))
    record = decode(pair, [PROMPT], method, max_new_tokens=3, **params)
    with pytest.raises(ValueError, match="early_stopping"):
        stopping(record)


def test_nothing_but_the_end_is_certain() -> None:
    record = stopping_search()
    steps = provisional(record)
    assert steps[-1].best == tuple(record.token_ids) and steps[-1].certain == len(record.token_ids)
    assert all(step.certain <= step.agrees for step in steps)
    assert any(step.agrees < len(step.best) for step in steps)  # a best text that was dropped


# --- speculative decoding -------------------------------------------------------------------------


def test_the_exact_rule_leaves_the_law_unchanged() -> None:
    runs = [simulate(*ARTICLE, count=4000, seed=seed) for seed in range(24)]
    assert all(run.floor == pytest.approx(0, abs=1e-12) for run in runs)
    for place, draws in enumerate(runs[0].draws):
        if draws.count >= 300:
            mean = statistics.mean(run.draws[place].distance for run in runs)
            assert mean == pytest.approx(draws.chance, rel=0.2)
    accepted = statistics.mean(run.accepted for run in runs)
    assert accepted == pytest.approx(overlap(*ARTICLE).acceptance, abs=0.005)


def test_a_lossy_rule_falls_to_its_own_law() -> None:
    run = simulate(*ARTICLE, rule="mentored", divergence_budget=0.2)
    best = solve(*ARTICLE, 0.2)
    assert run.floor == pytest.approx(divergence(ARTICLE_TARGET, best.output_probs, "tv"))
    assert run.draws[-1].distance == pytest.approx(run.floor, abs=0.015)
    assert run.accepted == pytest.approx(best.acceptance, abs=0.015)
    assert run.shares == pytest.approx(best.output_probs.tolist(), abs=0.015)


def test_a_simulation_is_its_seed() -> None:
    assert simulate(*ARTICLE, seed=3) == simulate(*ARTICLE, seed=3)
    assert simulate(*ARTICLE, seed=3) != simulate(*ARTICLE, seed=4)
    assert simulate(*ARTICLE).draws[-1].count == 20_000


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"count": 9}, "count"),
        ({"count": MAX_DRAWS + 1}, "count"),
        ({"rule": "unheard_of"}, "rule"),
        ({"rule": "lenience", "lenience": 2.0}, "lenience"),
        ({"target": (0.5, 0.6, 0.4)}, "target_probs"),
    ],
)
def test_bad_input_is_named(given: dict[str, Any], named: str) -> None:
    known = {"target": (0.5, 0.3, 0.2), "draft": (0.2, 0.3, 0.5)}
    with pytest.raises(ValueError, match=f"^{named}"):
        simulate(**known | given)


# --- mentored decoding ----------------------------------------------------------------------------


def test_the_articles_curve() -> None:
    assert divergence(*ARTICLE, "kl") == pytest.approx(1.58, abs=0.005)
    budgets = [budget for budget, _ in ARTICLE_CURVE]
    for point, (budget, acceptance) in zip(
        mentored_points(*ARTICLE, budgets), ARTICLE_CURVE, strict=True
    ):
        assert point.acceptance == pytest.approx(acceptance, abs=0.005)
        assert point.divergence == pytest.approx(budget, abs=1e-6)


def test_the_articles_laws_are_those_of_the_token_lab() -> None:
    rows = [line.split() for line in PRESETS["article"].splitlines()]
    assert tuple(float(row[1]) for row in rows) == ARTICLE_TARGET
    assert tuple(float(row[2]) for row in rows) == ARTICLE_DRAFT


@pytest.mark.parametrize("laws", [ARTICLE, BUMPS])
def test_no_rule_is_above_mentored_decoding(laws: tuple[Any, Any]) -> None:
    curves = {curve.rule: curve for curve in rule_curves(*laws)}
    assert set(curves) == set(VERIFIERS) - {"exact", "block"}
    for curve in curves.values():
        assert curve.finite()
        for point in curve.finite():
            best = solve(*laws, point.divergence, keep_support=False)
            assert point.behind == pytest.approx(best.acceptance - point.acceptance, abs=1e-12)
            assert point.behind >= -1e-9, (curve.rule, point)
    assert all(p.behind == pytest.approx(0, abs=1e-6) for p in curves["mentored"].points)


def test_on_the_bumps_the_rules_come_apart() -> None:
    """But for the two that cut tokens of the target off: only the whole draft has a finite KL."""
    for curve in rule_curves(*BUMPS):
        furthest = max(point.behind or 0.0 for point in curve.finite())
        if curve.rule in ("top_k", "relaxed"):
            assert [point.acceptance for point in curve.finite()] == [1.0]
        elif curve.rule != "mentored":
            assert furthest > 0.01, curve.rule


def test_every_rules_curve_is_its_own_outcome() -> None:
    for curve in rule_curves(*ARTICLE, num_points=4):
        rule = VERIFIERS[curve.rule]
        for point in curve.points:
            kind = int if isinstance(getattr(rule.Params(), curve.knob), int) else float
            one = rule(rule.Params(**{curve.knob: kind(point.knob)}))
            law = one.output_law(*map(tensor, ARTICLE))
            assert math.fsum(law.tolist()) == pytest.approx(1)
            assert point.divergence == pytest.approx(divergence(ARTICLE_TARGET, law, "kl"))


def tensor(law: tuple[float, ...]) -> Any:
    return solve(law, law, 0.0).output_probs


def test_curves_of_laws_with_zeros() -> None:
    target, draft = (0.6, 0.4, 0.0), (0.2, 0.0, 0.8)
    curves = {curve.rule: curve for curve in rule_curves(target, draft, 8)}
    assert all(0 <= p.acceptance <= 1 for curve in curves.values() for p in curve.points)
    assert curves["mentored"].points[0].acceptance == pytest.approx(0.2)
    assert set(family(target, draft, 4)) == set(DIVERGENCES)


def test_the_family_goes_from_lossless_to_the_draft() -> None:
    for kind, points in family(*ARTICLE).items():
        assert points[0].acceptance == pytest.approx(overlap(*ARTICLE).acceptance)
        assert points[-1].acceptance == pytest.approx(1, abs=1e-6)
        assert points[-1].budget == pytest.approx(divergence(*ARTICLE, kind))
        rising = [point.acceptance for point in points]
        assert rising == sorted(rising)


def test_strictly_convex_divergences_share_one_curve() -> None:
    """Only the budget's meaning changes: at equal acceptance the KL is that of the KL optimum."""
    for kind, points in family(*ARTICLE, num_points=8).items():
        for point in points:
            best = solve(*ARTICLE, point.divergence)
            if kind == "tv":
                assert best.acceptance >= point.acceptance - 1e-7
            else:
                assert best.acceptance == pytest.approx(point.acceptance, abs=1e-5)


# --- what beams cost ------------------------------------------------------------------------------


@pytest.mark.parametrize("lean", [True, False])
def test_a_caches_own_bytes_equal_the_formulas(lean: bool) -> None:
    pair = WordPair(models_zoo.model("llama"), lean=lean, name="tiny")
    shape = shape_of(pair)
    assert shape is not None and (shape.layers, shape.kv_heads, shape.head_dim) == (2, 2, 4)
    for width, result in beam_searches(pair, (1, 4), 40, 12).items():
        found, formula = cost.measured(result, width), cost.cost(shape, width, 40, 12)
        assert (found.prompt, found.steps) == (40, 12)
        assert (found.kv_bytes, found.kv_bytes_naive) == (formula.shared_bytes, formula.naive_bytes)
        assert result.finish_reason == "length" and found.ms_per_token is not None


def test_shapes_of_other_families() -> None:
    shape = shape_of(models_zoo.pair("gpt2"))
    config = models_zoo.model("gpt2").config
    assert shape is not None and shape.kv_heads == config.n_head and shape.layers == config.n_layer
    assert shape_of(models_zoo.pair("t5")) is None
    assert shape_of(ModelPair(RandomLM(5))) is None
