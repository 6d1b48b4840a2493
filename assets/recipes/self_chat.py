r"""Let the target write both sides of conversations: a user's turn, then the reply.

Templates (`chat_draft.py corpus`) ask many questions in few ways; turns that the target makes up
itself are what a draft meets least often in them. With `--quote` the turns ask for a summary or a
translation of passages that the target wrote in earlier corpora, where the drafts were weakest.
Source and licence: the target's weights only (`assets/models/chat-target`, Apache-2.0). Appends to
`WORK/self-corpus.jsonl.gz`, one conversation a line: `p` prompt ids, `r` reply ids, `T` the
temperature of the reply.

`../data/chat-corpus-3.jsonl.gz` is the files of these two, one behind the other:

    python -m assets.recipes.self_chat --work ONE --seed 11 --batches 15
    python -m assets.recipes.self_chat --work TWO --seed 12 --batches 15

and `../data/chat-corpus-4.jsonl.gz` is that of

    python -m assets.recipes.self_chat --work FOUR --seed 13 --batches 16 --batch 256 \
        --quote assets/data/chat-corpus-2.jsonl.gz assets/data/chat-corpus-3.jsonl.gz
"""

import argparse
import gzip
import json
import random
import re
import time
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer

from assets.recipes.chat_target import END, TARGET, load_target, write_prompts, write_replies
from assets.recipes.shards import read_lines

TURN_TOKENS, REPLY_TOKENS = 64, 192
TURN_TEMPERATURES = (0.8, 1.0)
LANGUAGES = ["French"] * 6 + ["Spanish", "German", "Italian", "Portuguese", "Latin"]
SUMMARISE = [  # {p}: a paragraph
    "Summarize this text in one or two sentences.\n\n{p}",
    "Summarize this text in one sentence.\n\n{p}",
    "Summarize: {p}",
    "Summarise the following paragraph.\n\n{p}",
    "{p}\n\nWrite a short summary of the text above.",
    "What is the main idea of this text?\n\n{p}",
    "tl;dr: {p}",
]
TRANSLATE = [  # {s}: a sentence
    "Translate into {lang}: {s}",
    "Translate to {lang}: {s}",
    "Translate this sentence into {lang}.\n\n{s}",
    'How do you say "{s}" in {lang}?',
]
PARAGRAPH, SENTENCE = (120, 500), (15, 120)  # characters


def frame(tokenizer: Any) -> tuple[list[int], list[int]]:
    """The chat template's ids before a user's turn and after it (up to the reply)."""
    mark = tokenizer.encode("Q")[0]
    ids = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Q"}], add_generation_prompt=True, return_dict=False
    )
    at = len(ids) - 1 - ids[::-1].index(mark)
    return ids[:at], ids[at + 1 :]


def passages(tokenizer: Any, paths: list[Path]) -> tuple[list[str], list[str]]:
    """Paragraphs and sentences of the replies in corpora, each once."""
    paragraphs, sentences = {}, {}
    for talk in (talk for path in paths for talk in read_lines(path)):
        text = tokenizer.decode(talk["r"], skip_special_tokens=True)
        for paragraph in (p.strip() for p in text.split("\n")):
            if PARAGRAPH[0] <= len(paragraph) <= PARAGRAPH[1] and paragraph[-1] in ".!?":
                paragraphs[paragraph] = None
            for sentence in re.findall(r"[A-Z][^.!?]*[.!?]", paragraph):
                if SENTENCE[0] <= len(sentence) <= SENTENCE[1]:
                    sentences[sentence] = None
    return list(paragraphs), list(sentences)


def quote(paragraphs: list[str], sentences: list[str], rng: random.Random) -> str:
    """A turn that asks for a summary or a translation of a passage."""
    if rng.random() < 0.5:
        return rng.choice(SUMMARISE).format(p=rng.choice(paragraphs))
    return rng.choice(TRANSLATE).format(lang=rng.choice(LANGUAGES), s=rng.choice(sentences))


def own_turns(
    model: Any,
    tokenizer: Any,
    before: list[int],
    args: argparse.Namespace,
    rng: random.Random,
    generator: torch.Generator,
) -> list[list[int]]:
    """A batch of turns that the target makes up, and some of templates."""
    num_own = round(args.batch * (1 - args.templates))
    warmth = rng.choices(TURN_TEMPERATURES, k=num_own)
    turns = write_replies(model, [before] * num_own, warmth, TURN_TOKENS, generator)
    turns = [turn[: turn.index(END)] if END in turn else turn for turn in turns]
    for text in write_prompts(args.batch - num_own, rng):
        turns.append(tokenizer.encode(text))
    return turns


def main() -> None:
    """Parse the command line and write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", type=Path, required=True, help="working folder")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batches", type=int, default=15)
    parser.add_argument("--batch", type=int, default=192, help="conversations in a batch")
    parser.add_argument("--templates", type=float, default=0.25, help="share of templated turns")
    parser.add_argument("--quote", type=Path, nargs="+", help="corpora; all turns quote them")
    parser.add_argument("--shares", type=float, nargs=3, default=[0.2, 0.4, 0.4])
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    path = args.work / "self-corpus.jsonl.gz"
    done = len(read_lines(path)) // args.batch if path.exists() else 0
    tokenizer = AutoTokenizer.from_pretrained(TARGET)
    before, after = frame(tokenizer)
    model = load_target()
    model.config._attn_implementation = "grouped"
    quoted = passages(tokenizer, args.quote) if args.quote else None
    for number in range(done, args.batches):
        began = time.perf_counter()
        seed = args.seed * 1_000_003 + 7_919 + number
        rng, generator = random.Random(seed), torch.Generator().manual_seed(seed)
        if quoted is not None:
            turns = [tokenizer.encode(quote(*quoted, rng)) for _ in range(args.batch)]
        else:
            turns = own_turns(model, tokenizer, before, args, rng, generator)
        prompts = sorted((before + turn + after for turn in turns), key=len)
        warmth = rng.choices([0.0, 0.7, 1.0], args.shares, k=len(prompts))
        replies = write_replies(model, prompts, warmth, REPLY_TOKENS, generator)
        lines = "".join(
            json.dumps({"p": p, "r": r, "T": t}) + "\n"
            for p, r, t in zip(prompts, replies, warmth, strict=True)
        )
        with path.open("ab") as file:
            file.write(gzip.compress(lines.encode()))
        num_tokens, seconds = sum(map(len, replies)), time.perf_counter() - began
        print(
            f"batch {number}: {num_tokens} reply tokens, {num_tokens / seconds:.0f} a second",
            flush=True,
        )


if __name__ == "__main__":
    main()
