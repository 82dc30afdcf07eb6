import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillfeed.routing.fusion import fuse


def rows(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def test_a_skill_gets_weight_over_k_plus_rank_from_each_list_it_stands_in() -> None:
    found, scores = fuse({"a": rows(7, 3), "b": rows(3)}, {"a": 0.4, "b": 0.2}, k=60)

    assert found.tolist() == [3, 7]
    assert scores.tolist() == pytest.approx([0.4 / 62 + 0.2 / 61, 0.4 / 61])


def test_ties_break_by_row() -> None:
    found, _ = fuse({"a": rows(9), "b": rows(2)}, {"a": 0.5, "b": 0.5})

    assert found.tolist() == [2, 9]


def test_a_ranking_without_a_weight_is_an_error() -> None:
    with pytest.raises(KeyError):
        fuse({"a": rows(1)}, {})


def test_nothing_recalled_is_nothing_fused() -> None:
    found, scores = fuse({"a": rows()}, {"a": 1.0})

    assert len(found) == len(scores) == 0


rankings = st.dictionaries(
    st.sampled_from(["task_dense", "bm25", "profile_chunk_dense"]),
    st.lists(st.integers(0, 30), unique=True, max_size=15),
    min_size=1,
)


@given(rankings, st.integers(1, 100))
def test_fusion_is_the_sum_written_out(lists: dict[str, list[int]], k: int) -> None:
    weights = {"task_dense": 0.4, "bm25": 0.2, "profile_chunk_dense": 0.4}
    expected: dict[int, float] = {}
    for channel, ranking in lists.items():
        for rank, row in enumerate(ranking, start=1):
            expected[row] = expected.get(row, 0.0) + weights[channel] / (k + rank)

    found, scores = fuse({channel: rows(*ranking) for channel, ranking in lists.items()}, weights, k)

    assert dict(zip(found.tolist(), scores.tolist(), strict=True)) == pytest.approx(expected)
    assert scores.tolist() == sorted(scores.tolist(), reverse=True)


@given(rankings)
def test_the_order_of_channels_does_not_matter(lists: dict[str, list[int]]) -> None:
    weights = {"task_dense": 0.4, "bm25": 0.2, "profile_chunk_dense": 0.4}
    arrays = {channel: rows(*ranking) for channel, ranking in lists.items()}

    forward, backward = fuse(arrays, weights), fuse(dict(reversed(arrays.items())), weights)

    assert forward[0].tolist() == backward[0].tolist()
    assert forward[1].tolist() == backward[1].tolist()
