r"""Make the chat draft: a two-layer Llama that imitates SmolLM2-135M-Instruct.

Sources and licences: the target's weights (`assets/models/chat-target`, Apache-2.0) and text that
the target wrote itself; the prompts are templates of this project (`chat_prompts.json`). Nothing
else goes in, so the draft is a derivative of SmolLM2 and carries its licence.

Reads `assets/models/chat-target`, `chat_prompts.json` and, if given, an older corpus in the same
format. Writes into a working folder outside the repository (`--work`), except `export`:

- `corpus`   `extra-corpus.jsonl.gz`: one conversation a line, `p` prompt ids, `r` reply ids, `T`
- `hidden`   `hidden/NAME-00000.safetensors`: ids and the target's last hidden states (normed)
- `train`    `NAME.safetensors` (float32, averaged weights) and `NAME.jsonl` (the curve)
- `evaluate` prints held-out figures as one line of JSON
- `export`   `assets/models/chat-draft`: `config.json` and `model.safetensors` (bfloat16, and
             `head_ids`, the 16,384 ids that the draft writes)

The draft shares the target's embeddings as input and output head; they stay frozen and are not in
the exported file. Every twentieth prompt (by hash) is held out from training.

What made the shipped file, from the repository's root, OLD being an earlier corpus of 1,504
conversations (`chat-corpus.jsonl.gz`), RUN standing for
`python -m assets.recipes.chat_draft --work WORK`:

    RUN hidden OLD --last
    RUN corpus --pools 2
    RUN train --name warm --rate 8e-3 --warm 20 --steps 120 --every 60
    RUN hidden WORK/extra-corpus.jsonl.gz
    RUN train --name phase1 --start WORK/warm.safetensors --rate 6e-3 --warm 30 --average 0.997 \
        --steps 1600 --every 200
    RUN train --name phase2 --start WORK/phase1.safetensors --rate 5e-3 --warm 30 --average 0.98 \
        --tv 0.7 --steps 1300 --cool 1300
    RUN evaluate WORK/phase2.safetensors
    RUN export WORK/phase2.safetensors

Seeds are fixed, but new files of hidden states joined phase 1 while it ran, and sums in bfloat16
depend on the processor: a second run gives a like draft, not the same bits.
"""

import argparse
import gzip
import hashlib
import json
import math
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional as F
from transformers import (
    AutoTokenizer,
    LlamaConfig,
    LlamaModel,
)

from assets.recipes.chat_target import (
    ASSETS,
    TARGET,
    load_target,
    read_target,
    write_prompts,
    write_replies,
)
from assets.recipes.shards import Corpus, read_lines, write_shards

DRAFT = ASSETS / "models" / "chat-draft"

# ---------------------------------------------------------------------------- corpus


def make_corpus(args: argparse.Namespace) -> None:
    """Let the target answer templated prompts; every batch is appended to the file at once."""
    path = args.work / "extra-corpus.jsonl.gz"
    tokenizer = AutoTokenizer.from_pretrained(TARGET)
    model = load_target()
    model.config._attn_implementation = "grouped"
    done = len(read_lines(path)) if path.exists() else 0
    num_tokens, start = 0, time.perf_counter()
    for pool in range(done // args.pool, args.pools):
        rng = random.Random(args.seed * 1_000_003 + pool)
        generator = torch.Generator().manual_seed(args.seed * 1_000_003 + pool)
        turns = write_prompts(args.pool, rng)
        prompts = [
            tokenizer.apply_chat_template(
                [{"role": "user", "content": turn}], add_generation_prompt=True, return_dict=False
            )
            for turn in turns
        ]
        prompts.sort(key=len)
        for begin in range(0, args.pool, args.batch):
            batch = prompts[begin : begin + args.batch]
            warmth = rng.choices([0.0, 0.7, 1.0], args.shares, k=len(batch))
            if pool * args.pool + begin < done:
                continue
            replies = write_replies(model, batch, warmth, args.max_new_tokens, generator)
            lines = "".join(
                json.dumps({"p": p, "r": r, "T": t}) + "\n"
                for p, r, t in zip(batch, replies, warmth, strict=True)
            )
            with path.open("ab") as file:
                file.write(gzip.compress(lines.encode()))
            num_tokens += sum(map(len, replies))
            rate = num_tokens / (time.perf_counter() - start)
            print(f"pool {pool}: {num_tokens} reply tokens, {rate:.0f} a second", flush=True)


# ---------------------------------------------------------------------------- hidden states


@torch.inference_mode()
def make_hidden(args: argparse.Namespace) -> None:
    """Store what the target thinks at every reply position, so that its law costs one product."""
    model = load_target()

    def think(ids: Tensor) -> Tensor:
        return model.model(input_ids=ids, use_cache=False).last_hidden_state

    def reply(talk: dict[str, Any]) -> slice:
        first = len(talk["p"]) - 1
        return slice(first, first + len(talk["r"]))

    write_shards(args, "hidden", think, reply)


@dataclass(frozen=True, slots=True)
class Talk:
    """One conversation: ids [prompt + reply], the target's hidden states [reply, width]."""

    ids: Tensor
    num_prompt: int
    hidden: Tensor
    temperature: float


def read_shard(path: Path) -> list[Talk]:
    """The conversations of one file of hidden states."""
    shard = load_file(path)
    talks, at_id, at_state = [], 0, 0
    for (prompt, reply), warmth in zip(
        shard["lengths"].tolist(), shard["temperature"].tolist(), strict=True
    ):
        ids = shard["ids"][at_id : at_id + prompt + reply].long()
        hidden = shard["hidden"][at_state : at_state + reply]
        talks.append(Talk(ids, prompt, hidden, warmth))
        at_id, at_state = at_id + prompt + reply, at_state + reply
    return talks


# ---------------------------------------------------------------------------- the draft


def draft_config(num_layers: int) -> LlamaConfig:
    """The target's configuration with fewer layers."""
    config = LlamaConfig.from_pretrained(TARGET)
    config.num_hidden_layers = num_layers
    return config


def new_draft(layers: list[int]) -> tuple[LlamaModel, Tensor]:
    """A float32 draft that begins as some layers of the target, and the frozen embeddings [V, d].

    The draft's own `embed_tokens` is emptied: the embeddings are looked up outside.
    """
    state = read_target()
    embeddings = state["model.embed_tokens.weight"]
    draft = LlamaModel(draft_config(len(layers)))
    draft.embed_tokens = torch.nn.Embedding(1, 1)
    mine = {"norm.weight": state["model.norm.weight"]}
    for new, old in enumerate(layers):
        prefix = f"model.layers.{old}."
        mine |= {
            f"layers.{new}.{name.removeprefix(prefix)}": weight
            for name, weight in state.items()
            if name.startswith(prefix)
        }
    draft.load_state_dict(mine, strict=False)
    draft.embed_tokens.requires_grad_(False)
    return draft, embeddings


def weights_of(draft: LlamaModel) -> dict[str, Tensor]:
    """What is trained and shipped: everything but the embeddings."""
    return {n: w.detach() for n, w in draft.state_dict().items() if "embed_tokens" not in n}


def pack(talks: list[Talk]) -> tuple[Tensor, Tensor, Tensor]:
    """Right-padded ids [B, L], flat indices of the reply positions [N], target states [N, d]."""
    ids = torch.nn.utils.rnn.pad_sequence([t.ids[:-1] for t in talks], batch_first=True)
    width = ids.shape[1]
    where = [
        torch.arange(t.num_prompt - 1, len(t.ids) - 1) + row * width for row, t in enumerate(talks)
    ]
    return ids, torch.cat(where), torch.cat([t.hidden for t in talks])


def think(draft: LlamaModel, embeddings: Tensor, ids: Tensor, where: Tensor) -> Tensor:
    """The draft's normed hidden states [N, d] at some positions."""
    with torch.autocast("cpu", torch.bfloat16):
        inputs = F.embedding(ids, embeddings)
        hidden = draft(inputs_embeds=inputs, use_cache=False).last_hidden_state
    return hidden.flatten(0, 1)[where]


# ---------------------------------------------------------------------------- training


@torch.no_grad()
def descend(
    draft: Tensor, target: Tensor, head: Tensor, bias: Tensor, tv: float
) -> tuple[Tensor, float]:
    """Gradient of (1 - tv) KL(target || draft) + tv TV(target, draft) by the draft's states.

    States [N, d]; head [K, d]; bias [K] is added to both logits (a column that stands for many
    others carries the logarithm of how many). Returns the gradient of the mean over N, [N, d],
    and the mean overlap (1 - TV). Written out by hand because only a block of laws is ever held.
    """
    gradient = torch.empty_like(draft)
    overlap = 0.0
    for begin in range(0, len(draft), 256):
        rows = slice(begin, begin + 256)
        q = torch.softmax((target[rows] @ head.T).float().add_(bias), -1)
        p = torch.softmax((draft[rows].to(head.dtype) @ head.T).float().add_(bias), -1)
        slope = p - q
        overlap += len(p) - slope.abs().sum().item() / 2
        if tv:
            below = torch.where(slope < 0, p, 0.0)
            share = below.sum(-1, keepdim=True)
            slope.mul_(1 - tv).add_(p.mul_(share).sub_(below), alpha=tv)
        gradient[rows] = slope.to(head.dtype) @ head
    return gradient / len(draft), overlap / len(draft)


@torch.no_grad()
def commonest(talks: list[Talk], embeddings: Tensor) -> list[int]:
    """All ids, those first to which the target gives most mass on average."""
    some = random.Random(0).sample(talks, min(200, len(talks)))
    mass = torch.zeros(len(embeddings))
    for talk in some:
        mass += torch.softmax((talk.hidden @ embeddings.T).float(), -1).sum(0)
    return mass.argsort(descending=True, stable=True).tolist()


class Head:
    """The commonest ids exactly, and a fresh random part of the rest that stands for all of it."""

    def __init__(self, order: list[int], embeddings: Tensor, common: int, others: int) -> None:
        self.embeddings, self.others = embeddings, others
        self.rest = torch.tensor(order[common:])
        self.common = embeddings[torch.tensor(order[:common])]
        self.bias = torch.zeros(common + others)
        self.bias[common:] = math.log(len(self.rest) / others)

    def draw(self, generator: torch.Generator) -> Tensor:
        """Output rows [common + others, d] for one step."""
        chosen = torch.randint(len(self.rest), (self.others,), generator=generator)
        return torch.cat([self.common, self.embeddings[self.rest[chosen]]])


def optimisers(draft: LlamaModel, kind: str, rate: float) -> list[torch.optim.Optimizer]:
    """Muon for the matrices (or AdamW for all), AdamW for the norms."""
    matrices = [w for w in draft.parameters() if w.requires_grad and w.ndim == 2]
    norms = [w for w in draft.parameters() if w.requires_grad and w.ndim == 1]
    if kind == "muon":
        main = torch.optim.Muon(
            matrices, lr=rate, weight_decay=0.01, adjust_lr_fn="match_rms_adamw"
        )
    else:
        main = torch.optim.AdamW(matrices, lr=rate, betas=(0.9, 0.98), weight_decay=0.01)
    return [main, torch.optim.AdamW(norms, lr=rate, betas=(0.9, 0.98), weight_decay=0.0)]


@torch.inference_mode()
def measure(
    draft: LlamaModel, embeddings: Tensor, talks: list[Talk], head_ids: Tensor | None = None
) -> dict[str, float]:
    """Mean overlap at temperature 1, argmax agreement and KL over the full vocabulary.

    With `head_ids` the draft may only propose those (its law elsewhere is zero; no KL then).
    """
    sums, count = torch.zeros(3, dtype=torch.double), 0
    for begin in range(0, len(talks), 8):
        ids, where, target = pack(talks[begin : begin + 8])
        hidden = think(draft, embeddings, ids, where).bfloat16()
        for rows in range(0, len(hidden), 128):
            q_log = (target[rows : rows + 128] @ embeddings.T).float().log_softmax(-1)
            logits = (hidden[rows : rows + 128] @ embeddings.T).float()
            if head_ids is not None:
                cut = torch.full_like(logits, -torch.inf)
                cut[:, head_ids] = logits[:, head_ids]
                logits = cut
            p_log = logits.log_softmax(-1)
            sums[0] += torch.minimum(p_log, q_log).exp().sum()
            sums[1] += (p_log.argmax(-1) == q_log.argmax(-1)).sum()
            if head_ids is None:
                sums[2] += (q_log.exp() * (q_log - p_log)).sum()
            count += len(q_log)
    overlap, agreement, kl = (round(x, 4) for x in (sums / count).tolist())
    figures = {"positions": count, "overlap": overlap, "agreement": agreement}
    return figures if head_ids is not None else figures | {"kl": kl}


def train(args: argparse.Namespace) -> None:
    """Distil; the averaged weights are measured and saved every `--every` steps."""
    torch.manual_seed(args.seed)
    corpus = Corpus(args.work / "hidden", read_shard)
    draft, embeddings = new_draft(args.layers)
    if args.start:
        draft.load_state_dict(load_file(args.start), strict=False)
    order = commonest(corpus.train, embeddings)
    head = Head(order, embeddings, args.common, args.others)
    held_out = next(iter(corpus.held_out.values()))  # the same while other corpora grow
    random.Random(0).shuffle(held_out)
    generator = torch.Generator().manual_seed(args.seed)
    steps = optimisers(draft, args.optimiser, args.rate)
    average = {name: weight.clone() for name, weight in weights_of(draft).items()}
    log = (args.work / f"{args.name}.jsonl").open("a")
    began, num_tokens, overlap = time.perf_counter(), 0, 0.0
    batches = map(pack, corpus.batches(random.Random(args.seed), args.batch))
    for step, (ids, where, target) in enumerate(batches, start=1):
        warm = min(1.0, step / args.warm)
        cool = min(1.0, (args.steps - step + 1) / max(1, args.cool))
        for optimiser in steps:
            optimiser.param_groups[0]["lr"] = args.rate * warm * cool
        hidden = think(draft, embeddings, ids, where)
        slope, batch_overlap = descend(hidden, target, head.draw(generator), head.bias, args.tv)
        hidden.backward(slope)
        for optimiser in steps:
            optimiser.step()
            optimiser.zero_grad()
        keep = min(args.average, step / (step + 10))
        for name, weight in weights_of(draft).items():
            average[name].lerp_(weight, 1 - keep)
        num_tokens += len(where)
        overlap += (batch_overlap - overlap) * max(0.02, 1 / step)
        if step % args.every == 0 or step == args.steps:
            seconds = time.perf_counter() - began
            live = {name: weight.clone() for name, weight in weights_of(draft).items()}
            draft.load_state_dict(average, strict=False)
            record = {"step": step, "minutes": round(seconds / 60, 1), "tokens": num_tokens}
            record |= {"train_overlap": round(overlap, 4), "talks": len(corpus.train)}
            record |= measure(draft, embeddings, held_out[: args.quick])
            draft.load_state_dict(live, strict=False)
            save_file(average, args.work / f"{args.name}.safetensors")
            print(json.dumps(record), file=log, flush=True)
            print(json.dumps(record), flush=True)
        if step == args.steps:
            break


# ---------------------------------------------------------------------------- the shipped folder


def evaluate(args: argparse.Namespace) -> None:
    """Held-out figures of some weights, by corpus and temperature of the reply."""
    corpus = Corpus(args.work / "hidden", read_shard)
    draft, embeddings = new_draft(args.layers)
    draft.load_state_dict(
        {name.removeprefix("model."): w.float() for name, w in load_file(args.weights).items()},
        strict=False,
    )
    head_ids = None
    if args.head:
        head_ids = torch.tensor(commonest(corpus.train, embeddings)[: args.head])
    for name, talks in corpus.held_out.items():
        print(name, json.dumps(measure(draft, embeddings, talks, head_ids)), flush=True)
        for warmth in sorted({t.temperature for t in talks}):
            part = [t for t in talks if t.temperature == warmth]
            figures = measure(draft, embeddings, part, head_ids)
            print(f"{name} T={warmth:.1f}", json.dumps(figures), flush=True)


def export(args: argparse.Namespace) -> None:
    """Write the draft as a transformers folder without embeddings. `head_ids` are the commonest
    ids, by the target's mass on the corpus: all that the draft writes."""
    weights = {f"model.{n}": w.bfloat16() for n, w in load_file(args.weights).items()}
    _, embeddings = new_draft([0, 1])
    order = commonest(Corpus(args.work / "hidden", read_shard).train, embeddings)
    weights["head_ids"] = torch.tensor(sorted(order[: args.head]), dtype=torch.int32)
    args.output.mkdir(parents=True, exist_ok=True)
    save_file(weights, args.output / "model.safetensors", metadata={"format": "pt"})
    (args.output / "model.safetensors").chmod(0o644)
    config = draft_config(1 + max(int(n.split(".")[2]) for n in weights if ".layers." in n))
    config.save_pretrained(args.output)
    print(args.output, hashlib.sha256((args.output / "model.safetensors").read_bytes()).hexdigest())


def main() -> None:
    """Parse the command line and run one step."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", type=Path, required=True, help="working folder")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    commands = parser.add_subparsers(required=True)

    command = commands.add_parser("corpus", help=make_corpus.__doc__)
    command.set_defaults(run=make_corpus)
    command.add_argument("--pools", type=int, default=8, help="pools of prompts in all")
    command.add_argument("--pool", type=int, default=1024, help="prompts in a pool")
    command.add_argument("--batch", type=int, default=128)
    command.add_argument("--max-new-tokens", type=int, default=192)
    command.add_argument(
        "--shares", type=float, nargs=3, default=[0.2, 0.4, 0.4], help="of T = 0, 0.7 and 1"
    )

    command = commands.add_parser("hidden", help=make_hidden.__doc__)
    command.set_defaults(run=make_hidden)
    command.add_argument("corpus", type=Path)
    command.add_argument("--last", action="store_true", help="also the last, shorter file")

    command = commands.add_parser("train", help=train.__doc__)
    command.set_defaults(run=train)
    command.add_argument("--name", default="draft")
    command.add_argument("--layers", type=int, nargs="+", default=[0, 1], help="to begin from")
    command.add_argument("--start", type=Path, help="weights to go on from")
    command.add_argument("--steps", type=int, default=1000)
    command.add_argument("--batch", type=int, default=2048, help="tokens with padding")
    command.add_argument("--optimiser", choices=["muon", "adamw"], default="adamw")
    command.add_argument("--rate", type=float, default=6e-3)
    command.add_argument("--warm", type=int, default=50, help="steps of rising rate")
    command.add_argument("--cool", type=int, default=0, help="last steps, of falling rate")
    command.add_argument("--average", type=float, default=0.99, help="decay of averaged weights")
    command.add_argument("--tv", type=float, default=0.0, help="share of TV in the loss")
    command.add_argument("--common", type=int, default=8192, help="ids always in the head")
    command.add_argument("--others", type=int, default=2048, help="random ids beside them")
    command.add_argument("--every", type=int, default=100, help="steps between measurements")
    command.add_argument("--quick", type=int, default=60, help="conversations measured")

    command = commands.add_parser("evaluate", help=evaluate.__doc__)
    command.set_defaults(run=evaluate)
    command.add_argument("weights", type=Path)
    command.add_argument("--layers", type=int, nargs="+", default=[0, 1])
    command.add_argument("--head", type=int, help="cut the draft's head to so many ids")

    command = commands.add_parser("export", help=export.__doc__)
    command.set_defaults(run=export)
    command.add_argument("weights", type=Path)
    command.add_argument("--output", type=Path, default=DRAFT)
    command.add_argument("--head", type=int, default=16384, help="ids that the draft writes")

    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    args.work.mkdir(parents=True, exist_ok=True)
    args.run(args)


if __name__ == "__main__":
    main()
