"""playground/weights.py: models that are spread over devices decode as others do."""

from __future__ import annotations

from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM

import playground as pg
from playground import weights
from tests.test_api_contract import PROMPT, byte_level_tokenizer, target_and_draft

RUNS = (
    ("greedy", {}),
    ("beam", {"num_beams": 3}),
    ("mentored", {"divergence_budget": 0.3, "seed": 1}),
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    root = tmp_path_factory.mktemp("pair")
    for role, model in zip(("target", "draft"), target_and_draft(), strict=True):
        model.save_pretrained(root / role)
        byte_level_tokenizer().save_pretrained(root / role)
    return str(root / "target"), str(root / "draft")


def test_auto_asks_for_accelerate_s_device_map(
    folders: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    auto, _ = weights._kind(folders[0])
    read = auto.from_pretrained

    def from_pretrained(*args: object, **options: object) -> object:
        asked.append(options["device_map"])
        return read(*args, **options)

    monkeypatch.setattr(auto, "from_pretrained", from_pretrained)
    pair = pg.load_pair(folders[0], draft=folders[1], device="auto", precision="fp32")
    assert asked == ["auto", None]  # the draft goes where the target begins
    expected = pg.ModelPair(*target_and_draft())
    for method, params in RUNS:
        found = pg.decode(pair, PROMPT, method, **params)
        assert found.token_ids == pg.decode(expected, PROMPT, method, **params).token_ids


def test_a_model_on_several_devices_decodes_the_same(
    folders: tuple[str, str], tmp_path: Path
) -> None:
    """One layer and the head wait on the disk, which is a device of its own to accelerate."""
    places = {"model.embed_tokens": "cpu", "model.rotary_emb": "cpu", "model.norm": "cpu"}
    places |= {"model.layers.0": "cpu", "model.layers.1": "disk", "lm_head": "disk"}
    spread = AutoModelForCausalLM.from_pretrained(
        folders[0], device_map=places, offload_folder=tmp_path
    )
    assert len({p.device for p in spread.parameters()}) == 2
    target, draft = target_and_draft()
    pair, expected = pg.ModelPair(spread, draft), pg.ModelPair(target, draft)
    for method, params in RUNS:
        found = pg.decode(pair, PROMPT, method, **params)
        assert found.token_ids == pg.decode(expected, PROMPT, method, **params).token_ids
