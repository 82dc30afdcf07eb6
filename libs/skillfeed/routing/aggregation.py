"""Chunk scores become skill scores: the best passage decides, its neighbours and their number help a little."""

import numpy as np
import numpy.typing as npt

from skillfeed.settings import AggregationSettings

Rows = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]


def aggregate(skills: Rows, scores: npt.NDArray[np.float32], settings: AggregationSettings) -> tuple[Rows, Scores]:
    """Skills by descending max_weight·max + mean_weight·(1/M)·Σ top-M + count_weight·log(1 + n).

    n is how many of the given chunks belong to the skill; with fewer than M chunks the missing ones count as 0
    (the mean always divides by M). Ties break by row.

    Args:
        skills: [C] int64, the skill row of each retrieved chunk.
        scores: [C] float32, cosine of each chunk to the query.

    Returns:
        rows [S] int64, each once, and their scores [S] float64.
    """
    if not len(skills):
        return np.empty(0, np.int64), np.empty(0)
    order = np.lexsort((-scores, skills))  # by skill, best chunk first
    skills, ordered = skills[order], scores[order].astype(np.float64)
    rows, starts, counts = np.unique(skills, return_index=True, return_counts=True)
    place_in_skill = np.arange(len(skills)) - np.repeat(starts, counts)
    top = np.add.reduceat(np.where(place_in_skill < settings.top_m, ordered, 0.0), starts)
    total = (
        settings.max_weight * ordered[starts]
        + settings.mean_weight * top / settings.top_m
        + settings.count_weight * np.log1p(counts)
    )
    best = np.lexsort((rows, -total))
    return rows[best], total[best]
