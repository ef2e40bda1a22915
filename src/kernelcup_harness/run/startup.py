"""Start-up of judge and contestant: a process that was started before its job receives it here.

Both import what they need first, send ``ready``, and wait. Nothing here creates a context on a GPU, so a waiting
process costs only memory. Times are those of ``time.monotonic``, which all processes of a machine share.

Both send :class:`Started`, and receive :class:`ContestantJob` or :class:`JudgeJob`.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import select
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelcup_harness.build import compilers as light_compilers
from kernelcup_harness.build import inside
from kernelcup_harness.device import accelerators
from kernelcup_harness.isolation import environments, job_environment, processes
from kernelcup_harness.protocol import JobSpec
from kernelcup_harness.submission.cuda import inline
from kernelcup_harness.wire.channel import BrokenProtocol, Channel, ChannelClosed
from kernelcup_harness.wire.job_messages import ContestantJob, JudgeJob, Started
from kernelcup_harness.wire.messages import pack, unpack

MAX_JOB_FRAME = 256 << 20
IDLE_S = 1.5
"""A process that has waited this long for its job was started ahead of it, and has time for more imports."""
# Older than anything built here: a build must not look older than its source file.
FILE_TIME_S = 946_684_800.0


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgesJob:
    """The judge's view of a job."""

    spec: JobSpec
    secret: bytes
    runner: Channel
    contestants: Mapping[str, int]
    """The descriptor of each contestant's channel by its role, for the roles that this job has."""


def wait_as_judge(
    runner_fd: str,
    parent: str,
    *contestant_fds: str,
    ahead: Iterable[str] = (),
    while_idle: Iterable[str] = (),
    before_device: Callable[[], None] = lambda: None,
) -> JudgesJob:
    """Get the job, and lay its files into the working folder.

    Args:
        runner_fd: The channel to the runner.
        parent: The id of the runner, with which this process ends.
        contestant_fds: The channel of each role in the order of :data:`kernelcup_harness.run.workers.ROLES`.
        ahead: Modules to import before the job arrives.
        while_idle: Modules that many tasks need and that take seconds: imported only if the job has not come yet.
        before_device: Called after these imports, before the device is prepared.
    """
    processes.die_with_parent(int(parent))
    runner = Channel.from_fd(int(runner_fd), max_bytes=MAX_JOB_FRAME, max_fds=1)
    job = unpack(JudgeJob, started_and_wait(runner, ahead, while_idle, before_device=before_device))
    take_builds(runner, job.environment)
    lay_out(job.spec.sources, job.spec.data)
    roles = [*job.roles, *[""] * len(contestant_fds)]
    fds = {}
    for role, fd in zip(roles, map(int, contestant_fds), strict=False):
        if role:
            fds[role] = fd
        else:
            os.close(fd)
    return JudgesJob(spec=job.spec, secret=bytes.fromhex(job.secret_seed), runner=runner, contestants=fds)


def wait_as_contestant(runner_fd: str, parent: str, *, ahead: Iterable[str] = ()) -> None:
    """Get the contestant's share of the job, and apply its limits.

    Afterwards the channel to the runner is closed, and no code of a submission has run yet.
    """
    processes.die_with_parent(int(parent))
    runner = Channel.from_fd(int(runner_fd), max_bytes=MAX_JOB_FRAME, max_fds=1)
    job = unpack(ContestantJob, started_and_wait(runner, [*ahead, *compilers()]))
    take_builds(runner, job.environment)
    runner.close()
    lay_out(job.files)
    processes.limit_resources(job.memory_bytes or None)


def take_builds(runner: Channel, environment: Mapping[str, str]) -> None:
    """Set a job's variables, and unpack what was built for this process."""
    archives = runner.take_fds()
    os.environ.update(environment)
    environments.use(os.environ)
    for fd in archives:
        # A damaged build is skipped: the code then builds by itself.
        with open(fd, "rb") as archive, contextlib.suppress(ValueError, OSError):
            inside.unpack(archive, os.environ)
            os.environ.update(light_compilers.unpacked(os.environ))


def started_and_wait(
    runner: Channel,
    ahead: Iterable[str],
    while_idle: Iterable[str] = (),
    *,
    idle_s: float = IDLE_S,
    before_device: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Import torch and the named modules, prepare the device, and return the first frame. Exit without one.

    If there is none for ``idle_s`` seconds, import those of ``while_idle`` that are installed, until there is one.
    """
    began = time.monotonic()
    with processes.uncollected():
        for name in ("torch", *ahead):
            importlib.import_module(name)
    try:
        runner.send(pack(Started(began=began, imported=time.monotonic())))
        for name in while_idle:
            select.select([runner], [], [], idle_s)
            if runner.has_pending():
                break
            idle_s = 0.0
            with contextlib.suppress(ImportError), processes.uncollected():
                importlib.import_module(name)
        before_device()
        accelerators.here().start()
        inline.install()
        return runner.receive()
    except (ChannelClosed, BrokenProtocol):
        os._exit(0)


def compilers() -> list[str]:
    """Return the installed modules that submissions for a GPU import beside torch."""
    wanted = ["triton"] if os.environ.get("KERNELCUP_BACKEND") == "cuda" else []
    return [name for name in wanted if importlib.util.find_spec(name) is not None]


def lay_out(files: Mapping[str, str], data: Mapping[str, str] | None = None) -> None:
    """Write a job's files into the working folder, and make them importable."""
    folder = Path.cwd()
    job_environment.write_files(folder, files, data)
    for name in files:
        os.utime(folder / name, (FILE_TIME_S, FILE_TIME_S))
    # Python caches the contents of folders, and this one was empty.
    importlib.invalidate_caches()
    sys.path.insert(0, str(folder))
