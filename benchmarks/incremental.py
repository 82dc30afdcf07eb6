"""Embedding a corpus of which 1 % changed, against embedding it from scratch. Writes build/bench/incremental.json.

    python benchmarks/incremental.py [--skills 10000] [--models local]

The new version changes, adds and removes a third of a per cent of the skills each. Both runs are whole jobs, start-up
included, in processes of their own. From scratch, 10,000 skills take a quarter of an hour on two cores.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from embedding import grown_sample

JOBS = Path(__file__).parents[1] / "jobs"
REPORT = Path(__file__).parents[1] / "build" / "bench" / "incremental.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skills", type=int, default=10_000)
    parser.add_argument("--models", default="local")
    settings = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        old = grown_sample(root, settings.skills)
        new = changed(old, root / "new.jsonl", settings.skills // 300)
        for version, source in (("old", old), ("new", new)):
            job("ingest_corpus", source=source, output=root / version / "skills", near_duplicates="ignore")
        models = {"models": settings.models}
        scratch = job("embed_corpus", skills=root / "old" / "skills", output=root / "old" / "embedded", **models)
        embedded = {"output": root / "new" / "embedded", "reuse": root / "old" / "embedded"}
        again = job("embed_corpus", skills=root / "new" / "skills", **embedded, **models)
    report = {
        "skills": settings.skills,
        "models": settings.models,
        "from_scratch_seconds": scratch["wall"],
        "incremental_seconds": again["wall"],
        "embedded": again["embedded"],
        "reused": again["reused"],
        "ratio": scratch["wall"] / again["wall"],
        "ratio_at_least": 20,
    }
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2))


def changed(old: Path, new: Path, count: int) -> Path:
    """The corpus with `count` skills changed, as many removed and as many added."""
    lines = old.read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines[count:]]
    for row in rows[:count]:
        row["body"] += "\n\nA paragraph that was not there before.\n"
    rows += [json.loads(line) | {"name": f"added-{n}", "body": f"Added {n}.\n"} for n, line in enumerate(lines[:count])]
    new.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return new


def job(name: str, **settings: Any) -> dict[str, Any]:
    """Runs a job to its end; its summary and its wall seconds."""
    flags = [part for key, value in settings.items() for part in (f"--{key.replace('_', '-')}", str(value))]
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, str(JOBS / f"{name}.py"), *flags], check=True, stdout=subprocess.PIPE, text=True
    )
    return json.loads(done.stdout) | {"wall": time.perf_counter() - started}


if __name__ == "__main__":
    main()
