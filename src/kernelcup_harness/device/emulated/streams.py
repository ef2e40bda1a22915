"""Events and streams of a device that has always done everything."""

from __future__ import annotations

import time
from typing import Any


class Event:
    """A CUDA event on the processor's clock."""

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        self._at_ns: int | None = None

    def record(self, *_args: Any) -> None:
        """Take the time."""
        self._at_ns = time.perf_counter_ns()

    def synchronize(self) -> None:
        """Everything has happened already."""

    def wait(self, *_args: Any) -> None:
        """Everything has happened already."""

    def query(self) -> bool:
        """Everything has happened already."""
        return True

    def elapsed_time(self, end: Event) -> float:
        """Return milliseconds up to ``end``."""
        if self._at_ns is None or end._at_ns is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return (end._at_ns - self._at_ns) / 1e6


class Stream:
    """A stream on which everything has happened already."""

    cuda_stream = 0
    stream_id = 0
    device_index = 0

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        pass

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def wait_stream(self, _stream: Any) -> None:
        """Nothing to wait for."""

    def wait_event(self, _event: Any) -> None:
        """Nothing to wait for."""

    def query(self) -> bool:
        """Always idle."""
        return True

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event now."""
        event = event or Event()
        event.record()
        return event

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_args: object) -> None:
        pass
