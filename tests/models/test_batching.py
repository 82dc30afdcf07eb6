import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from skillfeed.models.batching import distinct, head, one_by_one, pad, token_budget_batches

LENGTHS = st.lists(st.integers(0, 600), max_size=200)
BUDGETS = st.integers(1, 3000)


@given(LENGTHS, BUDGETS)
def test_every_text_is_in_exactly_one_batch(lengths, budget):
    batches = token_budget_batches(lengths, budget)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))


@given(LENGTHS, BUDGETS)
def test_a_padded_batch_keeps_to_the_budget_unless_one_text_alone_exceeds_it(lengths, budget):
    for batch in token_budget_batches(lengths, budget):
        assert len(batch) == 1 or len(batch) * max(lengths[index] for index in batch) <= budget


@given(LENGTHS, BUDGETS)
def test_the_longest_come_first_and_a_batch_is_as_full_as_it_can_be(lengths, budget):
    batches = token_budget_batches(lengths, budget)
    flat = [max(1, lengths[index]) for batch in batches for index in batch]
    assert flat == sorted(flat, reverse=True)
    for batch in batches[:-1]:
        assert (len(batch) + 1) * max(1, lengths[batch[0]]) > budget


def test_equal_lengths_keep_their_order():
    assert [list(batch) for batch in token_budget_batches([3, 5, 3, 5], 10)] == [[1, 3], [0, 2]]


def test_no_texts_make_no_batches():
    assert token_budget_batches([], 100) == []


def test_one_by_one_gives_each_text_a_batch_of_its_own():
    assert [list(batch) for batch in one_by_one([7, 7])] == [[0], [1]]


def test_rows_are_padded_on_the_side_asked_for():
    right, mask = pad([[4, 5], [6]], 0, "right")
    assert right.tolist() == [[4, 5], [6, 0]]
    assert mask.tolist() == [[1, 1], [1, 0]]
    left, mask = pad([[4, 5], [6]], 9, "left")
    assert left.tolist() == [[4, 5], [9, 6]]
    assert mask.tolist() == [[1, 1], [0, 1]]


@given(st.lists(st.sampled_from(["a", "b", "c"])))
def test_distinct_texts_give_back_the_given_ones(texts):
    unique, inverse = distinct(texts)
    assert len(set(unique)) == len(unique)
    assert list(np.array(unique, dtype=object)[inverse]) == texts


def test_a_long_text_loses_only_what_no_token_of_the_first_ones_can_reach():
    assert head("x" * 1000, 10) == "x" * 160
