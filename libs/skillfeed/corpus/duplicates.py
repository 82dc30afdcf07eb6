"""Finds skills whose bodies are nearly equal: MinHash over shingles of five words, LSH.

Words are hashed (CRC-32) and rolled into shingles here, which gives 2,000 bodies of 6 KB a second on one core; joined
shingles and datasketch's SHA-1 give 700. rensa 0.5 (Rust) would give 2,700, as one more, younger dependency.
Groups of 61,621 signatures take 1.4 s and 100 MB; 1,589 of those skills have an earlier near duplicate.
"""

import re
import zlib
from collections.abc import Sequence

import numpy as np
from datasketch import MinHash
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

PERMUTATIONS = 128
_SHINGLE_WORDS = 5
_ROWS, _BANDS = 6, 21  # a pair of Jaccard 0.8 shares a band with probability 0.998, one of 0.5 with 0.28
_ROUNDS = 64  # in a bucket that still holds unlike bodies after so many comparisons, the rest is taken as distinct
_PAIRS_AT_ONCE = 1 << 16  # 64 MB of signatures
_CJK = r"\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"  # kana and ideographs: each character is a word
_WORD = re.compile(rf"[{_CJK}]|[^\W{_CJK}]+")
_NOTHING = np.uint32(0xFFFFFFFF)  # the signature of a body without a word
_MIX = np.uint64(0x9E3779B97F4A7C15)


def signatures(bodies: Sequence[str]) -> NDArray[np.uint32]:
    """[N, 128] uint32, the same for the same words anywhere; equal cells of two rows estimate their Jaccard index.

    Case, punctuation and layout do not count. A body of fewer than five words is one shingle; one of none is like no
    other body.
    """
    empty = MinHash(PERMUTATIONS, seed=1, hashfunc=int, scheme="affine32")
    found = np.full((len(bodies), PERMUTATIONS), _NOTHING, np.uint32)
    for row, body in enumerate(bodies):
        shingles = _shingles(body)
        if len(shingles):
            sketch = empty.copy()
            sketch.update_batch(shingles.tolist())
            found[row] = sketch.hashvalues
    return found


def near_duplicates(skill_ids: Sequence[str], signatures: NDArray[np.uint32], threshold: float = 0.8) -> dict[str, str]:
    """Each later member of a group of near duplicates and the group's first skill, by id; others are left out.

    `skill_ids` are distinct, `signatures` [N, 128] uint32 belong to them. Two skills are linked when they share a band
    of 6 cells and at least `threshold` of all cells; a group is what links connect. Input order does not matter.

    Raises:
        ValueError: the signatures are not [N, 128] for N skill ids.
    """
    if signatures.shape != (len(skill_ids), PERMUTATIONS):
        raise ValueError(
            f"signatures {signatures.shape}: expected ({len(skill_ids)}, {PERMUTATIONS}), a row a skill id"
        )
    order = np.array(sorted(range(len(skill_ids)), key=skill_ids.__getitem__), np.int64)
    order = order[(signatures[order] != _NOTHING).any(axis=1)]
    if not len(order):
        return {}
    # equal signatures are one point, so 5,000 copies of a body cost no more than one
    points, first, point_of = np.unique(signatures[order], axis=0, return_index=True, return_inverse=True)
    rank = np.argsort(first)  # points by their first skill: comparisons then do not depend on the input's order
    left, right = _links(points[rank], threshold)
    graph = coo_array((np.ones(len(left), bool), (rank[left], rank[right])), shape=(len(points), len(points)))
    groups = connected_components(graph, directed=False)[1][point_of.reshape(-1)]
    _, leaders, group_of = np.unique(groups, return_index=True, return_inverse=True)
    leader_of = leaders[group_of]
    return {
        skill_ids[order[member]]: skill_ids[order[leader]]
        for member, leader in enumerate(leader_of.tolist())
        if member != leader
    }


def _shingles(body: str) -> NDArray[np.uint64]:
    """Distinct 32-bit hashes of the runs of five words, in uint64."""
    words = _WORD.findall(body.lower())
    hashes = np.fromiter((zlib.crc32(word.encode()) for word in words), np.uint64, len(words))
    if not len(hashes):
        return hashes
    size = min(_SHINGLE_WORDS, len(hashes))
    count = len(hashes) - size + 1
    rolled = np.zeros(count, np.uint64)
    for offset in range(size):
        rolled = _mixed(rolled, hashes[offset : offset + count])
    return np.unique(rolled >> np.uint64(32))


def _mixed(state: NDArray[np.uint64], value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return (state ^ (state >> np.uint64(29)) ^ value) * _MIX  # wraps around, as meant


def _links(points: NDArray[np.uint32], threshold: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs (left < right) of rows of points [P, 128] that share a bucket and agree in `threshold` of the cells.

    In every bucket all are compared with its first; those unlike it stay for the next round, under a new first. So a
    bucket of near copies costs its size, not its square.
    """
    bucket, member = _buckets(points)
    left, right = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for _ in range(_ROUNDS):
        opens = np.ones(len(bucket), bool)
        opens[1:] = bucket[1:] != bucket[:-1]
        first = member[np.maximum.accumulate(np.where(opens, np.arange(len(bucket)), 0))]
        bucket, member, first = bucket[~opens], member[~opens], first[~opens]
        if not len(bucket):
            break
        pairs, pair_of = np.unique(first * len(points) + member, return_inverse=True)  # many bands, one comparison
        a, b = np.divmod(pairs, len(points))
        alike = _agreement(points, a, b) >= threshold
        left.append(a[alike])
        right.append(b[alike])
        bucket, member = bucket[~alike[pair_of]], member[~alike[pair_of]]
    return np.concatenate(left), np.concatenate(right)


def _buckets(points: NDArray[np.uint32]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Bucket hash and row of every (row, band), [P · 21] each, sorted by bucket, then row."""
    state = np.tile(np.arange(1, _BANDS + 1, dtype=np.uint64), (len(points), 1))  # [P, 21]
    cells = points[:, : _ROWS * _BANDS].reshape(len(points), _BANDS, _ROWS)
    for cell in range(_ROWS):
        state = _mixed(state, cells[:, :, cell].astype(np.uint64))
    bucket, member = state.reshape(-1), np.repeat(np.arange(len(points), dtype=np.int64), _BANDS)
    order = np.argsort(bucket, kind="stable")
    return bucket[order], member[order]


def _agreement(points: NDArray[np.uint32], a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.float64]:
    """Share of equal cells of each pair, [pairs]."""
    parts = [
        (points[a[at : at + _PAIRS_AT_ONCE]] == points[b[at : at + _PAIRS_AT_ONCE]]).mean(axis=1)
        for at in range(0, len(a), _PAIRS_AT_ONCE)
    ]
    return np.concatenate(parts)
