"""The door of the page: what may come in over HTTP, before Gradio reads it.

A body has a size and is strict JSON, an endpoint is one that exists, and a full queue says so.
Refusals are one line in the library's style, with the status that HTTP has for them. What Gradio's
routes cannot read beyond that ends as a refusal too, never as a traceback.
"""

from __future__ import annotations

import inspect
import json
import logging
import re
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from playground.params import fail, unknown
from playground.ui.files import room_for_upload
from playground.ui.page import REFUSED, Page
from playground.ui.strict import strict_json
from playground.ui.strings import ENGLISH, Words

MAX_BODY = 4_000_000  # bytes of JSON
MAX_UPLOAD = 9_000_000  # bytes of a form: a file of 8 MB
_DISCARD = 64_000_000  # bytes of a refused body that are read, so that its sender hears the answer
_KEEP_S = 300.0  # results that nobody fetches
_ENDPOINT = re.compile(r"/gradio_api/(?:call/v2|call|run|api)/([^/]+)/?$")
_FIELDS = {"session_hash": str, "data": list, "event_id": str, "fn_index": int, "trigger_id": int}
_log = logging.getLogger(__name__)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class _Refusal(Exception):
    """What is answered instead of being let in."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Door:
    """An ASGI middleware around the page."""

    def __init__(self, app: Any, page: Page) -> None:
        self._app, self._page = app, page
        self._unread: dict[str, float] = {}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def answer(message: Message) -> None:
            nonlocal started
            started = True
            if message.get("status") == 500 and scope.get(REFUSED):
                message["status"] = 400  # Gradio has one status for bad input and for faults
            await send(message)

        try:
            await self._app(scope, await self._admitted(scope, receive), answer)
        except Exception as error:
            refusal = error if isinstance(error, _Refusal) else None
            if refusal is None:
                where = f"{scope['method']} {scope['path'][:60]!r}"
                _log.info("%s: not readable (%s)", where, type(error).__name__)
                refusal = _Refusal(400, "request: it cannot be read; see the page's API.")
            if started:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            else:
                await _refuse(send, refusal)

    async def _admitted(self, scope: Message, receive: Receive) -> Receive:
        """`receive` for those behind the door: a body that was checked, or one that is counted."""
        if scope["method"] not in ("POST", "PUT", "PATCH", "DELETE"):
            return receive
        if scope["path"].rstrip("/").endswith("/upload"):
            if self._page.uploads and not room_for_upload(self._page.uploads):
                raise _Refusal(503, "file: many were uploaded just now; try again in ten minutes.")
            return _counted(receive)
        body = await _read(receive)
        if body:
            self._check(scope, body)
        given = False

        async def again() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        return again

    def _check(self, scope: Message, body: bytes) -> None:
        try:
            found = strict_json(body)
        except ValueError as error:
            raise _Refusal(400, f"body: {error}; use strict JSON.") from None
        path = scope["path"]
        named = _ENDPOINT.search(path)
        if not isinstance(found, dict) or not (named or path.rstrip("/").endswith("/queue/join")):
            return
        by_name = named is not None and "/call/v2/" in path  # the fields are the endpoint's own
        if not by_name:
            _check_fields(found)
        event = self._event({} if by_name else found, named[1] if named else "")
        if by_name:
            _check_names(found, event)
        queue, size = self._page.limits
        if event.concurrency_id == queue:
            self._forget()
            waiting = self._page.num_waiting(queue)
            if waiting >= size:
                raise _busy(scope, waiting)

    def _event(self, body: dict[str, Any], name: str) -> Any:
        """The event that is asked for: by its public name, or by its number as the page does."""
        public = {e.api_name: e for e in self._page.fns.values() if e.api_visibility == "public"}
        number = body.get("fn_index")
        event = self._page.fns.get(number) if number is not None else public.get(name)
        if event is None or event.fn is None:
            wanted, known = name if number is None else number, ", ".join(map(str, public))
            raise _Refusal(404, str(fail("endpoint", wanted, f"one of {known}")))
        return event

    def _forget(self) -> None:
        """Drop results that have waited for five minutes for somebody who does not come."""
        unread, now = self._page.unread(), time.monotonic()
        self._unread = {session: self._unread.get(session, now) for session in unread}
        for session, since in self._unread.items():
            if now - since > _KEEP_S:
                self._page.forget(session)


def _check_fields(body: dict[str, Any]) -> None:
    """Gradio's own fields, of the types that it takes for granted."""
    for name, kind in _FIELDS.items():
        value = body.get(name)
        missing = value is None and name != "data"
        if not missing and (not isinstance(value, kind) or isinstance(value, bool)):
            raise _Refusal(422, str(fail(name, value, f"a JSON value of type {kind.__name__}")))
    if body.get("batched"):
        raise _Refusal(422, str(fail("batched", True, "one request at a time")))
    if len(body.get("session_hash") or "") > 100:
        raise _Refusal(422, str(fail("session_hash", body["session_hash"], "100 characters")))


def _check_names(given: dict[str, Any], event: Any) -> None:
    """Arguments by name: those that the endpoint has."""
    known = [name for name in inspect.signature(event.fn).parameters if name != "request"]
    for name, value in given.items():
        if name not in known:
            raise _Refusal(422, str(unknown(name, value, known, f'endpoint "/{event.api_name}"')))


def _busy(scope: Message, waiting: int) -> _Refusal:
    """A full queue. Gradio's page shows a message with any status but 503, for which it has a
    sentence of its own; its clients know 503."""
    headers = dict(scope["headers"])
    by_page = headers.get(b"x-gradio-user") == b"app"
    chinese = by_page and b"/zh" in headers.get(b"referer", b"")
    say = Words("zh") if chinese else ENGLISH
    return _Refusal(429 if by_page else 503, say("queue.full", count=waiting))


async def _read(receive: Receive) -> bytes:
    """The whole body, or a refusal once it is too large."""
    parts: list[bytes] = []
    size, more = 0, True
    while more and size <= _DISCARD:
        message = await receive()
        if message["type"] != "http.request":
            raise _Refusal(400, "body: it ended early.")
        part, more = message.get("body", b""), message.get("more_body", False)
        size += len(part)
        parts.append(part)
        if size > MAX_BODY:
            parts.clear()
    if size > MAX_BODY:
        raise _Refusal(413, str(fail("body", f"{size:,} bytes", f"at most {MAX_BODY:,} bytes")))
    return b"".join(parts)


def _counted(receive: Receive) -> Receive:
    """`receive`, which refuses a form that grows too large."""
    size = 0

    async def counted() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > MAX_UPLOAD:
            raise _Refusal(413, str(fail("file", f"{size:,} bytes", f"at most {MAX_UPLOAD:,}")))
        return message

    return counted


async def _refuse(send: Send, refusal: _Refusal) -> None:
    """The refusal under both names that Gradio's clients look for."""
    text = str(refusal)
    body = json.dumps({"detail": text, "error": text}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
