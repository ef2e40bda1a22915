"""The table ``[extensions.kernelbot]`` of the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kernelcup.config.settings import Config
from kernelcup.errors import ConfigError


class Settings(BaseModel):
    """What an operator may set."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    problem_dir: str | None = Field(default=None, min_length=1)
    """The folder where ``popcorn admin create-leaderboard DIR`` looks; None if that is not offered."""
    registration: bool = False
    """Whether popcorn-cli may register here, at the address that it was built with."""

    def problems(self, config: Config) -> Path | None:
        """Return the folder of problems; a relative path is relative to the configuration file."""
        if self.problem_dir is None:
            return None
        beside = config.file.absolute().parent if config.file is not None else Path.cwd()
        return beside / Path(self.problem_dir).expanduser()


def read(options: Mapping[str, Any]) -> Settings:
    """Return the settings. Raise ``ConfigError`` for an unknown key or a wrong value."""
    try:
        return Settings.model_validate(dict(options))
    except ValidationError as error:
        first = error.errors()[0]
        what = "unknown key" if first["type"] == "extra_forbidden" else first["msg"]
        key = ".".join(map(str, first["loc"]))
        raise ConfigError(f"extensions.kernelbot.{key}: {what}") from error


def of(config: Config) -> Settings:
    """Return the settings of a server."""
    return read(config.extension_options.get("kernelbot", {}))
