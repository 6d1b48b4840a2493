r"""Make the feature draft: two layers that read the target's hidden states (EAGLE, EAGLE-3).

Sources and licences: the target's weights, the two-layer draft of `chat_draft.py` that it begins
from, and the same self-written conversations; so it is a derivative of SmolLM2 (Apache-2.0), too.

The draft's input at a token is its embedding plus `fuse` of what the target thought one token
before: its hidden states before layers 8, 16 and 24 and the normed last one, each at root mean
square 1. Where the target has not been, `own` of the draft's own last state stands in. Both begin
at zero, so training starts as good as the two-layer draft. Training unrolls the draft on its own
states as drafting does (EAGLE-3's training-time test); the loss of every step is on the law.

- `states`   `states/NAME-00000.safetensors`: ids and the target's states at every position
- `train`    `NAME.safetensors` (float32, averaged weights) and `NAME.jsonl` (the curve)
- `mean`     `NAME.safetensors`: the mean of several of them
- `evaluate` prints held-out figures, four unrolled steps, as one line of JSON a corpus
- `export`   `assets/models/chat-feature`: `config.json` and `model.safetensors` (bfloat16, with
             `head_ids`, the ids that the draft writes)

The embeddings (input and head) are the target's, frozen and not in the file.

What made the shipped file, from the repository's root, OLD being the first corpus of
`chat_draft.py`, DRAFT its float32 weights before `export`, RUN standing for
`python -m assets.recipes.feature_draft --work WORK`:

    RUN states OLD --last
    RUN states assets/data/chat-corpus-2.jsonl.gz --last
    RUN train --name f1 --start DRAFT --steps 250 --unroll 1
    RUN --seed 2 train --name f2 --start WORK/f1.safetensors --steps 700 --cool 700 --warm 20
    RUN --seed 3 train --name f3 --start WORK/f2.safetensors --steps 280 --cool 280 --warm 15 \
        --rate 3e-3
    RUN mean WORK/f2.safetensors WORK/f3.safetensors --name first
    RUN states assets/data/chat-corpus-3.jsonl.gz --last
    RUN --seed 4 train --name f4 --start WORK/first.safetensors --rate 3e-3 --average 0.99
    RUN --seed 5 train --name f5 --start WORK/f4.safetensors --steps 500 --rate 3e-3 --average 0.99
    RUN mean WORK/f4.safetensors WORK/f4.safetensors WORK/f5.safetensors --name both
    RUN --seed 6 train --name f6 --start WORK/both.safetensors --steps 900 --cool 900 --warm 15 \
        --rate 3e-3
    RUN --seed 7 train --name f7 --start WORK/both.safetensors --steps 900 --cool 900 --warm 15 \
        --rate 3e-3
    RUN mean WORK/f6.safetensors WORK/f7.safetensors --name m67
    RUN --seed 8 train --name f8 --start WORK/m67.safetensors --steps 2000 --cool 2000 --warm 15 \
        --rate 3e-3
    RUN --seed 9 train --name f9 --start WORK/f8.safetensors --steps 900 --cool 900 --warm 15 \
        --rate 3e-3
    RUN mean WORK/f8.safetensors WORK/f9.safetensors --name m89
    RUN --seed 10 train --name f10 --start WORK/m89.safetensors --steps 750 --cool 750 --warm 15 \
        --rate 3e-3
    RUN --seed 11 train --name f11 --start WORK/m89.safetensors --steps 750 --cool 750 --warm 15 \
        --rate 3e-3
    RUN mean WORK/f10.safetensors WORK/f11.safetensors
    RUN evaluate WORK/mean.safetensors
    RUN export WORK/mean.safetensors

f5 began from what f4 was after 300 steps and ran beside it, as f7 beside f6 and f11 beside f10.
Seeds are fixed, but files of states joined while training ran (f1 to f3 saw those of the second
corpus from 6 on), the commonest ids (`order.json`) were counted on the first corpus alone, and
sums in bfloat16 depend on the processor: a second run gives a like draft, not the same bits.
"""

import argparse
import hashlib
import json
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import LlamaForCausalLM, LlamaModel
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from assets.recipes.chat_draft import Head, commonest, draft_config
from assets.recipes.chat_target import ASSETS, load_target, read_target
from assets.recipes.shards import Corpus, write_shards

FEATURE = ASSETS / "models" / "chat-feature"
TAPS = (8, 16, 24)  # how many target layers have run where its hidden states are read

# ---------------------------------------------------------------------------- the target's states


@torch.inference_mode()
def read_states(model: LlamaForCausalLM, ids: Tensor) -> Tensor:
    """What the draft sees and imitates: [B, L, taps + 1, d], each tap at root mean square 1, the
    last one the normed last hidden state."""
    output = model.model(input_ids=ids, use_cache=False, output_hidden_states=True)
    taps = [output.hidden_states[tap].float() for tap in TAPS]
    taps = [F.rms_norm(tap, tap.shape[-1:]).bfloat16() for tap in taps]
    return torch.stack([*taps, output.last_hidden_state], 2)


def make_states(args: argparse.Namespace) -> None:
    """Store what the target thinks at every position of a corpus."""
    model = load_target()
    write_shards(args, "states", lambda ids: read_states(model, ids), before_last)


def before_last(talk: dict[str, Any]) -> slice:
    """The positions of a conversation that something follows."""
    return slice(len(talk["p"]) + len(talk["r"]) - 1)


@dataclass(frozen=True, slots=True)
class Talk:
    """One conversation: ids [n]; the target's states [n - 1, taps + 1, d], last id left out."""

    ids: Tensor
    num_prompt: int
    states: Tensor

    @property
    def hidden(self) -> Tensor:
        """The target's normed last states [reply, d] that predict the reply."""
        return self.states[self.num_prompt - 1 :, -1]


def read_shard(path: Path) -> list[Talk]:
    """The conversations of one file; their tensors stay on disk until they are used."""
    shard, talks, at_id, at_state = load_file(path), [], 0, 0
    for prompt, reply in shard["lengths"].tolist():
        ids = shard["ids"][at_id : at_id + prompt + reply].long()
        talks.append(Talk(ids, prompt, shard["states"][at_state : at_state + len(ids) - 1]))
        at_id, at_state = at_id + len(ids), at_state + len(ids) - 1
    return talks


# ---------------------------------------------------------------------------- the draft


class FeatureDraft(nn.Module):
    """Llama layers that read the next token's embedding plus what was thought one token before:
    the target's states where the target has been (`fuse`), else the draft's own (`own`)."""

    def __init__(self, num_layers: int) -> None:
        super().__init__()
        decoder = LlamaModel(draft_config(num_layers))
        width = decoder.config.hidden_size
        self.config, self.rotary = decoder.config, decoder.rotary_emb
        self.layers, self.norm = decoder.layers, decoder.norm
        self.fuse = nn.Linear((len(TAPS) + 1) * width, width, bias=False)
        self.own = nn.Linear(width, width, bias=False)
        nn.init.zeros_(self.fuse.weight)
        nn.init.zeros_(self.own.weight)

    def forward(self, inputs: Tensor, states: Tensor, steps: int, first: int) -> list[Tensor]:
        """Unrolled normed outputs, one [B, L - first, d] a step (step one cut to the same columns).

        inputs: embeddings [B, L, d] of the tokens; states [B, L, taps + 1, d] of the target, at
        column i what it thought of token i. Step j of column i has seen the target's states up to
        token i - j. Only the columns from `first` are unrolled.
        """
        states = F.rms_norm(states, states.shape[-1:]).flatten(2)
        before = F.pad(self.fuse(states[:, :-1]), (0, 0, 1, 0))
        tables = self.rotary(inputs, torch.arange(inputs.shape[1])[None])
        past: list[list[tuple[Tensor, Tensor]]] = [[] for _ in self.layers]
        outputs = []
        for step in range(steps):
            if step == 1:
                inputs = inputs[:, first:]
                tables = tuple(table[:, first:] for table in tables)
                outputs[0] = outputs[0][:, first:]
            if step:
                thought = F.rms_norm(outputs[-1], outputs[-1].shape[-1:])
                before = F.pad(self.own(thought[:, :-1]), (0, 0, 1, 0))
            x = inputs + before
            for layer, known in zip(self.layers, past, strict=True):
                normed = F.rms_norm(x, x.shape[-1:], layer.input_layernorm.weight.to(x.dtype), 1e-5)
                x = x + self._attend(layer.self_attn, normed, known, tables, step, first)
                normed = F.rms_norm(
                    x, x.shape[-1:], layer.post_attention_layernorm.weight.to(x.dtype), 1e-5
                )
                x = x + layer.mlp(normed)
            outputs.append(F.rms_norm(x, x.shape[-1:], self.norm.weight.to(x.dtype), 1e-5))
        return outputs

    def _attend(
        self,
        attention: nn.Module,
        x: Tensor,
        known: list[tuple[Tensor, Tensor]],
        tables: tuple[Tensor, ...],
        step: int,
        first: int,
    ) -> Tensor:
        """Each column sees the target-fed columns that its step may know, then its own chain."""
        batch, length, _ = x.shape
        dim, kv_heads = attention.head_dim, self.config.num_key_value_heads
        groups = self.config.num_attention_heads // kv_heads
        split = (batch, length, -1, dim)
        query = attention.q_proj(x).view(split).transpose(1, 2)
        key = attention.k_proj(x).view(split).transpose(1, 2)
        value = attention.v_proj(x).view(split).transpose(1, 2)
        query, key = apply_rotary_pos_emb(query, key, *(t.to(x.dtype) for t in tables))
        known.append((key, value))
        query = query.reshape(batch, kv_heads, groups * length, dim)
        keys, values = known[0]
        offset = first if step else 0
        mask = torch.ones(length, keys.shape[2], dtype=torch.bool).tril(offset - step)
        mask = mask.repeat(groups, 1)
        if step == 0:
            seen = F.scaled_dot_product_attention(query, keys, values, attn_mask=mask)
        else:
            scores = [(query @ keys.mT).masked_fill(~mask, -torch.inf)]
            chain = [
                tuple(
                    F.pad(t, (0, 0, step - i, 0))[:, :, :length].repeat(1, 1, groups, 1)
                    for t in pair
                )
                for i, pair in enumerate(known[1:], start=1)
            ]
            scores += [(query * k).sum(-1, keepdim=True) for k, _ in chain]
            weights = torch.softmax(torch.cat(scores, -1).float() * dim**-0.5, -1).to(x.dtype)
            reach = keys.shape[2]
            seen = weights[..., :reach] @ values
            for i, (_, v) in enumerate(chain):
                seen = seen + weights[..., reach + i : reach + i + 1] * v
        seen = seen.view(batch, -1, length, dim).transpose(1, 2).reshape(batch, length, -1)
        return attention.o_proj(seen)


def pack(talks: list[Talk]) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
    """Padded ids [B, L], states [B, L, taps + 1, d], flat indices [N] of the replies' positions
    among the columns from `first`, each one's place in its reply [N], and `first`."""
    pad = nn.utils.rnn.pad_sequence
    ids = pad([t.ids[:-1] for t in talks], batch_first=True)
    states = pad([t.states for t in talks], batch_first=True)
    first = min(t.num_prompt for t in talks) - 1
    width = ids.shape[1] - first
    where = [
        torch.arange(t.num_prompt - 1, len(t.ids) - 1) - first + row * width
        for row, t in enumerate(talks)
    ]
    place = torch.cat([torch.arange(len(w)) for w in where])
    return ids, states, torch.cat(where), place, first


def unroll(
    draft: FeatureDraft, embeddings: Tensor, talks: list[Talk], steps: int
) -> tuple[list[Tensor], Tensor, Tensor]:
    """The draft's normed outputs [N, d] at the replies' positions a step, the target's normed last
    states there [N, d], and each position's place in its reply [N]."""
    ids, states, where, place, first = pack(talks)
    with torch.autocast("cpu", torch.bfloat16):
        inputs = F.embedding(ids, embeddings)
        outputs = draft(inputs, states, steps, first)
    if steps == 1:
        outputs[0] = outputs[0][:, first:]
    outputs = [output.flatten(0, 1)[where] for output in outputs]
    return outputs, states[:, first:, -1].flatten(0, 1)[where], place


# ---------------------------------------------------------------------------- training


@torch.no_grad()
def descend(
    drafts: list[Tensor], target: Tensor, place: Tensor, head: Tensor, bias: Tensor, tv: float
) -> tuple[list[Tensor], list[float]]:
    """Gradients of (1 - tv) KL + tv TV by each step's states, and the mean overlaps.

    As `chat_draft.descend`, with the target's law computed once for all steps. Step j leaves out
    the first j positions of a reply: nothing was drafted before them.
    """
    gradients = [torch.empty_like(draft) for draft in drafts]
    overlaps = [0.0] * len(drafts)
    for begin in range(0, len(target), 128):
        rows = slice(begin, begin + 128)
        q = torch.softmax((target[rows] @ head.T).float().add_(bias), -1)
        for step, draft in enumerate(drafts):
            counts = (place[rows] >= step).float()
            p = torch.softmax((draft[rows].to(head.dtype) @ head.T).float().add_(bias), -1)
            slope = p - q
            overlaps[step] += (counts * (1 - slope.abs().sum(-1) / 2)).sum().item()
            if tv:
                below = torch.where(slope < 0, p, 0.0)
                share = below.sum(-1, keepdim=True)
                slope.mul_(1 - tv).add_(p.mul_(share).sub_(below), alpha=tv)
            gradients[step][rows] = (slope * counts[:, None]).to(head.dtype) @ head
    totals = [int((place >= step).sum()) for step in range(len(drafts))]
    for gradient, total in zip(gradients, totals, strict=True):
        gradient /= total
    return gradients, [overlap / total for overlap, total in zip(overlaps, totals, strict=True)]


@torch.inference_mode()
def measure(
    draft: FeatureDraft, embeddings: Tensor, talks: list[Talk], head_ids: Tensor, steps: int
) -> dict[str, object]:
    """Σ min(p, q) at temperature 1 and argmax agreement a step, over the target's whole vocabulary;
    the draft writes only head_ids."""
    head = embeddings[head_ids]
    sums, counts = torch.zeros(2, steps), torch.zeros(steps)
    for begin in range(0, len(talks), 8):
        outputs, target, place = unroll(draft, embeddings, talks[begin : begin + 8], steps)
        for at in range(0, len(target), 128):
            rows = slice(at, at + 128)
            q = torch.softmax((target[rows] @ embeddings.T).float(), -1)
            best, q = q.argmax(-1), q[:, head_ids]
            for step, output in enumerate(outputs):
                valid = place[rows] >= step
                p = torch.softmax((output[rows].bfloat16() @ head.T).float(), -1)
                sums[0, step] += torch.minimum(p, q).sum(-1)[valid].sum()
                sums[1, step] += (head_ids[p.argmax(-1)] == best)[valid].sum()
                counts[step] += valid.sum()
    overlap, agreement = ([round(x, 4) for x in row] for row in (sums / counts).tolist())
    return {"positions": int(counts[0]), "overlap": overlap, "agreement": agreement}


def load_weights(draft: FeatureDraft, path: Path) -> None:
    """Weights of a feature draft, or of a two-layer draft to begin from (projections stay zero)."""
    state = {n.removeprefix("model."): w.float() for n, w in load_file(path).items()}
    state.pop("head_ids", None)
    missing, unexpected = draft.load_state_dict(state, strict=False)
    if unexpected or any("layers" in name for name in missing):
        raise ValueError(f"weights: missing {missing}, unexpected {unexpected}")


def weights_of(draft: FeatureDraft) -> dict[str, Tensor]:
    """What is trained and shipped."""
    return {n: w.detach() for n, w in draft.state_dict().items() if "rotary" not in n}


def vocabulary_order(work: Path, corpus: Corpus[Talk], embeddings: Tensor) -> list[int]:
    """All ids, the commonest first; kept in a file, since it must not change between runs."""
    path = work / "order.json"
    if not path.exists():
        path.write_text(json.dumps(commonest(corpus.train, embeddings)))
    return json.loads(path.read_text())


def train(args: argparse.Namespace) -> None:
    """Distil; the averaged weights are measured and saved every `--every` steps."""
    torch.manual_seed(args.seed)
    corpus = Corpus(args.work / "states", read_shard)
    embeddings = read_target()["model.embed_tokens.weight"]
    draft = FeatureDraft(args.layers)
    load_weights(draft, args.start)
    order = vocabulary_order(args.work, corpus, embeddings)
    head = Head(order, embeddings, args.common, args.others)
    head_ids = torch.tensor(sorted(order[: args.head]))
    held_out = list(corpus.held_out["chat-corpus"])
    random.Random(0).shuffle(held_out)
    held_out = held_out[: args.quick]
    generator = torch.Generator().manual_seed(args.seed)
    joints = [draft.fuse.weight, draft.own.weight]  # their inputs are larger than embeddings
    rest = [w for n, w in draft.named_parameters() if n not in ("fuse.weight", "own.weight")]
    rates = [args.rate, args.rate * args.joint]
    adam = torch.optim.AdamW(
        [{"params": rest}, {"params": joints}], betas=(0.9, 0.98), weight_decay=0.01, fused=True
    )
    average = {name: weight.clone() for name, weight in weights_of(draft).items()}
    began, num_tokens, overlaps = time.perf_counter(), 0, [0.0] * args.unroll
    log = (args.work / f"{args.name}.jsonl").open("a")
    for step, talks in enumerate(corpus.batches(random.Random(args.seed), args.batch), start=1):
        warm = min(1.0, step / args.warm)
        cool = min(1.0, (args.steps - step + 1) / max(1, args.cool))
        for group, rate in zip(adam.param_groups, rates, strict=True):
            group["lr"] = rate * warm * cool
        outputs, target, place = unroll(draft, embeddings, talks, args.unroll)
        slopes, batch_overlaps = descend(
            outputs, target, place, head.draw(generator), head.bias, args.tv
        )
        for number, slope in enumerate(slopes):
            slope *= args.fade**number
        torch.autograd.backward(outputs, slopes)
        adam.step()
        adam.zero_grad()
        keep = min(args.average, step / (step + 10))
        for name, weight in weights_of(draft).items():
            average[name].lerp_(weight, 1 - keep)
        num_tokens += len(target)
        pace = max(0.02, 1 / step)
        overlaps = [a + (b - a) * pace for a, b in zip(overlaps, batch_overlaps, strict=True)]
        if step % args.every == 0 or step == args.steps:
            seconds = time.perf_counter() - began
            live = {name: weight.clone() for name, weight in weights_of(draft).items()}
            draft.load_state_dict(average, strict=False)
            record = {"step": step, "minutes": round(seconds / 60, 1), "tokens": num_tokens}
            record |= {"train": [round(o, 4) for o in overlaps], "talks": len(corpus.train)}
            record |= measure(draft, embeddings, held_out, head_ids, args.unroll)
            draft.load_state_dict(live, strict=False)
            save_file(average, args.work / f"{args.name}.safetensors")
            print(json.dumps(record), file=log, flush=True)
            print(json.dumps(record), flush=True)
        if step == args.steps:
            break


def evaluate(args: argparse.Namespace) -> None:
    """Held-out figures of some weights, by corpus, at four unrolled steps."""
    corpus = Corpus(args.work / "states", read_shard)
    embeddings = read_target()["model.embed_tokens.weight"]
    draft = FeatureDraft(args.layers)
    load_weights(draft, args.weights)
    order = vocabulary_order(args.work, corpus, embeddings)
    head_ids = torch.tensor(sorted(order[: args.head]))
    for name, talks in corpus.held_out.items():
        print(name, json.dumps(measure(draft, embeddings, talks, head_ids, 4)), flush=True)


def mean(args: argparse.Namespace) -> None:
    """The mean of the weights of several runs that began alike."""
    runs = [load_file(path) for path in args.weights]
    name = args.work / f"{args.name}.safetensors"
    save_file({n: torch.stack([run[n] for run in runs]).mean(0) for n in runs[0]}, name)


def export(args: argparse.Namespace) -> None:
    """Write the shipped folder: layers, projections and `head_ids` in bfloat16, no embeddings."""
    weights = {
        name if name in ("fuse.weight", "own.weight") else f"model.{name}": weight.bfloat16()
        for name, weight in load_file(args.weights).items()
    }
    order = json.loads((args.work / "order.json").read_text())
    weights["head_ids"] = torch.tensor(sorted(order[: args.head]), dtype=torch.int32)
    args.output.mkdir(parents=True, exist_ok=True)
    path = args.output / "model.safetensors"
    save_file(weights, path, metadata={"format": "pt"})
    path.chmod(0o644)
    config = draft_config(1 + max(int(n.split(".")[2]) for n in weights if ".layers." in n))
    config.taps = list(TAPS)
    config.save_pretrained(args.output)
    print(args.output, hashlib.sha256(path.read_bytes()).hexdigest())


def main() -> None:
    """Parse the command line and run one step."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", type=Path, required=True, help="working folder")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    commands = parser.add_subparsers(required=True)

    command = commands.add_parser("states", help=make_states.__doc__)
    command.set_defaults(run=make_states)
    command.add_argument("corpus", type=Path)
    command.add_argument("--last", action="store_true", help="also the last, shorter file")

    command = commands.add_parser("train", help=train.__doc__)
    command.set_defaults(run=train)
    command.add_argument("--name", default="feature")
    command.add_argument("--layers", type=int, default=2)
    command.add_argument("--start", type=Path, required=True, help="weights to go on from")
    command.add_argument("--steps", type=int, default=1000)
    command.add_argument("--unroll", type=int, default=2)
    command.add_argument("--fade", type=float, default=0.8, help="weight of each further step")
    command.add_argument("--batch", type=int, default=2048, help="tokens with padding")
    command.add_argument("--rate", type=float, default=4e-3)
    command.add_argument("--joint", type=float, default=0.1, help="rate of fuse and own by it")
    command.add_argument("--warm", type=int, default=30, help="steps of rising rate")
    command.add_argument("--cool", type=int, default=0, help="last steps, of falling rate")
    command.add_argument("--average", type=float, default=0.98, help="decay of averaged weights")
    command.add_argument("--tv", type=float, default=0.7, help="share of TV in the loss")
    command.add_argument("--common", type=int, default=4096, help="ids always in the head")
    command.add_argument("--others", type=int, default=1024, help="random ids beside them")
    command.add_argument("--every", type=int, default=100, help="steps between measurements")
    command.add_argument("--quick", type=int, default=40, help="conversations measured")
    command.add_argument("--head", type=int, default=16384, help="ids that the draft writes")

    command = commands.add_parser("evaluate", help=evaluate.__doc__)
    command.set_defaults(run=evaluate)
    command.add_argument("weights", type=Path)
    command.add_argument("--layers", type=int, default=2)
    command.add_argument("--head", type=int, default=8192, help="ids that the draft writes")

    command = commands.add_parser("mean", help=mean.__doc__)
    command.set_defaults(run=mean)
    command.add_argument("weights", type=Path, nargs="+")
    command.add_argument("--name", default="mean")

    command = commands.add_parser("export", help=export.__doc__)
    command.set_defaults(run=export)
    command.add_argument("weights", type=Path)
    command.add_argument("--output", type=Path, default=FEATURE)
    command.add_argument("--head", type=int, default=8192, help="ids that the draft writes")

    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    args.work.mkdir(parents=True, exist_ok=True)
    args.run(args)


if __name__ == "__main__":
    main()
