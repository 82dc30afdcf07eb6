from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from skillfeed.partitions import (
    part_rows,
    partition_count,
    partition_of,
    read_pieces,
    read_table,
    write_part,
    write_pieces,
)

SCHEMA = pa.schema([("digest", pa.string()), ("value", pa.int64())])


@given(st.lists(st.text("0123456789abcdef", min_size=16, max_size=16), min_size=1), st.integers(1, 256))
def test_partitions_are_ascending_ranges_of_the_hash(digests: list[str], count: int) -> None:
    numbers = partition_of(sorted(digests), count)

    assert np.all(np.diff(numbers) >= 0)
    assert numbers.min() >= 0
    assert numbers.max() < count


def test_partition_count_is_at_least_one_and_bounded() -> None:
    assert [partition_count(size, 10) for size in (0, 10, 11, 10**9)] == [1, 1, 2, 256]


def test_pieces_of_several_units_meet_in_their_partition(tmp_path: Path) -> None:
    low, high = "00000000aa", "ffffffffaa"
    (tmp_path / "owner").touch()
    table = str(tmp_path / "table")
    write_pieces(table, pa.table([[low, high], [1, 2]], schema=SCHEMA), "digest", 2, "00000")
    write_pieces(table, pa.table([[high], [3]], schema=SCHEMA), "digest", 2, "00001")

    assert read_pieces(table, "00000", SCHEMA).column("value").to_pylist() == [1]
    assert read_pieces(table, "00001", SCHEMA).column("value").to_pylist() == [2, 3]


def test_a_partition_nobody_wrote_is_empty(tmp_path: Path) -> None:
    (tmp_path / "owner").touch()

    assert len(read_pieces(str(tmp_path / "table"), "00007", SCHEMA)) == 0


def test_a_table_is_its_parts_in_order(tmp_path: Path) -> None:
    write_part(str(tmp_path), "00001", pa.table([["b"], [2]], schema=SCHEMA))
    write_part(str(tmp_path), "00000", pa.table([["a", "a"], [0, 1]], schema=SCHEMA))

    assert read_table(str(tmp_path), ["value"]).column("value").to_pylist() == [0, 1, 2]
    assert part_rows(str(tmp_path)) == {"00000": 2, "00001": 1}
