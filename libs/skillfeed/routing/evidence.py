"""Which passages of a candidate's body speak to the user's conditions: its chunks by cosine, whoever recalled it."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from skillfeed.indexes.dense import SearchableIndex, vectors_of

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Passages:
    """Chunk rows [N] of one candidate, best first, and their cosines [N] to the query."""

    rows: Rows
    scores: npt.NDArray[np.float32]


def passages(
    chunk_index: SearchableIndex, skill_of_chunk: Rows, query: npt.NDArray[np.float32], candidates: Rows
) -> list[Passages]:
    """All chunks of each candidate skill row, best first.

    Args:
        skill_of_chunk: [C] int64, ascending: a skill's chunks stand together.
        query: [D] float32, L2-normalised.
    """
    starts = np.searchsorted(skill_of_chunk, candidates, side="left")
    ends = np.searchsorted(skill_of_chunk, candidates, side="right")
    rows = np.concatenate([np.arange(start, end) for start, end in zip(starts, ends, strict=True)] or [np.empty(0)])
    rows = rows.astype(np.int64)
    cosines = vectors_of(chunk_index, rows) @ query if len(rows) else np.empty(0, np.float32)
    found, offset = [], 0
    for count in ends - starts:
        part = slice(offset, offset + count)
        order = np.lexsort((rows[part], -cosines[part]))
        found.append(Passages(rows[part][order], cosines[part][order]))
        offset += count
    return found
