"""Whether the machine is too busy to judge by time: a call that computes nothing, measured after a time limit was
exceeded, when all processes of the submission are gone. No torch.
"""

from __future__ import annotations

import socket
import statistics
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from kernelcup_harness.isolation import processes
from kernelcup_harness.protocol import Reason, Verdict
from kernelcup_harness.run.record import Record
from kernelcup_harness.wire.channel import Channel, ChannelClosed, ChannelTimeout
from kernelcup_harness.wire.messages import Done, Go, pack

CALLS_S, FEWEST = 1.0, 10
"""Time for the calls. A process that mostly waits is served first, so that a few calls would show no load."""
PATIENCE_S = 60.0
MAX_BYTES = 1 << 16
BUSY = 3.0
"""On a busy machine calls take more than this multiple of their time on an idle one."""


def excuse(record: Record, trouble: Callable[[], str]) -> bool:
    """Return whether the machine was busy when a time limit was exceeded, and record that nothing was measured."""
    wrong, over = Verdict.WRONG_ANSWER, Verdict.TIME_LIMIT_EXCEEDED
    late = [
        s for s in record.stages if s.verdict is over or (s.name in record.late and s.verdict is not wrong)
    ]
    text = trouble() if late else ""

    def excused(each: Any) -> Any:
        told = f"not measured: {each.message.partition('. ')[0]}; {text}"
        return replace(each, verdict=Verdict.INTERNAL_ERROR, reason=Reason.BUSY, message=told)

    for stage in late if text else []:
        cases = [excused(case) if case.verdict is over else case for case in stage.cases]
        record.stages[record.stages.index(stage)] = replace(excused(stage), cases=cases)
    return bool(text)


def trouble() -> str:
    """Return in words how busy the machine is, empty if calls take at most three times what they take when it is idle.

    Nothing has kept the quickest tenth waiting, so that it shows the idle machine in the same second. On two cores it
    took 0.06 to 0.12 ms beside up to 40 processes that compute; the mean was 0.1 to 18 ms.
    """
    times_ns = calls_ns()
    if len(times_ns) < FEWEST:
        return ""
    now_ns, idle_ns = statistics.fmean(times_ns), statistics.quantiles(times_ns, n=10)[0]
    if now_ns <= BUSY * idle_ns:
        return ""
    took = f"{now_ns / 1e6:.3g} ms, on this machine when idle {idle_ns / 1e6:.3g} ms"
    return f"the machine was busy: a call that computes nothing took {took}"


def calls_ns() -> list[float]:
    """Have a process of ours answer calls for a second, by the messages of ordinary ones; return their nanoseconds."""
    ours, theirs = socket.socketpair()
    with theirs:
        argv = processes.python_argv(__name__, "answer", str(theirs.fileno()))
        process = subprocess.Popen(argv, pass_fds=[theirs.fileno()])
    channel, times_ns, until = Channel(ours, max_bytes=MAX_BYTES), list[float](), 0.0
    with suppress(ChannelClosed, ChannelTimeout):
        while time.monotonic() < until or len(times_ns) < FEWEST:
            began = time.perf_counter_ns()
            channel.send(pack(Go(slot=0, profile=False)))
            channel.receive(PATIENCE_S)
            if until:  # the first call has waited for the start of the process
                times_ns.append(float(time.perf_counter_ns() - began))
            until = until or time.monotonic() + CALLS_S
    channel.close()
    process.wait()
    return times_ns


def answer(fd: str) -> None:
    """Answer calls until the caller is gone."""
    channel = Channel.from_fd(int(fd), max_bytes=MAX_BYTES)
    with suppress(ChannelClosed):
        while channel.receive():
            channel.send(pack(Done(ns=1.0, tree=None, table=[])))
