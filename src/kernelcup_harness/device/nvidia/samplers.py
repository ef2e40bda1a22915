"""Samplers of several GPUs at once, each in a process of its own: to read one watch takes Python 0.1 s a GPU."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from kernelcup_harness.device.nvidia.pm_sampling import Sample, Sampler
from kernelcup_harness.isolation import processes
from kernelcup_harness.window.reasons import NoCounters


class SamplerApart:
    """A sampler in a process of its own, which ends with this one.

    Args:
        make: Makes it, in that process. Raises ``NoCounters``.
    """

    def __init__(self, make: Callable[[], Sampler]) -> None:
        self.idle: Sequence[float] = ()
        self._line, theirs = Pipe()
        parent = os.getpid()
        if not os.fork():
            try:
                processes.die_with_parent(parent)
                self._line.close()
                serve(theirs, make)
            finally:
                os._exit(0)
        theirs.close()

    def wait(self) -> None:
        """Return when it is made. Raise ``NoCounters`` if it cannot be."""
        self._reply()

    def start(self) -> None:
        """Begin to sample. Raise ``NoCounters``."""
        self._ask("start")

    def stop(self) -> None:
        """Stop. Raise ``NoCounters``."""
        self._ask("stop")

    def read(self) -> list[Sample]:
        """Return all samples, and make ready for another watch. Raise ``NoCounters``."""
        return [Sample(*each) for each in self._ask("read")]

    def _ask(self, name: str) -> Any:
        with contextlib.suppress(OSError):  # then there is no reply either
            self._line.send(name)
        return self._reply()

    def _reply(self) -> Any:
        try:
            trouble, found = self._line.recv()
        except (EOFError, OSError) as error:
            raise NoCounters("the process of a sampler has ended") from error
        if trouble:
            raise NoCounters(trouble)
        return found


def serve(line: Connection, make: Callable[[], Sampler]) -> None:
    """Make a sampler and answer requests until the other end is gone."""
    try:
        sampler = make()
    except (NoCounters, AttributeError) as error:
        line.send((str(error), None))
        return
    line.send(("", None))
    while True:
        try:
            name = line.recv()
        except (EOFError, OSError):
            return
        try:
            found = getattr(sampler, name)()
            samples = [(each.start_ns, each.end_ns, each.values) for each in found or ()]
            line.send(("", samples))
        except NoCounters as error:
            line.send((str(error), None))
