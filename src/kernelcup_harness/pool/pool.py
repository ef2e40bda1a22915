"""Warm runners: each waits for one job with everything imported. Standard library only.

A runner is ``python -m kernelcup_harness --ahead BACKEND``, for jobs on several GPUs with ``--ranks N``; it
holds a judge and contestants in their sandboxes. One thread of the pool starts and supervises all of them,
and lives as long as they do: the system ends a runner with the thread that started it, so a killed service
leaves none behind.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

MAX_AGE_S = 1800.0
"""A runner that has waited longer is replaced: its knowledge of the machine may be outdated."""
RETRY_S = 60.0
"""Time until another start is tried after a runner has failed to start."""
LEAVE_S = 10.0
"""Time for a dismissed runner to clean up."""
KEPT_LOG = 4096

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Key:
    """Identifies the jobs for which a runner can be used."""

    backend: str
    environment: tuple[tuple[str, str], ...]
    """The runner's environment variables, its GPUs included, sorted by name."""
    ranks: int = 0
    """On how many GPUs a job works at once; 0 for jobs on one."""

    @classmethod
    def of(cls, backend: str, environment: Mapping[str, str], ranks: int = 0) -> Key:
        return cls(backend, tuple(sorted(environment.items())), ranks)

    @property
    def place(self) -> str:
        """The resource on which jobs disturb each other: the GPUs, or the processor."""
        return dict(self.environment).get("CUDA_VISIBLE_DEVICES", "") if self.backend == "cuda" else ""


@dataclass(slots=True, eq=False)
class Runner:
    """One runner. The pool reads its output while it waits, the code that takes it reads it afterwards."""

    key: Key
    version: str
    process: subprocess.Popen[bytes]
    channel: socket.socket
    """Carries its job: see :func:`kernelcup_harness.pool.job_socket.send`."""
    since: float = field(default_factory=time.monotonic)
    is_ready: bool = False
    leaves_at: float | None = None
    """When it is killed if it is still running."""

    @property
    def output(self) -> int:
        """The descriptor of its standard output."""
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def leave(self) -> None:
        """Dismiss it: it cleans up and ends."""
        self.channel.close()
        with suppress(ProcessLookupError):
            self.process.terminate()

    def kill(self) -> None:
        """Kill it and everything that it has started."""
        if self.process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Reap it, and close its socket and pipes."""
        self.channel.close()
        self.process.wait()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()

    def log(self) -> str:
        """Return the end of its log for the operator, without waiting for more."""
        assert self.process.stderr is not None
        os.set_blocking(self.process.stderr.fileno(), False)
        with suppress(OSError, ValueError):
            return (self.process.stderr.read() or b"")[-KEPT_LOG:].decode("utf-8", "replace").strip()
        return ""


class Pool:
    """Keeps runners waiting.

    Args:
        command: The harness; ``--ahead BACKEND`` is inserted before its last word.
        version: Returns the version of the harness now; runners of another version are not used.
        while_busy: Whether to start runners even while a job runs on the same GPUs, at the lowest priority.
        max_age_s: Longest time that a runner may wait.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        version: Callable[[], str],
        while_busy: bool = False,
        max_age_s: float = MAX_AGE_S,
    ) -> None:
        self._command = tuple(command)
        self._version = version
        self._while_busy = while_busy
        self._max_age_s = max_age_s
        self._changed = threading.Condition()
        self._wanted: dict[Key, int] = {}
        self._waiting: list[Runner] = []
        self._leaving: list[Runner] = []
        self._taken = 0
        self._busy: Counter[str] = Counter()
        self._retry_at: dict[Key, float] = {}
        self._closed = False
        self._woken, self._wake_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._look_after, name="runners", daemon=True)
        self._thread.start()

    def keep(self, key: Key, count: int) -> None:
        """Keep ``count`` runners for a key from now on."""
        with self._changed:
            self._wanted[key] = count
        self._wake()

    def wait_until_ready(self, key: Key, timeout_s: float) -> bool:
        """Return True once all runners of a key wait for jobs; False if that takes too long."""
        with self._changed:
            return self._changed.wait_for(lambda: self._is_full(key), timeout_s)

    def waiting(self, key: Key) -> list[Runner]:
        """Return the runners of a key that are not taken."""
        with self._changed:
            return [runner for runner in self._waiting if runner.key == key]

    @contextmanager
    def job(self, key: Key, *, wanted: bool = True) -> Iterator[Runner | None]:
        """Take a runner for a job, None if there is none; it is ended with the block.

        Args:
            wanted: False for a job in the same place that cannot use a runner.
        """
        with self._changed:
            self._busy[key.place] += 1
            runner = self._take(key) if wanted else None
            self._taken += runner is not None
        self._wake()
        try:
            yield runner
        finally:
            if runner is not None:
                runner.kill()
                runner.close()
            with self._changed:
                self._busy[key.place] -= 1
                self._taken -= runner is not None
            self._wake()

    def close(self) -> None:
        """Dismiss all waiting runners. Runners with a job end with it."""
        with self._changed:
            self._closed = True
        self._wake()
        self._thread.join(2 * LEAVE_S if not self._taken else 0.0)

    def _take(self, key: Key) -> Runner | None:
        """Return the runner that has waited longest; one that is still starting is better than none."""
        version = self._version()
        for runner in sorted(self._waiting, key=lambda runner: (not runner.is_ready, runner.since)):
            if runner.key == key and runner.process.poll() is None and runner.version == version:
                self._waiting.remove(runner)
                return runner
        return None

    def _is_full(self, key: Key) -> bool:
        ready = [runner for runner in self._waiting if runner.key == key and runner.is_ready]
        return len(ready) >= self._wanted.get(key, 0)

    def _wake(self) -> None:
        with suppress(BlockingIOError):
            os.write(self._wake_end, b"w")

    # --- the rest runs in the pool's own thread

    def _look_after(self) -> None:
        while True:
            with self._changed:
                self._let_go()
                if self._closed and not (self._waiting or self._leaving or self._taken):
                    return
                missing = self._missing()
                looked_at = [*self._waiting, *self._leaving]
            for key in missing:
                self._start(key)
            if not missing:
                self._wait(looked_at)

    def _let_go(self) -> None:
        """Dismiss runners that are too old or of another version, and kill those that do not leave."""
        now, version = time.monotonic(), self._version()
        for runner in list(self._waiting):
            if self._closed or now - runner.since > self._max_age_s or runner.version != version:
                self._waiting.remove(runner)
                self._leaving.append(runner)
                runner.leaves_at = now + LEAVE_S
                runner.leave()
        for runner in self._leaving:
            if runner.leaves_at is not None and now > runner.leaves_at:
                runner.kill()

    def _missing(self) -> list[Key]:
        if self._closed:
            return []
        now = time.monotonic()
        found = []
        for key, count in self._wanted.items():
            may = self._while_busy or not self._busy[key.place]
            there = sum(runner.key == key for runner in self._waiting)
            if may and there < count and now >= self._retry_at.get(key, 0.0):
                found.append(key)
        return found

    def _start(self, key: Key) -> None:
        version = self._version()
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = subprocess.Popen(
                    self._argv(key),
                    stdin=theirs.fileno(),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=dict(key.environment),
                    start_new_session=True,
                )
            except OSError as error:
                ours.close()
                self._note_failure(key, str(error))
                return
        with self._changed:
            self._waiting.append(Runner(key, version, process, ours))

    def _argv(self, key: Key) -> list[str]:
        more = ["--ahead", key.backend, *(["--ranks", str(key.ranks)] if key.ranks else [])]
        more += ["--background"] if self._while_busy else []
        return [*self._command[:-1], *more, *self._command[-1:]]

    def _wait(self, runners: Sequence[Runner]) -> None:
        """Wait for the next event, and handle it."""
        poll = select.poll()
        poll.register(self._woken, select.POLLIN)
        for runner in runners:
            poll.register(runner.output, select.POLLIN)
        happened = {fd for fd, _ in poll.poll(1000.0 * self._next_s(runners))}
        with suppress(BlockingIOError):
            os.read(self._woken, 4096)
        with self._changed:
            for runner in [*self._waiting, *self._leaving]:
                # The output of a runner taken in the meantime belongs to its job.
                if runner in runners and runner.output in happened:
                    self._hear(runner)
            self._changed.notify_all()

    def _next_s(self, runners: Sequence[Runner]) -> float:
        """Return the seconds until the next deadline."""
        due = [runner.leaves_at or runner.since + self._max_age_s for runner in runners]
        due += [time.monotonic() + RETRY_S] if self._retry_at else []
        return max(0.01, min((moment - time.monotonic() for moment in due), default=RETRY_S))

    def _hear(self, runner: Runner) -> None:
        """Read the output of a waiting runner: it is ready, or, at the end of its output, gone."""
        if os.read(runner.output, 4096):
            runner.is_ready = True
            self._retry_at.pop(runner.key, None)
            return
        if runner in self._waiting:
            self._waiting.remove(runner)
            self._note_failure(runner.key, runner.log())
        else:
            self._leaving.remove(runner)
        runner.kill()
        runner.close()

    def _note_failure(self, key: Key, text: str) -> None:
        logger.warning("a runner that waited for a job on %s is gone: %s", key.backend, text or "-")
        self._retry_at[key] = time.monotonic() + RETRY_S
