import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillfeed.corpus.duplicates import near_duplicates, signatures


def words(first: int, last: int) -> str:
    return " ".join(f"w{number}" for number in range(first, last))


def jaccard(a: str, b: str) -> float:
    left, right = ({tuple(text.split()[at : at + 5]) for at in range(len(text.split()) - 4)} for text in (a, b))
    return len(left & right) / len(left | right)


def test_signatures_are_128_cells_and_the_same_on_every_run() -> None:
    found = signatures(["one two three four five six"])
    assert found.shape == (1, 128)
    assert found.dtype == np.uint32
    assert found[0, :3].tolist() == [642266205, 193242797, 708926532]


@pytest.mark.parametrize(("shared", "total"), [(900, 1000), (700, 1000), (400, 1000)])
def test_equal_cells_estimate_the_jaccard_index_of_word_shingles(shared: int, total: int) -> None:
    a, b = words(0, total), words(total - shared, 2 * total - shared)
    left, right = signatures([a, b])
    assert abs(float((left == right).mean()) - jaccard(a, b)) < 0.12  # 3 standard errors of 128 cells


def test_case_punctuation_and_layout_do_not_count() -> None:
    left, right = signatures(["# One, two\nTHREE four. Five", "one two three four five"])
    assert (left == right).all()


def test_chinese_bodies_are_compared_by_characters() -> None:
    text = "".join(chr(0x4E00 + number) for number in range(400))
    a, b, c = signatures([text, text[:390] + "改了一点点", text[::-1]])
    assert (a == b).mean() > 0.85
    assert (a == c).mean() < 0.1


def test_short_bodies_are_alike_only_when_their_words_are_equal() -> None:
    found = signatures(["hello world", "Hello, world!", "hello there", "hello"])
    assert near_duplicates(["a", "b", "c", "d"], found) == {"b": "a"}


def test_bodies_without_words_are_like_no_other() -> None:
    assert near_duplicates(["a", "b", "c"], signatures(["", "---", "***"])) == {}


def test_every_later_member_names_the_first_of_its_group() -> None:
    bodies = {"d": words(0, 500), "b": words(5, 505), "c": words(1000, 1500), "a": words(1005, 1505), "e": "x"}
    assert near_duplicates(list(bodies), signatures(list(bodies.values()))) == {"d": "b", "c": "a"}


def test_a_lower_threshold_links_more() -> None:
    found = signatures([words(0, 1000), words(200, 1200)])  # Jaccard 0.66
    assert near_duplicates(["a", "b"], found, threshold=0.8) == {}
    assert near_duplicates(["a", "b"], found, threshold=0.5) == {"b": "a"}


def test_no_skills_have_no_duplicates() -> None:
    assert near_duplicates([], signatures([])) == {}


def test_signatures_of_other_skills_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expected \(2, 128\)"):
        near_duplicates(["a", "b"], signatures(["one body"]))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 60)), min_size=1, max_size=30), st.randoms())
def test_the_order_of_the_input_does_not_matter(places, random) -> None:
    rows = signatures([words(1000 * family + shift, 1000 * family + shift + 300) for family, shift in places])
    ids = [f"{number:03d}" for number in range(len(places))]
    expected = near_duplicates(ids, rows)
    order = list(range(len(places)))
    random.shuffle(order)
    assert near_duplicates([ids[at] for at in order], rows[order]) == expected
    assert all(first < later and first not in expected for later, first in expected.items())


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 200), min_size=1, max_size=30))
def test_every_link_of_the_plain_comparison_is_found_within_a_group(shifts) -> None:
    rows = signatures([words(shift, shift + 300) for shift in shifts])
    ids = [f"{number:03d}" for number in range(len(shifts))]
    first = near_duplicates(ids, rows)
    alike = (rows[:, None] == rows[None]).mean(axis=2) >= 0.95  # [N, N]; at 0.95 a shared band is certain enough
    for a, b in np.argwhere(alike):
        assert first.get(ids[a], ids[a]) == first.get(ids[b], ids[b])


@pytest.mark.parametrize("cells_changed", [0, 10])
def test_5000_copies_of_a_body_cost_their_number_not_its_square(cells_changed: int) -> None:
    generator = np.random.default_rng(0)
    rows = np.tile(signatures([words(0, 500)]), (5000, 1))
    for row in rows:
        row[generator.choice(128, cells_changed, replace=False)] = generator.integers(0, 2**32 - 1, cells_changed)
    ids = [f"{number:05d}" for number in range(5000)]
    started = time.process_time()
    found = near_duplicates(ids, rows)
    assert time.process_time() - started < 3  # 0.1 and 0.6 s, where all pairs would take minutes
    assert len(found) == 4999
