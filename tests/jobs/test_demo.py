"""`make demo` as a person sees it."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "jobs" / "demo.py"


@pytest.mark.timeout(600)
def test_the_demo_shows_a_pair_and_a_second_run_only_prints(tmp_path: Path) -> None:
    command = [sys.executable, str(DEMO), f"--output={tmp_path}"]

    first = subprocess.run(command, capture_output=True, text=True)
    started = time.monotonic()
    second = subprocess.run(command, capture_output=True, text=True)
    seconds = time.monotonic() - started

    assert first.returncode == second.returncode == 0, first.stderr[-3000:]
    counts = json.loads(first.stdout.splitlines()[-1])
    assert (counts["requests"], counts["counterfactual_pairs"]) == (60, 10)
    assert counts["pairs_right"] >= 8  # 10 when this was written
    assert counts["right_first"] >= 45  # 53 when this was written
    assert "A few days in Shanghai" in first.stdout
    assert second.stderr.count("nothing to do") == 4
    assert seconds < 30
