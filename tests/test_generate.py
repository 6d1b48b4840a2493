"""playground/generate.py: through `model.generate`, the same as `generate` itself."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import GenerationConfig

import playground as pg
from tests import models_zoo
from tests.models_zoo import prompts
from tests.pairs import noisy

ROOT = Path(__file__).resolve().parent.parent
FAMILIES = ("llama", "gpt2", "t5", "bart", "marian")
DICT = {"return_dict_in_generate": True, "output_scores": True}


def run(family: str, prompt: list[int] | None = None, ours: bool = True, **options: Any) -> Any:
    """`generate` of the family's tiny model, by our loops or its own."""
    model = models_zoo.model(family)
    ids = torch.tensor([prompts(1)[0] if prompt is None else prompt])
    common = {"max_new_tokens": 12, "pad_token_id": model.generation_config.pad_token_id or 0}
    if ours:
        common["custom_generate"] = pg.generate
    return model.generate(ids, **{"attention_mask": torch.ones_like(ids)} | common | options)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "options",
    [{}, {"repetition_penalty": 1.3, "no_repeat_ngram_size": 2, "min_new_tokens": 4}],
    ids=["plain", "penalties"],
)
def test_greedy_ids_scores_and_logits_are_the_same(family: str, options: dict[str, Any]) -> None:
    options = options | DICT | {"do_sample": False, "output_logits": True}
    theirs, ours = run(family, ours=False, **options), run(family, **options)
    assert type(ours) is type(theirs) and torch.equal(ours.sequences, theirs.sequences)
    for name in ("scores", "logits"):
        torch.testing.assert_close(getattr(ours, name), getattr(theirs, name))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"early_stopping": True, "length_penalty": 0.3},
        {"early_stopping": "never", "num_return_sequences": 3, "no_repeat_ngram_size": 2},
    ],
    ids=["plain", "early", "never"],
)
def test_beams_and_their_scores_are_the_same(family: str, options: dict[str, Any]) -> None:
    options = options | DICT | {"do_sample": False, "num_beams": 3, "pad_token_id": 3}
    theirs, ours = run(family, ours=False, **options), run(family, **options)
    assert type(ours) is type(theirs) and torch.equal(ours.sequences, theirs.sequences)
    torch.testing.assert_close(ours.sequences_scores, theirs.sequences_scores)


@pytest.mark.parametrize("pad", [0, 3])
def test_shorter_beams_are_filled_with_the_padding(pad: int) -> None:
    """Case 18: id 0, too, which transformers takes for none and fills with the end token."""
    options = {"do_sample": False, "num_beams": 5, "num_return_sequences": 5, "pad_token_id": pad}
    options |= {"eos_token_id": [12], "length_penalty": 0.0}
    rows = run("t5", **options)[:, 1:].tolist()
    lengths = [row.index(12) + 1 for row in rows]
    assert len(set(lengths)) == 5
    for row, length in zip(rows, lengths, strict=True):
        assert row[length:] == [pad] * (len(row) - length)
    theirs = run("t5", ours=False, **options)[:, 1:].tolist()
    kept = [[row[:n] for row, n in zip(found, lengths, strict=True)] for found in (rows, theirs)]
    assert kept[0] == kept[1]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("options", [{}, {"method": "mentored", "divergence_budget": 0.5}])
def test_drafted_decoding_is_greedy_without_sampling(family: str, options: dict[str, Any]) -> None:
    """Also mentored decoding: at temperature 0 it never leaves the target's support."""
    theirs = run(family, ours=False, do_sample=False)
    ours = run(family, do_sample=False, assistant_model=noisy(family), **options)
    assert torch.equal(ours, theirs)


def test_speculative_scores_are_those_of_assisted_generation() -> None:
    options = DICT | {"do_sample": False}
    assistant = copy.deepcopy(noisy("llama"))
    theirs = run("llama", ours=False, assistant_model=assistant, **options)
    ours = run("llama", assistant_model=noisy("llama"), **options)
    assert torch.equal(ours.sequences, theirs.sequences)
    torch.testing.assert_close(ours.scores, theirs.scores)


def test_sampled_scores_hold_the_warped_law() -> None:
    """Up to a constant, which a softmax does not see."""
    options = DICT | {"do_sample": True, "temperature": 0.7, "top_k": 5, "top_p": 0.9}
    ours = run("llama", seed=1, **options)
    new = ours.sequences[0, 6:]
    laws = torch.cat(ours.scores).softmax(-1)
    kept = (laws > 0).sum(-1)
    assert len(new) == len(laws) and (kept >= 1).all() and (kept <= 5).all()
    assert (laws.gather(-1, new[:, None]) > 0).all()


@pytest.mark.parametrize("method", ["sample", "speculative", "mentored"])
def test_a_run_is_that_of_decode(method: str) -> None:
    """The same settings and seed give the same ids as the library's own front door."""
    target, draft, prompt = models_zoo.model("llama"), noisy("llama"), prompts(1)[0]
    knobs = {"divergence_budget": 0.5} if method == "mentored" else {}
    if method != "sample":
        knobs["num_draft_tokens"] = 3
    pair = pg.ModelPair(target, draft)
    own = {"temperature": 0.8, "max_new_tokens": 12, "seed": 5}
    expected = pg.decode(pair, prompt, method, **own, **knobs).token_ids
    options = {"do_sample": True, "top_k": 0, "temperature": 0.8, "seed": 5}
    found = run("llama", prompt, assistant_model=draft, method=method, **options, **knobs)
    assert found[0].tolist() == [*prompt, *expected]


def test_without_a_seed_torch_s_generator_decides() -> None:
    outputs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outputs.append(run("gpt2", do_sample=True).tolist())
    assert outputs[0] == outputs[1] != outputs[2]


def test_padding_is_not_part_of_the_prompt() -> None:
    prompt = prompts(1)[0]
    ids, mask = torch.tensor([[0, 0, *prompt]]), torch.tensor([[0, 0, *[1] * len(prompt)]])
    plain = run("llama", prompt, do_sample=False)
    padded = run("llama", ids[0].tolist(), do_sample=False, attention_mask=mask)
    assert padded[0].tolist() == [0, 0, *plain[0].tolist()]
    ids, mask = ids.flip(1), mask.flip(1)
    plain = run("t5", prompt[::-1], do_sample=False)
    padded = run("t5", ids[0].tolist(), do_sample=False, attention_mask=mask)
    assert torch.equal(padded, plain)


def test_a_streamer_gets_every_token() -> None:
    class Streamer:
        def __init__(self) -> None:
            self.ids: list[int] = []
            self.ended = False

        def put(self, value: torch.Tensor) -> None:
            self.ids += value.flatten().tolist()

        def end(self) -> None:
            self.ended = True

    streamer = Streamer()
    found = run("llama", do_sample=False, assistant_model=noisy("llama"), streamer=streamer)
    assert streamer.ended and streamer.ids == found[0].tolist()


def test_stopping_criteria_of_one_s_own_end_the_run() -> None:
    def stop(ids: torch.Tensor, scores: Any) -> torch.Tensor:
        return torch.tensor([ids.shape[1] >= 9])

    assert run("llama", do_sample=False, stopping_criteria=[stop]).shape == (1, 9)


def test_bans_of_the_call_count() -> None:
    first = int(run("llama", do_sample=False)[0, 6])
    options = {"do_sample": False, "suppress_tokens": [first]}
    assert torch.equal(run("llama", **options), run("llama", ours=False, **options))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"min_p": 0.1, "do_sample": True}, "min_p: 0.1"),
        ({"num_beams": 2, "do_sample": True}, "do_sample: True"),
        ({"num_return_sequences": 2, "do_sample": True}, "num_return_sequences: 2"),
        ({"output_hidden_states": True}, "output_hidden_states: True"),
        ({"encoder_repetition_penalty": 1.2}, "encoder_repetition_penalty: 1.2"),
        ({"logits_processor": [lambda ids, scores: scores]}, "logits_processor: "),
        ({"divergence_budget": 0.1}, "divergence_budget: "),
        ({"method": "mentored"}, "proposer: "),
        ({"method": "nonsense"}, "method: 'nonsense'"),
        ({"num_beam": 3}, "num_beam"),
    ],
)
def test_what_cannot_be_done_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        run("llama", **options)


def test_a_batch_is_refused() -> None:
    ids = torch.tensor(prompts(2))
    with pytest.raises(ValueError, match="inputs: 'a batch of 2' .* one prompt at a time"):
        models_zoo.model("llama").generate(ids, custom_generate=pg.generate, pad_token_id=0)


def test_a_model_is_still_itself_afterwards() -> None:
    """It can be copied, pickled, changed and cast; the next call sees what it has become."""
    model = copy.deepcopy(models_zoo.model("llama"))
    ids = torch.tensor(prompts(1))
    options: dict[str, Any] = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0}
    model.generate(ids, custom_generate=pg.generate, **options)
    assert copy.deepcopy(model).state_dict().keys() == model.state_dict().keys()
    pickle.loads(pickle.dumps(model))
    with torch.no_grad():
        model.lm_head.weight.copy_(model.lm_head.weight.flip(0))
    model = model.double()
    theirs = model.generate(ids, **options)
    assert torch.equal(model.generate(ids, custom_generate=pg.generate, **options), theirs)


@pytest.mark.parametrize("family", ["llama", "qwen2", "t5", "gpt2"])
def test_a_training_goes_on_around_it(family: str) -> None:
    """Called between two steps: without dropout, on the weights of the moment, and the modes of
    all modules are afterwards what they were."""
    model = copy.deepcopy(models_zoo.model(family))
    ids = torch.tensor(prompts(1))
    options: dict[str, Any] = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 3}
    options["attention_mask"] = torch.ones_like(ids)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    rows = []
    for _ in range(3):
        model.train()
        frozen = next(iter(model.children())).eval()
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        modes = [part.training for part in model.modules()]
        ours = model.generate(ids, custom_generate=pg.generate, **options)
        assert modes == [part.training for part in model.modules()]
        assert model.training and not frozen.training
        assert torch.equal(model.eval().generate(ids, **options), ours)
        rows.append(ours.tolist())
    assert rows[0] != rows[-1]


def test_an_adapter_put_in_between_counts() -> None:
    class Scaled(torch.nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return -super().forward(x)

    model = copy.deepcopy(models_zoo.model("llama"))
    ids = torch.tensor(prompts(1))
    options: dict[str, Any] = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 3}
    before = model.generate(ids, custom_generate=pg.generate, **options)
    model.model.layers[0].self_attn.q_proj.__class__ = Scaled
    theirs = model.generate(ids, **options)
    ours = model.generate(ids, custom_generate=pg.generate, **options)
    assert torch.equal(ours, theirs) and not torch.equal(ours, before)


def test_the_folder_layout_of_the_hub_gives_the_same() -> None:
    options = {"do_sample": True, "assistant_model": noisy("llama"), "seed": 1}
    options |= {"method": "mentored", "divergence_budget": 0.5}
    folder = str(ROOT / "assets" / "custom_generate")
    theirs = run("llama", custom_generate=folder, trust_remote_code=True, **options)
    assert torch.equal(theirs, run("llama", **options))


def test_a_generation_config_object_serves_as_well() -> None:
    config = GenerationConfig(max_new_tokens=5, do_sample=False, pad_token_id=0, eos_token_id=1)
    ids = torch.tensor(prompts(1))
    model = models_zoo.model("llama")
    ours = model.generate(ids, generation_config=config, custom_generate=pg.generate)
    assert torch.equal(ours, model.generate(ids, generation_config=config))
