import numpy as np
import pytest
import torch
from transformers import Qwen3ForCausalLM

from skillfeed.errors import SettingError
from skillfeed.models.generative import GenerativeReranker
from skillfeed.models.reranker import load_reranker
from skillfeed.settings import RerankerSettings, WeightsSettings

PAIRS = [("plan a trip", "a budget planner " * 12), ("x", "y"), ("plan a trip", "sql " * 300), ("x", "y"), ("", "")]


def settings(directory, **changed) -> RerankerSettings:
    given = {"max_tokens": 200, "max_query_tokens": 32, "tokens_per_batch": 1000, "instruction": "Judge."} | changed
    return RerankerSettings(weights=WeightsSettings(path=str(directory)), kind="generative", **given)


@pytest.fixture(scope="session")
def reranker(tiny_qwen3) -> GenerativeReranker:
    loaded = load_reranker(settings(tiny_qwen3), threads=1)
    assert isinstance(loaded, GenerativeReranker)
    return loaded


def test_the_score_is_the_logit_of_yes_at_the_last_position(reranker, tiny_qwen3):
    model = Qwen3ForCausalLM.from_pretrained(tiny_qwen3).eval()
    rows = reranker.template.input_ids(PAIRS)
    with torch.inference_mode():
        plain = [model(input_ids=torch.tensor([row])).logits[0, -1, 9693].item() for row in rows]
    assert np.ptp(plain) > 0.1
    np.testing.assert_allclose(reranker.score(PAIRS), plain, atol=1e-4)


def test_a_generative_score_does_not_depend_on_its_batch(reranker):
    alone = np.concatenate([reranker.score([pair]) for pair in PAIRS])
    np.testing.assert_allclose(reranker.score(PAIRS), alone, atol=1e-4)


def test_left_padding_does_not_change_a_score(reranker):
    (row,) = reranker.template.input_ids([PAIRS[1]])
    (longer,) = reranker.template.input_ids([PAIRS[2]])
    padded, _ = reranker.yes_logits([row, longer])
    (bare,) = reranker.yes_logits([row])
    assert padded == pytest.approx(bare, abs=1e-4)


def test_the_order_of_pairs_is_the_order_of_scores(reranker):
    np.testing.assert_allclose(reranker.score(PAIRS[::-1]), reranker.score(PAIRS)[::-1], atol=1e-4)


def test_bfloat16_scores_stay_near_float32(reranker, tiny_qwen3):
    rough = load_reranker(settings(tiny_qwen3, dtype="bfloat16"), threads=1).score(PAIRS)
    assert rough.dtype == np.float32
    np.testing.assert_allclose(rough, reranker.score(PAIRS), atol=0.3)


def test_a_generative_reranker_on_onnx_is_a_setting_error(tiny_qwen3):
    with pytest.raises(SettingError, match="runs on torch"):
        load_reranker(settings(tiny_qwen3, backend="onnx"))
