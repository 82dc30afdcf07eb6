"""Build the dense and lexical indexes of an embedded corpus and publish them as a snapshot.

    ray job submit --runtime-env ray_cluster/runtime_env.yaml -- \\
        python jobs/build_indexes.py --skills s3://corpus/skills --embeddings s3://corpus/embedded \\
            --snapshots s3://corpus/snapshots

Publishes <snapshots>/<snapshot id>/ (skills, chunks, FAISS and Lucene indexes, manifest.json with the sha256 of every
file) and points <snapshots>/CURRENT at it. A snapshot is seen whole or not at all. Input that is published already is
not built again. Runs in the driver: all vectors and texts pass through its memory (228,432 skills: about 10 GB).
"""

import time
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from skillfeed.embedding import SKILL_TEXT, Vectors, vectors_in
from skillfeed.errors import SettingError
from skillfeed.indexes.snapshot import (
    describe_snapshot,
    find_published,
    publish,
    set_current,
    staging_directory,
)
from skillfeed.indexes.snapshot_files import write_snapshot_files
from skillfeed.job import JobSettings, Summary, run
from skillfeed.manifest import Manifest, input_fingerprint, require_manifest
from skillfeed.partitions import read_table
from skillfeed.progress import note
from skillfeed.settings import ModelSettings
from skillfeed.storage import URI, join


class BuildIndexes(JobSettings):
    """Build the dense and lexical indexes of an embedded corpus and publish them as a snapshot."""

    skills: URI = Field(description="Output of ingest_corpus")
    embeddings: URI = Field(description="Output of embed_corpus on those skills")
    snapshots: URI = Field(description="Where snapshots are published")
    index: Literal["auto", "flat", "ivf_pq", "hnsw"] = Field("auto", description="FAISS index; auto chooses by size")


def main(job: BuildIndexes) -> Summary:
    embedded = require_manifest(job.embeddings, "embed_corpus")
    skills = input_fingerprint(require_manifest(job.skills, "ingest_corpus"))
    if not embedded.rows["skill_embeddings"]:
        raise SettingError(f"embeddings: {job.embeddings} holds no skill, and a snapshot needs one")
    if embedded.identity["skills"] != skills:
        raise SettingError(
            f"embeddings: {job.embeddings} was made from other skills than {job.skills}; embed them first"
        )
    inputs = {"skills": skills, "embeddings": input_fingerprint(embedded), "index": job.index, "limit": str(job.limit)}
    published = None if job.overwrite else find_published(job.snapshots, inputs)
    if published is not None:
        set_current(job.snapshots, published.snapshot_id)
        rows = {"skills": published.skills, "chunks": published.chunks}
        return Summary("build_indexes", join(job.snapshots, published.snapshot_id), rows, 0.0, already_done=True)
    return build(job, embedded, inputs)


def build(job: BuildIndexes, embedded: Manifest, inputs: dict[str, str]) -> Summary:
    started = time.monotonic()
    note("index: reading skills, chunks and vectors")
    skills, skill_vectors = read_skills(job)
    chunks, chunk_vectors = read_chunks(job, skills)
    with staging_directory(job.snapshots) as staging:
        note(f"index: building over {len(skills):,} skills and {len(chunks):,} chunks")
        write_snapshot_files(staging, skills, skill_vectors, chunks, chunk_vectors, job.index)
        note("index: publishing")
        manifest = describe_snapshot(
            staging,
            models=ModelSettings.model_validate(embedded.settings["models"]),
            retriever_fingerprint=embedded.identity["retriever"],
            dimension=skill_vectors.shape[1],
            skills=len(skills),
            chunks=len(chunks),
            inputs=inputs,
        )
        snapshot_id = publish(staging, job.snapshots, manifest)
    rows = {
        "rows_in": embedded.rows["rows_in"],
        "skills": len(skills),
        "chunks": len(chunks),
        "bytes": sum(file.size for file in manifest.files.values()),
    }
    return Summary("build_indexes", join(job.snapshots, snapshot_id), rows, round(time.monotonic() - started, 3))


def read_skills(job: BuildIndexes) -> tuple[pa.Table, Vectors]:
    """Embedded skills by skill_id, and their vectors [S, D] in the same order."""
    embeddings = read_table(join(job.embeddings, "skill_embeddings"), ["skill_id", "embedding"]).sort_by("skill_id")
    embeddings = embeddings.slice(0, job.limit)
    skills = read_table(join(job.skills, "skills"), SKILL_TEXT.names)
    skills = skills.filter(pc.is_in(skills.column("skill_id"), embeddings.column("skill_id").combine_chunks()))
    return skills.sort_by("skill_id"), vectors_in(embeddings)


def read_chunks(job: BuildIndexes, skills: pa.Table) -> tuple[pa.Table, Vectors]:
    """Chunks of the skills by chunk_id, so that a skill's chunks stand together, and their vectors [C, D]."""
    columns = ["chunk_id", "skill_id", "section_path", "text"]
    chunks = read_table(join(job.embeddings, "chunks"), columns)
    embeddings = read_table(join(job.embeddings, "chunk_embeddings"), ["chunk_id", "embedding"])
    wanted = pc.is_in(chunks.column("skill_id"), skills.column("skill_id").combine_chunks())
    chunks = chunks.filter(wanted).sort_by("chunk_id")
    vectors = vectors_in(embeddings)[pc.index_in(chunks.column("chunk_id"), embeddings.column("chunk_id")).to_numpy()]
    return chunks, vectors


if __name__ == "__main__":
    run(BuildIndexes, main)
