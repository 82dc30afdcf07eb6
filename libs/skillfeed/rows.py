"""Rows of JSONL and Parquet files, local or s3://, in pieces that tasks can read independently.

Promises: a bad row or a damaged file becomes a `Rejected`, never an exception; every row keeps its number in its file,
however the file was cut; memory does not grow with the file.
"""

import gzip
import io
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from skillfeed.errors import SettingError
from skillfeed.records import Rejected
from skillfeed.storage import filesystem, is_s3, list_files

SPLIT_BYTES = 64 * 1024**2
MAX_LINE_BYTES = 16 * 1024**2

_BLOCK = 4 * 1024**2  # bytes counted at a time
_BATCH = 256  # Parquet rows decoded at a time: about 5 MB of skills
_BOM = b"\xef\xbb\xbf"


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

    A JSONL file beyond `split_bytes` is read once here, to number its lines; of Parquet only the footers are. A
    compressed JSONL file is one piece. A damaged Parquet file is one piece, whose reading rejects it.

    Raises:
        SettingError: nothing there, or no file of these kinds.
    """
    prefix = "s3://" if is_s3(uri) else ""
    files = [(prefix + info.path, int(info.size)) for info in list_files(uri) if is_row_file(info.path)]
    if not files:
        raise SettingError(f"{uri}: no .jsonl, .jsonl.gz or .parquet file; name a file or a directory of such")
    return [split for file, size in files for split in _splits(file, size, split_bytes)]


def read_rows(split: RowSplit, max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[Row | Rejected]:
    """The rows of a piece in order, and a `Rejected` (path `#17`) for each row that cannot be read.

    Reasons: not_utf8, not_json, not_an_object, line_too_long; and, once for the rest of a damaged file, corrupt_gzip
    or corrupt_parquet.
    """
    if split.kind == "parquet":
        yield from _read_parquet(split)
    else:
        yield from _read_jsonl(split, max_line_bytes)


def _splits(uri: str, size: int, split_bytes: int) -> Iterator[RowSplit]:
    if uri.lower().endswith(".parquet"):
        yield from _parquet_splits(uri, size, split_bytes)
    elif size <= split_bytes or uri.lower().endswith(".gz"):
        yield RowSplit(uri, "jsonl", 0, size, 1, size)
    else:
        yield from _jsonl_splits(uri, size, split_bytes)


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
    files, path = filesystem(uri)
    try:
        with files.open_input_file(path) as source:
            metadata = pq.read_metadata(source)
    except (pa.ArrowInvalid, OSError) as error:
        if not _is_damage(error):
            raise
        yield RowSplit(uri, "parquet", 0, 0, 1, size)
        return
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


def _read_parquet(split: RowSplit) -> Iterator[Row | Rejected]:
    number = split.first_row
    files, path = filesystem(split.uri)
    try:
        with files.open_input_file(path) as source:
            groups = list(range(split.start, split.end))
            for batch in pq.ParquetFile(source).iter_batches(_BATCH, groups):
                for data in batch.to_pylist():
                    yield Row(split.uri, number, data)
                    number += 1
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        if not _is_damage(error):
            raise
        where = f"#{number}" if split.end else PurePosixPath(split.uri).name
        yield Rejected(source=split.uri, path=where, reason="corrupt_parquet", detail=_first_line(error))


def _is_damage(error: Exception) -> bool:
    """Whether the file is at fault. Arrow reports damaged pages, failed reads and S3 errors alike as OSError."""
    return not isinstance(error, OSError) or (error.errno is None and "AWS Error" not in str(error))


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


def _read_jsonl(split: RowSplit, max_line_bytes: int) -> Iterator[Row | Rejected]:
    number = split.first_row
    with _open(split.uri) as stream:
        stream.seek(split.start)
        compressed = split.uri.lower().endswith(".gz")
        lines: io.BufferedIOBase = gzip.GzipFile(fileobj=stream) if compressed else stream
        left = None if compressed else split.end - split.start
        try:
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
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            yield _bad(split, number, "corrupt_gzip", _first_line(error))


def _lines(stream: io.BufferedIOBase, limit: int) -> Iterator[tuple[bytes, int]]:
    """(line, length in the file); of a line beyond the limit only its end is held."""
    while line := stream.readline(limit + 1):
        length = len(line)
        while not line.endswith(b"\n") and (line_end := stream.readline(limit + 1)):
            line, length = line_end, length + len(line_end)
        yield line, length


def _row(split: RowSplit, number: int, line: bytes) -> Row | Rejected:
    try:
        data = json.loads(line.decode())
    except UnicodeDecodeError as error:
        return _bad(split, number, "not_utf8", f"byte {error.start} of the line")
    except RecursionError:
        return _bad(split, number, "not_json", "nested too deeply")
    except ValueError as error:  # JSONDecodeError, and integers of more than 4,300 digits
        return _bad(split, number, "not_json", _first_line(error))
    if not isinstance(data, dict):
        return _bad(split, number, "not_an_object", f"the line holds a JSON {type(data).__name__}")
    return Row(split.uri, number, data)


def _bad(split: RowSplit, number: int, reason: str, detail: str) -> Rejected:
    return Rejected(source=split.uri, path=f"#{number}", reason=reason, detail=detail)


def _open(uri: str) -> io.BufferedReader:
    files, path = filesystem(uri)
    return io.BufferedReader(files.open_input_file(path), buffer_size=1024**2)
