import json
import multiprocessing
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from skillfeed import storage
from skillfeed.errors import SnapshotError
from skillfeed.indexes import dense, lexical, snapshot, snapshot_files
from skillfeed.indexes import snapshot_retention as retention
from skillfeed.indexes.snapshot import SnapshotManifest
from skillfeed.settings import load_models

SKILLS = pa.table(
    {
        "skill_id": ["aa", "bb", "cc"],
        "name": ["Budget trip", "Luxury trip", "Tax return"],
        "description": ["Cheap travel", "Five stars", "Yearly filing"],
        "body": ["# Hostels\n", "# Hotels\n", "# Forms\n"],
        "license": [None, "MIT", None],
    }
)
CHUNKS = pa.table(
    {
        "chunk_id": ["cc-0000", "aa-0000", "aa-0001", "bb-0000"],
        "skill_id": ["cc", "aa", "aa", "bb"],
        "section_path": ["Forms", "Hostels", "Hostels > Trains", "Hotels"],
        "text": ["forms", "hostels", "night trains", "hotels"],
    }
)
VECTORS = np.eye(4, dtype=np.float32)


def stage(directory: Path, marker: str = "first") -> SnapshotManifest:
    snapshot_files.write_snapshot_files(directory, SKILLS, VECTORS[:3], CHUNKS, VECTORS)
    return describe(directory, marker)


def describe(directory: Path, marker: str = "first") -> SnapshotManifest:
    return snapshot.describe_snapshot(
        directory,
        models=load_models("local"),
        retriever_fingerprint="f" * 32,
        dimension=4,
        skills=3,
        chunks=4,
        inputs={"/data/skills": marker},
    )


@pytest.fixture(scope="session")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a snapshot; copy before changing."""
    directory = tmp_path_factory.mktemp("staged") / "files"
    stage(directory)
    return directory


@pytest.fixture(params=["local", "s3"])
def snapshots(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty place for snapshots, local and on S3."""
    monkeypatch.setenv("SKILLFEED_CACHE", str(tmp_path / "cache"))
    return (
        str(tmp_path / "snapshots") if request.param == "local" else f"{request.getfixturevalue('s3')}/deep/snapshots"
    )


def published(staged: Path, snapshots: str, marker: str = "first") -> str:
    with snapshot.staging_directory(snapshots) as staging:
        shutil.copytree(staged, staging, dirs_exist_ok=True)
        return snapshot.publish(staging, snapshots, describe(staging, marker))


def test_what_was_published_is_what_is_opened(staged: Path, snapshots: str) -> None:
    snapshot_id = published(staged, snapshots)
    opened = snapshot.open_snapshot(snapshots)
    assert opened.id == snapshot_id == snapshot.current(snapshots)
    assert opened.skills.schema == snapshot_files.SKILL_SCHEMA
    assert opened.skills["body"].to_pylist() == SKILLS["body"].to_pylist()
    assert opened.chunks["skill_row"].to_pylist() == [2, 0, 0, 1]
    _, rows = dense.search(opened.chunk_index, VECTORS[[2]], 1)
    assert opened.chunks["text"][int(rows[0, 0])].as_py() == "night trains"
    assert lexical.search(lexical.open_searcher(opened.lexical), ["stars"], 3)[0][0][0] == "bb"
    assert opened.manifest.models == load_models("local")


def test_publishing_twice_changes_nothing(staged: Path, snapshots: str) -> None:
    first, second = published(staged, snapshots), published(staged, snapshots)
    assert first == second
    assert snapshot.list_snapshots(snapshots) == [first]


def test_other_inputs_make_another_snapshot_and_the_first_can_come_back(staged: Path, snapshots: str) -> None:
    first, second = published(staged, snapshots), published(staged, snapshots, "second")
    assert set(snapshot.list_snapshots(snapshots)) == {first, second}
    assert snapshot.current(snapshots) == second
    snapshot.set_current(snapshots, first)
    assert snapshot.open_snapshot(snapshots).id == first
    pointer = json.loads(storage.read_bytes(f"{snapshots}/CURRENT"))
    assert (pointer["snapshot_id"], pointer["previous"]) == (first, second)


def test_nothing_is_current_before_the_first_publication(snapshots: str) -> None:
    assert snapshot.current(snapshots) is None
    assert snapshot.list_snapshots(snapshots) == []
    with pytest.raises(SnapshotError, match="nothing is published"):
        snapshot.open_snapshot(snapshots)


def test_a_snapshot_that_is_not_there_cannot_be_opened_or_pointed_to(staged: Path, snapshots: str) -> None:
    published(staged, snapshots)
    with pytest.raises(SnapshotError, match="0123456789abcdef"):
        snapshot.open_snapshot(snapshots, "0123456789abcdef")
    with pytest.raises(SnapshotError, match="0123456789abcdef"):
        snapshot.set_current(snapshots, "0123456789abcdef")


@pytest.mark.parametrize("name", ["../../etc/passwd", "CURRENT", "", "0123456789ABCDEF"])
def test_an_id_that_is_no_id_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SnapshotError):
        snapshot.open_snapshot(str(tmp_path), name)


def test_files_that_differ_from_the_manifest_are_not_published(staged: Path, snapshots: str) -> None:
    with snapshot.staging_directory(snapshots) as staging:
        shutil.copytree(staged, staging, dirs_exist_ok=True)
        manifest = describe(staging)
        (staging / "skills.arrow").write_bytes(b"other")
        with pytest.raises(SnapshotError, match=r"skills\.arrow"):
            snapshot.publish(staging, snapshots, manifest)
    assert snapshot.list_snapshots(snapshots) == []
    assert snapshot.current(snapshots) is None


def test_what_a_killed_publisher_left_is_not_a_snapshot(staged: Path, snapshots: str) -> None:
    snapshot_id = describe(staged).snapshot_id
    if storage.is_s3(snapshots):  # the only place where files come under the final name one by one
        storage.write_bytes(f"{snapshots}/{snapshot_id}/skills.arrow", b"half")
    storage.write_bytes(f"{snapshots}/.{snapshot_id}.partial-1/skills.arrow", b"half")
    storage.write_bytes(f"{snapshots}/.staging-1/skills.arrow", b"half")
    assert snapshot.list_snapshots(snapshots) == []
    assert published(staged, snapshots) == snapshot_id
    assert snapshot.open_snapshot(snapshots).id == snapshot_id


FILES = ["skills.arrow", "chunks.arrow", "skills.faiss", "chunks.faiss", "lexical/segments_2"]


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_byte_is_refused(staged: Path, snapshots: str, name: str) -> None:
    uri = f"{snapshots}/{published(staged, snapshots)}/{name}"
    data = bytearray(storage.read_bytes(uri))
    data[len(data) // 2] ^= 1
    storage.write_bytes(uri, bytes(data))
    with pytest.raises(SnapshotError, match=f"{name}: damaged"):
        snapshot.open_snapshot(snapshots)


def test_a_missing_file_is_named(staged: Path, snapshots: str) -> None:
    uri = f"{snapshots}/{published(staged, snapshots)}/chunks.faiss"
    files, path = storage.filesystem(uri)
    files.delete_file(path)
    with pytest.raises(SnapshotError, match=r"chunks\.faiss"):
        snapshot.open_snapshot(snapshots)


def test_a_cut_file_is_named(staged: Path, snapshots: str) -> None:
    uri = f"{snapshots}/{published(staged, snapshots)}/chunks.arrow"
    storage.write_bytes(uri, storage.read_bytes(uri)[:-1])
    with pytest.raises(SnapshotError, match=r"chunks\.arrow.* bytes"):
        snapshot.open_snapshot(snapshots)


def test_a_changed_manifest_is_refused(staged: Path, snapshots: str) -> None:
    uri = f"{snapshots}/{published(staged, snapshots)}/manifest.json"
    storage.write_bytes(uri, storage.read_bytes(uri).replace(b'"dimension": 4', b'"dimension": 5'))
    with pytest.raises(SnapshotError, match=r"manifest\.json"):
        snapshot.open_snapshot(snapshots)


@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "a/../../b", "lexical/../../x", "a\\..\\b", "./x", "."])
def test_a_manifest_with_a_path_that_leaves_the_snapshot_is_refused(staged: Path, snapshots: str, path: str) -> None:
    uri = f"{snapshots}/{published(staged, snapshots)}/manifest.json"
    manifest = json.loads(storage.read_bytes(uri))
    manifest["files"][path] = manifest["files"]["skills.arrow"]
    storage.write_bytes(uri, json.dumps(manifest).encode())
    with pytest.raises(SnapshotError, match="plain path inside"):
        snapshot.open_snapshot(snapshots)


def test_a_file_that_is_not_in_the_manifest_is_refused(staged: Path, tmp_path: Path) -> None:
    snapshot_id = published(staged, str(tmp_path))
    (tmp_path / snapshot_id / "lexical" / "segments_3").write_bytes(b"newer")
    with pytest.raises(SnapshotError, match="segments_3: is not in the manifest"):
        snapshot.open_snapshot(str(tmp_path))


def test_a_link_in_place_of_a_file_is_refused(staged: Path, tmp_path: Path) -> None:
    path = tmp_path / published(staged, str(tmp_path)) / "skills.arrow"
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SnapshotError, match=r"skills\.arrow"):
        snapshot.open_snapshot(str(tmp_path))


def test_tables_are_mapped_not_read(staged: Path) -> None:
    before = pa.total_allocated_bytes()
    table = snapshot_files.map_table(staged / "skills.arrow")
    assert table["name"].num_chunks == 1
    assert pa.total_allocated_bytes() == before


def test_a_local_publication_leaves_only_the_snapshot_and_the_pointer(staged: Path, tmp_path: Path) -> None:
    snapshot_id = published(staged, str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {snapshot_id, "CURRENT", ".CURRENT.lock"}


def test_a_cached_snapshot_needs_no_network(
    staged: Path, s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKILLFEED_CACHE", str(tmp_path))
    snapshot_id = published(staged, s3)
    snapshot.open_snapshot(s3)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert snapshot.open_snapshot(s3, snapshot_id).id == snapshot_id


def test_a_damaged_cache_is_refused(staged: Path, s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLFEED_CACHE", str(tmp_path))
    snapshot.open_snapshot(s3, published(staged, s3))
    with open(next(tmp_path.glob("snapshots/*/skills.faiss")), "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\x7f")
    with pytest.raises(SnapshotError, match=r"skills\.faiss: damaged"):
        snapshot.open_snapshot(s3)


def test_a_download_killed_half_way_is_cleared(
    staged: Path, s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKILLFEED_CACHE", str(tmp_path))
    snapshot_id = published(staged, s3)
    (tmp_path / "snapshots" / f".{snapshot_id}.partial-1").mkdir(parents=True)
    snapshot.open_snapshot(s3)
    assert sorted(path.name for path in (tmp_path / "snapshots").iterdir()) == [
        snapshot_id,
        f"{snapshot_id}.lock",
        f"{snapshot_id}.verified",
    ]


def _run_together(target: Callable[..., object], arguments: list[tuple[object, ...]]) -> list[object]:
    # spawn: a forked child would inherit FAISS's stopped threads and hang
    with multiprocessing.get_context("spawn").Pool(len(arguments)) as pool:
        return pool.starmap(target, arguments)


def _open_id(snapshots: str) -> str:
    return snapshot.open_snapshot(snapshots).id


def test_publishers_at_the_same_time_all_finish_and_one_is_current(staged: Path, snapshots: str) -> None:
    ids = _run_together(published, [(staged, snapshots, marker) for marker in ("first", "first", "second", "third")])
    assert ids[0] == ids[1]
    assert set(snapshot.list_snapshots(snapshots)) == set(ids)
    assert snapshot.open_snapshot(snapshots).id in ids
    assert len(set(ids)) == 3


def test_processes_that_open_at_the_same_time_share_one_download(staged: Path, snapshots: str) -> None:
    snapshot_id = published(staged, snapshots)
    assert _run_together(_open_id, [(snapshots,)] * 3) == [snapshot_id] * 3


def test_a_chunk_of_an_unknown_skill_is_named(tmp_path: Path) -> None:
    chunks = CHUNKS.set_column(1, "skill_id", pa.array(["cc", "aa", "zz", "bb"]))
    with pytest.raises(ValueError, match="zz"):
        snapshot_files.write_snapshot_files(tmp_path / "x", SKILLS, VECTORS[:3], chunks, VECTORS)


def test_a_skill_that_comes_twice_is_refused(tmp_path: Path) -> None:
    twice = pa.concat_tables([SKILLS, SKILLS.slice(0, 1)])
    with pytest.raises(ValueError, match="comes twice"):
        snapshot_files.write_snapshot_files(tmp_path / "x", twice, VECTORS, CHUNKS, VECTORS)


def test_rows_and_vectors_must_be_as_many(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"skills: .*\[3, D\]"):
        snapshot_files.write_snapshot_files(tmp_path / "x", SKILLS, VECTORS, CHUNKS, VECTORS)


def test_tables_of_many_pieces_become_one(tmp_path: Path) -> None:
    pieces = pa.concat_tables([CHUNKS.slice(row, 1) for row in (3, 2, 1, 0)])
    snapshot_files.write_snapshot_files(tmp_path, SKILLS, VECTORS[:3], pieces, VECTORS)
    written = snapshot_files.map_table(tmp_path / "chunks.arrow")
    assert written["skill_row"].num_chunks == 1
    assert written["chunk_id"].to_pylist() == pieces["chunk_id"].to_pylist()
    assert written["skill_row"].to_pylist() == [1, 0, 0, 2]


def test_pruning_keeps_the_newest_the_pinned_and_the_current(staged: Path, snapshots: str) -> None:
    ids = [published(staged, snapshots, str(number)) for number in range(5)]
    ordered = snapshot.list_snapshots(snapshots)
    pinned_one, current_one = ordered[0], ordered[1]
    retention.pin(snapshots, pinned_one)
    snapshot.set_current(snapshots, current_one)

    deleted = retention.prune(snapshots, keep=1)

    assert set(deleted) == set(ids) - {pinned_one, current_one, ordered[-1]}
    assert snapshot.list_snapshots(snapshots) == [pinned_one, current_one, ordered[-1]]
    assert snapshot.open_snapshot(snapshots).id == current_one


def test_an_unpinned_snapshot_may_go(staged: Path, snapshots: str) -> None:
    for number in range(2):
        published(staged, snapshots, str(number))
    oldest, newest = snapshot.list_snapshots(snapshots)
    snapshot.set_current(snapshots, newest)
    retention.pin(snapshots, oldest)
    assert retention.prune(snapshots, keep=1) == []

    retention.unpin(snapshots, oldest)

    assert retention.prune(snapshots, keep=1) == [oldest]


def test_what_is_not_there_cannot_be_pinned(snapshots: str) -> None:
    with pytest.raises(SnapshotError, match="has no snapshot"):
        retention.pin(snapshots, "0" * 16)


def test_a_damaged_pointer_is_mended_by_pointing_again(staged: Path, snapshots: str) -> None:
    snapshot_id = published(staged, snapshots)
    storage.write_bytes(f"{snapshots}/CURRENT", b"\x00half")
    with pytest.raises(SnapshotError, match="not a pointer"):
        snapshot.current(snapshots)

    snapshot.set_current(snapshots, snapshot_id)

    assert snapshot.current(snapshots) == snapshot_id


def test_input_that_is_published_is_found_unless_a_file_is_gone(staged: Path, snapshots: str) -> None:
    snapshot_id = published(staged, snapshots)
    found = snapshot.find_published(snapshots, {"/data/skills": "first"})
    assert found is not None
    assert found.snapshot_id == snapshot_id
    assert snapshot.find_published(snapshots, {"/data/skills": "other"}) is None

    storage.delete_file(f"{snapshots}/{snapshot_id}/skills.faiss")

    assert snapshot.find_published(snapshots, {"/data/skills": "first"}) is None


def test_a_damaged_manifest_does_not_stop_the_search_for_others(staged: Path, snapshots: str) -> None:
    damaged, whole = published(staged, snapshots, "a"), published(staged, snapshots, "b")
    storage.write_bytes(f"{snapshots}/{damaged}/manifest.json", b"{}")

    found = snapshot.find_published(snapshots, {"/data/skills": "b"})

    assert found is not None
    assert found.snapshot_id == whole
