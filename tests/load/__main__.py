"""`python -m tests.load`: 30 clients for a minute on a page of its own; the figures as JSON."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.conftest import start_page, wait_until_ready
from tests.load.crowd import run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.load", description=__doc__)
    parser.add_argument("--clients", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        process, url = start_page(Path(folder) / "log.txt")
        try:
            wait_until_ready(url)
            report = run(url, process.pid, options.clients, options.seconds)
        finally:
            process.terminate()
            process.wait(30)
    print(report.to_json())
    return 1 if report.wrong or report.overtaken or not report.answers else 0


if __name__ == "__main__":
    sys.exit(main())
