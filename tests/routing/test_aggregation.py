import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillfeed.routing.aggregation import aggregate
from skillfeed.settings import AggregationSettings

DEFAULT = AggregationSettings()


def test_a_skill_with_four_chunks_counts_its_best_three_and_their_number() -> None:
    rows, scores = aggregate(np.array([5, 5, 5, 5]), np.array([0.9, 0.6, 0.3, 0.1], np.float32), DEFAULT)

    assert rows.tolist() == [5]
    assert scores[0] == pytest.approx(0.70 * 0.9 + 0.25 * (0.9 + 0.6 + 0.3) / 3 + 0.05 * math.log(5), abs=1e-6)


def test_missing_chunks_count_as_zero_in_the_mean() -> None:
    _, scores = aggregate(np.array([1]), np.array([0.6], np.float32), DEFAULT)

    assert scores[0] == pytest.approx(0.70 * 0.6 + 0.25 * 0.6 / 3 + 0.05 * math.log(2), abs=1e-6)


def test_skills_come_by_score_and_ties_by_row() -> None:
    rows, _ = aggregate(np.array([8, 2, 4]), np.array([0.5, 0.5, 0.9], np.float32), DEFAULT)

    assert rows.tolist() == [4, 2, 8]


def test_no_chunks_are_no_skills() -> None:
    rows, scores = aggregate(np.empty(0, np.int64), np.empty(0, np.float32), DEFAULT)

    assert len(rows) == len(scores) == 0


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(-1, 1, width=32)), min_size=1, max_size=40))
def test_aggregation_is_the_formula_written_out(chunks: list[tuple[int, float]]) -> None:
    expected = {}
    for skill in {skill for skill, _ in chunks}:
        own = sorted((score for owner, score in chunks if owner == skill), reverse=True)
        expected[skill] = 0.70 * own[0] + 0.25 * sum(own[:3]) / 3 + 0.05 * math.log(1 + len(own))

    rows, scores = aggregate(
        np.array([skill for skill, _ in chunks]), np.array([score for _, score in chunks], np.float32), DEFAULT
    )

    assert dict(zip(rows.tolist(), scores.tolist(), strict=True)) == pytest.approx(expected, abs=1e-6)
    assert scores.tolist() == sorted(scores.tolist(), reverse=True)
