"""The units of jobs/embed_corpus.py one after another in this process, without Ray: what the job is measured against.

python benchmarks/plain_embedding.py SKILLS OUTPUT
"""

import os
import sys

from skillfeed.embedding import EmbedPlan, chunk_work, embed_work
from skillfeed.partitions import part_rows, partition_names
from skillfeed.settings import load_models


def main(skills: str, output: str) -> None:
    rows = part_rows(f"{skills}/skills")
    plan = EmbedPlan(skills, output, load_models("local"), rows, len(rows), (), os.cpu_count() or 1)
    chunk = chunk_work(plan)
    for part in rows:
        chunk(part)
    embed = embed_work(plan)
    for unit in [
        *(f"chunks-{name}" for name in partition_names(plan.partitions)),
        *(f"skills-{part}" for part in rows),
    ]:
        embed(unit)


if __name__ == "__main__":
    main(*sys.argv[1:])
