"""A judge and its contestants as threads of one process, for what needs a look inside."""

from __future__ import annotations

import gc
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

from kernelcup_harness.contestant.main import Contestant
from kernelcup_harness.core.plan import meets_hidden
from kernelcup_harness.device import calibration
from kernelcup_harness.judge.main import judge
from kernelcup_harness.protocol import Backend, CaseResult, DuelResult, JobSpec, from_json
from kernelcup_harness.run import startup
from kernelcup_harness.wire import values
from kernelcup_harness.wire.channel import Channel, ChannelClosed
from kernelcup_harness.wire.messages import Dismissed, pack

SECRET = bytes(range(32))


@contextmanager
def working_in(folder: Path, files: Mapping[str, str]) -> Iterator[None]:
    """Be in a folder with these files, whose modules are forgotten afterwards."""
    # Another test may have left a module of the same name, from a folder of its own.
    for name in files:
        sys.modules.pop(name.removesuffix(".py"), None)
    before, path, modules = Path.cwd(), list(sys.path), set(sys.modules)
    os.chdir(folder)
    try:
        startup.lay_out(files)
        yield
    finally:
        os.chdir(before)
        sys.path[:] = path
        for name in set(sys.modules) - modules:
            origin = getattr(sys.modules[name], "__file__", None) or ""
            if origin.startswith(str(folder)):
                del sys.modules[name]


@contextmanager
def small_canary() -> Iterator[None]:
    """Have the canary of a processor copy and multiply little: its times mean nothing here."""
    with (
        patch.dict(calibration.CANARY_BYTES, {Backend.CPU: 1 << 16}),
        patch.dict(calibration.CANARY_SIDE, {Backend.CPU: 16}),
        patch.dict(calibration.CANARY_WARM_UP_S, {Backend.CPU: 0.0}),
    ):
        yield


@contextmanager
def closing_memory() -> Iterator[None]:
    """Close all shared memory that is made meanwhile: a process that ends does so, a thread does not."""
    made: list[values.Arena] = []
    begin, close = values.Arena.__init__, values.Arena.close

    def begin_and_note(arena: values.Arena, fd: int, size: int) -> None:
        begin(arena, fd, size)
        made.append(arena)

    def close_and_forget(arena: values.Arena) -> None:
        made.remove(arena)
        close(arena)

    with (
        patch.object(values.Arena, "__init__", begin_and_note),
        patch.object(values.Arena, "close", close_and_forget),
        # A contestant has the collector leave alone all that is there, which would be all tests here: to find
        # what is garbage of this one, they would all be looked at.
        patch.object(gc, "freeze", lambda: None),
    ):
        try:
            yield
        finally:
            for arena in made.copy():
                arena.close()
            gc.collect(1)


class Runner:
    """The runner's end of the judge's channel: collects events, and ends contestants when it is asked to."""

    def __init__(self, channel: Channel, end: Callable[[str], None]) -> None:
        self.events: list[dict[str, Any]] = []
        self._channel = channel
        self._end = end

    def follow(self) -> None:
        """Take events until the judge is gone."""
        with suppress(ChannelClosed):
            while True:
                event = self._channel.receive()
                self.events.append(event)
                if event["type"] == "dismiss":
                    for role in event["roles"]:
                        self._end(role)
                    self._channel.send(pack(Dismissed()))


def serve(channel: Channel, hands: Any = None) -> None:
    """Be a contestant until the judge or the runner ends it."""
    with suppress(ChannelClosed):
        Contestant(channel, hands=hands).serve()


def contestants_of(spec: JobSpec) -> list[str]:
    """Return the contestants of a job."""
    fights = spec.rival is not None and spec.rival_binary is None
    needed = {"submission": spec.binary is None, "hidden": meets_hidden(spec), "rival": fights}
    return [role for role, is_needed in needed.items() if is_needed]


def judged(spec: JobSpec, folder: Path) -> list[dict[str, Any]]:
    """Run a job and return the judge's events."""
    return judged_beside(spec, folder, dict.fromkeys(contestants_of(spec), serve))


def judged_beside(
    spec: JobSpec,
    folder: Path,
    members: Mapping[str, Callable[[Channel], object]],
    secret: bytes = SECRET,
) -> list[dict[str, Any]]:
    """Run a job and return the judge's events; each other process is a thread of what it does with its channel."""
    runner_end, judge_end = socket.socketpair()
    channels, theirs, threads = {}, {}, {}
    for role, serves in members.items():
        ours, other = socket.socketpair()
        channels[role] = Channel(ours, max_bytes=16 << 20, max_fds=0)
        theirs[role] = Channel(other, max_bytes=16 << 20)
        threads[role] = threading.Thread(target=serves, args=(theirs[role],))

    def end(role: str) -> None:
        # A process that is killed closes its end.
        theirs[role]._sock.shutdown(socket.SHUT_RDWR)
        threads[role].join()

    runner = Runner(Channel(runner_end, max_bytes=256 << 20), end)
    threads["runner"] = threading.Thread(target=runner.follow)
    files = dict(spec.sources) | spec.submission.files | (spec.rival.files if spec.rival is not None else {})
    with working_in(folder, files), closing_memory(), small_canary():
        for thread in threads.values():
            thread.start()
        try:
            judge(spec, secret, Channel(judge_end, max_bytes=1 << 20), channels)
        finally:
            for channel in channels.values():
                channel.close()
            judge_end.close()
            for thread in threads.values():
                thread.join()
            for other_end in theirs.values():
                other_end.close()
            runner_end.close()
    return runner.events


def cases(events: list[dict[str, Any]], stage: str = "ranked") -> list[CaseResult]:
    """Return the results of a stage."""
    return [
        from_json(CaseResult, event["case"])
        for event in events
        if event["type"] == "case" and event["stage"] == stage
    ]


def room_of(events: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what the report says of the clean room."""
    environments = [event.get("environment", {}) for event in events]
    (said,) = [environment["clean_room"] for environment in environments if "clean_room" in environment]
    return dict(said)


def duel_of(events: list[dict[str, Any]]) -> DuelResult:
    """Return the outcome of the only duel of a job."""
    (duel,) = [event["duel"] for event in events if event["type"] == "duel"]
    return from_json(DuelResult, duel)


def last_end(events: list[dict[str, Any]]) -> tuple[str, str, str]:
    """Return verdict, reason and message of the last stage that has ended."""
    (*_, end) = [event for event in events if event["type"] == "stage_end"]
    return end["verdict"], end["reason"], end["message"]
