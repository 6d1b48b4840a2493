from __future__ import annotations

import re
from typing import Any

import pytest

from playground.results import Result, open_shipped, shipped
from playground.ui.findings import findings_html
from playground.ui.frontier import (
    axes_of,
    command_html,
    figure,
    label_of,
    note_html,
    paired,
    paired_html,
    record_html,
    table_html,
)
from playground.ui.strings import ENGLISH, Words
from playground.ui.sweep_form import UPLOADED, Values, values_of
from playground.ui.worker import PageSettings

EVIL = "<img src=x onerror=alert(1)>"
SPREAD: dict[str, Any] = {"faster": 1.2, "faster_low": 1.1, "faster_high": 1.3}
LOSS: dict[str, Any] = {"bleu_change": -0.5, "bleu_change_low": -0.9, "bleu_change_high": -0.1}


def record(label: str, method: str = "mentored", **values: Any) -> dict[str, Any]:
    own = {"tokens_per_s": 10.0, "fidelity": 1.0, "baseline": "sample", "on_front": True}
    more = {"params": {"temperature": 0.3}, "model": "target", "num_prompts": 3}
    return {"label": label, "method": method, **own, **more, **values}


def result() -> Result:
    records = [record("sample", "sample"), record("mentored γ 3", **SPREAD, **LOSS, bleu=20.0)]
    made = {"sweep": {"precision": "bf16", "seed": 4}, "visits": [{"pair": "chat"}]}
    return Result("", records, made)


def test_a_comparison_is_one_sentence_with_signs_in_words() -> None:
    found = paired(result().records[1], ENGLISH)
    expected = "Mentored γ 3: faster by 1.20× [1.10, 1.30], BLEU lower by 0.500 [0.100, 0.900]."
    assert found == expected
    assert "BLEU 低 0.500 [0.100, 0.900]" in paired(result().records[1], Words("zh"))


def test_only_the_front_is_compared_and_never_with_itself() -> None:
    found = paired_html(result().records, ENGLISH)
    assert found.count("<li>") == 1 and "against Sample" in found
    assert paired_html([], ENGLISH) == ""


def test_a_table_shows_intervals_and_only_columns_with_values() -> None:
    found = table_html(result().records, ENGLISH)
    assert "<td>1.20×<small>1.10 – 1.30</small></td>" in found
    assert "BLEU" in found and "chrF" not in found and "KL spent" not in found


def test_axes_are_those_with_values_and_bleu_comes_first() -> None:
    assert axes_of(result()) == (["tokens_per_s"], ["bleu", "fidelity"])
    assert figure(result(), "tokens_per_s", "bleu", Words("zh")).data


@pytest.mark.parametrize("say", [ENGLISH, Words("zh")])
def test_what_comes_from_outside_is_escaped(say: Words) -> None:
    made = {"sweep": {"seed": EVIL}, "visits": [{"pair": EVIL}], "signatures": {"bleu": EVIL}}
    found = Result(EVIL, [record(EVIL)], made)
    parts = [table_html(found.records, say), note_html(found, say), record_html(found, say)]
    assert "<img" not in "".join([*parts, command_html(EVIL, say, "x")])


def test_labels_are_in_the_page_s_language() -> None:
    assert label_of(record("mentored γ 3 D 0.1"), Words("zh")) == "导师解码 γ 3 D 0.1"
    assert label_of(record("draft alone", "sample", model="draft"), ENGLISH) == "Draft alone"
    assert label_of(record("my own"), ENGLISH) == "my own"
    top_k = {"verifier": "top_k", "accept_top_k": 2}
    label = "speculative top_k accept top k 2"
    assert label_of(record(label, "speculative", params=top_k), ENGLISH) == "Top-k 2"


@pytest.mark.parametrize("say", [ENGLISH, Words("zh")])
def test_every_shipped_result_is_told_in_both_languages(say: Words) -> None:
    for name in shipped():
        assert say.known(f"result.{name}", "") and say.known(f"result.{name}.note", "")
        found = open_shipped(name)
        (x, *_), (y, *_) = axes_of(found)
        assert table_html(found.records, say) and figure(found, x, y, say).data
        assert not re.search(r"\{\w+\}", findings_html(name, say))


# --- the form -------------------------------------------------------------------------------------


def test_the_form_s_command_is_the_sweep_that_it_runs() -> None:
    values = Values(methods=["mentored"], lengths="3, 5", vary="top_p=0.9,0.8", draft_alone=True)
    command = values.command(None, "results/own")
    assert "--draft-lengths 3,5 --budgets 0.1,0.2 --vary top_p=0.9,0.8 --draft-alone" in command
    assert len(values.runs()) == 2 * 2 * 2 + 1


def test_lists_that_no_method_has_are_left_out() -> None:
    assert list(Values(methods=["sample"]).runs()) == ["sample"]


def test_the_form_takes_over_a_result_s_grid() -> None:
    start = Values(methods=["sample", "mentored"], lengths="3,5", budgets="0.2", temperature=0.5)
    asked = start.request(None, PageSettings(), "x")
    configs = [{"method": c.method, "model": c.model, "params": c.params} for c in asked.configs]
    visits = [{"pair": "translate", "dataset": "verses"}]
    made = {"sweep": {"seed": 0}, "configurations": configs, "visits": visits}
    assert values_of(Result("x", [], made), PageSettings()) == start


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (Values(methods=[]), "^methods: "),
        (Values(dataset=UPLOADED), "^dataset: no file is open"),
        (Values(limit=None), ""),
        (Values(limit=2.5), "^limit: "),
        (Values(lengths="3,x"), "^num_draft_tokens: 'x'"),
        (Values(vary="nothing"), "^vary: "),
        (Values(seed=None), "^seed: "),
        (Values(max_new_tokens=None), "^max_new_tokens: "),
    ],
)
def test_a_form_filled_in_badly_is_refused_by_name(values: Values, words: str) -> None:
    if not words:
        return
    with pytest.raises(ValueError, match=words):
        values.request(None, PageSettings(), "x")
