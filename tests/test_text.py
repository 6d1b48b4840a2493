"""Text from ids and ids from text, on small real tokenizers of every kind, built offline.

Every statement about text compares with the tokenizer's own decoding of the whole sequence.
"""

from __future__ import annotations

import ast
import random
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors, trainers
from tokenizers import pre_tokenizers as pre
from transformers import AutoTokenizer, ByT5Tokenizer, PreTrainedTokenizerFast

from playground import text as text_module
from playground.text import (
    StopStrings,
    TextStream,
    cut_pieces,
    encode_prompt,
    full_text,
    names_of,
    pieces,
    vocabulary_mismatch,
)

Fast: Any = PreTrainedTokenizerFast  # its methods have no types

FAMILY = "👨\u200d👩\u200d👧"
PYTHON = "def add(a, b):\n    if a:\n\t\treturn a  +  b\n\n\n        # end  \n"
TEXTS = [
    FAMILY,
    f"A family {FAMILY}{FAMILY} and 汉字, नमस्ते दुनिया!",
    "  two leading spaces, and trailing  ",
    PYTHON,
    "a \ufffd genuine \ufffd\ufffd one",
    "don't stop . now , ' yes ' ?",
    "NUL \x00 and \x1b[0m control \u202e characters",
]
CORPUS = [*TEXTS, "the cat sat on the mat", "Paris is the capital", "汉字汉字", "नमस्ते नमस्ते"]
SMOL = Path(__file__).parent.parent / "assets" / "models" / "chat-target"
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
LLAMA_CHAT = "{{ bos_token }}{% for m in messages %}[INST] {{ m['content'] }} [/INST]{% endfor %}"


@cache
def byte_level() -> Any:
    """GPT-2 style, with an added, not special, token whose text is outside its alphabet."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre.ByteLevel.alphabet()
    core.train_from_iterator(
        CORPUS,
        trainers.BpeTrainer(
            vocab_size=420, special_tokens=names, initial_alphabet=alphabet, show_progress=False
        ),
    )
    core.add_tokens([AddedToken("<工具 tool>", normalized=False)])
    tokenizer = Fast(tokenizer_object=core, eos_token=names[2])
    tokenizer.chat_template = CHATML
    return tokenizer


def sentence_pieces(special: Sequence[str], with_bytes: bool) -> models.Unigram:
    words = ["▁the", "▁cat", "▁Paris", "▁is", "▁", "▁▁", "▁▁▁▁", "汉", "न", "'", "\ufffd", "\n"]
    vocab = [(name, 0.0) for name in special]
    vocab += [(f"<0x{byte:02X}>", -20.0) for byte in range(256)] if with_bytes else []
    vocab += [(word, -2.0) for word in words]
    vocab += [(chr(letter), -6.0) for letter in range(33, 127) if chr(letter) != "'"]
    return models.Unigram(vocab, special.index("<unk>"), byte_fallback=with_bytes)


def llama_with(strip: int) -> Any:
    """Leading spaces and byte fallback; <s> is added, and the template writes it, too."""
    core = Tokenizer(sentence_pieces(["<unk>", "<s>", "</s>"], with_bytes=True))
    core.pre_tokenizer = pre.Metaspace()
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    core.decoder = decoders.Sequence([*steps, decoders.Strip(" ", strip, 0)])
    core.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 1)]
    )
    tokenizer = Fast(tokenizer_object=core, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    tokenizer.chat_template = LLAMA_CHAT
    return tokenizer


@cache
def llama() -> Any:
    return llama_with(strip=1)


@cache
def far_stripping() -> Any:
    """A fast decoder that strips more than one token's space: not one we know."""
    return llama_with(strip=3)


@cache
def t5() -> Any:
    """Metaspace decoding, </s> at the end, no template and no BOS."""
    core = Tokenizer(sentence_pieces(["<pad>", "</s>", "<unk>"], with_bytes=False))
    core.pre_tokenizer = pre.Metaspace()
    core.decoder = decoders.Metaspace()
    core.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A $B </s>", special_tokens=[("</s>", 1)]
    )
    return Fast(tokenizer_object=core, eos_token="</s>", unk_token="<unk>", pad_token="<pad>")


@cache
def word_piece() -> Any:
    words = [
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "the",
        "cat",
        "##s",
        "don",
        "'",
        "t",
        "n't",
        ".",
        "汉",
        "##ing",
    ]
    vocab = {word: i for i, word in enumerate([*words, *"abcdefghijklm"])}
    core = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    core.normalizer = normalizers.BertNormalizer()
    core.pre_tokenizer = pre.BertPreTokenizer()
    core.decoder = decoders.WordPiece()
    core.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return Fast(tokenizer_object=core, cls_token="[CLS]", sep_token="[SEP]", unk_token="[UNK]")


@cache
def suffixed() -> Any:
    """GPT-1 style: a mark at a word's end becomes a space only when another token follows."""
    vocab = {word: i for i, word in enumerate(["a", "b", "a</w>", "b</w>", "!</w>"])}
    core = Tokenizer(models.BPE(vocab, [], end_of_word_suffix="</w>"))
    core.decoder = decoders.BPEDecoder(suffix="</w>")
    return Fast(tokenizer_object=core)


@cache
def byt5() -> Any:
    """A slow tokenizer, bytes as tokens; its decoder drops what is not UTF-8."""
    return ByT5Tokenizer()


class ByteLevelOfItsOwn(Fast):  # type: ignore[misc]
    """Like Whisper's: a known decoder, and a method that does something more."""

    def _decode(self, *args: Any, **options: Any) -> str:
        return str(super()._decode(*args, **options)).strip()


@cache
def overridden() -> Any:
    return ByteLevelOfItsOwn(tokenizer_object=byte_level().backend_tokenizer)


@cache
def smol() -> Any:
    if not (SMOL / "tokenizer.json").exists():
        pytest.skip("assets/models/chat-target has no tokenizer.json")
    return AutoTokenizer.from_pretrained(SMOL)


class FakeTokenizer:
    """A tokenizer of our own: a list of tokens, 0 is special, and any decoding of the rest."""

    all_special_ids = (0,)

    def __init__(self, tokens: Sequence[str], decode: Callable[[str], str]) -> None:
        self.tokens, self.rewrite = ["<eos>", *tokens], decode

    def __len__(self) -> int:
        return len(self.tokens)

    def convert_ids_to_tokens(self, token_id: int) -> str:
        return self.tokens[token_id]

    def decode(self, ids: Sequence[int], **options: bool) -> str:
        return self.rewrite("".join(self.tokens[i] for i in ids if i != 0))


@cache
def stripping() -> Any:
    """Like the slow SentencePiece tokenizers, which strip both ends of whatever they decode."""
    return FakeTokenizer(
        ["▁a", "b", "▁", "▁▁", "\n", "\ufffd"], lambda t: t.replace("▁", " ").strip()
    )


@cache
def rewriting() -> Any:
    """Not prefix-stable: a token changes the text of the one before it."""
    return FakeTokenizer(["▁a", "▁'", "b", "▁"], lambda t: t.replace("▁", " ").replace(" ' ", "'"))


@cache
def split_bytes() -> Any:
    """Byte-level text from a tokenizer that does not say so."""
    alphabet = [chr(b) for b in b"ab \n"] + [chr(b) for b in FAMILY.encode()] + ["\xff"]
    return FakeTokenizer(alphabet, lambda t: t.encode("latin-1").decode("utf-8", "replace"))


@cache
def alternating() -> Any:
    """A token's text depends on its place: no window can tell it, so nothing ever settles."""
    return FakeTokenizer(
        ["a", "b"], lambda t: "".join(c.upper() if i % 2 else c for i, c in enumerate(t))
    )


REAL = [byte_level, llama, t5, word_piece, suffixed, byt5, smol]
ALL = [*REAL, far_stripping, overridden, stripping, rewriting, split_bytes, alternating]
TOKENIZERS = pytest.mark.parametrize("make", ALL, ids=lambda make: make.__name__)
REAL_TOKENIZERS = pytest.mark.parametrize("make", REAL, ids=lambda make: make.__name__)


def stream(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """What each push returns, then the flush."""
    text_stream = TextStream(tokenizer)
    return [*(text_stream.push(i) for i in ids), text_stream.flush()]


def byte_ids(tokenizer: Any, data: bytes) -> list[int]:
    """One id for each byte."""
    if tokenizer is llama():
        return list(tokenizer.convert_tokens_to_ids([f"<0x{byte:02X}>" for byte in data]))
    chars = {byte: char for char, byte in text_module._BYTE_OF_CHAR.items()}
    return list(tokenizer.convert_tokens_to_ids([chars[byte] for byte in data]))


def check_text(tokenizer: Any, ids: Sequence[int]) -> None:
    """Pieces and pushes join to the full text, and a push never shows what will not stay."""
    whole = full_text(tokenizer, ids)
    parts, pushes = pieces(tokenizer, ids), stream(tokenizer, ids)
    assert len(parts) == len(ids) and "".join(parts) == whole
    assert "".join(pushes) == whole
    for part, token_id in zip(parts, ids, strict=True):
        assert part == "" or token_id >= len(tokenizer) or not names_of(tokenizer).special(token_id)


def encode(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False))


# ---------------------------------------------------------------- text from ids


@REAL_TOKENIZERS
@pytest.mark.parametrize("text", TEXTS)
def test_pieces_and_stream_join_to_the_full_text(make: Callable[[], Any], text: str) -> None:
    """Cases 47 and 49: emoji families, 汉字, नमस्ते, spaces and code lose and gain nothing."""
    tokenizer = make()
    ids = encode(tokenizer, text)
    check_text(tokenizer, ids)
    if make in (byte_level, smol):
        assert "".join(pieces(tokenizer, ids)) == text


@TOKENIZERS
@settings(max_examples=80, derandomize=True, deadline=None)
@given(data=st.data())
def test_any_ids_join(make: Callable[[], Any], data: st.DataObject) -> None:
    """Case 47: the same for sequences that no tokenizer would write, with ids of a padded head."""
    tokenizer = make()
    beyond = 20 if getattr(tokenizer, "is_fast", False) else 0
    ids = st.integers(0, len(tokenizer) - 1 + beyond)
    check_text(tokenizer, data.draw(st.lists(ids, max_size=25)))


@settings(max_examples=150, derandomize=True, deadline=None)
@given(
    data=st.lists(st.sampled_from([*FAMILY.encode()[:8], *"é\ufffd".encode(), 0x41, 0xED, 0xFF]))
)
def test_any_bytes_join(data: list[int]) -> None:
    """Case 47: valid, broken and unfinished UTF-8, one byte a token, in both byte vocabularies."""
    check_text(byte_level(), byte_ids(byte_level(), bytes(data)))
    check_text(llama(), byte_ids(llama(), bytes(data)))
    check_text(byt5(), [b + 3 for b in data])


@TOKENIZERS
def test_stream_shows_only_what_stays(make: Callable[[], Any]) -> None:
    """Case 47: at no step does the text shown differ from the beginning of the final text."""
    tokenizer, rng = make(), random.Random(0)
    for _ in range(50):
        ids = [rng.randrange(len(tokenizer)) for _ in range(20)]
        shown, whole = "", full_text(tokenizer, ids)
        for push in stream(tokenizer, ids):
            shown += push
            assert whole.startswith(shown)


def test_half_a_character_is_held_and_the_rest_is_shown() -> None:
    """Case 47: no U+FFFD while a character is incomplete; its last byte's token completes it."""
    tokenizer = byte_level()
    ids = byte_ids(tokenizer, "a汉b".encode())
    assert stream(tokenizer, ids) == ["a", "", "", "汉", "b", ""]
    assert stream(tokenizer, ids[:3]) == ["a", "", "", "\ufffd"]
    assert pieces(tokenizer, ids[:3]) == ["a", "", "\ufffd"]
    end = tokenizer.eos_token_id
    assert pieces(tokenizer, [*ids[:3], end]) == ["a", "", "\ufffd", ""]
    assert pieces(tokenizer, [*ids[:2], end, *ids[2:]]) == ["a", "", "", "", "汉", "b"]


def test_a_genuine_replacement_character_is_shown_at_once() -> None:
    """Case 47: U+FFFD written by the model is text, not a sign of an incomplete character."""
    ids = byte_ids(byte_level(), "\ufffd".encode())
    assert stream(byte_level(), ids) == ["", "", "\ufffd", ""]
    broken = byte_ids(byte_level(), b"\xff\xff\xff")
    assert stream(byte_level(), broken) == ["\ufffd"] * 3 + [""]
    own = llama().convert_tokens_to_ids("\ufffd")
    assert stream(llama(), [own, own]) == ["\ufffd", "\ufffd", ""]


def test_byte_fallback_pieces_belong_to_their_bytes() -> None:
    """Case 47: a run of byte tokens is UTF-8 or one U+FFFD a byte, known when the run ends."""
    ids = byte_ids(llama(), "汉字".encode())
    the = llama().convert_tokens_to_ids("▁the")
    bad = llama().convert_tokens_to_ids("<0xFF>")
    assert pieces(llama(), [*ids, the]) == ["", "", "汉", "", "", "字", " the"]
    assert stream(llama(), [*ids, the]) == [""] * 6 + ["汉字 the", ""]
    assert pieces(llama(), [the, *ids[:3], bad]) == ["the"] + ["\ufffd"] * 4


def test_leading_spaces_stay_after_the_first_token() -> None:
    """Case 49: only the text's first space is the tokenizer's own; pieces keep every other one."""
    for tokenizer in (llama(), t5()):
        ids = encode(tokenizer, "the cat is")
        assert pieces(tokenizer, ids) == ["the", " cat", " is"]
        assert stream(tokenizer, ids) == ["the", " cat", " is", ""]


def test_blank_tokens_keep_their_blanks() -> None:
    """Case 51: indentation and line breaks arrive as they are, token by token."""
    ids = encode(byte_level(), PYTHON)
    assert "".join(stream(byte_level(), ids)) == PYTHON
    blanks = llama().convert_tokens_to_ids(["▁the", "\n", "▁▁▁▁", "▁▁", "▁the", "▁"])
    assert pieces(llama(), blanks) == ["the", "\n", "    ", "  ", " the", " "]
    assert "".join(stream(stripping(), [1, 3, 4, 2, 5, 4])) == "a   b"
    check_text(far_stripping(), llama().convert_tokens_to_ids(["▁the", "▁", "▁▁", "▁the"]))


def test_special_tokens_have_a_name_and_no_text() -> None:
    end, word = byte_level().convert_tokens_to_ids(["<|im_end|>", "the"])
    start = byte_level().convert_tokens_to_ids("<|im_start|>")
    assert names_of(byte_level()).special(end) == "<|im_end|>"
    assert names_of(byte_level()).special(start) == "<|im_start|>"  # special, though no attribute's
    assert names_of(byte_level()).special(word) is None
    assert names_of(byte_level()).special(10_000) is None
    assert pieces(byte_level(), [start, word, end]) == ["", "the", ""]


def test_no_ids_have_no_text() -> None:
    assert pieces(byte_level(), []) == []
    assert TextStream(byte_level()).flush() == ""
    assert pieces(byte_level(), [0, 0]) == ["", ""]


@TOKENIZERS
def test_streaming_costs_the_same_for_every_token(
    make: Callable[[], Any], monkeypatch: Any
) -> None:
    """Case 70: the ids decoded grow in proportion to the text, even where nothing ever settles."""
    tokenizer, rng, decoded = make(), random.Random(1), 0
    plain = text_module.full_text

    def counting(tokenizer: Any, ids: Sequence[int]) -> str:
        nonlocal decoded
        decoded += len(ids)
        return plain(tokenizer, ids)

    monkeypatch.setattr(text_module, "full_text", counting)
    for ids in ([rng.randrange(len(tokenizer)) for _ in range(1500)], [len(tokenizer) - 1] * 1500):
        decoded = 0
        stream(tokenizer, ids)
        assert decoded <= 60 * len(ids)


@pytest.mark.parametrize("length", range(8))
def test_cut_pieces(length: int) -> None:
    parts = ["ab", "", "cde", "fg"]
    cut = cut_pieces(parts, length)
    assert len(cut) == 4 and "".join(cut) == "abcdefg"[:length]
    assert cut_pieces(parts, 3) == ["ab", "", "c", ""]


@pytest.mark.parametrize("length", [-1, 8])
def test_cut_pieces_refuses_other_lengths(length: int) -> None:
    with pytest.raises(ValueError, match=rf"length: {length} .* from 0 to 7"):
        cut_pieces(["ab", "", "cde", "fg"], length)


# ---------------------------------------------------------------- ids from text


def test_one_bos_in_a_chat() -> None:
    """Case 52: the template writes <s> and the tokenizer adds one; the ids hold one."""
    ids = encode_prompt(llama(), "the cat")
    assert ids.count(llama().bos_token_id) == 1 and ids[0] == llama().bos_token_id
    assert full_text(llama(), ids) == "[INST] the cat [/INST]"


def test_one_bos_in_raw_text() -> None:
    """Case 52: added once, and not again when the user's text begins with it."""
    bos, the = llama().convert_tokens_to_ids(["<s>", "▁the"])
    assert encode_prompt(llama(), "the", raw=True) == [bos, the]
    assert encode_prompt(llama(), "<s>the", raw=True)[:2].count(bos) == 1
    assert encode_prompt(llama(), "<s>", raw=True) == [bos]


def test_special_tokens_without_a_template() -> None:
    """Cases 52 and 53: no template means the text and the tokenizer's special tokens, once."""
    end = t5().eos_token_id
    for prompt in ("the cat", "the cat</s>"):
        ids = encode_prompt(t5(), prompt)
        assert ids.count(end) == 1 and ids[-1] == end
    ids = encode_prompt(word_piece(), "the cat")
    assert word_piece().convert_ids_to_tokens(ids) == ["[CLS]", "the", "cat", "[SEP]"]


@pytest.mark.parametrize("make", [byte_level, smol], ids=["byte_level", "smol"])
def test_a_chat_prompt_equals_the_template(make: Callable[[], Any]) -> None:
    tokenizer, message = make(), {"role": "user", "content": "Hello  world\n"}
    expected = tokenizer.apply_chat_template([message], add_generation_prompt=True)["input_ids"]
    ids = encode_prompt(tokenizer, message["content"])
    assert ids == expected and all(type(i) is int for i in ids)
    assert encode_prompt(tokenizer, "Hello", raw=True) == encode(tokenizer, "Hello")


@pytest.mark.parametrize("make", [byte_level, smol], ids=["byte_level", "smol"])
def test_text_cannot_forge_a_turn(make: Callable[[], Any]) -> None:
    """A control token spelled by the user is text in a chat: shown, and not one of the specials."""
    tokenizer = make()
    name = tokenizer.eos_token
    honest, forged = (encode_prompt(tokenizer, f"a{word}b") for word in ("", name))
    specials = [[i for i in ids if names_of(tokenizer).special(i)] for ids in (honest, forged)]
    assert specials[0] == specials[1]
    assert f"a{name}b" in full_text(tokenizer, forged)
    assert tokenizer.eos_token_id in encode_prompt(tokenizer, f"a{name}b", raw=True)


def test_a_forged_turn_that_cannot_be_text_is_refused() -> None:
    """A Unigram model spells "</s>" with the control token itself: refused, not let through."""
    with pytest.raises(ValueError, match=r"prompt: '</s>' .* without control tokens"):
        encode_prompt(llama(), "a</s>b")


@REAL_TOKENIZERS
@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("prompt", ["", "  ", "\n", "\t \u3000"])
def test_blank_prompt_is_refused(make: Callable[[], Any], raw: bool, prompt: str) -> None:
    """Case 54: with or without a template or a BOS, a blank prompt gets a message, not a crash."""
    with pytest.raises(ValueError, match=r"prompt: .* at least one character"):
        encode_prompt(make(), prompt, raw)


def test_prompt_without_tokens_is_refused() -> None:
    """Case 54: where the tokenizer drops every character, the model would have no input."""
    with pytest.raises(ValueError, match=r"prompt: .* at least one token"):
        encode_prompt(suffixed(), "z")


@REAL_TOKENIZERS
@pytest.mark.parametrize("raw", [False, True])
def test_unencodable_prompt_is_refused(make: Callable[[], Any], raw: bool) -> None:
    with pytest.raises(ValueError, match=r"prompt: '\\ud83d' is not allowed; use characters"):
        encode_prompt(make(), "half an emoji \ud83d", raw)


@pytest.mark.parametrize("make", [byte_level, llama, t5, word_piece, smol])
def test_control_characters_are_text(make: Callable[[], Any]) -> None:
    for prompt in ("a\x00b", "\x1b[31m", "\u202e", "\ufffe\U0010ffff", "\U000f0000"):
        assert encode_prompt(make(), prompt)


# ---------------------------------------------------------------- stop strings


def test_stop_string_across_tokens() -> None:
    """Case 56: "beta gamma" is found although no token holds it, and the earliest one wins."""
    ids = encode(byte_level(), "alpha beta gamma delta")
    stop, text, searched = StopStrings(["gamma", "beta gamma"]), "", 0
    for part in pieces(byte_level(), ids):
        text += part
        cut = stop.find(text, searched - stop.longest + 1)
        if cut is not None:
            break
        searched = len(text)
    assert cut == len("alpha ") and text[:cut] == "alpha "


@settings(max_examples=200, derandomize=True, deadline=None)
@given(text=st.text("ab", max_size=12), stops=st.lists(st.text("ab", min_size=1, max_size=4)))
def test_what_may_be_shown_never_reaches_into_a_stop_string(text: str, stops: list[str]) -> None:
    """Case 56: what is shown while text grows is a beginning of the text before the match."""
    stop, shown = StopStrings(stops[:3]), 0
    for end in range(len(text) + 1):
        cut = stop.find(text[:end], end - 1 - stop.longest)
        if cut is not None:
            assert shown <= cut
            return
        shown = max(shown, stop.safe_length(text[:end]))
    assert shown + stop.longest > len(text) or not stop


def test_the_beginning_of_a_stop_string_is_withheld_then_released() -> None:
    """Case 56: "Pari" stays back while "Paris" may come, and is shown once it cannot."""
    stop = StopStrings("Paris")
    assert stop.safe_length("in Pari") == len("in ")
    assert stop.safe_length("in Parma") == len("in Parma")
    assert stop.find("in Paris!") == stop.safe_length("in Paris") == len("in ")
    assert stop.find("Paris", 1) is None and stop.find("Paris", -7) == 0


@pytest.mark.parametrize("none", [None, [], ()])
def test_no_stop_strings(none: Any) -> None:
    stop = StopStrings(none)
    assert not stop and stop.longest == 0
    assert stop.find("text") is None and stop.safe_length("text") == 4
    assert StopStrings("x") and StopStrings(["x"] * 16)


@pytest.mark.parametrize(
    "bad", ["", [""], ["a", ""], [1], 7, {"a": 1}, b"a", "x" * 201, ["x"] * 17]
)
def test_bad_stop_strings_are_refused(bad: Any) -> None:
    with pytest.raises(ValueError, match=r"stop: .* 16 strings of 1 to 200 characters"):
        StopStrings(bad)


# ---------------------------------------------------------------- vocabularies


def spelled(words: Sequence[str], **special: str) -> Any:
    core = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="a"))
    return Fast(tokenizer_object=core, **special)


def test_equal_vocabularies_match() -> None:
    """Case 33: two loads of one vocabulary, or one with more entries behind the same ids."""
    short, long = spelled("abcde", eos_token="e"), spelled("abcdefg", eos_token="e")
    assert vocabulary_mismatch(short, spelled("abcde", eos_token="e")) is None
    assert vocabulary_mismatch(short, long) is None and vocabulary_mismatch(long, short) is None


def test_permuted_vocabulary_is_refused() -> None:
    """Case 33: same size, same tokens, other ids; the first difference is named."""
    reason = vocabulary_mismatch(spelled("abcde"), spelled("abdce"))
    assert reason is not None and "id 2" in reason and "'c'" in reason and "'d'" in reason


def test_different_added_token_is_refused() -> None:
    """Case 33: added tokens count."""
    target, draft = spelled("abc"), spelled("abc")
    target.add_tokens(["<x>"])
    draft.add_tokens(["<y>"])
    reason = vocabulary_mismatch(target, draft)
    assert reason is not None and "id 3" in reason and "<x>" in reason and "<y>" in reason


@pytest.mark.parametrize("name", ["bos", "eos", "pad", "unk"])
def test_different_special_token_is_refused(name: str) -> None:
    """Case 33: the same contents, another id for the end (or the start, padding, unknown)."""
    first, second = (spelled("abcde", **{f"{name}_token": token}) for token in "de")
    reason = vocabulary_mismatch(first, second)
    assert reason is not None and f"{name}_token_id is 3" in reason and "4" in reason
    assert vocabulary_mismatch(first, spelled("abcde")) is not None


def test_no_model_library_is_imported() -> None:
    """Tokenizers are passed in: beside the standard library there is only the common error."""
    tree = ast.parse(Path(text_module.__file__).read_text())
    names = [a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names]
    names += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    foreign = {name for name in names if name.split(".")[0] not in sys.stdlib_module_names}
    assert foreign == {"playground.params"}
