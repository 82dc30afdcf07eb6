"""What every job shares: settings from flags, environment and YAML; one run for one output; a summary; exit codes.

Exit codes: 0 the output is whole, 1 the job failed (start it again: finished units are kept), 2 a setting is wrong.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, YamlConfigSettingsSource

from skillfeed.errors import SettingError, SnapshotError
from skillfeed.manifest import MANIFEST, Manifest, fingerprint, read_manifest, write_manifest
from skillfeed.settings import describe
from skillfeed.storage import delete_directory, exists, join, list_files, read_bytes, write_bytes


class JobSettings(BaseSettings):
    """Settings that every job has. A flag beats SKILLFEED_<SETTING> in the environment, which beats the YAML file."""

    model_config = SettingsConfigDict(
        env_prefix="SKILLFEED_",
        env_nested_delimiter="__",
        cli_kebab_case=True,
        cli_implicit_flags=True,
        cli_parse_none_str="none",
        extra="forbid",
        frozen=True,
    )

    config: Path | None = Field(None, description="YAML file with any of these settings")
    overwrite: bool = Field(False, description="Delete what an earlier run left in the output and do it again")
    limit: int | None = Field(None, gt=0, description="Use so many input rows only, to try a job")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, YamlConfigSettingsSource(settings_cls)


@dataclass(frozen=True)
class Summary:
    """What a job did, printed as a table for people (stderr) and as JSON for programs (stdout)."""

    job: str
    output: str
    rows: Mapping[str, int]
    seconds: float
    already_done: bool = False

    def lines(self) -> list[str]:
        if self.already_done:
            return [f"{self.job}: nothing to do, {self.output} is whole", *_counts(self.rows)]
        rates = [
            f"  {name}/s".ljust(28) + f"{self.rows[name] / self.seconds:>14,.1f}"
            for name in ("rows_in", "tokens")
            if self.rows.get(name) and self.seconds
        ]
        return [f"{self.job}: done in {self.seconds:,.1f} s -> {self.output}", *_counts(self.rows), *rates]


def _counts(rows: Mapping[str, int]) -> list[str]:
    return [f"  {name}".ljust(28) + f"{count:>14,}" for name, count in rows.items()]


SettingsKind = TypeVar("SettingsKind", bound=JobSettings)


def run(kind: type[SettingsKind], main: Callable[[SettingsKind], Summary], argv: Sequence[str] | None = None) -> None:
    """Parses the settings, runs the job, prints its summary and leaves the process with the exit code."""
    try:
        summary = main(parse(kind, sys.argv[1:] if argv is None else argv))
    except (SettingError, SnapshotError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    print("\n".join(summary.lines()), file=sys.stderr)
    print(json.dumps({"job": summary.job, "output": summary.output, "seconds": summary.seconds, **summary.rows}))


def parse(kind: type[SettingsKind], argv: Sequence[str]) -> SettingsKind:
    """Validated settings.

    Raises:
        SettingError: a value does not hold, or the YAML file cannot be read.
    """
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    finder.add_argument("--config")
    config = finder.parse_known_args(argv)[0].config
    if config and not Path(config).is_file():
        raise SettingError(f"config: no file {config}")
    configured = type(
        kind.__name__, (kind,), {"model_config": SettingsConfigDict(yaml_file=config), "__doc__": kind.__doc__}
    )
    try:
        return configured(_cli_parse_args=list(argv), _cli_prog_name=Path(sys.argv[0]).name)  # type: ignore[no-any-return]
    except ValidationError as error:
        raise SettingError(describe(error)) from error
    except yaml.YAMLError as error:
        raise SettingError(f"config: {config} is not YAML: {error}") from error


def once(
    job: str,
    output: str,
    identity: dict[str, Any],
    *,
    settings: dict[str, Any],
    overwrite: bool,
    work: Callable[[], Mapping[str, int]],
) -> Summary:
    """Does the work unless the output already holds it; resumes what an interrupted run with the same identity began.

    Args:
        identity: the settings and input fingerprints that decide the rows, as JSON values.
        settings: all that the job was told, for the manifest.
        work: writes the tables below `output` and gives their row counts.

    Raises:
        SettingError: the output holds something else and `overwrite` is off.
    """
    started = time.monotonic()
    identity = json.loads(json.dumps(identity))
    _refuse_other_files(output)
    if overwrite:
        delete_directory(output)
    done = read_manifest(output)
    if done is not None:
        if done.job == job and done.identity == identity:
            return Summary(job, output, done.rows, 0.0, already_done=True)
        changed = sorted(key for key in {*done.identity, *identity} if done.identity.get(key) != identity.get(key))
        raise SettingError(
            f"output: {output} holds a {done.job} run that differs in {', '.join(changed) or 'the job'}; "
            "give another --output, or --overwrite"
        )
    _resume_or_clear(output, fingerprint([job, identity]))
    rows = dict(work())
    seconds = round(time.monotonic() - started, 3)
    write_manifest(output, Manifest(job=job, identity=identity, settings=settings, rows=rows, seconds=seconds))
    for leftover in ("_progress", "_work"):
        delete_directory(join(output, leftover))
    return Summary(job, output, rows, seconds)


def _resume_or_clear(output: str, identity: str) -> None:
    """Keeps the finished units of an interrupted run of the same identity; removes those of any other."""
    started = join(output, "_progress", "identity")
    if exists(started) and read_bytes(started).decode() == identity:
        return
    delete_directory(output)
    write_bytes(started, identity.encode())


def _refuse_other_files(output: str) -> None:
    """Only what a job left, finished or not, is ever deleted."""
    ours = exists(join(output, MANIFEST)) or exists(join(output, "_progress"))
    if not ours and exists(output) and next(list_files(output), None) is not None:
        raise SettingError(f"output: {output} holds files that no job wrote; give an empty or new place")
