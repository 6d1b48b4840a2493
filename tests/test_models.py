"""Loading and checking pairs: folders, precision, refusals, limits, the embedded weights."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

import playground as pg
from playground.catalog import ASSETS
from playground.gguf_weights import read_llama
from playground.models import ModelPair
from playground.weights import _converted

EMBEDDED = ASSETS / "models" / "chat-draft" / "model.safetensors"
TRANSLATE = ASSETS / "models" / "translate-draft" / "model.safetensors"
needs_weights = pytest.mark.skipif(not EMBEDDED.exists(), reason="embedded weights are missing")
needs_translate = pytest.mark.skipif(not TRANSLATE.exists(), reason="embedded weights are missing")


def llama(vocab_size: int = 64, **changes: Any) -> Any:
    torch.manual_seed(0)
    size = dict(
        vocab_size=vocab_size,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        pad_token_id=0,
    )
    return LlamaForCausalLM(LlamaConfig(**(size | changes))).eval()


def tokenizer(order: str = "abcdefgh", eos: str = "</s>") -> Any:
    """A byte-level tokenizer over a few letters, in this order."""
    names = ["<pad>", "<s>", "</s>", *order]
    core = Tokenizer(models.BPE(vocab={name: i for i, name in enumerate(names)}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="<pad>", bos_token="<s>", eos_token=eos
    )


def save(folder: Path, model: Any, tok: Any = None) -> str:
    model.save_pretrained(folder)
    if tok is not None:
        tok.save_pretrained(folder)
    return str(folder)


def test_local_folders_load_as_a_pair(tmp_path: Path) -> None:
    target = save(tmp_path / "target", llama(), tokenizer())
    draft = save(tmp_path / "draft", llama(num_hidden_layers=1), tokenizer())
    pair = pg.load_pair(target, draft=draft, precision="fp32")
    assert (pair.precision, pair.device.type, pair.vocab_size) == ("fp32", "cpu", 64)
    result = pg.decode(pair, "abc", "speculative", max_new_tokens=8, seed=0, eos_token_id=[])
    assert len(result.token_ids) == 8 and result.text is not None
    assert result.pair == "target" and str(tmp_path) not in json.dumps(result.to_dict())


def test_precision_is_that_of_the_weights(tmp_path: Path) -> None:
    folder = save(tmp_path, llama(), tokenizer())
    draft = save(tmp_path / "draft", llama(), tokenizer())
    pair = pg.load_pair(folder, draft=draft, precision="bf16")
    assert pair.precision == "bf16" and pair.target.dtype == torch.bfloat16
    with pytest.raises(ValueError, match="precision: 'fp7' is not allowed; use one of"):
        pg.load_pair(folder, draft=draft, precision="fp7")


def test_the_default_precision_is_the_fastest_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The probe is asked with the target's shapes and decides; int8 where both models can."""
    target = save(tmp_path / "target", llama(), tokenizer())
    drafts = save(tmp_path / "llama", llama(), tokenizer()), str(tmp_path / "gpt2")
    small = GPT2Config(
        vocab_size=64, n_embd=32, n_layer=1, n_head=4, bos_token_id=1, eos_token_id=2
    )
    save(tmp_path / "gpt2", GPT2LMHeadModel(small), tokenizer())
    asked = []

    def probe(shapes: Any, device: torch.device, int8: bool, few_bits: bool, folder: Path) -> str:
        asked.append((shapes[48, 32], device.type, int8, few_bits))
        return "int8" if int8 else "fp32"

    monkeypatch.setattr("playground.models.fastest", probe)
    found = [pg.load_pair(target, "cpu", draft=draft).precision for draft in drafts]
    assert found == ["int8", "fp32"]
    assert asked == [(4, "cpu", True, False), (4, "cpu", False, False)]
    pg.load_pair(target, draft=drafts[0], precision="bf16")
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("other", "reason"),
    [(tokenizer("hgfedcba"), "differ"), (tokenizer(eos="a"), "eos")],
    ids=["permuted tokens", "another end token"],
)
def test_different_tokenizers_are_refused(tmp_path: Path, other: Any, reason: str) -> None:
    """Cases 33 and 34: contents and special ids are compared, not sizes; no other draft serves."""
    target = save(tmp_path / "target", llama(), tokenizer())
    draft = save(tmp_path / "draft", llama(), other)
    with pytest.raises(ValueError, match=f"draft: its tokenizer differs .*{reason}"):
        pg.load_pair(target, draft=draft)


class Bomb:
    """Unpickling one leaves a file behind."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> Any:
        return Path.touch, (self._mark,)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.ckpt"])
def test_pickles_are_never_read(tmp_path: Path, name: str) -> None:
    """Only safetensors: a folder with a pickled checkpoint alone is refused, by a name."""
    folder, mark = save(tmp_path / "model", llama(), tokenizer()), tmp_path / "exploded"
    (tmp_path / "model" / name).write_bytes(pickle.dumps({"x": Bomb(mark)}))
    pg.load_pair(folder, precision="fp32")  # beside sound weights it is only not looked at
    (tmp_path / "model" / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=f"pair: 'model' cannot .* never read: {name}"):
        pg.load_pair(folder, precision="fp32")
    assert not mark.exists()


def with_code(folder: Path, mark: Path, model_type: str) -> None:
    """Make a saved model ask for code of its own, for model, configuration and tokenizer."""
    code = f"from pathlib import Path\nPath({str(mark)!r}).touch()\n"
    (folder / "own.py").write_text(code)
    for name, keys in (
        ("config.json", ("AutoConfig", "AutoModelForCausalLM")),
        ("tokenizer_config.json", ("AutoTokenizer",)),
    ):
        record = json.loads((folder / name).read_text())
        record["auto_map"] = {
            k: ["own.Own", "own.Own"] if k == "AutoTokenizer" else "own.Own" for k in keys
        }
        if name == "config.json":
            record["model_type"] = model_type
        (folder / name).write_text(json.dumps(record))


def test_code_of_a_repository_is_never_run(tmp_path: Path) -> None:
    """A model that transformers knows loads without it; any other is refused."""
    folder, mark = save(tmp_path / "model", llama(), tokenizer()), tmp_path / "ran"
    with_code(tmp_path / "model", mark, "llama")
    assert pg.load_pair(folder, precision="fp32").vocab_size == 64
    with_code(tmp_path / "model", mark, "own")
    with pytest.raises(
        ValueError, match="pair: 'model' .* code of its own repository, which is nev"
    ):
        pg.load_pair(folder, precision="fp32")
    assert not mark.exists()


def test_weights_under_another_name_are_safetensors_too(tmp_path: Path) -> None:
    folder = save(tmp_path / "model", llama(), tokenizer())
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    config["transformers_weights"] = "adapter_model.bin"
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="names weights that are not safetensors"):
        pg.load_pair(folder, precision="fp32")


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
@pytest.mark.parametrize("contents", [b"", b"{", b"\xff" * 100, b"[" * 10_000])
def test_a_broken_file_is_one_line_without_paths(
    tmp_path: Path, name: str, contents: bytes
) -> None:
    """The page shows the line to visitors, who need not know where the files lie."""
    folder = save(tmp_path / "model", llama(), tokenizer())
    (tmp_path / "model" / name).write_bytes(contents)
    with pytest.raises(ValueError, match="pair: 'model' cannot be loaded: .") as caught:
        pg.load_pair(folder, precision="fp32")
    assert len(str(caught.value).splitlines()) == 1 and str(tmp_path) not in str(caught.value)


def test_a_pair_that_does_not_fit_is_refused_before_any_weight_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save(tmp_path / "model", llama(), tokenizer())
    (tmp_path / "model" / "model.safetensors").write_bytes(b"not looked at")
    monkeypatch.setattr("playground.memory.available", lambda *_: 1000)
    with pytest.raises(
        ValueError, match=r"needs about 0\.0 GB of memory, and 0\.0 GB are free on cpu"
    ):
        pg.load_pair(folder, precision="fp32")


@pytest.mark.parametrize(
    "error",
    [MemoryError(), torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.")],
)
def test_memory_that_runs_out_while_loading_is_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    folder = save(tmp_path / "model", llama(), tokenizer())

    def failing(*_: Any, **__: Any) -> Any:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("playground.weights.load_model", failing)
        with pytest.raises(
            ValueError, match="pair: 'model' .*: memory ran out; use a smaller pair"
        ):
            pg.load_pair(folder, precision="fp32")
    assert pg.load_pair(folder, precision="fp32").vocab_size == 64


def test_ids_that_the_target_lacks_are_refused() -> None:
    """A tokenizer of more ids than the model has embeddings would fault a GPU for good; so would
    an added token that only a prompt may name."""
    with pytest.raises(ValueError, match="target: it knows 8 ids, and its tokenizer writes 11"):
        ModelPair(llama(8), tokenizer=tokenizer())
    tok = tokenizer()
    tok.add_tokens(["<extra>"])
    pair = ModelPair(llama(11), tokenizer=tok)
    with pytest.raises(ValueError, match="prompt: '<extra>' is not allowed"):
        pg.decode(pair, "ab<extra>", "greedy", raw=True)
    assert pg.decode(pair, "ab", "greedy", max_new_tokens=2, raw=True).token_ids


@needs_weights
def test_a_broken_copy_of_the_converted_weights_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy is an optimisation: half a file, as a full disk leaves it, costs the conversion."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    source = next((ASSETS / "models" / "chat-target").glob("*.gguf"))
    sound = _converted(source, torch.bfloat16)
    kept = next((tmp_path / "decoding-playground").glob("*.safetensors"))
    kept.write_bytes(kept.read_bytes()[:1000])
    again = _converted(source, torch.bfloat16)
    assert all(torch.equal(sound[name], again[name]) for name in sound)
    assert [path.name for path in kept.parent.iterdir()] == [kept.name]


def test_a_corrupt_weights_file_is_one_clear_error(tmp_path: Path) -> None:
    folder = save(tmp_path, llama(), tokenizer())
    (tmp_path / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(ValueError, match="pair: .* cannot be loaded"):
        pg.load_pair(pg.PairSpec("x", folder, None, "x"))


def test_missing_embedded_weights_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("playground.catalog.ASSETS", tmp_path)
    with pytest.raises(
        ValueError, match="weights are missing from assets/models: chat-target/.*gguf"
    ):
        pg.load_pair("chat")


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(ValueError, match="pair: 'nope' is not allowed; use one of 'chat'"):
        pg.load_pair("nope")
    with pytest.raises(ValueError, match="device: 'nope' is not allowed"):
        pg.load_pair("chat", device="nope")


def test_recurrent_models_are_refused_with_the_reason() -> None:
    """Cases 10 and 30."""
    mamba = MambaForCausalLM(MambaConfig(vocab_size=64, hidden_size=32, num_hidden_layers=1))
    with pytest.raises(ValueError, match="target: .*recurrent state"):
        ModelPair(mamba)
    with pytest.raises(ValueError, match="draft: .*recurrent state"):
        ModelPair(llama(), mamba)


def test_an_encoder_decoder_draft_needs_an_encoder_decoder_target() -> None:
    config = T5Config(
        vocab_size=64, d_model=32, d_kv=8, d_ff=48, num_layers=1, num_heads=4,
        decoder_start_token_id=0,
    )  # fmt: skip
    with pytest.raises(ValueError, match="draft: one model is an encoder-decoder"):
        ModelPair(llama(), T5ForConditionalGeneration(config))


def test_overlong_requests_are_refused_before_any_model_runs() -> None:
    """Case 55: prompt, or prompt and output, beyond a context; the next run works."""
    short = GPT2LMHeadModel(
        GPT2Config(vocab_size=64, n_embd=32, n_layer=1, n_head=4, n_positions=32, eos_token_id=2,
                   bos_token_id=1)
    )  # fmt: skip
    pair = ModelPair(llama(), short)
    calls: list[int] = []
    short.register_forward_hook(lambda *_: calls.append(1))
    with pytest.raises(ValueError, match="prompt: '200 tokens' .*at most 64"):
        pg.decode(pair, [1] * 200, "greedy", max_new_tokens=1)
    with pytest.raises(ValueError, match="max_new_tokens: 30 .*at most 12: the draft's context"):
        pg.decode(pair, [1] * 20, "speculative", max_new_tokens=30)
    assert not calls
    kept = pg.decode(pair, [1] * 20, "speculative", max_new_tokens=12, eos_token_id=[], seed=0)
    assert len(kept.token_ids) == 12


@pytest.mark.parametrize(
    "prompt", [[], [64], [-1], [1.5], [[1, 2], [3]], [True], b"\x05\x06", {5: 6}]
)
def test_bad_ids_are_refused(prompt: Any) -> None:
    """Cases 2 and 40 among them: one prompt at a time, so no batch changes its lengths."""
    with pytest.raises(ValueError, match=r"prompt: .* use one flat list of token ids from 0 to 63"):
        pg.decode(ModelPair(llama()), prompt, "greedy")


def test_text_needs_a_tokenizer() -> None:
    with pytest.raises(ValueError, match="prompt: 'abc' .* this pair has no tokenizer"):
        pg.decode(ModelPair(llama()), "abc", "greedy")


@needs_weights
def test_the_embedded_target_is_the_gguf_file() -> None:
    """Weights under transformers' names, every one used; converted once, then read back equal."""
    folder = ASSETS / "models" / "chat-target"
    raw = read_llama(next(folder.glob("*.gguf")))
    pair = pg.load_pair("chat", precision="fp32")
    state = pair.target.state_dict()
    assert raw.keys() == state.keys() - {"lm_head.weight"}
    assert all(torch.equal(raw[key], state[key]) for key in raw)


@needs_weights
def test_the_embedded_draft_shares_the_targets_embeddings() -> None:
    pair = pg.load_pair("chat")
    shared = pair.target.get_input_embeddings().weight
    assert pair.draft.get_input_embeddings().weight.data_ptr() == shared.data_ptr()


@needs_weights
def test_the_embedded_pair_answers_a_question() -> None:
    """The main job: a real model, a real prompt, text in the language of the question."""
    pair = pg.load_pair("chat")
    result = pg.decode(pair, "What is the capital of France?", "greedy", max_new_tokens=16)
    assert result.text is not None and "Paris" in result.text


@needs_weights
def test_a_read_only_cache_folder_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The converted copy is an optimisation: without it the weights are converted again."""
    blocked = tmp_path / "file"
    save_file({"x": torch.zeros(1)}, blocked)
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    assert pg.load_pair("chat").vocab_size == 49152


@needs_translate
@pytest.mark.parametrize("lean", [True, False])
def test_the_translation_pair_writes_what_transformers_writes(lean: bool) -> None:
    """Greedy ids of target and draft in float32, by either forward, as `generate` gives them."""
    pair = pg.load_pair("translate", precision="fp32")
    verses = ["And God said, Let there be light: and there was light.", "The king went up."]
    for model in (pair.target, pair.draft):
        alone = ModelPair(model, tokenizer=pair.tokenizer, lean=lean)
        for verse in verses:
            ids = pair.tokenizer(verse, return_tensors="pt")["input_ids"]
            theirs = model.generate(ids, max_new_tokens=40, do_sample=False)[0, 1:].tolist()
            assert pg.decode(alone, verse, "greedy", max_new_tokens=40).token_ids == theirs


@needs_translate
def test_the_translation_pair_translates() -> None:
    """A verse in, clean French out: the tokenizer joins its pieces to words, with accents."""
    pair = pg.load_pair("translate")
    result = pg.decode(pair, "And God said unto Moses, Speak.", "greedy", max_new_tokens=32)
    assert result.text is not None and result.text.startswith("Dieu dit à Moïse")
    assert result.finish_reason == "eos"
    assert (
        pair.tokenizer.decode(pair.encode("L'été, il a dit: Oui.")[:-1]) == "L'été, il a dit: Oui."
    )


@needs_translate
def test_the_translation_draft_is_much_cheaper_than_its_target() -> None:
    """One decoder layer against eight over one vocabulary; both files are small."""
    pair = pg.load_pair("translate")
    layers = [model.config.num_decoder_layers for model in (pair.target, pair.draft)]
    assert layers == [8, 1] and pair.target.config.vocab_size == pair.draft.config.vocab_size
    for folder in ("translate-target", "translate-draft"):
        assert (ASSETS / "models" / folder / "model.safetensors").stat().st_size < 40e6
