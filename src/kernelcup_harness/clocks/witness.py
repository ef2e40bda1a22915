"""The witness's process: samples the device's counters for the judge. Standard library only, no context on the device.

It knows nothing of the job: it starts and stops a watch when the judge asks for it, and says what it saw. No code of a
submission, on the host or on the device, runs in its memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

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


class Sampler(Protocol):
    """Samples counters: see :class:`kernelcup_harness.device.nvidia.pm_sampling.Sampler`."""

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
                with ThreadPoolExecutor() as threads:  # CUPTI decodes without Python
                    self._seen = list(threads.map(self._read, self._samplers))

    def _answer(self, frame: dict[str, object]) -> Message:
        try:
            message = unpack_any((Watch, StopWatch, Tell), frame)
            if not self._samplers:
                raise NoCounters(self._trouble)
            if isinstance(message, Watch):
                for sampler in self._samplers:
                    sampler.start()
                return Watching()
            if isinstance(message, StopWatch):
                for sampler in self._samplers:
                    sampler.stop()
                return Stopped()
            assert isinstance(message, Tell)
        except BrokenProtocol as broken:
            return Refused(name=Failure.BAD_REQUEST, text=str(broken)[:MOST_TEXT])
        except NoCounters as error:
            return Refused(name=Failure.NOT_SEEN, text=str(error)[:MOST_TEXT])
        if not 0 <= message.device < len(self._seen):
            return Refused(name=Failure.BAD_REQUEST, text="there was no watch")
        return self._seen[message.device]

    def _read(self, sampler: Sampler) -> Message:
        try:
            samples = sampler.read()
            stretches = trace.cut(samples)
            copies = trace.copies(samples) if samples and len(samples[0].values) > len(trace.COUNTERS) else []
        except (NoCounters, trace.Unreadable) as error:
            return Refused(name=Failure.NOT_SEEN, text=str(error)[:MOST_TEXT])
        if len(stretches) > MOST_STRETCHES:
            return Refused(name=Failure.NOT_SEEN, text="the device was not idle between the parts of a watch")
        return Seen(
            stretches=[[each.start_ns, each.end_ns, each.dispatches] for each in stretches],
            copies=[[each.start_ns, each.end_ns] for each in copies[:MOST_STRETCHES]],
        )
