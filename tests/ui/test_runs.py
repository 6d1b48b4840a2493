from __future__ import annotations

from typing import Any

import pytest

from playground.compare import DEFAULT_RUNS, default_runs
from playground.methods import METHODS, parse
from playground.ui.runs import (
    COMMON,
    OWN,
    Runs,
    own_fields,
    presets,
    proposers_of,
    shared_names,
    with_common,
)
from playground.ui.strings import ENGLISH, Words


def runs(**chosen: dict[str, Any]) -> Runs:
    return Runs.of(chosen or dict(DEFAULT_RUNS))


def test_no_parameter_is_both_common_and_a_run_s_own() -> None:
    assert not set(COMMON) & set(OWN)
    assert {"max_new_tokens", "temperature", "seed", "top_k", "stop"} <= set(COMMON)
    assert {"num_beams", "divergence_budget", "verifier", "lenience"} <= set(OWN)


def test_a_run_shows_only_the_settings_that_it_has() -> None:
    """Settings that a method ignores are not shown; a rule and a proposer bring in their own."""
    names = {f.name for f in own_fields({"method": "greedy"})}
    assert names == set()
    names = {f.name for f in own_fields({"method": "speculative", "verifier": "typical"})}
    assert {"typical_epsilon", "proposer", "num_draft_tokens"} <= names
    assert "divergence_budget" not in names


def test_common_settings_are_shown_where_a_run_has_them_or_fidelity_refers_to_them() -> None:
    assert {"temperature", "top_p", "seed"} <= shared_names({"a": {"method": "greedy"}})


def test_own_runs_are_ticked_and_the_page_s_offered_beside_them() -> None:
    found = runs(mine={"method": "beam"})
    assert found.ticked == ("mine",) and found.editing == "mine"
    assert list(found.known) == ["mine", *DEFAULT_RUNS]
    assert list(found.chosen()) == ["mine"]


def test_typed_values_go_to_the_edited_run_alone() -> None:
    found = runs().set({"divergence_budget": 0.7, "num_draft_tokens": 4, "num_beams": 9})
    assert found.known["mentored"]["divergence_budget"] == 0.7
    assert {k: found.known[k] for k in DEFAULT_RUNS if k != "mentored"} == {
        k: v for k, v in DEFAULT_RUNS.items() if k != "mentored"
    }


def test_another_rule_brings_its_own_settings_at_their_defaults() -> None:
    found = runs().edit("speculative").set({"verifier": "lenience", "lenience": 0.01})
    assert found.edited is not None
    assert found.edited["verifier"] == "lenience" and "lenience" not in found.edited
    again = found.set({"verifier": "lenience", "lenience": 0.25})
    assert again.edited is not None and again.edited["lenience"] == 0.25
    back = again.set({"verifier": "exact", "lenience": 0.25})
    assert back.edited is not None and "lenience" not in back.edited


def test_adding_and_duplicating_give_labels_of_their_own() -> None:
    found = runs().add("beam", {"method": "beam", "num_beams": 2}).duplicate().duplicate()
    assert list(found.known)[-3:] == ["beam 2", "beam 3", "beam 4"]
    assert found.editing == "beam 4" and set(found.known) == set(found.ticked)
    found.known["beam 4"]["num_beams"] = 7
    assert found.known["beam 3"]["num_beams"] == 2  # a copy, not the same record


def test_removing_and_renaming() -> None:
    found = runs().edit("greedy").remove()
    assert "greedy" not in found.known and found.editing in found.known
    named = runs().edit("beam").rename(" wide ")
    assert list(named.known)[2] == "wide" and named.ticked[2] == "wide"
    for bad in ("", "  ", "sample", "x" * 61):
        with pytest.raises(ValueError, match="runs: "):
            named.rename(bad)
    one = Runs({"a": {"method": "greedy"}}, ("a",), "a")
    assert one.remove() is one


def test_ticking_a_run_shows_its_settings() -> None:
    found = runs().tick(["sample", "greedy"])
    assert list(found.chosen()) == ["sample", "greedy"] and found.editing == "mentored"
    assert found.tick(["sample", "greedy", "beam"]).editing == "beam"


@pytest.mark.parametrize("say", [ENGLISH, Words("zh")])
def test_every_method_rule_and_proposer_can_be_added(say: Words) -> None:
    found = presets(say)
    for _, run in found.values():
        parse(run["method"], {k: v for k, v in run.items() if k != "method"})
    made = [run for _, run in found.values()]
    assert {run["method"] for run in made} == set(METHODS)
    assert {run.get("verifier") for run in made} >= {"block", "typical", "cactus"}
    assert {run.get("proposer") for run in made} >= {"prompt_lookup"}


def test_common_settings_join_the_runs_that_have_them() -> None:
    joined = with_common({"g": {"method": "greedy"}}, {"max_new_tokens": 5, "temperature": 2.0})
    assert joined == {"g": {"method": "greedy", "max_new_tokens": 5}}


def test_another_pair_gets_what_suits_it_and_own_settings_stay() -> None:
    """The page's own runs follow the pair; a proposer that the new pair lacks is given up."""
    chat, other = default_runs("chat"), default_runs("t5-large")
    assert chat["mentored"]["proposer"] == "feature" and "proposer" not in other["mentored"]
    mine = {"method": "mentored", "divergence_budget": 0.9, "proposer": "feature"}
    drafted = {"method": "speculative", "num_draft_tokens": 7}
    found = Runs.of({**chat, "mine": mine, "drafted": drafted}).suit("t5-large")
    assert {label: found.known[label] for label in other} == other
    assert found.known["mine"] == {"method": "mentored", "divergence_budget": 0.9}
    assert found.known["drafted"] == drafted
    assert Runs.of(chat).suit("translate").known == default_runs("translate")
    assert Runs.of(chat).suit("translate").suit("chat").known == chat


def test_only_proposers_that_a_pair_has_are_offered() -> None:
    assert proposers_of("chat") == ["draft_model", "prompt_lookup", "feature"]
    assert proposers_of("translate") == ["draft_model", "prompt_lookup", "feature"]
    assert proposers_of("t5-large") == ["draft_model", "prompt_lookup"]
    names = presets(ENGLISH, proposers_of("t5-large"))
    offered = {run.get("proposer") for _, run in names.values()}
    assert "prompt_lookup" in offered and "feature" not in offered
