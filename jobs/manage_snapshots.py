"""List, pin, roll back and prune published snapshots.

    python jobs/manage_snapshots.py --snapshots s3://corpus/snapshots                        # list, oldest first
    python jobs/manage_snapshots.py --snapshots s3://corpus/snapshots --pin 0123456789abcdef
    python jobs/manage_snapshots.py --snapshots s3://corpus/snapshots --use 0123456789abcdef  # roll back, or forward
    python jobs/manage_snapshots.py --snapshots s3://corpus/snapshots --prune 5               # keep the newest five

Pruning never deletes a pinned snapshot or the one in use. Everything asked for is done in the order above, then the
snapshots are listed.
"""

import time

from pydantic import Field

from skillfeed.indexes.snapshot import current, list_snapshots, read_manifest, set_current
from skillfeed.indexes.snapshot_retention import pin, pinned, prune, unpin
from skillfeed.job import CommandSettings, Summary, run
from skillfeed.progress import note
from skillfeed.storage import URI


class ManageSnapshots(CommandSettings):
    """List, pin, roll back and prune published snapshots."""

    snapshots: URI = Field(description="Where build_indexes publishes")
    pin: str | None = Field(None, description="Snapshot id that pruning shall keep")
    unpin: str | None = Field(None, description="Snapshot id that pruning may delete again")
    use: str | None = Field(None, description="Snapshot id to make the current one")
    prune: int | None = Field(None, ge=1, description="How many of the newest to keep")


def main(job: ManageSnapshots) -> Summary:
    started = time.monotonic()
    if job.pin:
        pin(job.snapshots, job.pin)
    if job.unpin:
        unpin(job.snapshots, job.unpin)
    if job.use:
        set_current(job.snapshots, job.use)
    deleted = prune(job.snapshots, job.prune) if job.prune else []
    ids, in_use, kept = list_snapshots(job.snapshots), current(job.snapshots), pinned(job.snapshots)
    for snapshot_id in ids:
        manifest = read_manifest(job.snapshots, snapshot_id)
        marks = " ".join(
            [*(["current"] if snapshot_id == in_use else []), *(["pinned"] if snapshot_id in kept else [])]
        )
        content = f"{manifest.skills:>10,} skills  {manifest.chunks:>12,} chunks  {manifest.models.name}"
        note(f"{snapshot_id}  {manifest.created}  {content}  {marks}".rstrip())
    rows = {"snapshots": len(ids), "pinned": len(kept), "deleted": len(deleted)}
    return Summary("manage_snapshots", job.snapshots, rows, round(time.monotonic() - started, 3))


if __name__ == "__main__":
    run(ManageSnapshots, main)
