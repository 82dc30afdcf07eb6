"""Build the dense and lexical indexes of an embedded corpus and publish them as a snapshot.

    ray job submit --runtime-env ray_cluster/runtime_env.yaml -- \\
        python jobs/build_indexes.py --skills s3://corpus/skills --embeddings s3://corpus/embedded --snapshots s3://corpus/snapshots

Publishes <snapshots>/<snapshot id>/ (skills, chunks, FAISS and Lucene indexes, manifest.json with the sha256 of every
file) and points <snapshots>/CURRENT at it. A snapshot is seen whole or not at all. The same input gives the same
snapshot, so a second run publishes nothing.
"""

from typing import Literal

from pydantic import Field

from skillfeed.job import JobSettings, Summary, run
from skillfeed.storage import URI


class BuildIndexes(JobSettings):
    """Build the dense and lexical indexes of an embedded corpus and publish them as a snapshot."""

    skills: URI = Field(description="Output of ingest_corpus")
    embeddings: URI = Field(description="Output of embed_corpus on those skills")
    snapshots: URI = Field(description="Where snapshots are published")
    index: Literal["auto", "flat", "ivf_pq", "hnsw"] = Field("auto", description="FAISS index; auto chooses by size")


def main(job: BuildIndexes) -> Summary: ...


if __name__ == "__main__":
    run(BuildIndexes, main)
