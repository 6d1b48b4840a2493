"""The translation pair's feature draft: one layer that reads what the target thought.

It begins as the cross-attention and feed-forward part of the draft of `translate_draft.py`. Its
input at a token is its embedding plus `fuse` of the target's hidden states one token before: before
three of its decoder's layers and after the last, each at root mean square 1. Where the target has
not been, `own` of the layer's own last state stands in. The layer has no attention to itself: what
was written before is in those states, and a step costs a third less (as in the recurrent drafter,
Zhang et al. 2024). Training unrolls it on its own states, as drafting does (EAGLE-3's training-time
test).
"""

import argparse
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional as F

from assets.recipes import translate_data as data
from assets.recipes.translate_draft import held_out, pull_to_law, write
from assets.recipes.translate_model import (
    EPSILON,
    Shape,
    Weights,
    after_own,
    decode,
    encode,
    logits_of,
    read_by,
    to_t5,
)
from assets.recipes.translate_train import (
    Run,
    epoch_batches,
    half_precision,
    learn,
    load_average,
    pulled,
)

TAPS = (2, 4, 6)  # decoder layers of the target before which its hidden states are read
LEARNT = ("dec.attention", "dec.wi", "dec.wo", "dec.norms", "dec.norm", "dec.fuse", "dec.own")
CHUNK = 4096  # sources written for at a time


def write_texts(args: argparse.Namespace, tokenizer: Any) -> None:
    """`texts.pt`: sets of sources and texts to learn from. The references, and what the target
    writes at temperature 0.7 for the training verses and for spliced ones."""
    shape, weights = load_average(args.target)
    model = to_t5(shape, weights).bfloat16()
    source, references, _ = torch.load(args.work / "train.pt")
    sets = [(source, references)]
    for seed, verses in (11, source), (12, splice(source, tokenizer, seed=12)):
        short = [ids for ids in verses if len(ids) <= args.longest]
        texts: data.Ids = []
        for number, start in enumerate(range(0, len(short), CHUNK)):
            texts += write(model, short[start : start + CHUNK], 0.7, seed=100 * seed + number)
        sets.append((short, texts))
    torch.save(sets, args.work / "texts.pt")


def splice(source: data.Ids, tokenizer: Any, seed: int) -> data.Ids:
    """The beginning of each verse up to a mark inside it, and the end of another from one on: what
    the target has not learnt by heart."""
    rng = random.Random(seed)
    marks = {i for i in range(data.VOCABULARY) if tokenizer.decode([i]).strip() in (",", ";", ":")}
    halves = []
    for ids in source:
        places = [i + 1 for i, t in enumerate(ids[:-1]) if t in marks and 4 <= i < len(ids) - 5]
        if places:
            cut = rng.choice(places)
            halves.append((ids[:cut], ids[cut:]))
    ends = [end for _, end in halves]
    rng.shuffle(ends)
    return [begin + end for (begin, _), end in zip(halves, ends, strict=True)]


def at_one(x: Tensor) -> Tensor:
    return F.rms_norm(x, x.shape[-1:])


def think(w: Weights, heads: int, batch: data.Batch) -> tuple[Tensor, Tensor, Tensor]:
    """The target's encoder states, logits [B, m, V], and what the draft reads [B, m, taps + 1, d]
    of it."""
    states, kept = encode(w, heads, batch.source), []
    h, _ = decode(w, heads, states, batch.source, batch.target, kept=kept)
    thoughts = torch.stack([*(kept[tap] for tap in TAPS), kept[-1]], 2)
    return states, logits_of(w, h), at_one(thoughts)


def unroll(
    w: Weights, heads: int, states: Tensor, batch: data.Batch, thoughts: Tensor, steps: int
) -> list[Tensor]:
    """Normed outputs [B, m, d] a step. Step j of column i has read the target's thoughts up to
    column i - j - 1, and its own last state from there on; columns before j mean nothing."""
    inputs = F.embedding(F.pad(batch.target, (1, -1), value=data.PAD), w["embed"])
    hidden = ((batch.source == data.PAD)[:, None, None] * -1e4).to(inputs.dtype)
    source = read_by(w["dec.attention"][0], heads, states)
    outputs: list[Tensor] = []
    read = F.linear(thoughts.flatten(2), w["dec.fuse"])
    for _ in range(steps):
        x = inputs + F.pad(read[:, :-1], (0, 0, 1, 0))
        x, _ = after_own(w, 0, x, *source, hidden)
        outputs.append(F.rms_norm(x, x.shape[-1:], w["dec.norm"], EPSILON))
        read = F.linear(at_one(x), w["dec.own"])
    return outputs


def step_loss(
    run: Run, frozen: Weights, shape: Shape, batch: data.Batch, args: argparse.Namespace
) -> Tensor:
    """TV of the first step over one batch, with the gradients of `pull_to_law` of all steps."""
    real = batch.target != data.PAD
    with torch.no_grad():
        states, wanted, thoughts = think(frozen, shape.heads, batch)
    w = frozen | {name: run.weights[name].bfloat16() for name in LEARNT}
    losses = []
    for step, h in enumerate(unroll(w, run.shape.heads, states, batch, thoughts, args.unroll)):
        rows = real.clone()
        rows[:, :step] = False
        logits = logits_of(w, h[rows])
        gradient, distance = pull_to_law(wanted[rows], logits, args.tv)
        losses.append(pulled(logits, gradient * args.fade**step, distance.mean()))
    total = sum(losses[1:], losses[0])
    return total - (total - losses[0]).detach()


def distil_feature(args: argparse.Namespace) -> None:
    """Train layer and projections on the target's law over references and written translations."""
    shape, target = load_average(args.target)
    sets = torch.load(args.work / "texts.pt")
    pairs = [pair for source, texts in sets for pair in zip(source, texts, strict=True)]
    held = held_out(args.work)
    path = args.work / f"{args.name}.pt"
    if path.exists():
        run = Run.load(path)
    else:
        draft_shape, weights = load_average(args.start)
        nothing = torch.zeros(shape.width, shape.width)
        new = {"dec.fuse": nothing.repeat(1, len(TAPS) + 1), "dec.own": nothing}
        run = Run.begin(draft_shape, new | weights)
    run.optimiser.weights = {name: run.weights[name] for name in LEARNT}
    frozen = half_precision(target)

    def epoch_of(epoch: int) -> list[Callable[[], data.Batch]]:
        rng = random.Random(args.seed + epoch)
        source, written = zip(*rng.sample(pairs, len(pairs) // len(sets)), strict=True)
        return epoch_batches(args, source, written, None, rng)

    learn(
        args,
        run,
        epoch_of,
        lambda batch: step_loss(run, frozen, shape, batch, args),
        lambda: acceptance(shape, target, run.shape.heads, run.average, held),
    )


@torch.inference_mode()
def acceptance(
    shape: Shape,
    target: Weights,
    heads: int,
    draft: Weights,
    held: dict[float, tuple[data.Ids, data.Ids]],
) -> dict[str, list[float]]:
    """Mean Σ min(target, draft) at each temperature, over texts that the target wrote at it, of
    four unrolled steps."""
    a = half_precision(target)
    b = a | {name: draft[name].bfloat16() for name in LEARNT}
    result: dict[str, list[float]] = {}
    for temperature, (source, texts) in held.items():
        shared, counts = [0.0] * 4, [0] * 4
        for index in data.batches(source, texts, 3000, 1000, random.Random(0)):
            batch = data.make_batch(source, texts, None, index)
            states, wanted, thoughts = think(a, shape.heads, batch)
            for step, h in enumerate(unroll(b, heads, states, batch, thoughts, 4)):
                real = batch.target != data.PAD
                real[:, :step] = False
                logits = wanted[real], logits_of(b, h[real])
                laws = [(x.float() / temperature).softmax(-1) for x in logits]
                shared[step] += float(torch.minimum(*laws).sum())
                counts[step] += int(real.sum())
        result[f"overlap@{temperature}"] = [
            round(x / n, 4) for x, n in zip(shared, counts, strict=True)
        ]
    return result


def export_feature(checkpoint: Path, folder: Path) -> None:
    """Averaged weights in bfloat16 without the target's embeddings and encoder, and the taps."""
    shape, weights = load_average(checkpoint)
    model = to_t5(shape, weights)
    for block in model.decoder.block:
        del block.layer[0]
    kept = {
        name: weight.bfloat16()
        for name, weight in model.state_dict().items()
        if name.startswith("decoder.") and "embed" not in name
    }
    kept |= {f"{name}.weight": weights[f"dec.{name}"].bfloat16() for name in ("fuse", "own")}
    folder.mkdir(parents=True, exist_ok=True)
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)
    model.config.taps = list(TAPS)
    model.config.save_pretrained(folder)
