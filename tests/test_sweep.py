"""playground/sweep: what a grid is, and what its rows add up to."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import playground as pg
from playground import cli
from playground.datasets import load_dataset
from playground.report import changes
from playground.session import decode
from playground.sweep import Report, Request, sweep
from playground.sweep.draft_alone import target_logprob
from playground.sweep.grid import configurations, grid, seed_of
from playground.sweep.summary import summarise
from playground.sweep.team import Team
from playground.types import to_json
from tests.test_api_contract import byte_level_tokenizer, target_and_draft

COMMON = {"max_new_tokens": 10, "temperature": 0.8}
TIMED = re.compile(r"_s$|per_s|ms_per|draft_cost|speedup")  # differs from run to run


@pytest.fixture(scope="module")
def pair() -> pg.ModelPair:
    return pg.ModelPair(*target_and_draft(), tokenizer=byte_level_tokenizer(), name="tiny")


@pytest.fixture(scope="module")
def prompts(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("data") / "p.jsonl"
    words = ("abc de", "hello world", "some text here", "another one", "zz top")
    rows = [{"prompt": w, "reference": w[::-1], "kind": w[0]} for w in words]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def request(prompts: str, out: Path, limit: int | None = None, seed: int = 0) -> Request:
    """Sampling, two draft lengths of two methods, and the draft alone."""
    runs = grid(["sample", "speculative", "mentored"], {"num_draft_tokens": [2, 3]}, True)
    configs, law = configurations(runs, COMMON)
    return Request(load_dataset(prompts, limit=limit, seed=seed), configs, out, seed, law)


def run(pair: pg.ModelPair, asked: Request, **options: Any) -> Report | None:
    """The report of a sweep, where this process makes one."""
    *_, last = sweep(pair, asked, **options)
    return last if isinstance(last, Report) else None


def rows(folder: Path) -> list[dict[str, Any]]:
    """Rows without what a clock says."""
    lines = (folder / "rows.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(x).items() if not TIMED.search(k)} for x in lines]


@pytest.fixture(scope="module")
def finished(pair: pg.ModelPair, prompts: str, tmp_path_factory: pytest.TempPathFactory) -> Report:
    found = run(pair, request(prompts, tmp_path_factory.mktemp("sweep")))
    assert found is not None
    return found


# --- the grid -------------------------------------------------------------------------------------


def test_a_grid_is_every_combination_that_a_method_has() -> None:
    varied = {"num_draft_tokens": [3, 5], "divergence_budget": [0.1, 0.2]}
    assert list(grid(["sample", "speculative", "mentored"], varied, draft_alone=True)) == [
        "sample",
        "speculative γ 3",
        "speculative γ 5",
        "mentored γ 3 D 0.1",
        "mentored γ 3 D 0.2",
        "mentored γ 5 D 0.1",
        "mentored γ 5 D 0.2",
        "draft alone",
    ]


def test_a_rule_brings_its_own_knob_into_the_grid() -> None:
    lenience = {"lenience": [0.8, 0.6]}
    runs = grid(["speculative"], {**lenience, "verifier": ["exact", "lenience"]})
    assert list(runs) == [
        "speculative exact",
        "speculative lenience 0.8",
        "speculative lenience 0.6",
    ]


@pytest.mark.parametrize(
    ("methods", "varied", "words"),
    [
        (["sample"], {"num_draft_tokens": [3]}, "num_draft_tokens: .* a method that has it"),
        (["speculative"], {"num_draft_tokens": [3, 3]}, "every method and value once"),
        (["sample", "sample"], {}, "every method and value once"),
        (["nothing"], {"num_draft_tokens": [3]}, "method: 'nothing'"),
        (["speculative"], {"num_draft_tokens": []}, "at least one value"),
    ],
)
def test_a_senseless_grid_is_refused(
    methods: list[str], varied: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        grid(methods, varied)


def test_configurations_are_known_by_what_they_do() -> None:
    runs = {"a": {"method": "mentored"}, "b": {"method": "sample", "model": "draft"}}
    (one, other), law = configurations(runs, {"temperature": 0.5})
    assert (one.badge, other.badge, other.model, law) == (
        "lossy",
        "lossy",
        "draft",
        {"temperature": 0.5},
    )
    (same,), _ = configurations(
        {"x": {"method": "mentored", "divergence_budget": 0.2}}, {"temperature": 0.5}
    )
    assert same.key == one.key  # 0.2 is the default
    (changed,), _ = configurations({"a": {"method": "mentored"}}, {"temperature": 0.6})
    assert changed.key != one.key
    twice = {"a": {"method": "mentored"}, "b": {"method": "mentored", "divergence_budget": 0.2}}
    for bad, words in (
        (twice, "runs: 'b' .* differ from those of 'a'"),
        ({"a": {"method": "sample", "seed": 1}}, "seed: 1"),
        ({"a": {"method": "sample", "model": "both"}}, "model: 'both'"),
        ({"a": {"method": "sample", "model": "draft", "gamma": 1}}, "gamma"),
    ):
        with pytest.raises(ValueError, match=words):
            configurations(bad, {})
    with pytest.raises(ValueError, match="model: 'draft' .* no draft model"):
        configurations({"a": {"method": "sample", "model": "draft"}}, {}, has_draft=False)


def test_a_seed_depends_on_sweep_and_prompt_alone() -> None:
    assert seed_of(0, "1") == seed_of(0, "1") < 2**63
    assert len({seed_of(0, "1"), seed_of(1, "1"), seed_of(0, "2"), seed_of(10, "")}) == 4


# --- rows -----------------------------------------------------------------------------------------


def test_a_row_is_the_run_that_decode_makes(pair: pg.ModelPair, finished: Report) -> None:
    for row in rows(finished.folder)[:5]:
        prompt = ("abc de", "hello world", "some text here", "another one", "zz top")
        found = decode(
            pair,
            prompt[int(row["prompt_id"]) - 1],
            row["method"],
            seed=row["seed"],
            **row["params"],
        )
        assert row["text"] == found.text and row["seed"] == seed_of(0, row["prompt_id"])
        metrics = to_json(found.metrics)
        assert {k: v for k, v in row.items() if k in metrics}.items() <= metrics.items()


def test_every_configuration_meets_every_prompt_once(finished: Report) -> None:
    made = rows(finished.folder)
    assert len(made) == 30 == len({(r["label"], r["prompt_id"]) for r in made})
    assert {r["kind"] for r in made} == {"a", "h", "s", "z"}
    by_prompt = [r["prompt_id"] for r in made]
    assert by_prompt == sorted(by_prompt, key=by_prompt.index)  # prompt by prompt


def test_the_draft_alone_is_judged_by_the_target(pair: pg.ModelPair, finished: Report) -> None:
    row = next(r for r in rows(finished.folder) if r["model"] == "draft")
    assert row["num_target_passes"] == 0 and row["num_draft_passes"] == row["num_new_tokens"]
    assert row["fidelity"] is None and row["tokens_per_target_pass"] is None
    target, draft = target_and_draft()
    alone = pg.ModelPair(draft, tokenizer=byte_level_tokenizer())
    words = ("abc de", "hello world", "some text here", "another one", "zz top")
    prompt = words[int(row["prompt_id"]) - 1]
    found = decode(alone, prompt, "sample", seed=row["seed"], **row["params"])
    assert row["text"] == found.text
    ids = torch.tensor([found.prompt_ids + found.token_ids])
    with torch.inference_mode():
        laws = target(ids).logits[0].log_softmax(-1)
    start = len(found.prompt_ids)
    expected = [float(laws[start + i - 1, t]) for i, t in enumerate(found.token_ids)]
    assert row["target_logprob"] == pytest.approx(sum(expected) / len(expected), abs=1e-5)
    assert target_logprob(pair, found.prompt_ids, []) is None


def test_rows_do_not_depend_on_order_or_number_of_processes(
    pair: pg.ModelPair, prompts: str, finished: Report, tmp_path: Path
) -> None:
    asked = request(prompts, tmp_path)
    assert run(pair, asked, team=Team(rank=1, num_processes=2)) is None
    assert (tmp_path / "rows-1.jsonl").exists()
    assert run(pair, asked, team=Team(rank=0, num_processes=2)) is not None
    assert sorted(p.name for p in tmp_path.glob("rows*")) == ["rows.jsonl"]
    assert rows(tmp_path) == rows(finished.folder)


def test_a_larger_limit_and_grid_add_to_what_is_there(
    pair: pg.ModelPair, prompts: str, finished: Report, tmp_path: Path
) -> None:
    run(pair, request(prompts, tmp_path, limit=2))
    before = (tmp_path / "rows.jsonl").read_bytes()
    run(pair, request(prompts, tmp_path))
    assert (tmp_path / "rows.jsonl").read_bytes().startswith(before)
    assert rows(tmp_path) == rows(finished.folder)
    run(pair, request(prompts, tmp_path))  # nothing left to do
    assert rows(tmp_path) == rows(finished.folder)
    assert len(json.loads((tmp_path / "run.json").read_text())["visits"]) == 3


def test_a_cancelled_sweep_keeps_whole_rows_only(
    pair: pg.ModelPair, prompts: str, finished: Report, tmp_path: Path
) -> None:
    asked, done = request(prompts, tmp_path), [0]
    for event in sweep(pair, asked, cancelled=lambda: done[-1] >= 8):
        done.append(getattr(event, "done", done[-1]))
    assert done[-1] == 8 == len(rows(tmp_path))
    assert isinstance(event, Report)
    assert {r["num_prompts"] for r in event.summary.records} == {1}  # the complete one
    run(pair, asked)
    assert rows(tmp_path) == rows(finished.folder)


@pytest.mark.parametrize("what", ["seed", "dataset", "models"])
def test_a_folder_keeps_to_one_sweep(
    pair: pg.ModelPair, prompts: str, tmp_path: Path, what: str
) -> None:
    run(pair, request(prompts, tmp_path / "out", limit=1))
    other, asked = pair, request(prompts, tmp_path / "out", limit=1)
    if what == "seed":
        asked = request(prompts, tmp_path / "out", limit=1, seed=1)
    if what == "dataset":
        more = tmp_path / "p.jsonl"
        more.write_text(Path(prompts).read_text() + '{"prompt": "x"}\n')
        asked = request(str(more), tmp_path / "out", limit=1)
    if what == "models":
        other = pg.ModelPair(pair.target, pair.draft, pair.tokenizer, name="another")
    before = (tmp_path / "out" / "rows.jsonl").read_bytes()
    with pytest.raises(ValueError, match=f"^out: .*another {what}"):
        run(other, asked)
    assert (tmp_path / "out" / "rows.jsonl").read_bytes() == before


def test_a_prompt_that_does_not_fit_is_told_before_any_run(
    pair: pg.ModelPair, tmp_path: Path
) -> None:
    (tmp_path / "p.txt").write_text("short\n" + "x" * 200 + "\n")
    configs, _ = configurations({"a": {"method": "sample"}}, COMMON)
    asked = Request(load_dataset(str(tmp_path / "p.txt")), configs, tmp_path / "out")
    with pytest.raises(ValueError, match="^prompt 2: prompt: '200 tokens'"):
        run(pair, asked)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_made_is_told(pair: pg.ModelPair, prompts: str) -> None:
    with pytest.raises(ValueError, match="^out: .* a folder that can be written to"):
        run(pair, request(prompts, Path("/proc/nowhere"), limit=1))


# --- the summary ----------------------------------------------------------------------------------


def test_sums_are_divided_not_means_averaged(finished: Report) -> None:
    lines = (finished.folder / "rows.jsonl").read_text().splitlines()
    made = [json.loads(line) for line in lines]
    for record in finished.summary.records:
        own = [r for r in made if r["label"] == record["label"]]
        tokens, seconds = (sum(r[k] for r in own) for k in ("num_new_tokens", "total_s"))
        assert record["tokens_per_s"] == pytest.approx(tokens / seconds)
        assert record["tokens_per_s_low"] <= record["tokens_per_s"] <= record["tokens_per_s_high"]
        logprob = sum(r["target_logprob"] * r["num_new_tokens"] for r in own)
        assert record["target_logprob"] == pytest.approx(logprob / tokens)
        assert record["num_prompts"] == 5
    speculative, mentored = (finished.summary.records[i] for i in (1, 3))
    assert speculative["mean_divergence"] == 0 and speculative["fidelity"] == 1
    assert 0 < mentored["mean_divergence"] <= 0.2 and mentored["fidelity"] < 1


def test_the_baseline_is_the_fastest_exact_configuration(finished: Report) -> None:
    records = {r["label"]: r for r in finished.summary.records}
    exact = [records[k] for k in ("sample", "speculative γ 2", "speculative γ 3")]
    base = max(exact, key=lambda r: r["tokens_per_s"])
    for record in records.values():
        assert record["baseline"] == base["label"]
        assert record["faster"] == pytest.approx(record["tokens_per_s"] / base["tokens_per_s"])
        assert record["bleu_change"] == pytest.approx(record["bleu"] - base["bleu"])
    own = (base["faster_low"], base["faster_high"], base["chrf_change_low"])
    assert own == (1.0, 1.0, 0.0)  # paired: it never differs from itself
    assert records["sample"]["speedup"] == 1.0


def fake_row(label: str, prompt: str, tokens: int, seconds: float, **more: Any) -> dict[str, Any]:
    names = ("num_target_passes", "num_accepted", "num_drafted", "num_tested", "num_verified")
    plain = dict.fromkeys(names, 0) | {"num_new_tokens": tokens, "total_s": seconds}
    absent = ("mean_divergence", "mean_reverse_divergence", "fidelity", "target_logprob", "text")
    return {"label": label, "prompt_id": prompt} | plain | dict.fromkeys(absent) | more


def test_an_infinite_divergence_is_not_averaged_away() -> None:
    (config,), _ = configurations({"a": {"method": "mentored"}}, {})
    made = {
        (config.key, "1"): fake_row("a", "1", 2, 1.0, num_verified=2, mean_divergence=0.1),
        (config.key, "2"): fake_row("a", "2", 2, 1.0, num_verified=1, fidelity=0.0),
    }
    (record,) = summarise([config], made, {"1": None, "2": None}).records
    assert record["mean_divergence"] is None and record["fidelity"] == 0.0


def test_faster_and_worse_is_said_with_intervals() -> None:
    (base, mine), _ = configurations(
        {"exact": {"method": "speculative"}, "D": {"method": "mentored"}}, {}
    )
    made = {}
    for i in range(20):
        words = f"one two three four five six {i}"
        made[base.key, str(i)] = fake_row("exact", str(i), 10 + i, 1.0, text=words)
        made[mine.key, str(i)] = fake_row("D", str(i), 10 + i, 0.8, text=words.replace("six", "6"))
    references = {str(i): f"one two three four five six {i}" for i in range(20)}
    found = summarise([base, mine], made, references)
    record = found.records[1]
    assert found.front == ("tokens_per_s", "bleu") and "tok:13a" in found.signatures["bleu"]
    assert (record["faster"], record["baseline"]) == (pytest.approx(1.25), "exact")
    assert record["bleu_change"] < record["bleu_change_high"] < 0 or math.isclose(
        record["bleu_change"], record["bleu_change_high"]
    )
    words = changes(record)
    assert words.startswith("× 1.25 [1.25, 1.25] as fast, BLEU lower by ")


def test_the_files_hold_the_summary(finished: Report) -> None:
    with (finished.folder / "summary.csv").open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert [line["label"] for line in lines] == [r["label"] for r in finished.summary.records]
    assert float(lines[0]["tokens_per_s"]) == finished.summary.records[0]["tokens_per_s"]
    page = (finished.folder / "figure.html").read_text(encoding="utf-8")
    assert "Plotly.newPlot" in page and "<script src=" not in page  # it needs no network
    picture = finished.folder / "figure.png"
    assert picture.exists() or any("figure.png" in note for note in finished.notes)
    record = json.loads((finished.folder / "run.json").read_text())
    assert record["sweep"]["precision"] == "fp32" and len(record["configurations"]) == 6
    assert {"torch", "transformers", "processor", "command", "git_commit"} <= record["visits"][
        0
    ].keys()


# --- the command ----------------------------------------------------------------------------------


@pytest.fixture
def command(prompts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    monkeypatch.setattr(cli, "load_pair", lambda *_: pytest.fail("a model was loaded"))
    yield ["sweep", "--dataset", prompts, "--out", str(tmp_path / "out")]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--methods", "sampel"], "method: 'sampel'"),
        (["--draft-lengths", "3,x"], "num_draft_tokens: 'x'"),
        (["--draft-lengths", "3,99"], "num_draft_tokens: 99"),
        (["--rules", "exakt"], "verifier: 'exakt'"),
        (["--budgets", "-1"], "divergence_budget: -1.0"),
        (["--vary", "top_k"], "vary: 'top_k'"),
        (["--vary", "nothing=1"], "vary: 'nothing'"),
        (["--vary", "num_beams=2"], "num_beams: [2]"),
        (["--methods", "sample", "--budgets", "0.1"], "divergence_budget: [0.1]"),
        (["--methods", "sample", "--run", "sample=greedy"], "run: 'sample'"),
        (["--limit", "0"], "limit: 0"),
        (["--limit", "x"], "limit: 'x'"),
        (["--seed", "none"], "seed: None"),
        (["--seed", "x"], "seed: 'x'"),
        (["--dataset", "gone.csv"], "no file 'gone.csv'"),
        (["--prompt-column", "text"], "line 1: no column 'text'"),
        (["--template", "x"], "template: 'x'"),
        (["--temperature", "-1"], "temperature: -1.0"),
        (["--num-beams", "3"], "num_beams: "),
        (["--pair", "no such pair"], "pair: "),
        (["--out", __file__], "out: "),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], command: list[str], options: list[str], words: str
) -> None:
    code = cli.main([*command, *options])
    out, err = capsys.readouterr()
    assert (code, out, err.count("\n")) == (2, "", 1) and words in err
