"""Memory and speed of route_logs as the log grows tenfold. Writes build/bench/log_scale.json.

    python benchmarks/log_scale.py --snapshots SNAPSHOTS [--requests 1000000]

Routes a tenth of the log and then all of it, retrieval only, and compares the peak memory of the job's processes. The
snapshot should be of `static` models: with a transformer a million requests take hours on two cores.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import pyarrow.dataset as pads
from write_request_log import write

JOBS = Path(__file__).parents[1] / "jobs"
REPORT = Path(__file__).parents[1] / "build" / "bench" / "log_scale.json"
MEMORY_RATIO = 1.3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--snapshots", required=True)
    parser.add_argument("--requests", type=int, default=1_000_000)
    settings = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        small = routed(settings.snapshots, settings.requests // 10, Path(directory) / "small")
        large = routed(settings.snapshots, settings.requests, Path(directory) / "large")
    report = {
        "small": small,
        "large": large,
        "peak_memory_ratio": large["peak_memory_mb"] / small["peak_memory_mb"],
        "peak_memory_ratio_at_most": MEMORY_RATIO,
    }
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2))


def routed(snapshots: str, requests: int, directory: Path) -> dict[str, Any]:
    """Routes a log of that many lines in a process of its own; its counts, seconds and peak memory."""
    log, output = directory / "log.jsonl", directory / "routed"
    directory.mkdir()
    written = write(requests, log)
    command = [sys.executable, JOBS / "route_logs.py", "--snapshots", snapshots, "--requests", log, "--output", output]
    started = time.perf_counter()
    job = subprocess.Popen([*map(str, command), "--router.rerank", "none"], stdout=subprocess.PIPE, text=True)
    peak = peak_memory(job)
    seconds = time.perf_counter() - started
    summary = json.loads(job.stdout.read()) if job.stdout else {}
    if job.returncode:
        raise SystemExit(f"route_logs ended with {job.returncode}")
    ids = pads.dataset(output / "routes").to_table(columns=["request_id"]).column("request_id")
    return {
        "lines": requests,
        "routes": summary["routes"],
        "distinct_requests": summary["distinct_requests"],
        "rejected": summary["rejected"],
        "ids_in_equal_ids_out": len(ids) == len(ids.unique()) == written["requests"],
        "broken_lines_all_rejected": summary["rejected"] == written["broken"],
        "seconds": seconds,
        "requests_per_second": requests / seconds,
        "peak_memory_mb": peak,
    }


def peak_memory(job: "subprocess.Popen[str]") -> float:
    """Largest sum of proportional set sizes (shared pages count once) of the job's processes until it ends, in MB."""
    peak = 0.0
    while job.poll() is None:
        total = 0
        for process in [psutil.Process(job.pid), *psutil.Process(job.pid).children(recursive=True)]:
            try:
                total += process.memory_full_info().pss
            except psutil.NoSuchProcess:
                continue  # it ended between being listed and being read
        peak = max(peak, total / 1e6)
        time.sleep(1.0)
    return peak


if __name__ == "__main__":
    main()
