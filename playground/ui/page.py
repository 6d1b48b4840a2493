"""Gradio's blocks, with one manner of refusing: whatever an event is given, its caller gets one
line, the log gets no traceback and no text of a visitor."""

from __future__ import annotations

import logging
import time
from html import escape
from pathlib import Path
from typing import Any

import gradio as gr

from playground.faults import place_of
from playground.params import fail
from playground.ui.operations import wait_for_end
from playground.ui.problems import EXPECTED, problem
from playground.ui.strings import ENGLISH
from playground.ui.worker import Worker

REFUSED = "refused"  # a mark on the HTTP request whose event was refused
MAX_TEXT = 200_000  # characters of a text box; what it stands for has closer limits
MAX_CHOSEN = 100
_LAST_WORDS_S = 0.5  # for what was drained to reach those who wait for it
_log = logging.getLogger(__name__)


class Page(gr.Blocks):
    """Blocks whose events check what they are given, for all that may call them.

    limits: the name of the model's queue, and how many requests may wait in it. worker: what runs
    them.
    """

    limits: tuple[str, int] = ("", 0)
    uploads: Path | None = None
    worker: Worker

    def block_thread(self) -> None:
        """Serve until SIGTERM or Ctrl-C; then what runs ends with what it has."""
        wait_for_end()
        self.worker.drain()
        time.sleep(_LAST_WORDS_S)
        self.close(verbose=False)

    async def preprocess_data(
        self, block_fn: Any, inputs: list[Any], state: Any, explicit_call: bool = False
    ) -> list[Any]:
        if len(inputs) != len(block_fn.inputs):
            raise fail("data", f"{len(inputs)} values", f"{len(block_fn.inputs)} values")
        for component, value in zip(block_fn.inputs, inputs, strict=True):
            check_payload(component, value)
        inputs = [_as_text(*given) for given in zip(block_fn.inputs, inputs, strict=True)]
        try:
            return await super().preprocess_data(block_fn, inputs, state, explicit_call)
        except Exception as error:  # of a component: what it was given is none of its values
            message = error.message if isinstance(error, gr.Error) else type(error).__name__
            raise ValueError(f"{block_fn.name}: {_clip(str(message))}") from error

    async def process_api(self, block_fn: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        session, event = kwargs.get("session_hash"), kwargs.get("event_id")
        try:
            return await super().process_api(block_fn, *args, **kwargs)
        except Exception as error:
            _mark(kwargs.get("request"), error)
            raise _refusal(block_fn, error) from error
        finally:
            if session is not None and session == event:  # a caller without a page to come back to
                self.state_holder.session_data.pop(session, None)
                self.state_holder.time_last_used.pop(session, None)

    # --- the queue --------------------------------------------------------------------------------

    def num_waiting(self, queue: str) -> int:
        """Requests that wait in one of the queues."""
        found = self._queue.event_queue_per_concurrency_id.get(queue)
        return len(found.queue) if found else 0

    def waits(self, session: str) -> bool:
        """Whether somebody still waits for what runs in this session."""
        jobs = list(self._queue.active_jobs)
        active = (event for job in jobs for event in job or ())
        return any(event.alive and event.session_hash == session for event in active)

    def unread(self) -> list[str]:
        """Sessions with results that were not fetched yet, and nothing under way."""
        queue = self._queue
        found = []
        for session, messages in queue.pending_messages_per_session.items():
            events = queue.pending_event_ids_session.get(session, ())
            under_way = any(event in queue.event_ids_to_events for event in events)
            if not messages.empty() and not under_way:
                found.append(session)
        return found

    def forget(self, session: str) -> None:
        """Drop what waits for a session."""
        self._queue.pending_messages_per_session.pop(session, None)
        self._queue.pending_event_ids_session.pop(session, None)


def check_payload(component: Any, value: Any) -> None:
    """Raise ValueError for a value that this kind of component never has. Gradio itself hands on
    whatever it is given."""
    name = component.elem_id or component.get_block_name()
    if component.stateful:
        return
    if value is None:
        # What began with a value can never be without one on the page.
        is_choice = isinstance(component, (gr.Slider, gr.Radio, gr.Dropdown))
        if is_choice and component.value not in (None, []):
            raise fail(name, value, "a value")
        return
    if isinstance(component, (gr.Number, gr.Slider)):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise fail(name, value, "a number")
    elif isinstance(component, gr.Checkbox):
        if not isinstance(value, bool):
            raise fail(name, value, "true or false")
    elif isinstance(component, gr.Textbox):
        if not isinstance(value, str) or len(value) > MAX_TEXT:
            raise fail(name, value, f"a text of at most {MAX_TEXT:,} characters")
    elif isinstance(component, gr.CheckboxGroup):
        scalars = isinstance(value, list) and all(map(_is_scalar, value))
        if not scalars or len(value) > MAX_CHOSEN:
            raise fail(name, value, f"a list of at most {MAX_CHOSEN} of its choices")
    elif isinstance(component, (gr.Radio, gr.Dropdown)):
        many = isinstance(component, gr.Dropdown) and component.multiselect
        chosen = value if many and isinstance(value, list) else [value]
        if len(chosen) > MAX_CHOSEN or not all(map(_is_scalar, chosen)):
            raise fail(name, value, "one of its choices")


def _as_text(component: Any, value: Any) -> Any:
    """What is in a text box is a text, if only an empty one."""
    return "" if value is None and isinstance(component, gr.Textbox) else value


def _is_scalar(value: Any) -> bool:
    return isinstance(value, (str, int, float)) and len(str(value)) <= MAX_TEXT


def _mark(request: Any, error: Exception) -> None:
    """Let the door know that the answer is a refusal rather than a fault."""
    scope = getattr(getattr(request, "request", None), "scope", None)
    if isinstance(scope, dict) and isinstance(error, (gr.Error, *EXPECTED)):
        scope[REFUSED] = True


def _refusal(block_fn: Any, error: Exception) -> gr.Error:
    """What the caller is told. A fault leaves its kind and place in the log, never its words: they
    may be a visitor's."""
    if isinstance(error, gr.Error):
        error.print_exception = False
        return error
    if not isinstance(error, EXPECTED):
        _log.error("fault in %s: %s at %s", block_fn.name, type(error).__name__, place_of(error))
    text = problem(error, ENGLISH)
    shown = text if block_fn.api_visibility == "public" else escape(text)
    return gr.Error(shown, print_exception=False)


def _clip(text: str) -> str:
    """One short line."""
    line = " ".join(text.split())
    return line if len(line) <= 300 else line[:297] + "..."
