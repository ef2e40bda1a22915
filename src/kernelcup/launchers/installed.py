"""Find the installed launchers: entry points of the group ``kernelcup.launchers``, of this package and of others.

A launcher whose machines have to be prepared has another entry point of the same name in ``kernelcup.deploy``.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, cast

from kernelcup.errors import ConfigError
from kernelcup.launchers.base import Launcher, LauncherSettings

GROUP, DEPLOY = "kernelcup.launchers", "kernelcup.deploy"


def names() -> list[str]:
    """Return the names by which devices can refer to the installed launchers."""
    return sorted(entry_points(group=GROUP).names)


def make(name: str, settings: LauncherSettings) -> Launcher:
    """Return the launcher of this name.

    Raises:
        ConfigError: It is not installed, or it cannot judge with these settings.
    """
    return cast("Launcher", _load(GROUP, name)(settings))


def deploy(name: str, settings: LauncherSettings, folder: Path | None) -> Iterable[str]:
    """Prepare a launcher's machines, and return what was written or started, a line for each.

    Raises:
        ConfigError: It is not installed or has nothing to prepare, or the settings name no device of it.
        InvalidValue: It writes into a folder, and none is given.
    """
    return cast("Iterable[str]", _load(DEPLOY, name)(settings, folder))


def missing(name: str, group: str = GROUP) -> str:
    """Return the text for a launcher that is not installed, with the way to install it."""
    known = ", ".join(map(repr, sorted(entry_points(group=group).names))) or "none"
    what = "launcher" if group == GROUP else "launcher to deploy"
    return f"no {what} {name!r}, only {known}; pip install ./packages/kernelcup-{name}, if a copy of the project has it"


def _load(group: str, name: str) -> Any:
    for point in entry_points(group=group, name=name):
        return point.load()
    raise ConfigError(missing(name, group))
