"""Rotating inputs for many calls one after another: the contestant's side.

The inputs and outputs of a ring together exceed twice the L2 cache, so each call finds a cold cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kernelcup_harness.graphs import Recorder, Recording
from kernelcup_harness.masks import Mask
from kernelcup_harness.slots import Slot

Call = Callable[[Any], tuple[Any, Any]]
"""Makes one call; returns the answer as returned, and laid out densely."""


class Ring:
    """Slots in a circle, and the result of each in the last pass."""

    def __init__(self, mask: Mask, recorder: Recorder, settle: Callable[[], None]) -> None:
        self._mask = mask
        self._recorder = recorder
        self._settle = settle
        self._slots: list[Slot] = []
        self._recording: Recording | None = None
        self._results: list[Any] = []

    @property
    def is_recorded(self) -> bool:
        """Whether passes are replayed."""
        return self._recording is not None

    def fill(self, sources: Sequence[Slot], count: int) -> None:
        """Fill the ring with the inputs of ``sources``, in turns. Another size makes a new ring."""
        if len(self._slots) != count:
            self.clear()
            self._slots = [Slot(self._mask) for _ in range(count)]
        for place, slot in enumerate(self._slots):
            sources[place % len(sources)].copy_to(slot, remake=not self.is_recorded)

    def clear(self) -> None:
        """Free the memory."""
        self._recording, self._results, self._slots = None, [], []

    def record(self, call: Call) -> BaseException | None:
        """Record one pass in one graph; return the error if that fails, then later passes are calls."""
        self._recording = None
        try:
            self._recording = self._recorder.record(
                [lambda slot=slot: call(slot.data) for slot in self._slots]  # type: ignore[misc]
            )
        # Any failure means the same: the pass cannot be recorded.
        except BaseException as error:
            return error
        self._results = self._recording.values
        return None

    def run(self, passes: int, call: Call) -> None:
        """Make ``passes`` passes, without waiting for the device."""
        for _ in range(passes):
            if self._recording is not None:
                self._recording.replay()
            else:
                self._results = [call(slot.data) for slot in self._slots]

    def result(self, place: int) -> tuple[Slot, Any]:
        """Return a slot and its last result."""
        return self._slots[place], self._results[place]
