"""Start the harness for a job, or take one that waits with everything imported."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO

from kernelcup.domain import Device
from kernelcup.errors import LaunchError
from kernelcup.launchers.bundle import harness_hash
from kernelcup_harness import priority, waiting
from kernelcup_harness.pool import Key, Pool, Runner
from kernelcup_harness.protocol import Backend, HarnessKind, JobSpec, SandboxPolicy, dumps

DEFAULT_WARM = {Backend.CUDA: 1}
"""Runners for each slot where nothing is configured: on a machine without a GPU they cost memory only."""
CORES_TO_SPARE = 8
"""With so many a runner that starts leaves a job's processes alone."""


class Ready:
    """The runners of one launcher.

    Args:
        command: The harness, as it is started for one job.
        warm: How many wait for each slot; None for :data:`DEFAULT_WARM`.
        while_busy: Whether new ones are started while a job runs on the same GPU; None: where there are
            cores to spare and the new one can be given the lowest priority.
    """

    def __init__(self, command: Sequence[str], *, warm: int | None, while_busy: bool | None) -> None:
        self._command = tuple(command)
        self._warm = warm
        self._while_busy = may_start_while_busy() if while_busy is None else while_busy
        self._lock = threading.Lock()
        self._pool: Pool | None = None
        self._counts: dict[Key, int] = {}

    def keep(self, backend: Backend, environ: Mapping[str, str]) -> None:
        """Have runners wait for the jobs of one more slot."""
        count = for_each_slot(backend, self._warm)
        if count == 0:
            return
        key = Key.of(backend.value, environ)
        with self._lock:
            if self._pool is None:
                self._pool = Pool(self._command, version=harness_hash, while_busy=self._while_busy)
            self._counts[key] = self._counts.get(key, 0) + count
            self._pool.keep(key, self._counts[key])

    def wait(self, timeout_s: float) -> bool:
        """Return once all wait for jobs; False if that takes too long."""
        with self._lock:
            pool, keys = self._pool, list(self._counts)
        return pool is None or all(pool.wait_until_ready(key, timeout_s) for key in keys)

    def close(self) -> None:
        """Let all go."""
        with self._lock:
            pool, self._pool = self._pool, None
            self._counts.clear()
        if pool is not None:
            pool.close()

    @contextmanager
    def started(
        self, spec: JobSpec, environ: Mapping[str, str], *, keep: Sequence[int]
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Give the job to a runner, one that waits where there is one; it is gone after the block.

        Args:
            keep: Descriptors that stay open for as long as the runner lives.
        """
        with self._lock:
            pool = self._pool
        if pool is None:
            with cold(self._command, spec, environ, keep=keep) as child:
                yield child
            return
        key = Key.of(spec.backend.value, environ)
        with pool.job(key, wanted=can_be_warm(spec)) as runner:
            if runner is not None and was_given(runner, spec, keep):
                yield runner.process
                return
            with cold(self._command, spec, environ, keep=keep) as child:
                yield child


def waiting_runners(devices: Iterable[Device], warm: int | None) -> dict[str, int]:
    """Return how many runners a service keeps waiting for each device."""
    return {device.name: device.slots * for_each_slot(device.backend, warm) for device in devices}


def for_each_slot(backend: Backend, warm: int | None) -> int:
    """Return how many runners wait for a slot; ``warm`` is what is configured, None for nothing."""
    return DEFAULT_WARM.get(backend, 0) if warm is None else warm


def may_start_while_busy() -> bool:
    """Return whether a runner can start beside a job without being felt."""
    return priority.can_be_raised() and len(os.sched_getaffinity(0)) >= CORES_TO_SPARE


def can_be_warm(spec: JobSpec) -> bool:
    """Return whether a job can use what waits: a task's own harness starts processes of its own."""
    return spec.harness is HarnessKind.STANDARD and spec.sandbox is not SandboxPolicy.NONE


def was_given(runner: Runner, spec: JobSpec, keep: Sequence[int]) -> bool:
    """Give a runner its job; False if it is gone."""
    with as_file(dumps(spec)) as file:
        try:
            waiting.send(runner.channel, file.fileno(), keep)
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
    """Hand text over as a file: a pipe would block on a child that does not read."""
    with tempfile.TemporaryFile() as file:
        file.write(text.encode())
        file.seek(0)
        yield file


def kill_group(child: subprocess.Popen[bytes]) -> None:
    """End a harness and what is in its process group, unless it has been reaped."""
    if child.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
