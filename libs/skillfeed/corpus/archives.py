"""SKILL.md members of .zip, .tar, .tar.gz and .tgz archives, local or s3://, read in memory and never extracted.

Promises: hostile archives cost bounded memory and time; what came before damage is kept; each refused SKILL.md is a
`Rejected`. Members with other names are never opened and not reported.
"""

import gzip
import io
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import IO, Any, Self

from skillfeed.corpus.text_encoding import storable
from skillfeed.input_files import open_input, why_unreadable
from skillfeed.records import Rejected

MAX_MEMBERS = 1_000_000
MAX_EXPANSION = 200  # times the archive's size; trees of Markdown reach 10, gzip's utmost is 1,030
_FREE_EXPANSION = 64 * 1024**2  # small archives of equal files expand more without harm

_MAX_NAME = 1024**2  # bytes of an extended header, which is held in memory
_NAME_TYPES = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)

# What the standard library raises on damage, found by mutating archives; Arrow's ArrowInvalid is a ValueError.
_DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    OverflowError,
    ValueError,
)


class _Refused(Exception):
    """The archive goes beyond a limit: reason code and detail."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail


def is_archive(name: str) -> bool:
    return name.lower().endswith((".zip", ".tar", ".tar.gz", ".tgz"))


def read_archive(
    uri: str, *, max_bytes: int, max_members: int = MAX_MEMBERS, max_expansion: float = MAX_EXPANSION
) -> Iterator[tuple[str, bytes] | Rejected]:
    """(member path, bytes) of each SKILL.md, whatever its case, in the archive's order.

    Reasons: path_escape (absolute, `..`, backslash, drive, link, device), too_large (a member beyond `max_bytes`),
    encrypted, unsupported_compression, corrupt_member; and, for the rest of the archive, corrupt_archive,
    too_many_members, archive_bomb, unreadable (gone, or no permission).
    """
    read = _read_zip if uri.lower().endswith(".zip") else _read_tar
    try:
        with open_input(uri) as stream:
            allowed = int(stream.seek(0, io.SEEK_END) * max_expansion) + _FREE_EXPANSION
            stream.seek(0)
            for item in read(stream, uri, max_bytes, max_members, allowed):
                if isinstance(item, tuple):
                    yield storable(item[0]), item[1]
                else:
                    yield item.model_copy(update={"source": storable(uri)})
    except _Refused as refused:
        yield _rejected(uri, PurePosixPath(uri).name, refused.reason, refused.detail)
    except _DAMAGE as error:
        yield _rejected(uri, PurePosixPath(uri).name, "corrupt_archive", str(error) or type(error).__name__)
    except OSError as error:
        if not (detail := why_unreadable(uri, error)):
            raise
        yield _rejected(uri, PurePosixPath(uri).name, "unreadable", detail)


def escape_of(path: str) -> str:
    """Why a member path may not be trusted; empty when it stays inside its archive."""
    if path.startswith("/"):
        return "absolute path"
    if "\\" in path:
        return "backslash in the path"
    if path[1:2] == ":" and path[0].isalpha():
        return "drive in the path"
    return "`..` in the path" if ".." in path.split("/") else ""


def is_skill_file(path: str) -> bool:
    return path.replace("\\", "/").rsplit("/", 1)[-1].lower() == "skill.md"


def _rejected(uri: str, path: str, reason: str, detail: str) -> Rejected:
    return Rejected(source=storable(uri), path=storable(path), reason=reason, detail=storable(detail))


def _count(number: int, max_members: int) -> None:
    if number > max_members:
        raise _Refused("too_many_members", f"more than {max_members}; split the archive")


class _Metered(io.RawIOBase):
    """A stream that refuses to deliver more than `allowed` bytes."""

    def __init__(self, stream: IO[bytes], allowed: int) -> None:
        self._stream, self._allowed, self._left = stream, allowed, allowed

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        self._left -= len(data)
        if self._left < 0:
            raise _Refused("archive_bomb", f"expands to more than {self._allowed} bytes; send it unpacked")
        buffer[: len(data)] = data
        return len(data)


class _Header(tarfile.TarInfo):
    """Damage that tarfile takes for the end of the archive is an error here."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        header = super().frombuf(buf, encoding, errors)
        if header.type in _NAME_TYPES and header.size > _MAX_NAME:
            raise tarfile.ReadError(f"an extended header of {header.size} bytes")
        return header

    @classmethod
    def fromtarfile(cls, tarfile_: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(tarfile_)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]  # typeshed lacks it
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(f"{error} at byte {tarfile_.offset}; the members after it are lost") from error


def _read_tar(
    native: Any, uri: str, max_bytes: int, max_members: int, allowed: int
) -> Iterator[tuple[str, bytes] | Rejected]:
    buffered: Any = io.BufferedReader(native)
    stream: Any = buffered if uri.lower().endswith(".tar") else gzip.GzipFile(fileobj=buffered)
    # One pass, and no list of members: `tar.members` would hold about 1 KB for each.
    with tarfile.open(fileobj=io.BufferedReader(_Metered(stream, allowed)), mode="r|", tarinfo=_Header) as tar:
        number = 0
        while member := tar.next():
            tar.members = []  # type: ignore[attr-defined]  # typeshed lacks it
            number += 1
            _count(number, max_members)
            if not member.isdir() and is_skill_file(member.name):
                yield _tar_member(tar, member, max_bytes)


def _tar_member(tar: tarfile.TarFile, member: tarfile.TarInfo, max_bytes: int) -> tuple[str, bytes] | Rejected:
    escape = escape_of(member.name) or ("" if member.isreg() else "a link or device, not a file")
    if escape:
        return _rejected("", member.name, "path_escape", escape)
    if member.size > max_bytes:
        return _too_large(member.name, member.size, max_bytes)
    opened = tar.extractfile(member)
    data = opened.read() if opened else b""
    if len(data) < member.size:
        raise EOFError(f"{member.name}: the archive ends inside it")
    return member.name.removeprefix("./"), data


def _read_zip(
    native: Any, uri: str, max_bytes: int, max_members: int, allowed: int
) -> Iterator[tuple[str, bytes] | Rejected]:
    left = allowed
    with zipfile.ZipFile(io.BufferedReader(native)) as archive:
        for number, member in enumerate(archive.infolist(), start=1):
            _count(number, max_members)
            if member.is_dir() or not is_skill_file(member.filename):
                continue
            item = _zip_member(archive, member, max_bytes)
            yield item
            left -= len(item[1]) if isinstance(item, tuple) else 0
            if left < 0:
                raise _Refused("archive_bomb", f"expands to more than {allowed} bytes; send it unpacked")


def _zip_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, max_bytes: int) -> tuple[str, bytes] | Rejected:
    mode = member.external_attr >> 16
    is_plain = stat.S_IFMT(mode) in (0, stat.S_IFREG)  # 0: written on a system without modes
    escape = escape_of(member.filename) or ("" if is_plain else "a link or device, not a file")
    if escape:
        return _rejected("", member.filename, "path_escape", escape)
    if member.file_size > max_bytes:
        return _too_large(member.filename, member.file_size, max_bytes)
    if member.flag_bits & 1:
        return _rejected("", member.filename, "encrypted", "the member needs a password; send it without")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return _rejected("", member.filename, "unsupported_compression", f"method {member.compress_type}; use deflate")
    try:
        return member.filename.removeprefix("./"), archive.read(member)  # never more than the declared size
    except _DAMAGE as error:
        return _rejected("", member.filename, "corrupt_member", str(error) or type(error).__name__)


def _too_large(path: str, size: int, max_bytes: int) -> Rejected:
    return _rejected("", path, "too_large", f"{size} bytes, the limit is {max_bytes}")
