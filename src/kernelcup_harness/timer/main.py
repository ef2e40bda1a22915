"""The timer's process: replays captured calls and times them. Standard library only, no torch.

It holds no seed, no input's name and no expected answer, and it never sees a submission's host code. Its data may be
forged by a submission: data that cannot be read or rebuilt is refused by name. A device fault ends the process.
Each process serves one job.

Its messages are in :mod:`kernelcup_harness.window.messages`; each request is answered once, with the same ``id``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from kernelcup_harness.window import graph_data, steps
from kernelcup_harness.window.addresses import WINDOW, WINDOW_BYTES
from kernelcup_harness.window.messages import (
    MOST_REPEATS,
    Attach,
    Attached,
    Check,
    Checked,
    Fire,
    Fired,
    FireEmpty,
    Launch,
    Launched,
    LoadCapture,
    Loaded,
    Profile,
    Refused,
    SharedRegion,
)
from kernelcup_harness.window.reasons import (
    MOST_EXPORT_BYTES,
    ClockTrouble,
    DeviceError,
    Failure,
    NotRebuilt,
    NoWindow,
    StampForged,
)
from kernelcup_harness.wire.channel import BrokenProtocol, Channel, ChannelClosed
from kernelcup_harness.wire.messages import Hello, Message, pack, unpack_any

MAX_FRAME = 1 << 20
MOST_SETS = 32 + 64
"""Most captures in one timer: a submission's public and hidden cases, each loaded 16 times; beside them the cut calls
of 64 cases."""
MOST_TEXT = 2_000
EMPTY_S = 5.0
"""Time in which empty graphs are timed again while they are not ready in time."""
FAULTED = 3
"""Exit code after a device fault."""

ENDING = frozenset({Failure.DEVICE_FAULT, Failure.CLOCK, Failure.FORGED})
"""Failures that end the process: nothing can be measured afterwards."""


class RequestFailed(Exception):
    """A request that could not be served."""

    def __init__(self, name: Failure, text: str) -> None:
        super().__init__(text)
        self.name = name


class Engine(Protocol):
    """Times calls: a device, or its stand-in in tests."""

    def attach(self, region: SharedRegion, fd: int) -> None:
        """Map a region that another process created."""

    def load(self, data: bytes, cut: int | None = None) -> graph_data.Rebuilt:
        """Rebuild a capture as another set, or one of its graphs cut into steps."""

    def fire(self, group: int, place: int) -> int | None:
        """Return the nanoseconds of one call with a cold cache, the clock's own share included.

        None if it was not ready in time.
        """

    def launch(self, calls: Sequence[tuple[int, int]]) -> None:
        """Make calls one after another, and wait for their end."""

    def profile(self, call: tuple[int, int]) -> None:
        """Make a call that a profiler around this process sees, and wait for its end."""

    def empty(self) -> int | None:
        """Return the nanoseconds of the same for an empty graph."""

    def check(self) -> None:
        """Raise ``StampForged`` if a time was written again after it had been read."""


class Timer:
    """Answers the judge's messages until the judge is gone.

    Args:
        channel: To the judge.
        engine: Times calls; None if the device cannot be used.
        trouble: Why the device cannot be used.
    """

    def __init__(self, channel: Channel, engine: Engine | None, trouble: str = "") -> None:
        self._channel = channel
        self._engine_or_none = engine
        self._trouble = trouble
        self._places: list[int] = []
        self._answers: dict[type[Message], Callable[[Any], Message]] = {
            Attach: self._attach,
            LoadCapture: self._load,
            Fire: self._fire,
            FireEmpty: self._empty,
            Launch: self._launch,
            Profile: self._profile,
            Check: self._check,
        }

    def serve(self) -> int:
        """Say hello, then answer one message after the other. Return the exit code."""
        self._channel.send(pack(Hello(trouble=self._trouble)))
        while True:
            try:
                frame = self._channel.receive()
            except ChannelClosed:
                return 0
            reply = self._answer(frame)
            for fd in self._channel.take_fds():
                os.close(fd)
            self._channel.send({"id": frame.get("id"), **pack(reply)})
            if isinstance(reply, Refused) and reply.name in ENDING:
                return FAULTED

    def _answer(self, frame: dict[str, Any]) -> Message:
        try:
            message = unpack_any(tuple(self._answers), frame)
            return self._answers[type(message)](message)
        except RequestFailed as failed:
            return refused(failed.name, failed)
        except BrokenProtocol as broken:
            return refused(Failure.BAD_REQUEST, broken)
        except StampForged as forged:
            return refused(Failure.FORGED, forged)
        except ClockTrouble as trouble:
            return refused(Failure.CLOCK, trouble)
        except DeviceError as error:
            # No error is harmless while calls run: times measured before it do not count.
            return refused(Failure.DEVICE_FAULT, error)

    @property
    def _engine(self) -> Engine:
        if self._engine_or_none is None:
            raise RequestFailed(Failure.NO_WINDOW, self._trouble)
        return self._engine_or_none

    def _attach(self, message: Attach) -> Attached:
        fds = self._channel.take_fds()
        try:
            for region in message.regions:
                check_region(region)
            if len(fds) != len(message.regions):
                raise RequestFailed(
                    Failure.BAD_REQUEST, "the number of descriptors differs from that of regions"
                )
            for region, fd in zip(message.regions, fds, strict=True):
                self._engine.attach(region, fd)
        except (NoWindow, DeviceError) as error:
            raise RequestFailed(Failure.NO_WINDOW, str(error)) from error
        finally:
            for fd in fds:
                os.close(fd)
        return Attached()

    def _load(self, message: LoadCapture) -> Loaded:
        nbytes = checked(message.bytes, MOST_EXPORT_BYTES)
        if len(self._places) >= MOST_SETS:
            raise RequestFailed(Failure.BAD_REQUEST, f"more than {MOST_SETS} captures")
        fds = self._channel.take_fds()
        try:
            if len(fds) != 1:
                raise RequestFailed(Failure.BAD_REQUEST, "a capture without its descriptor")
            data = read_all(fds[0], nbytes)
        finally:
            for fd in fds:
                os.close(fd)
        try:
            made = self._engine.load(data, message.cut)
        except graph_data.BadGraph as bad:
            raise RequestFailed(Failure.BAD_GRAPH, str(bad)) from bad
        except (steps.TooMany, IndexError) as none:
            raise RequestFailed(Failure.NOT_REBUILT, str(none)) from none
        except NotRebuilt as refused:
            raise RequestFailed(Failure.NOT_REBUILT, str(refused)) from refused
        except DeviceError as error:
            name = Failure.DEVICE_FAULT if error.ends_process else Failure.NOT_REBUILT
            raise RequestFailed(name, str(error)) from error
        self._places.append(len(made.nodes))
        dropped, foreign = ([each[:300] for each in told[:64]] for told in (made.dropped, made.foreign))
        return Loaded(
            nodes=made.nodes,
            shapes=made.shapes,
            ran=made.ran,
            dropped=dropped,
            foreign=foreign,
            steps=made.steps,
        )

    def _fire(self, message: Fire) -> Fired:
        ns = self._engine.fire(*self._call([message.capture, message.place]))
        return Fired(ns=[] if ns is None else [ns])

    def _empty(self, message: FireEmpty) -> Fired:
        repeat = checked(message.repeat, MOST_REPEATS, least=1)
        if self._places:
            # Whatever is loaded could write the code that this measures.
            raise RequestFailed(Failure.BAD_REQUEST, "an empty graph is timed before anything is loaded")
        found: list[float] = []
        until = time.monotonic() + EMPTY_S
        while len(found) < repeat and time.monotonic() < until:
            found += [each for each in [self._engine.empty()] if each is not None]
        return Fired(ns=found)

    def _launch(self, message: Launch) -> Launched:
        self._engine.launch([self._call([message.capture, place]) for place in message.places])
        return Launched()

    def _profile(self, message: Profile) -> Launched:
        self._engine.profile(self._call([message.capture, message.place]))
        return Launched()

    def _check(self, _message: Check) -> Checked:
        self._engine.check()
        return Checked()

    def _call(self, pair: list[int]) -> tuple[int, int]:
        if len(pair) != 2:
            raise RequestFailed(Failure.BAD_REQUEST, "expected a capture and a place")
        known = checked(pair[0], len(self._places) - 1)
        return known, checked(pair[1], self._places[known] - 1)


def refused(name: Failure, error: Exception) -> Refused:
    """Return the reply to a request that cannot be served."""
    return Refused(name=name, text=str(error)[:MOST_TEXT])


def checked(value: int, most: int, *, least: int = 0) -> int:
    """Return a number within bounds. Raise :class:`RequestFailed` for any other."""
    if not least <= value <= most:
        raise RequestFailed(Failure.BAD_REQUEST, f"expected a number from {least} to {most}")
    return value


def check_region(region: SharedRegion) -> None:
    """Raise :class:`RequestFailed` for a region that does not lie in the window."""
    end = WINDOW + WINDOW_BYTES
    checked(region.address, end, least=WINDOW)
    checked(region.bytes, end - region.address, least=1)


def read_all(fd: int, nbytes: int) -> bytes:
    """Return the first bytes of a file, fewer if it is shorter. Reads once: later changes by its owner do nothing."""
    parts, at = [], 0
    while at < nbytes:
        part = os.pread(fd, min(nbytes - at, 64 << 20), at)
        if not part:
            break
        parts.append(part)
        at += len(part)
    return b"".join(parts)
