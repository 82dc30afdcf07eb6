import gzip
import json
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillfeed.corpus.text_encoding import SURROGATES
from skillfeed.errors import SettingError
from skillfeed.input_files import InputFile
from skillfeed.records import Rejected
from skillfeed.rows import MAX_LINE_BYTES, Row, parse_json, read_rows, row_splits, splits_of
from skillfeed.storage import join, write_bytes


def everything(uri: str, split_bytes: int = 64 * 1024**2, max_line_bytes: int = MAX_LINE_BYTES) -> list[Row | Rejected]:
    splits = row_splits(uri, split_bytes)
    return [item for split in splits for item in read_rows(split, max_line_bytes=max_line_bytes)]


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


def test_half_of_a_surrogate_pair_is_replaced_wherever_it_stands(tmp_path: Path) -> None:
    lines = [
        r'{"a": "\ud800", "\uDFFFkey": ["x\udc00y", {"n\ud800": 1.5}]}',
        r'{"a": "\ud83d\ude00", "b": "\\ud800", "c": NaN}',
    ]
    (tmp_path / "log.jsonl").write_text("\n".join(lines))
    first, second = (item.data for item in everything(str(tmp_path)) if isinstance(item, Row))
    assert first == {"a": "\ufffd", "\ufffdkey": ["x\ufffdy", {"n\ufffd": 1.5}]}
    assert (second["a"], second["b"], str(second["c"])) == ("😀", r"\ud800", "nan")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(), max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(json_values)
def test_what_json_gives_can_be_stored_and_is_else_as_it_was(value: Any) -> None:
    text = json.dumps(value)
    parsed = parse_json(text)
    assert json.dumps(parsed, ensure_ascii=False).encode()
    if not SURROGATES.search(json.dumps(value, ensure_ascii=False)):
        assert parsed == value


def invalid_texts(*texts: bytes) -> pa.Array:
    return pa.array(texts, pa.binary()).cast(pa.string(), safe=False)


def test_a_bad_parquet_value_costs_its_row_and_no_other(tmp_path: Path) -> None:
    count = 600
    pq.write_table(
        pa.table(
            {
                "text": invalid_texts(*[b"\xff" if number == 3 else b"ok" for number in range(count)]),
                "date": pa.array([2**31 - 1 if number == 5 else None for number in range(count)], pa.date32()),
                "time": pa.array([2**62 if number == 7 else 1 for number in range(count)], pa.timestamp("ms")),
                "span": pa.array([2**62 if number == 9 else 1 for number in range(count)], pa.duration("s")),
                "zone": pa.array(
                    [1 if number == 400 else None for number in range(count)], pa.timestamp("s", "No/Where")
                ),
            }
        ),
        tmp_path / "log.parquet",
    )
    items = everything(str(tmp_path))
    assert reasons(items) == dict.fromkeys(["#4", "#6", "#8", "#10", "#401"], "bad_value")
    assert numbers(items) == [number for number in range(1, count + 1) if number not in (4, 6, 8, 10, 401)]
    details = [item.detail.split(":")[0] for item in items if isinstance(item, Rejected)]
    assert details[0] == "column text (string)"
    assert all(json.dumps(item.model_dump()) for item in items if isinstance(item, Rejected))


def test_only_the_columns_asked_for_are_read(tmp_path: Path) -> None:
    broken = invalid_texts(b"\xff", b"\xff")
    pq.write_table(pa.table({"a": [1, 2], "b": [{"c": 1}, None], "unused": broken}), tmp_path / "log.parquet")
    (split,) = row_splits(str(tmp_path))
    rows = [item.data for item in read_rows(split, {"a", "b", "absent"}) if isinstance(item, Row)]
    assert rows == [{"a": 1, "b": {"c": 1}}, {"a": 2, "b": None}]
    assert [item.data for item in read_rows(split, {"absent"}) if isinstance(item, Row)] == [{}, {}]
    (tmp_path / "x.jsonl").write_text('{"a": 1, "d": 2}')
    (line,) = read_rows(row_splits(str(tmp_path / "x.jsonl"))[0], {"a"})
    assert isinstance(line, Row)
    assert line.data == {"a": 1, "d": 2}


def test_damage_anywhere_in_a_parquet_file_is_reported_and_never_raised(tmp_path: Path) -> None:
    file, source = tmp_path / "log.parquet", Random(5)
    pq.write_table(pa.table({"a": [str(n) for n in range(200)], "b": [{"c": ["x"]}] * 200}), file, row_group_size=50)
    whole = file.read_bytes()
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(source.randint(1, 4)):
            damaged[source.randrange(len(damaged))] = source.randrange(256)
        file.write_bytes(damaged[: source.choice([len(whole), source.randrange(len(whole))])])
        assert all(isinstance(item, (Row, Rejected)) for item in everything(str(file), split_bytes=500))


@pytest.mark.parametrize("name", ["log.jsonl", "log.jsonl.gz", "log.parquet"])
def test_a_file_that_cannot_be_read_is_one_rejected_entry_and_its_neighbours_live(name: str, tmp_path: Path) -> None:
    (tmp_path / name).symlink_to("gone")
    (tmp_path / "z.jsonl").write_text('{"a": 1}\n')
    items = everything(str(tmp_path), split_bytes=1)
    assert reasons(items) == {name: "unreadable"}
    assert [item.data for item in items if isinstance(item, Row)] == [{"a": 1}]


def test_a_file_that_could_not_be_read_when_it_was_split_is_read_whole_when_it_can(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").symlink_to("rows")
    (tmp_path / "b.parquet").symlink_to("table")
    splits = row_splits(str(tmp_path))
    (tmp_path / "rows").write_text('{"a": 1}\n{"a": 2}\n')
    pq.write_table(pa.table({"a": [3, 4]}), tmp_path / "table", row_group_size=1)
    rows = [item.data["a"] for split in splits for item in read_rows(split) if isinstance(item, Row)]
    assert rows == [1, 2, 3, 4]


def test_a_long_file_that_vanishes_while_it_is_split_is_one_piece(tmp_path: Path) -> None:
    gone = InputFile(str(tmp_path / "log.jsonl"), "log.jsonl", 1_000_000, 1)
    (split,) = splits_of(gone, split_bytes=10)
    assert reasons(list(read_rows(split))) == {"log.jsonl": "unreadable"}


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
