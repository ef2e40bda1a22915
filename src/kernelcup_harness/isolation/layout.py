"""The layout of a sandbox of any kind: the visible parts of the host, and the sizes of its folders."""

from __future__ import annotations

import functools
import os
import site
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kernelcup_harness.isolation import environments
from kernelcup_harness.isolation.cgroups import Group
from kernelcup_harness.protocol.source import PACKAGE, ROOT

JUDGE_ID = 64917
CONTESTANT_ID = 64918
RIVAL_ID = 64920
HIDDEN_ID = 64921
RIVAL_TIMER_ID = 64922
TIMER_ID = 64923
WITNESS_ID = 64924
USER_IDS = (JUDGE_ID, CONTESTANT_ID, RIVAL_ID, HIDDEN_ID, RIVAL_TIMER_ID, TIMER_ID, WITNESS_ID)
OWN_IDS = [range(first, first + len(USER_IDS)) for first in range(60712, 61184, 8)]
"""Sets of ids for one runner each. Neither Debian nor systemd gives them away, and a small container has them."""

# The folder for all writes, as named in the environment of a job. A kind of sandbox that cannot
# have it there substitutes its own path.
SCRATCH = "/tmp"
MOST_SCRATCH_BYTES = 4 << 30
MOST_SHARED_MEMORY_BYTES = 2 << 30
# Each of the three folders of a sandbox is memory. Together they must leave room for everything else.
SHARE_OF_MEMORY = 18

# Folders in which compilers and libraries keep their results; each job has its own.
CACHE_VARIABLES = (
    "TRITON_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "TORCH_EXTENSIONS_DIR",
    "KERNELCUP_CUDA_DIR",
    "CUDA_CACHE_PATH",
    "CUPY_CACHE_DIR",
    "CUTE_DSL_CACHE_DIR",
    "HELION_CACHE_DIR",
    "JAX_COMPILATION_CACHE_DIR",
    "NUMBA_CACHE_DIR",
    "XDG_CACHE_HOME",
    "TMPDIR",
    "HOME",
)

SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64")
SYSTEM_FILES = (
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/localtime",
)


def scratch_bytes() -> int:
    """Return how many bytes may be written to one folder of a sandbox on this machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(MOST_SCRATCH_BYTES, memory // SHARE_OF_MEMORY // (1 << 20) * (1 << 20))


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceNodes:
    """The device nodes that a sandbox shows."""

    paths: tuple[str, ...]
    environment: Mapping[str, str]
    """Variables to set with them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sandbox:
    """The files and resources of one process."""

    user_id: int
    files: Path
    """A folder whose files are laid into the working folder, read-only."""
    devices: DeviceNodes | None = None
    visible: tuple[str, ...] = ()
    """Further folders that it may read."""
    scratch_bytes: int = field(default_factory=scratch_bytes)
    network: bool = False
    """Let processes inside talk to each other over the sandbox's own loopback."""
    memory_bytes: int | None = None
    """Host memory for all its processes and files together, if a control group can limit it."""

    @property
    def shared_memory_bytes(self) -> int:
        """Largest size of /dev/shm."""
        return min(MOST_SHARED_MEMORY_BYTES, self.scratch_bytes)


@dataclass(frozen=True, kw_only=True, slots=True)
class SandboxedCommand:
    """A command line, and the descriptors that must be open while it is started."""

    argv: list[str]
    fds: list[int] = field(default_factory=list)
    environment: Mapping[str, str] | None = None
    """Replaces the requested environment."""
    work: Path | None = None
    """Replaces the requested working folder."""
    scratch: Path | None = None
    """The host's folder for its writes; None if they go to memory of its own."""
    scratch_sizes: frozenset[int] = frozenset()
    """Sizes of its folders in memory."""
    group: Group | None = None
    folder_inside: Path | None = None

    def close(self) -> None:
        """Close the descriptors that were only needed for the start."""
        for fd in self.fds:
            os.close(fd)


def make_readable(folder: Path) -> None:
    """Let every user read a folder and its contents, for any umask."""
    folder.chmod(0o755)
    for path in folder.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)


@functools.cache
def python_folders() -> tuple[str, ...]:
    """Return the folders of Python, its packages and this harness that are outside of /usr."""
    # The harness may be a folder or be run from its zip, which is shown as a file.
    harness = str(ROOT if ROOT.is_file() else PACKAGE)
    candidates = [sys.base_prefix, sys.prefix, *site.getsitepackages(), harness]
    shown_by = ("CUDA_HOME", "CUDA_PATH", environments.VARIABLE)
    candidates += [os.environ[name] for name in shown_by if os.environ.get(name)]
    candidates += [part for part in os.environ.get("LD_LIBRARY_PATH", "").split(":") if part]
    found: list[str] = []
    for candidate in candidates:
        for each in dict.fromkeys((os.path.abspath(candidate), os.path.realpath(candidate))):
            shown = any(each == top or each.startswith(top + "/") for top in ("/usr", *found))
            if not shown and each != "/" and (os.path.isdir(each) or each == harness):
                found.append(each)
    return tuple(found)


def memory_file(content: bytes) -> int:
    """Return a descriptor from which ``content`` can be read once."""
    fd = os.memfd_create("kernelcup-option")
    os.write(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
