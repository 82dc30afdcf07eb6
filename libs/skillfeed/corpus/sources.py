"""What a source of skills holds, as a list of inputs that tasks can read independently.

A source is a directory tree of SKILL.md files, a .jsonl or .parquet file or a directory of such, or an archive of a
tree; local or s3://.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Literal

import pyarrow.fs as pafs

from skillfeed.corpus.archives import is_archive, is_skill_file, read_archive
from skillfeed.corpus.skill_file import MAX_BYTES
from skillfeed.corpus.text_encoding import storable
from skillfeed.errors import SettingError
from skillfeed.records import Rejected
from skillfeed.rows import Row, RowSplit, is_row_file, read_rows, row_splits
from skillfeed.storage import filesystem, is_s3, join, parse_uri


@dataclass(frozen=True)
class InputRef:
    """One SKILL.md, one piece of a row file, or one archive."""

    source: str  # URI that `path` is relative to; of rows and archives, of the file itself
    kind: Literal["skill_file", "rows", "archive"]
    path: str  # below the source for a skill_file, else the file's name
    size: int  # bytes stored
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
    files, path = filesystem(source_uri)
    info = files.get_file_info(path)
    if info.type == pafs.FileType.NotFound:
        raise SettingError(f"{source_uri}: does not exist")
    if info.type == pafs.FileType.File:
        return _file_inputs(source_uri, info)
    found = _s3_files(source_uri) if is_s3(source_uri) else _local_files(path)
    refs = [InputRef(source_uri, "skill_file", name, size, modified) for name, size, modified in found]
    skills = sorted((ref for ref in refs if is_skill_file(ref.path)), key=lambda ref: ref.path)
    if skills:
        return skills
    if not refs:
        raise SettingError(f"{source_uri}: no SKILL.md, .jsonl, .jsonl.gz or .parquet below it; name another directory")
    modified_of = {join(source_uri, ref.path): ref.modified_ns for ref in refs}
    return [_row_input(split, modified_of[split.uri]) for split in row_splits(source_uri)]


def read_input(ref: InputRef, *, max_bytes: int = MAX_BYTES) -> Iterator[tuple[str, bytes] | Row | Rejected]:
    """(path, bytes) of SKILL.md files, or rows. What cannot be read is a `Rejected`.

    Reasons beyond those of `read_rows` and `read_archive`: too_large (beyond `max_bytes`), path_escape (a link that
    leads out of the source) and unreadable (gone, or no permission).
    """
    if ref.split is not None:
        yield from read_rows(ref.split)
    elif ref.kind == "archive":
        yield from read_archive(ref.source, max_bytes=max_bytes)
    else:
        yield _read_file(ref, max_bytes)


def _file_inputs(uri: str, info: pafs.FileInfo) -> list[InputRef]:
    modified = int(info.mtime_ns or 0)
    if is_archive(uri):
        return [InputRef(uri, "archive", PurePosixPath(uri).name, int(info.size), modified)]
    if is_row_file(uri):
        return [_row_input(split, modified) for split in row_splits(uri)]
    raise SettingError(f"{uri}: not a kind of source; give a directory, .jsonl, .parquet, .zip, .tar or .tar.gz")


def _row_input(split: RowSplit, modified: int) -> InputRef:
    return InputRef(split.uri, "rows", PurePosixPath(split.uri).name, split.size, modified, split)


def _is_input(name: str) -> bool:
    return is_skill_file(name) or is_row_file(name)


def _local_files(root: str) -> Iterator[tuple[str, int, int]]:
    """(path below the root, bytes, mtime in ns) of what may be an input. Links are named; `read_input` judges them."""
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError as error:
            raise SettingError(f"{folder}: cannot be listed: {error.strerror}; give permission or move it") from error
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            elif _is_input(entry.name) and (entry.is_symlink() or entry.is_file()):
                status = entry.stat(follow_symlinks=False)
                yield os.path.relpath(entry.path, root), status.st_size, status.st_mtime_ns


def _s3_files(uri: str) -> Iterator[tuple[str, int, int]]:
    files, root = filesystem(uri)
    for info in files.get_file_info(pafs.FileSelector(root, recursive=True)):
        if info.type == pafs.FileType.File and _is_input(info.base_name):
            yield info.path[len(root) + 1 :], int(info.size), int(info.mtime_ns or 0)


def _read_file(ref: InputRef, max_bytes: int) -> tuple[str, bytes] | Rejected:
    uri, label = join(ref.source, ref.path), storable(ref.path)
    if not is_s3(uri) and os.path.islink(uri):
        root, target = os.path.realpath(ref.source), os.path.realpath(uri)
        if os.path.commonpath([root, target]) != root:
            return Rejected(source=ref.source, path=label, reason="path_escape", detail="a link out of the source")
    try:
        with _open(uri) as stream:
            data = bytes(stream.read(max_bytes + 1))
    except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
        return Rejected(source=ref.source, path=label, reason="unreadable", detail=type(error).__name__)
    if len(data) > max_bytes:
        return Rejected(source=ref.source, path=label, reason="too_large", detail=f"more than {max_bytes} bytes")
    return label, data


def _open(uri: str) -> Any:
    if not is_s3(uri):
        return open(uri, "rb")  # not Arrow, which cannot name files in other encodings
    files, path = filesystem(uri)
    return files.open_input_stream(path, compression=None)
