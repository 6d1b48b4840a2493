"""A lesson laid out alone, and its events called as Gradio calls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradio as gr

from playground.ui.learn import LESSONS
from playground.ui.strings import Words


def laid_out(slug: str, language: str = "en", worker: Any = None) -> gr.Blocks:
    """The lesson in a page of its own; no model takes part unless the worker has one."""
    with gr.Blocks() as page, gr.Tabs(), gr.Tab(slug):
        LESSONS[slug](worker, Words(language))
    return page


def handler(page: gr.Blocks, name: str) -> Callable[..., Any]:
    """The function of that name that some event calls."""
    found = {fn.fn.__name__: fn.fn for fn in page.fns.values() if fn.fn is not None}
    return found[name]
