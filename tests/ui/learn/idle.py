"""A worker that runs everything at once, on a tiny pair."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from playground.models import ModelPair
from playground.ui.worker import PageSettings
from tests.models_zoo import VOCAB, model


class WordPair(ModelPair):
    """A tiny Llama that reads any text as ids, a character one."""

    def encode(self, prompt: str | Sequence[int], raw: bool = False) -> list[int]:
        ids = [2 + ord(c) % (VOCAB - 2) for c in prompt] if isinstance(prompt, str) else prompt
        return super().encode(ids)


class IdleWorker:
    """What lessons ask of a worker; nothing waits for anything."""

    def __init__(self) -> None:
        self.settings = PageSettings()
        self.pair = WordPair(model("llama"), name="tiny")
        self.stopped = False

    @contextmanager
    def request(self, session: str | None) -> Iterator[threading.Event]:
        stop = threading.Event()
        if self.stopped:
            stop.set()
        yield stop

    def call(self, pair: str, work: Callable[[ModelPair], Any], *_: Any) -> Any:
        return work(self.pair)

    def stream(
        self, pair: str, start: Callable[[ModelPair], Iterator[Any]], *_: Any
    ) -> Iterator[list[Any]]:
        return ([item] for item in start(self.pair))
