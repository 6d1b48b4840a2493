"""Verification rules: what each accepts, puts in place and emits, against its definition."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from playground.contracts import Draft, Verdict
from playground.mentored import DIVERGENCES, divergence
from playground.sampling import Draws
from playground.verifiers import VERIFIERS
from tests.enumeration import Chance, every

EXACT = 1e-12
# Rule and knobs; several settings of each, the neutral and the extreme ones among them.
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "exact": [{}],
    "block": [{}],
    "mentored": [
        {"divergence_budget": budget, "divergence": kind, "keep_support": keep}
        for budget in (0.0, 0.05, 0.5, 100.0)
        for kind in DIVERGENCES
        for keep in (True, False)
    ],
    "lenience": [{"lenience": value} for value in (1.0, 0.5, 0.01)],
    "ensemble": [{"target_weight": value} for value in (1.0, 0.5, 0.0)],
    "typical": [{}, {"typical_epsilon": 0.3, "typical_delta": 0.9}, {"typical_epsilon": 0.0}],
    "top_k": [{"accept_top_k": value} for value in (1, 2, 1000)],
    "relaxed": [
        {"relaxed_top_n": n, "relaxed_delta": delta}
        for n in (1, 3, 1000)
        for delta in (0.0, 0.4, 1)
    ],
    "cactus": [{"cactus_delta": value} for value in (0.0, 0.1, 2.0)],
    "cascade": [{"cascade_alpha": value} for value in (0.0, 0.5, 1.0)],
}
EVERY = [(name, knobs) for name, several in SETTINGS.items() for knobs in several]


def rule_of(name: str, knobs: dict[str, Any] | None = None) -> Any:
    return VERIFIERS[name](VERIFIERS[name].Params(**(knobs or {})))


def laws(draw: Any, size: int) -> tuple[Tensor, Tensor]:
    """Two laws [V], float64: peaked or flat, with holes, one-hot, disjoint or equal."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    found = []
    for _ in range(2):
        sharpness = draw(st.sampled_from((0.3, 1.0, 4.0, 30.0)))
        holes = draw(st.sampled_from((0.0, 0.0, 0.4, 0.8)))
        weights = torch.rand(size, generator=generator, dtype=torch.float64) ** sharpness
        keep = torch.rand(size, generator=generator) >= holes
        keep[int(torch.randint(size, (), generator=generator))] = True
        weights = weights * keep
        found.append(weights / weights.sum())
    return (found[0], found[0]) if draw(st.integers(0, 9)) == 0 else (found[0], found[1])


@st.composite
def law_pairs(draw: Any) -> tuple[Tensor, Tensor]:
    """(target_probs, draft_probs) over 2 to 8 tokens."""
    return laws(draw, draw(st.integers(2, 8)))


def emitted(rule: Any, target: Tensor, draft: Tensor) -> Tensor:
    """Law of the first token that `verify` emits, by enumeration of draft, test and residual."""
    law = torch.zeros_like(target)

    def play(chance: Any) -> int:
        token = chance.categorical(draft)
        verdict = rule.verify(Draft([token], [draft]), target.expand(2, -1), chance, frozenset())
        return token if verdict.num_accepted else verdict.next_id

    for weight, token in every(play):
        law[token] += weight
    return law


class TestEveryRule:
    @settings(derandomize=True, deadline=None, max_examples=60)
    @given(law_pairs(), st.sampled_from(EVERY))
    def test_accepts_with_probabilities_and_replaces_by_a_law(
        self, pair: tuple[Tensor, Tensor], setting: tuple[str, dict[str, Any]]
    ) -> None:
        """accept in [0, 1], residual a law; in double and in single precision. Case 25."""
        rule = rule_of(*setting)
        for target, draft in (pair, (pair[0].float(), pair[1].float())):
            accept, residual = rule.plan(target, draft)
            assert ((accept >= 0) & (accept <= 1)).all()
            assert (residual >= 0).all()
            assert abs(float(residual.sum()) - 1) < (EXACT if target.dtype.itemsize == 8 else 1e-5)

    @settings(derandomize=True, deadline=None, max_examples=200)
    @given(law_pairs(), st.sampled_from(EVERY))
    def test_emits_its_own_output_law(
        self, pair: tuple[Tensor, Tensor], setting: tuple[str, dict[str, Any]]
    ) -> None:
        """The enumerated law of one verified position is `output_law`, which sums to 1."""
        rule, (target, draft) = rule_of(*setting), pair
        law = rule.output_law(target, draft)
        assert abs(float(law.sum()) - 1) < EXACT
        assert float((emitted(rule, target, draft) - law).abs().max()) < EXACT

    @settings(derandomize=True, deadline=None, max_examples=100)
    @given(law_pairs(), st.sampled_from(EVERY))
    def test_outcome_is_what_plan_amounts_to(
        self, pair: tuple[Tensor, Tensor], setting: tuple[str, dict[str, Any]]
    ) -> None:
        """π = p·r + s·(1 − Σ p·r), and the same acceptance wherever the draft says something."""
        rule, (target, draft) = rule_of(*setting), pair
        accept, residual = rule.plan(target, draft)
        found, law = rule.outcome(target, draft)
        assert (law - draft * accept - residual * (1 - draft @ accept)).abs().max() < EXACT
        assert ((found - accept) * (draft > 0)).abs().max() < EXACT

    @settings(derandomize=True, deadline=None, max_examples=100)
    @given(law_pairs(), st.sampled_from(EVERY))
    def test_lossless_settings_say_so_and_are(
        self, pair: tuple[Tensor, Tensor], setting: tuple[str, dict[str, Any]]
    ) -> None:
        """Case 43. λ = 1, w = 1, δ = 0, D = 0: the target's own law."""
        rule, (target, draft) = rule_of(*setting), pair
        if rule.lossless:
            assert (rule.output_law(target, draft) - target).abs().max() < EXACT

    @pytest.mark.parametrize(("name", "knobs"), EVERY)
    def test_exactly_the_neutral_settings_are_lossless(
        self, name: str, knobs: dict[str, Any]
    ) -> None:
        neutral = name in ("exact", "block") or any(
            knobs.get(key) == value
            for key, value in (
                ("divergence_budget", 0),
                ("lenience", 1),
                ("target_weight", 1),
                ("cactus_delta", 0),
            )
        )
        assert rule_of(name, knobs).lossless == neutral

    @settings(derandomize=True, deadline=None, max_examples=150)
    @given(law_pairs(), st.sampled_from(EVERY))
    def test_rules_above_the_exact_one_are(
        self, pair: tuple[Tensor, Tensor], setting: tuple[str, dict[str, Any]]
    ) -> None:
        """The cheap exact test may come first only where the rule never accepts less."""
        rule, (target, draft) = rule_of(*setting), pair
        if rule.above_exact:
            exact, _ = rule_of("exact").plan(target, draft)
            accept, _ = rule.plan(target, draft)
            assert ((accept - exact) * (draft > 0) > -EXACT).all()

    def test_equal_laws_are_accepted_whole(self) -> None:
        """Case 25. p = q: the residual has no mass to divide by, and is never needed."""
        law = torch.tensor([0.7, 0.2, 0.1, 0.0])
        for name in ("exact", "mentored", "lenience", "ensemble", "cactus"):
            accept, residual = rule_of(name).plan(law, law)
            assert (accept[:3] == 1).all()
            assert torch.allclose(residual.float(), law)


Plan = tuple[list[float], list[float]]


def _norm(weights: list[float], fallback: list[float]) -> list[float]:
    total = sum(weights)
    return [w / total for w in weights] if total > 0 else fallback


def _over(numerator: float, denominator: float) -> float:
    if denominator == 0:
        return 0.0 if numerator == 0 else 1.0
    return min(1.0, numerator / denominator)


def _against(law: list[float], p: list[float]) -> Plan:
    residual = _norm([max(0.0, v - d) for v, d in zip(law, p, strict=True)], law)
    return [_over(v, d) for v, d in zip(law, p, strict=True)], residual


def _top(q: list[float], k: int) -> list[bool]:
    chosen = sorted(range(len(q)), key=lambda i: -q[i])[:k]
    return [i in chosen and q[i] > 0 for i in range(len(q))]


def _lenience(q: list[float], p: list[float], lenience: float) -> Plan:
    return [_over(a, lenience * b) for a, b in zip(q, p, strict=True)], _against(q, p)[1]


def _ensemble(q: list[float], p: list[float], target_weight: float) -> Plan:
    w = target_weight
    return _against([w * a + (1 - w) * b for a, b in zip(q, p, strict=True)], p)


def _typical(
    q: list[float], p: list[float], typical_epsilon: float = 0.09, typical_delta: float = 0.3
) -> Plan:
    entropy = -sum(a * math.log(a) for a in q if a > 0)
    bound = min(typical_epsilon, typical_delta * math.exp(-entropy))
    return [float(a > bound) for a in q], q


def _top_k(q: list[float], p: list[float], accept_top_k: int) -> Plan:
    among = _top(q, accept_top_k)
    weights = [max(0.0, a * m - b) for a, m, b in zip(q, among, p, strict=True)]
    return [float(m) for m in among], _norm(weights, q)


def _relaxed(q: list[float], p: list[float], relaxed_top_n: int, relaxed_delta: float) -> Plan:
    among = _top(q, relaxed_top_n)
    accept = [float(m and a >= max(q) - relaxed_delta) for a, m in zip(q, among, strict=True)]
    return accept, [float(m) for m in _top(q, 1)]


def _cascade(q: list[float], p: list[float], cascade_alpha: float) -> Plan:
    keep = [a >= (1 - cascade_alpha) * max(q) and a > 0 for a in q]
    outside = sum(b for b, k in zip(p, keep, strict=True) if not k)
    law = [b * k + outside * a for a, b, k in zip(q, p, keep, strict=True)]
    return _against(law, p)


DEFINITIONS: dict[str, Callable[..., Plan]] = {
    "exact": _against,
    "lenience": _lenience,
    "ensemble": _ensemble,
    "typical": _typical,
    "top_k": _top_k,
    "relaxed": _relaxed,
    "cascade": _cascade,
}
DEFINED = [(name, knobs) for name, knobs in EVERY if name in DEFINITIONS]


class TestDefinitions:
    """Each rule is its formula, written here once more with plain numbers, token by token."""

    @settings(derandomize=True, deadline=None, max_examples=200)
    @given(law_pairs(), st.sampled_from(DEFINED))
    def test_rule_equals_its_formula(
        self, pair: tuple[Tensor, Tensor], setting: tuple[str, dict[str, Any]]
    ) -> None:
        (name, knobs), (target, draft) = setting, pair
        accept, residual = rule_of(name, knobs).plan(target, draft)
        wanted, replaced = DEFINITIONS[name](target.tolist(), draft.tolist(), **knobs)
        for token, prob in enumerate(draft.tolist()):
            if prob > 0:
                assert abs(float(accept[token]) - wanted[token]) < EXACT
        if sum(p * (1 - r) for p, r in zip(draft.tolist(), wanted, strict=True)) > 1e-9:
            assert (residual - torch.tensor(replaced, dtype=torch.float64)).abs().max() < 1e-9

    @settings(derandomize=True, deadline=None, max_examples=100)
    @given(law_pairs(), st.sampled_from([0.0, 0.3, 0.5, 1.0]))
    def test_a_mixture_emits_the_mixture(self, pair: tuple[Tensor, Tensor], weight: float) -> None:
        """Case 43. π = w·q + (1−w)·p, and acceptance 1 − w·TV(p, q)."""
        target, draft = pair
        rule = rule_of("ensemble", {"target_weight": weight})
        accept, law = rule.outcome(target, draft)
        assert (law - weight * target - (1 - weight) * draft).abs().max() < EXACT
        distance = (target - draft).abs().sum() / 2
        assert abs(float(draft @ accept - (1 - weight * distance))) < EXACT

    @settings(derandomize=True, deadline=None, max_examples=100)
    @given(law_pairs(), st.sampled_from([0.0, 0.02, 0.3, 3.0]))
    def test_cactus_mean_residual_equals_its_definition(
        self, pair: tuple[Tensor, Tensor], delta: float
    ) -> None:
        """Each rejected x has a residual norm(max(0, h − p)) of its own, with h_x raised and the
        rest scaled; the emitted law is that of drawing from it."""
        target, draft = pair
        q, p = target.tolist(), draft.tolist()
        wanted = torch.zeros_like(target)
        for x in range(len(q)):
            raised = min(1.0, q[x] + math.sqrt(max(0.0, 2 * delta * q[x] * (1 - q[x]))))
            scale = (1 - raised) / (1 - q[x]) if q[x] < 1 else 0.0
            h = [raised if y == x else scale * q[y] for y in range(len(q))]
            kept = p[x] * _over(raised, p[x])
            wanted[x] += kept
            if p[x] - kept > 0:
                weights = [max(0.0, a - b) for a, b in zip(h, p, strict=True)]
                if sum(weights) > 0:
                    wanted += (p[x] - kept) * target.new_tensor(_norm(weights, q))
        law = rule_of("cactus", {"cactus_delta": delta}).output_law(target, draft)
        assert (law - wanted).abs().max() < EXACT

    @settings(derandomize=True, deadline=None, max_examples=60)
    @given(law_pairs())
    def test_exact_acceptance_is_the_overlap(self, pair: tuple[Tensor, Tensor]) -> None:
        """R = Σ min(p, q) = 1 − TV(p, q)."""
        target, draft = pair
        accept, law = rule_of("exact").outcome(target, draft)
        assert abs(float(draft @ accept - torch.minimum(target, draft).sum())) < EXACT
        assert (law == target).all()

    def test_a_rule_that_starves_a_target_token_spends_infinitely(self) -> None:
        """Facts: KL(q‖π) is infinite where a rule gives a token of the target no mass."""
        target = torch.tensor([0.6, 0.4], dtype=torch.float64)
        law = rule_of("relaxed").output_law(target, torch.tensor([1.0, 0.0], dtype=torch.float64))
        assert divergence(target, law, "kl") == math.inf

    def test_a_tiny_rejected_mass_is_not_lost(self) -> None:
        """What is left of 1 after Σ p·r is summed itself, not subtracted from 1: a token whose
        only mass is a residual of 1e-20 has it, and the divergence stays finite."""
        target = torch.tensor([1.0, 1e-20, 1e-30], dtype=torch.float64)
        draft = torch.tensor([1.0, 3e-20, 0.0], dtype=torch.float64)
        for name, knobs in (("cascade", {"cascade_alpha": 0.5}), ("top_k", {"accept_top_k": 1})):
            law = rule_of(name, knobs).output_law(target, draft)
            assert law[0] > 0.99
            assert abs(float(law.sum()) - 1) < EXACT
        assert divergence(target, rule_of("cascade").output_law(target, draft), "kl") < 1e-12


class TestMentored:
    @settings(derandomize=True, deadline=None, max_examples=60)
    @given(law_pairs(), st.sampled_from(DIVERGENCES), st.booleans())
    def test_budget_is_kept_and_buys_acceptance(
        self, pair: tuple[Tensor, Tensor], kind: str, keep: bool
    ) -> None:
        """Case 44. Divergence ≤ D; acceptance from the exact rule's upwards, monotone in D."""
        target, draft = pair
        before = float(torch.minimum(target, draft).sum())
        for budget in (0.0, 1e-3, 0.05, 0.3, 1.0, 5.0):
            knobs = {"divergence_budget": budget, "divergence": kind, "keep_support": keep}
            accept, law = rule_of("mentored", knobs).outcome(target, draft)
            assert divergence(target, law, kind) <= budget + EXACT
            acceptance = float(draft @ accept)
            assert acceptance >= before - 1e-9
            before = acceptance
            if keep:
                assert (law[target == 0] == 0).all()

    @settings(derandomize=True, deadline=None, max_examples=60)
    @given(law_pairs(), st.sampled_from([n for n in EVERY if n[0] not in ("exact", "block")]))
    def test_accepts_at_least_as_much_as_any_rule_of_the_same_divergence(
        self, pair: tuple[Tensor, Tensor], setting: tuple[str, dict[str, Any]]
    ) -> None:
        """It is the optimum: given the KL that another rule spent, it accepts no less."""
        target, draft = pair
        accept, law = rule_of(*setting).outcome(target, draft)
        spent = divergence(target, law, "kl")
        if not math.isfinite(spent):
            return
        knobs = {"divergence_budget": spent + 1e-9, "keep_support": False}
        best, _ = rule_of("mentored", knobs).outcome(target, draft)
        assert float(draft @ best) >= float(draft @ accept) - 1e-7

    @settings(derandomize=True, deadline=None, max_examples=60)
    @given(law_pairs())
    def test_budget_zero_is_the_exact_rule(self, pair: tuple[Tensor, Tensor]) -> None:
        for dtype in (torch.float64, torch.float32):
            laws_of = [law.to(dtype) for law in pair]
            plans = [
                rule_of(n, k).plan(*laws_of)
                for n, k in (("mentored", {"divergence_budget": 0}), ("exact", {}))
            ]
            assert all(torch.equal(a, b) for a, b in zip(*plans, strict=True))

    def test_the_same_uniform_number_serves_both_tests(self) -> None:
        """u < min(1, q/p) accepts without an optimum; else the same u is compared with r."""
        target = torch.tensor([0.2, 0.8], dtype=torch.float64)
        draft = torch.tensor([0.5, 0.5], dtype=torch.float64)
        rule = rule_of("mentored", {"divergence_budget": 0.05})
        accept = float(rule.plan(target, draft)[0][0])
        assert 0.4 < accept < 1.0
        for u, accepted, planned in (
            (0.3, True, None),
            (accept - 1e-6, True, accept),
            (accept + 1e-6, False, accept),
        ):
            verdict, used = verify_with(rule, [0], [draft], target.expand(2, -1), [u, 0.0])
            assert (verdict.num_accepted == 1) is accepted
            assert verdict.tested[0].accept_prob == planned
            assert verdict.tested[0].exact_accept_prob == pytest.approx(0.4)
            assert used == 2  # one for the test, one for the token that follows


class Scripted(Draws):
    """Draws whose uniform numbers are given."""

    def __init__(self, numbers: list[float]) -> None:
        super().__init__(0)
        self._numbers, self.used = numbers, 0

    def uniform(self) -> float:
        self.used += 1
        return self._numbers[self.used - 1]


def verify_with(
    rule: Any, ids: list[int], probs: list[Tensor], target: Tensor, numbers: list[float]
) -> tuple[Verdict, int]:
    """The verdict for given uniform numbers, and how many it took."""
    draws = Scripted(numbers)
    return rule.verify(Draft(ids, probs), target, draws, frozenset({9})), draws.used


def random_laws(count: int, size: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    rows = torch.rand(count, size, generator=generator, dtype=torch.float64) ** 2
    return rows / rows.sum(1, keepdim=True)


class TestVerify:
    @pytest.mark.parametrize("name", [name for name in VERIFIERS if name != "block"])
    def test_stops_at_the_first_rejection(self, name: str) -> None:
        """What lies behind it is drafted, not tested; the residual's token follows."""
        target, draft = torch.eye(3, dtype=torch.float64), torch.eye(3, dtype=torch.float64)
        rows = target[[0, 1, 2, 0]]
        probs = [draft[0], draft[0], draft[2]]
        verdict, used = verify_with(rule_of(name, None), [0, 0, 2], probs, rows, [0.5] * 9)
        assert [t.accepted for t in verdict.tested] == [True, False]
        assert (verdict.num_accepted, verdict.next_id, verdict.next_source) == (1, 1, "residual")
        assert used == 3

    @pytest.mark.parametrize("name", VERIFIERS)
    def test_a_bonus_follows_a_whole_draft(self, name: str) -> None:
        rows = torch.eye(3, dtype=torch.float64)[[0, 1, 2]]
        verdict, used = verify_with(rule_of(name), [0, 1], list(rows[:2]), rows, [0.5] * 9)
        assert (verdict.num_accepted, verdict.next_id, verdict.next_source) == (2, 2, "bonus")
        assert used == 3

    @pytest.mark.parametrize("name", VERIFIERS)
    def test_nothing_follows_an_accepted_end_token(self, name: str) -> None:
        """Case 28."""
        rows = torch.eye(10, dtype=torch.float64)[[0, 9, 2]]
        verdict, used = verify_with(rule_of(name), [0, 9], list(rows[:2]), rows, [0.5] * 9)
        assert (verdict.num_accepted, verdict.next_id, used) == (2, None, 2)

    @pytest.mark.parametrize("name", VERIFIERS)
    def test_an_empty_draft_is_a_plain_draw(self, name: str) -> None:
        rows = torch.eye(3, dtype=torch.float64)[[1]]
        verdict, used = verify_with(rule_of(name), [], [], rows, [0.5])
        assert (verdict.tested, verdict.num_accepted) == ([], 0)
        assert (verdict.next_id, verdict.next_source, used) == (1, "sampled", 1)

    @pytest.mark.parametrize("name", VERIFIERS)
    def test_nothing_follows_where_every_token_is_banned(self, name: str) -> None:
        rows = torch.tensor([[1.0, 0.0], [0.0, 0.0]])
        verdict, _ = verify_with(rule_of(name), [0], [rows[0]], rows, [0.5] * 3)
        assert (verdict.num_accepted, verdict.next_id) == (1, None)


class TestBlock:
    """Block verification's own promises (Sun et al. 2024)."""

    @staticmethod
    def _every_verdict(name: str, ids: list[int], drafts: Tensor, target: Tensor) -> Any:
        def play(chance: Chance) -> Verdict:
            return rule_of(name).verify(Draft(ids, list(drafts)), target, chance, frozenset())

        return list(every(play))

    @pytest.mark.parametrize("seed", range(6))
    def test_keeps_at_least_i_tokens_with_probability_w(self, seed: int) -> None:
        """P(at least i kept | the draft's first i tokens) = w_i = min(1, w_{i−1}·q_i/d_i),
        averaged over what is drafted after them."""
        size, count = 3, 3
        target, drafts = random_laws(count + 1, size, seed), random_laws(count, size, seed + 100)
        kept: dict[tuple[int, ...], float] = {}
        for ids in torch.cartesian_prod(*[torch.arange(size)] * count).tolist():
            chance_of = [float(drafts[i, token]) for i, token in enumerate(ids)]
            for weight, verdict in self._every_verdict("block", ids, drafts, target):
                for i in range(1, verdict.num_accepted + 1):
                    tail = math.prod(chance_of[i:])
                    key = tuple(ids[:i])
                    kept[key] = kept.get(key, 0.0) + weight * tail
        for ids, found in kept.items():
            wanted = 1.0
            for i, token in enumerate(ids):
                wanted = min(1.0, wanted * float(target[i, token] / drafts[i, token]))
            assert abs(found - wanted) < EXACT

    @pytest.mark.parametrize("seed", range(6))
    def test_accept_prob_is_that_of_a_tested_position(self, seed: int) -> None:
        """The trace's number: P(token i kept | the tokens before it are), given the draft up to
        it; the last position of the draft has nothing after it to average over."""
        target, drafts = random_laws(3, 3, seed), random_laws(2, 3, seed + 50)
        for ids in ([0, 1], [2, 2], [1, 0]):
            tested = accepted = 0.0
            claimed = None
            for weight, verdict in self._every_verdict("block", ids, drafts, target):
                if len(verdict.tested) == 2:
                    tested += weight
                    accepted += weight * verdict.tested[1].accepted
                    claimed = verdict.tested[1].accept_prob
                assert verdict.tested[0].accept_prob == verdict.tested[0].exact_accept_prob
                assert verdict.tested[0].u is None
            assert claimed is None or abs(accepted / tested - claimed) < EXACT

    @pytest.mark.parametrize("seed", range(8))
    def test_accepts_no_less_than_token_by_token(self, seed: int) -> None:
        """Expected accepted tokens over all drafts of four; more in nearly every case."""
        size, count = 3, 4
        target, drafts = random_laws(count + 1, size, seed), random_laws(count, size, seed + 100)
        means = {"exact": 0.0, "block": 0.0}
        for ids in torch.cartesian_prod(*[torch.arange(size)] * count).tolist():
            chance_of = math.prod(float(drafts[i, token]) for i, token in enumerate(ids))
            for name in means:
                for weight, verdict in self._every_verdict(name, ids, drafts, target):
                    means[name] += chance_of * weight * verdict.num_accepted
        assert means["block"] >= means["exact"] - EXACT
