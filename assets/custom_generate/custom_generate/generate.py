"""Mentored, speculative and search decoding of the Decoding Playground for `model.generate`."""

from typing import Any

try:
    import playground
except ImportError as error:
    raise ImportError(
        "custom_generate: the Decoding Playground is not importable; add its folder to PYTHONPATH."
    ) from error


def generate(model: Any, **arguments: Any) -> Any:
    """`model.generate` with the playground's loops; see the README beside this folder.

    arguments: those of `generate`, and `method`, `divergence_budget`, `num_draft_tokens`, ...
    """
    return model.generate(**arguments, custom_generate=playground.generate)
