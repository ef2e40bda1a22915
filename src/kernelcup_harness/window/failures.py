"""What fails around a window: the names of failures of the timer, and what devices raise."""

from __future__ import annotations

from enum import StrEnum

from kernelcup_harness.window import graph_data

MOST_EXPORT_BYTES = graph_data.HEAD.size + graph_data.MOST_HEAD_BYTES + graph_data.MOST_IMAGE_BYTES
"""The largest capture that a timer takes."""


class Failure(StrEnum):
    """Stable names of failures."""

    BAD_REQUEST = "bad_request"
    BAD_GRAPH = "bad_graph"
    NOT_REBUILT = "not_rebuilt"
    NO_WINDOW = "no_window"
    DEVICE_FAULT = "device_fault"
    CLOCK = "clock"
    NOT_SEEN = "not_seen"
    """The witness could not see all that the device did."""
    FORGED = "forged"
    """An end time was written again after it had been read: only the replayed device code can do that."""


class DeviceError(RuntimeError):
    """A device refused a call.

    Args:
        text: What it refused, and why.
        ends_process: Whether this process cannot use the device any more.
    """

    def __init__(self, text: str, *, ends_process: bool) -> None:
        super().__init__(text)
        self.ends_process = ends_process


class NoWindow(RuntimeError):
    """This machine cannot map device memory at a chosen address."""


class NotRebuilt(RuntimeError):
    """An exported graph cannot be replayed; the text names the part."""


class ClockTrouble(RuntimeError):
    """The device did not do what the clock needs: a fault, a hang, or stamps that changed afterwards."""


class StampForged(RuntimeError):
    """An end time changed after it had been read."""


class NoCounters(RuntimeError):
    """The hardware's counters cannot be read here."""
