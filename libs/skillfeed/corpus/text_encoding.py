"""Bytes to text as a careful person would: UTF-8, UTF-16 by its mark, UTF-8 with a few broken bytes, else a guess."""

import re
from typing import Literal

from charset_normalizer import from_bytes

CONTROL_CHARACTERS = re.compile(r"[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")  # all but \t, \n, \r and NUL, which rejects
SURROGATES = re.compile(r"[\ud800-\udfff]")  # JSON can carry halves of pairs, which no encoding can store

UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")

# The encodings that Markdown files still come in. A short list keeps the guess fast and plain.
_GUESSES = ["cp1252", "gb18030", "big5", "shift_jis", "euc_kr", "cp1251"]


def storable(text: str) -> str:
    """The text with each lone surrogate as U+FFFD, for Parquet and JSON hold no such.

    They come from JSON escapes (half of a pair) and from file names in other encodings.
    """
    return SURROGATES.sub("\ufffd", text)


def decode(data: bytes) -> tuple[str, Literal["utf8", "not_utf8", "stray_bytes"]]:
    """The text and how it was read; a broken byte in UTF-8 becomes U+FFFD.

    Raises:
        UnicodeError: no encoding fits.
    """
    if data.startswith(UTF16_MARKS):
        return data.decode("utf-16"), "not_utf8"
    try:
        return data.decode(), "utf8"
    except UnicodeDecodeError:
        text = data.decode(errors="replace")
    broken = text.count("\ufffd")
    whole = sum(character > "\x7f" for character in text) - broken
    if whole >= 4 * broken:  # other encodings form a valid UTF-8 sequence by accident only
        return text, "stray_bytes"
    best = from_bytes(data, cp_isolation=_GUESSES).best()
    if best is None:
        raise UnicodeError("no known encoding fits")
    return str(best), "not_utf8"
