"""Who is to blame for a stage that took too long: only the runner sees what runs beside the judge."""

from __future__ import annotations

import dataclasses
import math

from kernelcup_harness.core.verdict import time_is_up
from kernelcup_harness.isolation.contention import Contention
from kernelcup_harness.protocol import Reason, Verdict
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
        self._limit_s = math.inf

    def begin(self, limit_s: float) -> None:
        """Count from the beginning of a stage with this time limit."""
        self._contention.begin()
        self._limit_s = limit_s

    def look(self) -> None:
        """Count what was lost since the last look."""
        self._contention.look()

    def end(self, end: StageEnds) -> StageEnds:
        """Return the end of a stage; a submission that kept the judge from its work is to blame."""
        if end.used_s is None:
            return end
        self.look()
        blame = time_is_up(end.name, self._limit_s, end.used_s, lost_s=self._contention.lost_s)
        return dataclasses.replace(end, verdict=blame.verdict, reason=blame.reason, message=blame.message)

    def fail(self, record: Record) -> None:
        """Record that the judge did not end its work in time, although no call was due."""
        lost_s = self._contention.lost_s
        blame = time_is_up(record.stage, self._limit_s, 0.0, lost_s=lost_s)
        if blame.verdict is Verdict.INTERNAL_ERROR:
            text = "the task's own generator, reference or checker did not end in time"
            record.fail(record.stage, Verdict.INTERNAL_ERROR, Reason.TASK, text)
        else:
            record.fail(record.stage, blame.verdict, blame.reason, blame.message)
