import numpy as np
import pytest
import torch
from model2vec import StaticModel
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding

from skillfeed.errors import SettingError
from skillfeed.models.onnx_export import exported
from skillfeed.models.retriever import load_retriever
from skillfeed.models.weights import resolve, weights_hash
from skillfeed.settings import RetrieverSettings, WeightsSettings, load_models

TEXTS = ["plan a trip", "b", "a long walk to the far end of it", "", "b", "split the bill 42", "zz top"]


def settings(directory, backend="torch", **changed) -> RetrieverSettings:
    given = {"max_tokens": 20, "tokens_per_batch": 48, "query_template": "{query}"} | changed
    return RetrieverSettings(weights=WeightsSettings(path=str(directory)), backend=backend, **given)


@pytest.fixture(scope="session")
def torch_retriever(tiny_bert):
    return load_retriever(settings(tiny_bert), threads=1)


def plain_encode(directory, texts):
    model = SentenceTransformer(str(directory), device="cpu")
    model.max_seq_length = 20
    return model.encode(texts, normalize_embeddings=True)


def test_torch_vectors_are_those_of_sentence_transformers_in_the_given_order(torch_retriever, tiny_bert):
    vectors = torch_retriever.encode_documents(TEXTS)
    assert vectors.shape == (len(TEXTS), torch_retriever.dimension)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, plain_encode(tiny_bert, TEXTS), atol=1e-5)


def test_onnx_vectors_are_those_of_sentence_transformers(tiny_bert):
    vectors = load_retriever(settings(tiny_bert, "onnx"), threads=1).encode_documents(TEXTS)
    np.testing.assert_allclose(vectors, plain_encode(tiny_bert, TEXTS), atol=1e-5)


def test_int8_vectors_do_not_depend_on_their_batch_and_stay_near_float32(tiny_bert):
    retriever = load_retriever(settings(tiny_bert, "onnx", dtype="int8"), threads=1)
    together = retriever.encode_documents(TEXTS)
    alone = np.concatenate([retriever.encode_documents([text]) for text in TEXTS])
    np.testing.assert_array_equal(together, alone)
    assert (together * plain_encode(tiny_bert, TEXTS)).sum(axis=1).min() > 0.95


def test_bfloat16_vectors_are_float32_of_length_one(tiny_bert, torch_retriever):
    vectors = load_retriever(settings(tiny_bert, dtype="bfloat16"), threads=1).encode_documents(TEXTS)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert (vectors * torch_retriever.encode_documents(TEXTS)).sum(axis=1).min() > 0.99


def test_no_texts_give_no_rows(torch_retriever):
    assert torch_retriever.encode_documents([]).shape == (0, torch_retriever.dimension)


def test_equal_texts_are_computed_once(torch_retriever):
    before = torch_retriever.tokens_seen
    vectors = torch_retriever.encode_documents(["abc"] * 5)
    assert torch_retriever.tokens_seen - before == 5  # [CLS] a ##b ##c [SEP]
    assert (vectors == vectors[0]).all()


def test_long_texts_are_cut_at_max_tokens(torch_retriever):
    before = torch_retriever.tokens_seen
    long, cut = torch_retriever.encode_documents(["a" * 50, "a" * 18])
    assert torch_retriever.tokens_seen - before == 40
    np.testing.assert_allclose(long, cut, atol=1e-6)


def test_queries_are_read_through_the_template_with_the_instruction(tiny_bert):
    retriever = load_retriever(
        settings(tiny_bert, query_template="{instruction}: {query}", instruction="find"), threads=1
    )
    query, document = retriever.encode_queries(["a {b}"]), retriever.encode_documents(["find: a {b}"])
    np.testing.assert_allclose(query, document, atol=1e-6)


def test_more_tokens_than_positions_is_a_setting_error(tiny_bert):
    with pytest.raises(SettingError, match="65 is beyond the 64 positions"):
        load_retriever(settings(tiny_bert, max_tokens=65))


def test_a_graph_is_exported_once(tiny_bert):
    load_retriever(settings(tiny_bert, "onnx"), threads=1)
    cannot_be_exported = torch.nn.Identity()
    assert exported(cannot_be_exported, weights_hash(tiny_bert), "float32").is_file()


def test_static_vectors_are_those_of_sentence_transformers(tmp_path, letter_tokenizer):
    table = np.random.default_rng(0).normal(size=(letter_tokenizer.get_vocab_size(), 8)).astype(np.float16)
    StaticModel(table, letter_tokenizer, normalize=True).save_pretrained(tmp_path)
    retriever = load_retriever(settings(tmp_path, "static", max_tokens=512), threads=1)
    plain = SentenceTransformer(modules=[StaticEmbedding.load(str(tmp_path)).float()], device="cpu")
    vectors = retriever.encode_documents(TEXTS)
    np.testing.assert_allclose(vectors, plain.encode(TEXTS, normalize_embeddings=True), atol=1e-5)
    assert retriever.dimension == 8
    assert not vectors[TEXTS.index("")].any()


def test_the_local_retriever_is_minilm_itself():
    local = load_models("local").retriever
    try:
        directory = resolve(local.weights.model_copy(update={"hub": None}))
    except SettingError as missing:
        pytest.skip(str(missing))
    texts = ["Book a table for two in Lyon", "预订两人的餐厅", "Réserver une table " * 200]
    vectors = load_retriever(local).encode_documents(texts)
    plain = SentenceTransformer(str(directory), device="cpu").encode(texts, normalize_embeddings=True)
    assert (vectors * plain).sum(axis=1).min() > 0.9999
