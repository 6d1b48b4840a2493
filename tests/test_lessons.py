"""The lessons' numbers against the golden files and the facts they teach."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playground.catalog import ASSETS
from playground.lessons import cost, length, mentoring, repetition, speculation, tree, width
from playground.lessons.beam_step import beam_step
from playground.lessons.mentoring import RuleCurve, RulePoint, gains
from playground.lessons.stopping import Stop, StopStep, common_prefix, provisional, stops
from playground.metrics import Timing, expected_speedup, summarise
from playground.types import Beam, Candidate, DecodeResult, SearchStep, Token
from tests.ui.traces import row as run_row

GOLDEN = Path(__file__).parent / "golden"


def golden(name: str) -> Any:
    return json.loads((GOLDEN / f"{name}.json").read_text())


def result(ids: list[int], **values: Any) -> DecodeResult:
    """A finished beam run, made by hand."""
    known: dict[str, Any] = {
        "method": "beam",
        "params": {"num_beams": 2},
        "prompt_ids": [0],
        "token_ids": ids,
        "text": None,
        "finish_reason": "eos",
        "tokens": (),
        "rounds": (),
        "beams": (Beam(ids, -1.0, -2.0, len(ids), True),),
        "metrics": summarise([], [], Timing(1.0, None, 1.0, 0.0, 1, 0)),
    }
    return DecodeResult(**known | values)


# --- greedy can lose ------------------------------------------------------------------------------


def test_the_chapters_tree() -> None:
    known = golden("two_step_tree")
    assert tuple(known["step1"].values()) == tree.CHAPTER.first
    for law, name in zip(tree.CHAPTER.second, "AB", strict=False):
        assert law == tuple(known["step2"][name].values())
    joint = {path.name: path.joint for path in tree.CHAPTER.paths()}
    for row in known["round2"]:
        assert joint[row["path"]] == pytest.approx(row["joint"])
        assert math.log(joint[row["path"]]) == pytest.approx(row["score"], abs=5e-4)
    assert tree.CHAPTER.paths()[0].name == "".join(known["beam2"]["path"])


def test_our_law_after_c_decides_nothing() -> None:
    joint = [path.joint for path in tree.CHAPTER.paths() if path.name.startswith("C")]
    assert len(joint) == 3 and max(joint) <= 0.1 < 0.2


def test_a_path_may_be_one_token_or_none() -> None:
    assert tree.CHAPTER.path([1]).joint == 0.4 and tree.CHAPTER.path([1]).name == "B"
    assert tree.CHAPTER.path([]).joint == 1.0
    certain = tree.edited((1, 0, 0), tree.CHAPTER.second)
    assert certain.path([2, 0]).logprob == -math.inf


def test_an_edited_tree_is_a_tree_of_laws() -> None:
    made = tree.edited((0.33, 0.33, 0.336), ((1, 0, 0), (0.2, 0.3, 0.5), (0.3, 0.3, 0.4)))
    assert math.fsum(made.first) == pytest.approx(1, abs=1e-15)
    assert math.fsum(path.joint for path in made.paths()) == pytest.approx(1)
    assert [p.joint for p in made.paths()] == sorted((p.joint for p in made.paths()), reverse=True)


@pytest.mark.parametrize(
    ("first", "after_b", "named"),
    [
        ((0.5, -0.1, 0.6), (0.9, 0.06, 0.04), r"^first step, B: -0.1"),
        ((0.5, math.nan, 0.5), (0.9, 0.06, 0.04), r"^first step, B: nan"),
        ((0.5, "x", 0.5), (0.9, 0.06, 0.04), r"^first step, B: 'x'"),
        ((0.5, True, 0.5), (0.9, 0.06, 0.04), r"^first step, B: True"),
        ((0.5, 0.4, 0.1), (0.9, 1.06, 0.04), r"^after B, y: 1.06"),
        ((0.5, 0.4, 0.1), (0.9, 0.06, 0.4), r"^after B: 'sum 1.36'"),
        ((0.5, 0.4), (0.9, 0.06, 0.04), r"^first step: .*A, B, C"),
    ],
)
def test_a_bad_entry_is_named(first: Any, after_b: Any, named: str) -> None:
    with pytest.raises(ValueError, match=named) as caught:
        tree.edited(first, (tree.CHAPTER.second[0], after_b, tree.CHAPTER.second[2]))
    assert "\n" not in str(caught.value)


def test_a_missing_law_is_named() -> None:
    with pytest.raises(ValueError, match="one law for each of A, B, C"):
        tree.edited(tree.CHAPTER.first, tree.CHAPTER.second[:2])


# --- one beam step --------------------------------------------------------------------------------


def test_parents_and_tokens_come_back_from_the_flattened_index() -> None:
    before = SearchStep((Candidate(0, 1, -0.5, -0.5, True, False, 0),))
    step = SearchStep(
        (
            Candidate(0, 4, -0.7, -0.35, True, False, 0),
            Candidate(0, 6, -0.9, -0.45, True, True),
            Candidate(0, 2, -1.0, -0.5, True, False, 1),
            Candidate(0, 3, -2.0, -1.0, False, False),
        )
    )
    found = beam_step((before, step), 1, vocab_size=7)
    assert [divmod(move.flat, 7) for move in found.moves] == [(0, 4), (0, 6), (0, 2), (0, 3)]
    assert [move.logprob for move in found.moves] == pytest.approx([-0.2, -0.4, -0.5, -1.5])
    assert (found.reorder, found.copies, found.dropped) == ((0, 0), (0,), ())
    assert found.shapes["totals"] == (1, 7) and found.shapes["flat"] == (7,)
    assert [move.finished for move in found.moves] == [False, True, False, False]


# --- when to stop ---------------------------------------------------------------------------------


def stop_step(step: int, **ends: bool) -> StopStep:
    return StopStep(step, -1.0, 2, -0.9, -0.1 * step, dict.fromkeys(ends, -1.0), ends)


def test_a_mode_stops_once_and_may_outlast_the_record() -> None:
    steps = [
        stop_step(1, true=False, false=False, never=False),
        stop_step(2, true=True, false=False, never=False),
        stop_step(3, true=True, false=True, never=False),
        stop_step(4, true=True, false=False, never=False),
    ]
    assert stops(steps) == {
        "true": Stop("true", 2, steps[1].best),
        "false": Stop("false", 3, steps[2].best),
    }


def test_common_prefix() -> None:
    assert common_prefix([1, 2, 3], [1, 2, 4]) == 2
    assert common_prefix([1, 2], [1, 2, 4]) == 2
    assert common_prefix([], [1]) == 0


def test_only_what_all_beams_share_is_certain() -> None:
    steps = (
        SearchStep((Candidate(0, 5, -0.1, -0.1, True, False, 0),)),
        SearchStep(
            (
                Candidate(0, 7, -0.5, -0.25, True, False, 0),
                Candidate(0, 8, -0.6, -0.30, True, False, 1),
            )
        ),
        SearchStep(
            (
                Candidate(1, 9, -0.7, -0.23, True, True),
                Candidate(0, 9, -0.9, -0.30, True, True),
            ),
            2,
        ),
    )
    found = provisional(result([5, 8, 9], steps=steps))
    assert [(p.best, p.agrees, p.certain) for p in found] == [
        ((5,), 1, 1),
        ((5, 7), 1, 1),
        ((5, 8, 9), 3, 3),
    ]


# --- length bias ----------------------------------------------------------------------------------


def test_table_9_6() -> None:
    known = golden("length_penalty")
    for text, key in ((length.SHORT, "short"), (length.LONG, "long")):
        assert text == length.even(known[key]["tokens"], known[key]["token_prob"])
    rows = [vars_of(row) for row in length.table()]
    assert [(r["norm"], r["penalty"], r["winner"]) for r in rows] == [
        (r["norm"], r["alpha"], r["winner"]) for r in known["rows"]
    ]
    for row, expected in zip(rows, known["rows"], strict=True):
        assert round(row["short"], 3) == expected["short"]
        assert round(row["long"], 3) == expected["long"]


def vars_of(row: length.Row) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__dataclass_fields__}


@pytest.mark.parametrize("norm", ["length", "gnmt"])
def test_both_score_alike_at_the_crossing_and_the_long_one_wins_beyond(norm: str) -> None:
    where = length.crossing(norm)
    assert where is not None
    short, long = (length.score(text, norm, where) for text in (length.SHORT, length.LONG))
    assert short == pytest.approx(long, rel=1e-12)
    assert length.row(norm, where + 0.01).winner == "long"
    assert length.row(norm, where - 0.01).winner == "short"


def test_there_may_be_no_crossing() -> None:
    assert length.crossing("none") is None
    assert length.crossing("length", length.even(5, 0.5), length.even(5, 0.6)) is None
    assert length.crossing("length", length.even(5, 1.0), length.even(9, 0.6)) is None
    assert length.row("length", 1.0, length.SHORT, length.SHORT).winner is None


@given(st.floats(-3, 3), st.floats(-3, 3))
def test_a_positive_penalty_favours_longer(one: float, other: float) -> None:
    """The name misleads: the long text's lead over the short one only grows with it."""
    low, high = sorted((one, other))
    ratio = [
        length.score(length.LONG, "length", a) / length.score(length.SHORT, "length", a)
        for a in (low, high)
    ]
    assert ratio[1] <= ratio[0] * (1 + 1e-12)


# --- what beams cost ------------------------------------------------------------------------------


def test_the_chapters_memory_example() -> None:
    known = golden("kv_memory")
    shape = cost.MODELS[0]
    assert (shape.layers, shape.kv_heads, shape.head_dim, shape.bytes_per_number) == tuple(
        known["model"].values()
    )
    assert shape.bytes_per_token == known["bytes_per_token"] == 128 * 1024
    found = cost.cost(shape, known["beams"], known["prompt"], known["generated"])
    assert (found.naive_mib, found.shared_mib) == (known["naive_mib"], known["shared_mib"])
    assert found.naive_bytes == known["naive_tokens"] * known["bytes_per_token"]
    assert found.shared_bytes == known["shared_tokens"] * known["bytes_per_token"]


def test_work_grows_with_the_width_only_behind_the_prompt() -> None:
    one, four = cost.costs(cost.MODELS[0], (1, 4), 1000, 200)
    assert (one.work, four.positions) == (1.0, 1800)
    assert cost.cost(cost.MODELS[0], 4, 0, 200).work == 4
    assert one.naive_bytes == one.shared_bytes


def test_the_embedded_target_is_as_its_config_says() -> None:
    config = json.loads((ASSETS / "models" / "chat-target" / "config.json").read_text())
    shape = next(shape for shape in cost.MODELS if shape.name == "SmolLM2 135M")
    assert shape.layers == config["num_hidden_layers"]
    assert shape.kv_heads == config["num_key_value_heads"]
    assert shape.head_dim == config["head_dim"]


# --- wider is not better --------------------------------------------------------------------------


def test_published_figures_name_their_source() -> None:
    found = {(p.name, p.width): p.value for p in width.PUBLISHED}
    assert found["bleu", None] == 2.1 and found["bleu", 10] == 30.3
    assert found["empty_is_best", None] == 51.8 and found["misses_optimum", 100] == 53.62
    assert all(p.source for p in width.PUBLISHED)


# --- likelihood repeats itself --------------------------------------------------------------------


def test_repeated_share_of_n_grams() -> None:
    assert repetition.repeated_share([1, 2, 3, 4], 1) == 0
    assert repetition.repeated_share([1, 2, 1, 2, 1], 2) == 0.5
    assert repetition.repeated_share([1, 1, 1, 1], 3) == 0.5
    assert repetition.repeated_share([1, 2], 3) is None
    assert repetition.repetition([1, 2, 1, 2]).repeated == {1: 0.5, 2: pytest.approx(1 / 3)} | {
        3: 0.0,
        4: 0.0,
    }


@pytest.mark.parametrize(
    ("ids", "loop"),
    [
        ([1, 2, 3], None),
        ([9, 1, 2, 1, 2], (2, 4)),
        ([9, 1, 2, 1, 2, 1], (2, 5)),
        ([5, 5, 5, 5], (1, 4)),
        ([1, 2, 3, 1, 2, 3, 3, 3], (1, 3)),
        ([], None),
    ],
)
def test_a_loop_at_the_end(ids: list[int], loop: tuple[int, int] | None) -> None:
    found = repetition.loop_at_end(ids)
    assert (found and (found.period, found.length)) == loop


@given(st.lists(st.integers(0, 2), max_size=12))
def test_a_loop_is_a_period_of_the_end(ids: list[int]) -> None:
    found = repetition.loop_at_end(ids)
    if found is not None:
        end = ids[-found.length :]
        assert end[found.period :] == end[: -found.period] and found.repeats >= 2


def test_repeats_are_the_tokens_of_n_grams_that_were_there_before() -> None:
    assert repetition.repeats([1, 2, 3, 1, 2, 4], 2) == (False, False, False, True, True, False)
    assert repetition.repeats([1, 1, 1], 1) == (False, True, True)
    assert repetition.repeats([1], 2) == (False,)


@given(st.lists(st.integers(0, 2), max_size=12), st.integers(1, 4))
def test_a_text_repeats_where_its_share_is_not_zero(ids: list[int], n: int) -> None:
    assert any(repetition.repeats(ids, n)) == bool(repetition.repeated_share(ids, n))


def test_laps_of_a_loop() -> None:
    loop = repetition.Loop(2, 5)
    values = [9.0, 1.0, 3.0, None, 5.0, 7.0]
    assert repetition.laps(values, loop) == (2.0, 5.0, 7.0)
    assert repetition.laps([None] * 4, repetition.Loop(2, 4)) == (None, None)


def test_probabilities_are_of_the_raw_law() -> None:
    tokens = [
        Token(1, target_prob=1.0, target_logprob=math.log(0.25)),
        Token(2),
        Token(3, target_logprob=0.0),
    ]
    series = repetition.probabilities(tokens)
    assert series == (pytest.approx(0.25), None, 1.0)
    assert repetition.smoothed(series, 2) == (pytest.approx(0.25), pytest.approx(0.25), 1.0)
    assert repetition.smoothed([None]) == (None,)


# --- speculative decoding -------------------------------------------------------------------------


@given(st.floats(0, 1), st.floats(0.01, 1.5))
def test_the_best_draft_length_is_the_best_and_pays_only_above_the_cost(
    acceptance: float, draft_cost: float
) -> None:
    best = speculation.best_draft(acceptance, draft_cost)
    every = [expected_speedup(acceptance, g, draft_cost) for g in range(33)]
    assert best.speedup == max(every)
    if acceptance <= draft_cost:
        assert best.speedup == pytest.approx(1)
    elif acceptance > draft_cost + 1e-9:
        assert best.num_draft_tokens > 0


def test_no_draft_is_the_baseline() -> None:
    start = speculation.speed_curve(0.7, 0.1)[0]
    assert (start.num_draft_tokens, start.tokens_per_round, start.speedup) == (
        0,
        pytest.approx(1),
        pytest.approx(1),
    )


def test_measured_points_stand_beside_the_formula() -> None:
    drafted = {
        "tested_acceptance_rate": 0.8,
        "draft_cost": 0.1,
        "tokens_per_round": 3.2,
        "speedup": 1.4,
        "params": {"num_draft_tokens": 4},
    }
    (point,) = speculation.measured_points([run_row("sample"), run_row("m", "mentored", **drafted)])
    assert (point.label, point.speedup, point.tokens_per_round) == ("m", 1.4, 3.2)
    assert point.predicted == expected_speedup(0.8, 4, 0.1)
    assert point.expected_tokens_per_round == pytest.approx((1 - 0.8**5) / 0.2)


laws = st.lists(st.integers(0, 100), min_size=5, max_size=5).filter(any)


@given(laws, laws)
def test_acceptance_is_one_minus_total_variation(one: list[int], other: list[int]) -> None:
    target, draft = ([w / sum(weights) for w in weights] for weights in (one, other))
    bars = speculation.overlap(target, draft)
    assert bars.acceptance == pytest.approx(1 - bars.total_variation)
    assert math.fsum(bars.rejected) == pytest.approx(math.fsum(bars.corrected))
    for i, (q, p) in enumerate(zip(target, draft, strict=True)):
        assert bars.shared[i] + bars.rejected[i] == pytest.approx(p)
        assert bars.shared[i] + bars.corrected[i] == pytest.approx(q)


def test_checkpoints_rise_to_the_count() -> None:
    counts = speculation.checkpoints(20_000)
    assert counts[0] == 10 and counts[-1] == 20_000 and list(counts) == sorted(set(counts))
    assert speculation.checkpoints(10) == (10,)


# --- mentored decoding ----------------------------------------------------------------------------


def test_curves_are_drawn_where_the_divergence_is_a_number() -> None:
    points = (RulePoint(1, 0.9, math.inf), RulePoint(2, 0.8, 0.5), RulePoint(3, 0.6, 0.2))
    assert [p.knob for p in RuleCurve("top_k", "accept_top_k", points).finite()] == [3, 2]


def test_gains_are_shares_of_what_there_is_to_gain() -> None:
    points = [RulePoint(d, r, d) for d, r in mentoring.ARTICLE_CURVE]
    found = gains(points)
    assert (found[0].share, found[0].slope) == (0, None)
    assert found[1].share == pytest.approx(0.28 / 0.78) and found[-1].share == 1
    slopes = [gain.slope for gain in found[1:]]
    assert slopes == sorted(slopes, reverse=True)  # the first tenths of a nat buy most
    assert gains([RulePoint(0, 1, 0)])[0].share == 1
