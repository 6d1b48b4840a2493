"""Training of a lean T5: Muon and Adam, guided alignment, averaged weights, checkpoints, scores."""

import argparse
import dataclasses
import json
import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import sacrebleu
import torch
from torch import Tensor
from torch.nn import functional as F

from assets.recipes import translate_data as data
from assets.recipes.translate_model import (
    Drop,
    Dropout,
    Shape,
    Weights,
    decode,
    encode,
    grow,
    logits_of,
    new_weights,
    to_t5,
    untouched,
)

MATRICES = ("attention", "wi", "wo", "fuse", "own")
ROWS = 256  # of logits at a time


# ---------------------------------------------------------------------------- optimiser


def orthogonal(updates: Tensor) -> Tensor:
    """The nearest (semi-)orthogonal matrices, by Newton and Schulz's iteration (Jordan 2024)."""
    x = updates.bfloat16()
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    for _ in range(5):
        a = x @ x.mT
        b = -4.7750 * a + 2.0315 * (a @ a)
        x = 3.4445 * x + b @ x
    return (x.mT if tall else x).float()


class Optimiser:
    """Muon for the layers' matrices, Adam for everything else; both decay towards zero."""

    def __init__(self, weights: Weights, decay: float = 0.02) -> None:
        self.weights, self.decay, self.steps = weights, decay, 0
        self.first = {name: torch.zeros_like(w) for name, w in weights.items()}
        self.second = {
            name: torch.zeros_like(w) for name, w in weights.items() if not self.is_matrix(name)
        }

    @staticmethod
    def is_matrix(name: str) -> bool:
        return name.split(".")[-1] in MATRICES

    @torch.no_grad()
    def step(self, matrix_rate: float, rate: float) -> None:
        """One update; gradients are cut to a norm of 1 for Adam's part and forgotten."""
        self.steps += 1
        for name, weight in self.weights.items():
            gradient, weight.grad = weight.grad, None
            if gradient is None:
                continue
            first = self.first[name]
            if self.is_matrix(name):
                first.mul_(0.95).add_(gradient, alpha=0.05)
                update = orthogonal((gradient * 0.05 + first * 0.95).view(-1, *weight.shape[-2:]))
                size = max(1.0, weight.shape[-2] / weight.shape[-1]) ** 0.5
                weight.mul_(1 - matrix_rate * self.decay)
                weight.add_(update.view_as(weight), alpha=-matrix_rate * size)
            else:
                second = self.second[name]
                first.mul_(0.9).add_(gradient, alpha=0.1)
                second.mul_(0.98).addcmul_(gradient, gradient, value=0.02)
                mean, square = 1 - 0.9**self.steps, 1 - 0.98**self.steps
                update = (first / mean) / ((second / square).sqrt() + 1e-9)
                weight.add_(update, alpha=-rate)


# ---------------------------------------------------------------------------- training


def half_precision(weights: Weights) -> Weights:
    return {name: w.bfloat16() for name, w in weights.items()}


@torch.no_grad()
def pull(logits: Tensor, wanted: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Gradient [N, V] in the logits of cross-entropy with smoothed labels, and the plain
    cross-entropy [N] of ids [N]; by hand, a few rows at a time, since memory is what it costs."""
    gradients, losses = [], []
    for given, ids in zip(logits.split(ROWS), wanted.split(ROWS), strict=True):
        gradient = given.float().softmax(-1)
        chosen = gradient.gather(1, ids[:, None])
        losses.append(-chosen.log())
        gradient -= smoothing / gradient.shape[1]
        gradient.scatter_(1, ids[:, None], chosen - (1 - smoothing) - smoothing / gradient.shape[1])
        gradients.append(gradient.to(logits.dtype))
    return torch.cat(gradients), torch.cat(losses)


def pulled(logits: Tensor, gradient: Tensor, value: Tensor) -> Tensor:
    """A scalar worth `value`, whose gradient in logits [N, V] is `gradient` / N."""
    moving = (logits * gradient).sum() / len(logits)
    return moving - moving.detach() + value


def losses_of(
    shape: Shape, weights: Weights, batch: data.Batch, smoothing: float, drop: Drop
) -> tuple[Tensor, Tensor]:
    """Cross-entropy (trained with smoothed labels), and that of the guided head with the links."""
    w = half_precision(weights)
    states = encode(w, shape.heads, batch.source, drop)
    h, seen = decode(w, shape.heads, states, batch.source, batch.target, drop, shape.guided)
    real = batch.target != data.PAD
    logits = logits_of(w, h[real])
    gradient, loss = pull(logits, batch.target[real], smoothing)
    assert seen is not None and batch.links is not None
    alignment = -(batch.links * seen).sum() / real.sum()
    return pulled(logits, gradient, loss.mean()), alignment


@torch.inference_mode()
def validate(shape: Shape, weights: Weights, source: data.Ids, target: data.Ids) -> float:
    """Mean cross-entropy (nats) a target piece over a set of pairs."""
    w = half_precision(weights)
    total, count = 0.0, 0
    for index in data.batches(source, target, 3000, 1000, random.Random(0)):
        b = data.make_batch(source, target, None, index)
        h, _ = decode(w, shape.heads, encode(w, shape.heads, b.source), b.source, b.target)
        real = b.target != data.PAD
        total += float(
            F.cross_entropy(logits_of(w, h[real]).float(), b.target[real], reduction="sum")
        )
        count += int(real.sum())
    return total / count


@torch.inference_mode()
def translate(model: Any, tokenizer: Any, texts: list[str], size: int = 64) -> list[str]:
    """Greedy translations by transformers' generate."""
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    found = [""] * len(texts)
    for start in range(0, len(texts), size):
        part = order[start : start + size]
        batch = tokenizer([texts[i] for i in part], padding=True, return_tensors="pt")
        ids = model.generate(
            input_ids=batch["input_ids"],
            attention_mask=batch["attention_mask"],
            max_new_tokens=min(150, 2 * batch["input_ids"].shape[1] + 10),
            do_sample=False,
            num_beams=1,
        )
        for i, text in zip(
            part, tokenizer.batch_decode(ids, skip_special_tokens=True), strict=True
        ):
            found[i] = text
    return found


def score(found: list[str], references: list[str]) -> dict[str, float]:
    return {
        "bleu": round(sacrebleu.corpus_bleu(found, [references]).score, 2),
        "chrf": round(sacrebleu.corpus_chrf(found, [references]).score, 2),
    }


# ---------------------------------------------------------------------------- runs


@dataclasses.dataclass
class Run:
    """A training run: what is learnt, how far it has come, and its moving average of weights."""

    shape: Shape
    weights: Weights
    average: Weights
    optimiser: Optimiser
    epoch: int = 0
    place: int = 0  # batches of this epoch done
    step: int = 0

    @classmethod
    def begin(cls, shape: Shape, weights: Weights) -> "Run":
        weights = {name: w.detach().clone().requires_grad_(True) for name, w in weights.items()}
        average = {name: w.detach().clone() for name, w in weights.items()}
        return cls(shape, weights, average, Optimiser(weights))

    @torch.no_grad()
    def follow(self, decay: float) -> None:
        """Count a step and move the average towards the weights."""
        self.step, self.place = self.step + 1, self.place + 1
        keep = min(decay, (1 + self.step) / (10 + self.step))
        for name, w in self.weights.items():
            self.average[name].lerp_(w, 1 - keep)

    def save(self, path: Path) -> None:
        """Everything a later day needs to go on; written aside first, so a kill leaves the old."""
        aside = path.with_suffix(".partial")
        kept = {
            "shape": dataclasses.asdict(self.shape),
            "weights": {name: w.detach() for name, w in self.weights.items()},
            "average": self.average,
            "first": self.optimiser.first,
            "second": self.optimiser.second,
            "counts": (self.epoch, self.place, self.step),
        }
        torch.save(kept, aside)
        aside.replace(path)

    @classmethod
    def load(cls, path: Path) -> "Run":
        kept = torch.load(path)
        run = cls.begin(Shape(**kept["shape"]), kept["weights"])
        run.average = kept["average"]
        run.optimiser.first, run.optimiser.second = kept["first"], kept["second"]
        run.epoch, run.place, run.step = kept["counts"]
        run.optimiser.steps = run.step
        return run


def learn(
    args: argparse.Namespace,
    run: Run,
    epoch_of: Callable[[int], list[Callable[[], data.Batch]]],
    loss_of: Callable[[data.Batch], Tensor],
    scores: Callable[[], dict[str, float]],
) -> None:
    """Epochs of batches; a checkpoint every 100 steps, a line of the curve after each epoch."""
    path = args.work / f"{args.name}.pt"
    began = time.time()
    while run.epoch < args.epochs:
        makers = epoch_of(run.epoch)
        losses = []
        while run.place < len(makers):
            speed = learning_rate(args, run, run.place / len(makers))
            loss = loss_of(makers[run.place]())
            loss.backward()  # type: ignore[no-untyped-call]
            run.optimiser.step(args.matrix_rate * speed, args.rate * speed)
            run.follow(args.average)
            losses.append(float(loss.detach()))
            if run.place % 100 == 0:
                run.save(path)
                recent = sum(losses[-100:]) / len(losses[-100:])
                print(f"{args.name} {run.epoch} {run.place}/{len(makers)} {recent:.3f}", flush=True)
        run.epoch, run.place = run.epoch + 1, 0
        run.save(path)
        line = {"run": args.name, "epoch": run.epoch, "step": run.step}
        line |= {"minutes": round((time.time() - began) / 60, 1)}
        line |= {"cpu": round(time.process_time() / 60, 1)}
        line |= {"training": round(sum(losses) / max(1, len(losses)), 4)} | scores()
        print(json.dumps(line), flush=True)
        with path.with_suffix(".jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")


def epoch_batches(
    args: argparse.Namespace,
    source: data.Ids,
    target: data.Ids,
    links: list[Tensor] | None,
    rng: random.Random,
) -> list[Callable[[], data.Batch]]:
    """What makes the batches of one epoch, in their order."""
    chunks = data.batches(source, target, args.tokens, args.longest, rng)
    return [partial(data.make_batch, source, target, links, index) for index in chunks]


def train(args: argparse.Namespace, tokenizer: Any) -> None:
    """Train on the verses: cross-entropy, and the alignment's, which fades."""
    source, target, links = torch.load(args.work / "train.pt")
    run = start_run(args)
    drop = Dropout(args.dropout, args.seed) if args.dropout else untouched

    def epoch_of(epoch: int) -> list[Callable[[], data.Batch]]:
        return epoch_batches(args, source, target, links, random.Random(args.seed + epoch))

    def loss_of(batch: data.Batch) -> Tensor:
        guidance = args.guidance * args.fade**run.epoch
        loss, alignment = losses_of(run.shape, run.weights, batch, args.smoothing, drop)
        return loss + guidance * alignment

    def scores() -> dict[str, float]:
        return evaluate(run.shape, run.average, tokenizer, "validation", args.verses)

    learn(args, run, epoch_of, loss_of, scores)


def learning_rate(args: argparse.Namespace, run: Run, done: float) -> float:
    """Share of the full rate: rising over `warm` steps, falling over the last `cool` epochs."""
    left = (args.epochs - run.epoch - done) / args.cool if args.cool else 1.0
    return min(1.0, (run.step + 1) / args.warm, left)


def load_average(path: Path) -> tuple[Shape, Weights]:
    """The averaged weights of a run's checkpoint."""
    kept = torch.load(path)
    return Shape(**kept["shape"]), kept["average"]


def start_run(args: argparse.Namespace) -> Run:
    """Go on with a run of this name, or begin one: from another's average, or from nothing."""
    path = args.work / f"{args.name}.pt"
    if path.exists():
        return Run.load(path)
    if args.start:
        shape, weights = load_average(args.start)
        if args.order:
            weights = grow(weights, args.order)
            shape = dataclasses.replace(
                shape,
                encoder=len(args.order),
                decoder=len(args.order),
                guided=args.order.index(shape.guided),
            )
        return Run.begin(shape, weights)
    width = args.width
    shape = Shape(
        data.VOCABULARY, width, 4 * width, args.heads, args.layers, args.layers, args.layers // 2
    )
    embeddings = torch.load(args.work / f"emb{width}.pt")
    return Run.begin(shape, new_weights(shape, embeddings, args.seed))


def evaluate(
    shape: Shape, weights: Weights, tokenizer: Any, split: str, number: int | None = None
) -> dict[str, float]:
    """Cross-entropy over a whole split; BLEU and chrF of greedy translations of `number` verses."""
    texts, references = data.read_verses(split)
    ids = (data.encode_all(tokenizer, texts), data.encode_all(tokenizer, references))
    result = {"loss": round(validate(shape, weights, *ids), 4)}
    step = max(1, len(texts) // (number or len(texts)))
    texts, references = texts[::step][:number], references[::step][:number]
    found = translate(to_t5(shape, weights), tokenizer, texts)
    for i in range(0, len(texts), max(1, len(texts) // 3)):
        print(f"{texts[i]}\n = {references[i]}\n > {found[i]}")
    return result | score(found, references)
