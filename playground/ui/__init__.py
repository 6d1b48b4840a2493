"""The page: components and events. It sees the models only through session and compare."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from html import escape
from typing import Any

import gradio as gr
from starlette.middleware import Middleware

from playground.catalog import ASSETS
from playground.session import on_one_core
from playground.ui.api import add_endpoints
from playground.ui.door import Door
from playground.ui.files import KEEP_S, own_uploads
from playground.ui.header import header_html
from playground.ui.markup import markup
from playground.ui.operations import log_to_stderr, reach_itself, readiness
from playground.ui.page import Page
from playground.ui.strings import ENGLISH, Words
from playground.ui.tabs.about import about_tab
from playground.ui.tabs.compare import LIGHT, MODEL, TELLING, CompareTab
from playground.ui.tabs.frontier import FrontierTab
from playground.ui.tabs.learn import learn_tab
from playground.ui.tabs.token_lab import TokenLab
from playground.ui.worker import PageSettings, Worker

_STYLES = ("page", "frontier", "learn", "lessons")
# Scripts of the page in the order in which they run.
_SCRIPTS = ("base", "page", "tokens", "rounds", "beam_tree")
_LIGHT_EVENTS = 200  # that may wait beside the requests of the model's queue


def build() -> Page:
    """The page in English at "/" and in Chinese at "/zh"; its models load in the background.

    Two layouts rather than one that is translated: labels, helps and choices are then right from
    the first paint. The script sends a visitor to the one their browser or link asks for.
    """
    reach_itself()
    log_to_stderr()
    worker = Worker(PageSettings.from_environment())
    uploads, title = own_uploads(), ENGLISH("app.title")
    with Page(title=title, analytics_enabled=False, delete_cache=(KEEP_S, KEEP_S)) as demo:
        add_endpoints(worker, MODEL)  # first, so that no event of the page takes their names
        on_one_core(lambda: _page(demo, worker, ENGLISH))
    with demo.route("中文", "/zh", show_in_navbar=False):
        on_one_core(lambda: _page(demo, worker, Words("zh")))
    size = worker.settings.queue_size
    demo.queue(api_open=False, max_size=size + _LIGHT_EVENTS, default_concurrency_limit=1)
    demo._queue.ANALYTICS_MAX_EVENTS = 100  # it sums all of them up after every event
    demo.uploads = uploads
    demo.limits, demo.worker = (MODEL, size), worker
    worker.attend(demo.waits)
    return demo


def _page(demo: gr.Blocks, worker: Worker, say: Words) -> None:
    """The whole page in one language."""
    markup(header_html(say), "top")
    with gr.Tabs(elem_id="tabs") as tabs:
        with gr.Tab(say("tab.compare"), id="compare", elem_id="tab-compare"):
            compare = CompareTab(worker, say)
        with gr.Tab(say("tab.frontier"), id="frontier", elem_id="tab-frontier") as frontier_tab:
            frontier = FrontierTab(frontier_tab, worker, say)
        with gr.Tab(say("tab.lab"), id="lab", elem_id="tab-lab") as lab_tab:
            lab = TokenLab(lab_tab, compare.results.shown, say)
        with gr.Tab(say("tab.learn"), id="learn", elem_id="tab-learn"):
            lessons = learn_tab(worker, say)
        with gr.Tab(say("tab.about"), id="about", elem_id="tab-about"):
            about_tab(say)
    compare.results.shown.change(lab.show, compare.results.shown, lab.outputs(), **LIGHT)

    def open_link(query: str) -> dict[Any, Any]:
        setup, update = compare.open_link(query)
        chosen = {tabs: gr.Tabs(selected=setup.tab), lessons: gr.Tabs(selected=setup.lesson)}
        return {**update, **frontier.open(setup.result), **chosen}

    async def watch(pair: str) -> AsyncIterator[str]:
        while worker.status(pair).state == "loading":
            yield _pair_line(worker, pair, say)
            await asyncio.sleep(0.2)
        yield _pair_line(worker, pair, say)

    def leave(request: gr.Request) -> None:
        worker.stop(request.session_hash)

    form = compare.form
    opened = demo.load(
        open_link,
        compare.address,
        [*compare.outputs(), *frontier.outputs(), tabs, lessons],
        js="() => dp.page.search()",
        **TELLING,
    )
    opened.then(compare.sync, compare.inputs(), compare.address, **LIGHT).then(
        None, compare.address, None, js="(query) => dp.page.opened(query)", api_visibility="private"
    )
    opened.then(watch, form.pair, form.pair_status, **TELLING)
    form.pair.input(watch, form.pair, form.pair_status, **TELLING)
    compare.running.then(watch, form.pair, form.pair_status, **TELLING)  # a run may have loaded it
    demo.unload(leave)


def launch_options(demo: Page) -> dict[str, Any]:
    """Look and manners of the page, as `launch` takes them. Addresses are left to Gradio."""
    return {
        "app_kwargs": {
            "middleware": [Middleware(Door, page=demo)],
            "routes": [readiness(demo.worker, partial(demo.num_waiting, MODEL))],
        },
        "state_session_capacity": 300,  # 1.4 MB each, and what they show
        "theme": _theme(),
        "css_paths": [ASSETS / "css" / f"{name}.css" for name in _STYLES],
        "head": _head(),
        "footer_links": ["api", "settings"],
        "ssr_mode": False,
        "mcp_server": True,
        "max_file_size": "8mb",
        "show_error": True,
    }


def _theme() -> gr.themes.Base:
    """Gradio's own theme, its pale blues and greys dark enough to be read (contrast 4.5)."""
    theme = gr.themes.Default(
        primary_hue="blue", neutral_hue="gray", font=["system-ui", "sans-serif"]
    )
    return theme.set(
        color_accent="*primary_600",
        button_primary_background_fill="*primary_600",
        button_primary_background_fill_hover="*primary_700",
        body_text_color_subdued="*neutral_600",
        block_info_text_color="*neutral_600",
    )


def _head() -> str:
    """The page's scripts, and the styles that Gradio must not put its own container before."""
    scripts = "\n".join(_asset("js", f"{name}.js") for name in _SCRIPTS)
    return f"<style>{_asset('css', 'frame.css')}</style><script>{scripts}</script>"


def _asset(*parts: str) -> str:
    return ASSETS.joinpath(*parts).read_text(encoding="utf-8")


def _pair_line(worker: Worker, pair: str, say: Words) -> str:
    """Where a pair stands."""
    status = worker.status(pair)
    values = {"precision": status.precision, "device": status.device, "reason": status.reason}
    text = escape(say(f"pair.{status.state}", **values))
    return f'<p role="status" class="dp-pair-{status.state}">{text}</p>'
