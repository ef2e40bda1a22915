"""The configuration: the file ``kernelcup.toml``, the environment, and the machine's devices."""

from __future__ import annotations

import difflib
import ipaddress
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from kernelcup import extensions
from kernelcup.config.local_devices import Gpu, detect_devices, detect_gpus, shows_gpu, slot_gpus
from kernelcup.config.sign_in import SignInProvider, SignInSection, read_provider
from kernelcup.config.toml_problems import problems, syntax_problem
from kernelcup.domain import HERE, Device
from kernelcup.errors import ConfigError
from kernelcup_harness.isolation import passed_names
from kernelcup_harness.protocol import Backend

FILE_NAME = "kernelcup.toml"
PREFIX = "KERNELCUP_"
VARIABLES = frozenset(
    (
        "AGENT_TOKEN ALERTS API_URL BOT_TOKEN CONFIG DATABASE DISCORD_GUILDS DISCORD_NEWS_ROLE DISCORD_SECRET "
        "DISCORD_TOKEN GITHUB_SECRET GITHUB_TOKEN HARNESS_BUILDS HARNESS_COMPILE_FOR HARNESS_ENVIRONMENTS "
        "HARNESS_GPU_PART HARNESS_PASS_ENV HARNESS_SANDBOX HOME PORT RUNTIME SECRET SERVER TOKEN"
    ).split()
)
"""The environment variables that are read, without their prefix."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Database(_Section):
    url: str | None = None


class _Files(_Section):
    url: str | None = None


class _Device(_Section):
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")
    backend: Backend
    launcher: str = HERE
    slots: int = Field(default=1, ge=1, le=1024)
    description: str = ""

    @field_validator("backend", mode="before")
    @classmethod
    def _from_word(cls, value: object) -> object:
        """Convert words from TOML into enum members, which strict validation requires."""
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
            if (what := passed_names.problem(pattern)) is not None:
                raise ValueError(f"{pattern!r} {what}")
        return patterns


class _Calibration(_Section):
    every_hours: float = Field(default=6, ge=0, le=720)


class _Judging(_Section):
    stage_budget_s: float = Field(default=60, ge=6, le=3600)
    profile_share: float = Field(default=0.1, ge=0, le=0.5)


class _Local(_Section):
    warm: int | None = Field(default=None, ge=0, le=64)
    refill: Literal["auto", "after", "beside"] = "auto"


DOCS = "/docs"


class _Server(_Section):
    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    url: str | None = Field(default=None, pattern=r"^https?://[^/\s]+$")
    docs: str = Field(default=DOCS, pattern=r"^https?://[^\s]*[^/\s]$")
    trusted_proxies: list[str] = []
    processes: int = Field(default=1, ge=1, le=64)


class _Webhooks(_Section):
    own_networks: list[str] = []

    @field_validator("own_networks")
    @classmethod
    def _are_networks(cls, networks: list[str]) -> list[str]:
        for network in networks:
            ipaddress.ip_network(network)
        return networks


class _SignIn(_Section):
    github: SignInSection | None = None
    discord: SignInSection | None = None


class _File(_Section):
    database: _Database = _Database()
    files: _Files = _Files()
    server: _Server = _Server()
    signin: _SignIn = _SignIn()
    screen: _Screen = _Screen()
    sandbox: _Sandbox = _Sandbox()
    local: _Local = _Local()
    calibration: _Calibration = _Calibration()
    judging: _Judging = _Judging()
    webhooks: _Webhooks = _Webhooks()
    launchers: dict[str, dict[str, Any]] = {}
    extensions: dict[str, dict[str, Any]] = {}
    devices: list[_Device] = []

    @field_validator("devices")
    @classmethod
    def _named_once(cls, devices: list[_Device]) -> list[_Device]:
        names = [device.name.lower() for device in devices]
        if len(set(names)) != len(names):
            raise ValueError("two devices have the same name")
        return devices


def unread_variables(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield a warning for each variable that looks like a setting and is none; the tests' own are no settings."""
    for name in sorted(name.removeprefix(PREFIX) for name in environ if name.startswith(PREFIX)):
        if name not in VARIABLES and not name.startswith("TEST_"):
            near = difflib.get_close_matches(name, VARIABLES, n=1)
            hint = f"; did you mean {PREFIX}{near[0]}?" if near else ""
            yield f"{PREFIX}{name} is no setting and is ignored{hint}"


def reached_here(url: str) -> str:
    """Return a server's address; this machine's own for one that listens on every address, which is none to go to."""
    return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerSettings:
    """How the HTTP service is reached."""

    host: str = "127.0.0.1"
    port: int = 8000
    url: str | None = None
    """The service's public URL, for example ``https://cup.example.org``; None means host and port."""
    docs: str = DOCS
    """The address of the documentation, without a trailing slash: the service's own, or another site's."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses whose ``X-Forwarded-*`` headers are trusted."""
    processes: int = 1

    @property
    def public_url(self) -> str:
        """Return the address of the service, without a trailing slash."""
        return reached_here(self.given_url)

    @property
    def given_url(self) -> str:
        """The address as it is configured, which may be every address of this machine."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.url or f"http://{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches the service."""
        return self.host in ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, kw_only=True)
class Config:
    """The settings in force."""

    file: Path | None
    """The file that the settings come from; None if there is none."""
    data_dir: Path
    runtime_dir: Path
    """The folder through which one user's processes on this machine coordinate the use of GPUs."""
    database_url: str
    files_url: str | None = None
    """The bucket for files beside the database, ``s3://BUCKET/PREFIX``; None for the folder ``files``."""
    configured_devices: tuple[Device, ...]
    environ: Mapping[str, str]
    kernelguard: bool = False
    """Whether ``kernelguard`` is asked for a second opinion on submissions."""
    sandbox_required: bool
    """Whether ranked runs are refused on a machine without a sandbox."""
    sandbox_environment: tuple[str, ...]
    """Additional environment variables for jobs: names, or prefixes with a ``*`` at the end."""
    calibrate_every: timedelta | None = timedelta(hours=6)
    """How often a service calibrates its devices; None for never."""
    stage_budget_s: float = 60
    """Longest budget of a ranked stage of a task with slow references; slower tasks get no leaderboard."""
    profile_share: float = 0.1
    """The share of a device's jobs that are profiles, as far as some wait, while others wait too."""
    warm: int | None = None
    """The number of warm runners for each slot; None means one for each GPU slot and none for others."""
    refill_beside: bool | None = None
    """Whether new runners are started while a job runs on the same GPU; None lets the machine decide."""
    launcher_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The tables ``[launchers.NAME]``; each launcher checks its own."""
    server: ServerSettings = ServerSettings()
    signin_sections: tuple[tuple[str, SignInSection], ...] = ()
    extension_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The tables ``[extensions.NAME]``; each extension checks its own."""
    webhook_networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = ()
    """Private networks that webhooks may reach."""

    @classmethod
    def load(cls, path: Path | None, environ: Mapping[str, str]) -> Config:
        """Read the settings.

        Args:
            path: The file; by default ``$KERNELCUP_CONFIG``, else ``kernelcup.toml`` in the data directory if it
                exists.
            environ: ``KERNELCUP_HOME`` is the data directory, ``KERNELCUP_DATABASE`` the database's
                URL, ``KERNELCUP_PORT`` the port, ``KERNELCUP_RUNTIME`` the directory for locks.

        Raises:
            ConfigError: The file cannot be read, or has unknown keys or invalid values.
        """
        data_dir = _data_dir(environ)
        file = path or _existing(environ, data_dir)
        settings = _File() if file is None else _read(file)
        for name, options in settings.extensions.items():
            extensions.check(name, options)
        url = environ.get("KERNELCUP_DATABASE") or settings.database.url
        return cls(
            file=file,
            data_dir=data_dir,
            runtime_dir=_runtime_dir(environ),
            database_url=url or f"sqlite:///{data_dir / 'kernelcup.db'}",
            files_url=settings.files.url,
            configured_devices=tuple(Device(**device.model_dump()) for device in settings.devices),
            environ=environ,
            kernelguard=settings.screen.kernelguard,
            sandbox_required=settings.sandbox.required,
            sandbox_environment=tuple(settings.sandbox.environment),
            calibrate_every=timedelta(hours=settings.calibration.every_hours) or None,
            stage_budget_s=settings.judging.stage_budget_s,
            profile_share=settings.judging.profile_share,
            warm=settings.local.warm,
            refill_beside={"auto": None, "after": False, "beside": True}[settings.local.refill],
            launcher_options=settings.launchers,
            server=_server(settings.server, environ),
            signin_sections=_signin(settings.signin),
            extension_options=settings.extensions,
            webhook_networks=tuple(map(ipaddress.ip_network, settings.webhooks.own_networks)),
        )

    @cached_property
    def signin(self) -> tuple[SignInProvider, ...]:
        """The configured sign-in providers. Raise ``ConfigError`` if the environment lacks a secret."""
        return tuple(read_provider(name, section, self.environ) for name, section in self.signin_sections)

    @property
    def environments_dir(self) -> Path:
        """The folder of this machine's environments."""
        return self.data_dir / "environments"

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices for judging: the configured ones, else those of this machine."""
        here = frozenset(each.parent.name for each in self.environments_dir.glob("*/environment.json"))
        return tuple(replace(each, environments=here) if each.is_here else each for each in self._devices)

    @cached_property
    def _devices(self) -> tuple[Device, ...]:
        return self.configured_devices or tuple(detect_devices(self._gpus))

    @property
    def for_operations(self) -> dict[str, Any]:
        """What operations are told of the configuration."""
        own = self.webhook_networks
        return {"known_devices": self.devices, "own_networks": own, "home": self.data_dir}

    @property
    def service_url(self) -> str:
        """The address by which machines reach the service."""
        return self.server.public_url

    @cached_property
    def devices_here(self) -> tuple[Device, ...]:
        """The devices on which this machine judges."""
        return tuple(device for device in self.devices if device.is_here)

    @cached_property
    def slot_gpus(self) -> dict[str, tuple[str, ...]]:
        """The GPU of each slot of this machine's devices."""
        needed = any(device.backend is Backend.CUDA for device in self.devices_here)
        return slot_gpus(self.devices_here, self._gpus) if needed else {}

    @cached_property
    def has_gpu(self) -> bool:
        """Whether this machine has a GPU at all."""
        return bool(self._gpus) or shows_gpu()

    @cached_property
    def _gpus(self) -> list[Gpu]:
        return detect_gpus(self.environ)


def _server(section: _Server, environ: Mapping[str, str]) -> ServerSettings:
    values = section.model_dump()
    if port := environ.get("KERNELCUP_PORT"):
        if not port.isdecimal() or int(port) > 65535:
            raise ConfigError(f"KERNELCUP_PORT={port}: expected a number from 0 to 65535")
        values["port"] = int(port)
    return ServerSettings(**{**values, "trusted_proxies": tuple(section.trusted_proxies)})


def _signin(section: _SignIn) -> tuple[tuple[str, SignInSection], ...]:
    found = (("github", section.github), ("discord", section.discord))
    return tuple((name, each) for name, each in found if each is not None)


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
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: not TOML: {error}") from error
    try:
        return _File.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(syntax_problem(file, text, error)) from error
    except ValidationError as error:
        raise ConfigError(problems(file, text, error, _File)) from error
