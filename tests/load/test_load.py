"""The short form of the load test, and what its measure of fairness counts."""

from __future__ import annotations

import pytest

from tests.load.crowd import Visit, overtaken, run


@pytest.mark.slow
def test_everybody_in_a_crowd_gets_their_own_answer_in_turn(page_url: str, page_pid: int) -> None:
    """Cases 38, 62 and 67: the ids are those of the same request alone, nobody is overtaken or
    turned away, places in the queue are shown."""
    report = run(page_url, page_pid, clients=8, seconds=10)
    print(report.to_json())
    assert report.answers > 8 and report.wrong == report.refused == report.overtaken == 0
    assert report.places_shown == report.answers


def test_only_a_request_that_another_passed_counts_as_overtaken() -> None:
    first = Visit(asked=0.0, queued=0.1, begun=5.0, ended=6.0, right=True, rank=0)
    passed = Visit(asked=1.0, queued=1.1, begun=2.0, ended=3.0, right=True, rank=0)
    together = Visit(asked=0.05, queued=0.1, begun=2.0, ended=3.0, right=True, rank=0)
    after = Visit(asked=1.0, queued=1.1, begun=6.0, ended=7.0, right=True, rank=1)
    assert overtaken([first, passed]) == 1
    assert overtaken([first, together, after]) == 0
