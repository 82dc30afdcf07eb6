"""Jobs killed with SIGKILL, driver and workers alike, and started again: the same rows as an undisturbed run."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as pads
import pytest

import build_indexes
import embed_corpus
import ingest_corpus
import route_logs
from skillfeed.job import parse
from skillfeed.storage import delete_directory
from skillfeed.units import ray_session

JOBS = {
    "ingest_corpus": (ingest_corpus.IngestCorpus, ingest_corpus.main),
    "embed_corpus": (embed_corpus.EmbedCorpus, embed_corpus.main),
    "route_logs": (route_logs.RouteLogs, route_logs.main),
}
# Small units, so that a small corpus has many and a kill falls between them. The child sets them in the same way.
SMALL_UNITS = {
    "ingest_corpus": {"GROUP_INPUTS": 5, "PARTITION_BYTES": 1_000},
    "embed_corpus": {"CHUNKS_PER_UNIT": 10},
    "route_logs": {"RERANKED_REQUESTS_PER_UNIT": 1},
}
CHILD = """
import sys, {job}
from skillfeed.job import run
for name, value in {units}.items():
    setattr({job}, name, value)
kind = [value for value in vars({job}).values() if isinstance(value, type) and value.__module__ == "{job}"][0]
run(kind, {job}.main)
"""


@pytest.fixture(scope="module", autouse=True)
def small_units() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for job, sizes in SMALL_UNITS.items():
            for name, value in sizes.items():
                patch.setattr(sys.modules[job], name, value)
        yield


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Undisturbed outputs of every job over forty skills."""
    root = tmp_path_factory.mktemp("resume")
    for number in range(40):
        folder = root / "tree" / f"skill-{number}"
        folder.mkdir(parents=True)
        text = (
            f"# Skill {number}\n\nDoes job {number} with care.\n\n## Where\n\nIn city {number % 7}, by tram {number}.\n"
        )
        (folder / "SKILL.md").write_text(text)
    requests = [
        {"request_id": f"r{n}", "task": {"name": f"job {n}"}, "user_context_constraints": {"city": f"city {n % 7}"}}
        for n in range(20)
    ]
    (root / "requests.jsonl").write_text("\n".join(map(json.dumps, requests)))
    with ray_session():
        for job in JOBS:
            if job == "route_logs":
                index = [f"--{name}={root / where}" for name, where in INDEX.items()]
                build_indexes.main(parse(build_indexes.BuildIndexes, index))
            kind, main = JOBS[job]
            main(parse(kind, arguments(job, root, root / job)))
    return root


INDEX = {"skills": "ingest_corpus", "embeddings": "embed_corpus", "snapshots": "snapshots"}


def arguments(job: str, root: Path, output: Path) -> list[str]:
    given = {
        "ingest_corpus": [f"--source={root / 'tree'}"],
        "embed_corpus": [f"--skills={root / 'ingest_corpus'}"],
        "route_logs": [
            f"--snapshots={root / 'snapshots'}",
            f"--requests={root / 'requests.jsonl'}",
            "--router.rerank.depth=5",
        ],
    }
    return [*given[job], f"--output={output}"]


def tables(output: Path) -> dict[str, list[dict[str, Any]]]:
    """Every table of an output, its rows in a fixed order."""
    return {
        folder.name: sorted(pads.dataset(folder).to_table().to_pylist(), key=lambda row: str(list(row.values())[:2]))
        for folder in sorted(output.iterdir())
        if folder.is_dir()
    }


def kill_after_two_units(job: str, arguments: list[str], output: Path) -> int:
    """Starts the job in a process group of its own, kills all of it, and gives how many units had finished."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD.format(job=job, units=SMALL_UNITS[job]), *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, sys.path))},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    markers: list[Path] = []
    while child.poll() is None and len(markers) < 2:
        time.sleep(0.05)
        markers = list((output / "_progress").glob("*/[!.]*.json"))
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    return len(markers)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("job", JOBS)
def test_a_killed_job_started_again_gives_the_rows_of_an_undisturbed_one(job: str, root: Path, tmp_path: Path) -> None:
    output = tmp_path / "output"
    given = arguments(job, root, output)
    kind, main = JOBS[job]

    finished = kill_after_two_units(job, given, output)
    assert finished >= 2
    assert not (output / "manifest.json").exists()
    summary = main(parse(kind, given))

    assert not summary.already_done
    assert tables(output) == tables(root / job)
    delete_directory(str(output))
