"""The untrusted process: started by the runner, serves one job."""

from __future__ import annotations

import faulthandler
import os

from kernelcup_harness.contestant.main import Contestant
from kernelcup_harness.isolation import processes
from kernelcup_harness.isolation.sizes import RANKS
from kernelcup_harness.protocol.variables import CLEAN_ROOM
from kernelcup_harness.run import startup
from kernelcup_harness.wire.channel import Channel, ChannelClosed

MAX_FRAME = 16 << 20


# Imported before a job arrives.
AHEAD = (
    "kernelcup_harness.device.nvidia.graphs",
    "kernelcup_harness.contestant.inputs",
    "kernelcup_harness.submission.forms",
    "kernelcup_harness.wire.devices",
    "kernelcup_harness.wire.aliasing",
    "kernelcup_harness.wire.decode",
    "kernelcup_harness.wire.values",
)


def main(channel_fd: str, runner_fd: str, parent: str) -> None:
    """Serve one job over the socket ``channel_fd``; the working folder holds the submission.

    The job itself comes from the runner over ``runner_fd``.
    """
    startup.wait_as_contestant(runner_fd, parent, ahead=AHEAD)
    # A crash, or a hang that the runner ends, prints where it happened.
    faulthandler.enable(2, all_threads=False)
    channel = Channel.from_fd(int(channel_fd), max_bytes=MAX_FRAME)
    if os.environ.get(RANKS):
        from kernelcup_harness.ranks.contestant import split

        split(channel, max_bytes=MAX_FRAME)
    hands = None
    if os.environ.get(CLEAN_ROOM):
        from kernelcup_harness.device.nvidia.hands import GpuHands

        # Before anything uses the driver: code that is loaded earlier would not be seen.
        hands = GpuHands()
    # Without a channel nothing can be reported. Exit handlers of the submission are not run.
    try:
        Contestant(channel, hands=hands).serve()
    except ChannelClosed:
        os._exit(processes.CHANNEL_LOST)
