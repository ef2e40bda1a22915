"""The names of failures of the timer, and the largest capture that it takes."""

from __future__ import annotations

from enum import StrEnum

from kernelcup_harness.window import graph_data

MOST_EXPORT_BYTES = graph_data.HEAD.size + graph_data.MOST_HEAD_BYTES + graph_data.MOST_IMAGE_BYTES


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
