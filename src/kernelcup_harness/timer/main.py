"""The timer's process: replays captured calls and times them. Standard library only, no torch.

It holds no seed, no input's name and no expected answer, and it never sees a submission's host code. Its data may be
forged by a submission: data that cannot be read or rebuilt is refused by name. A device fault ends the process.
Each process serves one job.

Frames, each answered once with the same ``id``: ``attach`` (regions of the window, descriptors alongside), ``load``
(a capture behind a descriptor), ``fire`` (one place, some times), ``empty``, ``series``, ``turns``, ``check``.
Failures have the type ``fail`` and a name of :class:`Failure`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kernelcup_harness.timer import rebuild, start_gun
from kernelcup_harness.window import graph_data, window
from kernelcup_harness.window.driver import DriverError
from kernelcup_harness.window.failures import MOST_EXPORT_BYTES, Failure
from kernelcup_harness.wire.channel import Channel, ChannelClosed, text_of

MAX_FRAME = 1 << 20
MOST_REPEATS, MOST_SERIES, MOST_PAIRS = 1_024, 4_096, 4_096
MOST_SETS = 4
"""Most captures in one timer: two submissions, each loaded twice."""
ACCESS = {"ro": window.READ, "rw": window.READ_WRITE}
FAULTED = 3
"""Exit code after a device fault."""
FAULTS = frozenset({214, 220, 226, 700, 702, 709, *range(710, 721), 999})
"""Driver errors that make a context unusable."""


ENDING = frozenset({Failure.DEVICE_FAULT, Failure.CLOCK, Failure.FORGED})
"""Failures that end the process: nothing can be measured afterwards."""


class Failed(Exception):
    """A request that could not be served."""

    def __init__(self, name: Failure, text: str) -> None:
        super().__init__(text)
        self.name = name


@dataclass(frozen=True, slots=True)
class Part:
    """A region of the window to be mapped."""

    address: int
    nbytes: int
    access: str


class Engine(Protocol):
    """Times calls: a device, or its stand-in in tests."""

    def attach(self, part: Part, fd: int) -> None:
        """Map a region that another process created."""

    def load(self, data: bytes) -> tuple[int, list[str]]:
        """Rebuild a capture as another set; return its number of places, and the attributes left out of it."""

    def fire(self, group: int, place: int) -> int:
        """Return the nanoseconds of one call with a cold cache, the clock's own share included."""

    def empty(self) -> int:
        """Return the nanoseconds of the same for an empty graph."""

    def series(self, calls: Sequence[tuple[int, int]]) -> int:
        """Launch calls back to back; return the nanoseconds by the host's clock."""

    def check(self) -> None:
        """Raise ``StampForged`` if a time was written again after it had been read."""


class Timer:
    """Answers the judge's frames until the judge is gone.

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
        self._answers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "attach": self._attach,
            "load": self._load,
            "fire": self._fire,
            "empty": self._empty,
            "series": self._series,
            "turns": self._turns,
            "check": self._check,
        }

    def serve(self) -> int:
        """Say hello, then answer one frame after the other. Return the exit code."""
        self._channel.send({"type": "hello", "trouble": self._trouble})
        while True:
            try:
                frame = self._channel.receive()
            except ChannelClosed:
                return 0
            reply = self._answer(frame)
            for fd in self._channel.take_fds():
                os.close(fd)
            self._channel.send({"id": frame.get("id"), **reply})
            if reply.get("name") in ENDING:
                return FAULTED

    def _answer(self, frame: dict[str, Any]) -> dict[str, Any]:
        try:
            answer = self._answers.get(text_of(frame.get("type"), 40))
            if answer is None:
                raise Failed(Failure.BAD_REQUEST, "a frame of unknown type")
            return answer(frame)
        except Failed as failed:
            return {"type": "fail", "name": failed.name.value, "text": str(failed)[:2_000]}
        except start_gun.StampForged as forged:
            return {"type": "fail", "name": Failure.FORGED.value, "text": str(forged)}
        except start_gun.ClockTrouble as trouble:
            return {"type": "fail", "name": Failure.CLOCK.value, "text": str(trouble)[:2_000]}
        except DriverError as error:
            # No error is harmless while calls run: times measured before it do not count.
            return {"type": "fail", "name": Failure.DEVICE_FAULT.value, "text": str(error)[:2_000]}

    @property
    def _engine(self) -> Engine:
        if self._engine_or_none is None:
            raise Failed(Failure.NO_WINDOW, self._trouble)
        return self._engine_or_none

    def _attach(self, frame: dict[str, Any]) -> dict[str, Any]:
        parts = [_part(each) for each in _list(frame.get("regions"), 4)]
        fds = self._channel.take_fds()
        try:
            if len(fds) != len(parts):
                raise Failed(Failure.BAD_REQUEST, "the number of descriptors differs from that of regions")
            for part, fd in zip(parts, fds, strict=True):
                self._engine.attach(part, fd)
        except (window.NoWindow, DriverError) as error:
            raise Failed(Failure.NO_WINDOW, str(error)) from error
        finally:
            for fd in fds:
                os.close(fd)
        return {"type": "attached"}

    def _load(self, frame: dict[str, Any]) -> dict[str, Any]:
        nbytes = _number(frame.get("bytes"), MOST_EXPORT_BYTES)
        if len(self._places) >= MOST_SETS:
            raise Failed(Failure.BAD_REQUEST, f"more than {MOST_SETS} captures")
        fds = self._channel.take_fds()
        try:
            if len(fds) != 1:
                raise Failed(Failure.BAD_REQUEST, "a capture without its descriptor")
            data = read_all(fds[0], nbytes)
        finally:
            for fd in fds:
                os.close(fd)
        try:
            places, dropped = self._engine.load(data)
        except graph_data.BadGraph as bad:
            raise Failed(Failure.BAD_GRAPH, str(bad)) from bad
        except rebuild.NotRebuilt as refused:
            raise Failed(Failure.NOT_REBUILT, str(refused)) from refused
        except DriverError as error:
            name = Failure.DEVICE_FAULT if error.code in FAULTS else Failure.NOT_REBUILT
            raise Failed(name, str(error)) from error
        self._places.append(places)
        return {"type": "loaded", "places": places, "dropped": dropped[:64]}

    def _fire(self, frame: dict[str, Any]) -> dict[str, Any]:
        call = self._call([frame.get("set", 0), frame.get("place")])
        repeat = _number(frame.get("repeat", 1), MOST_REPEATS, least=1)
        return {"type": "fired", "ns": [self._engine.fire(*call) for _ in range(repeat)]}

    def _empty(self, frame: dict[str, Any]) -> dict[str, Any]:
        repeat = _number(frame.get("repeat", 1), MOST_REPEATS, least=1)
        return {"type": "fired", "ns": [self._engine.empty() for _ in range(repeat)]}

    def _series(self, frame: dict[str, Any]) -> dict[str, Any]:
        calls = [self._call([0, each]) for each in _list(frame.get("places"), MOST_SERIES)]
        return {"type": "series", "ns": self._engine.series(calls)}

    def _turns(self, frame: dict[str, Any]) -> dict[str, Any]:
        """Fire two lists of calls in turns; the side that goes first changes with each round through the lists."""
        left, right = (
            [self._call(each) for each in _list(frame.get(side), MOST_SERIES)] for side in ("left", "right")
        )
        count, first = _number(frame.get("count"), MOST_PAIRS), _number(frame.get("first", 0), MOST_PAIRS)
        if not left or len(left) != len(right):
            raise Failed(Failure.BAD_REQUEST, "expected two lists of equal length")
        pairs = []
        for number in range(first, first + count):
            at, pair = number % len(left), [0, 0]
            for who in (0, 1) if number // len(left) % 2 else (1, 0):
                pair[who] = self._engine.fire(*(left, right)[who][at])
            pairs.append(pair)
        return {"type": "turns", "ns": pairs}

    def _check(self, _frame: dict[str, Any]) -> dict[str, Any]:
        self._engine.check()
        return {"type": "checked"}

    def _call(self, value: object) -> tuple[int, int]:
        pair = _list(value, 2)
        if len(pair) != 2:
            raise Failed(Failure.BAD_REQUEST, "expected a set and a place")
        known = _number(pair[0], len(self._places) - 1)
        return known, _number(pair[1], self._places[known] - 1)


def _list(value: object, most: int) -> list[Any]:
    if not isinstance(value, list) or len(value) > most:
        raise Failed(Failure.BAD_REQUEST, f"expected a list of at most {most}")
    return value


def _number(value: object, most: int, *, least: int = 0) -> int:
    if type(value) is not int or not least <= value <= most:
        raise Failed(Failure.BAD_REQUEST, f"expected a number from {least} to {most}")
    return value


def _part(value: object) -> Part:
    if not isinstance(value, dict) or text_of(value.get("access"), 40) not in ACCESS:
        raise Failed(Failure.BAD_REQUEST, "expected a region with its access")
    end = window.WINDOW + window.WINDOW_BYTES
    address = _number(value.get("address"), end, least=window.WINDOW)
    return Part(address, _number(value.get("bytes"), end - address, least=1), value["access"])


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
