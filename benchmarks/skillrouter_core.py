"""Hit@1 and MRR@10 of the router's stages on SkillRouter's public labels. Writes build/bench/.

    python benchmarks/skillrouter_core.py --skills SKILLS --snapshots SNAPSHOTS --benchmark DIRECTORY --name NAME

The benchmark's requests.jsonl names skills by the ids of its corpus; the ingested tree must have folders of those names
(benchmarks/write_skill_tree.py). Hit@1: the first skill is a core one of the request. MRR@10: of the first core one.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import pyarrow.dataset as pads

from skillfeed.indexes.snapshot import Snapshot, open_snapshot
from skillfeed.records import Route, RoutingRequest
from skillfeed.routing.router import load_router
from skillfeed.settings import RerankSettings, RouterSettings, load_models

REPORTS = Path(__file__).parents[1] / "build" / "bench"
DEFAULT = RouterSettings().channels
SYSTEMS = {
    "bm25": RouterSettings(channels={"bm25": DEFAULT["bm25"]}, rerank=None),
    "task_dense": RouterSettings(channels={"task_dense": DEFAULT["task_dense"]}, rerank=None),
    "fused": RouterSettings(rerank=None),
    "fused + rerank": RouterSettings(rerank=RerankSettings(depth=50)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("skills", "snapshots", "benchmark", "name"):
        parser.add_argument(f"--{name}", required=True)
    settings = parser.parse_args()
    lines = (Path(settings.benchmark) / "requests.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    snapshot, folder_of = open_snapshot(settings.snapshots), folders(settings.skills)
    report = {"skills": snapshot.manifest.skills, "requests": len(rows), "models": snapshot.manifest.models.name}
    systems = {name: measured(snapshot, system, rows, folder_of) for name, system in SYSTEMS.items()}
    REPORTS.mkdir(parents=True, exist_ok=True)
    path = REPORTS / f"skillrouter_core-{settings.name}.json"
    path.write_text(json.dumps(report | {"systems": systems}, indent=2) + "\n")
    print(f"{report}\n\n| system | Hit@1 | MRR@10 | seconds |\n| --- | --- | --- | --- |")
    for name, row in systems.items():
        print(f"| {name} | {row['hit_at_1']:.3f} | {row['mrr_at_10']:.3f} | {row['seconds']:.1f} |")


def folders(skills: str) -> dict[str, set[str]]:
    """skill_id to the benchmark's ids for it: the folder it came from, and those of its dropped duplicates."""
    found: dict[str, set[str]] = {}
    for table, key in (("skills", "skill_id"), ("duplicates", "duplicate_of")):
        if (Path(skills) / table).exists():
            for row in pads.dataset(Path(skills) / table).to_table(columns=[key, "path"]).to_pylist():
                found.setdefault(row[key], set()).add(Path(row["path"]).parent.name)
    return found


def measured(
    snapshot: Snapshot, system: RouterSettings, rows: list[dict[str, Any]], folder_of: dict[str, set[str]]
) -> dict[str, float]:
    models = snapshot.manifest.models
    if models.reranker is None:  # a retriever for scale brings none; the local one judges its candidates
        models = models.model_copy(update={"reranker": load_models("local").reranker})
    router = load_router(snapshot, system, models)
    started = time.perf_counter()
    routes = router.route([RoutingRequest.model_validate(row) for row in rows])
    seconds = time.perf_counter() - started
    ranks = [first_rank(route, set(row["core_skill_ids"]), folder_of) for route, row in zip(routes, rows, strict=True)]
    return {
        "hit_at_1": sum(rank == 1 for rank in ranks) / len(ranks),
        "mrr_at_10": sum(1 / rank for rank in ranks if rank) / len(ranks),
        "seconds": seconds,
    }


def first_rank(route: Route, right: set[str], folder_of: dict[str, set[str]]) -> int | None:
    """Rank of the first right skill among ten, or None."""
    return next((skill.rank for skill in route.skills if folder_of[skill.skill_id] & right), None)


if __name__ == "__main__":
    main()
