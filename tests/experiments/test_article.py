"""The article's figures beside ours, on made-up rows; and its experiment as it would run."""

from __future__ import annotations

import json
import shlex
import sys
import types
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import T5Config, T5ForConditionalGeneration

from assets.recipes import experiments as recipe
from assets.recipes.experiments import EXPERIMENTS, run
from playground import cli, experiments
from playground.experiments.article import claims, ordering
from playground.quality import Interval
from tests.experiments.rows import row
from tests.test_api_contract import byte_level_tokenizer

ANSWERS = {str(i): "one two three four five six" for i in range(12)}
WORSE = "one two three four five 6"


def rows(lossy_text: str = WORSE, lossy_s: float = 0.5) -> list[dict[str, Any]]:
    """Speculative decoding 1.6× sampling, mentored decoding at two budgets and two γ."""
    made = []
    for prompt, answer in ANSWERS.items():
        made.append(row("sample", prompt, "sample", text=answer, total_s=1.6))
        made.append(row("alone", prompt, "sample", model="draft", text=answer, total_s=0.1))
        for length, seconds in ((3, 1.0), (5, 1.2)):
            settings: dict[str, Any] = {"num_draft_tokens": length}
            name = f"speculative {length}"
            made.append(row(name, prompt, "speculative", settings, text=answer, total_s=seconds))
            for budget in (0.15, 0.2):
                settings = settings | {"divergence_budget": budget}
                text = lossy_text if budget == 0.2 else answer
                name = f"mentored {length} {budget}"
                seconds = lossy_s * (1.0 if length == 5 else 2.0)
                made.append(row(name, prompt, "mentored", settings, text=text, total_s=seconds))
    return made


def test_the_fastest_draft_lengths_are_compared() -> None:
    found = {(c.name, c.budget): c for c in claims(rows(), ANSWERS)}
    speculative = found["speculative_gain", None]
    assert speculative.label == "speculative 3" and speculative.ours is not None
    assert speculative.ours.value == pytest.approx(1.6) and speculative.ordering == "agrees"
    assert speculative.article == pytest.approx(1.48, abs=0.005)
    gain, speedup = found["mentored_gain", None], found["mentored_speedup", None]
    assert gain.ours and gain.ours.value == pytest.approx(2.0) and gain.ordering == "agrees"
    assert gain.article == pytest.approx(1.12, abs=0.005)
    assert speedup.ours and speedup.ours.value == pytest.approx(3.2)
    assert speedup.article == pytest.approx(1.66, abs=0.005)


def test_bleu_is_pooled_over_draft_lengths_and_paired() -> None:
    found = {(c.name, c.budget): c for c in claims(rows(), ANSWERS)}
    none, some = found["bleu_change", 0.15], found["bleu_change", 0.2]
    assert none.ours and none.ordering == "open"
    assert none.ours.value == 0 == pytest.approx(none.ours.low, abs=1e-9)
    assert some.ours and some.ours.high < 0 and some.ordering == "agrees"
    assert some.ours.value == pytest.approx(some.ours.low) and some.article == -0.006
    order = found["bleu_order", 0.2]
    assert (
        order.ours
        and order.ours.value == pytest.approx(some.ours.value)
        and order.ordering == "agrees"
    )


def test_what_differs_is_said() -> None:
    slow = {c.name: c for c in claims(rows(lossy_s=2.0), ANSWERS)}
    assert slow["mentored_gain"].ordering == slow["mentored_speedup"].ordering == "differs"
    assert ordering(1.1, Interval(1.0, 0.9, 1.2), 1.0) == "open" == ordering(1.1, None, 1.0)


def test_a_sweep_without_some_of_it_leaves_claims_open() -> None:
    some = [r for r in rows() if r["method"] != "mentored" and r["model"] == "target"]
    found = {c.name: c for c in claims(some, ANSWERS)}
    assert found["speculative_gain"].ordering == "agrees"
    assert found["mentored_gain"].ours is None is found["bleu_change"].ours


# --- with T5 and WMT15 ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Options that name folders of two tiny T5, as those of the Hub are laid out."""
    root = tmp_path_factory.mktemp("t5")
    size: dict[str, Any] = dict(
        vocab_size=64, d_model=16, d_kv=8, d_ff=32, num_heads=2, decoder_start_token_id=0
    )
    for role, layers in (("target", 3), ("draft", 1)):
        torch.manual_seed(layers)
        T5ForConditionalGeneration(
            T5Config(**size, num_layers=layers, eos_token_id=63, pad_token_id=0)
        ).save_pretrained(root / role)
        byte_level_tokenizer().save_pretrained(root / role)
    pair = ["--pair", str(root / "target"), "--draft", str(root / "draft")]
    return [*pair, "--precision", "fp32", "--max-new-tokens", "6"]


WMT = [{"translation": {"en": f"hello {i}", "fr": f"bonjour {i}"}} for i in range(4)]


def test_the_articles_own_experiment_runs_on_local_folders(
    t5: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The very command, but for the models' folders and a package that hands out the set."""
    asked: list[tuple[str, str | None, str]] = []

    def from_hub(name: str, config: str | None, split: str) -> list[dict[str, Any]]:
        asked.append((name, config, split))
        return WMT

    package = types.ModuleType("datasets")
    package.load_dataset = from_hub  # type: ignore[attr-defined]
    package.__spec__ = ModuleSpec("datasets", None)
    monkeypatch.setitem(sys.modules, "datasets", package)
    monkeypatch.setattr(recipe, "subprocess", types.SimpleNamespace(run=in_process))
    run("article-hub", tmp_path, [*t5, "--limit", "2", "--draft-lengths", "3,5"])
    assert set(asked) == {("wmt/wmt15", "fr-en", "validation[:1000]")}
    check(tmp_path)


def test_and_on_a_local_file_of_the_same_form(
    t5: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "wmt.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in WMT))
    monkeypatch.setattr(recipe, "subprocess", types.SimpleNamespace(run=in_process))
    options = ["--pair", "t5-large", "--dataset", str(path), "--draft-lengths", "3", *t5]
    columns = ["--prompt-column", "translation.en", "--reference-column", "translation.fr"]
    template = ["--template", "translate English to French: {prompt}", "--limit", "2"]
    run("article", tmp_path / "out", [*options, *columns, *template])
    check(tmp_path / "out")


def in_process(command: list[str], check: bool) -> None:
    """What a subprocess would do, on this process's modules."""
    assert command[1:3] == ["-m", "playground"] and check
    assert cli.main(command[3:]) == 0


def check(folder: Path) -> None:
    """What ships of an experiment, and no more; its findings open."""
    names = {"findings.json", "rows.jsonl.gz", "run.json", "summary.csv"}
    assert {path.name for path in folder.iterdir()} == names
    found = experiments.read(json.loads((folder / "findings.json").read_text()))
    assert found["provisional"] and found["num_prompts"] == 2
    assert len(found["claims"]) == 6


def test_every_experiment_is_a_sweep_that_can_be_asked_for() -> None:
    for name, one in EXPERIMENTS.items():
        options = ["sweep", *shlex.split(one.options), "--out", "nowhere"]
        args = cli.parser().parse_args(options)
        assert args.out == "nowhere", name
