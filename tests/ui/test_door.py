"""The door before a little page: what is let in, and what is answered instead."""

from __future__ import annotations

import json
from functools import cache
from types import SimpleNamespace
from typing import Any

import gradio as gr
import httpx
import pytest

from playground.ui import door as module
from playground.ui.door import MAX_BODY, MAX_UPLOAD, Door
from playground.ui.page import REFUSED, Page
from tests.conftest import in_a_loop

MODEL = "model"


@cache
def page() -> Page:
    def tell(name: str) -> str:
        return name

    with Page() as demo:
        box = gr.Textbox()
        box.submit(tell, box, box, api_name="tell", concurrency_id=MODEL)
        box.change(tell, box, box, api_name="secret", api_visibility="private")
        box.blur(None, box, box, js="(x) => x")
    demo.queue()
    demo.limits = (MODEL, 2)
    return demo


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Behind the door: says what came in."""
    message, body = await receive(), b""
    while message["type"] == "http.request":
        body += message["body"]
        if not message.get("more_body"):
            break
        message = await receive()
    if b"raise" in body:
        raise RuntimeError("a visitor's own words")
    scope[REFUSED] = b"refused" in body
    status = 500 if b"refused" in body or b"fault" in body else 200
    await send({"type": "http.response.start", "status": status, "headers": []})
    await send({"type": "http.response.body", "body": body})


def sent(path: str, body: bytes | str, demo: Page | None = None, **headers: str) -> httpx.Response:
    door = Door(echo, demo or page())

    async def post() -> httpx.Response:
        transport = httpx.ASGITransport(app=door)
        async with httpx.AsyncClient(transport=transport, base_url="http://page") as client:
            return await client.post(path, content=body, headers=headers)

    return in_a_loop(post())


def test_a_sound_request_passes_as_it_is() -> None:
    body = json.dumps({"data": ["Grüße"], "session_hash": None})
    for path in ("/gradio_api/call/tell", "/gradio_api/call/tell/", "/gradio_api/mcp/"):
        answer = sent(path, body)
        assert answer.status_code == 200 and answer.text == body
    assert sent("/gradio_api/call/v2/tell", '{"name": "x"}').status_code == 200
    assert sent("/gradio_api/queue/join", '{"data": [1], "fn_index": 1}').status_code == 200


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("call/tell", '{"data": [NaN]}', 400, "body: NaN is no JSON"),
        ("mcp/", "[" * 5000, 400, "body: "),
        ("call/tell", "x" * (MAX_BODY + 1), 413, "body: '4,000,001 bytes' is not allowed"),
        ("upload", "x" * (MAX_UPLOAD + 1), 413, "file: "),
        (
            "call/nothing",
            '{"data": []}',
            404,
            "endpoint: 'nothing' is not allowed; use one of tell",
        ),
        ("call/secret", '{"data": []}', 404, "endpoint: 'secret'"),
        ("run/predict", '{"data": [], "fn_index": 99}', 404, "endpoint: 99"),
        ("queue/join", '{"data": [], "fn_index": 2}', 404, "endpoint: 2"),
        ("queue/join", '{"data": [], "fn_index": -1}', 404, "endpoint: -1"),
        ("queue/join", '{"data": [], "fn_index": "1"}', 422, "fn_index: '1'"),
        ("queue/join", '{"data": [], "fn_index": true}', 422, "fn_index: True"),
        ("call/tell", '{"data": {}}', 422, "data: {}"),
        ("call/tell", '{"data": ["x"], "session_hash": 5}', 422, "session_hash: 5"),
        ("call/tell", '{"data": ["x"], "batched": true}', 422, "batched: True"),
        ("call/v2/tell", '{"nmae": "x"}', 422, 'nmae: endpoint "/tell" has no such parameter'),
        ("call/tell", '{"data": ["raise"]}', 400, "request: it cannot be read"),
    ],
)
def test_the_rest_is_refused_in_one_line(path: str, body: str, status: int, message: str) -> None:
    """Case 69: types, sizes and names, with the status that HTTP has for each."""
    answer = sent(f"/gradio_api/{path}", body)
    assert answer.status_code == status
    said = answer.json()
    assert said["detail"] == said["error"] and said["detail"].startswith(message)
    assert "words" not in answer.text and len(said["detail"].splitlines()) == 1


def test_bad_input_is_told_from_faults() -> None:
    assert sent("/gradio_api/call/tell", '{"data": ["refused"]}').status_code == 400
    assert sent("/gradio_api/call/tell", '{"data": ["fault"]}').status_code == 500


def test_a_full_queue_says_so_in_the_visitor_s_language(monkeypatch: pytest.MonkeyPatch) -> None:
    demo, body = page(), '{"data": ["x"], "fn_index": 0}'
    monkeypatch.setattr(demo, "num_waiting", lambda queue: {MODEL: 2}.get(queue, 0))
    join = "/gradio_api/queue/join"
    stranger = sent(join, body, demo)
    assert stranger.status_code == 503 and "2 requests are waiting" in stranger.json()["detail"]
    visitor = sent(join, body, demo, **{"x-gradio-user": "app", "referer": "http://page/zh?x"})
    assert visitor.status_code == 429 and "2 个请求" in visitor.json()["detail"]
    light = sent(join, '{"data": ["x"], "fn_index": 1}', demo)
    assert light.status_code == 200  # what runs no model is never turned away


def test_results_that_nobody_fetches_are_dropped_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    demo, dropped = page(), []
    door = Door(echo, demo)
    monkeypatch.setattr(demo, "unread", lambda: ["gone"])
    monkeypatch.setattr(demo, "forget", dropped.append)
    clock = iter([0.0, 200.0, 400.0])
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    for expected in ([], [], ["gone"]):
        door._forget()
        assert dropped == expected
