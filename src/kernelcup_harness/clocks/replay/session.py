"""The clean room of one job: opened before the import, used by the timed stage, or the reason why it is not."""

from __future__ import annotations

import base64
import gzip
import random
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn

import torch

from kernelcup_harness.clocks.replay import kept
from kernelcup_harness.clocks.replay.clean_room import OPEN_S, CleanRoom
from kernelcup_harness.clocks.replay.kept import BinaryUnfit, KeptLine
from kernelcup_harness.clocks.replay.match import Match
from kernelcup_harness.clocks.replay.stage import StageContext, results
from kernelcup_harness.clocks.replay.timer_line import TimerFailed, TimerLine
from kernelcup_harness.clocks.replay.witnessed import Witness
from kernelcup_harness.clocks.sampling import Plans, TimedCase
from kernelcup_harness.clocks.wall import WallClock
from kernelcup_harness.core.answer import CallFailed
from kernelcup_harness.core.call import Caller, Calls
from kernelcup_harness.core.check import Checks
from kernelcup_harness.core.judge import Judge
from kernelcup_harness.core.plan import SUBMISSION, PlannedCase, Stage
from kernelcup_harness.core.requests import Line
from kernelcup_harness.core.runner_line import RunnerLine
from kernelcup_harness.core.task import TaskFault
from kernelcup_harness.core.verdict import RunEnds
from kernelcup_harness.device.nvidia.mapping import GpuMapping
from kernelcup_harness.protocol import (
    NOT_REPLAYED,
    CaseResult,
    Finding,
    KeptBinary,
    RanKernel,
    Reason,
    Verdict,
)
from kernelcup_harness.window.layout import HEAPS
from kernelcup_harness.window.reasons import NotReplayed, WhyNot
from kernelcup_harness.wire import decode, values
from kernelcup_harness.wire.channel import Channel
from kernelcup_harness.wire.job_messages import MOST_BINARY, Binary, BinaryRefused, Dueled, MachineFacts, Ran
from kernelcup_harness.wire.messages import MAX_TEXT, Found

MOST_EXPORT_KEPT = 64 << 20
"""Larger exports are not packed to see whether they can be kept."""
NOT_IN_WINDOW = frozenset(
    {
        WhyNot.NO_WINDOW,
        WhyNot.NO_IMAGES,
        WhyNot.NO_TIMER,
        WhyNot.HOST_INPUT,
        WhyNot.HOST_OUTPUT,
        WhyNot.VARIES,
        WhyNot.MEMORY,
    }
)
"""For these reasons calls go through the host's memory: the window is not there, too small, or does not fit."""
MACHINES = frozenset({WhyNot.NO_WINDOW, WhyNot.NO_IMAGES, WhyNot.NO_TIMER})
"""Reasons that are the machine's, if they were found before the submission was imported."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rival:
    """A rival's process, or its kept binary.

    Args:
        caller: For ordinary calls; None for a binary.
        line: For requests about the window.
        load: Has the rival imported. Raises ``RivalFailed`` or ``NotHeld``.
        error: How often equal submissions may be found different.
    """

    caller: Caller | None
    line: Line
    load: Callable[[], None]
    error: float


class Session:
    """Reserves the window's addresses in the constructor, before PyTorch takes any.

    Args:
        timer: The channel to the timer.
        runner: To the runner.
        part: Share of the device's memory that this job may use.
        witness: The channel to the witness, None without one.
        rival_timer: The channel to the rival's timer, None without a rival.
    """

    def __init__(
        self,
        timer: Channel,
        runner: RunnerLine,
        part: float = 1.0,
        witness: Channel | None = None,
        rival_timer: Channel | None = None,
    ) -> None:
        self._timer = TimerLine(timer)
        self._rival_timer = TimerLine(rival_timer) if rival_timer is not None else None
        self.witness = Witness(witness) if witness is not None else None
        self._not_witnessed = ""
        self._runner = runner
        self._tell = runner.tell
        self._room: CleanRoom | None = None
        self._why: NotReplayed | None = None
        self._match: Match | None = None
        self._rooms: list[CleanRoom] = []
        self._mapping: GpuMapping | None = None
        self._every_share = self._keeps_binary = self._is_binary = self._is_chosen = False
        self._timed: list[TimedCase] = []
        """Those of all parts of the stage so far, for the duel."""
        try:
            self._mapping = GpuMapping(part)
        except NotReplayed as reason:
            self._why = reason

    @property
    def finding(self) -> Finding | None:
        """Why calls are made and not replayed, None if they are. Held if it is the machine's, or a witness was left."""
        if self._why is None:
            return None
        held = self.witness is not None if self._is_chosen else self._why.reason in MACHINES
        return Finding(code=NOT_REPLAYED, text=self._why.text, quarantines=held)

    @property
    def trouble(self) -> str:
        """Why the clock does not work now, before any submission was imported; empty if it does, or never will."""
        why = self._why
        return "" if why is None or self._is_chosen or why.reason is not WhyNot.NO_TIMER else why.text

    @property
    def waited_s(self) -> float:
        """Seconds spent waiting for the submission's processes, for their captures and for calls in the window."""
        return self._rooms[0].waited_s if self._rooms else 0.0

    def open(
        self,
        *,
        checks: Checks,
        contestants: Mapping[str, tuple[Caller | None, Line]],
        chance: random.Random,
        remaining: Callable[..., float],
        record_type: decode.RecordType,
        result_bytes: int,
        rival: Rival | None = None,
        clock: bool = True,
        every_share: bool = False,
        keeps_binary: bool = False,
    ) -> None:
        """Share memory with contestants and timer, before any code of a submission runs."""
        self._every_share, self._keeps_binary = every_share, keeps_binary
        self._is_binary = contestants[SUBMISSION][0] is None
        if self._mapping is None:
            if self._is_binary and self._why is not None:
                self._refuse(SUBMISSION, self._why)
            self._say()
            return
        heaps = places_of([line for _, line in contestants.values()], rival.line if rival else None)
        make = partial(
            CleanRoom,
            self._mapping,
            checks=checks,
            chance=chance,
            remaining=remaining,
            record_type=record_type,
            result_bytes=result_bytes,
            heaps=heaps,
        )
        self._greet_witness()
        self._room = make(
            timer=self._timer, contestants=dict(contestants), witness=self.witness, keeps=keeps_binary
        )
        self._rooms.append(self._room)
        try:
            with self._runner.phase("replay/open"):
                self._room.open(clock=clock)
            if rival is not None and self._rival_timer is not None:
                sides = {"rival": (rival.caller, rival.line)}
                other = make(timer=self._rival_timer, contestants=sides, witness=self.witness)
                self._rooms.append(other)
                refuse = partial(self._refuse, "rival") if rival.caller is None else None
                self._match = Match(self._room, other, rival.load, chance, rival.error, refuse)
                with self._match.ending():
                    other.open()
        except NotReplayed as reason:
            self._leave(reason)
        except CallFailed as failure:
            # Only the harness's own code has run there.
            self._leave(NotReplayed(WhyNot.NO_WINDOW, str(failure)[-500:]))

    def _greet_witness(self) -> None:
        """Go on without the witness if it cannot read the device's counters."""
        if self.witness is None:
            return
        try:
            self._not_witnessed = self.witness.greet(OPEN_S)
        except TimerFailed as failed:
            self._not_witnessed = str(failed)
        if self._not_witnessed:
            self.witness = None

    def lay_out(self, stage: Stage) -> None:
        """Lay out the inputs of a timed stage, before the submission is imported, so that calls can be timed there."""
        if self._room is None or not stage.timed or stage.replayed is not None:
            return
        if self._room.lost:
            self._leave(NotReplayed(WhyNot.NO_TIMER, self._room.lost), chosen=True)
            return
        # What fails here fails again in the stage, where it belongs to a case.
        with suppress(TaskFault, values.CannotCarry, torch.OutOfMemoryError, CallFailed):
            try:
                with self._runner.phase("replay/layout"):
                    self._room.lay_out(stage)
            except NotReplayed as reason:
                self._leave(reason)

    def calls(self, stage: Stage, case: PlannedCase) -> Calls | None:
        """Return what makes the ordinary calls of a case in the window; None if they go through the host's memory."""
        if not self._rooms or not stage.timed or stage.replayed is not None:
            return None
        if self._why is not None and self._why.reason in NOT_IN_WINDOW:
            return None
        return self._rooms[0].calls(case)

    def results(
        self, stage: Stage, cases: Sequence[TimedCase], judge: Judge, around: StageContext
    ) -> Generator[CaseResult, None, bool]:
        """Yield the results of a timed stage. Return whether the stage is done; if not, its calls have to be made."""
        if self._room is None:
            return False
        around = replace(around, at_last=self._say_shares, when_failed=self._take_failed)
        self._timed += cases
        if self._match is not None and stage.is_last:
            prepare = partial(self._match.prepare, self._timed, self._runner)
            around = replace(around, with_rival=prepare, when_timed=self._fight)
        why = yield from results(self._room, stage, cases, judge, around)
        if why is not None:
            self._leave(why, chosen=True)
            return False
        self._say()
        return True

    @contextmanager
    def replaying(self) -> Iterator[CleanRoom | None]:
        """Give what replays a profiled call, None without it. What it raises is why the call is not replayed."""
        try:
            yield self._room
        except NotReplayed as reason:
            self._leave(reason)
        else:
            if self._room is not None:
                self._tell(MachineFacts(environment={"data_bytes": self._room.data_bytes}))
                self._say()

    def _fight(self) -> None:
        assert self._match is not None
        self._tell(Dueled(duel=self._match.fight(self._timed)))
        if self._match.finding is not None:
            self._tell(Found(finding=self._match.finding))

    def _say_shares(self, runs: Sequence[TimedCase]) -> None:
        """Send the kernels of the last public case with their shares, or of every case if the job's rule needs them.

        Those of public cases are sent before a hidden input is made: a kernel could tell by its time what it reads.
        """
        assert self._room is not None
        public = [run for run in runs if not run.case.hidden]
        for run in runs if self._every_share else public[-1:]:
            case, kernels, longer, why = run.case, list[RanKernel](), 1.0, ""
            try:
                kernels, longer = self._room.shares(run)
            except Exception as error:
                # Whatever fails: what is found beside a time changes no verdict.
                why = f"{error or type(error).__name__}"[:MAX_TEXT]
            told = Ran(case=case.index, hidden=case.hidden, kernels=kernels, longer=longer, why=why)
            self._tell(told)
        if self._keeps_binary and public:
            self._say_binary(self._room)

    def _say_binary(self, room: CleanRoom) -> None:
        """Send the calls that were replayed and the memory that they read, unless they are too large to be kept."""
        why = room.not_kept
        binary, memory = (packed(each) for each in (room.binary, room.memory))
        if not binary or (not memory and not why):
            why = f"it takes more than {MOST_BINARY >> 20} MiB, compressed"
        self._tell(Binary(gz64=binary, memory_gz64=memory if binary else "", why=why))

    def _leave(self, why: NotReplayed, *, chosen: bool = False) -> None:
        if self._is_binary:
            self._refuse(SUBMISSION, why)
        self._room, self._why, self._is_chosen = None, why, chosen
        self._say()

    def _take_failed(self, failed: CaseResult) -> None:
        """Have the code judged where its binary answers wrongly, also after it was verified."""
        if self._is_binary and failed.verdict is Verdict.WRONG_ANSWER:
            self._refuse(SUBMISSION, kept.wrong(failed.message))

    def line_of(self, side: str, binary: KeptBinary) -> KeptLine:
        """Return what answers in the place of a side's process. Raise ``RunEnds`` if its binary is damaged."""
        try:
            return KeptLine(kept.read(binary))
        except BinaryUnfit as why:
            self._refuse(side, why)

    def _refuse(self, side: str, why: NotReplayed) -> NoReturn:
        """End the job because a kept binary cannot be replayed: the runner has the code judged."""
        wrong = isinstance(why, BinaryUnfit) and why.wrong
        self._tell(BinaryRefused(side=side, why=why.text[:MAX_TEXT], wrong=wrong))
        raise RunEnds(Verdict.INTERNAL_ERROR, Reason.MACHINE, why.text)

    def close(self) -> None:
        """Free shared memory and close descriptors."""
        for room in self._rooms:
            room.close()

    def _say(self) -> None:
        """Send for the report whether calls were replayed, and why not."""
        facts: dict[str, Any] = {"replayed": self._why is None}
        if self._why is not None:
            facts |= {"reason": self._why.reason.value, "text": self._why.text}
        if self._room is not None:
            facts |= {"left_out": self._room.dropped, "witnessed": self.witness is not None}
        if self._not_witnessed:
            facts |= {"not_witnessed": self._not_witnessed[:500]}
        self._tell(MachineFacts(environment={"clean_room": facts}))
        if self._room is not None and self._room.ran:
            self._tell(Ran(kernels=self._room.ran))


def packed(content: bytes) -> str:
    """Return what is to be kept, gzip and base64; empty if it is too large."""
    if len(content) > MOST_EXPORT_KEPT + kept.MOST_MEMORY_BYTES:
        return ""
    found = base64.b64encode(gzip.compress(content, 6, mtime=0)).decode() if content else ""
    return found if len(found) <= MOST_BINARY else ""


def places_of(lines: Sequence[Line], rival: Line | None) -> dict[str, int]:
    """Return where the heap of each contestant lies. Kept binaries lie where they were captured, others beside them.

    Two that were captured at the same addresses use them by turns.
    """
    found = dict(HEAPS)
    binaries = [each for each in (*lines, rival) if isinstance(each, KeptLine)]
    if len(binaries) == 2 and binaries[0].kept.heap.start == binaries[1].kept.heap.start:
        heap = max((each.kept.heap for each in binaries), key=len)
        binaries[0].kept.heap = binaries[1].kept.heap = heap
        binaries[0].other = binaries[1]
    elif len(binaries) == 1:
        taken = binaries[0].kept.heap.start
        (free,) = (each for each in kept.SLOTS if each != taken)
        found[SUBMISSION if binaries[0] is rival else "rival"] = free
    return found


class ReplayClock:
    """Has calls captured and replayed; those that cannot be are timed by the wall clock.

    Args:
        session: The clean room, which is open.
        plans: Makes the plans of the cases.
        wall: The other clock.
        around: What a replayed stage needs beside its calls.
    """

    def __init__(self, session: Session, plans: Plans, wall: WallClock, around: StageContext) -> None:
        self._session = session
        self._plans = plans
        self._wall = wall
        self._around = around

    @property
    def waited_s(self) -> float:
        """Seconds spent waiting for the submission's processes."""
        return self._session.waited_s

    def results(self, stage: Stage, judge: Judge) -> Iterator[CaseResult]:
        cases = self._plans.cases(stage)
        if (yield from self._session.results(stage, cases, judge, self._around)):
            return
        finding = self._session.finding
        yield from self._wall.results(stage, judge, [finding] if finding is not None else [])
