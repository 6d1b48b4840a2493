"""The HTTP endpoints of a real page, as strangers call them."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from gradio_client import Client
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from playground.compare import DEFAULT_COMMON, DEFAULT_RUNS
from tests.conftest import in_a_loop
from tests.load.crowd import memory_mb

GOOD: dict[str, Any] = {"prompt": "Hello", "max_new_tokens": 4}


@pytest.fixture(scope="module")
def client(page_url: str) -> Client:
    return Client(page_url, verbose=False)


def refusal(client: Client, api_name: str, **values: Any) -> str:
    """The message that a request is refused with."""
    with pytest.raises(Exception) as caught:
        client.predict(api_name=api_name, **values)
    return str(caught.value)


def test_only_the_documented_endpoints_are_public(client: Client) -> None:
    api: Any = client.view_api(return_format="dict")
    assert set(api["named_endpoints"]) == {"/compare", "/decode", "/solve", "/pairs", "/sweep"}
    assert api["unnamed_endpoints"] == {}


def test_defaults_are_the_library_s(client: Client) -> None:
    api: Any = client.view_api(return_format="dict")
    given = {
        p["parameter_name"]: p["parameter_default"]
        for p in api["named_endpoints"]["/compare"]["parameters"]
    }
    assert given.items() >= DEFAULT_COMMON.items()


def test_compare_returns_the_library_s_record(client: Client) -> None:
    found = client.predict(**GOOD, api_name="/compare")
    assert list(found["results"]) == list(DEFAULT_RUNS)
    assert [row["label"] for row in found["rows"]] == list(DEFAULT_RUNS)
    assert found["baseline"] == "sample"
    for result in found["results"].values():
        assert len(result["token_ids"]) == len(result["tokens"]) <= 4
        assert "".join(token["text"] for token in result["tokens"]) == result["text"]
    json.dumps(found, allow_nan=False)


def test_the_same_seed_gives_the_same_ids(client: Client) -> None:
    runs = {"a": {"method": "speculative", "num_draft_tokens": 2}}
    first, second = (client.predict(**GOOD, runs=runs, api_name="/compare") for _ in range(2))
    assert first["results"]["a"]["token_ids"] == second["results"]["a"]["token_ids"]


def test_runs_and_params_may_come_as_json_text(client: Client) -> None:
    runs, params = '{"b": {"method": "beam", "num_beams": 2}}', '{"length_penalty": 0.5}'
    found = client.predict(**GOOD, runs=runs, params=params, api_name="/compare")
    assert found["results"]["b"]["params"]["length_penalty"] == 0.5


def test_decode_takes_text_or_ids(client: Client) -> None:
    params = {"max_new_tokens": 3}
    found = client.predict("Hi", "greedy", params, api_name="/decode")
    ids = found["prompt_ids"]
    again = client.predict(ids, "greedy", params, api_name="/decode")
    assert found["token_ids"] == again["token_ids"]


def test_solve_spends_its_budget(client: Client) -> None:
    found = client.predict([0.5, 0.5], [0.9, 0.1], 0.1, api_name="/solve")
    assert 0.1 - 1e-6 <= found["divergence_spent"] <= 0.1
    out, target = found["output_probs"], [0.5, 0.5]
    kl = sum(q * math.log(q / p) for q, p in zip(target, out, strict=True))
    assert kl == pytest.approx(0.1, abs=1e-6)


def test_pairs_tells_what_is_served(client: Client) -> None:
    served = [p for p in client.predict(api_name="/pairs") if p["status"]]
    assert [p["name"] for p in served] == ["chat"]
    assert served[0]["status"]["state"] == "ready"


def test_the_same_endpoints_are_mcp_tools(page_url: str) -> None:
    """Listed and called by a real MCP client; a refusal is the same line."""

    async def ask() -> tuple[set[str], Any, Any]:
        async with (
            streamable_http_client(f"{page_url}/gradio_api/mcp/") as (read, write, _),
            ClientSession(read, write) as session,
        ):
            await session.initialize()
            tools = {tool.name for tool in (await session.list_tools()).tools}
            laws = {"target_probs": [0.5, 0.5], "draft_probs": [0.9, 0.1], "budget": 0.1}
            good = await session.call_tool("solve", laws)
            return tools, good, await session.call_tool("solve", laws | {"budget": -1})

    tools, good, bad = in_a_loop(ask())
    assert tools == {"compare", "decode", "solve", "pairs", "sweep"}
    assert not good.isError and "divergence_spent" in good.content[0].text
    assert bad.isError and "budget" in bad.content[0].text


def test_a_pair_can_be_named(client: Client) -> None:
    found = client.predict("Hi", "greedy", {"max_new_tokens": 2}, pair="chat", api_name="/decode")
    assert found["pair"] == "chat"
    for bad in ("../chat", "smollm2-1.7b", 5):
        assert refusal(client, "/decode", prompt="Hi", pair=bad).startswith("pair: ")
        assert refusal(client, "/compare", **GOOD, pair=bad).startswith("pair: ")


HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"max_new_tokens": 10**6}, "max_new_tokens: 1000000 is not allowed; use a whole number"),
    ({"max_new_tokens": 2.5}, "max_new_tokens: 2.5 is not allowed"),
    ({"max_new_tokens": "many"}, "max_new_tokens: 'many' is not allowed"),
    ({"runs": {"b": {"method": "beam", "num_beams": 1000}}}, "num_beams: 1000 is not allowed"),
    ({"runs": {"b": {"method": "beam", "max_new_tokens": 9999}}}, "max_new_tokens: 9999"),
    ({"runs": {"b": {"method": "<b>"}}}, "runs: {'b': {'method': '<b>'}} is not allowed"),
    ({"runs": {"b": 5}}, "runs: "),
    ({"runs": {str(i): {"method": "greedy"} for i in range(9)}}, "runs: '9 runs'"),
    ({"runs": "{"}, "runs: '{' is not allowed; use a JSON object (not JSON)."),
    ({"temperature": "hot"}, "temperature: 'hot' is not allowed"),
    ({"temperature": -1}, "temperature: -1 is not allowed"),
    ({"temperature": True}, "temperature: True is not allowed"),
    ({"seed": -1}, "seed: -1 is not allowed"),
    ({"params": {"cancelled": 1}}, "cancelled: "),
    ({"params": {"no_such_thing": 1}}, "no_such_thing: "),
    ({"repeats": 1000}, "repeats: 1000 is not allowed"),
    ({"repeats": [1]}, "repeats: [1] is not allowed"),
    ({"raw": "yes"}, "raw: 'yes' is not allowed"),
    ({"prompt": ""}, "prompt: '' is not allowed"),
    ({"prompt": " \n"}, "prompt: "),
    ({"prompt": 5}, "prompt: 5 is not allowed"),
    ({"prompt": [0, -1]}, "prompt: -1 is not allowed"),
    ({"prompt": "x" * 20_001}, "prompt: '20001 characters' is not allowed"),
    ({"prompt": [1] * 9000}, "prompt: '9000 tokens' is not allowed"),
    (
        {"runs": {"b": {"method": "beam", "num_beams": 64}}, "max_new_tokens": 3000, "repeats": 2},
        "work: 384,000 tokens (runs × tokens × beams × repeats) are not allowed",
    ),
]


@pytest.mark.parametrize(("values", "message"), HOSTILE)
def test_bad_values_are_refused_by_name(
    client: Client, values: dict[str, Any], message: str
) -> None:
    """Case 69, and case 55 for the long prompts."""
    said = refusal(client, "/compare", **GOOD | values)
    assert said.startswith(message)
    assert len(said.splitlines()) == 1 and "Traceback" not in said


def test_nan_in_the_body_is_refused(page_url: str, client: Client) -> None:
    """Case 69: Python's client will not send NaN, others might."""
    body = '{"data": ["Hello", null, 4, NaN]}'
    headers = {"content-type": "application/json"}
    sent = httpx.post(f"{page_url}/gradio_api/call/compare", content=body, headers=headers)
    if sent.status_code == 200:
        event = sent.json()["event_id"]
        answer = httpx.get(f"{page_url}/gradio_api/call/compare/{event}", timeout=60).text
        assert "event: error" in answer and "event: complete" not in answer
    assert client.predict(**GOOD, api_name="/compare")["rows"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (([0.5, 0.5], [1.0]), "target_probs"),
        ((["a"], [1.0]), "target_probs: 'a' is not allowed"),
        (([0.9], [1.0]), "target_probs"),
        (([1.0], [1.0], -1), "budget"),
        (([1.0], [1.0], 0.1, "nope"), "divergence"),
        (([1.0], [1.0], 0.1, "kl", "yes"), "keep_support"),
        (("text", [1.0]), "target_probs"),
    ],
)
def test_bad_laws_are_refused(client: Client, values: tuple[Any, ...], message: str) -> None:
    with pytest.raises(Exception, match=message):
        client.predict(*values, api_name="/solve")


def idle(url: str) -> bool:
    """Whether the page runs nothing, as it says itself."""
    return not httpx.get(f"{url}/healthz", timeout=30).json()["running"]


def test_a_caller_who_leaves_frees_the_worker(page_url: str, page_pid: int, client: Client) -> None:
    """Case 65, ten times: a run of minutes ends when its caller's connection does."""
    path, long = f"{page_url}/gradio_api/call/decode", {"max_new_tokens": 3000}
    body = {"data": ["Count.", "sample", long | {"eos_token_id": []}, False, None]}
    before = memory_mb(page_pid)
    for _ in range(10):
        event = httpx.post(path, json=body, timeout=30).json()["event_id"]
        with httpx.stream("GET", f"{path}/{event}", timeout=30):
            wait_for(lambda: not idle(page_url))
        wait_for(lambda: idle(page_url))
    assert client.predict(**GOOD, api_name="/compare")["rows"]
    assert memory_mb(page_pid) < 1.05 * before


def wait_for(happens: Callable[[], bool]) -> None:
    """Return when something has happened, far sooner than a run of 3000 tokens could end."""
    end = time.monotonic() + 10
    while not happens():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_the_direct_route_around_the_queue_is_closed(page_url: str) -> None:
    answer = httpx.post(f"{page_url}/gradio_api/run/decode", json={"data": ["Hi"]})
    assert answer.status_code == 404


def test_a_good_request_works_after_all_that(client: Client) -> None:
    assert len(client.predict(**GOOD, api_name="/compare")["rows"]) == 5
