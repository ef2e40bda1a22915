"""The timer's process: started by the runner, serves one job."""

from __future__ import annotations

import contextlib
import os
import time

from kernelcup_harness.device.nvidia import driver
from kernelcup_harness.device.nvidia.engine import GpuEngine
from kernelcup_harness.isolation import processes
from kernelcup_harness.timer.main import MAX_FRAME, Engine, Timer
from kernelcup_harness.window.reasons import ClockTrouble, DeviceError, NoWindow
from kernelcup_harness.wire.channel import BrokenProtocol, Channel, ChannelClosed
from kernelcup_harness.wire.job_messages import Started
from kernelcup_harness.wire.messages import pack


def main(channel_fd: str, runner_fd: str, parent: str) -> None:
    """Wait for a job, then serve it. While it waits it has no context: the device is not in use."""
    processes.die_with_parent(int(parent))
    began = time.monotonic()
    processes.limit_resources(None)
    driver.initialize()
    runner = Channel.from_fd(int(runner_fd), max_bytes=MAX_FRAME, max_fds=0)
    try:
        runner.send(pack(Started(began=began, imported=time.monotonic())))
        runner.receive()
    except (ChannelClosed, BrokenProtocol):
        os._exit(0)
    runner.close()
    channel = Channel.from_fd(int(channel_fd), max_bytes=MAX_FRAME)
    engine, trouble = prepared()
    code = 1
    with contextlib.suppress(ChannelClosed, BrokenProtocol):
        code = Timer(channel, engine, trouble).serve()
    # A failed context may hang during an orderly shutdown.
    os._exit(code)


def prepared() -> tuple[Engine | None, str]:
    """Return a prepared engine, or None and the reason."""
    try:
        return GpuEngine(), ""
    # An older driver lacks some of its functions.
    except (OSError, AttributeError, DeviceError, NoWindow, ClockTrouble) as error:
        return None, str(error)[:2_000]
