"""Every output directory says in `manifest.json` what made it. Written last: an output without one is not whole."""

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from skillfeed import __version__
from skillfeed.errors import SettingError
from skillfeed.storage import exists, join, read_bytes, write_bytes

MANIFEST = "manifest.json"


class Manifest(BaseModel):
    """What made an output, of what, and how much came out."""

    model_config = ConfigDict(frozen=True)

    job: str
    identity: dict[str, Any]  # what decides the rows: input fingerprints, and settings that change the result
    settings: dict[str, Any] = {}  # all that the job was told
    rows: dict[str, int]
    seconds: float
    code_version: str = __version__
    created: str = ""


def fingerprint(value: Any) -> str:
    """16 hex digits of the sha256 of a JSON value, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def read_manifest(directory: str) -> Manifest | None:
    """None where there is none.

    Raises:
        SettingError: there is a file of that name that no job wrote whole.
    """
    uri = join(directory, MANIFEST)
    if not exists(uri):
        return None
    try:
        return Manifest.model_validate_json(read_bytes(uri))
    except (ValidationError, OSError) as error:
        raise SettingError(f"{uri}: not the manifest of a job; give another place") from error


def write_manifest(directory: str, manifest: Manifest) -> None:
    dated = manifest.model_copy(update={"created": datetime.now(UTC).isoformat(timespec="seconds")})
    write_bytes(join(directory, MANIFEST), dated.model_dump_json(indent=2).encode())


def require_manifest(directory: str, job: str) -> Manifest:
    """The manifest of another job's output.

    Raises:
        SettingError: there is none, or another job made the directory.
    """
    manifest = read_manifest(directory)
    if manifest is None:
        raise SettingError(
            f"{directory}: no {MANIFEST}, so not a whole output of {job}; run jobs/{job}.py to its end first"
        )
    if manifest.job != job:
        raise SettingError(f"{directory}: made by {manifest.job}, but the output of {job} is needed")
    return manifest


def input_fingerprint(manifest: Manifest) -> str:
    """Equal for equal content: what decided the rows, and how many came out."""
    return fingerprint([manifest.identity, manifest.rows])
