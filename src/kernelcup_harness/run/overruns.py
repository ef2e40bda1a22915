"""Who is to blame for a stage that took too long: only the runner sees what a submission keeps running beside it."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import time
from collections.abc import Collection
from pathlib import Path

from kernelcup_harness.core.verdict import RunEnds
from kernelcup_harness.isolation import processes
from kernelcup_harness.run.blame import time_is_up
from kernelcup_harness.run.record import Record
from kernelcup_harness.run.workers import JUDGE, USER_CODE, Workers
from kernelcup_harness.wire.messages import StageEnds


class Overruns:
    """Decides whether the time of a stage was lost to processes of a submission.

    Args:
        workers: The processes of the run.
    """

    def __init__(self, workers: Workers) -> None:
        members = {JUDGE: workers.judge, **workers.contestants}
        trusted = {each.child.process.pid for role, each in members.items() if role not in USER_CODE}
        self._contention = Contention(workers.judge.child.process.pid, trusted)
        self._limit_s, self._began = math.inf, time.monotonic()

    def begin(self, limit_s: float) -> None:
        """Count from the beginning of a stage with this time limit."""
        self._contention.begin()
        self._limit_s, self._began = limit_s, time.monotonic()

    def look(self) -> None:
        """Count what was lost since the last look."""
        self._contention.look()

    def end(self, end: StageEnds) -> StageEnds:
        """Return the end of a stage with whose fault it is if its time was up."""
        if end.used_s is None:
            return end
        self.look()
        blame = self._blame(end.message, end.used_s)
        return dataclasses.replace(end, verdict=blame.verdict, reason=blame.reason, message=blame.message)

    def fail(self, record: Record) -> None:
        """Record that the judge did not end its work in time, although no call was due."""
        blame = self._blame(f"the {record.stage.value} stage took longer than {self._limit_s:g} s", 0.0)
        record.late.add(record.stage)
        record.fail(record.stage, blame.verdict, blame.reason, blame.message)

    def _blame(self, text: str, used_s: float) -> RunEnds:
        own_s = time.monotonic() - self._began - used_s
        return time_is_up(text, self._limit_s, used_s, own_s, self._contention.lost_s)


TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


class Contention:
    """Compares what the judge has waited for a processor with what the contestants' processes have computed.

    While the judge waits for a call it wants no processor, so that what a call uses is never counted, however many
    threads it has. Nor is it counted where the judge is late for another reason.

    Args:
        judge: The id of the judge's process.
        trusted: Processes started by this one that run no code of a submission, the judge's among them. All others
            and their descendants are the contestants'.
    """

    def __init__(self, judge: int, trusted: Collection[int]) -> None:
        self._judge = judge
        self._trusted = trusted
        self._delay_s = 0.0
        self._used_s: dict[int, float] = {}
        self.lost_s = 0.0
        """Seconds that the judge has lost since :meth:`begin`."""

    def begin(self) -> None:
        """Count from here."""
        self.look()
        self.lost_s = 0.0

    def look(self) -> None:
        """Add what was lost since the last look: the shorter the steps, the more precise."""
        family = processes.parents()
        ours = {pid for each in self._trusted for pid in (each, *processes.below(each, family))}
        # The judge waits while its checker works, so that their times add up.
        delay_s = sum(map(delayed_s, [self._judge, *processes.below(self._judge, family)]))
        # A process that has ended between two looks is missing, but its parent's time includes it once it is reaped.
        used_s = {pid: used_cpu_s(pid) for pid in processes.below(os.getpid(), family) if pid not in ours}
        more_s = sum(max(0.0, now_s - self._used_s.get(pid, 0.0)) for pid, now_s in used_s.items())
        self.lost_s += max(0.0, min(delay_s - self._delay_s, more_s))
        self._delay_s, self._used_s = delay_s, used_s


def delayed_s(pid: int) -> float:
    """Return the seconds that a process's first thread could have run but had no processor, 0 if it is not known."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path("/proc", str(pid), "schedstat").read_text().split()[1]) / 1e9
    return 0.0


def used_cpu_s(pid: int) -> float:
    """Return the seconds that a process, its threads and the children it has reaped have computed; 0 if it is gone."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        stat = Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()
        return sum(map(int, stat[11:15])) / TICKS_A_SECOND
    return 0.0
