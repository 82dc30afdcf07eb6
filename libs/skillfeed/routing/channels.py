"""The recall channels: each turns a batch of requests into one ranked list of skill rows a request."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from skillfeed.indexes import lexical as bm25
from skillfeed.indexes.dense import SearchableIndex, search
from skillfeed.indexes.lexical import LexicalSearcher
from skillfeed.routing.aggregation import aggregate
from skillfeed.settings import AggregationSettings

Rows = npt.NDArray[np.int64]
Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Ranking:
    """Skill rows [N] int64, best first, none twice, and their scores [N] float64 in the channel's own scale."""

    rows: Rows
    scores: npt.NDArray[np.float64]


def skill_dense(index: SearchableIndex, queries: Vectors, depth: int) -> list[Ranking]:
    """`task_dense` and `profile_dense`: skills by the cosine of their vector to the query [Q, D]."""
    scores, rows = search(index, queries, depth)
    return [
        Ranking(found[found >= 0], cosine[found >= 0].astype(np.float64))
        for cosine, found in zip(scores, rows, strict=True)
    ]


def chunk_dense(
    index: SearchableIndex, skill_of_chunk: Rows, queries: Vectors, depth: int, settings: AggregationSettings
) -> list[Ranking]:
    """`profile_chunk_dense`: the nearest chunks of each query [Q, D], aggregated to skills.

    Args:
        skill_of_chunk: [C] int64, the skill row of each chunk row.
    """
    scores, chunks = search(index, queries, settings.chunks)
    rankings = []
    for cosine, found in zip(scores, chunks, strict=True):
        rows, total = aggregate(skill_of_chunk[found[found >= 0]], cosine[found >= 0], settings)
        rankings.append(Ranking(rows[:depth], total[:depth]))
    return rankings


def lexical(
    searcher: LexicalSearcher, sorted_skill_ids: npt.NDArray[np.str_], texts: Sequence[str], depth: int, threads: int
) -> list[Ranking]:
    """`bm25`: skills by BM25 of their name and description to the words of the request."""
    rankings = []
    for hits in bm25.search(searcher, texts, depth, threads):
        ids = np.array([skill_id for skill_id, _ in hits], dtype=sorted_skill_ids.dtype)
        rows = np.searchsorted(sorted_skill_ids, ids).astype(np.int64)
        rankings.append(Ranking(rows, np.array([score for _, score in hits], np.float64)))
    return rankings
