"""The page: components and events. It sees the models only through session and compare."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from html import escape
from typing import Any

import gradio as gr

from playground.catalog import ASSETS, PAIRS
from playground.ui.api import add_endpoints
from playground.ui.markup import markup
from playground.ui.strings import say
from playground.ui.tabs.compare import MODEL, compare_tab
from playground.ui.worker import PageSettings, Worker

# Ctrl/⌘+Enter runs and Esc stops, wherever the focus is.
_KEYS = """<script>
document.addEventListener("keydown", (event) => {
  const run = event.key === "Enter" && (event.ctrlKey || event.metaKey);
  if (!run && event.key !== "Escape") return;
  if (run) event.preventDefault();
  document.querySelector(run ? "#run" : "#stop")?.click();
}, true);
</script>"""


def build() -> gr.Blocks:
    """The page, its models loading in the background."""
    worker = Worker(PageSettings.from_environment())
    with gr.Blocks(title=say("app.title")) as demo:
        with gr.Row(elem_id="top"):
            markup(f"<h1>{say('app.title')}</h1><p>{say('app.line')}</p>", "head")
            pair = markup(_pair_line(worker), "pair")
        compare_tab(worker)
        add_endpoints(worker, MODEL)

        async def watch() -> AsyncIterator[str]:
            while worker.status.state == "loading":
                yield _pair_line(worker)
                await asyncio.sleep(0.2)
            yield _pair_line(worker)

        def leave(request: gr.Request) -> None:
            worker.stop(request.session_hash)

        demo.load(
            watch,
            None,
            pair,
            show_progress="hidden",
            concurrency_limit=None,
            api_visibility="private",
        )
        demo.unload(leave)
    demo.queue(max_size=worker.settings.queue_size, default_concurrency_limit=1)
    return demo


def launch_options() -> dict[str, Any]:
    """Look and manners of the page, as `launch` takes them. Addresses are left to Gradio."""
    return {
        "theme": gr.themes.Default(
            primary_hue="blue", neutral_hue="gray", font=["system-ui", "sans-serif"]
        ),
        "css_paths": ASSETS / "css" / "page.css",
        "head": _KEYS,
        "footer_links": ["api", "settings"],
        "ssr_mode": False,
        "max_file_size": "1mb",
        "show_error": True,
    }


def _pair_line(worker: Worker) -> str:
    """The pair's name and where it stands."""
    name, status = worker.settings.pair, worker.status
    title = PAIRS[name].title if name in PAIRS else name
    values = {"precision": status.precision, "device": status.device, "reason": status.reason}
    state = escape(say(f"pair.{status.state}", **values))
    return (
        f'<p role="status"><b>{escape(name)}</b> '
        f'<span class="dp-pair-{status.state}">{state}</span>'
        f"<br><small>{escape(title)}</small></p>"
    )
