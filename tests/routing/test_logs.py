import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillfeed.records import Rejected, RoutingRequest
from skillfeed.routing.logs import REQUESTS, _outcomes, validate
from skillfeed.rows import Row, row_splits

TASK = {"name": "plan a trip"}


def outcomes(file: Path) -> list[dict[str, Any] | Rejected]:
    """What a log gives; fails for what a table cannot hold or the router cannot read back."""
    found = list(_outcomes(row_splits(str(file))))
    for item in found:
        if isinstance(item, Rejected):
            assert item.model_dump_json()
        else:
            pa.Table.from_pylist([item | {"input_number": 0}], schema=REQUESTS)
            RoutingRequest.model_validate_json(item["request"])
    return found


def requests(file: Path) -> dict[str, dict[str, Any]]:
    good = [item for item in outcomes(file) if isinstance(item, dict)]
    return {item["path"]: json.loads(item["request"]) for item in good}


def rejected(file: Path) -> dict[str, str]:
    return {item.path: item.reason for item in outcomes(file) if isinstance(item, Rejected)}


def test_half_of_a_surrogate_pair_anywhere_in_a_request_does_not_stop_the_log(tmp_path: Path) -> None:
    inner = json.dumps(json.dumps({"name": "x\ud800", "\udfff": "y"}))
    lines = [
        r'{"request_id": "1\ud800", "task": {"name": "x\ud800", "core_requirements": ["\udc00"]}}',
        r'{"request_id": "2", "task": {"name": "t"},"user_context_constraints": {"k\ud800": ["\ud800"], "": "\udfff"}}',
        r'{"request_id": "3", "task": {"name": "t"}, "user_context_constraints": {"k\ud800": {"\ud800": 1}}}',
        r'{"request_id": "4", "task": {"name": {"\ud800": "\ud800"}}, "\ud800": 1}',
        f'{{"request_id": "5", "task": {inner}, "user_context_constraints": {inner}}}',
        '{"request_id": "6", "task": {"name": "t"}}',
    ]
    file = tmp_path / "log.jsonl"
    file.write_text("\n".join(lines))
    assert rejected(file) == {"#3": "invalid_request", "#4": "invalid_request"}
    found = requests(file)
    assert list(found) == ["#1", "#2", "#5", "#6"]
    assert found["#1"]["request_id"] == "1\ufffd"
    assert found["#5"]["task"]["name"] == "x\ufffd"


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_a_row_that_is_nested_without_end_is_rejected(opening: str, tmp_path: Path) -> None:
    endless = opening * 100_000
    whole = '{"a":' * 100_000 + "1" + "}" * 100_000
    rows = [
        {"request_id": "1", "task": endless},
        {"request_id": "2", "task": TASK, "user_context_constraints": endless},
        {"request_id": "3", "task": whole},
        {"request_id": "4", "task": TASK},
    ]
    file = tmp_path / "log.jsonl"
    file.write_text("\n".join([*map(json.dumps, rows), '{"task": ' + endless]))
    assert rejected(file) == dict.fromkeys(["#1", "#2", "#3"], "invalid_request") | {"#5": "not_json"}
    assert list(requests(file)) == ["#4"]


def test_values_that_are_nested_beyond_what_can_be_printed_are_rejected() -> None:
    deep: list[Any] = []
    for _ in range(20_000):
        deep = [deep]
    rows: list[dict[str, Any]] = [
        {"request_id": "1", "task": TASK, "user_context_constraints": {"k": [deep]}},
        {"request_id": "1", "task": TASK, "user_context_constraints": deep},
        {"request_id": "1", "task": deep},
        {"request_id": deep, "task": TASK},
    ]
    for row in rows:
        found = validate(Row("log", 1, row))
        assert isinstance(found, Rejected)
        assert found.reason == "invalid_request"


def test_a_thousand_errors_in_a_row_make_a_short_detail() -> None:
    found = validate(Row("log", 1, {"request_id": "1", "task": TASK | {"core_requirements": [1] * 1000}}))
    assert isinstance(found, Rejected)
    assert found.detail.startswith("task.core_requirements.0")
    assert len(found.detail) <= 1000


def test_a_parquet_log_with_structs_is_read_though_other_columns_are_broken(tmp_path: Path) -> None:
    tasks = [{"name": "a", "core_requirements": ["x"]}, {"description": "b"}, {"name": None}]
    broken = pa.array([b"\xff"] * 3, pa.binary()).cast(pa.string(), safe=False)
    table = pa.table(
        {
            "request_id": pa.array([1.0, 2.0, 3.0]),
            "task": pa.array(tasks),
            "user_context_constraints": pa.array([{"language": "de"}, None, None]),
            "agent": broken,
            "at": pa.array([2**62] * 3, pa.timestamp("ms", "No/Where")),
        }
    )
    file = tmp_path / "log.parquet"
    pq.write_table(table, file)
    assert rejected(file) == {"#3": "invalid_request"}
    found = requests(file)
    assert [(row["request_id"], row["task"]["description"]) for row in found.values()] == [("1", ""), ("2", "b")]
    assert found["#1"]["user_context_constraints"]["language"] == "de"


def test_a_parquet_text_that_is_not_utf8_costs_its_row_alone(tmp_path: Path) -> None:
    texts = pa.array([b'{"name": "a"}', b'{"name": "\xff"}', b'{"name": "c"}'], pa.binary()).cast(
        pa.string(), safe=False
    )
    pq.write_table(pa.table({"request_id": ["1", "2", "3"], "task": texts}), tmp_path / "log.parquet")
    assert rejected(tmp_path / "log.parquet") == {"#2": "bad_value"}
    assert list(requests(tmp_path / "log.parquet")) == ["#1", "#3"]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
tasks = values | st.fixed_dictionaries(
    {"name": values}, optional={"description": values, "core_requirements": values, "other": values}
)


@given(request_id=values, task=tasks | tasks.map(json.dumps), profile=values | values.map(json.dumps))
def test_any_row_is_a_request_that_reads_back_equal_or_rejected(request_id: Any, task: Any, profile: Any) -> None:
    found = validate(Row("log", 1, {"request_id": request_id, "task": task, "user_context_constraints": profile}))
    if isinstance(found, Rejected):
        assert found.model_dump_json()
        return
    request = RoutingRequest.model_validate_json(found["request"])
    assert request.model_dump_json(by_alias=True) == found["request"]
