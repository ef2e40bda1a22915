"""The witness's process: started by the runner, serves one job."""

from __future__ import annotations

import contextlib
import os
import time

from kernelcup_harness.clocks import trace
from kernelcup_harness.clocks.witness import MOST_SAMPLES, Witness
from kernelcup_harness.device.nvidia.pm_sampling import Sampler
from kernelcup_harness.isolation import processes
from kernelcup_harness.isolation.sizes import RANKS
from kernelcup_harness.window.reasons import NoCounters
from kernelcup_harness.wire.channel import BrokenProtocol, Channel, ChannelClosed
from kernelcup_harness.wire.job_messages import Started
from kernelcup_harness.wire.messages import pack

MAX_FRAME = 1 << 20
RANKS_SAMPLES = 16_384
"""Of one watch on several GPUs: 33 ms, in which a large input is written."""


def main(channel_fd: str, runner_fd: str, parent: str) -> None:
    """Wait for a job, then serve it. A device has one sampler at a time: it is made when the job is there."""
    processes.die_with_parent(int(parent))
    began = time.monotonic()
    processes.limit_resources(None)
    runner = Channel.from_fd(int(runner_fd), max_bytes=MAX_FRAME, max_fds=0)
    try:
        runner.send(pack(Started(began=began, imported=time.monotonic())))
        runner.receive()
    except (ChannelClosed, BrokenProtocol):
        os._exit(0)
    runner.close()
    channel = Channel.from_fd(int(channel_fd), max_bytes=MAX_FRAME, max_fds=0)
    with contextlib.suppress(ChannelClosed, BrokenProtocol):
        Witness(channel, samplers).serve()
    os._exit(0)


def sampler(most: int = MOST_SAMPLES) -> Sampler:
    """Return a sampler of the counters that the trace needs. Raise ``NoCounters``."""
    return Sampler(trace.COUNTERS, interval_ns=trace.INTERVAL_NS, most=most)


def samplers() -> list[Sampler]:
    """Return a sampler of each GPU that the job uses. Raise ``NoCounters``."""
    ranks = int(os.environ.get(RANKS, "0"))
    if not ranks:
        return [sampler()]
    return [
        Sampler(trace.WITH_TRAFFIC, interval_ns=trace.INTERVAL_NS, most=RANKS_SAMPLES, device=device)
        for device in range(ranks)
    ]


def trouble() -> str:
    """Return why the first device's counters cannot be read here; empty if they can."""
    try:
        sampler(most=64)
    except (NoCounters, AttributeError) as error:
        return str(error)
    return ""
