"""Which published snapshots stay: the newest, the pinned, and always the one in use.

A pin is an object `<snapshots>/PINS/<snapshot id>`. Deleting takes the manifest first: without it a directory is no
snapshot, so a kill half way leaves nothing that could be opened.
"""

from skillfeed import storage
from skillfeed.errors import SnapshotError
from skillfeed.indexes.snapshot import current, list_snapshots
from skillfeed.indexes.snapshot_manifest import MANIFEST, check_id

PINS = "PINS"


def pin(snapshots: str, snapshot_id: str) -> None:
    """Keeps a snapshot whatever is pruned.

    Raises:
        SnapshotError: no such snapshot.
    """
    if check_id(snapshot_id, snapshots) not in list_snapshots(snapshots):
        raise SnapshotError(f"{snapshots}: has no snapshot {snapshot_id} to pin")
    storage.write_bytes(storage.join(snapshots, PINS, snapshot_id), b"")


def unpin(snapshots: str, snapshot_id: str) -> None:
    storage.delete_file(storage.join(snapshots, PINS, check_id(snapshot_id, snapshots)))


def pinned(snapshots: str) -> set[str]:
    directory = storage.join(snapshots, PINS)
    return {info.base_name for info in storage.list_files(directory)} if storage.exists(directory) else set()


def prune(snapshots: str, keep: int) -> list[str]:
    """Deletes all but the newest `keep`, the pinned and the current snapshot; gives the ids deleted, oldest first.

    The pointer is read again before each deletion. A rollback to a snapshot in the very moment it is deleted is the one
    race left: pin what you may roll back to.
    """
    candidates = list_snapshots(snapshots)
    deleted = []
    for snapshot_id in candidates[: max(0, len(candidates) - keep)]:
        if snapshot_id != current(snapshots) and snapshot_id not in pinned(snapshots):
            storage.delete_file(storage.join(snapshots, snapshot_id, MANIFEST))
            storage.delete_directory(storage.join(snapshots, snapshot_id))
            deleted.append(snapshot_id)
    return deleted
