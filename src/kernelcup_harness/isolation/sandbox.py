"""Puts a process that runs untrusted code into a sandbox of its own.

:func:`prepare` is the only entry point, for the kind of sandbox that works here: bubblewrap, else
Landlock. Either kind has limits on processes, open files and sizes, and a control group if the user may
create one.
"""

from __future__ import annotations

import atexit
import dataclasses
import functools
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from kernelcup_harness.isolation import bubblewrap, cgroups, job_users, landlock, seccomp
from kernelcup_harness.isolation.layout import (
    CACHE_VARIABLES,
    SYSTEM_FILES,
    SYSTEM_FOLDERS,
    DeviceNodes,
    memory_file,
    python_folders,
)
from kernelcup_harness.isolation.layout import CONTESTANT_ID as CONTESTANT_ID
from kernelcup_harness.isolation.layout import SCRATCH as SCRATCH
from kernelcup_harness.isolation.layout import Sandbox as Sandbox
from kernelcup_harness.isolation.layout import SandboxedCommand as SandboxedCommand
from kernelcup_harness.isolation.layout import make_readable as make_readable

VARIABLE = "KERNELCUP_HARNESS_SANDBOX"
"""Names the only kind that may be used; if unset, the best kind that works is used."""

FOLDER_PREFIX = "kernelcup-job-"
TRIAL_S = 20.0

# Processes and threads, counted for each user on the whole machine: parallel jobs share the limit,
# so it grows with the machine. It ends a fork bomb, not a job.
LEAST_PROCESSES = 4096
PROCESSES_A_CORE = 64
# Without root, everything that this user runs counts too.
PROCESSES_OF_OURSELVES = 16384
GROUP_PROCESSES = 4096
OPEN_FILES = 65536
# Memory shared by judge and contestant counts as a file. Folders in memory are smaller anyway.
FILE_BYTES = 64 << 30


class Kind(StrEnum):
    """The kinds of sandbox, best first."""

    BUBBLEWRAP = "bubblewrap"
    LANDLOCK = "landlock"
    NONE = "none"


@functools.cache
def kind(*, network: bool = False) -> Kind:
    """Return the kind that is used here. Tries each kind once.

    With ``network`` it must have a network of its own, which Landlock cannot provide.

    Raises:
        RuntimeError: The machine is too busy to try one.
    """
    works = {Kind.BUBBLEWRAP: bubblewrap_works, Kind.LANDLOCK: landlock_works}
    named = os.environ.get(VARIABLE)
    if named and named not in [*Kind]:
        raise ValueError(f"{VARIABLE} is {named!r}, expected one of {', '.join(Kind)}")
    for each in [Kind(named)] if named else [*Kind]:
        if not (network and each is Kind.LANDLOCK) and (each is Kind.NONE or works[each]()):
            return each
    return Kind.NONE


def is_there(*, network: bool = False) -> bool:
    """Return whether there is a sandbox for a job."""
    return kind(network=network) is not Kind.NONE


def has_own_names() -> bool:
    """Return whether each process has its own files, even under names that other processes use."""
    return kind() is Kind.BUBBLEWRAP


def unranked() -> str:
    """Return why a submission in this sandbox could end processes outside of it, empty if it cannot."""
    if kind() is not Kind.LANDLOCK or os.getuid() == 0 or landlock.abi() >= landlock.SCOPES:
        return ""
    return "before Linux 6.12 Landlock lets signals reach all processes of the runner's user, who is not root"


def parent_id() -> int:
    """Return the parent's process id as a process in the sandbox sees it; 0 for one that ends it by itself."""
    return {Kind.BUBBLEWRAP: 1, Kind.LANDLOCK: 0}.get(kind(), os.getpid())


def bubblewrap_works() -> bool:
    """Try bubblewrap, which is more reliable than checking versions and kernel settings."""
    return shutil.which("bwrap") is not None and runs(Kind.BUBBLEWRAP, ["/bin/true"])


def landlock_works() -> bool:
    """Try Landlock."""
    return landlock.abi() > 0 and any(python_runs(reads_all=reads_all) for reads_all in (False, True))


@functools.cache
def python_runs(*, reads_all: bool) -> bool:
    """Return whether this Python runs under Landlock, as a user who may read only their own files or all visible ones.

    Only root can grant the latter.
    """
    argv = [sys.executable, "-I", "-S", "-c", ""]
    return (os.getuid() == 0 or not reads_all) and runs(Kind.LANDLOCK, argv, reads_all=reads_all)


def runs(
    kind: Kind, argv: Sequence[str], *, reads_all: bool = False, devices: DeviceNodes | None = None
) -> bool:
    """Return whether a program succeeds in a sandbox. Raise ``RuntimeError`` if it does not end in time."""
    if not seccomp.is_supported():
        return False
    with tempfile.TemporaryDirectory(prefix="kernelcup-trial-") as folder:
        # Under Landlock the other user has to pass through it.
        Path(folder).chmod(0o711)
        (Path(folder) / "files").mkdir()
        trial = Sandbox(user_id=CONTESTANT_ID, files=Path(folder) / "files", devices=devices)
        environment: dict[str, str] = {}
        if devices is not None:
            environment = {**devices.environment, "LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")}
        try:
            if kind is Kind.BUBBLEWRAP:
                prepared = confine(kind, trial, argv, {})
            else:
                prepared = by_landlock(
                    trial,
                    argv,
                    environment,
                    Path(folder) / "scratch",
                    reads_all=reads_all,
                )
        except OSError:
            return False
        try:
            done = subprocess.run(
                prepared.argv,
                pass_fds=prepared.fds,
                env=prepared.environment,
                capture_output=True,
                timeout=TRIAL_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            # A busy machine must not take it for one without a sandbox: the job would run in none.
            raise RuntimeError(f"the trial of {kind} did not end within {TRIAL_S:g} s") from error
        except OSError:
            return False
        finally:
            prepared.close()
    return done.returncode == 0


def describe(*, network: bool = False) -> dict[str, str]:
    """Describe the sandbox in force here, for the report of a run."""
    found = kind(network=network)
    if found is Kind.NONE:
        forced = os.environ.get(VARIABLE)
        why = f"{VARIABLE}={forced}" if forced else "neither bubblewrap nor Landlock works here"
        return {"kind": "none", "why": why}
    limits = {"limits": cgroups.describe()}
    if found is Kind.BUBBLEWRAP:
        return bubblewrap.describe() | limits
    how = "a user of its own" if os.getuid() == 0 else "the same user"
    if os.getuid() == 0 and not python_runs(reads_all=False):
        how += " who may read all files that are shown"
    same = {"privileges": how, "network": "none", "seccomp": "denylist"}
    why = unranked()
    return landlock.describe(landlock.abi()) | same | limits | ({"unranked": why} if why else {})


def prepare(box: Sandbox, argv: Sequence[str], environment: Mapping[str, str]) -> SandboxedCommand:
    """Return the command that runs ``argv`` inside. Raise ``RuntimeError`` if there is no sandbox."""
    found = kind(network=box.network)
    if found is Kind.NONE:
        raise RuntimeError("no sandbox that works")
    make_readable(box.files)
    return limited(box, confine(found, box, argv, environment))


def confine(
    kind: Kind, box: Sandbox, argv: Sequence[str], environment: Mapping[str, str]
) -> SandboxedCommand:
    """Return the command without its limits, for one kind of sandbox."""
    environment = {**environment, "USER": "kernelcup", "LOGNAME": "kernelcup"}
    if box.devices is not None:
        environment |= box.devices.environment
    if os.getuid() == 0:
        try:
            box = dataclasses.replace(box, user_id=job_users.begin(box.user_id))
        except OSError:
            # With names of its own a job may share the user with others: only its processes count with theirs then.
            if kind is not Kind.BUBBLEWRAP:
                raise
    if kind is Kind.BUBBLEWRAP:
        return bubblewrap.prepare(shutil.which("bwrap") or "bwrap", box, argv, environment)
    scratch, reads_all = scratch_folder(box.user_id), not python_runs(reads_all=False)
    return by_landlock(box, argv, environment, scratch, reads_all=reads_all)


def by_landlock(
    box: Sandbox,
    argv: Sequence[str],
    environment: Mapping[str, str],
    scratch: Path,
    *,
    reads_all: bool,
) -> SandboxedCommand:
    """Return the command that runs ``argv`` under Landlock, with a fresh ``scratch`` folder to write to."""
    user_id = box.user_id if os.getuid() == 0 else None
    work = laid_out(box.files, scratch, user_id)
    let_through(box)
    gpu = box.devices is not None
    nodes = box.devices.paths if box.devices is not None else ()
    shown = [*SYSTEM_FOLDERS, *SYSTEM_FILES, *python_folders(), *box.visible]
    # Only its owner would tell its files there from others, to remove them before the next job.
    shared = [("/dev/shm", landlock.SHARED_MEMORY)] if user_id is not None else []
    settings = {
        "user_id": user_id,
        "reads_all": reads_all,
        "parent": os.getpid(),
        "work": str(work),
        "abi": landlock.abi(),
        "rules": landlock.rules(shown, scratch, nodes, gpu=gpu) + shared,
        "filter": seccomp.program(isolated=False, gpu=gpu).hex(),
    }
    fd = memory_file(json.dumps(settings).encode())
    return SandboxedCommand(
        argv=landlock.trampoline(fd, argv),
        fds=[fd],
        environment={
            **{name: moved(value, scratch) for name, value in environment.items() if name in CACHE_VARIABLES},
            **{name: value for name, value in environment.items() if name not in CACHE_VARIABLES},
        },
        work=work,
        scratch=scratch,
    )


def moved(value: str, scratch: Path) -> str:
    """Return an environment value with the real path of the scratch folder."""
    inside = value == SCRATCH or value.startswith(SCRATCH + "/")
    return str(scratch) + value.removeprefix(SCRATCH) if inside else value


def scratch_folder(user_id: int) -> Path:
    """Return the scratch folder of processes without memory of their own: the same for all processes of a run.

    Compilers validate their caches by file names.
    """
    space = os.stat("/proc/self/ns/pid").st_ino
    folder = Path(tempfile.gettempdir()) / f"{FOLDER_PREFIX}{space}-{os.getpid()}-inside-{user_id}"
    atexit.register(remove_folder, folder)
    return folder


def remove_folder(folder: Path) -> None:
    """Remove a folder of any depth."""
    subprocess.run(["rm", "-rf", "--", str(folder)], check=False, stderr=subprocess.DEVNULL)


def laid_out(files: Path, scratch: Path, user_id: int | None) -> Path:
    """Recreate the scratch folder and return the working folder in it, with copies of the files."""
    remove_folder(scratch)
    scratch.mkdir(mode=0o700)
    work = scratch / "job"
    shutil.copytree(files, work)
    make_readable(work)
    if user_id is not None:
        os.chown(scratch, user_id, user_id)
        # The process may write there, but not change or remove the files of others.
        work.chmod(0o1777)
    return work


def let_through(box: Sandbox) -> None:
    """Let other users traverse the folders above the visible ones. Their names are random and cannot be listed."""
    top = Path(tempfile.gettempdir()).resolve()
    for shown in map(Path, box.visible):
        for parent in shown.resolve().parents:
            if parent != top and parent.is_relative_to(top) and parent.stat().st_uid == os.getuid():
                parent.chmod(parent.stat().st_mode & 0o7777 | 0o011)


def limited(box: Sandbox, prepared: SandboxedCommand) -> SandboxedCommand:
    """Return the command with its limits, and with a control group to join if one can be created."""
    group = cgroups.make(GROUP_PROCESSES + PROCESSES_A_CORE * (os.cpu_count() or 1), box.memory_bytes)
    joining = group.joining() if group is not None else []
    return dataclasses.replace(prepared, argv=[*joining, *limits(), *prepared.argv], group=group)


def limits() -> list[str]:
    """Return the beginning of a command line that sets limits for the process and its descendants."""
    program = shutil.which("prlimit")
    if program is None:
        return []
    processes = max(LEAST_PROCESSES, PROCESSES_A_CORE * (os.cpu_count() or 1))
    wanted = {
        "core": (resource.RLIMIT_CORE, 0),
        "nproc": (resource.RLIMIT_NPROC, processes if os.getuid() == 0 else PROCESSES_OF_OURSELVES),
        "nofile": (resource.RLIMIT_NOFILE, OPEN_FILES),
        "fsize": (resource.RLIMIT_FSIZE, FILE_BYTES),
    }
    values = {name: at_most(number, value) for name, (number, value) in wanted.items()}
    return [program, *(f"--{name}={value}" for name, value in values.items()), "--"]


def at_most(number: int, value: int) -> int:
    """Return a limit that this process may set: at most its own hard limit."""
    hard = resource.getrlimit(number)[1]
    return value if hard == resource.RLIM_INFINITY else min(value, hard)
