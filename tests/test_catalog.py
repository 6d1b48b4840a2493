"""Who may load what: names, folders, Hub ids, the operator's list, the files that ship."""

from __future__ import annotations

from pathlib import Path

import pytest

from playground.catalog import (
    ASSETS,
    EMBEDDED_FILES,
    PAIRS,
    folder_of,
    missing_files,
    page_pair,
    page_pairs,
    shown,
    spec_of,
    start_pair,
)

HOSTILE = (
    "../models/chat-target",
    "..",
    "/etc/passwd",
    "~/x",
    "https://example.com/model",
    "file:///etc/passwd",
    "owner/../model",
    "owner/model/extra",
    "owner\\model",
    "owner/mo..del",
    "owner/model\n",
    "owner/model\0",
    "-rf",
    "",
    "a" * 300 + "/b",
)


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PLAYGROUND_PAIR", "PLAYGROUND_HUB_PAIRS"):
        monkeypatch.delenv(name, raising=False)


def test_the_files_of_the_embedded_pairs_are_those_that_ship() -> None:
    folders = [path for path in (ASSETS / "models").iterdir() if path.is_dir()]
    found = {path.name: sorted(file.name for file in path.iterdir()) for path in folders}
    assert found == {name: sorted(files) for name, files in EMBEDDED_FILES.items()}
    assert not any(missing_files(spec) for spec in PAIRS.values())


def test_absent_files_and_git_lfs_pointers_are_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("playground.catalog.ASSETS", tmp_path)
    for source in ("translate-target", "translate-draft", "translate-feature"):
        (tmp_path / "models" / source).mkdir(parents=True)
        for name in EMBEDDED_FILES[source]:
            (tmp_path / "models" / source / name).write_bytes(b"contents")
    assert missing_files(PAIRS["translate"]) == []
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 18087824\n"
    (tmp_path / "models" / "translate-target" / "model.safetensors").write_bytes(pointer)
    (tmp_path / "models" / "translate-draft" / "tokenizer.json").unlink()
    names = ["translate-target/model.safetensors", "translate-draft/tokenizer.json"]
    assert missing_files(PAIRS["translate"]) == names


def test_the_page_offers_embedded_pairs_and_what_the_operator_allows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert [spec.name for spec in page_pairs()] == ["chat", "translate"]
    monkeypatch.setenv("PLAYGROUND_HUB_PAIRS", "smollm2-360m, owner/big+owner/small,owner/alone,")
    target, draft = "owner/big", "owner/small"
    assert page_pair("smollm2-360m") is PAIRS["smollm2-360m"]
    assert (page_pair(f"{target}+{draft}").target, page_pair(f"{target}+{draft}").draft) == (
        target,
        draft,
    )
    assert page_pair("owner/alone").draft is None
    assert len(page_pairs()) == 5 and not any(spec.embedded for spec in page_pairs()[2:])


@pytest.mark.parametrize(
    "entry", [name for name in HOSTILE if name.strip()] + ["nope", "a/b+c/d+e/f", "a/b+"]
)
def test_the_operator_s_list_names_pairs_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    if "\0" in entry:  # no variable can hold it
        return
    monkeypatch.setenv("PLAYGROUND_HUB_PAIRS", entry.replace("\n", "\nx"))
    with pytest.raises(ValueError, match="PLAYGROUND_HUB_PAIRS: .* is not allowed; use chat, "):
        page_pairs()


@pytest.mark.parametrize("name", [*HOSTILE, "smollm2-360m", "owner/model", "chat-target"])
def test_a_visitor_chooses_among_the_offered_pairs(name: str) -> None:
    """Neither paths nor addresses, nor what the command line could load."""
    with pytest.raises(
        ValueError, match="^pair: .* is not allowed; use one of 'chat', 'translate'"
    ):
        page_pair(name)


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_neither_a_folder_nor_a_hub_id_is_refused(name: str) -> None:
    """A folder outside is the user's own business on the command line, where it exists."""
    if folder_of(name) is not None:
        return
    with pytest.raises(ValueError, match="^pair: .* is not allowed"):
        spec_of(name)
    with pytest.raises(ValueError, match="^draft: .* is not allowed"):
        spec_of("chat", name or " ")


def test_hub_ids_and_folders_are_named_by_their_user(tmp_path: Path) -> None:
    spec = spec_of("owner/model", "gpt2")
    assert (spec.name, spec.target, spec.draft) == ("owner/model", "owner/model", "gpt2")
    assert spec_of("owner/model").draft is None
    assert spec_of("chat", "owner/model").draft == "owner/model"
    folder = tmp_path / "mine"
    folder.mkdir()
    assert (spec_of(str(folder)).name, spec_of(str(folder)).target) == ("mine", str(folder))


def test_the_first_pair_may_be_the_operator_s_own_and_shows_no_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert start_pair() is PAIRS["chat"]
    folder = tmp_path / "mine"
    folder.mkdir()
    monkeypatch.setenv("PLAYGROUND_PAIR", str(folder))
    assert start_pair().name == "mine" and page_pair("mine").target == str(folder)
    assert str(tmp_path) not in repr(shown(start_pair())) and shown(start_pair()).target == "mine"
    assert shown(PAIRS["chat"]) == PAIRS["chat"]
    monkeypatch.setenv("PLAYGROUND_PAIR", "qwen2.5-1.5b")
    assert page_pairs()[-1] is PAIRS["qwen2.5-1.5b"]
    monkeypatch.setenv("PLAYGROUND_PAIR", "nope")
    with pytest.raises(ValueError, match="pair: 'nope' is not allowed"):
        page_pairs()
