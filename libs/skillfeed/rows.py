"""Rows of JSONL and Parquet files, local or s3://, in pieces that tasks can read independently.

Promises: a bad row or a damaged file becomes a `Rejected`, never an exception; every row keeps its number in its file,
however the file was cut; memory does not grow with the file.
"""

import gzip
import io
import json
import re
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from skillfeed.corpus.text_encoding import storable
from skillfeed.errors import SettingError
from skillfeed.input_files import InputFile, find_files, open_input, why_unreadable
from skillfeed.records import Rejected

SPLIT_BYTES = 64 * 1024**2
MAX_LINE_BYTES = 16 * 1024**2

_BLOCK = 4 * 1024**2  # bytes counted at a time
_BATCH = 256  # Parquet rows decoded at a time: about 5 MB of skills
_BOM = b"\xef\xbb\xbf"
_HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F]")  # may leave half of a surrogate pair
_DAMAGED_GZIP = (gzip.BadGzipFile, EOFError, zlib.error)
# Found by mutating files. UnicodeDecodeError: the name of a column.
_DAMAGED_PARQUET = (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError, OSError)
# Text that is not UTF-8; times that Python cannot hold; time zones it does not know; structs of a thousand levels.
_BAD_VALUE = (ValueError, OverflowError, KeyError, TypeError, NotImplementedError, RecursionError)


@dataclass(frozen=True)
class RowSplit:
    """A piece of one file: bytes [start, end) of JSONL, cut at line starts, or row groups [start, end) of Parquet."""

    uri: str
    kind: Literal["jsonl", "parquet"]
    start: int
    end: int
    first_row: int  # number of the first row of the piece, from 1
    size: int  # bytes stored


@dataclass(frozen=True)
class Row:
    """One row: the URI of its file, its number there from 1 (blank lines count), and its values by column."""

    source: str
    number: int
    data: dict[str, Any]


def is_row_file(name: str) -> bool:
    return name.lower().endswith((".jsonl", ".jsonl.gz", ".parquet"))


def row_splits(uri: str, split_bytes: int = SPLIT_BYTES) -> list[RowSplit]:
    """The pieces of a .jsonl, .jsonl.gz or .parquet file, or of all such files below a directory, by name.

    Raises:
        SettingError: nothing there, or no file of these kinds.
    """
    files = [file for file in find_files(uri, is_row_file) if is_row_file(file.path)]
    if not files:
        raise SettingError(f"{uri}: no .jsonl, .jsonl.gz or .parquet file; name a file or a directory of such")
    return [split for file in files for split in splits_of(file, split_bytes)]


def splits_of(file: InputFile, split_bytes: int = SPLIT_BYTES) -> list[RowSplit]:
    """The pieces of one file.

    A JSONL file beyond `split_bytes` is read once here, to number its lines; of Parquet only the footer is. A
    compressed JSONL file is one piece. A file that is damaged or cannot be read is one piece, whose reading rejects it.
    """
    uri, size = file.uri, file.size
    is_parquet = uri.lower().endswith(".parquet")
    whole = RowSplit(uri, "parquet" if is_parquet else "jsonl", 0, 0 if is_parquet else size, 1, size)
    try:
        if is_parquet:
            return list(_parquet_splits(uri, size, split_bytes))
        if size <= split_bytes or uri.lower().endswith(".gz"):
            return [whole]
        return list(_jsonl_splits(uri, size, split_bytes))
    except _DAMAGED_PARQUET as error:
        _ending(whole, 1, error, "corrupt")  # raises what is no fault of the file
        return [whole]


def read_rows(
    split: RowSplit, columns: Collection[str] | None = None, max_line_bytes: int = MAX_LINE_BYTES
) -> Iterator[Row | Rejected]:
    """The rows of a piece in order, and a `Rejected` (path `#17`) for each row that cannot be read.

    Of Parquet only `columns` are read, where given and present; JSON lines hold whatever they hold. Texts of the rows
    can be stored: half of a surrogate pair is U+FFFD.

    Reasons: not_utf8, not_json, not_an_object, line_too_long, bad_value (Parquet); and, once for the rest of a file,
    corrupt_gzip, corrupt_parquet or unreadable (gone, or no permission).
    """
    yield from _read_parquet(split, columns) if split.kind == "parquet" else _read_jsonl(split, max_line_bytes)


def parse_json(text: str) -> Any:
    """The JSON value, its texts and keys such that they can be stored: half of a surrogate pair becomes U+FFFD.

    Raises:
        ValueError: no JSON, nested too deeply, or a number of more than 4,300 digits.
    """
    try:
        value = json.loads(text)
        if _HALF_PAIR.search(text) and (written := json.dumps(value, ensure_ascii=False)) != storable(written):
            value = json.loads(storable(written))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return value


def _jsonl_splits(uri: str, size: int, split_bytes: int) -> Iterator[RowSplit]:
    start, first_row = 0, 1  # of the piece being measured
    position, row = 0, 1  # of the block being read
    with _open(uri) as stream:
        while block := stream.read(_BLOCK):
            seen = 0
            while (newline := block.find(b"\n", max(seen, start + split_bytes - 1 - position))) >= 0:
                cut = position + newline + 1
                row += block.count(b"\n", seen, newline + 1)
                if cut < size:
                    yield RowSplit(uri, "jsonl", start, cut, first_row, cut - start)
                    start, first_row = cut, row
                seen = newline + 1
            row += block.count(b"\n", seen)
            position += len(block)
    yield RowSplit(uri, "jsonl", start, position, first_row, position - start)


def _parquet_splits(uri: str, size: int, split_bytes: int) -> Iterator[RowSplit]:
    with open_input(uri) as source:
        metadata = pq.read_metadata(source)
    start, first_row, row, held = 0, 1, 1, 0
    for group in range(metadata.num_row_groups):
        stored = _stored_bytes(metadata.row_group(group))
        if held and held + stored > split_bytes:
            yield RowSplit(uri, "parquet", start, group, first_row, held)
            start, first_row, held = group, row, 0
        held += stored
        row += metadata.row_group(group).num_rows
    yield RowSplit(uri, "parquet", start, metadata.num_row_groups, first_row, held or size)


def _stored_bytes(group: Any) -> int:
    return sum(group.column(index).total_compressed_size for index in range(group.num_columns))


def _read_parquet(split: RowSplit, columns: Collection[str] | None) -> Iterator[Row | Rejected]:
    number = split.first_row
    try:
        with open_input(split.uri) as source:
            file = pq.ParquetFile(source)
            groups = list(range(split.start, split.end or file.num_row_groups))  # no end: unreadable when it was split
            known = None if columns is None else [name for name in file.schema_arrow.names if name in columns]
            for batch in file.iter_batches(_BATCH, groups, known):
                for item in _batch_rows(split, number, batch):
                    yield item
                    number += 1
    except _DAMAGED_PARQUET as error:
        yield _ending(split, number, error, "corrupt_parquet")


def _batch_rows(split: RowSplit, number: int, batch: pa.RecordBatch) -> Iterator[Row | Rejected]:
    try:
        rows: list[dict[str, Any]] = batch.to_pylist()
    except _BAD_VALUE:
        yield from (_row_alone(split, number + index, batch, index) for index in range(len(batch)))
        return
    yield from (Row(storable(split.uri), number + index, data) for index, data in enumerate(rows))


def _row_alone(split: RowSplit, number: int, batch: pa.RecordBatch, index: int) -> Row | Rejected:
    """One row of a batch that holds a value which Python cannot."""
    data: dict[str, Any] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            data[name] = column[index].as_py()
        except _BAD_VALUE as error:
            return _bad(split, number, "bad_value", f"column {name} ({str(column.type)[:100]}): {_first_line(error)}")
    return Row(storable(split.uri), number, data)


def _ending(split: RowSplit, number: int, error: Exception, corrupt: str) -> Rejected:
    """Why the rest of a file is lost; raises an error that is no fault of the file."""
    detail = why_unreadable(split.uri, error) if isinstance(error, OSError) else ""
    if not detail and not _is_damage(error):
        raise error
    where = f"#{number}" if number > 1 else PurePosixPath(split.uri).name
    reason, detail = ("unreadable", detail) if detail else (corrupt, _first_line(error))
    return Rejected(source=storable(split.uri), path=storable(where), reason=reason, detail=storable(detail))


def _is_damage(error: Exception) -> bool:
    """Whether the file is at fault. Arrow reports damaged pages, failed reads and S3 errors alike as OSError."""
    return not isinstance(error, OSError) or (error.errno is None and "AWS Error" not in str(error))


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


def _read_jsonl(split: RowSplit, max_line_bytes: int) -> Iterator[Row | Rejected]:
    number = split.first_row
    try:
        with _open(split.uri) as stream:
            stream.seek(split.start)
            compressed = split.uri.lower().endswith(".gz")
            lines: io.BufferedIOBase = gzip.GzipFile(fileobj=stream) if compressed else stream
            # No end: the file could not be read when it was split.
            left = split.end - split.start if split.end and not compressed else None
            for line, length in _lines(lines, max_line_bytes):
                if number == 1:
                    line = line.removeprefix(_BOM)
                if length > max_line_bytes:
                    detail = f"{length} bytes, the limit is {max_line_bytes}"
                    yield _bad(split, number, "line_too_long", detail)
                elif line.strip():
                    yield _row(split, number, line)
                number += 1
                if left is not None and (left := left - length) <= 0:
                    return
    except (*_DAMAGED_GZIP, OSError) as error:
        yield _ending(split, number, error, "corrupt_gzip")


def _lines(stream: io.BufferedIOBase, limit: int) -> Iterator[tuple[bytes, int]]:
    """(line, length in the file); of a line beyond the limit only its end is held."""
    while line := stream.readline(limit + 1):
        length = len(line)
        while not line.endswith(b"\n") and (line_end := stream.readline(limit + 1)):
            line, length = line_end, length + len(line_end)
        yield line, length


def _row(split: RowSplit, number: int, line: bytes) -> Row | Rejected:
    try:
        data = parse_json(line.decode())
    except UnicodeDecodeError as error:
        return _bad(split, number, "not_utf8", f"byte {error.start} of the line")
    except ValueError as error:
        return _bad(split, number, "not_json", _first_line(error))
    if not isinstance(data, dict):
        return _bad(split, number, "not_an_object", f"the line holds a JSON {type(data).__name__}")
    return Row(storable(split.uri), number, data)


def _bad(split: RowSplit, number: int, reason: str, detail: str) -> Rejected:
    return Rejected(source=storable(split.uri), path=f"#{number}", reason=reason, detail=storable(detail))


def _open(uri: str) -> io.BufferedReader:
    return io.BufferedReader(open_input(uri), buffer_size=1024**2)
