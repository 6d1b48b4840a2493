r"""Make the translation pair: a T5 of eight layers a side and its draft, English to French.

Sources and licences: `../data/en-fr-verses.tsv.gz` (King James Version and Louis Segond 1910, both
in the public domain) and nothing else: tokenizer, alignments, embeddings and weights begin here.

Reads the verses; keeps everything else in a working folder outside the repository (`--work`):

- `prepare`   `tokenizer/`, `train.pt` (ids and alignments) and `emb192.pt` (first embeddings)
- `train`     `NAME.pt` (all that is needed to go on) and `NAME.jsonl` (the curve)
- `write`     `written.pt`, `held.pt`: what a target writes for training and validation verses
- `distil`    as `train`, for the draft
- `texts`     `texts.pt`: what the feature draft learns from
- `distil-feature`, `export-feature`  as `distil` and `export`, for the feature draft
- `evaluate`  prints scores of a checkpoint's averaged weights as one line of JSON
- `export`    `assets/models/FOLDER`: a bfloat16 folder that transformers loads

What makes it learn in minutes rather than hours: one head of a middle decoder layer is taught word
alignments (`translate_data.align`); the first embeddings already have translations as neighbours
(`translate_data.bilingual_embeddings`), and the first model copies what it attends to
(`translate_model.new_weights`); Muon; short verses and four layers first, then all and eight.

The commands are in README.md. A killed run goes on when its command is given again, from the last
hundred steps; a finished one goes on with more `--epochs`.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from transformers import GenerationConfig, PreTrainedTokenizerFast

from assets.recipes import translate_data as data
from assets.recipes.translate_draft import distil, write_all
from assets.recipes.translate_feature import distil_feature, export_feature, write_texts
from assets.recipes.translate_model import to_t5
from assets.recipes.translate_train import evaluate, load_average, train

MODELS = Path(__file__).resolve().parents[1] / "models"


def prepare(args: argparse.Namespace) -> None:
    """Tokenizer, ids and alignments of the training verses, first embeddings."""
    data.train_tokenizer(args.work / "tokenizer")
    tokenizer = load_tokenizer(args.work)
    source, target = (data.encode_all(tokenizer, texts) for texts in data.read_verses("train"))
    links = data.align(source, target)
    torch.save((source, target, links), args.work / "train.pt")
    embeddings = data.bilingual_embeddings(source, target, links, args.width)
    torch.save(embeddings, args.work / f"emb{args.width}.pt")


def load_tokenizer(work: Path) -> Any:
    return PreTrainedTokenizerFast.from_pretrained(work / "tokenizer")


def export(args: argparse.Namespace, tokenizer: Any) -> None:
    """A checkpoint's averaged weights as a bfloat16 T5 folder that transformers loads."""
    shape, weights = load_average(args.checkpoint)
    model = to_t5(shape, weights).bfloat16()
    model.generation_config = GenerationConfig(
        decoder_start_token_id=data.PAD, pad_token_id=data.PAD, eos_token_id=data.END
    )
    folder = MODELS / args.folder
    model.save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)
    tokenizer.save_pretrained(folder)
    # The class that older versions of transformers know too, and nothing about this machine.
    kept = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    kept |= {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(kept, indent=2) + "\n")


def add_rates(parser: argparse.ArgumentParser) -> None:
    """Arguments that `train` and `distil` share."""
    parser.add_argument("--name", required=True, help="of the checkpoint; goes on if it exists")
    parser.add_argument("--start", type=Path, help="checkpoint whose average to begin from")
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--tokens", type=int, default=2500, help="padded ids a side in a batch")
    parser.add_argument("--longest", type=int, default=40, help="ids a side of the longest verse")
    parser.add_argument("--matrix-rate", type=float, default=0.02)
    parser.add_argument("--rate", type=float, default=5e-3)
    parser.add_argument("--warm", type=int, default=50, help="steps of rising rates")
    parser.add_argument("--cool", type=float, default=0, help="epochs of falling rates at the end")
    parser.add_argument("--average", type=float, default=0.998)
    parser.add_argument("--seed", type=int, default=0)


def add_distilling(parser: argparse.ArgumentParser) -> None:
    """Arguments that both drafts' training shares."""
    add_rates(parser)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--tv", type=float, default=0.5, help="weight of total variation")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, required=True, help="folder for everything between")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("prepare")
    command.add_argument("--width", type=int, default=192)
    command = commands.add_parser("train")
    add_rates(command)
    command.add_argument("--order", type=lambda s: [int(i) for i in s.split(",")])
    command.add_argument("--width", type=int, default=192)
    command.add_argument("--heads", type=int, default=4)
    command.add_argument("--layers", type=int, default=4)
    command.add_argument("--guidance", type=float, default=0.5)
    command.add_argument("--fade", type=float, default=0.85, help="of the guidance, an epoch")
    command.add_argument("--smoothing", type=float, default=0.1)
    command.add_argument("--dropout", type=float, default=0.0)
    command.add_argument("--verses", type=int, default=150)
    command = commands.add_parser("write")
    command.add_argument("--target", type=Path, required=True)
    command.add_argument("--longest", type=int, default=44)
    command.add_argument("--held", type=int, default=150)
    command.add_argument("--temperatures", type=float, nargs="+", default=[0.5])
    add_distilling(commands.add_parser("distil"))
    command = commands.add_parser("texts")
    command.add_argument("--target", type=Path, required=True)
    command.add_argument("--longest", type=int, default=60)
    command = commands.add_parser("distil-feature")
    add_distilling(command)
    command.add_argument("--unroll", type=int, default=3, help="steps on its own states")
    command.add_argument("--fade", type=float, default=0.8, help="weight of each further step")
    command = commands.add_parser("evaluate")
    command.add_argument("checkpoint", type=Path)
    command.add_argument("--split", default="validation")
    command = commands.add_parser("export")
    command.add_argument("checkpoint", type=Path)
    command.add_argument("folder")
    command = commands.add_parser("export-feature")
    command.add_argument("checkpoint", type=Path)
    command.add_argument("folder")
    return parser.parse_args()


def main() -> None:
    args = parse()
    torch.set_num_threads(1)
    if args.command == "prepare":
        return prepare(args)
    tokenizer = load_tokenizer(args.work)
    if args.command == "train":
        train(args, tokenizer)
    elif args.command == "write":
        write_all(args, tokenizer)
    elif args.command == "distil":
        distil(args)
    elif args.command == "texts":
        write_texts(args, tokenizer)
    elif args.command == "distil-feature":
        distil_feature(args)
    elif args.command == "export-feature":
        export_feature(args.checkpoint, MODELS / args.folder)
    elif args.command == "evaluate":
        print(json.dumps(evaluate(*load_average(args.checkpoint), tokenizer, args.split)))
    else:
        export(args, tokenizer)


if __name__ == "__main__":
    main()
