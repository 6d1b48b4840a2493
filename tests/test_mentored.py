"""playground/mentored.py: the optimum is what the papers say, to rounding, on every law."""

import json
import math
import pathlib

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize

from playground import mentored
from playground.mentored import (
    DIVERGENCES,
    Optimum,
    divergence,
    solution,
    solve,
    surely_accepts,
)

GOLDEN = pathlib.Path(__file__).parent / "golden"
STRICT = tuple(kind for kind in DIVERGENCES if kind != "tv")  # strictly convex: one optimum
FREE_OFF_SUPPORT = ("kl", "js", "hellinger", "tv")  # finite with output mass where q = 0

Array = NDArray[np.float64]
quick = settings(derandomize=True, deadline=None, max_examples=60)


def golden(name: str) -> list[dict]:
    return json.loads((GOLDEN / f"{name}.json").read_text())


def law(seed: int, size: int, spread: float = 1.5, zeros: float = 0.0) -> Array:
    rng = np.random.default_rng(seed)
    weights = np.exp(spread * rng.normal(size=size)) * (rng.random(size) >= zeros)
    weights[rng.integers(size)] += 1e-3  # never all zero
    return weights / weights.sum()


@st.composite
def laws(draw: st.DrawFn, size: int, zeros: bool = True) -> Array:
    """Flat, peaky, with zeros, one-hot."""
    shape = draw(
        st.sampled_from(["flat", "peaky", "zeros", "one-hot"] if zeros else ["flat", "peaky"])
    )
    seed = draw(st.integers(0, 10**6))
    if shape == "one-hot":
        return np.eye(size)[seed % size]
    return law(seed, size, 4.0 if shape == "peaky" else 1.0, 0.5 if shape == "zeros" else 0.0)


@st.composite
def pairs(draw: st.DrawFn, zeros: bool = True, most: int = 200) -> tuple[Array, Array]:
    """Target and draft: unrelated, near one another, equal, or of disjoint support."""
    size = draw(st.integers(2, most))
    target, draft = draw(laws(size, zeros)), draw(laws(size, zeros))
    relation = draw(st.sampled_from(["unrelated", "near", "equal", "disjoint"]))
    if relation == "equal":
        draft = target.copy()
    elif relation == "near":
        draft = 0.8 * target + 0.2 * draft
    elif relation == "disjoint" and zeros:
        half = np.arange(size) < size // 2
        target, draft = half / half.sum(), ~half / (~half).sum()
    return target, draft


kinds = st.sampled_from(DIVERGENCES)
budgets = st.one_of(st.sampled_from([1e-9, 1e-4, 0.05, 0.2, 0.5, 2.0]), st.floats(1e-6, 3.0))


def exact_acceptance(target: Array, draft: Array) -> float:
    return float(np.minimum(target, draft).sum())


def reachable(target: Array, draft: Array, kind: str, keep_support: bool) -> float:
    """Acceptance that no budget can raise further."""
    free = not keep_support and kind in FREE_OFF_SUPPORT
    return 1.0 if free else float(draft[target > 0].sum())


# --- reference values -------------------------------------------------------------------------


@pytest.mark.parametrize("case", golden("mentored_optimum"))
def test_meets_the_reference_optimum(case: dict) -> None:
    got = solve(case["target_probs"], case["draft_probs"], case["budget"], case["divergence"])
    assert got.acceptance == pytest.approx(case["acceptance"], abs=1e-6)
    assert got.divergence_spent == pytest.approx(case["divergence_spent"], abs=1e-6)
    assert got.alpha == pytest.approx(case["alpha"], abs=1e-6)
    assert got.beta == pytest.approx(case["beta"], abs=1e-6)


@pytest.mark.parametrize("case", golden("mentored_divergences"))
def test_meets_the_reference_optimum_of_each_divergence(case: dict) -> None:
    got = solve(case["target_probs"], case["draft_probs"], case["budget"], case["divergence"])
    assert got.acceptance == pytest.approx(case["acceptance"], abs=1e-6)
    assert got.divergence_spent == pytest.approx(case["budget"], abs=1e-6)
    assert got.alpha == pytest.approx(case["alpha"], abs=1e-6)


@pytest.mark.parametrize("case", golden("mentored_zero_support"))
def test_meets_the_reference_optimum_outside_the_support(case: dict) -> None:
    got = solve(case["target_probs"], case["draft_probs"], case["budget"], "kl", keep_support=False)
    for name in ("acceptance", "divergence_spent", "alpha", "zero_accept"):
        assert getattr(got, name) == pytest.approx(case[name], abs=1e-6)
    assert got.output_probs.tolist() == pytest.approx(case["output_probs"], abs=1e-6)


def test_two_different_one_hot_laws_accept_one_minus_exp_of_minus_budget() -> None:
    got = solve([1.0, 0.0], [0.0, 1.0], 0.7, keep_support=False)
    assert got.zero_accept == pytest.approx(1 - math.exp(-0.7))
    assert solve([1.0, 0.0], [0.0, 1.0], 0.7).acceptance == 0


@pytest.mark.parametrize(
    ("kind", "formula"),
    [
        ("kl", lambda q, out: (q * np.log(q / out)).sum()),
        ("reverse_kl", lambda q, out: (out * np.log(out / q)).sum()),
        (
            "js",
            lambda q, out: (
                ((q * np.log(2 * q / (q + out))).sum() + (out * np.log(2 * out / (q + out))).sum())
                / 2
            ),
        ),
        ("hellinger", lambda q, out: 1 - np.sqrt(q * out).sum()),
        ("chi2", lambda q, out: ((out - q) ** 2 / q).sum()),
        ("tv", lambda q, out: np.abs(out - q).sum() / 2),
    ],
)
def test_divergences_are_what_they_are_called(kind: str, formula) -> None:
    target, output = law(1, 50), law(2, 50)
    assert divergence(target, output, kind) == pytest.approx(formula(target, output), rel=1e-12)
    assert divergence(target, target, kind) == 0
    for seed in range(20):  # rounding never takes it below 0
        target = law(seed, 3)
        assert divergence(target, target + 1e-16 * law(seed + 1, 3), kind) >= 0


def test_divergences_are_infinite_where_they_are() -> None:
    lacking, excluded = ([0.5, 0.5], [1.0, 0.0]), ([1.0, 0.0], [0.5, 0.5])
    assert {kind for kind in DIVERGENCES if divergence(*lacking, kind) == math.inf} == {"kl"}
    infinite = {kind for kind in DIVERGENCES if divergence(*excluded, kind) == math.inf}
    assert infinite == {"reverse_kl", "chi2"}
    assert divergence([1.0, 0.0], [0.0, 1.0], "js") == pytest.approx(math.log(2))
    assert divergence([1.0, 0.0], [0.0, 1.0], "hellinger") == pytest.approx(1)


# --- the budget -------------------------------------------------------------------------------


@quick
@given(pairs(), budgets, kinds, st.booleans())
def test_budget_is_never_exceeded_and_is_spent_where_it_binds(pair, budget, kind, keep) -> None:
    target, draft = pair
    got = solve(target, draft, budget, kind, keep)
    spent = divergence(target, got.output_probs, kind)
    assert spent <= budget and got.divergence_spent <= budget
    assert spent == pytest.approx(got.divergence_spent, abs=1e-12)
    if got.acceptance < reachable(target, draft, kind, keep) - 1e-9:
        assert spent == pytest.approx(budget, abs=1e-6)


@quick
@given(pairs(), budgets, budgets, kinds, st.booleans())
def test_acceptance_grows_with_the_budget_from_the_lossless_one(pair, one, two, kind, keep) -> None:
    target, draft = pair
    small, large = (solve(target, draft, budget, kind, keep) for budget in sorted((one, two)))
    assert exact_acceptance(target, draft) - 1e-12 <= small.acceptance
    assert small.acceptance <= large.acceptance + 1e-12
    assert small.alpha >= large.alpha - 1e-12


@quick
@given(pairs(), kinds, st.booleans())
def test_budget_zero_is_the_lossless_rule_bit_for_bit(pair, kind, keep) -> None:
    target, draft = (torch.from_numpy(one) for one in pair)
    target, draft = target / target.sum(), draft / draft.sum()
    got = solve(target, draft, 0, kind, keep)
    assert (got.alpha, got.beta, got.divergence_spent, got.zero_accept) == (1, 1, 0, 0)
    proposed = draft > 0
    assert torch.equal(got.accept_probs[proposed], (target / draft).clamp(max=1)[proposed])
    residual = (target - draft).clamp(min=0)
    if residual.sum() > 0:
        assert torch.equal(got.residual_probs, residual / residual.sum())
    assert torch.equal(got.output_probs, target)


@quick
@given(pairs(), kinds)
def test_budget_of_the_whole_distance_takes_the_draft(pair, kind) -> None:
    target, draft = pair
    got = solve(target, draft, divergence(target, draft, kind), kind, keep_support=False)
    assert got.acceptance == 1
    assert got.output_probs.tolist() == pytest.approx(draft.tolist(), abs=1e-15)
    inside = solve(target, draft, math.inf, kind)  # keeps the support, as far as it goes
    assert inside.acceptance == pytest.approx(draft[target > 0].sum(), abs=1e-12)


@quick
@given(pairs(), st.floats(1e-6, 1.0))
def test_total_variation_buys_its_budget_in_acceptance(pair, budget) -> None:
    target, draft = pair
    for keep in (True, False):
        got = solve(target, draft, budget, "tv", keep)
        wanted = min(exact_acceptance(target, draft) + budget, reachable(target, draft, "tv", keep))
        assert got.acceptance == pytest.approx(wanted, abs=1e-9)


# --- the rule ---------------------------------------------------------------------------------


@quick
@given(pairs(), budgets, kinds, st.booleans())
def test_rule_draws_from_the_output_law_it_states(pair, budget, kind, keep) -> None:
    target, draft = pair
    got = solve(target, draft, budget, kind, keep)
    accept, residual, output = (
        part.numpy() for part in (got.accept_probs, got.residual_probs, got.output_probs)
    )
    for probs in (residual, output):
        assert probs.min() >= 0 and probs.sum() == pytest.approx(1, abs=1e-12)
    assert accept.min() >= 0 and accept.max() <= 1
    accepted = float((draft * accept).sum())
    assert got.acceptance == pytest.approx(accepted, abs=1e-12)
    np.testing.assert_allclose(draft * accept + residual * (1 - accepted), output, atol=1e-12)


@quick
@given(pairs(), budgets, kinds)
def test_rule_is_of_the_papers_form(pair, budget, kind) -> None:
    target, draft = pair
    got = solve(target, draft, budget, kind)
    assert 0 < got.alpha <= 1 <= got.beta
    clamped = np.clip(draft, target / got.beta, target / got.alpha)
    np.testing.assert_allclose(got.output_probs.numpy(), clamped, atol=1e-12)
    used = draft > 0
    ratio = target[used] / (got.alpha * draft[used])
    np.testing.assert_allclose(got.accept_probs.numpy()[used], np.minimum(1, ratio), atol=1e-12)


@quick
@given(pairs(), st.one_of(budgets, st.just(math.inf)), kinds)
def test_support_is_kept_unless_released(pair, budget, kind) -> None:
    target, draft = pair
    excluded = target == 0
    kept = solve(target, draft, budget, kind)
    assert kept.output_probs.numpy()[excluded].sum() == 0
    assert kept.accept_probs.numpy()[excluded].sum() == 0
    freed = solve(target, draft, budget, kind, keep_support=False)
    assert freed.acceptance >= kept.acceptance - 1e-12
    if freed.zero_accept > 0:  # they come last, all with the same probability
        assert freed.alpha == 0
        assert (freed.accept_probs.numpy()[~excluded] == 1).all()
        assert set(freed.accept_probs.numpy()[excluded]) == {freed.zero_accept}
    if kind in ("reverse_kl", "chi2") and budget < math.inf:
        assert freed.zero_accept == 0


@quick
@given(pairs(), budgets, kinds, st.booleans())
def test_parts_of_a_solution_are_those_of_the_whole(pair, budget, kind, keep) -> None:
    target, draft = (torch.from_numpy(law).float() for law in pair)  # sums miss 1 a little
    part = solution(target.double(), draft.double(), budget, kind, keep)
    whole = part.optimum()
    residual = part.residual()
    torch.testing.assert_close(residual / residual.sum(), whole.residual_probs, atol=1e-14, rtol=0)
    for token in draft.nonzero()[:, 0].tolist():
        assert part.accept_prob(token) == pytest.approx(float(whole.accept_probs[token]), abs=1e-14)
    single = solution(target, draft, budget, kind, keep)
    if single.residual().equal(target) or residual.equal(target.double()):
        return  # nothing, or no more than rounding, is ever refused
    torch.testing.assert_close(single.residual().double(), residual, atol=1e-6, rtol=0)


@quick
@given(pairs(), budgets, kinds, st.booleans(), st.data())
def test_a_known_support_of_the_draft_changes_nothing(pair, budget, kind, keep, data) -> None:
    target, draft = (torch.from_numpy(law) for law in pair)
    others = [i for i in range(len(draft)) if draft[i] == 0]
    beside = data.draw(st.sets(st.sampled_from(others)) if others else st.just(set()))
    support = torch.tensor(sorted({*draft.nonzero()[:, 0].tolist(), *beside}))
    found = solution(target, draft, budget, kind, keep, support)
    expected = solution(target, draft, budget, kind, keep)
    assert found.rule == pytest.approx(expected.rule, rel=1e-9, abs=1e-12)
    torch.testing.assert_close(found.residual(), expected.residual(), atol=1e-12, rtol=0)
    assert found.divergences([kind]) == pytest.approx(expected.divergences([kind]), abs=1e-12)


def test_equal_laws_accept_everything_and_leave_a_valid_residual() -> None:
    same = law(3, 20)
    for budget in (0, 0.1):
        got = solve(same, same, budget)
        assert got.acceptance == 1 and got.accept_probs.min() == 1
        assert got.residual_probs.tolist() == same.tolist()


def test_temperature_zero_makes_mentored_the_same_as_greedy() -> None:
    greedy, draft = [0.0, 1.0, 0.0], [0.5, 0.2, 0.3]
    for kind in DIVERGENCES:
        assert solve(greedy, draft, 5.0, kind).output_probs.tolist() == greedy


# --- optimality -------------------------------------------------------------------------------


def reference_acceptance(target: Array, draft: Array, budget: float, kind: str) -> float:
    """The same programme by a general solver: kept ≤ p, kept ≤ π, π a law within the budget."""
    size = len(target)

    def output(x: Array) -> Array:
        return np.maximum(x[:size], 1e-300) / max(x[:size].sum(), 1e-300)

    constraints = [
        {"type": "eq", "fun": lambda x: x[:size].sum() - 1},
        {"type": "ineq", "fun": lambda x: x[:size] - x[size:]},
        {"type": "ineq", "fun": lambda x: budget - divergence(target, output(x), kind)},
    ]
    bounds = [(1e-12, 1)] * size + [(0, p) for p in draft]
    start = np.concatenate([target, np.minimum(target, draft)])
    found = minimize(
        lambda x: -x[size:].sum(),
        start,
        jac=lambda x: np.concatenate([np.zeros(size), -np.ones(size)]),
        bounds=bounds,
        constraints=constraints,
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 300},
    )
    return -float(found.fun)


@pytest.mark.parametrize("kind", STRICT)
@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("seed", range(3))
def test_no_general_optimiser_accepts_more(kind: str, size: int, seed: int) -> None:
    target, draft = law(seed, size, 1.0), law(seed + 100, size, 1.0)
    budget = 0.3 * divergence(target, draft, kind)
    best = solve(target, draft, budget, kind).acceptance
    assert best == pytest.approx(reference_acceptance(target, draft, budget, kind), abs=2e-5)


@pytest.mark.parametrize("kind", DIVERGENCES)
def test_no_law_on_a_fine_grid_accepts_more(kind: str) -> None:
    """Three tokens, the last one excluded by the target: every law in steps of 1/60."""
    target, draft = np.array([0.7, 0.3, 0.0]), np.array([0.25, 0.25, 0.5])
    steps = 60
    outputs = np.array(
        [(i, j, steps - i - j) for i in range(steps + 1) for j in range(steps + 1 - i)]
    ) / float(steps)
    accepted = np.minimum(outputs, draft).sum(axis=1)
    spent = np.array([divergence(target, output, kind) for output in outputs])
    for budget in (0.02, 0.1, 0.25):
        for keep in (True, False):
            allowed = (spent <= budget) & ((outputs[:, 2] == 0) | (not keep))
            best = solve(target, draft, budget, kind, keep).acceptance
            nearest = accepted[allowed].max()
            assert best - 2 / steps <= nearest <= best + 1e-12


@quick
@given(pairs(zeros=False, most=30), st.floats(0.05, 0.95))
def test_other_lossy_rules_accept_less_at_the_same_divergence(pair, knob) -> None:
    target, draft = pair
    assume(exact_acceptance(target, draft) < 0.999)
    residual = np.maximum(0, target - draft) / np.maximum(0, target - draft).sum()
    mixture = knob * target + (1 - knob) * draft
    lenient = np.minimum(draft, target / knob)
    lenient_output = lenient + residual * (1 - lenient.sum())
    for kind in DIVERGENCES:
        for accepted, output in (
            (np.minimum(draft, mixture).sum(), mixture),
            (lenient.sum(), lenient_output),
        ):
            best = solve(target, draft, divergence(target, output, kind), kind)
            assert best.acceptance >= accepted - 1e-9


# --- size, precision, input -------------------------------------------------------------------


@pytest.mark.parametrize("kind", DIVERGENCES)
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("budget", [0.01, 1e-9])
def test_whole_vocabulary_in_single_precision(kind: str, keep: bool, budget: float) -> None:
    noise = torch.Generator().manual_seed(0)
    base = 3 * torch.randn(49_152, generator=noise)
    target, draft = (
        torch.softmax(base + torch.randn(49_152, generator=noise), 0) for _ in range(2)
    )
    target[base < -3] = 0
    target = target / target.sum() * (1 + 5e-5)  # as far from 1 as single precision gets
    got = solve(target, draft, budget, kind, keep)
    assert got.output_probs.dtype == torch.float64
    assert got.output_probs.sum().item() == pytest.approx(1, abs=1e-12)
    assert divergence(target, got.output_probs, kind) <= budget
    assert got.divergence_spent == pytest.approx(budget, rel=1e-3)
    accepted = (draft.double() / draft.double().sum()) @ got.accept_probs
    assert got.acceptance == pytest.approx(accepted.item(), abs=1e-12)


@quick
@given(st.integers(0, 10**6), st.integers(1, 300), st.sampled_from([0.0, 1e-15, 1e-11, 1.0, 300.0]))
def test_order_is_that_of_every_bit(seed: int, size: int, spread: float) -> None:
    """Also where numbers differ only in the bits that their place takes while they are sorted."""
    rng = np.random.default_rng(seed)
    numbers = 10.0 ** rng.uniform(-spread / 2, spread / 2, size) * rng.choice([1.0, 0.5], size)
    numbers[rng.integers(size)] = 0.0
    order, num_below_one = mentored._ascending(numbers)
    assert sorted(order.tolist()) == list(range(size))
    assert numbers[order].tolist() == sorted(numbers)
    assert num_below_one == (numbers < 1).sum()


@quick
@given(pairs(), budgets, kinds, st.booleans(), st.integers(1, 9))
def test_tokens_that_the_draft_lacks_act_as_one(pair, budget, kind, keep, parts) -> None:
    target, draft = pair
    one_more = np.append(target * 0.9, 0.1), np.append(draft, 0.0)
    in_parts = np.append(target * 0.9, [0.1 / parts] * parts), np.append(draft, [0.0] * parts)
    whole, split = (solve(*laws, budget, kind, keep) for laws in (one_more, in_parts))
    assert split.acceptance == pytest.approx(whole.acceptance, abs=1e-11)
    shown = split.output_probs[: len(target)]
    np.testing.assert_allclose(shown, whole.output_probs[:-1], atol=1e-9)
    assert split.output_probs[len(target) :].sum().item() == pytest.approx(
        whole.output_probs[-1].item(), abs=1e-9
    )


def test_a_draft_with_a_trimmed_head_spends_the_budget() -> None:
    noise = torch.Generator().manual_seed(0)
    target, draft = (torch.randn(49_152, generator=noise).mul(3).softmax(0) for _ in range(2))
    draft[16_384:] = 0
    draft /= draft.sum()
    got = solve(target, draft, 0.2)
    assert 0.2 - 1e-6 < divergence(target, got.output_probs, "kl") <= 0.2
    assert (got.output_probs[16_384:] > 0).all()


@settings(quick, max_examples=150)
@given(st.integers(0, 10**6), st.integers(2, 10), budgets, kinds, st.booleans())
def test_probabilities_as_small_as_they_come(seed, size, budget, kind, keep) -> None:
    exponents = np.random.default_rng(seed).uniform(0, 320, (2, size)) * [[1], [seed % 3 / 2]]
    target, draft = (10.0**-one / (10.0**-one).sum() for one in exponents)
    got = solve(target, draft, budget, kind, keep)
    assert got.divergence_spent <= budget
    assert got.acceptance >= exact_acceptance(target, draft) - 1e-12
    for probs in (got.output_probs, got.residual_probs):
        assert probs.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_cuda_gives_what_the_processor_gives() -> None:
    target, draft = torch.from_numpy(law(1, 5000, 3.0)), torch.from_numpy(law(2, 5000, 3.0))
    here, there = solve(target, draft, 0.1), solve(target.cuda(), draft.cuda(), 0.1)
    assert there.output_probs.is_cuda
    assert there.acceptance == pytest.approx(here.acceptance, abs=1e-11)
    torch.testing.assert_close(there.output_probs.cpu(), here.output_probs, atol=1e-12, rtol=0)


def test_lists_arrays_and_tensors_of_any_precision_are_laws() -> None:
    target, draft = [0.5, 0.25, 0.25], [0.25, 0.5, 0.25]
    wanted = solve(target, draft, 0.01).to_dict()
    frozen = np.array(target)
    frozen.flags.writeable = False
    assert solve(frozen, np.array(draft, dtype=np.float32), 0.01).to_dict() == wanted
    leaf = torch.tensor(target, requires_grad=True)
    got = solve(leaf, torch.tensor(draft, dtype=torch.bfloat16), 0.01)
    assert got.to_dict() == wanted
    assert not got.output_probs.requires_grad


def test_solving_leaves_its_input_as_it_was() -> None:
    target, draft = torch.from_numpy(law(1, 9)), torch.from_numpy(law(2, 9))
    before = target.clone(), draft.clone()
    got = solve(target, draft, 0.1)
    solve(target, target, 0.1).residual_probs.zero_()
    got.output_probs.zero_()
    assert torch.equal(target, before[0]) and torch.equal(draft, before[1])


@pytest.mark.parametrize("budget", [0, 0.1, math.inf])
def test_dictionary_is_strict_json(budget: float) -> None:
    got = solve([0.5, 0.5], [1.0, 0.0], budget)  # the draft lacks a token: KL(q‖p) is infinite
    plain = json.loads(json.dumps(got.to_dict(), allow_nan=False))
    assert list(plain) == list(Optimum.__slots__)
    assert (plain["beta"] is None) == (plain["divergence_spent"] is None) == (budget == math.inf)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target_probs": [0.6, -0.1, 0.5]}, "target_probs.*-0.1.*0 to 1"),
        ({"draft_probs": [0.6, math.nan, 0.4]}, "draft_probs.*nan.*0 to 1"),
        ({"draft_probs": [math.inf, 0.5, 0.5]}, "draft_probs.*inf.*sum to 1"),
        ({"target_probs": [0.0, 0.0, 0.0]}, "target_probs sums to 0.0"),
        ({"target_probs": [1.0, 2.0, 3.0]}, "target_probs sums to 6.0"),
        ({"target_probs": [[0.5, 0.5]]}, r"target_probs.*\[1, 2\].*\[V\]"),
        ({"target_probs": []}, r"target_probs.*\[0\].*V ≥ 1"),
        ({"target_probs": ["a", "b"]}, "target_probs=.*numbers"),
        ({"target_probs": torch.ones(1) * 1j}, "target_probs is torch.complex64"),
        ({"draft_probs": [0.5, 0.5]}, "target_probs and draft_probs have 3 and 2"),
        ({"budget": -0.1}, "budget=-0.1.*0 to infinity"),
        ({"budget": math.nan}, "budget=nan.*0 to infinity"),
        ({"budget": "much"}, "budget='much'.*0 to infinity"),
        ({"divergence": "renyi"}, "divergence='renyi'.*kl, reverse_kl, js, hellinger, chi2, tv"),
    ],
)
def test_bad_input_is_named_with_what_is_allowed(change: dict, message: str) -> None:
    good = {"target_probs": [0.2, 0.3, 0.5], "draft_probs": [0.5, 0.3, 0.2], "budget": 0.1}
    with pytest.raises(ValueError, match=message):
        solve(**(good | change))


def test_unknown_divergence_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="kind='renyi'"):
        divergence([1.0], [1.0], "renyi")


def test_the_divergence_of_a_solution_is_what_the_solution_says_it_spent() -> None:
    """A draft that lacks a rare token: β is huge and the output of the token tiny, but not 0."""
    target = torch.tensor([0.99 - 1e-5, 0.01, 1e-5, 1e-25], dtype=torch.float64)
    draft = torch.tensor([0.95, 0.05, 0.0, 0.0], dtype=torch.float64)
    best = solve(target, draft, 0.2)
    assert best.beta > 1e100
    assert divergence(target, best.output_probs, "kl") == pytest.approx(best.divergence_spent)


@pytest.mark.parametrize("support", [False, True])
@pytest.mark.parametrize("kind", DIVERGENCES)
def test_what_is_surely_accepted_the_optimum_accepts(kind: str, support: bool) -> None:
    """Never a token that it would refuse, and most of those that it accepts after the exact test
    refused them, for the divergence that is the default."""
    generator = torch.Generator().manual_seed(0)
    sure, accepted = 0, 0
    for round_number in range(400):
        logits = torch.randn(200, generator=generator) * 3
        noise = torch.randn(200, generator=generator) * (0.3 + round_number % 3)
        target, draft = logits.softmax(0), (logits + noise).softmax(0)
        drafted = torch.arange(0, 200, 2) if support else None
        if drafted is not None:
            draft = torch.zeros(200).index_copy_(0, drafted, draft[drafted] / draft[drafted].sum())
        token = int(torch.multinomial(draft, 1, generator=generator))
        u = float(torch.rand((), generator=generator, dtype=torch.float64))
        if u * float(draft[token]) < float(target[token]):
            continue  # the exact test accepts it
        budget = (0.001, 0.05, 0.2, 1.0)[round_number % 4]
        best = solution(target, draft, budget, kind, drafted=drafted).accept_prob(token)
        found = surely_accepts(target, draft, token, u, budget, kind, drafted)
        assert not found or u < best
        sure, accepted = sure + found, accepted + (u < best)
    assert accepted > 0
    if kind == "kl":
        assert sure > 0.6 * accepted


def test_nothing_is_sure_of_what_the_target_excludes() -> None:
    target, draft = torch.tensor([0.5, 0.5, 0.0]), torch.tensor([0.2, 0.2, 0.6])
    assert not surely_accepts(target, draft, 2, 0.5, 10.0)
    assert not surely_accepts(target, draft, 0, 0.99, 10.0)  # some are excluded
