"""What a source of skills holds, as a list of inputs that tasks can read independently.

A source is a directory tree of SKILL.md files, a .jsonl or .parquet file or a directory of such, or an archive of a
tree; local or s3://.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from skillfeed.corpus.archives import is_archive, is_skill_file, read_archive
from skillfeed.corpus.skill_file import MAX_BYTES, ROW_COLUMNS
from skillfeed.corpus.text_encoding import storable
from skillfeed.errors import SettingError
from skillfeed.input_files import InputFile, find_files, is_directory, open_input, why_unreadable
from skillfeed.records import Rejected
from skillfeed.rows import Row, RowSplit, is_row_file, read_rows, splits_of
from skillfeed.storage import is_s3, join, parse_uri


@dataclass(frozen=True)
class InputRef:
    """One SKILL.md, one piece of a row file, or one archive."""

    source: str  # URI that `path` is relative to; of rows and archives, of the file itself
    kind: Literal["skill_file", "rows", "archive"]
    path: str  # below the source for a skill_file, else the file's name
    size: int  # bytes stored; of a link, where it leads
    modified_ns: int  # with path and size, tells a changed input from one already read
    split: RowSplit | None = None


def list_inputs(source_uri: str) -> list[InputRef]:
    """The inputs of a source, by path. A directory that holds any SKILL.md is a tree; otherwise its row files count.

    Directories behind symbolic links are not entered. 100,000 local files take about two seconds.

    Raises:
        SettingError: nothing there, no input in it, or a kind that is not known.
    """
    try:
        source_uri = parse_uri(source_uri)
    except ValueError as error:
        raise SettingError(str(error)) from error
    found = find_files(source_uri, lambda name: is_skill_file(name) or is_row_file(name))
    if not is_directory(source_uri):
        return _file_inputs(found[0])
    skills = [file for file in found if is_skill_file(file.path)]
    if skills:
        return [InputRef(source_uri, "skill_file", file.path, file.size, file.modified_ns) for file in skills]
    if not found:
        raise SettingError(f"{source_uri}: no SKILL.md, .jsonl, .jsonl.gz or .parquet below it; name another directory")
    return [ref for file in found for ref in _row_inputs(file)]


def read_input(ref: InputRef, *, max_bytes: int = MAX_BYTES) -> Iterator[tuple[str, bytes] | Row | Rejected]:
    """(path, bytes) of SKILL.md files, or rows. What cannot be read is a `Rejected`.

    Reasons beyond those of `read_rows` and `read_archive`: too_large (beyond `max_bytes`), path_escape (a link that
    leads out of the source) and unreadable (gone, no permission, a link that leads nowhere).
    """
    if ref.split is not None:
        yield from read_rows(ref.split, ROW_COLUMNS)
    elif ref.kind == "archive":
        yield from read_archive(ref.source, max_bytes=max_bytes)
    else:
        yield _read_file(ref, max_bytes)


def _file_inputs(file: InputFile) -> list[InputRef]:
    if is_archive(file.uri):
        return [InputRef(file.uri, "archive", file.path, file.size, file.modified_ns)]
    if is_row_file(file.uri):
        return _row_inputs(file)
    raise SettingError(f"{file.uri}: not a kind of source; give a directory, .jsonl, .parquet, .zip, .tar or .tar.gz")


def _row_inputs(file: InputFile) -> list[InputRef]:
    name = file.path.rsplit("/", 1)[-1]
    return [InputRef(file.uri, "rows", name, split.size, file.modified_ns, split) for split in splits_of(file)]


def _read_file(ref: InputRef, max_bytes: int) -> tuple[str, bytes] | Rejected:
    uri, source, label = join(ref.source, ref.path), storable(ref.source), storable(ref.path)
    if not is_s3(uri) and os.path.islink(uri):
        root, target = os.path.realpath(ref.source), os.path.realpath(uri)
        if os.path.commonpath([root, target]) != root:
            return Rejected(source=source, path=label, reason="path_escape", detail="a link out of the source")
    try:
        with open_input(uri) as stream:
            data = bytes(stream.read(max_bytes + 1))
    except OSError as error:
        if not (detail := why_unreadable(uri, error)):
            raise
        return Rejected(source=source, path=label, reason="unreadable", detail=detail)
    if len(data) > max_bytes:
        return Rejected(source=source, path=label, reason="too_large", detail=f"more than {max_bytes} bytes")
    return label, data
