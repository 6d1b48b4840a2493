"""Ids <-> text pieces, safe for characters that are split over tokens.

Beside `session.py` this is the only room where text exists. A tokenizer is any object with
transformers' tokenizer interface, fast or slow.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import takewhile
from typing import Any
from weakref import WeakKeyDictionary, ref

from playground.params import fail

Tokenizer = Any  # fast and slow ones share an interface but no base class that we could import

MAX_STOP_STRINGS, MAX_STOP_LENGTH = 16, 200
_WINDOW = 64  # tokens that an unknown decoder may look at for every new one
# Under these decoders a token's text depends on its neighbours alone.
_LOCAL_DECODERS = {"Metaspace", "WordPiece", "BPEDecoder", "Replace ByteFallback Fuse"}
_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
# GPT-2's alphabet: printable bytes stand for themselves, the others for characters from 256 on.
_PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
_OTHERS = sorted(set(range(256)) - set(_PRINTABLE))
_BYTE_OF_CHAR = {chr(byte): byte for byte in _PRINTABLE} | {
    chr(256 + i): byte for i, byte in enumerate(_OTHERS)
}


def full_text(tokenizer: Tokenizer, ids: Iterable[int]) -> str:
    """The text of `ids` without special tokens: the reference for every piece and stream."""
    options = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
    return str(tokenizer.decode(list(ids), **options))


class Names:
    """What single tokens of a tokenizer are called, each looked up once. See `names_of`."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer: Callable[[], Tokenizer] = ref(tokenizer)  # it may be a key of `_names`
        added = getattr(tokenizer, "added_tokens_decoder", {})
        special = {i for i, token in added.items() if getattr(token, "special", False)}
        self._special_ids = special.union(tokenizer.all_special_ids)
        self._shown: dict[int, str] = {}
        self._silent: dict[int, bool] = {}

    def special(self, token_id: int) -> str | None:
        """The name of a special token ("<|im_end|>"), None for an ordinary one."""
        if token_id not in self._special_ids:
            return None
        return str(self._tokenizer().convert_ids_to_tokens(token_id))

    def shown(self, token_id: int) -> str:
        """What stands for the token in a list: its special name, or else its text alone."""
        if token_id not in self._shown:
            own = self.special(token_id) or full_text(self._tokenizer(), [token_id])
            self._shown[token_id] = own
        return self._shown[token_id]

    def is_silent(self, token_id: int) -> bool:
        """Whether decoding skips it: a special token, or an id beyond the vocabulary (padded
        head)."""
        if token_id not in self._silent:
            self._silent[token_id] = self._skipped(token_id)
        return self._silent[token_id]

    def _skipped(self, token_id: int) -> bool:
        tokenizer = self._tokenizer()
        odd = token_id in self._special_ids or tokenizer.convert_ids_to_tokens(token_id) is None
        return odd and full_text(tokenizer, [token_id]) == ""


_names: WeakKeyDictionary[Tokenizer, tuple[Any, Names]] = WeakKeyDictionary()


def names_of(tokenizer: Tokenizer) -> Names:
    """The names of its tokens, kept from run to run for as long as it is left as it is."""
    stamp = len(tokenizer), tokenizer.all_special_ids
    kept = _names.get(tokenizer)
    if kept is None or kept[0] != stamp:
        kept = _names[tokenizer] = stamp, Names(tokenizer)
    return kept[1]


def _decoder_steps(tokenizer: Tokenizer) -> str:
    """The steps of a fast tokenizer's decoder, "" where we do not know how it decodes."""
    try:
        homes = [type(tokenizer).decode.__module__, type(tokenizer)._decode.__module__]
        state = json.loads(tokenizer.backend_tokenizer.decoder.__getstate__())
    except (AttributeError, TypeError, ValueError):
        return ""
    steps = state.get("decoders", [state])
    if not all(home.startswith("transformers.tokenization_utils") for home in homes):
        return ""  # Whisper, CodeGen and others decode in a way of their own.
    if any(step.get("stop", 0) > 0 or step.get("start", 0) > 1 for step in steps):
        return ""  # Stripping an end, or more than one character, reaches past a neighbour.
    return " ".join(step["type"] for step in steps)


class _ByteLevelSplitter:
    """Byte-level BPE: every token's bytes are known, so nothing is decoded twice or held."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_id: int) -> list[str]:
        token = self._tokenizer.convert_ids_to_tokens(token_id)
        known = all(char in _BYTE_OF_CHAR for char in token)  # else an added token, in plain text
        data = bytes(_BYTE_OF_CHAR[char] for char in token) if known else token.encode()
        return [self._utf8.decode(data)]

    def settle(self) -> list[str]:
        return []


class _WindowSplitter:
    """Decodes waiting tokens after the tokens settled just before them, never the whole text.

    With a known (local) decoder only byte tokens wait: byte fallback judges a run of them as a
    whole, which is UTF-8 or else one U+FFFD per byte. With any other decoder a token waits until
    the next one leaves its text unchanged, and for ever where a window cannot tell.
    """

    def __init__(self, tokenizer: Tokenizer, steps: str) -> None:
        self._tokenizer, self._text = tokenizer, partial(full_text, tokenizer)
        self._local = steps.removesuffix(" Strip") in _LOCAL_DECODERS
        self._has_bytes = "ByteFallback" in steps or not self._local
        self._context: list[int] = []
        self._waiting: list[int] = []

    def push(self, token_id: int) -> list[str]:
        """The pieces now certain, one per token, continuing with the oldest that has none."""
        waits = not self._local or self._byte(token_id) is not None
        certain = not waits if self._local else self._survives(token_id)
        pieces = self.settle() if certain else []
        self._waiting.append(token_id)
        return pieces if waits else pieces + self.settle()

    def settle(self) -> list[str]:
        """The pieces of the waiting tokens, as if no other token could change them."""
        if not self._waiting:
            return []
        ids, before = self._waiting, self._text(self._context)
        text = self._text(self._context + ids)[len(before) :]
        self._context, self._waiting = ids[-_WINDOW:], []
        return _share(text, [self._byte(token_id) for token_id in ids])

    def _survives(self, token_id: int) -> bool:
        """Whether the text of the waiting tokens stays, and suffices as context from now on."""
        count = len(self._waiting)
        if not count or (count > _WINDOW and count & (count - 1)):
            return False  # A long wait is looked at only as it doubles: O(1) per token, amortised.
        if self._byte(self._waiting[-1]) and self._byte(token_id):
            return False  # a run of bytes goes on
        old, kept = self._context + self._waiting, self._waiting[-_WINDOW:]
        before, text, whole = map(self._text, (self._context, old, [*old, token_id]))
        context, restarted = map(self._text, (kept, [*kept, token_id]))
        return (
            text[len(before) :].strip() != ""  # a decoder may strip a context of blanks
            and not text.endswith("\ufffd")  # perhaps the first half of a character
            and whole == text + restarted[len(context) :]
        )

    def _byte(self, token_id: int) -> bytes | None:
        match = _BYTE_TOKEN.fullmatch(self._tokenizer.convert_ids_to_tokens(token_id))
        return bytes.fromhex(match[1]) if match and self._has_bytes else None


def _share(text: str, data: list[bytes | None]) -> list[str]:
    """The text of a run, shared among its tokens: by their bytes where known, else to the last."""
    utf8 = codecs.getincrementaldecoder("utf-8")("ignore")
    by_bytes = [utf8.decode(byte or b"") for byte in data]
    if "".join(by_bytes) == text:
        return by_bytes
    one_each = text == "\ufffd" * len(data)
    return list(text) if one_each else [""] * (len(data) - 1) + [text]


def _splitter(tokenizer: Tokenizer) -> _ByteLevelSplitter | _WindowSplitter:
    steps = _decoder_steps(tokenizer)
    byte_level = steps == "ByteLevel"
    return _ByteLevelSplitter(tokenizer) if byte_level else _WindowSplitter(tokenizer, steps)


class TextStream:
    """Text from ids that come one at a time, never half a character; O(1) decoding per token.

    The pushes and the flush, joined, equal `full_text` of the ids.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer, self._splitter = tokenizer, _splitter(tokenizer)
        self._names = names_of(tokenizer)
        self._ids: list[int] = []
        self._num_shown = 0

    def push(self, token_id: int) -> str:
        """The text that is now certain, beyond what was returned before."""
        self._ids.append(token_id)
        silent = self._names.is_silent(token_id)
        text = "" if silent else "".join(self._splitter.push(token_id))
        self._num_shown += len(text)
        return text

    def flush(self) -> str:
        """The rest, at the end; a character left incomplete becomes U+FFFD."""
        rest = full_text(self._tokenizer, self._ids)[self._num_shown :]
        self._num_shown += len(rest)
        return rest


def pieces(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """One piece of text per id; joined they equal `full_text` exactly.

    A split character belongs to the token that completes it, an incomplete tail to the last token
    that has text. Special tokens get "".
    """
    splitter, result = _splitter(tokenizer), [""] * len(ids)
    silent = names_of(tokenizer).is_silent
    ordinary = [i for i, token_id in enumerate(ids) if not silent(token_id)]
    settled = [piece for i in ordinary for piece in splitter.push(ids[i])] + splitter.settle()
    for i, piece in zip(ordinary, settled, strict=True):
        result[i] = piece
    text, joined = full_text(tokenizer, ids), "".join(result)
    if joined != text:  # an incomplete tail, or a decoder that rewrote what had settled
        pairs = zip(joined, text, strict=False)
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        result = cut_pieces(result, shared)
        result[ordinary[-1] if ordinary else -1] += text[shared:]
    return result


def cut_pieces(pieces: Sequence[str], length: int) -> list[str]:
    """The pieces, trimmed so that their join has exactly `length` characters.

    Raises ValueError if `length` is negative or beyond the join.
    """
    total = sum(map(len, pieces))
    if not 0 <= length <= total:
        raise fail("length", length, f"a whole number from 0 to {total}")
    result: list[str] = []
    for piece in pieces:
        result.append(piece[:length])
        length -= len(result[-1])
    return result


def encode_prompt(tokenizer: Tokenizer, prompt: str, raw: bool = False) -> list[int]:
    """Ids of a user's prompt, each special token once.

    With a chat template, unless `raw`: one user message and the start of the answer, with only the
    special tokens that the template writes; those that the user's text spells become plain text
    (`sanitize_control_tokens`), so that nobody can forge a turn. Otherwise: the text and the
    tokenizer's own special tokens, and text that spells a special token means that token.

    Raises ValueError naming `prompt` for an empty, blank or unencodable one.
    """
    if not isinstance(prompt, str) or not prompt.strip():
        raise fail("prompt", prompt, "a text with at least one character that is not blank")
    try:
        prompt.encode()
    except UnicodeEncodeError as error:
        raise fail("prompt", prompt[error.start], "characters that UTF-8 can encode") from None
    typed = tokenizer.encode(prompt, add_special_tokens=False)
    chat = not raw and bool(getattr(tokenizer, "chat_template", None))
    ids = _encode_chat(tokenizer, prompt, typed) if chat else _add_special(tokenizer, prompt, typed)
    if not ids:
        raise fail("prompt", prompt, "a text that has at least one token")
    return ids


def _encode_chat(tokenizer: Tokenizer, prompt: str, typed: list[int]) -> list[int]:
    added = getattr(tokenizer, "added_tokens_decoder", {})
    spelled = [str(added[token_id]) for token_id in typed if token_id in added]
    options = {"add_generation_prompt": True, "return_dict": False}
    if spelled:
        options["sanitize_control_tokens"] = True
    try:
        chat = [{"role": "user", "content": prompt}]
        return list(tokenizer.apply_chat_template(chat, **options))
    except ValueError as error:
        if not spelled:
            raise
        # Such a vocabulary builds the control token even from its letters.
        raise fail("prompt", ", ".join(spelled), "text without control tokens") from error


def _add_special(tokenizer: Tokenizer, prompt: str, typed: list[int]) -> list[int]:
    """The typed ids between the tokenizer's special tokens, unless they are typed already."""
    whole = tokenizer.encode(prompt, add_special_tokens=True)
    for start in range(len(whole) - len(typed) + 1):
        first, middle, last = (
            whole[:start],
            whole[start:][: len(typed)],
            whole[start + len(typed) :],
        )
        if middle == typed:
            first = [] if typed[: len(first)] == first else first
            last = [] if typed[len(typed) - len(last) :] == last else last
            return [*first, *typed, *last]
    return list(whole)


class StopStrings:
    """Strings that end a text. False when there are none.

    `longest`: the length of the longest one, in characters. Raises ValueError naming `stop`.
    """

    def __init__(self, stop: str | Sequence[str] | None) -> None:
        given = [] if stop is None else [stop] if isinstance(stop, str) else stop
        allowed = f"up to {MAX_STOP_STRINGS} strings of 1 to {MAX_STOP_LENGTH} characters"
        if not isinstance(given, (list, tuple)) or len(given) > MAX_STOP_STRINGS:
            raise fail("stop", stop, allowed)
        for text in given:
            if not isinstance(text, str) or not 1 <= len(text) <= MAX_STOP_LENGTH:
                raise fail("stop", text, allowed)
        self._strings = tuple(given)
        self.longest = max(map(len, given), default=0)

    def __bool__(self) -> bool:
        return bool(self._strings)

    def find(self, text: str, start: int = 0) -> int | None:
        """Where the earliest stop string begins in `text`, at or after `start`; None if nowhere."""
        found = [text.find(string, max(start, 0)) for string in self._strings]
        return min((index for index in found if index >= 0), default=None)

    def safe_length(self, text: str) -> int:
        """How many characters may be shown: not an end that is, or may become, a stop string."""
        for held in range(min(self.longest, len(text)), 0, -1):
            if any(string.startswith(text[-held:]) for string in self._strings):
                return len(text) - held
        return len(text)


def vocabulary_mismatch(target_tokenizer: Tokenizer, draft_tokenizer: Tokenizer) -> str | None:
    """Why a draft cannot propose ids to the target, in one sentence; None if it can.

    Ids that both have must be the same tokens (added ones included), and bos, eos, pad and unk the
    same ids. One vocabulary may be longer, since heads are padded.
    """
    sides = target_tokenizer, draft_tokenizer
    target, draft = ({i: token for token, i in side.get_vocab().items()} for side in sides)
    shared = sorted(target.keys() & draft.keys())
    if not shared:
        return "The vocabularies of target and draft have no id in common."
    for i in shared:
        if target[i] != draft[i]:
            words = f"{target[i]!r} for the target, {draft[i]!r} for the draft"
            return f"The vocabularies differ: id {i} is {words}."
    for name in ("bos_token_id", "eos_token_id", "pad_token_id", "unk_token_id"):
        wanted, found = (getattr(side, name, None) for side in sides)
        if wanted != found:
            words = f"{wanted} for the target, {found} for the draft"
            return f"The special tokens differ: {name} is {words}."
    return None
