"""What a snapshot says about itself: the manifest, its content-derived id, and the check of files against it."""

import hashlib
import json
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

import skillfeed
from skillfeed import storage
from skillfeed.errors import SnapshotError
from skillfeed.settings import ModelSettings, describe

MANIFEST = "manifest.json"
SNAPSHOT_ID = re.compile(r"[0-9a-f]{16}")


def _inside(path: str) -> str:
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or "\\" in path or str(pure) != path or path in (".", MANIFEST):
        raise ValueError(f"'{path}' is not a plain path inside the snapshot")
    return path


class FileEntry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    size: int = Field(ge=0, description="Bytes")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class SnapshotManifest(BaseModel):
    """Everything needed to tell what a snapshot holds, what it was made from, and whether it is whole."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    snapshot_id: str = Field(description="16 hex digits from all the rest but `created`")
    created: str = Field(description="ISO 8601, UTC")
    code_version: str
    models: ModelSettings = Field(description="With the chunker's settings and the expected sha256 of weights")
    retriever_fingerprint: str = Field(description="Of weights and everything that changes a vector")
    dimension: int = Field(gt=0)
    skills: int = Field(ge=0)
    chunks: int = Field(ge=0)
    inputs: dict[str, str] = Field(description="Input URI to its fingerprint")
    files: dict[Annotated[str, AfterValidator(_inside)], FileEntry]


def describe_snapshot(
    staging: Path,
    *,
    models: ModelSettings,
    retriever_fingerprint: str,
    dimension: int,
    skills: int,
    chunks: int,
    inputs: Mapping[str, str],
) -> SnapshotManifest:
    """The manifest of the files in a staging directory; reads each file once.

    The id is the same for the same files, models and inputs. Lucene writes random ids into its files, so building
    again gives another id; publishing the same directory again does not.
    """
    manifest = SnapshotManifest(
        snapshot_id="",
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        code_version=skillfeed.__version__,
        models=models,
        retriever_fingerprint=retriever_fingerprint,
        dimension=dimension,
        skills=skills,
        chunks=chunks,
        inputs=dict(inputs),
        files=_entries(staging, files_in(staging)),
    )
    return manifest.model_copy(update={"snapshot_id": snapshot_id_of(manifest)})


def snapshot_id_of(manifest: SnapshotManifest) -> str:
    """16 hex digits of the sha256 of the manifest without its id and time."""
    content = manifest.model_dump(mode="json", exclude={"snapshot_id", "created"})
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def parse_manifest(data: bytes, where: str, snapshot_id: str) -> SnapshotManifest:
    """A manifest as read, held against the id under which it was found.

    Raises:
        SnapshotError: not a manifest, a path that leaves the snapshot, or content that does not give this id.
    """
    try:
        manifest = SnapshotManifest.model_validate_json(data)
    except ValidationError as error:
        raise SnapshotError(f"{where}: not a manifest this version reads: {describe(error)}") from error
    if not manifest.snapshot_id == snapshot_id == snapshot_id_of(manifest):
        raise SnapshotError(f"{where}: not the manifest of {snapshot_id}; it was changed, publish it again")
    return manifest


def check_id(snapshot_id: str, where: str) -> str:
    if not SNAPSHOT_ID.fullmatch(snapshot_id):
        raise SnapshotError(f"{where}: '{snapshot_id}' is not a snapshot id (16 hex digits)")
    return snapshot_id


def files_in(directory: Path) -> list[str]:
    """Paths inside the directory of everything but folders and the manifest, sorted."""
    files = (path for path in directory.rglob("*") if path.is_symlink() or not path.is_dir())
    return sorted(name for name in (path.relative_to(directory).as_posix() for path in files) if name != MANIFEST)


def check_files(directory: Path, manifest: SnapshotManifest) -> None:
    """Reads every file and compares it with the manifest, on as many threads as there are CPUs.

    Raises:
        SnapshotError: a file is missing, not in the manifest, a link, of another size or content. Names the first.
    """
    present = set(files_in(directory))
    for name in sorted(present ^ manifest.files.keys()):
        problem = "is not in the manifest" if name in present else "is missing"
        raise SnapshotError(f"{directory / name}: {problem}; delete this snapshot and publish or download it again")
    for name, entry in manifest.files.items():
        path = directory / name
        if path.is_symlink() or path.stat().st_size != entry.size:
            raise SnapshotError(f"{path}: {path.lstat().st_size} bytes, not {entry.size}; publish it again")
    for name, found in _entries(directory, list(manifest.files)).items():
        if found != manifest.files[name]:
            raise SnapshotError(f"{directory / name}: damaged, its sha256 is not the manifest's; publish it again")


def _entries(directory: Path, names: list[str]) -> dict[str, FileEntry]:
    def entry(name: str) -> FileEntry:
        path = directory / name
        return FileEntry(size=path.stat().st_size, sha256=storage.sha256_of(path))

    with ThreadPoolExecutor() as pool:
        return dict(zip(names, pool.map(entry, names), strict=True))
