"""One input that cannot be read is rejected; it stops neither the listing nor its neighbours."""

import errno
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skillfeed.corpus.sources import list_inputs, read_input
from skillfeed.errors import SettingError
from skillfeed.input_files import why_unreadable
from skillfeed.records import Rejected
from skillfeed.rows import Row
from skillfeed.storage import delete_directory, join, write_bytes


def everything(source: str) -> list[tuple[str, bytes] | Row | Rejected]:
    return [item for ref in list_inputs(source) for item in read_input(ref)]


def reasons(items: list[tuple[str, bytes] | Row | Rejected]) -> list[tuple[str, str]]:
    return [(item.path, item.reason) for item in items if isinstance(item, Rejected)]


def test_links_that_lead_nowhere_or_in_circles_are_listed_and_rejected(tmp_path: Path) -> None:
    for folder, target in [
        ("a", "gone"),
        ("b", "SKILL.md"),
        ("c", "."),
        ("d", "../b/SKILL.md/below"),
        ("e", "n" * 300),
    ]:
        (tmp_path / "skills" / folder).mkdir(parents=True)
        (tmp_path / "skills" / folder / "SKILL.md").symlink_to(target)
    items = everything(str(tmp_path / "skills"))
    assert reasons(items) == [(f"{folder}/SKILL.md", "unreadable") for folder in "abcde"]
    assert [item.detail for item in items if isinstance(item, Rejected)][:3] == [
        "No such file or directory",
        "Too many levels of symbolic links",
        "not a regular file",
    ]
    (tmp_path / "rows").mkdir()
    for name in ("a.jsonl", "b.parquet", "c.jsonl.gz"):
        (tmp_path / "rows" / name).symlink_to(name)
    (tmp_path / "rows" / "d.jsonl").symlink_to("gone")
    assert reasons(everything(str(tmp_path / "rows"))) == [
        (name, "unreadable") for name in ("a.jsonl", "b.parquet", "c.jsonl.gz", "d.jsonl")
    ]


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "skill.md").symlink_to("../pipe")
    assert reasons(everything(str(tmp_path))) == [("a/skill.md", "unreadable")]


@pytest.mark.parametrize("name", ["SKILL.md", "x.jsonl", "x.jsonl.gz", "x.parquet", "x.zip", "x.tar", "x.tgz"])
def test_a_file_that_vanishes_after_it_was_listed_is_rejected(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"{}")
    source = str(tmp_path) if name == "SKILL.md" else str(tmp_path / name)
    (ref,) = list_inputs(source)
    (tmp_path / name).unlink()
    assert reasons(list(read_input(ref))) == [(name, "unreadable")]
    (tmp_path / name).mkdir()
    assert reasons(list(read_input(ref))) == [(name, "unreadable")]


@pytest.mark.parametrize("name", ["SKILL.md", "x.jsonl", "x.jsonl.gz", "x.parquet", "x.zip", "x.tar"])
def test_an_object_that_vanishes_from_s3_is_rejected(s3: str, name: str) -> None:
    write_bytes(join(s3, "in", name), b"{}")
    (ref,) = list_inputs(join(s3, "in") if name == "SKILL.md" else join(s3, "in", name))
    delete_directory(join(s3, "in"))
    assert reasons(list(read_input(ref))) == [(name, "unreadable")]


def test_only_what_is_wrong_with_one_file_makes_it_unreadable() -> None:
    forbidden = OSError("When reading 'k' in bucket 'b': AWS Error ACCESS_DENIED during HeadObject operation: no body")
    assert why_unreadable("s3://b/k", forbidden)
    assert not why_unreadable("s3://b/k", OSError("AWS Error SLOW_DOWN during GetObject operation: slow down"))
    assert not why_unreadable("s3://b/k", OSError("AWS Error NETWORK_CONNECTION during GetObject operation: curl 28"))
    assert not why_unreadable("/k", OSError(errno.EMFILE, "Too many open files"))
    assert why_unreadable("/k", OSError(errno.EIO, "Input/output error")) == "Input/output error"


def test_a_source_that_is_a_link_in_a_circle_is_a_setting_error(tmp_path: Path) -> None:
    (tmp_path / "x.zip").symlink_to("x.zip")
    with pytest.raises(SettingError, match="Too many levels"):
        list_inputs(str(tmp_path / "x.zip"))


def test_row_files_with_names_in_another_encoding_are_read_and_shown_as_text(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(folder)
    with open(folder + b"/th\xe9.jsonl", "wb") as file:
        file.write(b'{"a": 1}\n[]\n')
    pq.write_table(pa.table({"id": [1]}), tmp_path / "x.parquet")
    os.rename(tmp_path / "x.parquet", folder + b"/th\xe9.parquet")
    with open(folder + b"/x.parquet", "wb") as file:
        file.write(b"hi")
    items = everything(str(tmp_path))
    assert [item.data for item in items if isinstance(item, Row)] == [{"a": 1}, {"id": 1}]
    assert reasons(items) == [("#2", "not_an_object"), ("x.parquet", "corrupt_parquet")]
    assert {item.source for item in items if not isinstance(item, tuple)} == {
        f"{tmp_path}/caf\ufffd/{name}" for name in ("th\ufffd.jsonl", "th\ufffd.parquet", "x.parquet")
    }
