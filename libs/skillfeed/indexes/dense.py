"""Nearest vectors by inner product, by FAISS: exact up to 250,000 rows, IVF-PQ with an exact last step above.

Row i of an index is vector i. An index on disk is memory-mapped, so the processes of a node share its pages.
Exact search of 64 queries over 60 k x 256 on 2 AVX-512 threads takes 58 ms at k = 100 and 60 ms at k = 300; NumPy's
matrix product with argpartition over the same mapped vectors takes 19-21 and 23-27 ms. FAISS stays: one code path for
all kinds, and the loss is 2.2-3.1 x where the router searches.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import faiss
import numpy as np
import numpy.typing as npt

from skillfeed.errors import SettingError, SnapshotError

Kind = Literal["auto", "flat", "ivf_pq", "hnsw"]
Floats = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]

_swig: Any = faiss  # for what its stubs leave out

FLAT_ROWS = 250_000
MIN_IVF_ROWS = 640  # FAISS wants 39 training points for each of the 16 centroids of a 4-bit quantizer
TRAINING_ROWS_PER_LIST = 40  # FAISS warns below 39
TUNING_QUERIES = 256
TARGET_RECALL = 0.99  # recall@10
MOST_FOUND_ON_GPU = 2048  # FAISS's own limit
SCORE_TOLERANCE = 1e-6  # a neighbour counts as found when an equal one is


@dataclass(frozen=True)
class SearchableIndex:
    """An index ready to search: `rows` vectors of `dimension` floats, at most `most_found` of them an answer."""

    faiss_index: Any
    stored: Any  # the mapped flat index that holds the vectors, also where the search runs on a GPU
    rows: int
    dimension: int
    most_found: int


def build(vectors: Floats, *, kind: Kind = "auto", seed: int = 0) -> Any:
    """A FAISS inner-product index over vectors [N, D] float32, L2-normalised.

    `ivf_pq` and `hnsw` are set, and stored, to the cheapest search that reaches recall@10 .99 for a sample of the
    vectors themselves; queries unlike the vectors can fare worse.

    Raises:
        ValueError: not a float32 matrix.
        SettingError: the kind cannot hold these vectors, or misses the recall.
    """
    if vectors.ndim != 2 or vectors.dtype != np.float32:
        raise ValueError(f"vectors: expected [N, D] float32, got {vectors.shape} {vectors.dtype}")
    if kind == "auto":
        kind = "flat" if len(vectors) <= FLAT_ROWS else "ivf_pq"
    vectors = np.ascontiguousarray(vectors)
    if kind == "flat":
        index = faiss.IndexFlatIP(vectors.shape[1])
        index.add(vectors)
        return index
    return _build_ivf_pq(vectors, seed) if kind == "ivf_pq" else _build_hnsw(vectors, seed)


def write(index: Any, path: Path) -> None:
    faiss.write_index(index, str(path))


def open_index(path: Path, device: Literal["cpu", "cuda"] = "cpu") -> SearchableIndex:
    """A memory-mapped index or, on `cuda`, an exact one over the same vectors in GPU memory.

    Raises:
        SnapshotError: the file is not an index, or FAISS would copy it instead of mapping it.
        SettingError: `cuda` without a GPU build of FAISS or without a GPU.
    """
    try:
        index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1]
        raise SnapshotError(f"{path}: not a readable FAISS index: {reason}; build it again") from error
    stored = _stored_vectors(index)
    if stored is None or (index.ntotal and stored.codes.is_owned):
        raise SnapshotError(f"{path}: this kind of FAISS index is copied, not memory-mapped; build it with skillfeed")
    if stored is not index:
        stored.referenced_objects = [index]  # `stored` is a part of it, and crashes when it is freed first
    rows, dimension = int(index.ntotal), int(index.d)
    if device == "cuda":
        return SearchableIndex(_on_gpu(stored), stored, rows, dimension, min(rows, MOST_FOUND_ON_GPU))
    return SearchableIndex(index, stored, rows, dimension, rows)


def search(index: SearchableIndex, queries: Floats, k: int) -> tuple[Floats, Rows]:
    """The k nearest rows of each query [Q, D] float32: scores [Q, k] float32 descending, rows [Q, k] int64.

    Equal scores go by row, also where the k-th and the next are equal. Where fewer than k rows are found the
    score is -inf and the row -1.

    Raises:
        ValueError: queries of another shape or dtype, k < 1, or k > 2,048 on a GPU.
    """
    if index.most_found < min(k, index.rows):
        raise ValueError(f"k = {k}: this device finds at most {index.most_found}")
    if queries.ndim != 2 or queries.shape[1] != index.dimension or queries.dtype != np.float32 or k < 1:
        wanted = f"[Q, {index.dimension}] float32 and k >= 1"
        raise ValueError(f"queries: expected {wanted}, got {queries.shape} {queries.dtype} and k = {k}")
    scores = np.full((len(queries), k), -np.inf, np.float32)
    rows = np.full((len(queries), k), -1, np.int64)
    pending = np.arange(len(queries))
    fetch = k + 1  # one more shows whether a tie crosses the end: FAISS keeps the highest rows of a tie
    while len(pending) and index.rows:
        fetch = min(fetch, index.most_found)
        asked = np.ascontiguousarray(queries[pending])
        found_scores, found_rows = index.faiss_index.search(asked, fetch, params=_parameters(index.faiss_index, fetch))
        found_scores[found_rows < 0] = -np.inf
        order = np.lexsort((found_rows, -found_scores))
        best = order[:, :k]
        scores[pending, : best.shape[1]] = np.take_along_axis(found_scores, best, axis=1)
        rows[pending, : best.shape[1]] = np.take_along_axis(found_rows, best, axis=1)
        if fetch == index.most_found:
            break
        last = np.take_along_axis(found_scores, order[:, -1:], axis=1)[:, 0]
        pending = pending[(last == scores[pending, k - 1]) & np.isfinite(last)]
        fetch *= 2
    return scores, rows


def vectors_of(index: SearchableIndex, rows: Rows) -> Floats:
    """The vectors [N, D] float32 of rows [N], as they were given to `build`."""
    return np.asarray(index.stored.reconstruct_batch(np.ascontiguousarray(rows)), np.float32)


def _parameters(index: Any, k: int) -> Any:
    """How many rows to refine: `k_factor` is tuned for 10, and 10 a row do for more (recall@100 and @300 .996)."""
    if not isinstance(index, faiss.IndexRefineFlat):
        return None
    return _swig.IndexRefineSearchParameters(k_factor=max(10 * index.k_factor / k, min(index.k_factor, 10.0)))


def _build_ivf_pq(vectors: Floats, seed: int) -> Any:
    count, dimension = vectors.shape
    if count < MIN_IVF_ROWS or dimension % 2:
        needed = f"at least {MIN_IVF_ROWS} vectors of an even dimension"
        raise SettingError(f"index kind ivf_pq: needs {needed}, got {count} of {dimension}; use flat")
    lists = lists_for(count)
    # 4 bits for 2 dimensions (fast scan) after a random rotation; the refining step is exact. On 60 k real passages of
    # 256 dimensions, all lists, 110 rows refined: recall@10 .99; 4 dimensions .86, and .77 of 176 without rotation,
    # because distilled vectors keep their variance in the first dimensions.
    name = f"RR{dimension},IVF{lists},PQ{dimension // 2}x4fs,RFlat"
    index = faiss.index_factory(dimension, name, faiss.METRIC_INNER_PRODUCT)
    inverted: Any = faiss.downcast_index(faiss.extract_index_ivf(index))
    inverted.cp.seed = inverted.pq.cp.seed = seed
    random = np.random.default_rng(seed)
    sample = np.sort(random.choice(count, min(count, TRAINING_ROWS_PER_LIST * lists), replace=False))
    index.train(vectors[sample])
    index.add(vectors)
    _tune_ivf_pq(index, inverted, _Truth.of(vectors, sample, random))
    return index


def lists_for(count: int) -> int:
    """Inverted lists for that many vectors: the power of two nearest to 4·sqrt(N), with 40 vectors a list at least."""
    wanted = 2 ** round(math.log2(4 * math.sqrt(count)))
    return int(min(wanted, 2 ** math.floor(math.log2(count / TRAINING_ROWS_PER_LIST))))


def _build_hnsw(vectors: Floats, seed: int) -> Any:
    index: Any = faiss.IndexHNSWFlat(vectors.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.rng = _swig.RandomGenerator(seed)
    index.hnsw.efConstruction = 80
    index.add(vectors)
    if not len(vectors):
        return index
    random = np.random.default_rng(seed)
    truth = _Truth.of(vectors, np.arange(len(vectors)), random)
    for breadth in (32, 64, 128, 256, 512, 1024):
        index.hnsw.efSearch = breadth
        if (recall := truth.recall(index)) >= TARGET_RECALL:
            return index
    raise SettingError(f"index kind hnsw: recall@10 is {recall:.3f} at efSearch {breadth}; use flat or ivf_pq")


@dataclass(frozen=True)
class _Truth:
    """Sample vectors as queries, and the score of the 10th true neighbour of each, itself left out."""

    queries: Floats  # [T, D]
    tenth: Floats  # [T]
    neighbours: int

    @classmethod
    def of(cls, vectors: Floats, sample: Rows, random: np.random.Generator) -> "_Truth":
        chosen = random.choice(sample, min(TUNING_QUERIES, len(sample)), replace=False)
        neighbours = min(10, len(vectors) - 1)
        scores, _ = faiss.knn(vectors[chosen], vectors, neighbours + 1, metric=faiss.METRIC_INNER_PRODUCT)
        return cls(vectors[chosen], scores[:, -1], neighbours)

    def recall(self, index: Any) -> float:
        if not self.neighbours:
            return 1.0
        scores, _ = index.search(self.queries, self.neighbours + 1)
        found = (scores >= self.tenth[:, None] - SCORE_TOLERANCE).sum(axis=1) - 1  # the query finds itself
        return float(np.clip(found, 0, None).mean() / self.neighbours)


def _tune_ivf_pq(index: Any, inverted: Any, truth: _Truth) -> None:
    """Sets the fewest lists, then the fewest refined rows, that reach the recall. The lists leave it a margin."""
    probes = [2**power for power in range(3, 13) if 2**power < inverted.nlist] + [inverted.nlist]
    index.k_factor = 64
    for probe in probes:
        inverted.nprobe = probe
        if (recall := truth.recall(index)) >= TARGET_RECALL + 0.003:
            break
    else:
        raise SettingError(f"index kind ivf_pq: recall@10 is {recall:.3f} over all lists; use flat or hnsw")
    for factor in (4, 8, 16, 32, 64):
        index.k_factor = factor
        if truth.recall(index) >= TARGET_RECALL:
            return


def _stored_vectors(index: Any) -> Any:
    """The flat index that holds the float vectors of one of our kinds; None for another kind."""
    if isinstance(index, faiss.IndexRefineFlat):
        return faiss.downcast_index(index.refine_index)
    if isinstance(index, faiss.IndexHNSWFlat):
        return faiss.downcast_index(index.storage)
    return index if isinstance(index, faiss.IndexFlat) else None


def _on_gpu(stored: Any) -> Any:
    """Exact search: 1.5 M x 384 floats are 2.3 GB, and fast-scan PQ has no GPU form."""
    if not hasattr(faiss, "StandardGpuResources"):
        raise SettingError("device cuda: this FAISS has no GPU part; install faiss-gpu in place of faiss-cpu")
    if not faiss.get_num_gpus():
        raise SettingError("device cuda: FAISS sees no GPU; use device cpu or a node with one")
    return faiss.index_cpu_to_gpus_list(stored, gpus=[0])
