"""Read skills from directory trees, JSONL, Parquet and archives into one skill table.

    ray job submit --runtime-env ray_cluster/runtime_env.yaml -- \\
        python jobs/ingest_corpus.py --source s3://corpus/raw --source more.zip --output s3://corpus/skills

Writes below --output:
    skills/      one row a skill, by skill_id (schemas/Skill.json)
    duplicates/  inputs whose body is another skill's, and which one
    rejected/    inputs that no skill could be read from: source, path or row, reason code, detail

Every input ends in exactly one of the three. Units: groups of inputs are parsed; then each partition of the skill ids
is written. An interrupted run continues with the unfinished units.
"""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Literal

from pydantic import Field

from skillfeed.corpus.ingest import IngestPlan, decide, parse_work, write_work
from skillfeed.corpus.risks import DEFAULT_ACTIONS, RiskAction
from skillfeed.corpus.sources import InputRef, list_inputs
from skillfeed.errors import SettingError
from skillfeed.job import JobSettings, Summary, run
from skillfeed.manifest import fingerprint
from skillfeed.output import once
from skillfeed.partitions import partition_count, partition_names
from skillfeed.records import RiskCode
from skillfeed.storage import URI
from skillfeed.units import group_by_size, ray_session, run_units

GROUP_BYTES = 16 * 1024**2  # seconds of parsing: short enough to lose, long enough to schedule
GROUP_INPUTS = 500
PARTITION_BYTES = 16 * 1024**2  # about 2,000 skills


class IngestCorpus(JobSettings):
    """Read skills from directory trees, JSONL, Parquet and archives into one skill table."""

    source: list[URI] = Field(description="Directory of SKILL.md files, .jsonl, .parquet, .zip or .tar.gz; repeatable")
    output: URI = Field(description="Where skills/, duplicates/ and rejected/ go")
    credentials: Literal["redact", "reject"] = Field("redact", description="What to do with keys and tokens in skills")
    risks: dict[RiskCode, RiskAction] = Field(
        {}, description="By code of the risk screen: keep, unrouted (in no index) or reject; defaults in docs/risks.md"
    )
    near_duplicates: Literal["link", "drop", "ignore"] = Field("link", description="By MinHash over the body")
    near_duplicate_threshold: float = Field(0.8, gt=0, le=1, description="Estimated Jaccard similarity of word 5-grams")
    max_file_bytes: int = Field(1_000_000, gt=0, description="A larger SKILL.md is rejected")


def main(job: IngestCorpus) -> Summary:
    inputs = [ref for source in job.source for ref in list_inputs(source)][: job.limit]
    if not inputs:
        raise SettingError(f"source: no SKILL.md, .jsonl, .parquet or archive in {', '.join(job.source)}")
    identity = {
        "sources": job.source,
        "inputs": fingerprint([asdict(ref) for ref in inputs]),
        "credentials": job.credentials,
        "risks": {**DEFAULT_ACTIONS, **job.risks},
        "near_duplicates": [job.near_duplicates, job.near_duplicate_threshold],
        "max_file_bytes": job.max_file_bytes,
        "limit": job.limit,
    }
    settings = job.model_dump(mode="json")
    work = partial(ingest, job, inputs)
    return once(
        "ingest_corpus",
        job.output,
        identity,
        inputs=job.source,
        settings=settings,
        overwrite=job.overwrite,
        work=work,
    )


def ingest(job: IngestCorpus, inputs: Sequence[InputRef]) -> dict[str, int]:
    # A trial of the first rows is one unit, which stops at the limit.
    groups = [tuple(inputs)] if job.limit else group_by_size(inputs, GROUP_BYTES, GROUP_INPUTS)
    plan = IngestPlan(
        output=job.output,
        groups=tuple(groups),
        partitions=partition_count(sum(ref.size for ref in inputs), PARTITION_BYTES),
        credentials=job.credentials,
        risks={**DEFAULT_ACTIONS, **job.risks},
        near_duplicates=job.near_duplicates,
        threshold=job.near_duplicate_threshold,
        max_file_bytes=job.max_file_bytes,
        limit=job.limit,
    )
    with ray_session():
        parsed = run_units("parse", job.output, partition_names(len(plan.groups)), partial(parse_work, plan))
        linked = decide(plan)
        written = run_units("write", job.output, partition_names(plan.partitions), partial(write_work, plan))
    counts = {
        "rows_in": parsed["rows"],
        "skills": written["skills"],
        "duplicates": written["duplicates"],
        "rejected": parsed["rejected"],
        "recovered": parsed["recovered"],
        "near_duplicates": linked["near_duplicates"],
        "skills_with_credentials": parsed["skills_with_credentials"],
        "credentials_redacted": parsed["credentials_redacted"],
        **{
            name: count
            for name, count in written.items()
            if name in ("risky_skills", "unrouted_skills") or name.startswith("risk_")
        },
    }
    if counts["rows_in"] != counts["skills"] + counts["duplicates"] + counts["rejected"]:
        raise RuntimeError(f"{job.output}: rows were lost: {counts}; this is a defect, please report it")
    return counts


if __name__ == "__main__":
    run(IngestCorpus, main)
