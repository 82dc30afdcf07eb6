"""Tables cut by the leading digits of a hash column, so that equal keys meet in one partition on any machine.

A table is a directory of `part-NNNNN.parquet`, one a partition. While it is made, each unit leaves pieces of several
partitions at `<directory>/<NNNNN>/<unit>.parquet`; gathering a partition reads its pieces.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq

from skillfeed.storage import exists, filesystem, join, list_files, write_parquet

MAX_PARTITIONS = 256  # pieces number units x partitions: 256 x 256 small objects is what S3 still lists in seconds


def partition_count(size: int, size_per_partition: int) -> int:
    return min(MAX_PARTITIONS, max(1, math.ceil(size / size_per_partition)))


def partition_names(count: int) -> list[str]:
    return [f"{number:05d}" for number in range(count)]


def partition_of(hashes: Sequence[str], count: int) -> npt.NDArray[np.int64]:
    """The partition [N] of each hex digest, by its first 32 bits; partitions are ascending ranges of the hash."""
    leading = np.array([int(digest[:8], 16) for digest in hashes], dtype=np.int64)
    return leading * count >> 32


def write_pieces(directory: str, table: pa.Table, key: str, count: int, unit: str) -> None:
    """Writes the rows of each partition of a table to that partition's piece of this unit."""
    partitions = partition_of(table.column(key).to_pylist(), count)
    for number in np.unique(partitions):
        rows = table.filter(pa.array(partitions == number))
        write_parquet(join(directory, f"{number:05d}", f"{unit}.parquet"), rows)


def read_pieces(directory: str, partition: str, schema: pa.Schema) -> pa.Table:
    """The rows of a partition from all units, in the order of the units; none where no unit left any.

    Raises:
        RuntimeError: the pieces were cleared meanwhile, so that what was read may not be whole.
    """
    rows = read_files(join(directory, partition), schema)
    work = directory.rsplit("/", 1)[0]
    if not exists(join(work, "owner")):
        raise RuntimeError(f"{work}: cleared by another run, which has finished this output; start the job again")
    return rows


def read_files(directory: str, schema: pa.Schema) -> pa.Table:
    """The columns of `schema` of every Parquet file below a directory, by file name; no rows where there is none."""
    if not exists(directory):
        return schema.empty_table()
    files, _ = filesystem(directory)
    paths = [info.path for info in list_files(directory) if info.path.endswith(".parquet")]
    tables = [pq.read_table(path, filesystem=files, columns=schema.names, partitioning=None) for path in paths]
    return pa.concat_tables([table.cast(schema) for table in tables]) if tables else schema.empty_table()


def part_name(partition: str) -> str:
    return f"part-{partition}.parquet"


def part_rows(directory: str) -> dict[str, int]:
    """Partition to number of rows, from the file footers, for every part of a table."""
    files, _ = filesystem(directory)
    parts = [info for info in list_files(directory) if info.base_name.startswith("part-")]
    return {
        info.base_name.removeprefix("part-").removesuffix(".parquet"): pq.read_metadata(
            info.path, filesystem=files
        ).num_rows
        for info in parts
    }


def read_part(directory: str, partition: str, schema: pa.Schema | None = None) -> pa.Table:
    """One part of a table, or its columns named by `schema`."""
    files, path = filesystem(join(directory, part_name(partition)))
    return pq.read_table(path, filesystem=files, columns=schema.names if schema else None, partitioning=None)


def write_part(directory: str, partition: str, table: pa.Table) -> None:
    """Rows groups of 4,096, so that a later run finds a range of hashes without reading the whole part."""
    write_parquet(join(directory, part_name(partition)), table, row_group_size=4096)


def read_table(directory: str, columns: Sequence[str]) -> pa.Table:
    """The named columns of all parts of a table, in the order of the parts."""
    files, path = filesystem(directory)
    return pads.dataset(path, filesystem=files, format="parquet").to_table(columns=list(columns))
