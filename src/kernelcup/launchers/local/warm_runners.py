"""Start the harness for a job, or use a warm runner that has already imported everything."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO

from kernelcup.domain import Device
from kernelcup.errors import LaunchError
from kernelcup.launchers.bundle import PACKAGE, harness_hash
from kernelcup_harness.isolation import priority
from kernelcup_harness.pool import job_socket
from kernelcup_harness.pool.pool import Key, Pool, Runner
from kernelcup_harness.protocol import Backend, HarnessKind, JobSpec, SandboxPolicy, dumps

DEFAULT_WARM = {Backend.CUDA: 1}
"""The default number of runners for each slot: without a GPU they would only cost memory."""
CORES_TO_SPARE = 8
"""With this many cores, starting a runner does not disturb a running job."""


class Ready:
    """The warm runners of one launcher.

    Args:
        command: The command of the harness for one job.
        warm: The number of runners for each slot; None for :data:`DEFAULT_WARM`.
        while_busy: Whether new runners are started while a job runs on the same GPU; None means only if there are
            cores to spare and the new runner can have the lowest priority.
        package: The harness.
    """

    def __init__(
        self, command: Sequence[str], *, warm: int | None, while_busy: bool | None, package: Path = PACKAGE
    ) -> None:
        self._package = package
        self._command = tuple(command)
        self._warm = warm
        self._while_busy = may_start_while_busy() if while_busy is None else while_busy
        self._lock = threading.Lock()
        self._pool: Pool | None = None
        self._counts: dict[Key, int] = {}

    def keep(self, device: Device, environ: Mapping[str, str]) -> None:
        """Keep runners ready for one more slot of a device."""
        count = for_each_slot(device.backend, self._warm)
        if count == 0:
            return
        key = Key.of(device.backend.value, environ, ranks_on(device))
        with self._lock:
            if self._pool is None:
                self._pool = Pool(
                    self._command, version=partial(harness_hash, self._package), while_busy=self._while_busy
                )
            self._counts[key] = self._counts.get(key, 0) + count
            self._pool.keep(key, self._counts[key])

    def wait(self, timeout_s: float) -> bool:
        """Return True once all runners are ready, False if that takes too long."""
        with self._lock:
            pool, keys = self._pool, list(self._counts)
        return pool is None or all(pool.wait_until_ready(key, timeout_s) for key in keys)

    def close(self) -> None:
        """End all runners."""
        with self._lock:
            pool, self._pool = self._pool, None
            self._counts.clear()
        if pool is not None:
            pool.close()

    @contextmanager
    def started(
        self, spec: JobSpec, device: Device, environ: Mapping[str, str], *, keep: Sequence[int]
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Give the job to a warm runner or else to a new one; it has ended after the block.

        Args:
            spec: The job.
            device: Where it runs.
            environ: The environment of its runner.
            keep: Descriptors that stay open while the runner lives.
        """
        with self._lock:
            pool = self._pool
        if pool is None:
            with cold(self._command, spec, environ, keep=keep) as child:
                yield child
            return
        ranks = ranks_on(device)
        key = Key.of(spec.backend.value, environ, ranks)
        with pool.job(key, wanted=can_be_warm(spec, ranks)) as runner:
            if runner is not None and was_given(runner, spec, keep):
                yield runner.process
                return
            with cold(self._command, spec, environ, keep=keep) as child:
                yield child


def waiting_runners(devices: Iterable[Device], warm: int | None) -> dict[str, int]:
    """Return how many warm runners a service keeps for each device."""
    return {device.name: device.slots * for_each_slot(device.backend, warm) for device in devices}


def for_each_slot(backend: Backend, warm: int | None) -> int:
    """Return the number of warm runners for a slot; ``warm`` is the configured number or None."""
    return DEFAULT_WARM.get(backend, 0) if warm is None else warm


def may_start_while_busy() -> bool:
    """Return whether a runner can start beside a job without disturbing it."""
    return priority.can_be_raised() and len(os.sched_getaffinity(0)) >= CORES_TO_SPARE


def ranks_on(device: Device) -> int:
    """Return for how many GPUs at once a device's runners wait; 0 for jobs on one."""
    return device.gpus if device.gpus > 1 else 0


def can_be_warm(spec: JobSpec, ranks: int) -> bool:
    """Return whether a job can use a runner that waits for ``ranks`` GPUs at once.

    A task's own harness starts its own processes.
    """
    is_standard = spec.harness is HarnessKind.STANDARD and spec.sandbox is not SandboxPolicy.NONE
    return is_standard and spec.multi_gpu == (ranks > 0)


def was_given(runner: Runner, spec: JobSpec, keep: Sequence[int]) -> bool:
    """Give a runner its job; return False if the runner is gone."""
    with as_file(dumps(spec)) as file:
        try:
            job_socket.send(runner.channel, file.fileno(), keep)
        except OSError:
            return False
    return True


@contextmanager
def cold(
    command: Sequence[str], spec: JobSpec, environ: Mapping[str, str], *, keep: Sequence[int]
) -> Iterator[subprocess.Popen[bytes]]:
    """Start the harness for one job. Raise ``LaunchError``."""
    with as_file(dumps(spec)) as stdin:
        try:
            child = subprocess.Popen(
                command,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(environ),
                start_new_session=True,
                pass_fds=keep,
            )
        except OSError as error:
            raise LaunchError(f"the harness cannot be started: {error}") from error
    with child:
        try:
            yield child
        finally:
            kill_group(child)


@contextmanager
def as_file(text: str) -> Iterator[IO[bytes]]:
    """Provide text as a file, since a pipe would block if the child does not read."""
    with tempfile.TemporaryFile() as file:
        file.write(text.encode())
        file.seek(0)
        yield file


def kill_group(child: subprocess.Popen[bytes]) -> None:
    """Kill a harness with its process group, unless it has been reaped."""
    if child.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
