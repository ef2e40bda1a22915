"""Limits the processes and the memory of a sandbox with a control group of its own, if one can be created.

Version 2 of control groups, or version 1 if that is mounted. If no group can be created, only the limits of
a process (see :mod:`kernelcup_harness.isolation.sandbox`) and the runner's own checks apply.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import time
from dataclasses import dataclass
from pathlib import Path

PREFIX = "kernelcup-"
REMOVE_S = 2.0
"""Time for the kernel to release killed processes."""

# The limit file of each controller, and the files that count kills for lack of memory.
VERSION_1 = {"pids": "pids.max", "memory": "memory.limit_in_bytes"}
VERSION_2 = {"pids": "pids.max", "memory": "memory.max"}
OOM_FILES = ("memory.events", "memory.oom_control")


@dataclass(frozen=True, kw_only=True, slots=True)
class Parents:
    """The groups below which this process may create its own."""

    version: int
    folders: tuple[tuple[str, Path], ...]
    """Controller and folder; version 2 has one folder for both."""


@dataclass(frozen=True, slots=True)
class Group:
    """The control group of one sandbox."""

    folders: tuple[Path, ...]

    def joining(self) -> list[str]:
        """Return the beginning of a command line that joins it before anything else happens."""
        files = [str(folder / "cgroup.procs") for folder in self.folders]
        # A process that writes 0 means itself. The count of files is fixed, so it may be in the text.
        joins = " && ".join(f'echo 0 > "${{{place}}}"' for place in range(1, len(files) + 1))
        return ["/bin/sh", "-c", f'{joins} && shift {len(files)} && exec "$@"', "kernelcup", *files]

    def exists(self) -> bool:
        """Return whether it has not been removed yet."""
        return any(folder.exists() for folder in self.folders)

    def ran_out_of_memory(self) -> bool:
        """Return whether the kernel has killed one of its processes for lack of memory."""
        for path in (folder / name for folder in self.folders for name in OOM_FILES):
            with contextlib.suppress(OSError):
                counts = dict(line.split() for line in path.read_text().splitlines())
                if int(counts.get("oom_kill", "0")):
                    return True
        return False

    def limit_memory(self, memory_bytes: int) -> None:
        """Limit the memory of its processes. If they already hold more, the runner that watches them ends them."""
        for path in {folder / files["memory"] for folder in self.folders for files in (VERSION_1, VERSION_2)}:
            if path.exists():
                with contextlib.suppress(OSError):
                    path.write_text(str(memory_bytes))

    def remove(self) -> None:
        """Kill its remaining processes and remove it."""
        until = time.monotonic() + REMOVE_S
        for folder in self.folders:
            while not self._removed(folder) and time.monotonic() < until:
                time.sleep(0.005)

    def _removed(self, folder: Path) -> bool:
        try:
            folder.rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            for pid in self.members(folder):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, 9)
            return False
        return True

    @staticmethod
    def members(folder: Path) -> list[int]:
        """Return the processes in a group."""
        with contextlib.suppress(OSError):
            # 0 stands for an invisible process.
            return [int(line) for line in (folder / "cgroup.procs").read_text().split() if line != "0"]
        return []


def make(processes: int, memory_bytes: int | None) -> Group | None:
    """Create a group with these limits, None if that is not allowed. ``memory_bytes`` is None for no limit."""
    parents = delegated()
    if parents is None:
        return None
    files = VERSION_1 if parents.version == 1 else VERSION_2
    limits = {"pids": processes, "memory": memory_bytes}
    folders = new_folders(parents)
    group = Group(tuple(dict.fromkeys(folders)))
    try:
        for folder in group.folders:
            folder.mkdir()
        for (controller, _), folder in zip(parents.folders, folders, strict=True):
            if limits[controller] is not None:
                (folder / files[controller]).write_text(str(limits[controller]))
    except OSError:
        group.remove()
        return None
    return group


def new_folders(parents: Parents) -> list[Path]:
    """Return the folders of a new group, one for each controller."""
    name = f"{PREFIX}{owner()}-{secrets.token_hex(6)}"
    return [folder / name for _, folder in parents.folders]


def sweep() -> None:
    """Remove the groups of killed runners, with the processes that still run in them."""
    parents = delegated()
    for folder in {folder for _, folder in parents.folders} if parents is not None else ():
        for path in folder.glob(f"{PREFIX}*-*"):
            if is_orphan(path.name.removeprefix(PREFIX).rpartition("-")[0]):
                Group((path,)).remove()


@functools.cache
def delegated() -> Parents | None:
    """Return where this process may create groups, None if nowhere. Tries it once."""
    try:
        mounts = Path("/proc/self/mounts").read_text()
        own = Path("/proc/self/cgroup").read_text()
    except OSError:
        return None
    return find(mounts, own)


def find(mounts: str, own: str) -> Parents | None:
    """Return where groups can be created, given the texts of ``/proc/self/mounts`` and ``/proc/self/cgroup``."""
    paths = {}
    for line in own.splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            paths[name] = path.lstrip("/")
    first: dict[str, Path] = {}
    for _, point, kind, options, *_ in (line.split() for line in mounts.splitlines()):
        if kind == "cgroup2" and "" in paths:
            # This process's group is not empty, and a group with processes cannot delegate controllers;
            # its parent may be empty, as with systemd's DelegateSubgroup.
            own_group = Path(point) / paths[""]
            for parent in (own_group, own_group.parent):
                if parent.is_relative_to(point) and can_hold(parent, tuple(VERSION_2.values())):
                    return Parents(version=2, folders=(("pids", parent), ("memory", parent)))
        if kind == "cgroup":
            for name in set(options.split(",")) & set(VERSION_1) & set(paths):
                first[name] = Path(point) / paths[name]
    usable = [(name, path) for name, path in sorted(first.items()) if can_hold(path, (VERSION_1[name],))]
    return Parents(version=1, folders=tuple(usable)) if len(usable) == len(VERSION_1) else None


def can_hold(parent: Path, files: tuple[str, ...]) -> bool:
    """Return whether a group created below ``parent`` has these files, writable by this process."""
    trial = parent / f"{PREFIX}trial-{os.getpid()}"
    try:
        trial.mkdir()
    except OSError:
        return False
    try:
        return all(os.access(trial / file, os.W_OK) for file in files)
    finally:
        trial.rmdir()


def describe() -> str:
    """Name the mechanisms that limit memory and number of processes, for the report of a run."""
    parents = delegated()
    return "rlimits" if parents is None else f"cgroup v{parents.version} and rlimits"


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
