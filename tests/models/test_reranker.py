from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from skillfeed.errors import SettingError
from skillfeed.models.pair_tokens import PairLayout, pair_layout, pair_tokens
from skillfeed.models.reranker import load_reranker
from skillfeed.models.tokenizer import load_tokenizer
from skillfeed.models.weights import resolve
from skillfeed.settings import RerankerSettings, WeightsSettings, load_models

PAIRS = [("plan", "a trip to rome"), ("b", "c"), ("plan", "split a bill"), ("b", "c"), ("plan", "x " * 60), ("", "")]
LAYOUT = PairLayout(before=(2,), between=(3,), after=(3,), type_ids=(0, 0, 0, 1, 1))


def settings(directory, **changed) -> RerankerSettings:
    given = {"kind": "cross_encoder", "max_tokens": 24, "max_query_tokens": 6, "tokens_per_batch": 50} | changed
    return RerankerSettings(weights=WeightsSettings(path=str(directory)), **given)


@pytest.fixture(scope="session")
def reranker(tiny_cross_encoder):
    return load_reranker(settings(tiny_cross_encoder), threads=1)


@pytest.fixture(scope="session")
def local():
    shipped = load_models("local").reranker
    assert shipped is not None
    try:
        resolve(shipped.weights)
    except SettingError as missing:
        pytest.skip(str(missing))
    return shipped


def test_the_layout_of_a_pair_is_read_off_the_tokenizer(letter_tokenizer):
    assert pair_layout(letter_tokenizer) == LAYOUT


@given(st.text("ab ", max_size=30), st.text("cd ", max_size=60))
def test_pairs_are_laid_out_as_the_tokenizer_does_it_when_nothing_is_cut(letter_tokenizer, query, document):
    (pair,) = pair_tokens(letter_tokenizer, LAYOUT, [(query, document)], max_tokens=200, max_query_tokens=100)
    whole = letter_tokenizer.encode(query, document)
    assert pair == (whole.ids, whole.type_ids)


def test_a_long_query_is_cut_to_its_own_limit_and_the_document_to_what_is_left(letter_tokenizer):
    ((ids, types),) = pair_tokens(letter_tokenizer, LAYOUT, [("a" * 40, "b" * 40)], max_tokens=10, max_query_tokens=3)
    words = [letter_tokenizer.id_to_token(token) for token in ids]
    assert words == ["[CLS]", "a", "##a", "##a", "[SEP]", "b", "##b", "##b", "##b", "[SEP]"]
    assert types == [0] * 5 + [1] * 5


def test_scores_are_those_of_the_plain_model_in_the_given_order(reranker, tiny_cross_encoder):
    model = AutoModelForSequenceClassification.from_pretrained(tiny_cross_encoder).eval()
    tokenizer = AutoTokenizer.from_pretrained(tiny_cross_encoder)
    cut = {"truncation": "only_second", "max_length": 24, "return_token_type_ids": True, "return_tensors": "pt"}
    with torch.inference_mode():
        plain = [model(**tokenizer([query], [document], **cut)).logits.item() for query, document in PAIRS]
    scores = reranker.score(PAIRS)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, plain, atol=1e-4)


def test_a_cross_encoders_score_does_not_depend_on_its_batch(reranker):
    alone = np.concatenate([reranker.score([pair]) for pair in PAIRS])
    np.testing.assert_allclose(reranker.score(PAIRS), alone, atol=1e-4)


def test_no_pairs_give_no_scores(reranker):
    assert reranker.score([]).shape == (0,)


def test_a_model_with_two_logits_is_no_reranker(two_logit_classifier):
    with pytest.raises(SettingError, match="needs one for each pair"):
        load_reranker(settings(two_logit_classifier), threads=1).score(PAIRS)


def test_a_query_limit_that_leaves_the_document_no_room_is_a_setting_error(tiny_cross_encoder):
    with pytest.raises(SettingError, match="leaves the document no room"):
        load_reranker(settings(tiny_cross_encoder, max_query_tokens=21))


def test_a_transformers_checkpoint_asked_for_as_onnx_is_a_setting_error(tiny_cross_encoder):
    with pytest.raises(SettingError, match="set backend: torch"):
        load_reranker(settings(tiny_cross_encoder, backend="onnx"))


def test_the_local_reranker_prefers_the_skill_that_fits(local):
    query = "Task name: Trip\nTask description: Plan a cheap weekend trip to Shanghai for a student"
    fits, other = load_reranker(local).score(
        [
            (query, "Skill name: budget-travel\nSkill description: Plans low-cost city trips for students"),
            (query, "Skill name: sql-query-explainer\nSkill description: Explains SQL queries"),
        ]
    )
    assert fits > other + 1


def test_the_local_rerankers_score_does_not_depend_on_its_batch(local):
    reranker = load_reranker(local)
    alone = np.concatenate([reranker.score([pair]) for pair in PAIRS])
    np.testing.assert_array_equal(reranker.score(PAIRS), alone)


def test_a_quantized_graph_declared_as_float32_is_a_setting_error(local):
    with pytest.raises(SettingError, match="is int8, the settings say float32"):
        load_reranker(local.model_copy(update={"dtype": "float32"}))


def test_the_local_layout_is_berts(local):
    tokenizer = load_tokenizer(resolve(local.weights))
    assert pair_layout(tokenizer) == replace(LAYOUT, before=(101,), between=(102,), after=(102,))
