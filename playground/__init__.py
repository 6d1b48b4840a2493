"""Decoding Playground: greedy, beam, speculative and mentored decoding, side by side."""

from playground.catalog import PAIRS
from playground.compare import Comparison, compare
from playground.generate import generate
from playground.methods import METHODS
from playground.models import ModelPair, load_pair
from playground.proposers import PROPOSERS
from playground.session import decode, stream
from playground.types import DecodeResult, PairSpec
from playground.verifiers import VERIFIERS

__all__ = [
    "METHODS",
    "PAIRS",
    "PROPOSERS",
    "VERIFIERS",
    "Comparison",
    "DecodeResult",
    "ModelPair",
    "PairSpec",
    "compare",
    "decode",
    "generate",
    "load_pair",
    "stream",
]
