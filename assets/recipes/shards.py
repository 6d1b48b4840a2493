"""What the target thought of whole conversations, kept on disk for the recipes of its drafts."""

import argparse
import gzip
import hashlib
import json
import math
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import torch
from safetensors.torch import save_file
from torch import Tensor

SHARD = 256  # conversations in a file


class Conversation(Protocol):
    """ids of prompt and reply, and how many of them are the prompt's."""

    ids: Tensor
    num_prompt: int


T = TypeVar("T", bound=Conversation)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """All conversations of a corpus."""
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file]


def is_held_out(prompt: list[int]) -> bool:
    """One prompt in twenty, whatever corpus it is in."""
    return hashlib.sha256(json.dumps(prompt).encode()).digest()[0] * 20 < 256


def write_shards(
    args: argparse.Namespace,
    key: str,
    think: Callable[[Tensor], Tensor],
    kept: Callable[[dict[str, Any]], slice],
) -> None:
    """Files of `args.corpus` in the folder WORK/key: ids, lengths, temperatures and, under `key`,
    the rows `kept` of what the target thinks, think(ids [B, L]) [B, L, ...], of a conversation."""
    folder = args.work / key
    folder.mkdir(exist_ok=True)
    talks = read_lines(args.corpus)
    name = args.corpus.name.split(".")[0]
    for index in range(math.ceil(len(talks) / SHARD)):
        part = talks[index * SHARD : (index + 1) * SHARD]
        path = folder / f"{name}-{index:05d}.safetensors"
        if path.exists() or (len(part) < SHARD and not args.last):
            continue
        start = time.perf_counter()
        states: list[Tensor] = [torch.empty(0)] * len(part)
        order = sorted(range(len(part)), key=lambda i: len(part[i]["p"]) + len(part[i]["r"]))
        for begin in range(0, len(order), 16):
            rows = order[begin : begin + 16]
            ids = [torch.tensor(part[i]["p"] + part[i]["r"]) for i in rows]
            found = think(torch.nn.utils.rnn.pad_sequence(ids, batch_first=True))
            for row, i in enumerate(rows):
                states[i] = found[row, kept(part[i])].clone()
        shard = {
            "ids": torch.tensor([t for talk in part for t in talk["p"] + talk["r"]]).int(),
            "lengths": torch.tensor([[len(t["p"]), len(t["r"])] for t in part]).int(),
            "temperature": torch.tensor([float(t["T"]) for t in part]),
            key: torch.cat(states),
        }
        temporary = path.with_suffix(".part")
        save_file(shard, temporary)
        temporary.rename(path)
        rate = len(shard[key]) / (time.perf_counter() - start)
        print(f"{path.name}: {len(shard[key])} positions, {rate:.0f} a second", flush=True)


class Corpus(Generic[T]):
    """All shards in a folder, each read by `read`; `refresh` picks up those that have appeared."""

    def __init__(self, folder: Path, read: Callable[[Path], list[T]]) -> None:
        self.folder, self.read = folder, read
        self.seen: set[Path] = set()
        self.train: list[T] = []
        self.held_out: dict[str, list[T]] = {}
        self.refresh()

    def refresh(self) -> None:
        """Read new files."""
        for path in sorted(set(self.folder.glob("*.safetensors")) - self.seen):
            self.seen.add(path)
            name = path.stem.rsplit("-", 1)[0]
            for talk in self.read(path):
                if is_held_out(talk.ids[: talk.num_prompt].tolist()):
                    self.held_out.setdefault(name, []).append(talk)
                else:
                    self.train.append(talk)

    def batches(self, rng: random.Random, num_tokens: int) -> Iterator[list[T]]:
        """Epoch after epoch, conversations of like length together, in random order."""
        while True:
            self.refresh()
            talks = sorted(self.train, key=lambda t: len(t.ids) + rng.random() * 16)
            groups: list[list[T]] = [[]]
            for talk in talks:
                if (len(groups[-1]) + 1) * len(talk.ids) > num_tokens:
                    groups.append([])
                groups[-1].append(talk)
            rng.shuffle(groups)
            yield from groups
