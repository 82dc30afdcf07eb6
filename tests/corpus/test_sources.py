import gzip
import io
import os
import random
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skillfeed.corpus.archives import read_archive
from skillfeed.corpus.sources import list_inputs, read_input
from skillfeed.errors import SettingError
from skillfeed.records import Rejected
from skillfeed.rows import Row
from skillfeed.storage import join, write_bytes

TREE = {"a/SKILL.md": b"one", "a/notes.md": b"no skill", "b/c/skill.md": b"two", "b/data.jsonl": b"{}"}
SKILLS = [("a/SKILL.md", b"one"), ("b/c/skill.md", b"two")]


def write_tree(root: str, tree: dict[str, bytes] = TREE) -> None:
    for path, data in tree.items():
        write_bytes(join(root, path), data)


def as_zip(tree: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in tree.items():
            archive.writestr(path, data)
    return buffer.getvalue()


def as_tar(tree: dict[str, bytes], mode: str = "w") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for path, data in tree.items():
            member = tarfile.TarInfo(path)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def as_tar_gz(tree: dict[str, bytes]) -> bytes:
    return as_tar(tree, "w:gz")


def everything(source: str) -> list[tuple[str, bytes] | Row | Rejected]:
    return [item for ref in list_inputs(source) for item in read_input(ref)]


def reasons(items: list[tuple[str, bytes] | Row | Rejected]) -> list[tuple[str, str]]:
    return [(item.path, item.reason) for item in items if isinstance(item, Rejected)]


PACKERS = [(".zip", as_zip), (".tar", as_tar), (".tar.gz", as_tar_gz), (".tgz", as_tar_gz)]
packed = pytest.mark.parametrize(("suffix", "pack"), PACKERS)


def test_a_tree_gives_its_skill_files_by_path_whatever_their_case(tmp_path: Path) -> None:
    write_tree(str(tmp_path))
    refs = list_inputs(str(tmp_path))
    assert [(ref.kind, ref.path, ref.size) for ref in refs] == [
        ("skill_file", "a/SKILL.md", 3),
        ("skill_file", "b/c/skill.md", 3),
    ]
    assert everything(str(tmp_path)) == SKILLS


@packed
def test_an_archive_gives_what_the_tree_in_it_would(suffix: str, pack: Callable[..., bytes], tmp_path: Path) -> None:
    file = tmp_path / f"skills{suffix}"
    file.write_bytes(pack(TREE))
    assert everything(str(file)) == SKILLS


def test_every_kind_of_source_reads_the_same_from_s3(s3: str) -> None:
    write_tree(join(s3, "tree"))
    assert everything(join(s3, "tree")) == SKILLS
    assert everything(s3) == [(f"tree/{path}", data) for path, data in SKILLS]
    for suffix, pack in PACKERS:
        write_bytes(join(s3, f"skills{suffix}"), pack(TREE))
        assert everything(join(s3, f"skills{suffix}")) == SKILLS
    write_bytes(join(s3, "rows", "x.jsonl"), b'{"a": 1}\n{"a": 2}\n')
    assert everything(join(s3, "rows")) == [
        Row(join(s3, "rows", "x.jsonl"), 1, {"a": 1}),
        Row(join(s3, "rows", "x.jsonl"), 2, {"a": 2}),
    ]


def test_a_directory_without_skill_files_gives_its_row_files(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"a": 1}\n')
    pq.write_table(pa.table({"name": ["trip"], "downloads": [2]}), tmp_path / "y.parquet")
    (tmp_path / "manifest.json").write_text("{}")
    assert everything(str(tmp_path)) == [
        Row(str(tmp_path / "x.jsonl"), 1, {"a": 1}),
        Row(str(tmp_path / "y.parquet"), 1, {"name": "trip"}),
    ]
    assert all(ref.modified_ns > 0 and ref.source.endswith(ref.path) for ref in list_inputs(str(tmp_path)))


def test_sources_that_hold_nothing_known_are_setting_errors(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hi")
    (tmp_path / "skills.7z").write_text("hi")
    for source, message in [("gone", "does not exist"), ("", "no SKILL.md"), ("skills.7z", "not a kind of source")]:
        with pytest.raises(SettingError, match=message):
            list_inputs(str(tmp_path / source))
    with pytest.raises(SettingError, match="give a local path or s3"):
        list_inputs("ftp://host/skills")


def test_links_are_followed_inside_the_source_and_refused_outside(tmp_path: Path) -> None:
    write_tree(str(tmp_path / "in"), {"a/SKILL.md": b"one", "a/real.md": b"two"})
    write_tree(str(tmp_path / "out"), {"SKILL.md": b"secret"})
    for folder, target in [("b", "../a/real.md"), ("c", "../../out/SKILL.md"), ("d", "gone.md")]:
        (tmp_path / "in" / folder).mkdir()
        (tmp_path / "in" / folder / "SKILL.md").symlink_to(target)
    (tmp_path / "in" / "e").symlink_to(tmp_path / "out")
    (tmp_path / "in" / "loop").symlink_to(tmp_path / "in")
    items = everything(str(tmp_path / "in"))
    assert [item for item in items if isinstance(item, tuple)] == [("a/SKILL.md", b"one"), ("b/SKILL.md", b"two")]
    assert reasons(items) == [("c/SKILL.md", "path_escape"), ("d/SKILL.md", "unreadable")]


def test_a_link_counts_as_changed_when_what_it_leads_to_changed(tmp_path: Path) -> None:
    write_tree(str(tmp_path), {"a/real.md": b"one", "b/rows.data": b"{}\n"})
    (tmp_path / "a" / "SKILL.md").symlink_to("real.md")
    before = list_inputs(str(tmp_path))
    (tmp_path / "a" / "real.md").write_bytes(b"three")
    after = list_inputs(str(tmp_path))
    assert [ref.size for ref in after] == [5]
    assert before[0].modified_ns < after[0].modified_ns
    (tmp_path / "b" / "x.jsonl").symlink_to("rows.data")
    assert [ref.size for ref in list_inputs(str(tmp_path / "b"))] == [3]


def test_a_file_beyond_the_limit_is_rejected_and_never_cut(tmp_path: Path) -> None:
    write_tree(str(tmp_path), {"a/SKILL.md": b"x" * 11})
    (ref,) = list_inputs(str(tmp_path))
    assert list(read_input(ref, max_bytes=11)) == [("a/SKILL.md", b"x" * 11)]
    assert reasons(list(read_input(ref, max_bytes=10))) == [("a/SKILL.md", "too_large")]


def test_a_file_name_in_another_encoding_is_read_and_shown_as_text(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(folder)
    with open(folder + b"/SKILL.md", "wb") as file:
        file.write(b"one")
    assert everything(str(tmp_path)) == [("caf\ufffd/SKILL.md", b"one")]


@packed
def test_members_that_lead_out_of_the_archive_are_refused(
    suffix: str, pack: Callable[..., bytes], tmp_path: Path
) -> None:
    bad = ["../SKILL.md", "a/../../SKILL.md", "/etc/SKILL.md", "C:/x/SKILL.md", "a\\..\\SKILL.md", "x\\SKILL.md"]
    file = tmp_path / f"skills{suffix}"
    file.write_bytes(pack({"a/SKILL.md": b"one", **dict.fromkeys(bad, b"evil"), "b/SKILL.md": b"two"}))
    items = everything(str(file))
    assert [item for item in items if isinstance(item, tuple)] == [("a/SKILL.md", b"one"), ("b/SKILL.md", b"two")]
    assert reasons(items) == [(path, "path_escape") for path in bad]


def test_links_and_devices_in_archives_are_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        for folder, kind in [
            ("a", tarfile.SYMTYPE),
            ("b", tarfile.LNKTYPE),
            ("c", tarfile.CHRTYPE),
            ("d", tarfile.FIFOTYPE),
        ]:
            member = tarfile.TarInfo(f"{folder}/SKILL.md")
            member.type, member.linkname = kind, "/etc/passwd"
            archive.addfile(member)
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive_zip:
        link = zipfile.ZipInfo("a/SKILL.md")
        link.external_attr = 0o120777 << 16
        archive_zip.writestr(link, "/etc/passwd")
    assert {reason for _, reason in reasons(everything(str(tmp_path / "x.tar")))} == {"path_escape"}
    assert len(everything(str(tmp_path / "x.tar"))) == 4
    assert reasons(everything(str(tmp_path / "x.zip"))) == [("a/SKILL.md", "path_escape")]


def test_member_names_in_another_encoding_are_shown_as_text(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w", format=tarfile.GNU_FORMAT, encoding="latin-1") as archive:
        for name, kind in [("café/SKILL.md", tarfile.REGTYPE), ("thé/SKILL.md", tarfile.SYMTYPE)]:
            member = tarfile.TarInfo(name)
            member.type = kind
            archive.addfile(member)
    fine, refused = everything(str(tmp_path / "x.tar"))
    assert fine == ("caf\ufffd/SKILL.md", b"")
    assert isinstance(refused, Rejected)
    assert refused.path == "th\ufffd/SKILL.md"


@packed
def test_limits_on_members_and_their_size_hold(suffix: str, pack: Callable[..., bytes], tmp_path: Path) -> None:
    file = tmp_path / f"skills{suffix}"
    file.write_bytes(pack({"a/SKILL.md": b"x" * 11, "b/SKILL.md": b"ok", "c/SKILL.md": b"ok"}))
    items = list(read_archive(str(file), max_bytes=10, max_members=2))
    assert [item for item in items if isinstance(item, tuple)] == [("b/SKILL.md", b"ok")]
    assert reasons([*items]) == [("a/SKILL.md", "too_large"), (file.name, "too_many_members")]


@pytest.mark.parametrize(("suffix", "pack"), [PACKERS[0], PACKERS[2]])
def test_an_archive_that_expands_beyond_reason_is_left(suffix: str, pack: Callable[..., bytes], tmp_path: Path) -> None:
    file = tmp_path / f"bomb{suffix}"
    file.write_bytes(pack({"a/SKILL.md": b"ok", **{f"{n}/SKILL.md": bytes(1_000_000) for n in range(80)}}))
    items = list(read_archive(str(file), max_bytes=1_000_000, max_expansion=1))
    assert items[0] == ("a/SKILL.md", b"ok")
    assert reasons([*items]) == [(file.name, "archive_bomb")]


def test_an_extended_header_of_a_gigabyte_is_not_read_into_memory(tmp_path: Path) -> None:
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 1024**3
    with gzip.open(tmp_path / "x.tar.gz", "wb") as file:
        file.write(header.tobuf())
        file.write(bytes(4 * 1024**2))
    assert reasons(everything(str(tmp_path / "x.tar.gz"))) == [("x.tar.gz", "corrupt_archive")]


def many(count: int) -> dict[str, bytes]:
    source = random.Random(7)
    return {f"{n:03d}/SKILL.md": source.randbytes(600) for n in range(count)}


@pytest.mark.parametrize(("suffix", "pack"), PACKERS[1:])
def test_a_cut_archive_keeps_the_members_before_the_cut(
    suffix: str, pack: Callable[..., bytes], tmp_path: Path
) -> None:
    file = tmp_path / f"skills{suffix}"
    whole = pack(many(100))
    for cut in (len(whole) // 2, 51_200):  # the second is between two members of a plain tar
        file.write_bytes(whole[:cut])
        items = everything(str(file))
        assert [item for item in items if isinstance(item, tuple)] == list(many(100).items())[: len(items) - 1]
        assert len(items) > 20
        assert reasons(items) == [(file.name, "corrupt_archive")]


def test_a_cut_zip_and_a_file_that_is_no_archive_are_corrupt(tmp_path: Path) -> None:
    for name, data in [
        ("x.zip", as_zip(TREE)[:-30]),
        ("y.zip", b"hi"),
        ("z.tar.gz", b"hi"),
        ("w.tar", b"hi"),
        ("v.tgz", b""),
    ]:
        (tmp_path / name).write_bytes(data)
        assert reasons(everything(str(tmp_path / name))) == [(name, "corrupt_archive")]


@packed
def test_damage_anywhere_is_reported_and_never_raised(suffix: str, pack: Callable[..., bytes]) -> None:
    whole, source = pack(many(8)), random.Random(11)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, f"skills{suffix}")
        for _ in range(150):
            damaged = bytearray(whole)
            for _ in range(source.randint(1, 4)):
                damaged[source.randrange(len(damaged))] = source.randrange(256)
            file.write_bytes(damaged[: source.choice([len(whole), source.randrange(len(whole))])])
            for item in everything(str(file)):
                assert isinstance(item, (tuple, Rejected))


def test_an_encrypted_member_is_rejected(tmp_path: Path) -> None:
    data = bytearray(as_zip({"a/SKILL.md": b"one"}))
    for header, flags in [(b"PK\x03\x04", 6), (b"PK\x01\x02", 8)]:
        data[data.index(header) + flags] |= 1
    (tmp_path / "x.zip").write_bytes(data)
    assert reasons(everything(str(tmp_path / "x.zip"))) == [("a/SKILL.md", "encrypted")]


def test_two_thousand_files_are_listed_in_a_second(tmp_path: Path) -> None:
    for number in range(2_000):
        folder = tmp_path / f"{number % 100}" / f"{number}"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").touch()
    started = time.perf_counter()
    assert len(list_inputs(str(tmp_path))) == 2_000
    assert time.perf_counter() - started < 1
