"""Find the installed launchers: entry points of the group ``kernelcup.launchers``."""

from __future__ import annotations

from importlib.metadata import EntryPoints, entry_points
from typing import cast

from kernelcup.errors import ConfigError
from kernelcup.launchers.base import Launcher, LauncherSettings

GROUP = "kernelcup.launchers"


def names() -> list[str]:
    """Return the names by which devices can refer to the installed launchers."""
    return sorted(_installed().names)


def make(name: str, settings: LauncherSettings) -> Launcher:
    """Return the launcher of this name.

    Raises:
        ConfigError: It is not installed, or it cannot judge with these settings.
    """
    for found in _installed().select(name=name):
        return cast("Launcher", found.load()(settings))
    raise ConfigError(f"no launcher {name!r}; installed: {', '.join(names()) or 'none'}")


def _installed() -> EntryPoints:
    return entry_points(group=GROUP)
