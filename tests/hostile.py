"""What people who try to break the page send: seeded, so that a failure can be had again."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx

HANG_S = 60.0
BIG = "x" * 10_000_000
JSON = {"content-type": "application/json"}
SECRET = "Wintermärchen 4711"  # in what visitors send; never in a log
PUBLIC = ("compare", "decode", "solve", "pairs", "sweep")
# Good requests that run a model have few tokens; a hostile value may ask for the most there are.
GOOD: dict[str, dict[str, Any]] = {
    "compare": {"prompt": SECRET, "max_new_tokens": 2, "runs": {"a": {"method": "greedy"}}},
    "decode": {"prompt": "Hello", "method": "greedy", "params": {"max_new_tokens": 2}},
    "solve": {"target_probs": [0.5, 0.5], "draft_probs": [0.9, 0.1], "budget": 0.1},
    "pairs": {},
    "sweep": {"dataset": [{"prompt": "Hi"}], "methods": ["sample"], "max_new_tokens": 2},
}
_SWEEP = ["dataset", "methods", "draft_lengths", "budgets", "rules", "limit", "max_new_tokens"]
_COMPARE = ["prompt", "runs", "max_new_tokens", "temperature", "seed", "params", "repeats"]
ORDER = {
    "compare": [*_COMPARE, "raw", "pair"],
    "decode": ["prompt", "method", "params", "raw", "pair"],
    "solve": ["target_probs", "draft_probs", "budget", "divergence", "keep_support"],
    "pairs": [],
    "sweep": [*_SWEEP, "temperature", "seed", "vary", "params", "draft_alone", "raw", "pair"],
}
PARAMS = ("max_new_tokens", "num_beams", "stop", "eos_token_id", "temperature", "top_p", "method")
PARAMS += ("max_nodes", "verifier", "proposer", "seed", "cancelled", "__class__", "", "raw", "pair")


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


SCALARS: list[Any] = [
    SECRET, None, True, False, -1, 0, 3, 2.5, 1e6, 1e308, -0.0, 2**53, 2**63, 2**64, 10**400,
    -(10**30), "", " \n", "x", "NaN", "1; DROP", "\u0000\u0001\u001b[2J",
    "<img src=x onerror=alert(1)>",
    "{0} {x} %s %n", "../../etc/passwd", "👨‍👩‍👧", "汉字", "नमस्ते", "\u202e\ufeff", "a\r\nb",
    "x" * 30_000,
    "__proto__", "chat", "greedy", "[1]", "{", '{"a": 1}', "null", "1e999", "exact",
]  # fmt: skip
CONTAINERS: list[Any] = [
    [], {}, [None], [[]], {"": None}, [1, "2", None], deep(20), deep(400), {"a": deep(30)},
    ["x"] * 2000, [0] * 9000, {str(i): i for i in range(300)}, {"x": {"method": "greedy"}},
    {"x": {"method": ["greedy"]}}, {"x": {"method": {}}}, {"x" * 5000: {"method": "greedy"}},
    {"max_new_tokens": 10**9}, {"method": "beam", "num_beams": 64}, [1e-9] * 50, [0.5, 0.5],
    [{"prompt": "x"}] * 2000, [{"prompt": 5}], [{"text": "x"}], {"num_draft_tokens": [1, 99]},
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Attack:
    """One request: what it is, for a failure's message, and how it is sent."""

    name: str
    send: Callable[[], Any]


class Attacker:
    """Somebody at the address `url` with a seeded imagination."""

    def __init__(self, url: str, seed: int) -> None:
        self._random = random.Random(seed)
        self._http = httpx.Client(base_url=url, timeout=HANG_S)
        config = self._http.get("/config").json()
        self._values = {c["id"]: c["props"].get("value") for c in config["components"]}
        self._events = {
            d["id"]: d["inputs"] for d in config["dependencies"] if d.get("backend_fn", True)
        }

    def attack(self) -> Attack:
        """The next request."""
        kinds = (self._call, self._call, self._call, self._event, self._event, self._event)
        kinds += (self._body, self._route, self._tool)
        return self._random.choice(kinds)()

    def value(self) -> Any:
        """Any value at all."""
        r = self._random
        if r.random() < 0.6:
            return r.choice(SCALARS)
        found = r.choice(CONTAINERS)
        return (
            {**found, r.choice(PARAMS): r.choice(SCALARS)}
            if r.random() < 0.3 and isinstance(found, dict)
            else found
        )

    def arguments(self, name: str) -> dict[str, Any]:
        """A good request's arguments, some of them spoilt."""
        r, given = self._random, dict(GOOD[name])
        for _ in range(r.choice((1, 1, 1, 2, 5))):
            key = r.choice((*ORDER[name], "nonsense")) if ORDER[name] else "nonsense"
            if key in ("params", "runs") and r.random() < 0.6:
                own = {"method": "beam", r.choice(PARAMS): self.value(), "max_new_tokens": 3}
                given[key] = own if key == "params" else {"r": own}
            else:
                given[key] = self.value()
        return given

    # --- the ways in ------------------------------------------------------------------------------

    def _call(self) -> Attack:
        """A public endpoint by name, its result fetched or not."""
        name = self._random.choice(PUBLIC)
        given = self.arguments(name)
        path = f"/gradio_api/call/v2/{name}"
        body: Any = given
        if self._random.random() < 0.7:
            path, body = f"/gradio_api/call/{name}", {"data": [given.get(k) for k in ORDER[name]]}
        return Attack(f"{path} {_short(body)}", lambda: self._fetch(path, body))

    def _event(self) -> Attack:
        """One of the page's own events by its number, with values that the page never sends."""
        number = self._random.choice(list(self._events))
        values = [self._values.get(i) for i in self._events[number]]
        for _ in range(self._random.choice((0, 1, 1, 2, 40))):
            if values:
                values[self._random.randrange(len(values))] = self.value()
        if self._random.random() < 0.1:
            values = values[:-1]
        body = {"data": values, "fn_index": number, "session_hash": f"s{self._random.random()}"}
        way = self._random.choice(("/gradio_api/run/predict", "/gradio_api/queue/join"))
        return Attack(f"{way} {number} {_short(values)}", lambda: self._join(way, body))

    def _body(self) -> Attack:
        """A body that is no sound JSON, or more of it than anybody needs."""
        bodies = {
            "NaN": '{"data": [NaN]}', "Infinity": '{"data": [[Infinity]]}',
            "1e999": '{"data": [1e999]}',
            "cut": '{"data": [', "empty": "", "text": "hello", "list": "[]", "null": "null",
            "deep": '{"data": ' + "[" * 100_000 + "]" * 100_000 + "}",
            "deep objects": '{"a":' * 5000 + "1" + "}" * 5000,
            "10 MB": json.dumps({"data": [BIG]}), "digits": '{"data": [' + "9" * 100_000 + "]}",
            "surrogate": '{"data": ["\\ud800"]}', "bytes": b'{"data": ["\xff\xfe"]}',
            "fields": '{"data": {}, "fn_index": "x", "session_hash": 5}',
            "negative": '{"data": [], "fn_index": -1, "session_hash": "a"}',
            "batched": '{"data": [[1]], "fn_index": 1, "session_hash": "a", "batched": true}',
            "trigger": '{"data": [], "fn_index": 0, "session_hash": "a", "trigger_id": 999999}',
        }  # fmt: skip
        kind = self._random.choice(list(bodies))
        paths = (
            "call/compare",
            "call/v2/solve",
            "run/predict",
            "queue/join",
            "call/nothing",
            "cancel",
        )
        path = "/gradio_api/" + self._random.choice(paths)

        def send() -> None:
            self._checked(self._http.post(path, content=bodies[kind], headers=JSON))

        return Attack(f"{path} {kind}", send)

    def _route(self) -> Attack:
        """An address that is none, or one with nothing behind it."""
        method, path = self._random.choice(
            [
                ("GET", "/gradio_api/queue/data?session_hash=nobody"),
                ("GET", "/gradio_api/call/compare/no-such-event"),
                ("GET", "/gradio_api/file=/etc/passwd"), ("GET", "/gradio_api/file=../app.py"),
                ("GET", "/gradio_api/nothing"), ("GET", "/%00"), ("GET", "/?prompt=%FF"),
                ("GET", "/gradio_api/stream/a/b/1/playlist.m3u8"),
                ("PUT", "/gradio_api/queue/join"),
                ("POST", "/gradio_api/upload"), ("POST", "/gradio_api/component_server"),
                ("POST", "/gradio_api/stream/none"), ("POST", "/gradio_api/reset"),
                ("POST", "/gradio_api/run/sync"), ("POST", "/gradio_api/call/_redraw"),
                ("DELETE", "/config"), ("GET", "/gradio_api/heartbeat/"), ("GET", "/monitoring"),
            ]
        )  # fmt: skip
        if path.endswith("/upload"):
            files = {"files": ("../../x\u0000.json", b"{" * 100)}
            return Attack("upload", lambda: self._checked(self._http.post(path, files=files)))
        return Attack(f"{method} {path}", lambda: self._checked(self._http.request(method, path)))

    def _tool(self) -> Attack:
        """A call over MCP."""
        name = self._random.choice((*PUBLIC, "nothing", "run"))
        given = self.arguments(name) if name in PUBLIC else {"x": self.value()}
        body = {
            "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": name, "arguments": given},
        }  # fmt: skip
        accept = JSON | {"accept": "application/json, text/event-stream"}

        def send() -> None:
            text = json.dumps(body)
            self._checked(self._http.post("/gradio_api/mcp/", content=text, headers=accept))

        return Attack(f"MCP {name} {_short(given)}", send)

    # --- sending ----------------------------------------------------------------------------------

    def _fetch(self, path: str, body: Any) -> None:
        sent = self._http.post(path, content=json.dumps(body), headers=JSON)
        self._checked(sent)
        if sent.status_code == 200 and self._random.random() < 0.9:  # some never come back
            self._read(f"{path}/{sent.json()['event_id']}")

    def _join(self, way: str, body: dict[str, Any]) -> None:
        sent = self._http.post(way, content=json.dumps(body), headers=JSON)
        self._checked(sent)
        if sent.status_code == 200 and way.endswith("join"):
            self._read(f"/gradio_api/queue/data?session_hash={body['session_hash']}")

    def _read(self, path: str) -> None:
        """A stream to its end; HANG_S without a sign of life is a hang."""
        with self._http.stream("GET", path) as stream:
            for _ in stream.iter_lines():
                pass

    @staticmethod
    def _checked(answer: httpx.Response) -> None:
        assert answer.status_code < 500 or answer.status_code == 503, answer.text[:500]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 400 else text[:400] + "…"
