"""Tells what dead runners left behind."""

from __future__ import annotations

import os
from pathlib import Path


def namespace() -> str:
    """Return the id of the process namespace: runners with different ids see different process ids."""
    return str(os.stat("/proc/self/ns/pid").st_ino)


def owner() -> str:
    """Return the name of this runner: its namespace and its process id."""
    return f"{namespace()}-{os.getpid()}"


def is_orphan(name: str) -> bool:
    """Return whether the runner of that name was in this namespace and is gone."""
    space, _, pid = name.partition("-")
    return space == namespace() and pid.isdigit() and not Path("/proc", pid).exists()
