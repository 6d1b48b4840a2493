"""Lesson 7, "Likelihood repeats itself": greedy and beam search against sampling on an open prompt.

A recorded comparison is shown at once; a button decodes anew on the chat pair.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from functools import cache, partial
from html import escape
from typing import TYPE_CHECKING, Any

import gradio as gr
import plotly.graph_objects as go

from playground import traces
from playground.catalog import ASSETS
from playground.charts import colour_of
from playground.compare import Comparison
from playground.lesson_charts import probability_lines
from playground.lessons.repetition import (
    laps,
    loop_at_end,
    probabilities,
    repeated_share,
    repeats,
    smoothed,
)
from playground.metrics import mean
from playground.types import DecodeResult, Event, Token
from playground.ui.learn.parts import (
    CHAPTER,
    figure,
    figure_words,
    heading,
    predict,
    sources,
    table_html,
    text,
)
from playground.ui.markup import markup
from playground.ui.numbers import percent, plain
from playground.ui.requests import CompareRequest
from playground.ui.results import line
from playground.ui.runs import name_of
from playground.ui.setup import Setup
from playground.ui.strings import Words
from playground.ui.tabs.compare import MODEL
from playground.ui.updates import refusal
from playground.ui.worker import PageSettings, Worker

if TYPE_CHECKING:
    from playground.models import ModelPair

RECORD = ASSETS / "traces" / "lessons" / "repetition.json"
SETUP = Setup(  # what was recorded, and what the button starts from
    "In the middle of the forest there was an old house, and",
    runs={
        "greedy": {"method": "greedy"},
        "beam": {"method": "beam", "num_beams": 4},
        "sample": {"method": "sample"},
    },
    common={"max_new_tokens": 160, "temperature": 1.0, "seed": 0},
    raw=True,
)
_LOOPS = "greedy"  # the recorded run whose loop the question is about
_GRAM = 4  # tokens of the n-grams that count as repetition
_WINDOW = 8  # tokens that a line of the figure is the mean of
_MAX_CHARS = 2000
_HOLTZMAN, _WELLECK = "1904.09751", "1908.04319"

Item = tuple[str, Event | Comparison]


@cache
def recorded() -> Comparison:
    """The comparison that ships with the page."""
    return traces.load(RECORD.read_bytes())[0]


def lesson(worker: Worker, say: Words) -> None:
    """Lay out the lesson in the current Blocks."""
    text(say("repetition.text"))
    _question(say)
    heading(say("repetition.runs"))
    shown = draw(recorded(), say)
    status = markup(line(_where(recorded(), say, "repetition.recorded")), "repetition-status")
    outputs = [
        status,
        markup(shown[0], "repetition-numbers"),
        figure(shown[1], "repetition-lines"),
        markup(shown[2], "repetition-texts"),
    ]
    text(say("repetition.remedy"))
    _live(worker, outputs, say)
    sources(
        say,
        (f"Holtzman et al. 2020: {say(f'source.{_HOLTZMAN}')}", _address(_HOLTZMAN)),
        (f"Welleck et al. 2020: {say(f'source.{_WELLECK}')}", _address(_WELLECK)),
        (say("repetition.source.chapter", section=CHAPTER), ""),
    )


def _address(number: str) -> str:
    return f"https://arxiv.org/abs/{number}"


def _question(say: Words) -> None:
    """How probable a sentence is when greedy search writes it again, and again."""
    run = recorded().results[_LOOPS]
    loop = loop_at_end(run.token_ids)
    assert loop is not None, "the recorded run ends in a loop"
    means = laps(probabilities(run.tokens), loop)
    predict(
        say,
        "repetition.ask",
        ("falls", "same", "rises"),
        right="rises",
        sentence=_sentence(run.tokens[-loop.length :], loop.period),
        laps=", ".join(plain(100 * value) for value in means[:-1] if value is not None),
    )


def _sentence(tokens: Sequence[Token], period: int) -> str:
    """One lap of a loop, from the beginning of a sentence if it has one."""
    texts = [token.text or "" for token in tokens]
    ends = [i + 1 for i in range(period) if texts[i].endswith(".")]
    start = ends[0] if ends and len(texts) >= 2 * period else 0
    return "".join(texts[start : start + period]).strip()


# --- what is shown --------------------------------------------------------------------------------


def draw(comparison: Comparison, say: Words) -> tuple[str, go.Figure, str]:
    """Numbers, probabilities and texts of a comparison."""
    results = comparison.results
    lines = {
        name_of(k, say): smoothed(probabilities(r.tokens), _WINDOW) for k, r in results.items()
    }
    colours = {name_of(k, say): colour_of(r.method) for k, r in results.items()}
    words = figure_words(say) | {"probability": say("repetition.axis", window=_WINDOW)}
    drawn = probability_lines(lines, colours, words)
    return _numbers(results, say), drawn, texts_html(comparison, say)


def _numbers(results: dict[str, DecodeResult], say: Words) -> str:
    rows = []
    for label, result in results.items():
        loop = loop_at_end(result.token_ids)
        laps_of = f"{loop.period} × {plain(loop.repeats)}" if loop else plain(None)
        rows.append(
            [
                name_of(label, say),
                percent(repeated_share(result.token_ids, _GRAM)),
                laps_of,
                percent(mean(probabilities(result.tokens))),
                plain(result.metrics.target_logprob),
            ]
        )
    keys = ("run", "share", "loop", "probability", "logprob")
    return table_html([say(f"repetition.head.{key}", n=_GRAM) for key in keys], rows)


def texts_html(comparison: Comparison, say: Words) -> str:
    """The texts side by side, behind their prompt, what they repeat marked."""
    prompt = f'<span class="dp-none">{escape(comparison.prompt or "")}</span>'
    parts = []
    for label, run in comparison.results.items():
        name = escape(name_of(label, say))
        text = marked_html(run.tokens, repeats(run.token_ids, _GRAM))
        parts.append(
            f'<section style="--dp-colour:{colour_of(run.method)}"><h4>{name}</h4>'
            f'<p tabindex="0">{prompt}{text}</p></section>'
        )
    return f'<div class="dp-repeats">{"".join(parts)}</div>'


def marked_html(tokens: Sequence[Token], again: Sequence[bool]) -> str:
    """The text, its stretches of repeated tokens marked."""
    html, inside = "", False
    for token, repeated in zip(tokens, again, strict=True):
        if repeated != inside:
            html += "<mark>" if repeated else "</mark>"
            inside = repeated
        html += escape(token.text or "")
    return html + ("</mark>" if inside else "")


def _where(comparison: Comparison, say: Words, key: str) -> str:
    """What the runs were made on."""
    run = next(iter(comparison.results.values()))
    device = (run.device or "?").upper()
    return say(key, precision=run.precision or "?", device=device, prompt=comparison.prompt or "")


# --- decoded now ----------------------------------------------------------------------------------


def _live(worker: Worker, outputs: list[Any], say: Words) -> None:
    """Prompt and sampling settings, and a button that decodes on the chat pair."""
    with gr.Row(elem_id="repetition-live"):
        prompt = gr.Textbox(
            SETUP.prompt,
            label=say("repetition.prompt"),
            info=say("repetition.prompt.help"),
            lines=2,
            max_length=_MAX_CHARS,
            elem_id="repetition-prompt",
            scale=2,
            min_width=260,
        )
        temperature = gr.Slider(
            0.1, 1.5, 1.0, step=0.1, label=say("repetition.temperature"), min_width=160
        )
        top_p = gr.Slider(0.5, 1.0, 1.0, step=0.05, label=say("repetition.top_p"), min_width=160)
    button = gr.Button(
        say("repetition.go"), variant="primary", elem_id="repetition-go", elem_classes="dp-act"
    )

    def decode(
        prompt: str, temperature: float, top_p: float, request: gr.Request
    ) -> Iterator[tuple[Any, ...]]:
        kept = (gr.skip(),) * (len(outputs) - 1)
        yield line(say("status.waiting")), *kept
        wanted = _request(prompt, temperature, top_p, worker.settings)
        found = None
        with worker.request(request.session_hash) as stop:
            start = partial(_events, wanted, worker.settings, stop)
            seconds = partial(wanted.gpu_seconds, worker.settings)
            try:
                for batch in worker.stream(SETUP.pair, start, stop, seconds):
                    for _, item in batch:
                        found = item if isinstance(item, Comparison) else found
                    if progress := _progress(batch, say):
                        yield line(progress), *kept
            except Exception as error:
                yield line(""), *kept
                raise refusal(error, say) from error
        if found is None:
            yield line(say("repetition.stopped")), *kept
        else:
            yield line(_where(found, say, "repetition.fresh")), *draw(found, say)

    button.click(
        decode,
        [prompt, temperature, top_p],
        outputs,
        concurrency_id=MODEL,
        concurrency_limit=1,
        show_progress="hidden",
        api_visibility="private",
    )


def _request(
    prompt: str, temperature: float, top_p: float, settings: PageSettings
) -> CompareRequest:
    """The recorded runs on another prompt, sampling with these settings and another seed."""
    sampling = {"temperature": temperature, "top_p": top_p}
    runs = SETUP.runs | {"sample": {**SETUP.runs["sample"], **sampling}}
    tokens = min(SETUP.common["max_new_tokens"], settings.max_new_tokens)
    return CompareRequest(prompt, runs, {"max_new_tokens": tokens}, raw=True)


def _events(
    wanted: CompareRequest, settings: PageSettings, stop: threading.Event, pair: ModelPair
) -> Iterator[Item]:
    """On the model's thread: check, then the comparison's events."""
    return wanted.events(pair, wanted.plans(pair, settings), settings, stop)


def _progress(batch: Sequence[Item], say: Words) -> str:
    """How far the runs are; nothing where a batch does not tell."""
    for label, item in reversed(batch):
        if not isinstance(item, Comparison) and item.result is None:
            return say("repetition.progress", run=name_of(label, say), count=item.num_new_tokens)
    return ""
