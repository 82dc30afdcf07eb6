"""Writes a request log of any length, grown from the bundled sample, for tests of scale.

    python benchmarks/write_request_log.py 1000000 build/log.jsonl

A log as platforms have them: 60 % of the requests repeat an earlier one under a new id, ids are unique, and 0.1 % of
the lines are broken in one of four ways. Equal arguments give equal bytes.
"""

import argparse
import json
import random
from importlib import resources
from pathlib import Path
from typing import Any

REPEATED = 0.6
BROKEN = 0.001
BREAKS = (
    lambda line: line[: len(line) // 2],  # cut off
    lambda line: line.replace('"request_id"', '"id"'),  # a missing field
    lambda line: "\u0000" + line,  # noise
    lambda line: json.dumps([line]),  # not an object
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("requests", type=int)
    parser.add_argument("log", type=Path)
    settings = parser.parse_args()
    settings.log.parent.mkdir(parents=True, exist_ok=True)
    print(json.dumps(write(settings.requests, settings.log)))


def write(count: int, log: Path) -> dict[str, int]:
    """Writes the log and gives how many of its lines are requests, distinct ones, and broken."""
    sample = (resources.files("skillfeed") / "sample" / "requests.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in sample]
    rng = random.Random(0)
    distinct, broken = 0, 0
    with open(log, "w", encoding="utf-8") as file:
        for number in range(count):
            repeats = distinct > 0 and rng.random() < REPEATED
            variant = rng.randrange(distinct) if repeats else distinct
            distinct += not repeats
            line = json.dumps(request(rows, variant, number), ensure_ascii=False)
            if rng.random() < BROKEN:
                broken += 1
                line = BREAKS[rng.randrange(len(BREAKS))](line)
            file.write(line + "\n")
    return {"requests": count - broken, "broken": broken}


def request(rows: list[dict[str, Any]], variant: int, number: int) -> dict[str, Any]:
    """The request of a variant: a task of the sample with a budget of its own, under the id of the line."""
    row = rows[variant % len(rows)]
    profile = row["user_context_constraints"] | {"budget": f"{variant // len(rows) + 1} a day"}
    return {"request_id": f"r{number:09d}", "task": row["task"], "user_context_constraints": profile}


if __name__ == "__main__":
    main()
