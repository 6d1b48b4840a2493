"""Case 69, all of it: whatever is sent, the page stays up, answers in one line, and says nothing.

`HOSTILE_REQUESTS=1000 python -m pytest tests/test_app_hostile.py` is the long form.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from gradio_client import Client

from tests.hostile import GOOD, SECRET, Attacker

NUM_REQUESTS = int(os.environ.get("HOSTILE_REQUESTS", "150"))
SEED = int(os.environ.get("HOSTILE_SEED", "0"))
EVERY = 25  # after so many requests a good one


def good_answer(client: Client) -> Any:
    """What must not change, whoever was here before."""
    found = client.predict(**GOOD["decode"], api_name="/decode")
    solved = client.predict(**GOOD["solve"], api_name="/solve")
    return found["token_ids"], found["text"], solved["output_probs"]


@pytest.mark.slow
def test_nothing_that_is_sent_hurts_the_page(page_url: str, page_log: Path) -> None:
    client, attacker = Client(page_url, verbose=False), Attacker(page_url, SEED)
    expected, start = good_answer(client), page_log.stat().st_size
    for i in range(NUM_REQUESTS):
        attack = attacker.attack()
        try:
            attack.send()
        except Exception as error:
            raise AssertionError(f"request {i} of seed {SEED}: {attack.name}: {error!r}") from error
        said = page_log.read_text("utf-8", "replace")[start:]
        assert not re.search(r"Traceback|fault in", said), f"{attack.name}\n{said[-3000:]}"
        assert SECRET not in said, attack.name
        if i % EVERY == EVERY - 1:
            assert good_answer(client) == expected, attack.name
    assert good_answer(client) == expected
