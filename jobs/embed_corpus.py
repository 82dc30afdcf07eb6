"""Chunk and embed a skill corpus.

    ray job submit --runtime-env ray_cluster/runtime_env.yaml -- \\
        python jobs/embed_corpus.py --skills s3://corpus/skills --output s3://corpus/embedded --models qwen3

Writes below --output:
    chunks/            every passage of every body (schemas/Chunk.json)
    chunk_embeddings/  chunk_id, skill_id, text_hash, embedding
    skill_embeddings/  skill_id, embedding

Skills that are not routable, for their risks, are left out.

Units: the skill table is chunked part by part; chunks meet by the hash of their text, so each distinct text is embedded
once; skills are embedded part by part. An interrupted run continues with the unfinished units.
"""

import os
from functools import partial

from pydantic import Field

from skillfeed.embedding import EmbedPlan, chunk_work, embed_work
from skillfeed.errors import SettingError
from skillfeed.job import JobSettings, Summary, run
from skillfeed.manifest import input_fingerprint, require_manifest
from skillfeed.models import weights
from skillfeed.models.placement import check_local_gpu
from skillfeed.output import once
from skillfeed.partitions import part_rows, partition_count, partition_names
from skillfeed.settings import ModelSettings, load_models
from skillfeed.storage import URI, join
from skillfeed.units import ray_session, run_units

CHUNKS_PER_SKILL = 8  # to size partitions; real skills have 6 (500 tokens) to 15 (180 tokens)
CHUNKS_PER_UNIT = 2_000  # half a minute of a transformer on two CPU cores: what a kill loses, and the step of progress
FAST_CHUNKS_PER_UNIT = 16_000  # seconds of the static retriever


class EmbedCorpus(JobSettings):
    """Chunk and embed a skill corpus."""

    skills: URI = Field(description="Output of ingest_corpus")
    output: URI = Field(description="Where chunks/, chunk_embeddings/ and skill_embeddings/ go")
    models: str = Field("local", description="A shipped name (local, static, seek, qwen3) or a YAML file")
    reuse: list[URI] = Field([], description="Earlier outputs of this job whose vectors are taken over; repeatable")
    actors: int | None = Field(None, gt=0, description="Embedding actors; by default as many as the cluster holds")
    cpus_per_actor: int = Field(min(4, os.cpu_count() or 1), gt=0, description="CPUs of each embedding actor")


def main(job: EmbedCorpus) -> Summary:
    models = load_models(job.models)
    check_local_gpu(models.retriever.device)
    corpus = require_manifest(job.skills, "ingest_corpus")
    identity = {
        "skills": input_fingerprint(corpus),
        "retriever": weights.fingerprint(models.retriever, weights.resolve(models.retriever.weights)),
        "chunker": models.chunker.model_dump(),
        "limit": job.limit,
    }
    for earlier in job.reuse:
        if require_manifest(earlier, "embed_corpus").identity["retriever"] != identity["retriever"]:
            raise SettingError(f"reuse: the vectors in {earlier} are another model's; leave it out")
    settings = job.model_dump(mode="json") | {"models": models.model_dump(mode="json")}
    work = partial(embed, job, models)
    return once(
        "embed_corpus",
        job.output,
        identity,
        inputs=[job.skills, *job.reuse],
        settings=settings,
        overwrite=job.overwrite,
        work=work,
    )


def embed(job: EmbedCorpus, models: ModelSettings) -> dict[str, int]:
    rows = _first_rows(part_rows(join(job.skills, "skills")), job.limit)
    per_unit = FAST_CHUNKS_PER_UNIT if models.retriever.backend == "static" else CHUNKS_PER_UNIT
    partitions = partition_count(sum(rows.values()) * CHUNKS_PER_SKILL, per_unit)
    plan = EmbedPlan(job.skills, job.output, models, rows, partitions, tuple(job.reuse), job.cpus_per_actor)
    with ray_session():
        chunked = run_units("chunk", job.output, list(rows), partial(chunk_work, plan))
        units = [f"chunks-{name}" for name in partition_names(plan.partitions)] + [f"skills-{part}" for part in rows]
        embedded = run_units(
            "embed",
            job.output,
            units,
            partial(embed_work, plan),
            actors=job.actors,
            cpus=job.cpus_per_actor,
            gpus=1 if models.retriever.device == "cuda" else 0,
        )
    if chunked["chunks"] != embedded["chunk_embeddings"] or chunked["rows"] != embedded["skill_embeddings"]:
        raise RuntimeError(f"{job.output}: rows were lost: {chunked}, {embedded}; this is a defect, please report it")
    return {
        "rows_in": chunked["rows"],
        "unrouted": chunked["unrouted"],
        "chunks": chunked["chunks"],
        "chunk_embeddings": embedded["chunk_embeddings"],
        "skill_embeddings": embedded["skill_embeddings"],
        "embedded": embedded["embedded"],
        "reused": embedded["reused"],
        "tokens": embedded["tokens"],
    }


def _first_rows(rows_of_part: dict[str, int], limit: int | None) -> dict[str, int]:
    """How many rows to use of each part, to use `limit` in all."""
    if limit is None:
        return rows_of_part
    taken: dict[str, int] = {}
    for part, rows in rows_of_part.items():
        if limit > 0:
            taken[part] = min(rows, limit)
            limit -= rows
    return taken


if __name__ == "__main__":
    run(EmbedCorpus, main)
