"""python -m playground: options, values, records, exit codes.

The pair is a tiny Llama with a byte-level tokenizer, saved to a folder and loaded from there.
"""

from __future__ import annotations

import errno
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import playground as pg
from playground import arguments, cli, report
from playground.catalog import folder_of
from playground.mentored import solve
from playground.params import field_of
from playground.types import to_json
from tests.test_api_contract import byte_level_tokenizer, target_and_draft

ROOT = Path(__file__).resolve().parent.parent
TIMED = re.compile(r"_s$|seconds|per_s|ms_per|draft_cost|speedup")  # differs from run to run


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """--pair and --draft with the folders of a tiny target and draft."""
    root = tmp_path_factory.mktemp("pair")
    for role, model in zip(("target", "draft"), target_and_draft(), strict=True):
        model.save_pretrained(root / role)
        byte_level_tokenizer().save_pretrained(root / role)
    pair = ["--pair", str(root / "target"), "--draft", str(root / "draft")]
    return [*pair, "--precision", "fp32", "--device", "cpu"]


@pytest.fixture(scope="module")
def pair(folders: list[str]) -> pg.ModelPair:
    """The same pair as the library loads it."""
    return pg.load_pair(folders[1], draft=folders[3], precision="fp32", device="cpu")


@pytest.fixture
def nothing_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "load_pair", lambda *_: pytest.fail("a model was loaded"))


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of one command, in this process."""
    code = cli.main(argv)
    out, err = capsys.readouterr()
    return code, out, err


def help_of(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    with pytest.raises(SystemExit) as stopped:
        cli.main([*argv, "--help"])
    assert stopped.value.code == 0
    return capsys.readouterr().out


def parsed(*argv: str) -> dict[str, Any]:
    """The parameters that `decode` reads from its options."""
    return arguments.given(cli.parser().parse_args(["decode", "--prompt", "x", *argv]))


def untimed(record: Any) -> Any:
    """A record without what a clock says."""
    if isinstance(record, dict):
        return {k: untimed(v) for k, v in record.items() if not TIMED.search(k)}
    return [untimed(v) for v in record] if isinstance(record, list) else record


def assert_refused(result: tuple[int, str, str], *words: str) -> None:
    """Exit code 2, nothing on stdout, one clear line on stderr."""
    code, out, err = result
    assert (code, out) == (2, ""), err
    assert err.startswith("playground: ") and err.count("\n") == 1 and err.endswith("\n"), err
    for word in words:
        assert word in err


# --- options from the parameter dataclasses -------------------------------------------------------


def every_field() -> dict[str, Any]:
    """All parameters of all methods, rules and proposers, found without the code under test."""
    tables = (pg.METHODS, pg.VERIFIERS, pg.PROPOSERS)
    owners = [cls.Params for table in tables for cls in table.values()]
    return {name: field_of(o, name) for o in owners for name in o.__dataclass_fields__}


@pytest.mark.parametrize("command", ["decode", "compare"])
def test_help_mentions_every_parameter(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")  # nothing is wrapped
    text = help_of(capsys, command)
    for name, field in every_field().items():
        option = "--" + name.replace("_", "-")
        (line,) = re.findall(rf"^  {option}(?=[ ,]).*", text, re.MULTILINE)
        after = text[text.index(line) :]
        entry = after[: after.index("\n  --", 1)] if "\n  --" in after[1:] else after
        assert field.metadata["help"] in entry and (field.metadata["label"] or "") in entry, name
        assert "default " in entry, name
        if field.metadata["kind"] in ("int", "float"):
            assert f"{field.metadata['min']} to {field.metadata['max']}" in entry, name


@pytest.mark.parametrize("command", ["decode", "compare"])
def test_help_words_methods_as_their_classes_do(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    text = help_of(capsys, command)
    for table in (pg.METHODS, pg.VERIFIERS, pg.PROPOSERS):
        for name, cls in table.items():
            assert re.search(rf"^  {name} +{re.escape(cls.line)}$", text, re.MULTILINE), name


def test_help_of_the_whole(capsys: pytest.CaptureFixture[str]) -> None:
    text = help_of(capsys)
    for command in ("pairs", "compare", "decode", "solve"):
        assert command in text
    assert "mentored" in text
    assert "--budget" in help_of(capsys, "solve")
    assert "--json" in help_of(capsys, "pairs")


def test_values_have_their_exact_types() -> None:
    assert parsed() == {}
    found = parsed(
        *("--max-new-tokens", "5", "--temperature", "1", "--num-beams", "2.0", "--seed", "none"),
        *("--length-penalty", "-1.5", "--no-keep-support", "--early-stopping", "never"),
        *("--verifier", "typical", "--typical-epsilon", "1e-1", "--eos-token-id", "1", "2"),
        *("--stop", "a", "--stop", "b, c"),
    )
    assert found == {
        "max_new_tokens": 5,
        "temperature": 1.0,
        "num_beams": 2.0,  # whole: the library makes it 2
        "seed": None,
        "length_penalty": -1.5,
        "keep_support": False,
        "early_stopping": "never",
        "verifier": "typical",
        "typical_epsilon": 0.1,
        "eos_token_id": [1, 2],
        "stop": ["a", "b, c"],
    }
    assert type(found["max_new_tokens"]) is int and type(found["temperature"]) is float
    assert parsed("--early-stopping", "true") == {"early_stopping": True}
    assert parsed("--early-stopping", "false")["early_stopping"] is False
    assert parsed("--keep-support") == {"keep_support": True}
    assert parsed("--eos-token-id") == {"eos_token_id": []}
    assert parsed("--seed", str(2**63 - 1)) == {"seed": 2**63 - 1}


def test_what_is_no_value_stays_text_for_the_library_to_refuse() -> None:
    assert parsed("--max-new-tokens", "many") == {"max_new_tokens": "many"}
    assert parsed("--early-stopping", "maybe") == {"early_stopping": "maybe"}
    assert parsed("--top-p", "nan")["top_p"] != parsed("--top-p", "nan")["top_p"]


def test_runs_of_a_comparison() -> None:
    texts = ["D0.5=mentored,divergence_budget=0.5,keep-support=false", "greedy", "a=b=beam"]
    texts += ["s=sample,stop=x\\,y,stop=z,eos_token_id=1 2,top_k=3"]
    found = arguments.parse_runs(texts)
    assert list(found) == ["D0.5", "greedy", "a=b", "s"]
    assert found["D0.5"] == {"method": "mentored", "divergence_budget": 0.5, "keep_support": False}
    assert found["greedy"] == {"method": "greedy"} and found["a=b"] == {"method": "beam"}
    assert found["s"] == {
        "method": "sample",
        "stop": ["x,y", "z"],
        "eos_token_id": [1, 2],
        "top_k": 3,
    }


def test_defaults_that_differ_by_method_are_all_told() -> None:
    text = arguments.parameters()["length_penalty"].help
    assert "default 1.0" in text and "exact: 0.0" in text


# --- bad input ------------------------------------------------------------------------------------

REFUSED: list[tuple[list[str], list[str]]] = [
    ([], ["command"]),
    (["magic"], ["magic"]),
    (["decode"], ["--prompt"]),
    (["decode", "--prompt"], ["--prompt"]),
    (["decode", "--prompt", "x", "--ids", "1"], ["--ids"]),
    (["decode", "--prompt", "x", "--tempratur", "1"], ["--tempratur"]),
    (["decode", "--prompt", "x", "--temp", "1"], ["--temp"]),  # no guessing of short forms
    (["decode", "--prompt", ""], ["prompt: ''"]),
    (["decode", "--prompt", " \n"], ["prompt: "]),
    (["decode", "--prompt", "\udcff"], ["UTF-8"]),
    (["decode", "--ids", "1", "x"], ["ids: 'x'"]),
    (["decode", "--ids", "-1"], ["ids: '-1'"]),
    (["decode", "--prompt-file", "/no/such/file"], ["prompt_file: '/no/such/file'"]),
    (["decode", "--prompt", "x", "--method", "magic"], ["method: 'magic'", "'mentored'"]),
    (["decode", "--prompt", "x", "--temperature", "nan"], ["temperature: nan", "0.0 to 10.0"]),
    (["decode", "--prompt", "x", "--temperature", "warm"], ["temperature: 'warm'", "10.0"]),
    (["decode", "--prompt", "x", "--max-new-tokens", "0"], ["max_new_tokens: 0", "from 1"]),
    (["decode", "--prompt", "x", "--max-new-tokens", "1.5"], ["max_new_tokens: 1.5", "whole"]),
    (["decode", "--prompt", "x", "--max-new-tokens", "9" * 5000], ["max_new_tokens: inf"]),
    (["decode", "--prompt", "x", "--min-new-tokens", "65"], ["min_new_tokens: 65"]),
    (["decode", "--prompt", "x", "--num-beams", "2"], ["num_beams: ", "no such parameter"]),
    (["decode", "--prompt", "x", "--verifier", "magic"], ["verifier: 'magic'", "'typical'"]),
    (["decode", "--prompt", "x", "--typical-epsilon", ".1"], ["typical_epsilon: ", "no such"]),
    (["decode", "--prompt", "x", "--eos-token-id", "one"], ["eos_token_id: 'one'"]),
    (["decode", "--prompt", "x", "--stop", ""], ["stop: ''"]),
    (["decode", "--prompt", "x", "--deadline-s", "nan"], ["deadline_s: nan"]),
    (["decode", "--prompt", "x", "--deadline-s", "soon"], ["deadline_s: 'soon'"]),
    (["decode", "--prompt", "x", "--pair", "magic"], ["pair: 'magic'", "'chat'"]),
    (["decode", "--prompt", "x", "--pair", "/no/such"], ["pair: '/no/such'"]),
    (["decode", "--prompt", "x", "--draft", "/no/such"], ["draft: '/no/such'"]),
    (["compare", "--prompt", "x", "--repeats", "0"], ["repeats: 0", "1 to 100"]),
    (["compare", "--prompt", "x", "--repeats", "two"], ["repeats: 'two'"]),
    (["compare", "--prompt", "x", "--max-nodes", "5"], ["max_nodes: ", "no such parameter"]),
    (["compare", "--prompt", "x", "--run", "a=magic"], ["method: 'magic'"]),
    (["compare", "--prompt", "x", "--run", ""], ["runs: ''"]),
    (["compare", "--prompt", "x", "--run", "a=beam,5"], ["run: '5'", "key=value"]),
    (["compare", "--prompt", "x", "--run", "a=beam,num_beams=x"], ["num_beams: 'x'"]),
    (["compare", "--prompt", "x", "--run", "a=beam,beams=2"], ["beams: ", "num_beams"]),
    (["compare", "--prompt", "x", "--run", "a=beam,num_beams=2,num_beams=3"], ["num_beams once"]),
    (["compare", "--prompt", "x", "--run", "a=beam", "--run", "a=greedy"], ["run: 'a'", "label"]),
    (["solve", "--target", "0.5,0.5"], ["--draft"]),
    (["solve", "--target", "0.5,x", "--draft", "0.5,0.5"], ["target: '0.5,x'"]),
    (["solve", "--target", "0.5,0.4", "--draft", "0.5,0.5"], ["target_probs", "sum"]),
    (["solve", "--target", "nan,0.5", "--draft", "0.5,0.5"], ["target_probs", "nan"]),
    (["solve", "--target", "1,0,0", "--draft", "0.5,0.5"], ["3 and 2"]),
    (["solve", "--target", "1,0", "--draft", "0,1", "--budget", "nan"], ["budget=nan"]),
    (["solve", "--target", "1,0", "--draft", "0,1", "--budget", "-1"], ["budget=-1"]),
    (["solve", "--target", "1,0", "--draft", "0,1", "--budget", "much"], ["budget: 'much'"]),
    (["solve", "--target", "1,0", "--draft", "0,1", "--divergence", "l2"], ["'l2'", "hellinger"]),
    (["bench", "--parts", "speed,magic"], ["parts: 'magic'", "'solver'"]),
    (["bench", "--repeats", "0"], ["repeats: 0", "1 to 100"]),
    (["bench", "--max-new-tokens", "many"], ["max_new_tokens: 'many'", "1 to 4096"]),
    (["bench", "--pair", "magic"], ["pair: 'magic'", "'chat'"]),
]


@pytest.mark.parametrize(("argv", "words"), REFUSED)
@pytest.mark.usefixtures("nothing_loads")
def test_bad_input_is_one_line_and_code_2_before_a_model_is_loaded(
    capsys: pytest.CaptureFixture[str], argv: list[str], words: list[str]
) -> None:
    assert_refused(run(capsys, *argv), *words)


def test_what_only_the_model_can_tell(
    capsys: pytest.CaptureFixture[str], folders: list[str]
) -> None:
    long = ["--max-new-tokens", "500"]
    assert_refused(run(capsys, "decode", "--prompt", "x", *folders, *long), "max_new_tokens: 500")
    assert_refused(run(capsys, "decode", "--ids", "64", *folders), "prompt: 64", "0 to 63")
    end = ["--eos-token-id", "64"]
    assert_refused(run(capsys, "compare", "--prompt", "x", *folders, *end), "eos_token_id: [64]")
    code, out, _ = run(capsys, "decode", "--prompt", "x", *folders, "--max-new-tokens", "2")
    assert code == 0 and out.endswith("\n")  # the next run works


def test_missing_or_corrupt_weights(
    capsys: pytest.CaptureFixture[str],
    folders: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    decode = ["decode", "--prompt", "x", "--precision", "fp32", "--pair"]
    assert_refused(run(capsys, *decode, str(broken)), "pair: ", "broken")
    for file in Path(folders[1]).iterdir():
        (broken / file.name).write_bytes(file.read_bytes())
    for spoilt in (b"", b"\xff" * 64):
        (broken / "model.safetensors").write_bytes(spoilt)
        assert_refused(run(capsys, *decode, str(broken)), "pair: ", "broken")
    (broken / "config.json").write_text("{")
    assert_refused(run(capsys, *decode, str(broken)), "pair: ", "broken")
    monkeypatch.setattr("playground.catalog.ASSETS", tmp_path)
    assert_refused(run(capsys, *decode, "chat"), "pair: ", "weights are missing", "chat-target")


@pytest.mark.parametrize(
    "error", [KeyError("k"), RuntimeError("out of\n\nmemory"), OSError(2, "gone"), ValueError("")]
)
def test_whatever_loading_raises_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(*_: Any) -> None:
        raise error

    monkeypatch.setattr(cli, "load_pair", fails)
    loading = ["--pair", str(ROOT / "tests")]
    assert_refused(run(capsys, "decode", "--prompt", "x", *loading), "cannot be loaded: ")


def test_a_full_disk_ends_a_sweep_in_one_line_and_it_goes_on_later(
    capsys: pytest.CaptureFixture[str],
    folders: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second row is cut in the middle, as a full disk does; the same command then completes."""
    prompts, out = tmp_path / "prompts.txt", tmp_path / "out"
    prompts.write_text("ab\nba\ncc\n")
    command = ["sweep", "--dataset", str(prompts), "--out", str(out), "--methods", "greedy"]
    command += ["--max-new-tokens", "2", *folders]
    real, rows = os.write, []

    def full(file: int, data: bytes) -> int:
        if not data.startswith(b'{"'):
            return real(file, data)
        rows.append(data)
        if len(rows) < 2:
            return real(file, data)
        real(file, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("playground.sweep.rows.os.write", full)
        code, _, err = run(capsys, *command)
    assert code == 1 and "No space left on device" in err.splitlines()[-1]
    code, _, _ = run(capsys, *command)
    lines = (out / "rows.jsonl").read_text().splitlines()
    assert code == 0 and len({json.loads(line)["prompt_id"] for line in lines}) == len(lines) == 3


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("CUDA out of memory.")])
def test_memory_that_runs_out_is_one_line(
    capsys: pytest.CaptureFixture[str],
    folders: list[str],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(cli, "stream", fails)
    code, out, err = run(capsys, "decode", "--prompt", "ab", *folders)
    assert (code, out) == (1, "") and "memory ran out" in err.splitlines()[-1]


def test_ctrl_c(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "load_pair", interrupted)
    code, out, err = run(capsys, "decode", "--prompt", "x", "--pair", str(ROOT / "tests"))
    assert (code, out, err) == (130, "", "playground: interrupted\n")


# --- commands without a model ---------------------------------------------------------------------


@pytest.mark.usefixtures("nothing_loads")
def test_pairs(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "pairs", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == to_json(list(pg.PAIRS.values()))
    code, out, _ = run(capsys, "pairs")
    lines = out.splitlines()
    assert code == 0 and len(lines) == 1 + len(pg.PAIRS)
    for line, spec in zip(lines[1:], pg.PAIRS.values(), strict=True):
        assert line.startswith(spec.name) and spec.title in line and spec.license in line
        assert ("embedded" if spec.embedded else "Hub") in line


LAWS = ["--target", "0.5,0.3,0.2", "--draft", "0.2,0.5,0.3"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], (0.2, "kl", True)),
        (["--budget", "0.05", "--divergence", "js"], (0.05, "js", True)),
        (["--budget", "inf", "--no-keep-support"], (float("inf"), "kl", False)),
    ],
)
def test_solve_prints_the_librarys_record(
    capsys: pytest.CaptureFixture[str], options: list[str], expected: tuple[float, str, bool]
) -> None:
    code, out, err = run(capsys, "solve", *LAWS, *options, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == solve([0.5, 0.3, 0.2], [0.2, 0.5, 0.3], *expected).to_dict()


def test_solve_is_readable(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "solve", *LAWS, "--budget", "0.05")
    assert (code, err) == (0, "")
    for name, value in {"alpha": "0.764", "beta": "1.45", "acceptance": "0.854"}.items():
        assert re.search(rf"^{name} +{value}$", out, re.MULTILINE)
    assert re.search(r"exact rule's acceptance +0.700", out)
    assert re.search(r"divergence spent +0.0500", out)
    header = "token  target  draft  output  accept  residual"
    assert header in out and len(out.splitlines()) == 5 + 1 + 1 + 3


def test_numbers_have_three_digits() -> None:
    shown = {None: "–", 0.0: "0", 1.0: "1.00", 9.999: "10.0", 0.01234: "0.0123", 123.4: "123"}
    shown |= {1234.0: "1,230", -5.678: "-5.68", 1e-9: "1.00e-09", float("inf"): "∞", 99.96: "100"}
    assert {value: report.three_digits(value) for value in shown} == shown


def test_tables_are_aligned_for_wide_characters_too() -> None:
    lines = report.table(["run", "x"], [["采样", "1"], ["beam", "22"]]).splitlines()
    assert lines == ["run    x", "采样   1", "beam  22"]


# --- commands on a pair ---------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["speculative", "beam"])
def test_decode_prints_the_librarys_record(
    capsys: pytest.CaptureFixture[str], folders: list[str], pair: pg.ModelPair, method: str
) -> None:
    options = ["--method", method, "--max-new-tokens", "8", "--seed", "4", "--json"]
    code, out, err = run(capsys, "decode", "--prompt", "abc", *folders, *options)
    expected = pg.decode(pair, "abc", method, max_new_tokens=8, seed=4).to_dict()
    assert code == 0 and untimed(json.loads(out)) == untimed(expected)
    assert err and "Traceback" not in err


def test_decode_takes_ids_rules_and_lists(
    capsys: pytest.CaptureFixture[str], folders: list[str], pair: pg.ModelPair
) -> None:
    options = ["--verifier", "typical", "--typical-epsilon", "0.2", "--num-draft-tokens", "2"]
    options += ["--eos-token-id", "7", "63", "--stop", "q", "--max-new-tokens", "9", "--seed", "1"]
    ids = ["--ids", "5", "9", "2"]
    code, out, _ = run(capsys, "decode", *ids, *options, *folders, "--json")
    params: dict[str, Any] = {"verifier": "typical", "typical_epsilon": 0.2, "num_draft_tokens": 2}
    params |= {"eos_token_id": [7, 63], "stop": ["q"], "max_new_tokens": 9, "seed": 1}
    record = json.loads(out)
    assert code == 0 and record["prompt_ids"] == [5, 9, 2]
    assert untimed(record) == untimed(pg.decode(pair, [5, 9, 2], "speculative", **params).to_dict())


@pytest.mark.parametrize("method", ["sample", "mentored", "beam"])
def test_decode_prints_the_text_on_stdout_and_notes_on_stderr(
    capsys: pytest.CaptureFixture[str], folders: list[str], pair: pg.ModelPair, method: str
) -> None:
    options = ["--method", method, "--max-new-tokens", "8", "--seed", "4"]
    code, out, err = run(capsys, "decode", "--prompt", "abc", *folders, *options)
    text = pg.decode(pair, "abc", method, max_new_tokens=8, seed=4).text
    assert code == 0 and out == f"{text}\n"
    assert "loaded in" in err and f"{method}: 8 tokens" in err


def test_several_beams_are_all_printed(capsys: pytest.CaptureFixture[str]) -> None:
    pair = pg.ModelPair(target_and_draft()[0])
    found = pg.decode(pair, [1, 2], "beam", num_return_sequences=2, max_new_tokens=3)
    lines = report.text(found).splitlines()
    assert len(lines) == 2
    for line, beam in zip(lines, found.beams, strict=True):
        assert line.endswith(" ".join(map(str, beam.token_ids)))


def test_compare_prints_the_librarys_record(
    capsys: pytest.CaptureFixture[str], folders: list[str], pair: pg.ModelPair
) -> None:
    runs = ["--run", "D0.5=mentored,divergence_budget=0.5", "--run", "beam,num_beams=2"]
    common = ["--max-new-tokens", "6", "--seed", "3", "--repeats", "2"]
    code, out, err = run(capsys, "compare", "--prompt", "汉 é", *runs, *common, *folders, "--json")
    expected = pg.compare(
        pair,
        "汉 é",
        {
            "D0.5": {"method": "mentored", "divergence_budget": 0.5},
            "beam": {"method": "beam", "num_beams": 2},
        },
        repeats=2,
        max_new_tokens=6,
        seed=3,
    ).to_dict()
    record = json.loads(out)
    assert code == 0 and untimed(record) == untimed(expected)
    assert list(record["results"]) == ["D0.5", "beam"]
    assert record["prompt"] == "汉 é" and "汉" in out and out.count("\n") == 1
    assert "4/4 beam" in err


def test_compare_is_readable(capsys: pytest.CaptureFixture[str], folders: list[str]) -> None:
    code, out, _ = run(
        capsys, "compare", "--prompt", "abc", "--max-new-tokens", "6", "--seed", "0", *folders
    )
    assert code == 0
    table, *texts = out.split("\n\n")
    header, *rows = table.splitlines()
    assert header.split()[:4] == ["run", "badge", "tok/s", "×"]
    labels = ["sample", "greedy", "beam", "speculative", "mentored"]
    assert [row.split()[0] for row in rows] == labels
    assert "–" in rows[0] and "1.00" in rows[0] and "lossless" in rows[3] and "lossy" in rows[4]
    assert len({len(row) for row in (header, *rows)}) == 1
    assert [text.splitlines()[0] for text in texts] == [f"[{label}]" for label in labels]


def test_prompts_come_from_files_and_stdin(
    capsys: pytest.CaptureFixture[str],
    folders: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "prompt.txt"
    file.write_bytes("ab é\n".encode())
    short = ["--max-new-tokens", "1", "--json", *folders]
    found = [json.loads(run(capsys, "decode", "--prompt-file", str(file), *short)[1])]
    for source in (["--prompt-file", "-"], ["--prompt", "-"]):
        stdin = io.TextIOWrapper(io.BytesIO("ab é\n".encode()), encoding="ascii")
        monkeypatch.setattr(sys, "stdin", stdin)
        found.append(json.loads(run(capsys, "decode", *source, *short)[1]))
    tokenizer = byte_level_tokenizer()
    assert [f["prompt_ids"] for f in found] == [tokenizer.encode("ab é")] * 3
    file.write_bytes(b"\xff\xfe\x00")
    assert_refused(run(capsys, "decode", "--prompt-file", str(file), *short), "UTF-8")
    assert_refused(run(capsys, "decode", "--prompt-file", str(tmp_path), *short), "prompt_file: ")


def test_a_deadline_ends_a_run(capsys: pytest.CaptureFixture[str], folders: list[str]) -> None:
    options = ["--deadline-s", "0", "--json", "--method", "sample"]
    code, out, _ = run(capsys, "decode", "--prompt", "abc", *options, *folders)
    assert code == 0 and json.loads(out)["finish_reason"] == "deadline"


def test_bench_prints_a_table_or_the_record(
    capsys: pytest.CaptureFixture[str], folders: list[str], tmp_path: Path
) -> None:
    (tmp_path / "prompts").write_text("Hello.\n\nAnd you?\n")
    argv = ["bench", *folders, "--prompts", str(tmp_path / "prompts"), "--parts", "beams"]
    argv += ["--repeats", "1", "--max-new-tokens", "4"]
    code, out, _ = run(capsys, *argv)
    assert code == 0 and "over width 1" in out and "precision fp32" in out
    code, out, _ = run(capsys, *argv, "--json")
    record = json.loads(out)
    assert code == 0 and [row["width"] for row in record["beams"]] == [1, 2, 4, 8]
    assert record["setup"]["precision"] == "fp32"


def test_as_a_program(folders: list[str]) -> None:
    """Real pipes: only the record on stdout, no chatter of the libraries, codes passed on."""
    program = [sys.executable, "-m", "playground"]
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "HF_HUB_OFFLINE": "1"}
    options: dict[str, Any] = {"cwd": ROOT, "env": environment, "capture_output": True}
    done = subprocess.run(
        [*program, "decode", "--prompt", "abc", "--max-new-tokens", "3", "--json", *folders],
        **options,
    )
    assert done.returncode == 0 and json.loads(done.stdout)["method"] == "speculative"
    loaded, summary = done.stderr.decode().splitlines()
    assert "loaded in" in loaded and summary.startswith("speculative: ")
    done = subprocess.run([*program, "decode", "--prompt", "x", "--top-p", "2"], **options)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode().splitlines() == [
        "playground: top_p: 2.0 is not allowed; use a number from 0.0 to 1.0."
    ]


def test_the_embedded_pair(capsys: pytest.CaptureFixture[str]) -> None:
    spec = pg.PAIRS["chat"]
    for part in (spec.target, spec.draft):
        if part is None or folder_of(part) is None:
            pytest.skip(f"the embedded weights are absent: no assets/models/{part}")
    argv = ["decode", "--prompt", "What is the capital of France?", "--temperature", "0"]
    code, out, err = run(capsys, *argv, "--max-new-tokens", "12", "--method", "speculative")
    assert code == 0 and "Paris" in out
    assert err.startswith("chat: ")
