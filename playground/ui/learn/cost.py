"""Lesson 5, "What beams cost": work and memory by formula, and both measured on the chat pair."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import gradio as gr
import plotly.graph_objects as go

from playground.demonstrations.costs import beam_searches, shape_of
from playground.lesson_charts import memory_bars, settled_lines
from playground.lessons.cost import (
    MIB,
    MODELS,
    SHAPES,
    Cost,
    Measured,
    ModelShape,
    cost,
    costs,
    measured,
)
from playground.lessons.stopping import provisional
from playground.types import DecodeResult
from playground.ui.files import open_shipped
from playground.ui.learn.parts import (
    CHAPTER,
    DRAG,
    figure,
    figure_words,
    heading,
    numbers_html,
    predict,
    sources,
    table_html,
    text,
)
from playground.ui.markup import markup
from playground.ui.numbers import count, percent, plain, times
from playground.ui.results import line
from playground.ui.strings import Words
from playground.ui.tabs.compare import MODEL
from playground.ui.updates import refusal
from playground.ui.worker import Worker

if TYPE_CHECKING:
    from playground.models import ModelPair

_CHAPTER = (4, 1000, 200)  # the chapter's example: beams, prompt, new tokens
_ASKED = (4, 8000, 200)  # the question's
_WIDTHS = (1, 2, 4, 8, 16, 32)
_PAIR = "chat"
_MOST = (8, 256, 32)  # beams, prompt, new tokens of a search that is run here
_GPU_S = 30.0
_RECORD, _RUN = "fact", "beam"  # the recorded search: its trace, its label

Found = tuple[ModelShape | None, dict[int, DecodeResult]]


def lesson(worker: Worker, say: Words) -> None:
    """Lay out the lesson in the current Blocks."""
    text(say("cost.text"))
    asked = cost(MODELS[0], *_ASKED)
    predict(
        say,
        "cost.ask",
        ("quarter", "half", "most"),
        right="most",
        model=MODELS[0].name,
        width=_ASKED[0],
        prompt=count(_ASKED[1]),
        steps=count(_ASKED[2]),
        naive=_mib(asked.naive_bytes),
        shared=_mib(asked.shared_bytes),
        saved=percent(_saved(asked)),
        limit=percent(1 - 1 / _ASKED[0]),
    )
    settings = _calculator(say)
    _measuring(worker, settings, say)
    heading(say("cost.stream"))
    record = open_shipped(_RECORD).comparison
    search = record.results[_RUN]
    text(settled_text(search, record.prompt or "", say))
    lines = settled_lines(provisional(search), figure_words(say))
    figure(lines.update_xaxes(tickmode="auto", dtick=None, nticks=8), "cost-settled")
    sources(
        say,
        (say("cost.source.chapter", section=CHAPTER), ""),
        *((shape.source, _address(shape)) for shape in MODELS),
    )


def _address(shape: ModelShape) -> str:
    """Where the model's config stands."""
    return f"https://huggingface.co/{shape.source.partition(',')[0]}/blob/main/config.json"


# --- by formula -----------------------------------------------------------------------------------


def _calculator(say: Words) -> list[gr.Slider]:
    """Model, width, prompt, new tokens, and what they come to; returns the last three."""
    width, prompt, steps = _CHAPTER
    with gr.Row(elem_id="cost-settings"):
        model = gr.Dropdown(
            list(SHAPES),
            value=MODELS[0].name,
            label=say("cost.model"),
            filterable=False,
            elem_id="cost-model",
            min_width=180,
        )
        sliders = [
            gr.Slider(1, 32, width, step=1, label=say("cost.width"), elem_id="cost-width"),
            gr.Slider(0, 8000, prompt, step=50, label=say("cost.prompt"), elem_id="cost-prompt"),
            gr.Slider(10, 2000, steps, step=10, label=say("cost.steps"), elem_id="cost-steps"),
        ]
    start = draw(say, MODELS[0].name, width, prompt, steps)
    numbers = markup(start[0], "cost-numbers")
    with gr.Row(elem_classes="dp-beside"):
        bars = figure(start[1], "cost-memory")
        table = markup(start[2], "cost-models")

    def redraw(*values: Any) -> tuple[str, go.Figure, str]:
        return draw(say, *values)

    inputs: list[Any] = [model, *sliders]
    for part in inputs:
        part.input(redraw, inputs, [numbers, bars, table], **DRAG)
    return sliders


def draw(
    say: Words, model: str, width: float, prompt: float, steps: float
) -> tuple[str, go.Figure, str]:
    """Numbers, bars by width and a table of all models, for one search."""
    shape, search = SHAPES[model], (int(width), int(prompt), int(steps))
    widths = sorted({w for w in _WIDTHS if w <= max(8, search[0])} | {search[0]})
    bars = memory_bars(costs(shape, widths, *search[1:]), figure_words(say))
    return _numbers(shape, cost(shape, *search), say), bars, models_html(model, search, say)


def _numbers(shape: ModelShape, found: Cost, say: Words) -> str:
    values = {
        "token": f"{plain(shape.bytes_per_token / 1024)} KiB",
        "naive": f"{_mib(found.naive_bytes)} MiB",
        "shared": f"{_mib(found.shared_bytes)} MiB",
        "saved": percent(_saved(found)),
        "positions": count(found.positions),
        "work": times(found.work),
    }
    known = {"layers": shape.layers, "heads": shape.kv_heads, "dim": shape.head_dim}
    return numbers_html(
        [
            (say(f"cost.{key}"), value, say(f"cost.{key}.tip", **known))
            for key, value in values.items()
        ]
    )


def models_html(chosen: str, search: tuple[int, int, int], say: Words) -> str:
    """The same search in every model that we know the shape of."""
    rows = []
    for shape in MODELS:
        found = cost(shape, *search)
        kept = f"{shape.layers} × {shape.kv_heads} × {shape.head_dim}"
        token = plain(shape.bytes_per_token / 1024)
        rows.append([shape.name, kept, token, _mib(found.naive_bytes), _mib(found.shared_bytes)])
    head = [say(f"cost.head.{key}") for key in ("model", "shape", "token", "naive", "shared")]
    return table_html(head, rows, say("cost.caption"), [list(SHAPES).index(chosen)])


def _saved(found: Cost) -> float:
    """The share of memory that one prompt for all beams saves."""
    return 1 - found.shared_bytes / found.naive_bytes


def _mib(size: int | None) -> str:
    """Bytes in MiB; to a tenth where it is large."""
    value = None if size is None else size / MIB
    if value is None or value < 100:
        return plain(value)
    return f"{value:,.1f}".removesuffix(".0")


# --- measured -------------------------------------------------------------------------------------


def _measuring(worker: Worker, settings: list[gr.Slider], say: Words) -> None:
    """A button that runs two searches on the chat pair, and what they took."""
    heading(say("cost.measure"))
    most = dict(zip(("width", "prompt", "steps"), _MOST, strict=True))
    text(say("cost.measure.text", **most))
    button = gr.Button(
        say("cost.measure.go"), variant="primary", elem_id="cost-go", elem_classes="dp-act"
    )
    status = markup(elem_id="cost-status")
    table = markup(elem_id="cost-measured")

    def measure(
        width: float, prompt: float, steps: float, request: gr.Request
    ) -> Iterator[tuple[Any, Any]]:
        yield line(say("cost.measuring")), gr.skip()
        with worker.request(request.session_hash) as stop:
            search = bounded(width, prompt, steps)
            work = partial(_searches, search, stop, worker.settings.deadline_s)
            try:
                shape, results = worker.call(_PAIR, work, stop, lambda pair: _GPU_S)
            except Exception as error:
                yield line(""), gr.skip()
                raise refusal(error, say) from error
        if any(result.finish_reason != "length" for result in results.values()):
            yield line(say("cost.stopped")), gr.skip()
            return
        yield measured_html(shape, results, say), measured_table(shape, results, say)

    button.click(
        measure,
        settings,
        [status, table],
        concurrency_id=MODEL,
        concurrency_limit=1,
        show_progress="hidden",
        api_visibility="private",
    )


def bounded(width: float, prompt: float, steps: float) -> tuple[int, int, int]:
    """The search that is run: as set above, within bounds."""
    most = _MOST
    return min(int(width), most[0]), max(1, min(int(prompt), most[1])), min(int(steps), most[2])


def _searches(
    search: tuple[int, int, int], stop: threading.Event, deadline_s: float, pair: ModelPair
) -> Found:
    """On the model's thread: one beam and W of them, and the shape of their cache."""
    width, prompt, steps = search
    widths = sorted({1, width})
    return shape_of(pair), beam_searches(pair, widths, prompt, steps, stop.is_set, deadline_s)


def measured_html(shape: ModelShape | None, results: dict[int, DecodeResult], say: Words) -> str:
    """What came of it, in two sentences."""
    first, last = (measured(results[width], width) for width in (min(results), max(results)))
    run = results[last.width]
    where = say("cost.where", precision=run.precision or "?", device=(run.device or "?").upper())
    if last.width == 1 or not first.ms_per_token or not last.ms_per_token:
        return line(where)
    ratio = last.ms_per_token / first.ms_per_token
    said = say("cost.took", width=last.width, ratio=plain(ratio))
    same = _by_formula(shape, last) == (last.kv_bytes, last.kv_bytes_naive)
    return line(f"{where} {said} {say('cost.equal' if same else 'cost.unequal')}")


def measured_table(shape: ModelShape | None, results: dict[int, DecodeResult], say: Words) -> str:
    """Time and bytes of each width, beside the formulas."""
    found = [measured(result, width) for width, result in results.items()]
    rows = []
    for one in found:
        shared, naive = _by_formula(shape, one)
        kept = (one.kv_bytes, shared, one.kv_bytes_naive, naive)
        rows.append([str(one.width), plain(one.ms_per_token), *map(_mib, kept)])
    keys = ("width", "ms", "kept", "formula_shared", "copied", "formula_naive")
    caption = say("cost.measured", prompt=found[0].prompt, steps=found[0].steps)
    return table_html([say(f"cost.head.{key}") for key in keys], rows, caption)


def _by_formula(shape: ModelShape | None, one: Measured) -> tuple[int | None, int | None]:
    """Bytes that the formulas give a search, the prompt shared and copied."""
    if shape is None:
        return None, None
    found = cost(shape, one.width, one.prompt, one.steps)
    return found.shared_bytes, found.naive_bytes


def settled_text(search: DecodeResult, prompt: str, say: Words) -> str:
    """How late the tokens of a recorded search became certain, and how often its best text so far
    was not yet right."""
    steps = provisional(search)
    worst = max(steps, key=lambda step: step.step - step.certain)
    return say(
        "cost.stream.text",
        width=search.params["num_beams"],
        prompt=prompt,
        step=worst.step,
        certain=worst.certain,
        wrong=sum(step.agrees < step.step for step in steps),
        count=len(steps),
    )
