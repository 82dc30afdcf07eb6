"""`CURRENT`, the pointer to the snapshot in use: read by routers, changed only by a conditional write."""

import fcntl
import json
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from skillfeed import storage
from skillfeed.errors import ConflictError, SnapshotError
from skillfeed.indexes.snapshot_manifest import MANIFEST, check_id
from skillfeed.progress import note

POINTER = "CURRENT"
ATTEMPTS = 30  # each lost attempt means that another publisher has won one
_LOST = ("PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey", "404", "409", "412")


def current(snapshots: str) -> str | None:
    """The id of the snapshot in use; None where nothing was published.

    Raises:
        SnapshotError: the pointer is not one.
    """
    uri = storage.join(snapshots, POINTER)
    return _id_in(storage.read_bytes(uri), uri) if storage.exists(uri) else None


def set_current(snapshots: str, snapshot_id: str) -> None:
    """Points to a published snapshot; also the way back to an earlier one. The pointer names the one it replaced.

    Of writers at the same time each succeeds, one after the other; the last one stays.

    Raises:
        SnapshotError: no such snapshot.
        ConflictError: 30 attempts lost against other writers.
    """
    check_id(snapshot_id, snapshots)
    if not storage.exists(storage.join(snapshots, snapshot_id, MANIFEST)):
        raise SnapshotError(f"{snapshots}: has no snapshot {snapshot_id}; list_snapshots names those there")
    if storage.is_s3(snapshots):
        _set_on_s3(snapshots, snapshot_id)
    else:
        _set_locally(snapshots, snapshot_id)


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Holds the lock file, waiting for it; the system frees it when the process dies, however it dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _set_locally(snapshots: str, snapshot_id: str) -> None:
    with file_lock(Path(snapshots) / f".{POINTER}.lock"):
        uri = storage.join(snapshots, POINTER)
        previous = _previous(storage.read_bytes(uri), uri) if storage.exists(uri) else None
        if previous != snapshot_id:
            storage.write_bytes(storage.join(snapshots, POINTER), _pointer(snapshot_id, previous))


def _set_on_s3(snapshots: str, snapshot_id: str) -> None:
    uri = storage.join(snapshots, POINTER)
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    client = storage.s3_client()
    for _ in range(ATTEMPTS):
        previous, condition = _read_on_s3(client, bucket, key)
        if previous == snapshot_id:
            return
        try:
            client.put_object(Bucket=bucket, Key=key, Body=_pointer(snapshot_id, previous), **condition)
            return
        except ClientError as error:
            if error.response["Error"]["Code"] not in _LOST:
                raise
        time.sleep(random.uniform(0.02, 0.2))
    raise ConflictError(f"{uri}: other publishers won {ATTEMPTS} times in a row; run set_current again")


def _read_on_s3(client: Any, bucket: str, key: str) -> tuple[str | None, dict[str, str]]:
    """The id in the pointer, and the condition under which it is still that."""
    try:
        answer = client.get_object(Bucket=bucket, Key=key)
    except client.exceptions.NoSuchKey:
        return None, {"IfNoneMatch": "*"}
    return _previous(answer["Body"].read(), f"s3://{bucket}/{key}"), {"IfMatch": answer["ETag"]}


def _pointer(snapshot_id: str, previous: str | None) -> bytes:
    changed = datetime.now(UTC).isoformat(timespec="seconds")
    return json.dumps({"snapshot_id": snapshot_id, "previous": previous, "changed": changed}).encode()


def _previous(data: bytes, where: str) -> str | None:
    """The id that is to be replaced; None for a damaged pointer, which replacing it mends."""
    try:
        return _id_in(data, where)
    except SnapshotError as error:
        note(f"replacing: {error}")
        return None


def _id_in(data: bytes, where: str) -> str:
    try:
        return check_id(str(json.loads(data)["snapshot_id"]), where)
    except (ValueError, KeyError, TypeError) as error:
        raise SnapshotError(f"{where}: not a pointer to a snapshot; set it by set_current") from error
