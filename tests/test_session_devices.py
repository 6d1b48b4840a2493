"""A run has no tensor on the wrong device, shown without a GPU."""

from __future__ import annotations

import subprocess
import sys

from tests.conftest import ROOT


def test_every_loop_runs_on_a_device_that_is_not_the_cpu() -> None:
    """The same tokens as on the CPU, and never tensors of two devices in one operation."""
    command = [sys.executable, "-m", "tests.elsewhere"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500)
    wrong = [line for line in done.stdout.splitlines() if not line.endswith(" same")]
    assert done.returncode == 0 and not wrong, "\n".join([*wrong, done.stderr[-2000:]])
