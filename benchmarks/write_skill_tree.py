"""Writes a Parquet table of skills (skill_id, name, description, body) out as a tree of SKILL.md files.

    python benchmarks/write_skill_tree.py TABLE_DIRECTORY TREE [--limit 3000] [--keep-ids ids.txt]

The tree is what `ingest_corpus` is measured on. A folder is named after the row's skill_id, so results can be held
against benchmarks that name skills by it. With --limit, the rows named in --keep-ids come first.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as pads
import yaml


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table")
    parser.add_argument("tree", type=Path)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--keep-ids", type=Path)
    settings = parser.parse_args()
    kept = set(settings.keep_ids.read_text().split()) if settings.keep_ids else set()
    others = None if settings.limit is None else settings.limit - len(kept)
    for row in rows(settings.table):
        if row["skill_id"] not in kept:
            if others == 0:
                continue
            others = None if others is None else others - 1
        folder = settings.tree / row["skill_id"][:2] / row["skill_id"]
        folder.mkdir(parents=True, exist_ok=True)
        fields = {"name": row["name"], "description": row["description"]}
        header = yaml.safe_dump(fields, allow_unicode=True, width=10**6)
        (folder / "SKILL.md").write_text(f"---\n{header}---\n\n{row['body']}", encoding="utf-8", newline="")


def rows(table: str) -> Iterator[dict[str, Any]]:
    for batch in pads.dataset(table).to_batches(columns=["skill_id", "name", "description", "body"]):
        yield from batch.to_pylist()


if __name__ == "__main__":
    main()
