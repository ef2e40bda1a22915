"""What the judge tells the runner: one message after the other, so that none is lost when the run is cut off."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from kernelcup_harness.core.plan import HIDDEN, SUBMISSION, CaseCalls, Stage
from kernelcup_harness.core.verdict import RunEnds
from kernelcup_harness.protocol.enums import Reason, StageName, Verdict
from kernelcup_harness.protocol.results import CaseResult
from kernelcup_harness.wire.channel import BrokenProtocol, Channel, ChannelClosed, ChannelTimeout
from kernelcup_harness.wire.messages import (
    Dismiss,
    Dismissed,
    End,
    Message,
    Phases,
    SampleTaken,
    StageBegins,
    StageEnds,
    pack,
    unpack,
)

PROGRESS_INTERVAL_S = 0.2
MAX_MESSAGE = 16 << 10
DISMISS_S = 30.0
"""Time for the runner to end the contestants."""


class RunnerLine:
    """Sends messages to the runner.

    Args:
        channel: To the runner.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._last_progress = 0.0
        self._phases: dict[str, float] = {}

    def tell(self, message: Message) -> None:
        """Send a message."""
        self._channel.send(pack(message))

    def begin(self, name: StageName, limit_s: float, cases: int = 0, total: int = 0) -> None:
        """Report that a stage begins, or goes on with its hidden cases; ``total`` counts those of both parts."""
        self.tell(StageBegins(name=name, limit_s=limit_s, cases=cases, total=total))

    def end(
        self,
        name: StageName,
        verdict: Verdict = Verdict.ACCEPTED,
        reason: Reason = Reason.NONE,
        message: str = "",
        *,
        role: str = SUBMISSION,
        met_hidden: bool = False,
        lost: bool = False,
        used_s: float | None = None,
    ) -> None:
        """Report the end of a stage."""
        self.tell(
            StageEnds(
                name=name,
                verdict=verdict,
                reason=reason,
                message=message[:MAX_MESSAGE],
                role=role,
                met_hidden=met_hidden,
                lost=lost,
                used_s=used_s,
            )
        )

    def end_of(self, stage: Stage, worst: CaseResult | None) -> None:
        """Report the end of a stage whose cases were judged; ``worst`` is the first that was not accepted."""
        if worst is None:
            self.end(stage.name)
            return
        role = HIDDEN if worst.hidden else SUBMISSION
        ends = worst.verdict, worst.reason, worst.message
        self.end(stage.name, *ends, role=role, met_hidden=worst.met_hidden)

    def end_with(self, name: StageName, end: RunEnds, *, met_hidden: bool = False) -> None:
        """Report the end of a stage that ends the run."""
        self.end(
            name,
            end.verdict,
            end.reason,
            end.message,
            role=end.role,
            met_hidden=met_hidden or end.role == HIDDEN,
            lost=end.lost,
            used_s=end.used_s,
        )

    def progress(self, stage: Stage, calls: CaseCalls) -> None:
        """Report that a case goes on, unless that was just reported."""
        now = time.monotonic()
        if now - self._last_progress < PROGRESS_INTERVAL_S:
            return
        self._last_progress = now
        self.tell(SampleTaken(stage=stage.name, case=calls.case.index, samples=calls.count))

    def dismiss(self, roles: Collection[str]) -> None:
        """Have the runner end processes, and wait until they are gone. Raise :class:`RunEnds`."""
        self.tell(Dismiss(roles=list(roles)))
        try:
            unpack(Dismissed, self._channel.receive(DISMISS_S))
        except (ChannelTimeout, ChannelClosed, BrokenProtocol) as error:
            text = "the runner did not end the contestants"
            raise RunEnds(Verdict.INTERNAL_ERROR, Reason.MACHINE, text) from error

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the seconds of this context towards a phase."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._phases[name] = self._phases.get(name, 0.0) + time.monotonic() - began

    def end_job(self) -> None:
        """Report where the time went, and that nothing follows."""
        self.tell(Phases(phases=self._phases))
        self.tell(End())
