"""Starts processes without disturbing measurements."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from kernelcup_harness.isolation import processes

CAP_SYS_NICE = 23
LOWEST = 19


def can_be_raised() -> bool:
    """Return whether this process may raise a priority that it has lowered."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("CapEff:"):
                return bool(int(line.split()[1], 16) >> CAP_SYS_NICE & 1)
    return False


@contextlib.contextmanager
def lowered(wanted: bool) -> Iterator[None]:
    """Run at the lowest priority, like all processes started in this context, if that can be undone."""
    if wanted and can_be_raised():
        os.setpriority(os.PRIO_PROCESS, 0, LOWEST)
    yield


def raise_again() -> None:
    """Restore the usual priority of this process and its descendants, thread by thread, if it was lowered."""
    if os.getpriority(os.PRIO_PROCESS, 0) != LOWEST:
        return
    for pid in [os.getpid(), *processes.descendants(os.getpid())]:
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                with contextlib.suppress(ProcessLookupError):
                    os.setpriority(os.PRIO_PROCESS, int(thread), 0)
