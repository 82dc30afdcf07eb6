import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillfeed.errors import SettingError, SnapshotError
from skillfeed.indexes import dense


def unit(count: int, dimension: int, seed: int = 0) -> dense.Floats:
    vectors = np.random.default_rng(seed).standard_normal((count, dimension), dtype=np.float32)
    faiss.normalize_L2(vectors)
    return vectors


def clusters(count: int, dimension: int, seed: int = 0) -> dense.Floats:
    vectors = unit(50, dimension, seed)[np.arange(count) % 50] + 0.4 * unit(count, dimension, seed + 1)
    faiss.normalize_L2(vectors)
    return vectors


def opened(folder: Path, vectors: dense.Floats, kind: dense.Kind = "auto") -> dense.SearchableIndex:
    dense.write(dense.build(vectors, kind=kind, seed=0), folder / "x.faiss")
    return dense.open_index(folder / "x.faiss")


def test_the_nearest_rows_come_first_with_their_inner_products(tmp_path: Path) -> None:
    index = opened(tmp_path, np.array([[1, 0], [0, 1], [0.6, 0.8]], np.float32))
    scores, rows = dense.search(index, np.array([[1, 0]], np.float32), 3)
    assert rows.tolist() == [[0, 2, 1]]
    assert scores.tolist() == [[1.0, pytest.approx(0.6), 0.0]]


def test_beyond_the_last_row_stand_minus_one_and_minus_infinity(tmp_path: Path) -> None:
    scores, rows = dense.search(opened(tmp_path, unit(2, 4)), unit(3, 4, 1), 5)
    assert rows.shape == scores.shape == (3, 5)
    assert (rows.dtype, scores.dtype) == (np.int64, np.float32)
    assert (rows[:, 2:] == -1).all()
    assert np.isneginf(scores[:, 2:]).all()


def test_an_empty_index_finds_nothing(tmp_path: Path) -> None:
    _, rows = dense.search(opened(tmp_path, np.zeros((0, 4), np.float32)), unit(1, 4), 2)
    assert rows.tolist() == [[-1, -1]]


def test_no_queries_give_no_rows(tmp_path: Path) -> None:
    scores, rows = dense.search(opened(tmp_path, unit(3, 4)), np.zeros((0, 4), np.float32), 2)
    assert scores.shape == rows.shape == (0, 2)


@pytest.mark.parametrize("queries", [1, 30])
def test_of_many_equal_vectors_the_first_rows_are_found(tmp_path: Path, queries: int) -> None:
    vectors = unit(400, 16)
    vectors[100:300] = vectors[7]
    _, rows = dense.search(opened(tmp_path, vectors), np.repeat(vectors[7:8], queries, axis=0), 4)
    assert rows.tolist() == [[7, 100, 101, 102]] * queries


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 60), st.integers(1, 25), st.integers(1, 70), st.integers(0, 9))
def test_flat_search_equals_a_full_sort_by_score_and_row(count: int, queries: int, k: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    vectors = random.integers(-2, 3, (count, 3)).astype(np.float32)  # few values, so ties abound and products are exact
    asked = random.integers(-2, 3, (queries, 3)).astype(np.float32)
    flat = dense.build(vectors, kind="flat")
    index = dense.SearchableIndex(flat, flat, count, 3, count)
    scores, rows = dense.search(index, asked, k)
    products = asked @ vectors.T
    for query, product in enumerate(products):
        expected = sorted(range(count), key=lambda row: (-product[row], row))[:k]
        assert rows[query, : len(expected)].tolist() == expected
        assert scores[query, : len(expected)].tolist() == product[expected].tolist()


@pytest.fixture(scope="module")
def built() -> dict[str, Any]:
    """One index a kind over the same 4,000 vectors."""
    vectors = clusters(4100, 64)[:4000]
    return {kind: dense.build(vectors, kind=kind, seed=0) for kind in ("flat", "ivf_pq", "hnsw")}


@pytest.mark.parametrize("kind", ["ivf_pq", "hnsw"])
def test_approximate_kinds_find_what_flat_finds(tmp_path: Path, built: dict[str, Any], kind: str) -> None:
    rows = []
    for name in ("flat", kind):
        dense.write(built[name], tmp_path / name)
        rows.append(dense.search(dense.open_index(tmp_path / name), clusters(4100, 64)[4000:], 10)[1])
    assert np.mean([len(set(a) & set(b)) / 10 for a, b in zip(*rows, strict=True)]) >= 0.97


def test_the_tuned_search_is_stored_with_the_index(tmp_path: Path, built: dict[str, Any]) -> None:
    dense.write(built["ivf_pq"], tmp_path / "x.faiss")
    loaded = dense.open_index(tmp_path / "x.faiss").faiss_index
    assert loaded.k_factor == built["ivf_pq"].k_factor
    assert faiss.extract_index_ivf(loaded).nprobe == faiss.extract_index_ivf(built["ivf_pq"]).nprobe >= 8


@pytest.mark.parametrize(("count", "lists"), [(250_001, 2048), (1_500_000, 4096), (4000, 64)])
def test_lists_grow_with_the_root_of_the_rows(count: int, lists: int) -> None:
    assert dense.lists_for(count) == lists


def test_too_few_vectors_for_ivf_are_refused() -> None:
    with pytest.raises(SettingError, match=r"at least 640 .* use flat"):
        dense.build(unit(100, 8), kind="ivf_pq")


def test_cuda_without_a_gpu_build_is_refused(tmp_path: Path) -> None:
    dense.write(dense.build(unit(3, 4)), tmp_path / "x.faiss")
    if hasattr(faiss, "StandardGpuResources") and faiss.get_num_gpus():
        pytest.skip("this machine has a GPU and faiss-gpu")
    with pytest.raises(SettingError, match="cuda"):
        dense.open_index(tmp_path / "x.faiss", "cuda")


def test_a_file_that_is_no_index_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.faiss").write_bytes(b"not an index at all")
    with pytest.raises(SnapshotError, match=r"x\.faiss"):
        dense.open_index(tmp_path / "x.faiss")


def test_an_index_that_faiss_would_copy_is_refused(tmp_path: Path) -> None:
    dense.write(faiss.index_factory(8, "SQ8", faiss.METRIC_INNER_PRODUCT), tmp_path / "x.faiss")
    with pytest.raises(SnapshotError, match="memory-mapped"):
        dense.open_index(tmp_path / "x.faiss")


MEASURE = """
import sys, numpy as np
from pathlib import Path
from skillfeed.indexes import dense
def memory(name, path=""):
    taken, here = 0, False
    for line in open("/proc/self/smaps"):
        if "-" in line.split()[0]:
            here = line.rstrip().endswith(path)
        elif here and line.startswith(name + ":"):
            taken += int(line.split()[1])
    return taken
queries = np.random.default_rng(1).standard_normal((64, 64), dtype=np.float32)
before = memory("Anonymous")
index = dense.open_index(Path(sys.argv[1]))
opened = memory("Anonymous") - before
dense.search(index, queries, 10)
print(opened, memory("Rss", sys.argv[1]), memory("Anonymous", sys.argv[1]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("kind", ["flat", "ivf_pq", "hnsw"])
def test_the_pages_of_an_open_index_belong_to_the_file(tmp_path: Path, built: dict[str, Any], kind: str) -> None:
    path = tmp_path / "x.faiss"
    dense.write(built[kind], path)
    command = [sys.executable, "-c", MEASURE, str(path)]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    copied, mapped, mapped_and_private = map(int, done.stdout.split())
    kilobytes = os.path.getsize(path) / 1024
    assert copied < kilobytes / 2
    assert mapped > kilobytes / 4
    assert mapped_and_private == 0
