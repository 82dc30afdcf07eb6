"""Local paths and s3:// URIs behind one handful of functions. Writes are atomic: a reader sees a whole object or none.

S3 endpoint, region and credentials come from the usual AWS variables and files.
"""

import hashlib
import os
import uuid
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlparse

import boto3
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from botocore.exceptions import ClientError
from pydantic import AfterValidator

from skillfeed.errors import ConflictError, SettingError


def parse_uri(uri: str) -> str:
    """An absolute local path or an s3:// URI without a trailing slash.

    Raises:
        ValueError: another scheme, or an S3 URI without a bucket.
    """
    if not uri.strip():
        raise ValueError("empty; give a local path or s3://bucket/path")
    if "://" not in uri:
        return str(Path(uri).expanduser().absolute())
    parts = urlparse(uri)
    if parts.scheme != "s3" or not parts.netloc:
        raise ValueError(f"{uri}: give a local path or s3://bucket/path")
    return uri.rstrip("/")


URI = Annotated[str, AfterValidator(parse_uri)]


def is_s3(uri: str) -> bool:
    return uri.startswith("s3://")


def join(uri: str, *parts: str) -> str:
    return "/".join([uri.rstrip("/"), *parts])


def filesystem(uri: str) -> tuple[pafs.FileSystem, str]:
    """The Arrow filesystem of a URI and the path in it."""
    if not is_s3(uri):
        return pafs.LocalFileSystem(), uri
    return _s3_filesystem(_s3_endpoint()), uri.removeprefix("s3://")


def _s3_endpoint() -> str | None:
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")


def _s3_region() -> str:
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"


@lru_cache
def _s3_filesystem(endpoint: str | None) -> pafs.FileSystem:
    options: dict[str, Any] = {"region": _s3_region()}
    if endpoint:
        parts = urlparse(endpoint)
        options |= {"endpoint_override": parts.netloc, "scheme": parts.scheme}
    return pafs.S3FileSystem(**options)


def s3_client() -> Any:
    return boto3.client("s3", region_name=_s3_region())


def exists(uri: str) -> bool:
    files, path = filesystem(uri)
    return bool(files.get_file_info(path).type != pafs.FileType.NotFound)


def list_files(uri: str) -> Iterator[pafs.FileInfo]:
    """Every file below a directory (or the file itself), by path, but half-written ones.

    Raises:
        SettingError: nothing there, or a name that is not UTF-8.
    """
    files, path = filesystem(uri)
    info = files.get_file_info(path)
    if info.type == pafs.FileType.NotFound:
        raise SettingError(f"{uri}: does not exist")
    if info.type == pafs.FileType.File:
        yield info
        return
    found = files.get_file_info(pafs.FileSelector(path, recursive=True))
    try:
        listed = sorted((item.path, item) for item in found if item.type == pafs.FileType.File)
    except UnicodeDecodeError as error:
        raise SettingError(f"{uri}: a file name below it is not UTF-8 ({error.object!r}); rename it") from error
    yield from (item for name, item in listed if ".partial-" not in name.rsplit("/", 1)[-1])


def read_bytes(uri: str) -> bytes:
    files, path = filesystem(uri)
    with files.open_input_stream(path, compression=None) as stream:  # Arrow would unpack what is named .gz
        return bytes(stream.read())


def _partial(path: str) -> str:
    """A name beside the final one. It begins with a dot, so readers of a directory of tables pass over it."""
    return str(Path(path).with_name(f".{Path(path).name}.partial-{uuid.uuid4().hex}"))


def delete_partials(uri: str) -> None:
    """Removes what killed writers left below a directory. S3 leaves nothing."""
    if not is_s3(uri):
        for path in Path(uri).rglob(".*.partial-*"):
            path.unlink(missing_ok=True)


def delete_file(uri: str) -> None:
    files, path = filesystem(uri)
    if files.get_file_info(path).type == pafs.FileType.File:
        files.delete_file(path)


def write_bytes(uri: str, data: bytes) -> None:
    """Replaces the object as a whole."""
    files, path = filesystem(uri)
    if is_s3(uri):  # an S3 object appears when its upload completes
        with files.open_output_stream(path, compression=None) as stream:  # Arrow would pack what is named .gz
            stream.write(data)
        return
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    partial = _partial(path)
    with open(partial, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def write_parquet(uri: str, table: pa.Table, row_group_size: int | None = None) -> None:
    """One zstd Parquet file, replaced as a whole."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", row_group_size=row_group_size)
    write_bytes(uri, sink.getvalue())


def create_if_absent(uri: str, data: bytes) -> None:
    """Creates an object that must not exist yet.

    Raises:
        ConflictError: it exists.
    """
    if not is_s3(uri):
        Path(uri).parent.mkdir(parents=True, exist_ok=True)
        partial = _partial(uri)
        Path(partial).write_bytes(data)
        try:
            os.link(partial, uri)  # fails if the name is taken, and never shows a half-written file
        except FileExistsError as error:
            raise ConflictError(f"{uri}: exists already") from error
        finally:
            os.unlink(partial)
        return
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    try:
        s3_client().put_object(Bucket=bucket, Key=key, Body=data, IfNoneMatch="*")
    except ClientError as error:
        if error.response["Error"]["Code"] in ("PreconditionFailed", "ConditionalRequestConflict"):
            raise ConflictError(f"{uri}: exists already") from error
        raise


def delete_directory(uri: str) -> None:
    files, path = filesystem(uri)
    if files.get_file_info(path).type == pafs.FileType.Directory:
        files.delete_dir(path)


def sha256_of(path: Path) -> str:
    """sha256 of a local file, in hex."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def cache_directory() -> Path:
    """Where derived files live on this machine: SKILLFEED_CACHE, or ~/.cache/skillfeed."""
    return Path(os.environ.get("SKILLFEED_CACHE") or "~/.cache/skillfeed").expanduser()
