"""The files of a snapshot: written into a staging directory, and memory-mapped again.

skills.arrow    skill_id, name, description, body; row i is vector i of skills.faiss
chunks.arrow    chunk_id, skill_row (into skills.arrow), section_path, text; row i is vector i of chunks.faiss
lexical/        Lucene; a document is name and description under its skill_id
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skillfeed.indexes import dense, lexical

SKILLS, CHUNKS = "skills.arrow", "chunks.arrow"
SKILL_INDEX, CHUNK_INDEX = "skills.faiss", "chunks.faiss"
LEXICAL = "lexical"

# large_string: bodies pass 2 GB in all, and one batch a table makes access by row constant in time
_TEXT = pa.large_string()
SKILL_SCHEMA = pa.schema([(name, _TEXT) for name in ("skill_id", "name", "description", "body")])
CHUNK_SCHEMA = pa.schema([("chunk_id", _TEXT), ("skill_row", pa.int32()), ("section_path", _TEXT), ("text", _TEXT)])


def write_snapshot_files(
    staging: Path,
    skills: pa.Table,
    skill_vectors: dense.Floats,
    chunks: pa.Table,
    chunk_vectors: dense.Floats,
    kind: dense.Kind = "auto",
    seed: int = 0,
) -> None:
    """Writes every file but the manifest.

    Args:
        staging: a directory, made if need be.
        skills: rows of `records.Skill`; other columns are left out.
        skill_vectors: [S, D] float32, L2-normalised, in the order of `skills`.
        chunks: rows of `records.Chunk`.
        chunk_vectors: [C, D], in the order of `chunks`.

    Raises:
        ValueError: rows and vectors differ in number, a skill_id comes twice, or a chunk names no skill.
        SettingError: an index cannot be built this way.
    """
    _check_vectors("skills", skills, skill_vectors)
    _check_vectors("chunks", chunks, chunk_vectors)
    rows = skill_rows(chunks["skill_id"], skills["skill_id"])
    staging.mkdir(parents=True, exist_ok=True)
    _write_table(staging / SKILLS, skills.select(SKILL_SCHEMA.names).cast(SKILL_SCHEMA))
    with_rows = chunks.append_column("skill_row", rows).select(CHUNK_SCHEMA.names)
    _write_table(staging / CHUNKS, with_rows.cast(CHUNK_SCHEMA))
    dense.write(dense.build(skill_vectors, kind=kind, seed=seed), staging / SKILL_INDEX)
    dense.write(dense.build(chunk_vectors, kind=kind, seed=seed), staging / CHUNK_INDEX)
    lexical.build(staging / LEXICAL, _documents(skills))


def skill_rows(chunk_skills: pa.ChunkedArray, skill_ids: pa.ChunkedArray) -> pa.ChunkedArray:
    """For each chunk the row of its skill, int32.

    Raises:
        ValueError: a skill_id comes twice, or a chunk's skill is not among them.
    """
    ids = skill_ids.cast(_TEXT)
    if len(pc.unique(ids)) != len(ids):
        raise ValueError("skills: a skill_id comes twice; drop the second, as ingest_corpus.py does")
    chunk_ids = chunk_skills.cast(_TEXT)
    rows = pc.index_in(chunk_ids, value_set=ids)
    if rows.null_count:
        unknown = chunk_ids.filter(pc.is_null(rows))
        raise ValueError(f"chunks: {len(unknown)} of unknown skills, first {unknown[0]}; embed the same skills")
    return rows


def map_table(path: Path) -> pa.Table:
    """A table whose columns are pages of the file; nothing is copied."""
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


def _write_table(path: Path, table: pa.Table) -> None:
    """One uncompressed batch, because compressed ones cannot be mapped. Costs one copy of the table in memory."""
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table.combine_chunks())


def _documents(skills: pa.Table) -> Iterator[tuple[str, str]]:
    for batch in skills.select(["skill_id", "name", "description"]).to_batches(max_chunksize=4096):
        for key, name, description in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield key, f"{name}\n{description}"


def _check_vectors(what: str, table: pa.Table, vectors: dense.Floats) -> None:
    if vectors.ndim != 2 or vectors.dtype != np.float32 or len(vectors) != table.num_rows:
        wanted = f"[{table.num_rows}, D] float32"
        raise ValueError(f"{what}: expected vectors {wanted}, got {vectors.shape} {vectors.dtype}")
