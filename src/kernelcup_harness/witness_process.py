"""The witness's process: started by the runner, serves one job."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from functools import partial

from kernelcup_harness.clocks import trace
from kernelcup_harness.clocks.witness import MOST_SAMPLES, Witness
from kernelcup_harness.device.nvidia.pm_sampling import Sampler
from kernelcup_harness.device.nvidia.samplers import SamplerApart
from kernelcup_harness.isolation import processes
from kernelcup_harness.isolation.sizes import RANKS
from kernelcup_harness.window.reasons import NoCounters
from kernelcup_harness.wire.channel import BrokenProtocol, Channel, ChannelClosed
from kernelcup_harness.wire.job_messages import Started
from kernelcup_harness.wire.messages import pack

MAX_FRAME = 1 << 20
RANKS_SAMPLES = 16_384
"""Of one watch on several GPUs: 33 ms, in which a large input is written."""
CALIBRATION_S, CALIBRATIONS = 0.003, 3


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


def samplers() -> list[Sampler] | list[SamplerApart]:
    """Return a sampler of each GPU that the job uses. Raise ``NoCounters``."""
    ranks = int(os.environ.get(RANKS, "0"))
    if not ranks:
        return [sampler()]
    made = [SamplerApart(partial(rank_sampler, device)) for device in range(ranks)]
    for each in made:
        each.wait()
        # Before there is a submission: what it copies without pause would pass for the counters' own.
        each.idle = calibrated(each)
    return made


def calibrated(sampler: SamplerApart) -> Sequence[float]:
    """Return what an idle device shows. Raise ``NoCounters`` if it is refused thrice: a busy host makes it too long."""
    refused = NoCounters("an idle device was not looked at")
    for _ in range(CALIBRATIONS):
        try:
            sampler.start()
            time.sleep(CALIBRATION_S)
            sampler.stop()
            samples = sampler.read()
        except NoCounters as error:
            refused = error
            continue
        if len(samples) >= trace.CALIBRATED:
            return trace.idle_bytes(samples)
        refused = NoCounters(f"an idle device gave {len(samples)} samples")
    raise refused


def rank_sampler(device: int) -> Sampler:
    """Return a sampler of the counters of one of several GPUs. Raise ``NoCounters``."""
    return Sampler(trace.WITH_TRAFFIC, interval_ns=trace.INTERVAL_NS, most=RANKS_SAMPLES, device=device)


def trouble() -> str:
    """Return why the first device's counters cannot be read here; empty if they can."""
    try:
        sampler(most=64)
    except (NoCounters, AttributeError) as error:
        return str(error)
    return ""
