"""playground/frontier_chart.py: what a sweep's figure shows."""

from __future__ import annotations

from typing import Any

import pytest

from playground.frontier_chart import frontier


def record(
    label: str, method: str, speed: float, bleu: float | None, **more: Any
) -> dict[str, Any]:
    spread = {"tokens_per_s_low": speed - 1, "tokens_per_s_high": speed + 2}
    spread |= {} if bleu is None else {"bleu_low": bleu - 0.5, "bleu_high": bleu + 0.25}
    plain = {"label": label, "method": method, "model": "target", "params": {}}
    return plain | {"tokens_per_s": speed, "bleu": bleu} | spread | more


RECORDS = [
    record("sample", "sample", 10, 30),
    record("speculative γ 3", "speculative", 15, 30, params={"num_draft_tokens": 3}),
    record("speculative γ 5", "speculative", 14, 30, params={"num_draft_tokens": 5}),
    record(
        "mentored γ 3 D 0.2",
        "mentored",
        20,
        29,
        params={"num_draft_tokens": 3, "divergence_budget": 0.2},
    ),
    record("draft alone", "sample", 40, 12, model="draft"),
    record("<b>", "greedy", 11, None),
]


def test_draft_lengths_are_joined_and_intervals_drawn() -> None:
    traces = {trace.name: trace for trace in frontier(RECORDS).data}
    names = ["Pareto front", "sample", "speculative", "mentored γ 3 D 0.2", "draft alone"]
    assert list(traces) == names
    line = traces["speculative"]
    assert (list(line.x), list(line.text)) == ([15, 14], ["γ 3", "γ 5"]) and "lines" in line.mode
    assert list(line.error_x.array) == [2, 2] and list(line.error_y.arrayminus) == [0.5, 0.5]
    assert list(traces["Pareto front"].x) == [15, 20, 40]
    assert traces["sample"].marker.color != traces["draft alone"].marker.color


def test_the_knob_of_a_rule_makes_a_line_that_is_named_at_its_end() -> None:
    def rule(name: str, knob: str, values: tuple[float, ...]) -> list[dict[str, Any]]:
        return [
            record(f"{name} {v:g}", "speculative", 10 + v, 20, params={"verifier": name, knob: v})
            for v in values
        ]

    budgets = [
        record(f"mentored D {d:g}", "mentored", 20 + d, 19, params={"divergence_budget": d})
        for d in (0.1, 0.2, 0.4, 0.8, 1.6)
    ]
    found = [*rule("lenience", "lenience", (0.8, 0.6, 0.4, 0.2)), *budgets]
    found += rule("top_k", "accept_top_k", (2, 3, 5, 10))
    traces = {trace.name: trace for trace in frontier(found).data}
    assert {"lenience", "mentored", "top_k"} <= set(traces)
    assert len({trace.line.color for trace in traces.values()}) == len(traces)
    assert list(traces["lenience"].text) == ["", "", "", "lenience 0.2"]
    assert list(traces["mentored"].text) == ["", "", "", "", "mentored D 1.6"]


def test_where_there_are_many_marks_only_those_on_the_front_have_bars() -> None:
    many = [
        record(f"speculative γ {n}", "speculative", 30 - n, 30 - n, params={"num_draft_tokens": n})
        for n in range(1, 15)
    ]
    (line,) = frontier(many).data
    assert list(line.error_y.array) == [0.25] + [0] * 13
    assert "BLEU: 16.0 [15.5, 16.2]" in line.hovertext[-1]


def test_a_draft_that_is_much_faster_does_not_squeeze_the_others() -> None:
    far = record("draft alone", "sample", 400, 12, model="draft")
    figure = frontier([*RECORDS[:4], far])
    assert list(figure.layout.xaxis.range) == [0, 30]
    assert figure.layout.annotations[0].text == "draft alone: 400 →"
    near = record("draft alone", "sample", 28, 12, model="draft")
    assert not frontier([*RECORDS[:4], near]).layout.annotations


def test_shares_are_in_percent_with_their_intervals() -> None:
    one = record("a", "mentored", 10, None, fidelity=0.9, fidelity_low=0.8, fidelity_high=0.95)
    (trace,) = frontier([one], y="fidelity").data
    assert trace.y[0] == 90 and trace.error_y.arrayminus[0] == pytest.approx(10)


def test_unknown_axes_are_refused() -> None:
    with pytest.raises(ValueError, match="^y: 'nothing'"):
        frontier(RECORDS, y="nothing")
