r"""Let the target write both sides of conversations: a user's turn, then the reply.

Templates (`chat_draft.py corpus`) ask many questions in few ways; turns that the target makes up
itself are what a draft meets least often in them. Source and licence: the target's weights only
(`assets/models/chat-target`, Apache-2.0). Appends to `WORK/self-corpus.jsonl.gz`, one conversation
a line: `p` prompt ids, `r` reply ids, `T` the temperature of the reply.

`../data/chat-corpus-3.jsonl.gz` is the files of these two, one behind the other:

    python -m assets.recipes.self_chat --work ONE --seed 11 --batches 15
    python -m assets.recipes.self_chat --work TWO --seed 12 --batches 15
"""

import argparse
import gzip
import json
import random
import time
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer

from assets.recipes.chat_target import END, TARGET, load_target, write_prompts, write_replies
from assets.recipes.shards import read_lines

TURN_TOKENS, REPLY_TOKENS = 64, 192
TURN_TEMPERATURES = (0.8, 1.0)


def frame(tokenizer: Any) -> tuple[list[int], list[int]]:
    """The chat template's ids before a user's turn and after it (up to the reply)."""
    mark = tokenizer.encode("Q")[0]
    ids = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Q"}], add_generation_prompt=True, return_dict=False
    )
    at = len(ids) - 1 - ids[::-1].index(mark)
    return ids[:at], ids[at + 1 :]


def main() -> None:
    """Parse the command line and write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", type=Path, required=True, help="working folder")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batches", type=int, default=15)
    parser.add_argument("--batch", type=int, default=192, help="conversations in a batch")
    parser.add_argument("--templates", type=float, default=0.25, help="share of templated turns")
    parser.add_argument("--shares", type=float, nargs=3, default=[0.2, 0.4, 0.4])
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    path = args.work / "self-corpus.jsonl.gz"
    done = len(read_lines(path)) // args.batch if path.exists() else 0
    tokenizer = AutoTokenizer.from_pretrained(TARGET)
    before, after = frame(tokenizer)
    model = load_target()
    model.config._attn_implementation = "grouped"
    for number in range(done, args.batches):
        began = time.perf_counter()
        seed = args.seed * 1_000_003 + 7_919 + number
        rng, generator = random.Random(seed), torch.Generator().manual_seed(seed)
        num_own = round(args.batch * (1 - args.templates))
        warmth = rng.choices(TURN_TEMPERATURES, k=num_own)
        turns = write_replies(model, [before] * num_own, warmth, TURN_TOKENS, generator)
        turns = [turn[: turn.index(END)] if END in turn else turn for turn in turns]
        for text in write_prompts(args.batch - num_own, rng):
            turns.append(tokenizer.encode(text))
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
