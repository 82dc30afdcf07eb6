"""What every job shares: settings from flags, environment and YAML; a summary; exit codes.

Exit codes: 0 the output is whole, 1 the job failed (start it again: finished units are kept), 2 a setting is wrong.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import yaml
from pydantic import Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    YamlConfigSettingsSource,
)

from skillfeed.errors import SettingError, SnapshotError
from skillfeed.settings import describe


class CommandSettings(BaseSettings):
    """How every command is told what to do: a flag beats SKILLFEED_<SETTING>, which beats the YAML file."""

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


class JobSettings(CommandSettings):
    """What every job over a corpus or a log has besides."""

    overwrite: bool = Field(False, description="Delete what an earlier run left in the output and do it again")
    limit: int | None = Field(None, gt=0, description="Use so many input rows only, to try a job")


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
            f"  {name}/s".ljust(36) + f"{self.rows[name] / self.seconds:>14,.1f}"
            for name in ("rows_in", "tokens")
            if self.rows.get(name) and self.seconds
        ]
        return [f"{self.job}: done in {self.seconds:,.1f} s -> {self.output}", *_counts(self.rows), *rates]


def _counts(rows: Mapping[str, int]) -> list[str]:
    return [f"  {name}".ljust(36) + f"{count:>14,}" for name, count in rows.items()]


SettingsKind = TypeVar("SettingsKind", bound=CommandSettings)


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
    finder.add_argument("--config", default=os.environ.get("SKILLFEED_CONFIG"))
    config = finder.parse_known_args(argv)[0].config
    _check_yaml(config)
    configured = type(
        kind.__name__, (kind,), {"model_config": SettingsConfigDict(yaml_file=config), "__doc__": kind.__doc__}
    )
    try:
        return configured(_cli_parse_args=list(argv), _cli_prog_name=Path(sys.argv[0]).name)  # type: ignore[no-any-return]
    except ValidationError as error:
        raise SettingError(describe(error)) from error
    except SettingsError as error:
        raise SettingError(f'{error}; lists and nested settings are JSON here, such as \'["a", "b"]\'') from error


def _check_yaml(path: str | None) -> None:
    """Whether the file holds a mapping of settings, which pydantic-settings takes for granted."""
    if path is None:
        return
    try:
        values = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SettingError(f"config: {path} cannot be read as YAML: {' '.join(str(error).split())}") from error
    if values is not None and not (isinstance(values, dict) and all(isinstance(key, str) for key in values)):
        raise SettingError(f"config: {path} is not a mapping of setting names to values")
