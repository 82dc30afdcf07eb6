"""The wire contract as JSON Schema files, one a record. `python -m skillfeed.schemas DIRECTORY` writes them."""

import json
import sys
from pathlib import Path

from skillfeed.records import WIRE_RECORDS


def schema_files() -> dict[str, str]:
    """File name to content, for every record that crosses a process or a team."""
    return {
        f"{record.__name__}.json": json.dumps(record.model_json_schema(by_alias=True), indent=2, ensure_ascii=False)
        + "\n"
        for record in WIRE_RECORDS
    }


def write(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in schema_files().items():
        (directory / name).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
