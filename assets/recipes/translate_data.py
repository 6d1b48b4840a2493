"""Data of the translation pair: verses, subwords, word alignments, first embeddings, batches.

Everything here takes minutes on one core and is kept in a working folder, see `translate.py`.
"""

import gzip
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from scipy.sparse import csr_matrix, hstack
from scipy.sparse.linalg import svds
from tokenizers import (
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from torch import Tensor
from transformers import PreTrainedTokenizerFast

VERSES = Path(__file__).resolve().parents[1] / "data" / "en-fr-verses.tsv.gz"
VOCABULARY = 4000
PAD, END, UNKNOWN = 0, 1, 2

Ids = list[list[int]]


def read_verses(split: str) -> tuple[list[str], list[str]]:
    """English and French texts of a split: train, validation or test."""
    with gzip.open(VERSES, "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    chosen = [row for row in rows if row[0] == split]
    return [row[2] for row in chosen], [row[3] for row in chosen]


# ---------------------------------------------------------------------------- subwords


def train_tokenizer(folder: Path) -> None:
    """A joint byte-pair vocabulary over the training verses of both languages."""
    core = Tokenizer(models.BPE(unk_token="<unk>"))
    typed = {"’": "'", "‘": "'", "“": '"', "”": '"', "«": '"', "»": '"', "\u00a0": " "}
    core.normalizer = normalizers.Sequence(
        [normalizers.NFC(), *(normalizers.Replace(old, new) for old, new in typed.items())]
    )
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(),
            pre_tokenizers.Split(Regex(r"[^\w▁']"), "isolated"),
            pre_tokenizers.Split("'", "merged_with_previous"),
        ]
    )
    core.decoder = decoders.Metaspace()
    special = ["<pad>", "</s>", "<unk>"]
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=special)
    english, french = read_verses("train")
    core.train_from_iterator(english + french, trainer)
    core.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", END)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(folder)


def encode_all(tokenizer: PreTrainedTokenizerFast, texts: list[str]) -> Ids:
    """Ids of every text, each with its end token."""
    ids: Ids = tokenizer(texts)["input_ids"]
    return ids


# ---------------------------------------------------------------------------- alignment


@dataclass
class Aligner:
    """IBM model 1 with a diagonal prior (Dyer et al. 2013), from one language to the other.

    table[s, t] = p(target piece t | source piece s); row UNKNOWN is the empty source word.
    """

    table: np.ndarray
    sharpness: float = 6.0
    empty: float = 0.08

    def posteriors(self, source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """p(source position | target position) for pairs of equal shape, ids [B, n] and [B, m].

        Returns [B, m, n], and the posterior of the empty word [B, m]; together they sum to 1.
        """
        n, m = source.shape[1], target.shape[1]
        where = (np.arange(m)[:, None] + 0.5) / m - (np.arange(n)[None] + 0.5) / n
        prior = np.exp(-self.sharpness * np.abs(where))
        prior *= (1 - self.empty) / prior.sum(1, keepdims=True)
        weights = prior * self.table[source[:, None, :], target[:, :, None]]
        empty = self.empty * self.table[UNKNOWN, target]
        total = weights.sum(2) + empty + 1e-12
        return weights / total[..., None], empty / total


def by_shape(source: Ids, target: Ids) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Pairs of equal lengths together: indices [B], source ids [B, n], target ids [B, m]."""
    groups: dict[tuple[int, int], list[int]] = {}
    for i, (a, b) in enumerate(zip(source, target, strict=True)):
        groups.setdefault((len(a), len(b)), []).append(i)
    for members in groups.values():
        yield (
            np.array(members),
            np.array([source[i] for i in members]),
            np.array([target[i] for i in members]),
        )


def train_aligner(source: Ids, target: Ids, rounds: int = 8) -> Aligner:
    """Expectation maximisation over all pairs; a small additive prior keeps rare words honest."""
    table = np.full((VOCABULARY, VOCABULARY), 1 / VOCABULARY, np.float32)
    aligner = Aligner(table)
    for _ in range(rounds):
        counts = np.zeros(VOCABULARY * VOCABULARY)
        for _, a, b in by_shape(source, target):
            links, empty = aligner.posteriors(a, b)
            cells = (a[:, None, :] * VOCABULARY + b[:, :, None]).ravel()
            np.add.at(counts, cells, links.ravel())
            np.add.at(counts, UNKNOWN * VOCABULARY + b.ravel(), empty.ravel())
        fresh = counts.reshape(VOCABULARY, VOCABULARY).astype(np.float32)
        fresh = np.maximum(fresh - 0.01, 0) + 1e-6
        aligner.table = fresh / fresh.sum(1, keepdims=True)
    return aligner


def align(source: Ids, target: Ids) -> list[Tensor]:
    """For each pair a matrix [m, n] of link weights, rows summing to at most 1.

    Both directions must agree: p(source | target) times p(target | source), renormalised, times
    the share of the target piece that is not aligned to the empty word.
    """
    forward, backward = train_aligner(source, target), train_aligner(target, source)
    found: dict[int, Tensor] = {}
    for members, a, b in by_shape(source, target):
        links, empty = forward.posteriors(a, b)
        reverse, _ = backward.posteriors(b, a)
        both = links * reverse.transpose(0, 2, 1) + 1e-3 * links
        both *= (1 - empty)[..., None] / (both.sum(2, keepdims=True) + 1e-9)
        for row, i in enumerate(members):
            found[int(i)] = torch.from_numpy(both[row].astype(np.float16))
    return [found[i] for i in range(len(source))]


# ---------------------------------------------------------------------------- embeddings


def bilingual_embeddings(
    source: Ids, target: Ids, links: list[Tensor], width: int, seed: int = 0
) -> Tensor:
    """Embeddings [V, width] in which translations are neighbours, entries of about unit variance.

    Latent semantic indexing: a piece is described by the verses it stands in (tf-idf; a verse is
    one document in both languages), by the pieces next to it, and by the pieces it is aligned to.
    The first column is the logarithm of its frequency.
    """
    size = VOCABULARY
    standing = [sorted({*a, *b}) for a, b in zip(source, target, strict=True)]
    rows = np.concatenate([*map(np.array, standing)])
    columns = np.repeat(np.arange(len(source)), [*map(len, standing)])
    verses = csr_matrix((np.ones(len(rows)), (rows, columns)), (size, len(source)))
    frequency = np.bincount(np.concatenate([*map(np.array, source + target)]), minlength=size)
    seen = np.asarray((verses > 0).sum(1)).ravel()
    verses = csr_matrix(verses.multiply(np.log(len(source) / (seen + 1.0))[:, None].clip(0)))
    linked = sum_pairs(
        (np.repeat(np.array(b), len(a)), np.tile(a, len(b)), link.numpy().ravel())
        for a, b, link in zip(source, target, links, strict=True)
    )
    after = sum_pairs(
        (np.array(t[:-1]), np.array(t[1:]), np.ones(len(t) - 1)) for t in source + target
    )
    own = csr_matrix((np.sqrt(frequency), (range(size), range(size))), (size, size))
    parts = [
        unit_rows(verses),
        2.0 * unit_rows(positive_information(linked + linked.T + own)),
        unit_rows(positive_information(after)),
        unit_rows(positive_information(csr_matrix(after.T))),
    ]
    texts = factor(parts[0], width // 4, seed)
    neighbours = factor(csr_matrix(hstack(parts[1:])), width - 1 - width // 4, seed)
    table = np.hstack([np.log(frequency + 1.0)[:, None], texts, neighbours])
    table = (table - table.mean(0)) / (table.std(0) + 1e-6)
    norms = np.linalg.norm(table[:, 1:], axis=1, keepdims=True)
    table[:, 1:] *= np.sqrt(width - 1) / (norms + 1e-6)
    table[:3, 1:] *= 0.1  # the special tokens mean nothing yet
    return torch.from_numpy(table).float()


def sum_pairs(triples: Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> csr_matrix:
    """A [V, V] matrix of summed weights of pairs of pieces."""
    rows, columns, values = (np.concatenate(x) for x in zip(*triples, strict=True))
    return csr_matrix((values.astype(np.float32), (rows, columns)), (VOCABULARY, VOCABULARY))


def positive_information(counts: csr_matrix) -> csr_matrix:
    """Positive pointwise mutual information of a matrix of counts."""
    c = counts.tocoo()
    left = np.asarray(counts.sum(1)).ravel() + 1.0
    right = np.asarray(counts.sum(0)).ravel() + 1.0
    values = np.log(np.maximum(c.data, 1e-9) * c.data.sum() / (left[c.row] * right[c.col]))
    kept = (values > 0) & (c.data > 0.5)
    return csr_matrix((values[kept], (c.row[kept], c.col[kept])), counts.shape)


def unit_rows(matrix: csr_matrix) -> csr_matrix:
    norms = np.sqrt(np.asarray(matrix.multiply(matrix).sum(1)).ravel()) + 1e-6
    return csr_matrix(matrix.multiply(1 / norms[:, None]))


def factor(matrix: csr_matrix, rank: int, seed: int) -> np.ndarray:
    """Left singular vectors times the square roots of their values."""
    u, s, _ = svds(matrix, k=rank, rng=np.random.default_rng(seed))
    return u * np.sqrt(s)


# ---------------------------------------------------------------------------- batches


@dataclass
class Batch:
    """source [B, n] and target [B, m] ids, both ending with END, padded; links [B, m, n]."""

    source: Tensor
    target: Tensor
    links: Tensor | None


def pad(rows: Ids) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([row + [PAD] * (width - len(row)) for row in rows])


def make_batch(source: Ids, target: Ids, links: list[Tensor] | None, index: list[int]) -> Batch:
    a, b = pad([source[i] for i in index]), pad([target[i] for i in index])
    block = None
    if links is not None:
        block = torch.zeros(len(index), b.shape[1], a.shape[1])
        for row, i in enumerate(index):
            block[row, : links[i].shape[0], : links[i].shape[1]] = links[i]
    return Batch(a, b, block)


def batches(
    source: Ids, target: Ids, tokens: int, longest: int, rng: random.Random
) -> list[list[int]]:
    """Indices of one epoch's batches: like lengths together, at most `tokens` padded ids a side;
    pairs with more than `longest` ids a side are left out."""
    widths = [max(len(a), len(b)) for a, b in zip(source, target, strict=True)]
    index = [i for i, width in enumerate(widths) if width <= longest]
    places = {i: len(source[i]) + len(target[i]) + 3 * rng.random() for i in index}
    index.sort(key=places.__getitem__)
    chunks: list[list[int]] = [[]]
    widest = 0
    for i in index:
        widest = max(widest, widths[i])
        if widest * (len(chunks[-1]) + 1) > tokens and chunks[-1]:
            chunks.append([])
            widest = widths[i]
        chunks[-1].append(i)
    rng.shuffle(chunks)
    return chunks
