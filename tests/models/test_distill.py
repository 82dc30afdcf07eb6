import json

import numpy as np
import pytest

from skillfeed.models.distill import distill_static
from skillfeed.models.retriever import load_retriever
from skillfeed.models.weights import fingerprint
from skillfeed.settings import RetrieverSettings, WeightsSettings

pytest.importorskip("model2vec.distill", reason="distilling needs the extra `static`", exc_type=ImportError)


@pytest.fixture(scope="module")
def distilled(tiny_bert, tmp_path_factory):
    source = RetrieverSettings(weights=WeightsSettings(path=str(tiny_bert)), backend="torch")
    output = tmp_path_factory.mktemp("distilled") / "static"
    return source, distill_static(source, output)


def test_a_distilled_model_loads_as_a_static_retriever(distilled):
    _, made = distilled
    retriever = load_retriever(RetrieverSettings(weights=WeightsSettings(path=str(made.path)), backend="static"))
    assert retriever.dimension == made.dimension
    np.testing.assert_allclose(np.linalg.norm(retriever.encode_documents(["plan a trip"])), 1, atol=1e-5)


def test_distilling_again_replaces_the_model_by_an_equal_one(distilled):
    source, made = distilled
    settings = RetrieverSettings(weights=WeightsSettings(path=str(made.path)), backend="static")
    before = fingerprint(settings, made.path)
    assert distill_static(source, made.path) == made
    assert fingerprint(settings, made.path) == before
    assert [path.name for path in made.path.parent.iterdir()] == ["static"]


def test_a_distilled_model_does_not_say_where_its_source_lay(distilled, tiny_bert):
    _, made = distilled
    assert json.loads((made.path / "config.json").read_text())["tokenizer_name"] == tiny_bert.name
