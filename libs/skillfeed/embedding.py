"""Chunks and skills become vectors: each distinct text once, and none that an earlier run has a vector of. Ray-free."""

from collections.abc import Container, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from skillfeed.corpus.chunking import chunk_table
from skillfeed.models.retriever import Retriever, load_retriever
from skillfeed.models.tokenizer import load_tokenizer
from skillfeed.models.weights import resolve
from skillfeed.partitions import read_part, read_pieces, write_part, write_pieces
from skillfeed.prompts import chunk_text, skill_text
from skillfeed.records import Chunk, Skill, arrow_schema
from skillfeed.settings import ModelSettings
from skillfeed.storage import filesystem, join
from skillfeed.work import Counts, Work

Vectors = npt.NDArray[np.float32]

CHUNKS = arrow_schema(Chunk)
SKILL_TEXT = pa.schema(
    [field for field in arrow_schema(Skill) if field.name in ("skill_id", "name", "description", "body")]
)
ROUTABLE = pa.field("routable", pa.bool_())


@dataclass(frozen=True)
class EmbedPlan:
    """What the units of one run share."""

    skills: str
    output: str
    models: ModelSettings
    rows_of_part: dict[str, int]  # how many skills of each part are used
    partitions: int
    reuse: tuple[str, ...]
    threads: int


def embedding_schema(keys: Sequence[str], dimension: int) -> pa.Schema:
    """Key columns and `embedding`, a fixed-size list of D float32, L2-normalised."""
    vector = pa.list_(pa.field("item", pa.float32(), nullable=False), dimension)
    return pa.schema(
        [*(pa.field(key, pa.string(), nullable=False) for key in keys), pa.field("embedding", vector, nullable=False)]
    )


def vectors_in(table: pa.Table) -> Vectors:
    """[N, D] float32 of the `embedding` column."""
    column = table.column("embedding").combine_chunks()
    flat = column.flatten().to_numpy(zero_copy_only=False)
    return np.asarray(flat, np.float32).reshape(len(table), column.type.list_size)


def chunk_work(plan: EmbedPlan) -> Work:
    """Unit = a part of the skill table. Leaves its chunks as pieces of the partitions of their text hash."""
    tokenizer = load_tokenizer(resolve(plan.models.retriever.weights))

    def work(part: str) -> Counts:
        skills, unrouted = routable_skills(plan, part)
        chunks = chunk_table(skills, tokenizer, plan.models.chunker)
        write_pieces(join(plan.output, "_work", "chunks"), chunks, "text_hash", plan.partitions, part)
        return {"rows": len(skills), "unrouted": unrouted, "chunks": len(chunks)}

    return work


def routable_skills(plan: EmbedPlan, part: str) -> tuple[pa.Table, int]:
    """The skills of a part that may be routed to, and how many of those that the plan uses may not."""
    skills = read_part(join(plan.skills, "skills"), part, pa.schema([*SKILL_TEXT, ROUTABLE]))
    used = skills.slice(0, plan.rows_of_part[part])
    routable = used.filter(used.column("routable")).select(SKILL_TEXT.names)
    return routable, len(used) - len(routable)


def embed_work(plan: EmbedPlan) -> Work:
    """Unit = `chunks-NNNNN`, a partition of the chunks, or `skills-NNNNN`, a part of the skill table."""
    retriever = load_retriever(plan.models.retriever, plan.threads)

    def work(unit: str) -> Counts:
        kind, _, part = unit.partition("-")
        return _embed_chunks(plan, retriever, part) if kind == "chunks" else _embed_skills(plan, retriever, part)

    return work


def _embed_chunks(plan: EmbedPlan, retriever: Retriever, part: str) -> Counts:
    pieces = read_pieces(join(plan.output, "_work", "chunks"), part, CHUNKS)
    chunks = pieces.sort_by([("text_hash", "ascending"), ("chunk_id", "ascending")])
    columns = (chunks.column(name).to_pylist() for name in ("name", "description", "section_path", "text"))
    texts = [chunk_text(*fields) for fields in zip(*columns, strict=True)]
    vectors, counts = _vectors_of(
        chunks.column("text_hash").to_pylist(), texts, "chunk_embeddings", "text_hash", plan, retriever
    )
    write_part(join(plan.output, "chunks"), part, chunks)
    _write_vectors(join(plan.output, "chunk_embeddings"), part, chunks, ("chunk_id", "skill_id", "text_hash"), vectors)
    return counts


def _embed_skills(plan: EmbedPlan, retriever: Retriever, part: str) -> Counts:
    skills, _ = routable_skills(plan, part)
    columns = (skills.column(name).to_pylist() for name in ("name", "description", "body"))
    texts = [skill_text(*fields) for fields in zip(*columns, strict=True)]
    vectors, counts = _vectors_of(
        skills.column("skill_id").to_pylist(), texts, "skill_embeddings", "skill_id", plan, retriever
    )
    _write_vectors(join(plan.output, "skill_embeddings"), part, skills, ("skill_id",), vectors)
    return counts


def _write_vectors(directory: str, part: str, rows: pa.Table, keys: Sequence[str], vectors: Vectors) -> None:
    schema = embedding_schema(keys, vectors.shape[1])
    embedding = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), type=schema.field("embedding").type)
    write_part(directory, part, pa.table([*(rows.column(key) for key in keys), embedding], schema=schema))


def _vectors_of(
    keys: Sequence[str], texts: Sequence[str], table: str, key: str, plan: EmbedPlan, retriever: Retriever
) -> tuple[Vectors, Counts]:
    """Vectors [N, D] of texts, whose equal ones share a key, and counts of the texts reused and embedded.

    Args:
        keys: ascending hex digests.
        table, key: where earlier runs hold vectors under such digests.
    """
    first = {digest: number for number, digest in reversed(list(enumerate(keys)))}
    vectors = np.zeros((len(keys), retriever.dimension), np.float32)
    known: dict[str, npt.NDArray[np.float32]] = {}
    for earlier in plan.reuse if keys else ():
        known |= _known_vectors(join(earlier, table), key, keys[0], keys[-1], first.keys())
    missing = [digest for digest in first if digest not in known]
    tokens_before = retriever.tokens_seen
    if missing:
        computed = retriever.encode_documents([texts[first[digest]] for digest in missing])
        known |= dict(zip(missing, computed, strict=True))
    for number, digest in enumerate(keys):
        vectors[number] = known[digest]
    counts = {
        "rows": len(keys),
        table: len(keys),
        "embedded": len(missing),
        "reused": len(first) - len(missing),
        "tokens": retriever.tokens_seen - tokens_before,
    }
    return vectors, counts


def _known_vectors(
    directory: str, key: str, lowest: str, highest: str, wanted: Container[str]
) -> dict[str, npt.NDArray[np.float32]]:
    """The vectors an earlier run stored for the wanted digests. Only row groups that meet their range are read."""
    files, path = filesystem(directory)
    dataset = pads.dataset(path, filesystem=files, format="parquet")
    table = dataset.to_table(columns=[key, "embedding"], filter=(pc.field(key) >= lowest) & (pc.field(key) <= highest))
    vectors = vectors_in(table)
    return {digest: vectors[number] for number, digest in enumerate(table.column(key).to_pylist()) if digest in wanted}
