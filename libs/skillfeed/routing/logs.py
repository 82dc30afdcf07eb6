"""Request logs become routes: every row validated, each distinct request routed once, each id answered. Ray-free."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ValidationError

from skillfeed.corpus.text_encoding import storable
from skillfeed.indexes.snapshot import open_snapshot
from skillfeed.partitions import read_files, read_pieces, write_part, write_pieces
from skillfeed.records import Rejected, Route, RoutingRequest, arrow_schema, text_hash_of
from skillfeed.routing.router import Router, load_router
from skillfeed.rows import Row, RowSplit, parse_json, read_rows
from skillfeed.settings import ModelSettings, RouterSettings, describe
from skillfeed.storage import join
from skillfeed.work import Counts, Work

REJECTED = arrow_schema(Rejected)
ROUTES = arrow_schema(Route)
# `input_number` orders the rows: the unit that read it, then its place there.
REQUESTS = pa.schema(
    [
        pa.field("request_id", pa.string()),
        pa.field("request_hash", pa.string()),
        pa.field("request", pa.string()),
        pa.field("source", pa.string()),
        pa.field("path", pa.string()),
        pa.field("input_number", pa.int64()),
    ]
)
# Every name by which a row may give a field; other columns are not read.
COLUMNS = frozenset(RoutingRequest.model_fields) | {"user_context_constraints"}
REPEATED = pa.schema([field for field in REQUESTS if field.name in ("request_hash", "input_number")])
MAX_DETAIL = 1_000  # characters: a list of 10,000 wrong values has as many errors
REQUESTS_PER_CALL = 128  # a matrix product wide enough for the dense channels; 128 x 50 documents are 40 MB


@dataclass(frozen=True)
class RoutePlan:
    """What the units of one run share."""

    snapshots: str
    snapshot_id: str
    output: str
    groups: tuple[tuple[RowSplit, ...], ...]
    partitions: int
    models: ModelSettings
    router: RouterSettings
    threads: int
    limit: int | None


def read_work(plan: RoutePlan) -> Work:
    """Unit = a group of splits. Leaves its requests as pieces by the hash of their content, rejected rows as a part."""

    def work(unit: str) -> Counts:
        requests: list[dict[str, Any]] = []
        rejected: list[Rejected] = []
        for outcome in islice(_outcomes(plan.groups[int(unit)]), plan.limit):
            if isinstance(outcome, Rejected):
                rejected.append(outcome)
            else:
                requests.append(outcome | {"input_number": (int(unit) << 32) + len(requests)})
        if requests:
            table = pa.Table.from_pylist(requests, schema=REQUESTS)
            write_pieces(join(plan.output, "_work", "requests"), table, "request_hash", plan.partitions, unit)
        if rejected:
            _write_rejected(plan.output, unit, [row.model_dump() for row in rejected])
        return {"rows": len(requests) + len(rejected), "rejected": len(rejected)}

    return work


def _outcomes(splits: Sequence[RowSplit]) -> Iterator[dict[str, Any] | Rejected]:
    for split in splits:
        for row in read_rows(split, COLUMNS):
            yield row if isinstance(row, Rejected) else validate(row)


def validate(row: Row) -> dict[str, Any] | Rejected:
    """A row of REQUESTS but its number, or why it is none."""
    path = f"#{row.number}"
    try:
        request = RoutingRequest.model_validate({key: _decoded(key, value) for key, value in row.data.items()})
    except ValidationError as error:
        detail = storable(describe(error))[:MAX_DETAIL]
        return Rejected(source=row.source, path=path, reason="invalid_request", detail=detail)
    except RecursionError:  # printing a list of a thousand levels
        return Rejected(source=row.source, path=path, reason="invalid_request", detail="nested too deeply")
    content = request.model_dump_json(by_alias=True, exclude={"request_id"})
    return {
        "request_id": request.request_id,
        "request_hash": text_hash_of(content),
        "request": request.model_dump_json(by_alias=True),
        "source": row.source,
        "path": path,
    }


def _decoded(key: str, value: Any) -> Any:
    """Parquet logs often hold the task and the profile as JSON text."""
    if key in COLUMNS - {"request_id"} and isinstance(value, str):
        try:
            return parse_json(value)
        except ValueError:
            return value
    return value


def find_repeated(plan: RoutePlan) -> None:
    """Marks every row whose request id an earlier row has, for the unit that will meet it."""
    narrow = pa.schema([field for field in REQUESTS if field.name in ("request_id", "request_hash", "input_number")])
    rows = read_files(join(plan.output, "_work", "requests"), narrow).sort_by("input_number")
    codes = rows.column("request_id").combine_chunks().dictionary_encode().indices.to_numpy()
    _, first = np.unique(codes, return_index=True)
    later = np.ones(len(codes), bool)
    later[first] = False
    if later.any():
        repeated = rows.filter(pa.array(later)).select(REPEATED.names).cast(REPEATED)
        write_pieces(join(plan.output, "_work", "repeated"), repeated, "request_hash", plan.partitions, "all")


def route_work(plan: RoutePlan) -> Work:
    """Unit = a partition of the requests. Writes its part of routes/."""
    snapshot = open_snapshot(plan.snapshots, plan.snapshot_id, device=plan.router.index_device)
    router = load_router(snapshot, plan.router, plan.models, threads=plan.threads)

    def work(partition: str) -> Counts:
        rows = read_pieces(join(plan.output, "_work", "requests"), partition, REQUESTS).sort_by("input_number")
        repeated = read_pieces(join(plan.output, "_work", "repeated"), partition, REPEATED).column("input_number")
        is_repeated = pc.is_in(rows.column("input_number"), value_set=repeated.combine_chunks())
        answered = rows.filter(pc.invert(is_repeated))
        if len(again := rows.filter(is_repeated)):
            _write_rejected(plan.output, f"{partition}-repeated", _repeated_rows(again))
        tokens_before = router.retriever.tokens_seen
        distinct = _route_distinct(plan, router, partition, answered)
        return {
            "rows": len(answered),
            "distinct": distinct,
            "rejected": len(again),
            "tokens": router.retriever.tokens_seen - tokens_before,
        }

    return work


def _repeated_rows(rows: pa.Table) -> list[dict[str, str]]:
    return [
        {
            "source": row["source"],
            "path": row["path"],
            "reason": "repeated_request_id",
            "detail": f"request_id {row['request_id']!r} stands in an earlier row, which was routed",
        }
        for row in rows.select(["source", "path", "request_id"]).to_pylist()
    ]


def _route_distinct(plan: RoutePlan, router: Router, partition: str, rows: pa.Table) -> int:
    """Routes each distinct request of the partition once and writes an answer for every row, in input order."""
    hashes = rows.column("request_hash").to_pylist()
    first = {digest: number for number, digest in reversed(list(enumerate(hashes)))}
    numbers = sorted(first.values())
    texts = rows.column("request").take(pa.array(numbers, pa.int64())).to_pylist()
    answers: dict[str, Route] = {}
    for start in range(0, len(numbers), REQUESTS_PER_CALL):
        batch = slice(start, start + REQUESTS_PER_CALL)
        routes = router.route([RoutingRequest.model_validate_json(text) for text in texts[batch]])
        answers |= {hashes[number]: route for number, route in zip(numbers[batch], routes, strict=True)}
    dumped = {digest: route.model_dump() for digest, route in answers.items()}
    ids = rows.column("request_id").to_pylist()
    answered = [dumped[digest] | {"request_id": request_id} for digest, request_id in zip(hashes, ids, strict=True)]
    write_part(join(plan.output, "routes"), partition, pa.Table.from_pylist(answered, schema=ROUTES))
    return len(numbers)


def _write_rejected(output: str, name: str, rows: list[dict[str, Any]]) -> None:
    write_part(join(output, "rejected"), name, pa.Table.from_pylist(rows, schema=REJECTED))
