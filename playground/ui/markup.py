"""HTML components without Gradio's prose styles; assets/css/page.css has theirs."""

from __future__ import annotations

import warnings

import gradio as gr

# Panels carry their data in blocks of JSON, which no browser should run.
warnings.filterwarnings("ignore", message="A `<script>` tag was found in the content")


def markup(value: str = "", elem_id: str | None = None) -> gr.HTML:
    """A block of finished, escaped HTML."""
    return gr.HTML(value, elem_id=elem_id, js_on_load=None, apply_default_css=False)
