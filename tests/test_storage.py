from pathlib import Path

import pytest

from skillfeed.errors import ConflictError, SettingError
from skillfeed.storage import (
    create_if_absent,
    delete_directory,
    exists,
    join,
    list_files,
    parse_uri,
    read_bytes,
    write_bytes,
)


@pytest.fixture(params=["local", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path) if request.param == "local" else str(request.getfixturevalue("s3"))


def test_what_is_written_is_read(place: str) -> None:
    write_bytes(join(place, "deep", "file"), b"one")
    write_bytes(join(place, "deep", "file"), b"two")

    assert read_bytes(join(place, "deep", "file")) == b"two"


def test_a_compressed_name_is_stored_as_it_is(place: str) -> None:
    write_bytes(join(place, "rows.jsonl.gz"), b"not gzip")

    assert read_bytes(join(place, "rows.jsonl.gz")) == b"not gzip"


def test_an_object_is_created_once(place: str) -> None:
    create_if_absent(join(place, "pointer"), b"first")

    with pytest.raises(ConflictError):
        create_if_absent(join(place, "pointer"), b"second")

    assert read_bytes(join(place, "pointer")) == b"first"


def test_files_are_listed_by_path_at_any_depth(place: str) -> None:
    for name in ("b/2", "a/1", "b/deep/3"):
        write_bytes(join(place, "tree", name), b"")

    assert [info.path.split("tree/")[1] for info in list_files(join(place, "tree"))] == ["a/1", "b/2", "b/deep/3"]


def test_a_deleted_directory_is_gone_and_deleting_nothing_is_fine(place: str) -> None:
    write_bytes(join(place, "tree", "file"), b"")

    delete_directory(join(place, "tree"))
    delete_directory(join(place, "tree"))

    assert not exists(join(place, "tree", "file"))


def test_listing_what_is_not_there_names_it(place: str) -> None:
    with pytest.raises(SettingError, match="nowhere: does not exist"):
        next(list_files(join(place, "nowhere")))


@pytest.mark.parametrize("uri", ["ftp://host/x", "s3://", "http://host"])
def test_other_schemes_are_refused(uri: str) -> None:
    with pytest.raises(ValueError, match="give a local path or s3"):
        parse_uri(uri)


def test_local_paths_become_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)

    assert parse_uri("out") == str(tmp_path / "out")
    assert parse_uri("s3://bucket/out/") == "s3://bucket/out"
