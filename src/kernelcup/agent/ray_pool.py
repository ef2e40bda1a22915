"""The pool of a Ray node: one actor that keeps the machine's warm processes and judges what it is given.

It holds no resource of Ray. Which jobs come here is decided by Ray, which reserves their slots. Messages are
small: an order and an outcome travel in pieces.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from kernelcup import __version__
from kernelcup.agent.harnesses import Harnesses
from kernelcup.config.settings import Config
from kernelcup.errors import BadReport, ConfigError, LaunchError
from kernelcup.launchers import outcomes
from kernelcup.launchers.base import Event, LaunchResult, Order
from kernelcup.launchers.bundle import harness_hash
from kernelcup.launchers.local.launcher import LocalLauncher, make
from kernelcup.launchers.machine_facts import facts_here
from kernelcup.launchers.ray.names import PIECE_BYTES
from kernelcup_harness.protocol import JobSpec, ProtocolError, from_json

FORGOTTEN_S = 900.0
"""After how long a call that no dispatcher asks about is ended: longer than calls wait to be adopted."""
LOCK = "ray-pool.lock"
KILLED_S = 10.0

News = dict[str, Any]


@dataclass(kw_only=True, slots=True)
class _Call:
    launcher: LocalLauncher | None = None
    """None if it could not be started."""
    local: str = ""
    events: list[Event] = field(default_factory=list)
    outcome: bytes = b""
    is_ending: bool = False
    asked_at: float = field(default_factory=time.monotonic)


class RayPool:
    """Judges on its node. Ray calls it in several threads."""

    def __init__(self) -> None:
        settings = Config.load(None, os.environ)
        self._place = take_place(settings.runtime_dir)
        self._devices = {device.name: device for device in settings.devices_here}
        self._fed: dict[str, bytes] = {}
        self._zip = b""
        self._calls: dict[str, _Call] = {}
        self._changed = threading.Condition()
        self._begun = 0
        folder = settings.data_dir / "harness"
        self._harnesses = Harnesses(folder, lambda package: self.make(settings, package), self._fetched)
        self._harnesses.launcher(harness_hash())  # so that warm processes wait for the first job

    def make(self, settings: Config, package: Path) -> LocalLauncher:
        """Return the machine's launcher for a harness, with its warm processes."""
        launcher = make(settings, package=package)
        launcher.keep_ready(settings.devices_here)
        return launcher

    def hello(self) -> dict[str, Any]:
        """Return what the machine offers."""
        slots = {device.name: device.slots for device in self._devices.values()}
        return {"version": __version__, "slots": slots, "facts": facts_here()}

    def has_harness(self, wanted: str) -> bool:
        """Return whether a harness is here."""
        with self._changed, suppress(LaunchError):
            self._harnesses.launcher(wanted)
            return True
        return False

    def feed(self, key: str, offset: int, piece: bytes) -> None:
        """Take a piece of the order ``CALL``, or of the zip of its harness, ``CALL.zip``; the first is at 0."""
        with self._changed:
            self._fed[key] = piece if offset == 0 else self._fed[key] + piece

    def begin(self, call: str) -> None:
        """Begin to judge the order that was fed under the call's name."""
        with self._changed:
            order, self._zip = self._fed.pop(call), self._fed.pop(f"{call}.zip", b"")
            if call not in self._calls:
                self._calls[call] = self._started(order)
            self._begun += 1
            self._changed.notify_all()

    def seen(self, call: str) -> int | None:
        """Return how many events of a call there are; None if it is not known."""
        with self._changed:
            return len(self._calls[call].events) if call in self._calls else None

    def news(self, seen: Mapping[str, int], wait_s: float) -> dict[str, News]:
        """Return the news of calls, given the number of events known of each; wait for some.

        A call has ``events``, ``size`` (the bytes of its outcome, if it has ended), or ``unknown``.
        """
        until = time.monotonic() + wait_s
        with self._changed:
            begun = self._begun
            while True:
                self._collect()
                found = {call: news for call, number in seen.items() if (news := self._news(call, number))}
                left_s = until - time.monotonic()
                if found or left_s <= 0 or begun != self._begun:
                    return found
                self._changed.wait(left_s)

    def outcome(self, call: str, offset: int) -> bytes:
        """Return a piece of the outcome of a call that has ended."""
        with self._changed:
            return self._calls[call].outcome[offset : offset + PIECE_BYTES]

    def end(self, call: str, wait_s: float) -> bool:
        """Forget a call, and end it if it still runs; return whether nothing of it is left by then."""
        with self._changed:
            found = self._calls.get(call)
            if found is None:
                return True
            if found.launcher is not None:
                launcher, local = found.launcher, found.local
                if not found.is_ending:
                    launcher.cancel(local)
                    found.is_ending = True
                if not self._changed.wait_for(lambda: launcher.has_ended(local), wait_s):
                    return False
            self._calls.pop(call, None)
            return True

    def unwanted(self) -> list[str]:
        """Return the calls that no dispatcher has asked about for a long time."""
        with self._changed:
            return [
                name for name, each in self._calls.items() if time.monotonic() - each.asked_at > FORGOTTEN_S
            ]

    def look_again(self) -> str:
        """Check the GPUs that are out of service once they have rested; return why the machine takes no jobs."""
        return self._harnesses.look_again(is_idle=not self._calls)

    def _news(self, name: str, seen: int) -> News:
        call = self._calls.get(name)
        if call is None or call.is_ending:
            return {"unknown": True}
        call.asked_at = time.monotonic()
        events: list[Event] = []
        size = 0
        for event in call.events[seen:]:
            size += len(json.dumps(event))
            if events and size > PIECE_BYTES:
                return {"events": events}
            events.append(event)
        news: News = {"events": events} if events else {}
        return news | ({"size": len(call.outcome)} if call.outcome else {})

    def _collect(self) -> None:
        for call in self._calls.values():
            if call.launcher is None or call.outcome or call.is_ending:
                continue
            news = call.launcher.poll([call.local])[call.local]
            call.events += [each for each in news.events if len(json.dumps(each)) <= PIECE_BYTES]
            if news.outcome is not None:
                self._harnesses.note(news.outcome)
                call.outcome = encoded(news.outcome)

    def _started(self, text: bytes) -> _Call:
        try:
            body = json.loads(text)
            spec = from_json(JobSpec, body["spec"])
            if body["device"] not in self._devices:
                raise LaunchError(f"this machine has no {body['device']}")
            launcher = self._harnesses.launcher(body["harness"])
            order = Order(spec=spec, device=self._devices[body["device"]], harness_hash=body["harness"])
            return _Call(launcher=launcher, local=launcher.start(order, wake=self._wake))
        except ProtocolError as error:
            failed: Exception = BadReport(f"this node has another version than the service: {error}")
        except Exception as error:
            failed = (
                error if isinstance(error, LaunchError) else LaunchError(f"{type(error).__name__}: {error}")
            )
        return _Call(outcome=encoded(failed))

    def _fetched(self, wanted: str) -> bytes:
        if not self._zip:
            raise LaunchError(f"no harness {wanted[:12]} is here")
        return self._zip

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()


def encoded(outcome: LaunchResult | Exception) -> bytes:
    """Return an outcome as JSON; one that is too large is a ``BadReport``."""
    text = json.dumps(outcomes.encode(outcome)).encode()
    if len(text) > outcomes.LARGEST_REPORT_BYTES:
        text = json.dumps(
            outcomes.encode(BadReport(f"a report of {len(text):,} bytes is too large"))
        ).encode()
    return text


def take_place(folder: Path) -> IO[str]:
    """Be the only pool of this machine, and end what a node that was lost has left: its pool, and so its jobs.

    The harness dies with the process that started it. Raise ``ConfigError`` if another node is alive.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = (folder / LOCK).open("a+")
    try:
        _take(file, folder)
    except ConfigError:
        file.close()
        raise
    file.truncate(0)
    file.write(f"{os.getpid()} {os.getppid()}\n")
    file.flush()
    return file


def _take(file: IO[str], folder: Path) -> None:
    until = time.monotonic() + KILLED_S
    while not _lock(file):
        file.seek(0)
        pid, node = map(int, (file.read().split() or ["0", "0"])[:2])
        if pid and parent_of(pid) == node:
            raise ConfigError(
                f"another Ray node on this machine, process {node}, judges with {folder}; "
                "stop it, or set KERNELCUP_RUNTIME and KERNELCUP_HOME for each"
            )
        if pid and parent_of(pid):
            os.kill(pid, signal.SIGKILL)
        if time.monotonic() > until:
            raise ConfigError(f"{folder / LOCK} is held by another process")
        time.sleep(0.05)


def parent_of(pid: int) -> int:
    """Return a process's parent, 0 if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def _lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
