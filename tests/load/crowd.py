"""Clients that ask one page for runs, all at once, and what they saw.

Each client is a thread with a session of its own that asks again as soon as it is answered. The
answers must be those of the same requests alone; nobody may be overtaken.
"""

from __future__ import annotations

import itertools
import json
import random
import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx

TIMEOUT_S = 300.0
LAWS = "blue 0.50 0.42\ngrey 0.25 0.20\nclear 0.15 0.28\ndark 0.10 0.10"
REQUESTS: list[list[Any]] = [  # the arguments of /decode
    [prompt, method, {"max_new_tokens": 12, "seed": seed, **own}, False, None]
    for seed, prompt in enumerate(("Name a colour.", "Why is the sky blue?", "Tell me a story."))
    for method, own in (
        ("sample", {}),
        ("greedy", {}),
        ("beam", {"num_beams": 3}),
        ("speculative", {"num_draft_tokens": 2}),
        ("mentored", {"divergence_budget": 0.3}),
    )
]


@dataclass(frozen=True, slots=True)
class Visit:
    """One request: seconds on the crowd's clock; `rank` is the first place in the queue shown."""

    asked: float
    queued: float
    begun: float
    ended: float
    right: bool
    rank: int | None


@dataclass(slots=True)
class Report:
    """What a crowd saw. Waits are from asking to the run's beginning; memory is the process's."""

    clients: int
    seconds: float
    answers: int = 0
    wrong: int = 0
    refused: int = 0
    overtaken: int = 0
    places_shown: int = 0
    wait_p50_s: float = 0.0
    wait_p95_s: float = 0.0
    light_p50_s: float = 0.0
    light_p95_s: float = 0.0
    light_max_s: float = 0.0
    memory_mb: list[float] = field(default_factory=list)
    memory_growth: float = 0.0

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2)


class Page:
    """A page over plain HTTP, as its own script talks to it."""

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(
            base_url=url, timeout=TIMEOUT_S, limits=httpx.Limits(max_connections=None)
        )
        found = self._http.get("/config").json()["dependencies"]
        self._numbers = {d["api_name"]: d["id"] for d in reversed(found)}

    def decode(self, arguments: list[Any], session: str, clock: float = 0.0) -> tuple[Any, Visit]:
        """The token ids of a run, None where it was refused, and the visit."""
        asked = time.monotonic() - clock
        body = {"data": arguments, "fn_index": self._numbers["decode"], "session_hash": session}
        sent = self._http.post("/gradio_api/queue/join", json=body)
        queued = time.monotonic() - clock
        if sent.status_code == 503:
            return None, Visit(asked, queued, queued, queued, False, None)
        sent.raise_for_status()
        begun, ended, rank, ids = queued, queued, None, None
        for message in self._messages(session):
            now = time.monotonic() - clock
            if message["msg"] == "estimation" and rank is None:
                rank = message["rank"]
            elif message["msg"] == "process_starts":
                begun = now
            elif message["msg"] == "process_completed":
                assert message["success"], message["output"]
                ended, ids = now, message["output"]["data"][0]["token_ids"]
        return ids, Visit(asked, queued, begun, ended, False, rank)

    def _messages(self, session: str) -> Any:
        address = f"/gradio_api/queue/data?session_hash={session}"
        with self._http.stream("GET", address) as stream:
            for line in stream.iter_lines():
                if line.startswith("data:"):
                    yield json.loads(line[5:])

    def light(self) -> float:
        """Seconds that a light event takes: the token lab's slider."""
        body = {
            "data": [None, "own", None, 1, LAWS, 0.3, "kl", True],
            "fn_index": self._numbers["_draw"],
            "session_hash": "light",
        }
        start = time.monotonic()
        self._http.post("/gradio_api/run/predict", json=body).raise_for_status()
        return time.monotonic() - start


def memory_mb(process: int) -> float:
    """Memory that a process holds."""
    status = Path(f"/proc/{process}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def run(url: str, process: int, clients: int, seconds: float, seed: int = 0) -> Report:
    """A crowd for some seconds; everybody's last request is served to its end."""
    page, report = Page(url), Report(clients, seconds)
    alone = [page.decode(arguments, f"alone{i}")[0] for i, arguments in enumerate(REQUESTS)]
    over, start = threading.Event(), time.monotonic()

    def client(number: int) -> list[Visit]:
        chance, visits = random.Random(f"{seed} {number}"), []
        for turn in itertools.count():
            if over.is_set():
                return visits
            which = chance.randrange(len(REQUESTS))
            session = f"crowd{seed}-{number}-{turn}" if turn % 2 else f"crowd{seed}-{number}"
            ids, visit = page.decode(REQUESTS[which], session, start)
            if ids is None:
                report.refused += 1
                time.sleep(0.5)
            else:
                right = ids == alone[which]
                visits.append(Visit(**{**asdict(visit), "right": right}))
        raise AssertionError

    lights: list[float] = []
    with ThreadPoolExecutor(clients) as crowd:
        visitors = [crowd.submit(client, number) for number in range(clients)]
        while time.monotonic() - start < seconds:
            lights.append(page.light())
            report.memory_mb.append(round(memory_mb(process), 1))
            time.sleep(min(0.25, seconds / 40))
        over.set()
        found = [visit for visitor in visitors for visit in visitor.result()]
    report.memory_mb.append(round(memory_mb(process), 1))
    _sum_up(report, found, lights)
    return report


def _sum_up(report: Report, visits: list[Visit], lights: list[float]) -> None:
    report.answers = len(visits)
    report.wrong = sum(not visit.right for visit in visits)
    report.overtaken = overtaken(visits)
    report.places_shown = sum(visit.rank is not None for visit in visits)
    waits = [visit.begun - visit.asked for visit in visits]
    report.wait_p50_s, report.wait_p95_s = _quantile(waits, 0.5), _quantile(waits, 0.95)
    report.light_p50_s, report.light_p95_s = _quantile(lights, 0.5), _quantile(lights, 0.95)
    report.light_max_s = round(max(lights, default=0.0), 4)
    third = max(1, len(report.memory_mb) // 3)
    before = statistics.median(report.memory_mb[third : 2 * third] or report.memory_mb)
    after = statistics.median(report.memory_mb[-third:])
    report.memory_growth = round(after / before - 1, 4)


def overtaken(visits: list[Visit]) -> int:
    """Requests that had not begun when one was over that was asked for after they had joined.
    A whole run lies between, so the delays of this crowd's own threads do not count."""
    return sum(
        any(other.asked > visit.queued and other.ended < visit.begun for other in visits)
        for visit in visits
    )


def _quantile(values: list[float], share: float) -> float:
    ordered = sorted(values) or [0.0]
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 4)
