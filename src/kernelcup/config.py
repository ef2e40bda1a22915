"""What is configured here: the file ``kernelcup.toml``, the environment, and what the machine has."""

from __future__ import annotations

import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from kernelcup.devices import Gpu, detect_devices, detect_gpus, slot_gpus
from kernelcup.domain import Device
from kernelcup.errors import ConfigError
from kernelcup_harness import passing
from kernelcup_harness.protocol import Backend

FILE_NAME = "kernelcup.toml"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Database(_Section):
    url: str | None = None


class _Device(_Section):
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")
    backend: Backend
    launcher: str = "local"
    slots: int = Field(default=1, ge=1, le=1024)
    description: str = ""

    @field_validator("backend", mode="before")
    @classmethod
    def _from_word(cls, value: object) -> object:
        """Take the words of TOML, which strict validation would want as enum members."""
        words = [backend.value for backend in Backend]
        if value not in words:
            raise ValueError(f"expected one of {', '.join(words)}")
        return Backend(value)


class _Screen(_Section):
    kernelguard: bool = False


class _Sandbox(_Section):
    required: bool = True
    environment: list[str] = []

    @field_validator("environment")
    @classmethod
    def _may_pass(cls, patterns: list[str]) -> list[str]:
        for pattern in patterns:
            if (what := passing.problem(pattern)) is not None:
                raise ValueError(f"{pattern!r} {what}")
        return patterns


class _File(_Section):
    database: _Database = _Database()
    screen: _Screen = _Screen()
    sandbox: _Sandbox = _Sandbox()
    devices: list[_Device] = []

    @field_validator("devices")
    @classmethod
    def _named_once(cls, devices: list[_Device]) -> list[_Device]:
        names = [device.name.lower() for device in devices]
        if len(set(names)) != len(names):
            raise ValueError("two devices have the same name")
        return devices


@dataclass(frozen=True, kw_only=True)
class Config:
    """The settings in force."""

    file: Path | None
    """Where they come from; None if there is no file."""
    data_dir: Path
    runtime_dir: Path
    """Where processes of one user on this machine agree about GPUs."""
    database_url: str
    configured_devices: tuple[Device, ...]
    environ: Mapping[str, str]
    kernelguard: bool = False
    """Whether the static screen asks ``kernelguard`` for a second opinion."""
    sandbox_required: bool
    """Whether ranked runs are refused on a machine without a sandbox."""
    sandbox_environment: tuple[str, ...]
    """What jobs see of the environment beside the usual: names, with a ``*`` at the end beginnings."""

    @classmethod
    def load(cls, path: Path | None, environ: Mapping[str, str]) -> Config:
        """Read the settings.

        Args:
            path: The file; else ``$KERNELCUP_CONFIG``, else ``kernelcup.toml`` in the data
                directory if it is there.
            environ: ``KERNELCUP_HOME`` is the data directory, ``KERNELCUP_DATABASE`` the database's
                URL, ``KERNELCUP_RUNTIME`` the directory for locks.

        Raises:
            ConfigError: The file cannot be read or has something that we do not know.
        """
        data_dir = _data_dir(environ)
        file = path or _existing(environ, data_dir)
        settings = _File() if file is None else _read(file)
        url = environ.get("KERNELCUP_DATABASE") or settings.database.url
        return cls(
            file=file,
            data_dir=data_dir,
            runtime_dir=_runtime_dir(environ),
            database_url=url or f"sqlite:///{data_dir / 'kernelcup.db'}",
            configured_devices=tuple(Device(**device.model_dump()) for device in settings.devices),
            environ=environ,
            kernelguard=settings.screen.kernelguard,
            sandbox_required=settings.sandbox.required,
            sandbox_environment=tuple(settings.sandbox.environment),
        )

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """What submissions can be judged on: as configured, else what this machine has."""
        return self.configured_devices or tuple(detect_devices(self._gpus))

    @cached_property
    def slot_gpus(self) -> dict[str, tuple[str, ...]]:
        """The GPU of each slot of the local devices, for ``LocalLauncher``."""
        local = [device for device in self.devices if device.launcher == "local"]
        needed = any(device.backend is Backend.CUDA for device in local)
        return slot_gpus(local, self._gpus) if needed else {}

    @cached_property
    def _gpus(self) -> list[Gpu]:
        return detect_gpus(self.environ)


def _data_dir(environ: Mapping[str, str]) -> Path:
    if home := environ.get("KERNELCUP_HOME"):
        return Path(home).expanduser().absolute()
    share = environ.get("XDG_DATA_HOME") or Path(environ.get("HOME") or Path.home()) / ".local/share"
    return Path(share) / "kernelcup"


def _runtime_dir(environ: Mapping[str, str]) -> Path:
    if directory := environ.get("KERNELCUP_RUNTIME"):
        return Path(directory).expanduser().absolute()
    if directory := environ.get("XDG_RUNTIME_DIR"):
        return Path(directory) / "kernelcup"
    user = environ.get("USER") or Path(environ.get("HOME", "")).name or "user"
    return Path(tempfile.gettempdir()) / f"kernelcup-{user}"


def _existing(environ: Mapping[str, str], data_dir: Path) -> Path | None:
    if named := environ.get("KERNELCUP_CONFIG"):
        return Path(named).expanduser()
    default = data_dir / FILE_NAME
    return default if default.is_file() else None


def _read(file: Path) -> _File:
    try:
        raw = tomllib.loads(file.read_text(encoding="utf-8"))
        return _File.model_validate(raw)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: not TOML: {error}") from error
    except ValidationError as error:
        raise ConfigError("\n".join(f"{file}: {_problem(problem)}" for problem in error.errors())) from error


def _problem(problem: Any) -> str:
    key = ".".join(str(part) for part in problem["loc"])
    text = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "extra_forbidden":
        text = "unknown key"
    return f"{key}: {text}"
