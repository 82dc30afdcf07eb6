from pathlib import Path

from skillfeed.schemas import schema_files

SCHEMAS = Path(__file__).parents[1] / "schemas"


def test_the_schema_files_are_those_of_the_models() -> None:
    """After a change of records.py: `make schemas`."""
    assert {path.name: path.read_text(encoding="utf-8") for path in SCHEMAS.glob("*.json")} == schema_files()
