"""The translation draft: the target's encoder and one decoder layer, distilled on its law.

The draft keeps the target's embeddings and encoder (frozen, so both models' states are computed
once while training) and learns only its decoder, on what the target writes itself and on the
references: half KL at temperature 1, half total variation at a lower one, since
1 − TV = Σ min(target, draft) is the chance that a drafted token is accepted.
"""

import argparse
import dataclasses
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from assets.recipes import translate_data as data
from assets.recipes.translate_model import Shape, Weights, decode, encode, logits_of, to_t5
from assets.recipes.translate_train import (
    ROWS,
    Run,
    epoch_batches,
    half_precision,
    learn,
    load_average,
    pulled,
)

DECODER = ("dec.attention", "dec.wi", "dec.wo", "dec.norms", "dec.norm", "dec.bias")

HELD_AT = (0.3, 0.7)  # temperatures of the held-out texts


@torch.inference_mode()
def write(model: Any, source: data.Ids, temperature: float, seed: int, size: int = 128) -> data.Ids:
    """What the target writes for each source: ids ending with END. Temperature 0 is greedy."""
    torch.manual_seed(seed)
    order = sorted(range(len(source)), key=lambda i: len(source[i]))
    written: data.Ids = [[] for _ in source]
    sampling = {"do_sample": True, "temperature": temperature, "top_k": 0} if temperature else {}
    for start in range(0, len(order), size):
        part = order[start : start + size]
        ids = data.pad([source[i] for i in part])
        limit = int(1.3 * ids.shape[1]) + 8
        out = model.generate(
            input_ids=ids,
            attention_mask=(ids != data.PAD).long(),
            max_new_tokens=limit,
            **{"do_sample": False, **sampling},
        )
        for i, row in zip(part, out[:, 1:].tolist(), strict=True):
            text = row[: row.index(data.END)] if data.END in row else row
            written[i] = [*text, data.END]
    return written


def first_draft(shape: Shape, target: Weights) -> tuple[Shape, Weights]:
    """One decoder layer from three of the target's: first self-attention, guided
    cross-attention, last feed-forward."""
    draft = {name: w.clone() for name, w in target.items()}
    attention, norms = target["dec.attention"], target["dec.norms"]
    places = (0, shape.guided, shape.decoder - 1)
    draft["dec.attention"] = torch.stack([attention[0, 0], attention[shape.guided, 1]])[None]
    draft["dec.norms"] = torch.stack([norms[p, i] for i, p in enumerate(places)])[None]
    draft["dec.wi"], draft["dec.wo"] = target["dec.wi"][-1:].clone(), target["dec.wo"][-1:].clone()
    return dataclasses.replace(shape, decoder=1, guided=0), draft


@torch.no_grad()
def pull_to_law(target: Tensor, draft: Tensor, tv: float) -> tuple[Tensor, Tensor]:
    """The gradient [N, V] in the draft's logits of (1 - tv) KL at temperature 1 + tv TV at
    temperature 0.5, and that TV [N]; by hand, a few rows at a time, since memory is what it costs.
    """
    gradients, distances = [], []
    for wanted, given in zip(target.split(ROWS), draft.split(ROWS), strict=True):
        q, p = wanted.float().softmax(-1), given.float().softmax(-1)
        gradient = (p - q).mul_(1 - tv)
        q, p = q.square_(), p.square_()  # the laws at temperature 0.5, but for their sums
        q, p = q.div_(q.sum(-1, keepdim=True)), p.div_(p.sum(-1, keepdim=True))
        apart = p - q
        distances.append(0.5 * apart.abs().sum(-1))
        uphill = apart.sign_().mul_(p)  # twice TV's gradient in log p, before normalising
        gradient += tv * (uphill - p * uphill.sum(-1, keepdim=True))
        gradients.append(gradient.to(draft.dtype))
    return torch.cat(gradients), torch.cat(distances)


def distil(args: argparse.Namespace) -> None:
    """Train the draft's decoder on the target's law over references and written translations."""
    shape, target = load_average(args.target)
    pairs, held = torch.load(args.work / "written.pt"), held_out(args.work)
    path = args.work / f"{args.name}.pt"
    if path.exists():
        run = Run.load(path)
    else:
        draft_shape, weights = first_draft(shape, target)
        if args.start:
            weights |= {name: load_average(args.start)[1][name] for name in DECODER}
        run = Run.begin(draft_shape, weights)
    run.optimiser.weights = {name: run.weights[name] for name in DECODER}
    frozen = half_precision(target)

    def epoch_of(epoch: int) -> list[Callable[[], data.Batch]]:
        rng = random.Random(args.seed + epoch)
        source, texts = pairs["source"], [rng.choice(t) for t in zip(*pairs["texts"], strict=True)]
        return epoch_batches(args, source, texts, None, rng)

    learn(
        args,
        run,
        epoch_of,
        lambda batch: step_loss(run, frozen, shape, batch, args.tv),
        lambda: acceptance(shape, target, run.shape, run.average, held),
    )


def step_loss(run: Run, frozen: Weights, shape: Shape, batch: data.Batch, tv: float) -> Tensor:
    """TV of one batch, with the gradient of `pull_to_law`; the encoder runs once, for both."""
    real = batch.target != data.PAD
    with torch.no_grad():
        states = encode(frozen, shape.heads, batch.source)
        h, _ = decode(frozen, shape.heads, states, batch.source, batch.target)
        wanted = logits_of(frozen, h[real])
    w = frozen | {name: run.weights[name].bfloat16() for name in DECODER}
    h, _ = decode(w, run.shape.heads, states, batch.source, batch.target)
    logits = logits_of(w, h[real])
    gradient, distance = pull_to_law(wanted, logits, tv)
    return pulled(logits, gradient, distance.mean())


def held_out(work: Path) -> dict[float, tuple[data.Ids, data.Ids]]:
    """Validation sources with what the target wrote for them, by temperature; see `write_all`."""
    kept = torch.load(work / "held.pt")
    return {t: (kept["source"], texts) for t, texts in kept["texts"].items()}


@torch.inference_mode()
def acceptance(
    shape: Shape,
    target: Weights,
    draft_shape: Shape,
    draft: Weights,
    held: dict[float, tuple[data.Ids, data.Ids]],
) -> dict[str, float]:
    """Mean Σ min(target, draft) at each temperature over texts that the target wrote at it, and
    how often both models' likeliest pieces agree there."""
    a, b = half_precision(target), half_precision(draft)
    result: dict[str, float] = {}
    for temperature, (source, texts) in held.items():
        shared, agreed, count = 0.0, 0.0, 0
        for index in data.batches(source, texts, 3000, 1000, random.Random(0)):
            batch = data.make_batch(source, texts, None, index)
            real = batch.target != data.PAD
            logits = []
            for w, s in ((a, shape), (b, draft_shape)):
                states = encode(w, s.heads, batch.source)
                h, _ = decode(w, s.heads, states, batch.source, batch.target)
                logits.append(logits_of(w, h[real]).float())
            laws = [(x / temperature).softmax(-1) for x in logits]
            shared += float(torch.minimum(*laws).sum())
            agreed += float((logits[0].argmax(-1) == logits[1].argmax(-1)).sum())
            count += int(real.sum())
        result[f"overlap@{temperature}"] = round(shared / count, 4)
        result[f"agree@{temperature}"] = round(agreed / count, 4)
    return result


def write_all(args: argparse.Namespace, tokenizer: Any) -> None:
    """Texts for `distil`: the references and what the target writes, one set a temperature (a
    verse of more than `longest` ids keeps its reference); and held-out texts."""
    shape, weights = load_average(args.target)
    model = to_t5(shape, weights).bfloat16()
    verses, _ = data.read_verses("validation")
    held = data.encode_all(tokenizer, verses)[:: len(verses) // args.held][: args.held]
    written = {t: write(model, held, t, seed=1) for t in HELD_AT}
    torch.save({"source": held, "texts": written}, args.work / "held.pt")
    source, references, _ = torch.load(args.work / "train.pt")
    short = [i for i, ids in enumerate(source) if len(ids) <= args.longest]
    texts = [references]
    for number, temperature in enumerate(args.temperatures):
        fresh = write(model, [source[i] for i in short], temperature, seed=2 + number)
        own = dict(zip(short, fresh, strict=True))
        texts.append([own.get(i, reference) for i, reference in enumerate(references)])
    torch.save({"source": source, "texts": texts}, args.work / "written.pt")
