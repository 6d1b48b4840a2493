from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playground.ui.setup import LESSONS, TABS, Setup, from_query, from_record, to_query, to_record

TEXT = st.text(
    st.characters(exclude_categories=("Cs",), exclude_characters="\\"), min_size=1, max_size=40
).filter(str.strip)
RUN = st.one_of(
    st.just({"method": "greedy"}),
    st.builds(lambda w: {"method": "beam", "num_beams": w}, st.integers(1, 64)),
    st.builds(
        lambda d, k: {"method": "mentored", "divergence_budget": d, "keep_support": k},
        st.floats(0, 100).map(lambda d: round(d, 6)),
        st.booleans(),
    ),
    st.just({"method": "speculative", "verifier": "typical", "typical_epsilon": 0.2}),
    st.just({"method": "beam", "early_stopping": "never"}),
)
SETUPS = st.builds(
    lambda prompt, runs, common, repeats, raw, reference, tab, lesson: Setup(
        prompt,
        "chat",
        runs,
        common,
        repeats,
        raw,
        reference,
        next(iter(runs)),
        tab,
        "speedup",
        lesson=lesson,
    ),
    TEXT,
    st.dictionaries(TEXT.map(lambda t: t.strip().replace("=", ":")), RUN, min_size=1, max_size=8),
    st.fixed_dictionaries(
        {
            "max_new_tokens": st.integers(1, 512),
            "temperature": st.floats(0, 10).map(lambda t: round(t, 6)),
            "seed": st.none() | st.integers(0, 2**31),
        },
        optional={"stop": st.lists(TEXT, min_size=1, max_size=3), "top_k": st.integers(1, 99)},
    ),
    st.integers(1, 10),
    st.booleans(),
    st.just("") | TEXT,
    st.sampled_from(TABS),
    st.sampled_from(LESSONS),
)


@settings(max_examples=60, deadline=None)
@given(SETUPS)
def test_a_link_restores_the_whole_setup(setup: Setup) -> None:
    """Case 64."""
    found = from_query("?" + to_query(setup, "zh"))
    assert found == setup and list(found.runs) == list(setup.runs)


@settings(max_examples=20, deadline=None)
@given(SETUPS)
def test_a_trace_restores_the_whole_setup(setup: Setup) -> None:
    assert from_record(to_record(setup), "x") == setup


def test_a_link_is_readable() -> None:
    setup = Setup(
        "Why?",
        runs={"D0.5": {"method": "mentored", "divergence_budget": 0.5}},
        common={"max_new_tokens": 64, "temperature": 0.7, "seed": 0, "top_p": 1.0},
    )
    assert to_query(setup, "en").replace("%2C", ",").replace("%3D", "=") == (
        "lang=en&prompt=Why%3F&pair=chat&max_new_tokens=64&temperature=0.7&seed=0"
        "&runs=D0.5=mentored,divergence_budget=0.5"
    )


def test_what_a_link_does_not_say_is_as_on_a_fresh_page() -> None:
    assert from_query("") == Setup()
    assert from_query("?embed=1&run=1&lang=zh&__theme=dark&tab=lab") == Setup(tab="lab")
    assert from_query("prompt=Hi", "other").pair == "other"
    assert from_query("tab=learn&lesson=cost") == Setup(tab="learn", lesson="cost")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("temperature=hot", "temperature: 'hot' is not allowed"),
        ("temperature=99", "temperature: 99.0 is not allowed; use a number from 0.0 to 10.0"),
        ("runs=a=nope", "method: 'nope' is not allowed"),
        ("runs=a=beam,num_beams=9999", "num_beams: 9999 is not allowed"),
        ("runs=a=beam&runs=a=greedy", "run: 'a' is not allowed"),
        ("&".join(f"runs=r{i}=greedy" for i in range(30)), "runs: '30 runs' is not allowed"),
        ("pair=/etc/passwd", "pair: '/etc/passwd' is not allowed"),
        ("tab=<b>", "tab: '<b>' is not allowed"),
        ("lesson=nope", "lesson: 'nope' is not allowed"),
        ("x=prompt", "x: 'prompt' is not allowed"),
        ("repeats=1000", "repeats: '1000' is not allowed"),
        ("raw=maybe", "raw: 'maybe' is not allowed"),
        ("nonsense=1", "link: 'nonsense' is not allowed"),
        ("prompt=%ff", "link: "),
        ("prompt=" + "x" * 200_000, "link: "),
    ],
)
def test_a_corrupt_link_is_refused_in_one_line(query: str, message: str) -> None:
    """Case 64."""
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        from_query(query)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    "record",
    [{}, {"runs": 5}, {"runs": {"a": {}}}, {"common": {"seed": {}}}, {"tab": [1], "prompt": 3}],
)
def test_a_trace_without_a_sound_setup_gives_a_fresh_one(record: dict[str, Any]) -> None:
    """Case 79."""
    assert from_record(record, "The prompt") == Setup(prompt="The prompt")


def test_the_command_line_s_syntax_is_the_link_s() -> None:
    run = quote_plus("a\\, b=speculative,num-draft-tokens=2")
    assert from_query(f"runs={run}").runs == {
        "a, b": {"method": "speculative", "num_draft_tokens": 2}
    }
