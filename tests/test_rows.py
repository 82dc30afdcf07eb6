import gzip
import json
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillfeed.errors import SettingError
from skillfeed.records import Rejected
from skillfeed.rows import Row, read_rows, row_splits
from skillfeed.storage import join, write_bytes


def everything(uri: str, split_bytes: int = 64 * 1024**2, **options: int) -> list[Row | Rejected]:
    return [item for split in row_splits(uri, split_bytes) for item in read_rows(split, **options)]


def numbers(items: list[Row | Rejected]) -> list[int]:
    return [item.number for item in items if isinstance(item, Row)]


def reasons(items: list[Row | Rejected]) -> dict[str, str]:
    return {item.path: item.reason for item in items if isinstance(item, Rejected)}


def test_good_lines_survive_bad_neighbours_and_keep_their_numbers(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    file.write_bytes(
        b'\xef\xbb\xbf{"a": 1}\r\n\n{"a": "\xff"}\n{"a": \n[1]\n{"a": 2}\n' + b"[" * 100_000 + b'\n{"a": 3}'
    )
    items = everything(str(file))
    assert numbers(items) == [1, 6, 8]
    assert reasons(items) == {"#3": "not_utf8", "#4": "not_json", "#5": "not_an_object", "#7": "not_json"}
    assert [item.data["a"] for item in items if isinstance(item, Row)] == [1, 2, 3]


def test_a_line_beyond_the_limit_is_one_rejected_row(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    file.write_text('{"a": 1}\n{"a": "' + "x" * 5000 + '"}\n{"a": 2}\n')
    items = everything(str(file), max_line_bytes=100)
    assert numbers(items) == [1, 3]
    assert reasons(items) == {"#2": "line_too_long"}


@settings(max_examples=60, deadline=None)
@given(
    lines=st.lists(st.sampled_from(['{"a": 1}', "", "not json", '{"long": "' + "y" * 40 + '"}']), max_size=30),
    split_bytes=st.integers(1, 120),
    newline_at_end=st.booleans(),
)
def test_however_a_file_is_cut_the_same_rows_come_out(lines: list[str], split_bytes: int, newline_at_end: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "log.jsonl")
        file.write_text("\n".join(lines) + ("\n" if newline_at_end else ""))
        splits = row_splits(str(file), split_bytes)
        assert [item for split in splits for item in read_rows(split)] == everything(str(file))
        assert sum(split.size for split in splits) == file.stat().st_size


def test_cuts_fall_near_the_asked_size(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    file.write_text('{"a": 1}\n' * 10_000)  # 90,000 bytes
    assert [split.first_row for split in row_splits(str(file), 30_000)] == [1, 3335, 6669]


def test_compressed_lines_are_one_piece_and_a_cut_file_keeps_what_came_before(tmp_path: Path) -> None:
    whole = gzip.compress(
        b"".join(json.dumps({"a": number, "pad": str(number**30)}).encode() + b"\n" for number in range(2000))
    )
    (tmp_path / "a.jsonl.gz").write_bytes(whole)
    (tmp_path / "b.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    good, cut = row_splits(str(tmp_path), split_bytes=100)
    assert len(list(read_rows(good))) == 2000
    *rows, last = read_rows(cut)
    assert 500 < len(rows) < 1500
    assert isinstance(last, Rejected)
    assert (last.reason, last.path) == ("corrupt_gzip", f"#{len(rows) + 1}")


def test_parquet_is_cut_by_row_groups_with_row_numbers_of_the_file(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": list(range(1000))}), tmp_path / "log.parquet", row_group_size=300)
    splits = row_splits(str(tmp_path / "log.parquet"), split_bytes=1)
    assert [(split.start, split.end, split.first_row) for split in splits] == [
        (0, 1, 1),
        (1, 2, 301),
        (2, 3, 601),
        (3, 4, 901),
    ]
    rows = [item for split in splits for item in read_rows(split)]
    assert numbers(rows) == list(range(1, 1001))
    assert rows == everything(str(tmp_path / "log.parquet"))


def test_a_damaged_parquet_file_is_one_rejected_entry(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": list(range(1000))}), tmp_path / "log.parquet", row_group_size=100)
    whole = (tmp_path / "log.parquet").read_bytes()
    (tmp_path / "log.parquet").write_bytes(whole[:-20])
    assert reasons(everything(str(tmp_path))) == {"log.parquet": "corrupt_parquet"}
    (tmp_path / "log.parquet").write_bytes(whole[: len(whole) // 3] + b"\xff" * 200 + whole[len(whole) // 3 + 200 :])
    items = everything(str(tmp_path))
    assert list(reasons(items).values()) == ["corrupt_parquet"]
    assert numbers(items) == list(range(1, len(items)))


def test_files_without_rows_are_fine(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"")
    pq.write_table(pa.table({"a": pa.array([], pa.int64())}), tmp_path / "b.parquet")
    assert everything(str(tmp_path)) == []


def test_a_directory_without_row_files_is_a_setting_error(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"no \.jsonl"):
        row_splits(str(tmp_path))


def test_rows_come_from_s3_in_the_same_pieces(s3: str, tmp_path: Path) -> None:
    data = b'{"a": 1}\n' * 100
    write_bytes(join(s3, "logs", "x.jsonl"), data)
    write_bytes(join(s3, "logs", "y.jsonl.gz"), gzip.compress(data))
    write_bytes(join(s3, "logs", "note.txt"), b"not a log")
    splits = row_splits(join(s3, "logs"), split_bytes=450)
    assert [split.uri.rsplit("/", 1)[1] for split in splits] == ["x.jsonl", "x.jsonl", "y.jsonl.gz"]
    assert numbers([item for split in splits[:2] for item in read_rows(split)]) == list(range(1, 101))
    assert len(list(read_rows(splits[2]))) == 100
