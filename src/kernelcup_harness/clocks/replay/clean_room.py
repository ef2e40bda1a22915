"""The judge's part of the clean room: inputs and answers in the window, and calls that the timer replays.

A captured call is replayed by a process that has never seen the submission's host code, after the submission's own
process has ended. Each call has a fresh input, and its answer is checked. Before the contestant is dismissed, each
place is replayed once: calls that fail there are made and timed by the judge's wall clock.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Sequence
from collections.abc import Mapping as PyMapping

from kernelcup_harness.clocks.replay import kept
from kernelcup_harness.clocks.replay.cut_replays import CutReplays
from kernelcup_harness.clocks.replay.keeping import memory_of
from kernelcup_harness.clocks.replay.kept import KeptCase, KeptLine
from kernelcup_harness.clocks.replay.mapping import Mapping, heap_of, laid_out
from kernelcup_harness.clocks.replay.replays import Case, Foreign, Source, described
from kernelcup_harness.clocks.replay.timer_line import TimerFailed, TimerLine
from kernelcup_harness.clocks.replay.wall_calls import WindowCalls
from kernelcup_harness.clocks.replay.witnessed import Witness
from kernelcup_harness.core.call import Caller
from kernelcup_harness.core.check import Checks, Fault, Wrong
from kernelcup_harness.core.plan import HIDDEN, SUBMISSION, CaseCalls, PlannedCase, Stage
from kernelcup_harness.core.requests import Line
from kernelcup_harness.protocol import Reason, SampleName
from kernelcup_harness.window.layout import (
    HEAPS,
    HIDDEN_FROM,
    INPUTS,
    WRITABLE,
    Layout,
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
from kernelcup_harness.window.reasons import MOST_EXPORT_BYTES, NotReplayed, WhyNot
from kernelcup_harness.wire import aliasing, decode, values
from kernelcup_harness.wire.channel import BrokenProtocol

OPEN_S = 60.0
"""Time for mapping regions, before and between stages."""
MOST_VERIFIED = 8  # replays of a case, after which late ones are not made again
FIRST_CAPTURED, FIRST_VERIFIED = 3 << 20, 4 << 20
"""Input numbers from here on are reserved for captures, and for trying replays."""
SMALL_BYTES = 2 << 20
"""Up to this many bytes of input and answer, calls by the wall clock go through pinned host memory: the device then
works for the submission's process alone, and need not switch between two processes, which takes 0.1 ms and more."""


class CleanRoom(CutReplays):
    """Captures the calls of one submission, and replays them.

    Args:
        mapping: The judge's own view of the window.
        checks: Makes inputs and checks answers.
        contestants: Those whose calls are captured: ``submission``, beside ``hidden`` if there are hidden cases;
            or ``rival``, for all cases. For each ordinary calls, None for a kept binary, and requests about the window.
        timer: To the timer.
        chance: Random numbers from the run's secret.
        remaining: Returns the seconds left of the stage, or of a call.
        record_type: Finds classes of answers by name.
        result_bytes: Most bytes that one call may return.
        witness: Watches calls; None if the device's counters cannot be read.
        heaps: Address of the heap of each contestant.
        keeps: Whether the memory is kept that the calls of public cases read.
    """

    def __init__(
        self,
        mapping: Mapping,
        *,
        checks: Checks,
        contestants: dict[str, tuple[Caller | None, Line]],
        timer: TimerLine,
        chance: random.Random,
        remaining: Callable[..., float],
        record_type: decode.RecordType,
        result_bytes: int,
        witness: Witness | None = None,
        heaps: PyMapping[str, int] = HEAPS,
        keeps: bool = False,
    ) -> None:
        super().__init__(
            mapping,
            checks=checks,
            timer=timer,
            chance=chance,
            remaining=remaining,
            record_type=record_type,
            witness=witness,
        )
        self._sources = {role: Source(role, *each) for role, each in contestants.items()}
        self._result_bytes = result_bytes
        self._heaps, self._keeps = heaps, keeps
        self.memory, self.not_kept = b"", ""
        """What the kept binary needs beside the captured calls, or why it cannot be kept."""
        self.dropped: list[str] = []
        """Attributes that the timer left out of the graphs of public cases."""

    @property
    def waited_s(self) -> float:
        """Seconds spent waiting for the contestants."""
        return sum(source.line.waited_s for source in self._sources.values())

    def _source_of(self, case: PlannedCase) -> Source:
        return self._sources["rival" if "rival" in self._sources else case.role]

    def open(self, *, clock: bool = True) -> None:
        """Give contestants and timer the memory for tensors, and try the clock. Raise :class:`NotReplayed`."""
        greet(self._timer)
        if clock:
            self.measure_offset()
        for source in self._sources.values():
            fd = placed(self._mapping, source, self._heaps[source.role])
            self._share(source, [region_of(source.heap)], [fd])

    def close(self) -> None:
        """Free shared memory and close descriptors."""
        for source in self._sources.values():
            while source.lent:
                os.close(source.lent.pop()[1])
            if source.export is not None:
                source.export[0].close()
                source.export = None

    def _share(self, source: Source, regions: list[SharedRegion], fds: list[int]) -> None:
        """Let a contestant and the timer map regions, and close the descriptors here."""
        try:
            # Calls that write inputs which are read-only in the timer are found before anything is timed.
            request = Attach(regions=regions)
            reply = source.line.ask(request, Attached, timeout_s=OPEN_S, fds=fds)
            if reply.why is not None:
                raise NotReplayed(reply.why)
            self._asked(request, Attached, fds=fds, timeout_s=OPEN_S)
        finally:
            for fd in fds:
                os.close(fd)

    # While the contestant is running

    def lay_out(self, stage: Stage) -> None:
        """Lay out the inputs of a stage, once, and allocate memory for them. Raise :class:`NotReplayed`."""
        if all(case.index in self._cases for case in stage.cases):
            return
        cases = {}
        for case in stage.cases:
            place = self._checks.place(stage.name, case)
            laid = laid_out(self._checks, place, self._mapping, FIRST_CAPTURED, hidden=case.hidden)
            cases[case.index] = Case(place, laid, self._source_of(case))
        for source in self._sources.values():
            try:
                self._lend(source, [case.layout for case in cases.values() if case.source is source])
            except NotReplayed as reason:
                # How much memory a hidden case needs is not said.
                raise NotReplayed(reason.reason, "" if source.role == HIDDEN else reason.detail) from reason
        self._cases |= cases

    def _lend(self, source: Source, layouts: list[Layout]) -> None:
        """Allocate memory for the inputs of one contestant's cases: no other contestant maps it."""
        away = HIDDEN_FROM if source.role == HIDDEN else 0
        sizes = {
            (INPUTS + away, Access.READ): max((each.input_bytes for each in layouts), default=0),
            (WRITABLE + away, Access.WRITE): max((each.writable_bytes for each in layouts), default=0),
        }
        regions, fds = [], []
        for (address, access), nbytes in sizes.items():
            if nbytes:
                fds.append(self._mapping.create(address, nbytes))
                regions.append(SharedRegion(address=address, bytes=nbytes, access=access))
        if regions:
            source.lent = [(region, os.dup(fd)) for region, fd in zip(regions, fds, strict=True)]
            self._share(source, regions, fds)

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
            line=laid.source.line,
            mapping=self._mapping,
            heap=laid.source.heap,
            record_type=self._record_type,
            result_bytes=self._result_bytes,
        )

    def lie_as(self, other: CleanRoom, runs: Sequence[CaseCalls]) -> None:
        """Use the inputs and the layout of another submission. Raise :class:`NotReplayed`."""
        for run in runs:
            case = other._cases[run.case.index]
            self._cases[run.case.index] = Case(case.place, case.layout, self._source_of(run.case))
        lent = [each for source in other._sources.values() for each in source.lent]
        for source in self._sources.values():
            if lent:
                fds = [os.dup(fd) for _, fd in lent]
                self._share(source, [region for region, _ in lent], fds)

    def capture(self, run: CaseCalls) -> None:
        """Have calls of a case captured, one at each place after two others. Raise :class:`NotReplayed`, ``Wrong``."""
        case = self._cases[run.case.index]
        laid, form, source = case.layout, self._checks.form(case.place), case.source
        samples = [SampleName(input=FIRST_CAPTURED + at) for at in range(laid.places)]
        inputs = [self._checks.make_input(case.place, sample) for sample in samples]
        for at, data in enumerate(inputs):
            self._write(case, data, at)
        self._mapping.settle()
        request = CapturePlaces(
            tree=laid.tree,
            tables=[laid.table_at(at) for at in range(laid.places)],
            in_place=form is not None and form.in_place,
            answer=form.described if form is not None else None,
        )
        run.current, timeout_s = samples[0], self._remaining(form, calls=3 * laid.places, may_compile=True)
        reply = source.line.ask(request, Captured, timeout_s=timeout_s)
        for at, (sample, data) in enumerate(zip(samples, inputs, strict=True)):
            changed = laid.changed(data, at, self._mapping.view)
            if changed:
                raise Wrong(sample, written(changed[0]))
        if reply.why is not None:
            raise NotReplayed(reply.why)
        case.answers = described(case, reply.answers, form, self._mapping.device, self._result_bytes)
        case.kept = KeptCase(kept.form_of(request), reply.answers)
        case.first = source.captured
        source.captured += laid.places

    def load(self, run: CaseCalls) -> None:
        """Hand over the captured calls of a case's contestant to the timer. Raise :class:`NotReplayed`."""
        source = self._source_of(run.case)
        self._take_export(source)
        self._hand_over(source)

    def take_export(self) -> None:
        """Take the captured calls from the contestants. Raise :class:`NotReplayed`."""
        for source in self._sources.values():
            self._take_export(source)

    def hand_over(self) -> None:
        """Have the timer load all captured calls, again if they were loaded before."""
        for source in self._sources.values():
            if source.captured:
                self._hand_over(source)

    def _take_export(self, source: Source) -> None:
        arena = values.Arena.create(MOST_EXPORT_BYTES)
        source.export = arena, 0
        reply = source.line.ask(Export(), Exported, timeout_s=self._remaining(), fds=[arena.fd])
        if not 0 <= reply.bytes <= arena.size:
            raise BrokenProtocol("an export without a valid size")
        if reply.why is not None and not reply.bytes:
            raise NotReplayed(reply.why)
        source.foreign, source.export = Foreign(reason=reply.why), (arena, reply.bytes)
        if isinstance(source.line, KeptLine):
            self.memory = source.line.kept.packed()
        elif self._keeps and source.role == SUBMISSION:
            self.memory, self.not_kept = memory_of(self._mapping, source, self._cases.values(), reply)

    def _hand_over(self, source: Source) -> None:
        assert source.export is not None
        arena, nbytes = source.export
        try:
            loaded = self._asked(
                LoadCapture(bytes=nbytes), Loaded, fds=[arena.fd], timeout_s=self._remaining()
            )
        except TimerFailed as failed:
            # Code that cannot be loaded may crash the driver, and with it the timer's process.
            raise NotReplayed(WhyNot.REFUSED, str(failed)) from failed
        if not len(loaded.nodes) == len(loaded.shapes) == source.captured:
            raise NotReplayed(WhyNot.REFUSED, "the number of graphs differs from that of places")
        source.nodes, source.ran, source.foreign.places = loaded.nodes, loaded.ran, loaded.foreign
        source.shapes = loaded.shapes
        source.loads.append(self._timer.loads)
        self._timer.loads += 1
        if source.role != HIDDEN:
            self.dropped = loaded.dropped

    def verify(self, run: CaseCalls) -> None:
        """Replay each place of a case once. Raise :class:`NotReplayed` or ``Wrong``."""
        case = self._cases[run.case.index]
        check_shapes(case)
        order = self._chance.sample(range(case.layout.places), case.layout.places)
        for number, at in enumerate(order):
            sample = SampleName(input=FIRST_VERIFIED + number)
            run.current = sample
            try:
                answer, data, pattern = self._replayed(case, at, sample)
            except (TimerFailed, NotReplayed) as failed:
                raise case.source.foreign.cause_of(failed) from failed
            run.count += 1
            fault = self._checks.fault(case.place, sample, data, answer)
            if fault is None:
                # A slow launch moves the clock's start further ahead, here and not later.
                order += [at] * (math.isnan(answer.ns) and number < MOST_VERIFIED)
                continue
            caller = case.source.caller
            if caller is None:
                raise kept.wrong(fault.text)
            untouched = self._is_untouched(case, at, pattern)
            if not self.alone and self._is_right_when_called(case, caller, sample):
                why = WhyNot.ELSEWHERE if untouched else WhyNot.STALE
                raise case.source.foreign.cause_of(NotReplayed(why))
            raise Wrong(sample, fault)

    def _is_right_when_called(self, case: Case, caller: Caller, sample: SampleName) -> bool:
        """Return whether an ordinary call answers the same input correctly."""
        data = self._checks.make_input(case.place, sample)
        answer = caller.call(data, form := self._checks.form(case.place), timeout_s=self._remaining(form))
        return self._checks.fault(case.place, sample, data, answer) is None


def greet(timer: TimerLine) -> None:
    """Wait for the timer. Raise :class:`NotReplayed` if it cannot use the device."""
    try:
        trouble = timer.greet(OPEN_S)
    except TimerFailed as failed:
        raise NotReplayed(WhyNot.NO_TIMER, str(failed)) from failed
    if trouble:
        raise NotReplayed(WhyNot.NO_TIMER, trouble)


def placed(mapping: Mapping, source: Source, address: int) -> int:
    """Give a contestant its heap; return a descriptor of it.

    A kept binary gets the addresses that it was captured at, and what was there. Two that were captured at the same
    addresses use one memory by turns.
    """
    line = source.line
    if not isinstance(line, KeptLine):
        nbytes, fd = heap_of(mapping, address)
        source.heap = range(address, address + nbytes)
        return fd
    source.heap = line.kept.heap
    made, line.lent = line.lent, None
    if made is None:
        made = mapping.create(source.heap.start, len(source.heap))
    if line.other is not None:
        line.other.lent = os.dup(made)
    source.memory = line.memory(mapping)
    return made


def region_of(heap: range) -> SharedRegion:
    """Return the region of a heap, as contestant and timer map it."""
    return SharedRegion(address=heap.start, bytes=len(heap), access=Access.WRITE, heap=True)


def check_shapes(case: Case) -> None:
    """Raise :class:`NotReplayed` if the graphs of a case do not do the same at all places."""
    if len(set(case.source.shapes[case.first : case.first + case.layout.places])) > 1:
        raise NotReplayed(WhyNot.PLACES)


def written(number: int) -> Fault:
    """Return the fault of a call that has written a read-only input."""
    text = (
        f"the call writes to tensor {number} of its input, which the reference does not: write into a tensor of "
        "its own, or into the output that the task provides"
    )
    return Fault(reason=Reason.WRITES_INPUT, text=text)
