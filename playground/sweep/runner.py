"""One configuration on one prompt -> a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from playground.compare import warm_up
from playground.datasets import Example
from playground.models import ModelPair
from playground.session import Cancelled, Plan, last_of, prepare, run_plan
from playground.sweep.draft_alone import DraftAlone, judged
from playground.sweep.grid import Configuration, seed_of
from playground.sweep.rows import Row
from playground.types import DecodeResult, to_json


class Runner:
    """Runs configurations on prompts. law, raw: as in a `Request`."""

    def __init__(
        self,
        pair: ModelPair,
        configs: Sequence[Configuration],
        *,
        seed: int = 0,
        law: dict[str, Any],
        raw: bool = False,
        cancelled: Cancelled | None = None,
    ) -> None:
        self.configs = configs
        self._seed, self._law, self._raw, self._cancelled = seed, law, raw, cancelled
        alone = any(c.model == "draft" for c in configs)
        self._pairs = {"target": pair, "draft": DraftAlone(pair) if alone else pair}

    def check(self, examples: Sequence[Example]) -> None:
        """Raises ValueError for a prompt that does not fit the pair, or a bad configuration."""
        pair = self._pairs["target"]
        plans = [self._plan(c, examples[0]) for c in self.configs]
        longest = max(plan.settings.params.max_new_tokens for plan in plans)
        for example in examples:
            try:
                pair.check_length(pair.encode(example.prompt, raw=self._raw), longest)
            except ValueError as error:
                raise ValueError(f"prompt {example.id}: {error}") from error

    def row(self, config: Configuration, example: Example) -> Row | None:
        """The row of one run; None where it was cancelled."""
        plan = self._plan(config, example)
        warm_up(plan.pair, {config.label: plan}, self._cancelled)
        last = last_of(run_plan(plan, self._cancelled))
        assert last.result is not None
        if last.result.finish_reason == "cancelled":
            return None
        result = last.result
        if config.model == "draft":
            result = judged(self._pairs["target"], result)
        return _row(config, example, plan.seed, result)

    def _plan(self, config: Configuration, example: Example) -> Plan:
        """The checked run."""
        params = config.params | {"seed": seed_of(self._seed, example.id)}
        return prepare(
            self._pairs[config.model],
            example.prompt,
            config.method,
            params,
            raw=self._raw,
            reference=self._law,
        )


def _row(config: Configuration, example: Example, seed: int, result: DecodeResult) -> Row:
    verified = [t for t in result.tokens if t.source in ("accepted", "residual")]
    return {
        "key": config.key,
        "prompt_id": example.id,
        "label": config.label,
        "method": config.method,
        "model": config.model,
        "params": to_json(config.params),
        "kind": example.kind,
        "seed": seed,
        "text": result.text,
        "finish_reason": result.finish_reason,
        "proven": result.proven,
        "num_prompt_tokens": len(result.prompt_ids),
        "num_verified": sum(t.divergence is not None for t in verified),
        **to_json(result.metrics),
    }
