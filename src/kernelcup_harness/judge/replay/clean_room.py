"""The judge's part of the clean room: inputs and answers in the window, and calls that the timer replays.

A captured call is replayed by a process that has never seen the submission's host code, after the submission's own
process has ended. Each call has a fresh input, and its answer is checked. Before the contestant is dismissed, each
place is replayed once: calls that fail there are made and timed by the judge's wall clock.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernelcup_harness.judge.answers import MOST_TENSORS, CallFailed
from kernelcup_harness.judge.caller import Caller
from kernelcup_harness.judge.checks import Checks, Fault, Wrong
from kernelcup_harness.judge.replay.mapping import INPUTS_SHARE, Mapping, heap_sizes
from kernelcup_harness.judge.replay.replays import Case
from kernelcup_harness.judge.replay.timed_replays import TimedReplays
from kernelcup_harness.judge.replay.timer_line import TimerFailed, TimerLine
from kernelcup_harness.judge.replay.wall_calls import WindowCalls
from kernelcup_harness.judge.replay.witnessed import Witness
from kernelcup_harness.judge.requests import Line
from kernelcup_harness.judge.schedule import PLACES, CaseRun, PlannedCase, Stage
from kernelcup_harness.protocol import Reason, SampleName
from kernelcup_harness.window import layout
from kernelcup_harness.window.failures import MOST_EXPORT_BYTES
from kernelcup_harness.window.layout import (
    HEAPS,
    INPUTS,
    WRITABLE,
    CannotLie,
    Described,
    Layout,
    TooMany,
)
from kernelcup_harness.window.messages import (
    Access,
    Attach,
    Attached,
    Captured,
    CapturePlaces,
    Export,
    Exported,
    LoadCapture,
    Loaded,
    SharedRegion,
)
from kernelcup_harness.window.reasons import NotReplayed, WhyNot
from kernelcup_harness.wire import aliasing, decode, values
from kernelcup_harness.wire.channel import BrokenProtocol
from kernelcup_harness.wire.messages import FailureKind

OPEN_S = 60.0
"""Time for mapping regions, before and between stages."""
FIRST_CAPTURED, FIRST_VERIFIED = 3 << 20, 4 << 20
"""Input numbers from here on are reserved for captures, and for trying replays."""
SMALL_BYTES = 2 << 20
"""Up to this many bytes of input and answer, calls by the wall clock go through pinned host memory: the device then
works for the submission's process alone, and need not switch between two processes, which takes 0.1 ms and more."""


@dataclass(slots=True)
class Foreign:
    """Parameters that look like addresses outside of the window, and lead nowhere in the replay.

    Args:
        places: The parameters, as the timer names them.
        reason: Whose memory it may be, as the contestant says.
    """

    places: list[str] = field(default_factory=list)
    reason: WhyNot | None = None

    def cause_of(self, failed: TimerFailed | NotReplayed) -> NotReplayed:
        """Return why a verifying replay failed: such parameters, if there are any and they can be the cause."""
        if isinstance(failed, TimerFailed):
            failed = NotReplayed(WhyNot.FAULTS, str(failed))
        if not self.places or failed.reason not in (WhyNot.FAULTS, WhyNot.STALE):
            return failed
        return NotReplayed(self.reason or WhyNot.FOREIGN_POINTER, ", ".join(self.places[:3]))


class CleanRoom(TimedReplays):
    """Captures the calls of one submission, and replays them.

    Args:
        mapping: The judge's own view of the window.
        checks: Makes inputs and checks answers.
        caller: To the submission, for ordinary calls.
        contestant: To the same process, for requests about the window.
        timer: To the timer.
        chance: Random numbers from the run's secret.
        remaining: Returns the seconds left of the stage.
        record_type: Finds classes of answers by name.
        result_bytes: Most bytes that one call may return.
        role: The side that makes the calls: ``submission`` or ``rival``.
        witness: Watches calls; None if the device's counters cannot be read.
    """

    def __init__(
        self,
        mapping: Mapping,
        *,
        checks: Checks,
        caller: Caller,
        contestant: Line,
        timer: TimerLine,
        chance: random.Random,
        remaining: Callable[[], float],
        record_type: decode.RecordType,
        result_bytes: int,
        role: str = "submission",
        witness: Witness | None = None,
    ) -> None:
        super().__init__(
            mapping,
            checks=checks,
            timer=timer,
            chance=chance,
            remaining=remaining,
            record_type=record_type,
            role=role,
            witness=witness,
        )
        self._caller = caller
        self._contestant = contestant
        self._result_bytes = result_bytes
        self._captured = 0
        self._export: tuple[values.Arena, int] | None = None
        self._lent: list[tuple[SharedRegion, int]] = []
        """Regions of inputs, with descriptors to share them by."""
        self.dropped: list[str] = []
        self._foreign = Foreign()
        """Attributes that the timer left out of the graphs."""

    @property
    def waited_s(self) -> float:
        """Seconds spent waiting for the contestant."""
        return self._contestant.waited_s

    # Before the submission is imported

    def open(self) -> None:
        """Give contestant and timer the memory for tensors. Raise :class:`NotReplayed`."""
        if self._role == "submission":
            self._greet()
            self._measured_offset()
        address = HEAPS[self._role]
        nbytes, fd = self._heap_of(address)
        self._heap = range(address, address + nbytes)
        self._share([SharedRegion(address=address, bytes=nbytes, access=Access.WRITE, heap=True)], [fd])

    def close(self) -> None:
        """Free shared memory and close descriptors."""
        while self._lent:
            os.close(self._lent.pop()[1])
        if self._export is not None:
            self._export[0].close()
            self._export = None

    def _greet(self) -> None:
        try:
            trouble = self._timer.greet(OPEN_S)
        except TimerFailed as failed:
            raise NotReplayed(WhyNot.NO_TIMER, str(failed)) from failed
        if trouble:
            raise NotReplayed(WhyNot.NO_TIMER, trouble)

    def _measured_offset(self) -> None:
        try:
            self.measure_offset()
        except TimerFailed as failed:
            raise NotReplayed(WhyNot.NO_TIMER, str(failed)) from failed

    def _heap_of(self, address: int) -> tuple[int, int]:
        sizes = heap_sizes(self._mapping.total_bytes())
        for nbytes in sizes[:-1]:
            try:
                return nbytes, self._mapping.create(address, nbytes)
            except NotReplayed:
                continue
        return sizes[-1], self._mapping.create(address, sizes[-1])

    def _share(self, regions: list[SharedRegion], fds: list[int], *, timer: bool = True) -> None:
        """Let contestant and timer map regions, and close the descriptors here."""
        try:
            # Calls that write inputs which are read-only in the timer are found before anything is timed.
            request = Attach(regions=regions)
            reply = self._contestant.ask(request, Attached, timeout_s=OPEN_S, fds=fds)
            if reply.why is not None:
                raise NotReplayed(reply.why)
            if timer:
                self._asked(request, Attached, fds=fds, timeout_s=OPEN_S)
        finally:
            for fd in fds:
                os.close(fd)

    # While the contestant is running

    def lay_out(self, stage: Stage) -> None:
        """Lay out the inputs of all cases, once, and allocate memory for them. Raise :class:`NotReplayed`."""
        if self._cases:
            return
        cases = {case.index: self._case(stage, case) for case in stage.cases}
        sizes = {
            (INPUTS, Access.READ): max((each.layout.input_bytes for each in cases.values()), default=0),
            (WRITABLE, Access.WRITE): max((each.layout.writable_bytes for each in cases.values()), default=0),
        }
        regions, fds = [], []
        for (address, access), nbytes in sizes.items():
            if nbytes:
                fds.append(self._mapping.create(address, nbytes))
                regions.append(SharedRegion(address=address, bytes=nbytes, access=access))
        if regions:
            self._lent = [(region, os.dup(fd)) for region, fd in zip(regions, fds, strict=True)]
            self._share(regions, fds)
        self._cases = cases

    def calls(self, case: PlannedCase) -> WindowCalls | None:
        """Return what makes ordinary calls of a case in the window.

        None before :meth:`lay_out`, for answers in host memory, and for small inputs and answers: these are quicker
        through the host's memory.
        """
        laid = self._cases.get(case.index)
        if laid is None:
            return None
        form = self._checks.form(laid.place)
        if laid.layout.place_bytes + (form.nbytes if form is not None else 0) <= SMALL_BYTES:
            return None
        answers = aliasing.leaves(form.value) if form is not None else []
        if any(str(each.device) != self._mapping.device for each in answers):
            return None
        return WindowCalls(
            laid.layout,
            line=self._contestant,
            mapping=self._mapping,
            heap=self._heap,
            record_type=self._record_type,
            result_bytes=self._result_bytes,
        )

    def lie_as(self, other: CleanRoom, runs: Sequence[CaseRun]) -> None:
        """Use the inputs and the layout of another submission. Raise :class:`NotReplayed`."""
        for run in runs:
            case = other._cases[run.case.index]
            self.offset_ns = other.offset_ns
            self._cases[run.case.index] = Case(case.place, case.layout)
        regions = [region for region, _ in other._lent]
        if regions:
            self._share(regions, [os.dup(fd) for _, fd in other._lent], timer=False)

    def _case(self, stage: Stage, planned: PlannedCase) -> Case:
        place = self._checks.place(stage.name, planned)
        data = self._checks.make_input(place, SampleName(input=FIRST_CAPTURED))
        nbytes = max(1, layout.input_bytes(data))
        places = min(PLACES, int(INPUTS_SHARE * self._mapping.total_bytes()) // nbytes)
        if not places:
            raise NotReplayed(WhyNot.MEMORY, f"{nbytes} bytes of input")
        writable = self._checks.writable(place)
        try:
            laid = Layout(data, places=places, writable=writable, device=self._mapping.device)
        except CannotLie as error:
            raise NotReplayed(WhyNot.HOST_INPUT) from error
        return Case(place, laid)

    def capture(self, run: CaseRun) -> None:
        """Have the calls of a case captured, one at each place. Raise :class:`NotReplayed` or ``Wrong``."""
        case = self._cases[run.case.index]
        laid, form = case.layout, self._checks.form(case.place)
        samples = [SampleName(input=FIRST_CAPTURED + at) for at in range(laid.places)]
        inputs = [self._checks.make_input(case.place, sample) for sample in samples]
        for at, data in enumerate(inputs):
            self._write(case, data, at)
        self._mapping.settle()
        request = CapturePlaces(
            tree=laid.tree,
            tables=[laid.table_at(at) for at in range(laid.places)],
            in_place=form is not None and form.in_place,
        )
        run.current = samples[0]
        reply = self._contestant.ask(request, Captured, timeout_s=self._remaining())
        for at, (sample, data) in enumerate(zip(samples, inputs, strict=True)):
            changed = laid.changed(data, at, self._mapping.view)
            if changed:
                raise Wrong(sample, written(changed[0]))
        if reply.why is not None:
            raise NotReplayed(reply.why)
        case.answers = self._described(case, reply.answers, form)
        case.first = self._captured
        self._captured += laid.places

    def _described(self, case: Case, answers: list[Any], form: Any) -> list[Described]:
        if len(answers) != case.layout.places:
            raise BrokenProtocol("the number of answers differs from that of places")
        most = max(MOST_TENSORS, form.tensors if form is not None else 0)
        try:
            return [
                layout.described(
                    each,
                    inside=[self._heap, *case.layout.spans(at)],
                    device=self._mapping.device,
                    most_bytes=self._result_bytes,
                    most=most,
                )
                for at, each in enumerate(answers)
            ]
        except CannotLie as error:
            raise NotReplayed(WhyNot.HOST_OUTPUT) from error
        except TooMany as error:
            raise CallFailed(FailureKind.OUTPUT, f"the call returned {error}") from error
        except values.TooLarge as error:
            raise CallFailed(FailureKind.TOO_LARGE, f"the call returned {error}") from error
        except values.BadTree as error:
            raise BrokenProtocol(str(error)) from error

    def load(self) -> None:
        """Hand over the captured calls to the timer. Raise :class:`NotReplayed`."""
        self.take_export()
        self.hand_over()

    def take_export(self) -> None:
        """Take the captured calls from the contestant. Raise :class:`NotReplayed`."""
        arena = values.Arena.create(MOST_EXPORT_BYTES)
        self._export = arena, 0
        reply = self._contestant.ask(Export(), Exported, timeout_s=self._remaining(), fds=[arena.fd])
        if not 0 <= reply.bytes <= arena.size:
            raise BrokenProtocol("an export without a valid size")
        if reply.why is not None and not reply.bytes:
            raise NotReplayed(reply.why)
        self._foreign, self._export = Foreign(reason=reply.why), (arena, reply.bytes)

    def hand_over(self) -> None:
        """Have the timer load the export, again if it was loaded before."""
        assert self._export is not None
        arena, nbytes = self._export
        try:
            loaded = self._asked(
                LoadCapture(bytes=nbytes), Loaded, fds=[arena.fd], timeout_s=self._remaining()
            )
        except TimerFailed as failed:
            # Code that cannot be loaded may crash the driver, and with it the timer's process.
            raise NotReplayed(WhyNot.REFUSED, str(failed)) from failed
        self._nodes = loaded.nodes
        if len(loaded.nodes) != self._captured:
            raise NotReplayed(WhyNot.REFUSED, "the number of graphs differs from that of places")
        self.dropped, self._foreign.places = loaded.dropped, loaded.foreign

    def verify(self, run: CaseRun) -> None:
        """Replay each place of a case once. Raise :class:`NotReplayed` or ``Wrong``."""
        case = self._cases[run.case.index]
        for at in self._chance.sample(range(case.layout.places), case.layout.places):
            sample = SampleName(input=FIRST_VERIFIED + at)
            run.current = sample
            try:
                answer, data, pattern = self._replayed(case, at, sample)
            except (TimerFailed, NotReplayed) as failed:
                raise self._foreign.cause_of(failed) from failed
            run.count += 1
            fault = self._checks.fault(case.place, sample, data, answer)
            if fault is None:
                continue
            untouched = self._is_untouched(case, at, pattern)
            if not self._alone and self._is_right_when_called(case, sample):
                raise self._foreign.cause_of(NotReplayed(WhyNot.ELSEWHERE if untouched else WhyNot.STALE))
            raise Wrong(sample, fault)

    def _is_right_when_called(self, case: Case, sample: SampleName) -> bool:
        """Return whether an ordinary call answers the same input correctly."""
        data = self._checks.make_input(case.place, sample)
        answer = self._caller.call(data, self._checks.form(case.place), timeout_s=self._remaining())
        return self._checks.fault(case.place, sample, data, answer) is None


def written(number: int) -> Fault:
    """Return the fault of a call that has written a read-only input."""
    text = (
        f"the call writes to tensor {number} of its input, which the reference does not: write into a tensor of "
        "its own, or into the output that the task provides"
    )
    return Fault(reason=Reason.WRITES_INPUT, text=text)
