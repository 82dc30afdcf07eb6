"""Route request logs of any length through the one Router.

    ray job submit --runtime-env ray_cluster/runtime_env.yaml -- \\
        python jobs/route_logs.py --snapshots s3://corpus/snapshots --requests s3://logs/today --output s3://routes/today

Requests are JSONL or Parquet rows with request_id, task and user_context_constraints (schemas/RoutingRequest.json).
Writes below --output:
    routes/    the ranked skills of each request, with scores and evidence (schemas/Route.json)
    rejected/  rows that are no request, or repeat an id: source, row, reason code, detail

Units: groups of splits are read and validated; requests meet by the hash of their content, so equal ones are routed
once; each partition is routed. An interrupted run continues with the unfinished units.
"""

import os
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

from pydantic import Field

from skillfeed.errors import SettingError
from skillfeed.indexes.snapshot import current, read_manifest
from skillfeed.input_files import find_files
from skillfeed.job import JobSettings, Summary, run
from skillfeed.manifest import fingerprint
from skillfeed.models.placement import check_local_gpu
from skillfeed.output import once
from skillfeed.partitions import partition_count, partition_names
from skillfeed.routing.logs import RoutePlan, find_repeated, read_work, route_work
from skillfeed.routing.router import check_models
from skillfeed.rows import RowSplit, is_row_file, row_splits
from skillfeed.settings import ModelSettings, RouterSettings, checked, load_models
from skillfeed.storage import URI
from skillfeed.units import group_by_size, ray_session, run_units

SPLIT_BYTES = 64 * 1024**2
GROUP_FILES = 500  # of tiny files
REQUEST_BYTES = 600  # a typical JSONL line
REQUESTS_PER_UNIT = 20_000
RERANKED_REQUESTS_PER_UNIT = 100  # a reranked request costs a second of two CPU cores: minutes to repeat, not hours


class RouteLogs(JobSettings):
    """Route request logs of any length through the one Router."""

    snapshots: URI = Field(description="Where build_indexes publishes")
    snapshot: str | None = Field(None, description="Snapshot id; by default the current one")
    requests: URI = Field(description="A .jsonl or .parquet file, or a directory of them")
    output: URI = Field(description="Where routes/ and rejected/ go")
    top_k: int | None = Field(None, gt=0, description="Skills of each route; short for --router.top-k")
    models: str | None = Field(None, description="Other models with the snapshot's retriever, to change the reranker")
    router: RouterSettings = Field(RouterSettings(), description="Channels, aggregation, fusion, reranking")
    actors: int | None = Field(None, gt=0, description="Routing actors; by default as many as the cluster holds")
    cpus_per_actor: int = Field(min(4, os.cpu_count() or 1), gt=0, description="CPUs of each routing actor")


def main(job: RouteLogs) -> Summary:
    snapshot_id = job.snapshot or current(job.snapshots)
    if snapshot_id is None:
        raise SettingError(f"snapshots: no snapshot is current in {job.snapshots}; run jobs/build_indexes.py first")
    manifest = read_manifest(job.snapshots, snapshot_id)
    models = load_models(job.models) if job.models else manifest.models
    check_models(manifest, models)
    router = checked(RouterSettings, job.router.model_dump() | ({"top_k": job.top_k} if job.top_k else {}), "router")
    for device in devices_of(models, router):
        check_local_gpu(device)
    splits = row_splits(job.requests, SPLIT_BYTES)
    identity = {
        "snapshot": snapshot_id,
        "models": models.model_dump(mode="json"),
        "router": router.model_dump(mode="json"),
        "requests": job.requests,
        "files": fingerprint([asdict(file) for file in find_files(job.requests, is_row_file)]),
        "limit": job.limit,
    }
    work = partial(route, job, snapshot_id, models, router, splits)
    settings = job.model_dump(mode="json")
    return once(
        "route_logs",
        job.output,
        identity,
        inputs=[job.requests, job.snapshots],
        settings=settings,
        overwrite=job.overwrite,
        work=work,
    )


def route(
    job: RouteLogs, snapshot_id: str, models: ModelSettings, router: RouterSettings, splits: Sequence[RowSplit]
) -> dict[str, int]:
    reranker = models.reranker if router.rerank else None
    per_unit = RERANKED_REQUESTS_PER_UNIT if reranker else REQUESTS_PER_UNIT
    plan = RoutePlan(
        snapshots=job.snapshots,
        snapshot_id=snapshot_id,
        output=job.output,
        groups=tuple([tuple(splits)] if job.limit else group_by_size(splits, SPLIT_BYTES, GROUP_FILES)),
        partitions=partition_count(sum(split.size for split in splits), per_unit * REQUEST_BYTES),
        models=models,
        router=router,
        threads=job.cpus_per_actor,
        limit=job.limit,
    )
    with ray_session():
        read = run_units("read", job.output, partition_names(len(plan.groups)), partial(read_work, plan))
        find_repeated(plan)
        routed = run_units(
            "route",
            job.output,
            partition_names(plan.partitions),
            partial(route_work, plan),
            actors=job.actors,
            cpus=job.cpus_per_actor,
            gpus=1 if "cuda" in devices_of(models, router) else 0,
        )
    if read["rows"] != read["rejected"] + routed["rows"] + routed["rejected"]:
        raise RuntimeError(f"{job.output}: rows were lost: {read}, {routed}; this is a defect, please report it")
    return {
        "rows_in": read["rows"],
        "routes": routed["rows"],
        "distinct_requests": routed["distinct"],
        "rejected": read["rejected"] + routed["rejected"],
        "tokens": routed["tokens"],
    }


def devices_of(models: ModelSettings, router: RouterSettings) -> set[str]:
    """Where the index and the models that are used shall run."""
    rerankers = [models.reranker.device] if router.rerank and models.reranker else []
    return {router.index_device, models.retriever.device, *rerankers}


if __name__ == "__main__":
    run(RouteLogs, main)
