"""What other distributions add to this one: entry points, of which this one knows the groups only."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from kernelcup.errors import ConfigError

ROUTES, COMMANDS, SETTINGS = "kernelcup.routes", "kernelcup.commands", "kernelcup.settings"
"""Routers of FastAPI for the server; groups of commands, which are applications of typer; and what reads a table
``[extensions.NAME]`` of the configuration."""


def routers() -> list[Any]:
    """Return the routers of all extensions that are installed."""
    return [point.load() for point in sorted(entry_points(group=ROUTES), key=lambda each: each.name)]


def command_names() -> list[str]:
    """Return the names of all extensions' commands."""
    return sorted(entry_points(group=COMMANDS).names)


def command(name: str) -> Any:
    """Return an extension's commands; None if there is no such extension."""
    return next((point.load() for point in entry_points(group=COMMANDS, name=name)), None)


def check(name: str, options: dict[str, Any]) -> None:
    """Raise ``ConfigError`` if an extension is not installed, or cannot work with these settings."""
    known = {point.name: point for point in entry_points(group=SETTINGS)}
    if name not in known:
        there = ", ".join(sorted(known)) or "none"
        raise ConfigError(f"[extensions.{name}]: no such extension is installed, only {there}")
    known[name].load()(options)
