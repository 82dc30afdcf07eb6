"""Files that people give us, local or s3://: found by name, and opened though any of them may be gone or forbidden.

Promises: a link that leads nowhere, a name in another encoding or a file that vanishes stops no listing; it shows when
the file is opened, as an error that `why_unreadable` tells from those that a second try may mend.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow.fs as pafs

from skillfeed.errors import SettingError
from skillfeed.storage import filesystem, is_s3, join

_OURS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # this process has run out, the file is fine
# How Arrow words what S3 says of one object. Throttling, network and server errors are none of these.
_LOST_ON_S3 = ("AWS Error ACCESS_DENIED", "AWS Error NO_SUCH_KEY", "AWS Error RESOURCE_NOT_FOUND")


@dataclass(frozen=True)
class InputFile:
    """One file: of a link, size and time are those of what it leads to, or 0 where it leads nowhere."""

    uri: str
    path: str  # below the directory that was searched; of a file named by itself, its name
    size: int  # bytes stored
    modified_ns: int


def is_directory(uri: str) -> bool:
    """Whether there is a directory.

    Raises:
        SettingError: nothing there, or it cannot be reached.
    """
    if is_s3(uri):
        files, path = filesystem(uri)
        kind = files.get_file_info(path).type
        if kind == pafs.FileType.NotFound:
            raise SettingError(f"{uri}: does not exist")
        return bool(kind == pafs.FileType.Directory)
    try:
        return stat.S_ISDIR(os.stat(uri).st_mode)
    except OSError as error:
        what = "does not exist" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
        raise SettingError(f"{uri}: {what}") from error


def find_files(uri: str, wanted: Callable[[str], bool]) -> list[InputFile]:
    """The files below a directory whose name is `wanted`, or the one file itself whatever its name, by path.

    Directories behind symbolic links are not entered. 100,000 local files take about two seconds.

    Raises:
        SettingError: nothing there, or a directory that cannot be listed.
    """
    if not is_directory(uri):
        return [_named_file(uri)]
    found = _s3_files(uri, wanted) if is_s3(uri) else _local_files(uri, wanted)
    return sorted(found, key=lambda file: file.path)


def open_input(uri: str) -> Any:
    """A binary stream that can seek.

    Raises:
        OSError: `why_unreadable` says which kind.
    """
    if is_s3(uri):
        files, path = filesystem(uri)
        return files.open_input_file(path)
    # Not Arrow, which cannot name files in other encodings. A pipe would wait for a writer forever.
    if not stat.S_ISREG(os.stat(uri).st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    return open(uri, "rb")


def why_unreadable(uri: str, error: OSError) -> str:
    """What is wrong with this one file; empty where the error is of another kind and may pass, as network errors do."""
    if not is_s3(uri):
        return "" if error.errno in _OURS else (error.strerror or "")
    lost = isinstance(error, (FileNotFoundError, PermissionError)) or any(code in str(error) for code in _LOST_ON_S3)
    return (error.strerror or str(error).splitlines()[0])[:300] if lost else ""


def _named_file(uri: str) -> InputFile:
    name = uri.rsplit("/", 1)[-1]
    if is_s3(uri):
        files, path = filesystem(uri)
        info = files.get_file_info(path)
        return InputFile(uri, name, int(info.size or 0), int(info.mtime_ns or 0))
    return InputFile(uri, name, *_size_and_time(lambda: os.stat(uri)))


def _local_files(root: str, wanted: Callable[[str], bool]) -> Iterator[InputFile]:
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
            elif wanted(entry.name) and (entry.is_symlink() or entry.is_file()):
                path = os.path.relpath(entry.path, root)
                yield InputFile(join(root, path), path, *_size_and_time(entry.stat))


def _size_and_time(status_of: Callable[[], os.stat_result]) -> tuple[int, int]:
    try:
        status = status_of()
    except OSError:  # told when the file is opened
        return 0, 0
    return status.st_size, status.st_mtime_ns


def _s3_files(uri: str, wanted: Callable[[str], bool]) -> Iterator[InputFile]:
    files, root = filesystem(uri)
    for info in files.get_file_info(pafs.FileSelector(root, recursive=True)):
        if info.type == pafs.FileType.File and wanted(info.base_name):
            path = info.path[len(root) + 1 :]
            yield InputFile(join(uri, path), path, int(info.size), int(info.mtime_ns or 0))
