"""Weighted reciprocal rank fusion (Cormack et al. 2009): merges ranked lists without calibrating their scores."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]


def fuse(rankings: Mapping[str, Rows], weights: Mapping[str, float], k: int = 60) -> tuple[Rows, Scores]:
    """Skills by descending Σ weight/(k + rank), rank from 1; a skill absent from a list gets nothing from it.

    Args:
        rankings: for each channel the skill rows, best first, none twice.

    Returns:
        rows [N] int64 and fused scores [N] float64. Ties break by row, which is the order of skill ids, so equal
        input gives equal output on any machine.

    Raises:
        KeyError: a ranking has no weight.
    """
    if not any(len(ranking) for ranking in rankings.values()):
        return np.empty(0, np.int64), np.empty(0)
    channels = sorted(rankings)  # float addition is not associative: one fixed order, whatever the settings list first
    gains = [weights[channel] / (k + 1.0 + np.arange(len(rankings[channel]))) for channel in channels]
    rows, place = np.unique(np.concatenate([rankings[channel] for channel in channels]), return_inverse=True)
    scores = np.bincount(place, weights=np.concatenate(gains), minlength=len(rows))
    order = np.lexsort((rows, -scores))
    return rows[order].astype(np.int64), scores[order].astype(np.float64)
