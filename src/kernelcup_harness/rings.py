"""Many calls one after the other, on inputs that lie at different places: the contestant's side.

The inputs and outputs of a ring are together larger than twice the L2 cache, so that each call finds
a cold one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kernelcup_harness.graphs import Recorder, Recording
from kernelcup_harness.masks import Mask
from kernelcup_harness.slots import Slot

Call = Callable[[Any], tuple[Any, Any]]
"""What makes one call: it returns the answer as it came, and as it is laid out."""


class Ring:
    """Slots in a circle, and what was returned for each in the last pass."""

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
        """Lay the inputs of ``sources`` around the ring, in turns. A ring of another size is a new one."""
        if len(self._slots) != count:
            self.clear()
            self._slots = [Slot(self._mask) for _ in range(count)]
        for place, slot in enumerate(self._slots):
            sources[place % len(sources)].copy_to(slot, remake=not self.is_recorded)

    def clear(self) -> None:
        """Give the memory back."""
        self._recording, self._results, self._slots = None, [], []

    def record(self, call: Call) -> BaseException | None:
        """Record one pass in one graph; return what kept it from that. Later passes are then calls."""
        self._recording = None
        try:
            self._recording = self._recorder.record(
                [lambda slot=slot: call(slot.data) for slot in self._slots]  # type: ignore[misc]
            )
        # Whatever goes wrong means the same: it cannot be recorded.
        except BaseException as error:
            return error
        self._results = self._recording.values
        return None

    def run(self, passes: int, call: Call) -> None:
        """Go around so many times, without waiting for the device."""
        for _ in range(passes):
            if self._recording is not None:
                self._recording.replay()
            else:
                self._results = [call(slot.data) for slot in self._slots]

    def result(self, place: int) -> tuple[Slot, Any]:
        """Return a slot, and what was returned for it last."""
        return self._slots[place], self._results[place]
