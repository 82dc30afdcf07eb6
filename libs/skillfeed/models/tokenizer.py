"""Loads a model's own tokenizer from its directory, set to neither cut nor pad: counts are true counts."""

from pathlib import Path

from tokenizers import Tokenizer

from skillfeed.errors import SettingError


def load_tokenizer(directory: Path) -> Tokenizer:
    """The tokenizer of `directory/tokenizer.json` with truncation and padding off.

    Raises:
        SettingError: the file is missing or is not a tokenizer.
    """
    path = directory / "tokenizer.json"
    if not path.is_file():
        raise SettingError(f"{path}: missing; a model directory must hold a tokenizer.json (a 'fast' tokenizer)")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises plain Exception for any malformed file
        raise SettingError(f"{path}: not a tokenizer of the tokenizers library: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
