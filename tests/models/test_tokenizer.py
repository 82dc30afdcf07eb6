from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from skillfeed.errors import SettingError
from skillfeed.models.tokenizer import load_tokenizer


def test_a_loaded_tokenizer_neither_cuts_nor_pads(tmp_path: Path) -> None:
    tokenizer = Tokenizer(models.WordLevel({"?": 0, "a": 1}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=8)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    encodings = load_tokenizer(tmp_path).encode_batch(["a a a", "a"])
    assert [len(encoding) for encoding in encodings] == [3, 1]


def test_a_directory_without_a_tokenizer_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"tokenizer\.json: missing"):
        load_tokenizer(tmp_path)


def test_a_file_that_is_no_tokenizer_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(SettingError, match=r"tokenizer\.json: not a tokenizer"):
        load_tokenizer(tmp_path)
