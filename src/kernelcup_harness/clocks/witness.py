"""The witness's process: samples the device's counters for the judge. Standard library only, no context on the device.

It knows nothing of the job: it starts and stops a watch when the judge asks for it, and says what it saw. No code of a
submission, on the host or on the device, runs in its memory.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from kernelcup_harness.clocks import trace
from kernelcup_harness.window.messages import (
    MOST_STRETCHES,
    Refused,
    Seen,
    Stopped,
    StopWatch,
    Tell,
    Watch,
    Watching,
)
from kernelcup_harness.window.reasons import Failure, NoCounters
from kernelcup_harness.wire.channel import BrokenProtocol, Channel, ChannelClosed
from kernelcup_harness.wire.messages import Hello, Message, pack, unpack_any

MOST_SAMPLES = 8_192
"""Of one watch: 16 ms."""
MOST_TEXT = 2_000
T = TypeVar("T")


class Sampler(Protocol):
    """Samples counters: see :class:`kernelcup_harness.device.nvidia.pm_sampling.Sampler`."""

    idle: Sequence[float]
    """What a sample of an idle device shows of each link; empty where links are not watched."""

    def start(self) -> None:
        """Begin to sample."""

    def stop(self) -> None:
        """Stop."""

    def read(self) -> Sequence[trace.Sample]:
        """Return all samples, and make ready for another watch. Slow: 30 us a sample."""


class Witness:
    """Answers the judge's messages until the judge is gone.

    Args:
        channel: To the judge.
        make: Makes the sampler of each device, which takes half a second. Raises ``NoCounters``.
    """

    def __init__(self, channel: Channel, make: Callable[[], Sequence[Sampler]]) -> None:
        self._channel = channel
        self._samplers: Sequence[Sampler] = ()
        self._trouble = ""
        self._seen: list[Message] = []
        try:
            self._samplers = make()
        except (NoCounters, AttributeError) as error:
            self._trouble = str(error)[:MOST_TEXT]
        self._threads = ThreadPoolExecutor(max(1, len(self._samplers)))

    def serve(self) -> None:
        """Say hello, then answer one message after the other."""
        self._channel.send(pack(Hello(trouble=self._trouble)))
        while True:
            try:
                frame = self._channel.receive()
            except ChannelClosed:
                return
            reply = self._answer(frame)
            self._channel.send({"id": frame.get("id"), **pack(reply)})
            if isinstance(reply, Stopped):
                # While the judge checks the answers.
                self._seen = self._at_once(self._read)

    def _answer(self, frame: dict[str, object]) -> Message:
        try:
            message = unpack_any((Watch, StopWatch, Tell), frame)
            if not self._samplers:
                raise NoCounters(self._trouble)
            if isinstance(message, Watch):
                self._start()
                return Watching()
            if isinstance(message, StopWatch):
                self._at_once(lambda sampler: sampler.stop())
                return Stopped()
            assert isinstance(message, Tell)
        except BrokenProtocol as broken:
            return Refused(name=Failure.BAD_REQUEST, text=str(broken)[:MOST_TEXT])
        except NoCounters as error:
            return Refused(name=Failure.NOT_SEEN, text=str(error)[:MOST_TEXT])
        if not 0 <= message.device < len(self._seen):
            return Refused(name=Failure.BAD_REQUEST, text="there was no watch")
        return self._seen[message.device]

    def _start(self) -> None:
        """Start all samplers, or none. Raise ``NoCounters``."""
        refused = [each for each in self._at_once(self._started) if each is not None]
        if refused:
            for sampler in self._samplers:
                with contextlib.suppress(NoCounters):
                    sampler.stop()
                    sampler.read()
            raise refused[0]

    def _started(self, sampler: Sampler) -> NoCounters | None:
        try:
            sampler.start()
        except NoCounters as error:
            return error
        return None

    def _at_once(self, function: Callable[[Sampler], T]) -> list[T]:
        """Return what a function makes of all samplers: to start one or to stop it takes 2 ms, to read it 0.1 s."""
        if len(self._samplers) == 1:
            return [function(self._samplers[0])]
        return list(self._threads.map(function, self._samplers))

    def _read(self, sampler: Sampler) -> Message:
        try:
            samples = sampler.read()
            stretches = trace.cut(samples)
            copies = trace.copies(samples, sampler.idle) if sampler.idle else []
        except (NoCounters, trace.Unreadable) as error:
            return Refused(name=Failure.NOT_SEEN, text=str(error)[:MOST_TEXT])
        if max(len(stretches), len(copies)) > MOST_STRETCHES:
            return Refused(name=Failure.NOT_SEEN, text="the device was not idle between the parts of a watch")
        return Seen(
            stretches=[[each.start_ns, each.end_ns, each.dispatches] for each in stretches],
            copies=[[each.start_ns, each.end_ns] for each in copies],
        )
