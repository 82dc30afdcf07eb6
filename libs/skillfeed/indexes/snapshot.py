"""Snapshots: immutable, verified, versioned directories with everything a router needs.

`<snapshots>/<snapshot_id>/` holds the files of `snapshot_files` and `manifest.json`, which comes last: a directory
without it is no snapshot, so what a killed publisher leaves behind is never seen. `<snapshots>/CURRENT` points to the
one in use. The id is made from the hashes of the files, so two publishers of one id write equal files.
"""

import errno
import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.fs as pafs

from skillfeed import __version__, storage
from skillfeed.errors import ConflictError, SettingError, SnapshotError
from skillfeed.indexes import dense, snapshot_files
from skillfeed.indexes.snapshot_manifest import (
    MANIFEST,
    SNAPSHOT_ID,
    SnapshotManifest,
    check_files,
    check_id,
    describe_snapshot,
    parse_manifest,
)
from skillfeed.indexes.snapshot_pointer import current, file_lock, set_current
from skillfeed.progress import note

__all__ = [
    "Snapshot",
    "SnapshotManifest",
    "current",
    "describe_snapshot",
    "find_published",
    "list_snapshots",
    "open_snapshot",
    "publish",
    "read_manifest",
    "set_current",
    "staging_directory",
]


@dataclass(frozen=True)
class Snapshot:
    """An open snapshot. Tables and indexes are pages of files, shared by the processes of a node."""

    id: str
    manifest: SnapshotManifest
    skills: pa.Table  # snapshot_files.SKILL_SCHEMA
    chunks: pa.Table  # snapshot_files.CHUNK_SCHEMA
    skill_index: dense.SearchableIndex  # row i is row i of skills
    chunk_index: dense.SearchableIndex  # row i is row i of chunks
    lexical: Path  # for lexical.open_searcher, which starts Java


@contextmanager
def staging_directory(snapshots: str) -> Iterator[Path]:
    """An empty directory from which `publish` can move; removed at the end with what is left in it."""
    if storage.is_s3(snapshots):
        path = Path(tempfile.mkdtemp(prefix="skillfeed-snapshot-"))
    else:
        path = Path(snapshots) / f".staging-{uuid.uuid4().hex}"
        try:
            path.mkdir(parents=True)
        except OSError as error:
            raise SettingError(f"snapshots: {snapshots} cannot be written: {error}") from error
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def publish(staging: Path, snapshots: str, manifest: SnapshotManifest) -> str:
    """Checks the staged files, makes them visible as a snapshot, then points CURRENT to it; returns its id.

    Locally the directory itself is moved where it lies on the same filesystem. A snapshot that is there already is
    only pointed to.

    Raises:
        SnapshotError: the files are not those of the manifest.
        ConflictError: other publishers kept the pointer busy; the snapshot is there, run `set_current`.
    """
    check_files(staging, parse_manifest(_bytes_of(manifest), str(staging), manifest.snapshot_id))
    target = storage.join(snapshots, manifest.snapshot_id)
    if not storage.exists(storage.join(target, MANIFEST)):
        if storage.is_s3(snapshots):
            _upload(staging, target, manifest)
        else:
            _move(staging, Path(target), manifest)
    set_current(snapshots, manifest.snapshot_id)
    return manifest.snapshot_id


def list_snapshots(snapshots: str) -> list[str]:
    """Ids of the whole snapshots there, by the time they were published."""
    files, path = storage.filesystem(snapshots)
    inside = files.get_file_info(pafs.FileSelector(path, allow_not_found=True))
    ids = [info.base_name for info in inside if SNAPSHOT_ID.fullmatch(info.base_name)]
    manifests = files.get_file_info([f"{path}/{name}/{MANIFEST}" for name in ids]) if ids else []
    whole = [(info.mtime, name) for info, name in zip(manifests, ids, strict=True) if info.type == pafs.FileType.File]
    return [name for _, name in sorted(whole)]


def find_published(snapshots: str, inputs: Mapping[str, str]) -> SnapshotManifest | None:
    """The newest snapshot that this version of the code made from these inputs, if all its files are there."""
    for snapshot_id in reversed(list_snapshots(snapshots)):
        try:
            manifest = read_manifest(snapshots, snapshot_id)
        except SnapshotError as error:
            note(f"passed over: {error}")
            continue
        same = manifest.inputs == inputs and manifest.code_version == __version__
        if same and _has_all_files(snapshots, manifest):
            return manifest
    return None


def _has_all_files(snapshots: str, manifest: SnapshotManifest) -> bool:
    """Whether every file is there in its size; what is in them is checked when it is opened."""
    files, root = storage.filesystem(storage.join(snapshots, manifest.snapshot_id))
    found = files.get_file_info([f"{root}/{name}" for name in manifest.files])
    return all(info.size == entry.size for info, entry in zip(found, manifest.files.values(), strict=True))


def read_manifest(snapshots: str, snapshot_id: str) -> SnapshotManifest:
    """What a snapshot says about itself; its files are not looked at.

    Raises:
        SnapshotError: no such snapshot, or its manifest was changed.
    """
    uri = storage.join(snapshots, check_id(snapshot_id, snapshots), MANIFEST)
    if not storage.exists(uri):
        raise SnapshotError(f"{uri}: does not exist; {snapshots} has no whole snapshot {snapshot_id}")
    return parse_manifest(storage.read_bytes(uri), uri, snapshot_id)


def open_snapshot(
    snapshots: str, snapshot_id: str | None = None, *, device: Literal["cpu", "cuda"] = "cpu"
) -> Snapshot:
    """A verified snapshot, the current one unless named.

    A local one is hashed at every opening. One on S3 is downloaded once a node to the cache directory, verified
    there, and hashed again only when a file's size or time has changed.

    Raises:
        SnapshotError: nothing published, no such snapshot, or a damaged one; names the file.
    """
    chosen = snapshot_id or current(snapshots)
    if chosen is None:
        raise SnapshotError(f"{snapshots}: nothing is published there; run build_indexes.py")
    if storage.is_s3(snapshots):
        directory, manifest = _cached(snapshots, check_id(chosen, snapshots))
    else:
        directory, manifest = Path(snapshots) / chosen, read_manifest(snapshots, chosen)
        check_files(directory, manifest)
    snapshot = Snapshot(
        id=chosen,
        manifest=manifest,
        skills=snapshot_files.map_table(directory / snapshot_files.SKILLS),
        chunks=snapshot_files.map_table(directory / snapshot_files.CHUNKS),
        skill_index=dense.open_index(directory / snapshot_files.SKILL_INDEX, device),
        chunk_index=dense.open_index(directory / snapshot_files.CHUNK_INDEX, device),
        lexical=directory / snapshot_files.LEXICAL,
    )
    _check_counts(directory, snapshot)
    return snapshot


def _check_counts(directory: Path, snapshot: Snapshot) -> None:
    manifest = snapshot.manifest
    pairs = (
        (snapshot_files.SKILLS, snapshot.skills.num_rows, manifest.skills),
        (snapshot_files.SKILL_INDEX, snapshot.skill_index.rows, manifest.skills),
        (snapshot_files.CHUNKS, snapshot.chunks.num_rows, manifest.chunks),
        (snapshot_files.CHUNK_INDEX, snapshot.chunk_index.rows, manifest.chunks),
        (snapshot_files.SKILL_INDEX, snapshot.skill_index.dimension, manifest.dimension),
        (snapshot_files.CHUNK_INDEX, snapshot.chunk_index.dimension, manifest.dimension),
    )
    for name, found, expected in pairs:
        if found != expected:
            raise SnapshotError(f"{directory / name}: holds {found}, the manifest says {expected}; build it again")


def _move(staging: Path, target: Path, manifest: SnapshotManifest) -> None:
    """By one rename, so that the final name never shows a part of it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.partial-{uuid.uuid4().hex}")
    try:
        try:
            os.rename(staging, partial)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            shutil.copytree(staging, partial)
        (partial / MANIFEST).write_bytes(_bytes_of(manifest))
        for name in (*manifest.files, MANIFEST):
            with open(partial / name, "rb") as file:
                os.fsync(file.fileno())
        try:
            os.rename(partial, target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise  # else another publisher of the same files came first
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _upload(staging: Path, target: str, manifest: SnapshotManifest) -> None:
    """boto3 sends a checksum with each part, which the server compares; the sizes are asked back."""
    client = storage.s3_client()
    bucket, _, prefix = target.removeprefix("s3://").partition("/")
    for name, entry in manifest.files.items():
        client.upload_file(str(staging / name), bucket, f"{prefix}/{name}")
        size = client.head_object(Bucket=bucket, Key=f"{prefix}/{name}")["ContentLength"]
        if size != entry.size:
            raise SnapshotError(f"{target}/{name}: {size} bytes arrived of {entry.size}; publish again")
    try:
        storage.create_if_absent(storage.join(target, MANIFEST), _bytes_of(manifest))
    except ConflictError:
        return  # another publisher of the same files came first, so the snapshot is whole


def _cached(snapshots: str, snapshot_id: str) -> tuple[Path, SnapshotManifest]:
    """The verified local copy; of the processes of a node one downloads and the others wait."""
    cache = storage.cache_directory() / "snapshots"
    directory, marker = cache / snapshot_id, cache / f"{snapshot_id}.verified"
    with file_lock(cache / f"{snapshot_id}.lock"):
        for leftover in cache.glob(f".{snapshot_id}.partial-*"):  # of a killed process: the lock is ours
            shutil.rmtree(leftover)
        if not directory.exists():
            manifest = read_manifest(snapshots, snapshot_id)
            _download(storage.join(snapshots, snapshot_id), directory, manifest)
        else:
            manifest = read_manifest(str(cache), snapshot_id)
            if marker.exists() and json.loads(marker.read_bytes()) == _stamps(directory, manifest):
                return directory, manifest
            check_files(directory, manifest)
        storage.write_bytes(str(marker), json.dumps(_stamps(directory, manifest)).encode())
    return directory, manifest


def _download(source: str, directory: Path, manifest: SnapshotManifest) -> None:
    client = storage.s3_client()
    bucket, _, prefix = source.removeprefix("s3://").partition("/")
    partial = directory.with_name(f".{directory.name}.partial-{uuid.uuid4().hex}")
    try:
        for name in manifest.files:
            (partial / name).parent.mkdir(parents=True, exist_ok=True)
            try:
                client.download_file(bucket, f"{prefix}/{name}", str(partial / name))
            except client.exceptions.ClientError as error:
                raise SnapshotError(f"{source}/{name}: cannot be downloaded: {error}") from error
        check_files(partial, manifest)
        (partial / MANIFEST).write_bytes(_bytes_of(manifest))
        os.rename(partial, directory)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _stamps(directory: Path, manifest: SnapshotManifest) -> dict[str, list[int] | None]:
    """Size and time of each file, in nanoseconds; null for one that is gone."""
    paths = {name: directory / name for name in manifest.files}
    return {name: _stamp(path.stat()) if path.exists() else None for name, path in paths.items()}


def _stamp(status: os.stat_result) -> list[int]:
    return [status.st_size, status.st_mtime_ns, status.st_ino]


def _bytes_of(manifest: SnapshotManifest) -> bytes:
    return manifest.model_dump_json(indent=2).encode()
