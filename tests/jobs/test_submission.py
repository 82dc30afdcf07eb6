"""The jobs as a platform team runs them: `ray job submit` to a head with token authentication, data on S3."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from skillfeed.storage import filesystem, join, write_bytes

ROOT = Path(__file__).parents[2]
RAY = Path(sys.executable).with_name("ray")
RULES = {"invoice-eu": "German e-invoices with VAT.", "invoice-us": "US sole proprietor, dollars."}
SKILL = "---\nname: {name}\ndescription: Writes invoices.\n---\n\n## Rules\n\n{rules}\n"
REQUEST = {
    "request_id": "1",
    "task": {"name": "Write an invoice"},
    "user_context_constraints": {
        "country_region": "Germany",
        "other_constraints": ["needs a German e-invoice with VAT"],
    },
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def head(s3: str, tmp_path: Path) -> Iterator[str]:
    """Dashboard address of a head that has only this test's S3 settings and a token of its own."""
    token = tmp_path / "token"
    token.write_text("0123456789abcdef0123456789abcdef")
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
    port, dashboard = free_port(), free_port()
    command = [RAY, "start", "--head", "--block", f"--port={port}", f"--dashboard-port={dashboard}", "--num-cpus=2"]
    environment = os.environ | {"PATH": f"{RAY.parent}:{os.environ['PATH']}"}
    process = subprocess.Popen(
        [*map(str, command), f"--temp-dir=/tmp/ray-{port}"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_for(dashboard)
        yield f"http://127.0.0.1:{dashboard}"
    finally:
        process.terminate()  # `ray start --block` stops its own processes, and only those
        process.wait(60)
        shutil.rmtree(f"/tmp/ray-{port}", ignore_errors=True)
        del os.environ["RAY_AUTH_MODE"], os.environ["RAY_AUTH_TOKEN_PATH"]


def wait_for(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.5)
    raise TimeoutError(f"no dashboard on port {port} after 60 s")


def submit(head: str, *entrypoint: str) -> subprocess.CompletedProcess[str]:
    command = [
        RAY,
        "job",
        "submit",
        "--address",
        head,
        "--runtime-env",
        "ray_cluster/runtime_env.yaml",
        "--",
        *entrypoint,
    ]
    return subprocess.run([*map(str, command)], cwd=ROOT, capture_output=True, text=True, timeout=240)


def rows_of(uri: str) -> list[dict[str, Any]]:
    import pyarrow.dataset as pads

    files, path = filesystem(uri)
    rows: list[dict[str, Any]] = pads.dataset(path, filesystem=files).to_table().to_pylist()
    return rows


@pytest.mark.timeout(600)
def test_the_pipeline_runs_by_ray_job_submit_over_s3(head: str, s3: str) -> None:
    for name, rules in RULES.items():
        write_bytes(join(s3, "raw", name, "SKILL.md"), SKILL.format(name=name, rules=rules).encode())
    write_bytes(join(s3, "requests.jsonl"), json.dumps(REQUEST).encode())
    steps = [
        ["jobs/ingest_corpus.py", f"--source={s3}/raw", f"--output={s3}/skills"],
        ["jobs/embed_corpus.py", f"--skills={s3}/skills", f"--output={s3}/embedded"],
        [
            "jobs/build_indexes.py",
            f"--skills={s3}/skills",
            f"--embeddings={s3}/embedded",
            f"--snapshots={s3}/snapshots",
        ],
        [
            "jobs/route_logs.py",
            f"--snapshots={s3}/snapshots",
            f"--requests={s3}/requests.jsonl",
            f"--output={s3}/routed",
        ],
    ]

    for step in steps:
        done = submit(head, "python", *step)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]

    (route,) = rows_of(f"{s3}/routed/routes")
    assert [skill["name"] for skill in route["skills"]] == ["invoice-eu", "invoice-us"]


def test_a_bad_setting_fails_the_submission_and_writes_nothing(head: str, s3: str) -> None:
    done = submit(head, "python", "jobs/embed_corpus.py", f"--skills={s3}/nowhere", f"--output={s3}/embedded")

    assert done.returncode != 0
    assert "no manifest.json" in done.stdout
