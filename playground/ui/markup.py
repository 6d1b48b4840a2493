"""HTML components without Gradio's prose styles; assets/css/page.css has theirs."""

from __future__ import annotations

import gradio as gr


def markup(value: str = "", elem_id: str | None = None) -> gr.HTML:
    """A block of finished, escaped HTML."""
    return gr.HTML(value, elem_id=elem_id, js_on_load=None, apply_default_css=False)
