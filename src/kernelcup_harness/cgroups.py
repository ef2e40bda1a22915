"""Bound the processes and the memory of a sandbox by a control group of its own, where we may make one.

Version 2 of control groups, or version 1 where that is mounted. May we make none, the limits are those
of a process (see :mod:`kernelcup_harness.sandbox`) and what the runner sees when it looks.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import time
from dataclasses import dataclass
from pathlib import Path

from kernelcup_harness import sweeping

PREFIX = "kernelcup-"
REMOVE_S = 2.0
"""How long the kernel may take to let go of processes that were killed."""

# The file of each controller that holds its limit, and those that count kills for want of memory.
VERSION_1 = {"pids": "pids.max", "memory": "memory.limit_in_bytes"}
VERSION_2 = {"pids": "pids.max", "memory": "memory.max"}
OOM_FILES = ("memory.events", "memory.oom_control")


@dataclass(frozen=True, kw_only=True, slots=True)
class Parents:
    """The groups below which we may make our own."""

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
        """Tell whether it has not been removed yet."""
        return any(folder.exists() for folder in self.folders)

    def ran_out_of_memory(self) -> bool:
        """Tell whether the kernel has ended one of its processes for want of memory."""
        for path in (folder / name for folder in self.folders for name in OOM_FILES):
            with contextlib.suppress(OSError):
                counts = dict(line.split() for line in path.read_text().splitlines())
                if int(counts.get("oom_kill", "0")):
                    return True
        return False

    def limit_memory(self, memory_bytes: int) -> None:
        """Bound the memory of its processes. Where they hold more already, whoever watches them ends them."""
        for path in {folder / files["memory"] for folder in self.folders for files in (VERSION_1, VERSION_2)}:
            if path.exists():
                with contextlib.suppress(OSError):
                    path.write_text(str(memory_bytes))

    def remove(self) -> None:
        """Kill what is left in it and remove it."""
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
            # 0 stands for a process that we cannot see.
            return [int(line) for line in (folder / "cgroup.procs").read_text().split() if line != "0"]
        return []


def make(processes: int, memory_bytes: int | None) -> Group | None:
    """Make a group with these limits, None where we may not. ``memory_bytes`` is None for no limit."""
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
    name = f"{PREFIX}{sweeping.owner()}-{secrets.token_hex(6)}"
    return [folder / name for _, folder in parents.folders]


def sweep() -> None:
    """Remove the groups of runners that were killed, and what still runs in them."""
    parents = delegated()
    for folder in {folder for _, folder in parents.folders} if parents is not None else ():
        for path in folder.glob(f"{PREFIX}*-*"):
            if sweeping.is_orphan(path.name.removeprefix(PREFIX).rpartition("-")[0]):
                Group((path,)).remove()


@functools.cache
def delegated() -> Parents | None:
    """Return where this process may make groups, None if nowhere. Tries it once."""
    try:
        mounts = Path("/proc/self/mounts").read_text()
        own = Path("/proc/self/cgroup").read_text()
    except OSError:
        return None
    return find(mounts, own)


def find(mounts: str, own: str) -> Parents | None:
    """Return where groups can be made, by the texts of ``/proc/self/mounts`` and ``/proc/self/cgroup``."""
    paths = {}
    for line in own.splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            paths[name] = path.lstrip("/")
    first: dict[str, Path] = {}
    for _, point, kind, options, *_ in (line.split() for line in mounts.splitlines()):
        if kind == "cgroup2" and "" in paths:
            # Our own group holds us, and one that holds processes passes controllers on to no other;
            # its parent may be free of processes: systemd's DelegateSubgroup makes it so.
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
    """Tell whether a group made below ``parent`` has these files and lets us write to them."""
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
    """Say by what the memory and the number of processes are bounded, for the report of a run."""
    parents = delegated()
    return "rlimits" if parents is None else f"cgroup v{parents.version} and rlimits"
