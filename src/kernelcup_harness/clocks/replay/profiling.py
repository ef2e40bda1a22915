"""A profiled call: captured, checked, and made once by the timer, around which a profiler runs. Nothing is timed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from kernelcup_harness.clocks.replay.session import Session
from kernelcup_harness.core.judge import Judge
from kernelcup_harness.core.plan import CaseCalls, Stage
from kernelcup_harness.protocol import CaseResult


class ProfileClock:
    """Has the call of a profile job replayed under the profiler, in the place of a clock.

    Args:
        session: The clean room, which is open.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def waited_s(self) -> float:
        """Seconds spent waiting for the submission's processes."""
        return self._session.waited_s

    def results(self, stage: Stage, judge: Judge) -> Iterator[CaseResult]:
        """Yield the result of the case; none if its call cannot be replayed, and then the runner goes on."""
        for case in stage.cases:
            calls = CaseCalls(case)
            with self._session.replaying() as room:
                if room is None:
                    return
                steps = (
                    partial(room.lay_out, stage),
                    partial(room.capture, calls),
                    partial(room.load, calls),
                    partial(room.profile, calls),
                )
                failed = next(filter(None, (judge.attempt(stage, calls, each) for each in steps)), None)
                yield failed if failed is not None else judge.accepted(calls)
