"""The judge's part of the clean room: inputs and answers in the window, and calls that the timer replays.

A captured call is replayed by a process that has never seen the submission's host code, after the submission's own
process has ended. Each call has a fresh input, and its answer is checked. Before the contestant is dismissed, each
place is replayed once: calls that fail there are made and timed by the judge's wall clock.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from kernelcup_harness.judge.answers import MOST_TENSORS, Answer, CallFailed, GuardBroken
from kernelcup_harness.judge.caller import Caller
from kernelcup_harness.judge.checks import Checks, Fault, Place, Wrong
from kernelcup_harness.judge.replay.mapping import INPUTS_SHARE, Mapping, heap_sizes
from kernelcup_harness.judge.replay.timer_line import TimerFailed, TimerLine, TimerRefused, times_of
from kernelcup_harness.judge.replay.wall_calls import WindowCalls
from kernelcup_harness.judge.requests import Line
from kernelcup_harness.judge.schedule import PLACES, CaseRun, PlannedCase, Stage
from kernelcup_harness.judge.task import TaskFault
from kernelcup_harness.protocol import Audit, Finding, Reason, SampleName, TrustLevel, estimates
from kernelcup_harness.window import layout
from kernelcup_harness.window.failures import MOST_EXPORT_BYTES, Failure
from kernelcup_harness.window.layout import (
    HEAPS,
    INPUTS,
    WRITABLE,
    CannotLie,
    Described,
    Differs,
    Layout,
    TooMany,
    overlap,
)
from kernelcup_harness.window.reasons import NotReplayed, WhyNot, named
from kernelcup_harness.wire import aliasing, decode, guards, values
from kernelcup_harness.wire.channel import BrokenProtocol, text_of

OPEN_S = 60.0
"""Time for mapping regions, before and between stages."""
FIRST_CAPTURED, FIRST_VERIFIED, FIRST_SERIES = 3 << 20, 4 << 20, 5 << 20
"""Input numbers from here on are reserved for captures, for trying replays, and for series."""
SERIES_PASSES = (2, 10)
"""Calls of a short and of a long series at each place."""
SERIES_REPEATS = 3
SERIES_SHARE, SERIES_NS = 1.15, 3_000.0
"""How far the host's time of back-to-back calls may exceed the start gun's. For 14 kinds of calls on an H100 it was by
at most 7 %, or by 2.1 us if a launch takes the host longer than the call takes the device."""
SMALL_BYTES = 2 << 20
"""Up to this many bytes of input and answer, calls by the wall clock go through pinned host memory: the device then
works for the submission's process alone, and need not switch between two processes, which takes 0.1 ms and more."""
LEAST_NS = 100.0
"""Shorter times cannot be distinguished from zero: the scatter of the clock itself."""


@dataclass(slots=True)
class Case:
    """A case whose calls are captured."""

    place: Place
    layout: Layout
    first: int = 0
    """The number of its first place in the timer."""
    answers: list[Described] = field(default_factory=list)
    empty_ns: list[float] = field(default_factory=list)
    fired_ns: list[float] = field(default_factory=list)
    """Times of all calls whose answer was checked, the clock's own share included."""
    series_ns: float | None = None


class CleanRoom:
    """Replays the calls of one submission.

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
    ) -> None:
        self._mapping = mapping
        self._checks = checks
        self._caller = caller
        self._contestant = contestant
        self._timer = timer
        self._chance = chance
        self._remaining = remaining
        self._record_type = record_type
        self._result_bytes = result_bytes
        self._cases: dict[int, Case] = {}
        self._captured = 0
        self._heap = range(0)
        self._alone = False
        self._role = role
        # The timer loads the submission's calls first, then the rival's.
        self._set = 0 if role == "submission" else 1
        self._export: tuple[values.Arena, int] | None = None
        self._lent: list[tuple[dict[str, Any], int]] = []
        """Regions of inputs, with descriptors to share them by."""
        self.dropped: list[str] = []
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
        address = HEAPS[self._role]
        nbytes, fd = self._heap_of(address)
        self._heap = range(address, address + nbytes)
        self._share([{"address": address, "bytes": nbytes, "access": "rw", "heap": True}], [fd])

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

    def _heap_of(self, address: int) -> tuple[int, int]:
        sizes = heap_sizes(self._mapping.total_bytes())
        for nbytes in sizes[:-1]:
            try:
                return nbytes, self._mapping.create(address, nbytes)
            except NotReplayed:
                continue
        return sizes[-1], self._mapping.create(address, sizes[-1])

    def _share(self, regions: list[dict[str, Any]], fds: list[int], *, timer: bool = True) -> None:
        """Let contestant and timer map regions, and close the descriptors here."""
        try:
            # Calls that write inputs which are read-only in the timer are found before anything is timed.
            reply = self._contestant.ask(
                {"type": "window", "regions": regions}, "attached", timeout_s=OPEN_S, fds=fds
            )
            if (why := named(reply.get("why"))) is not None:
                raise NotReplayed(why)
            if timer:
                self._asked({"type": "attach", "regions": regions}, "attached", fds=fds, timeout_s=OPEN_S)
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
            (INPUTS, "ro"): max((each.layout.input_bytes for each in cases.values()), default=0),
            (WRITABLE, "rw"): max((each.layout.writable_bytes for each in cases.values()), default=0),
        }
        regions, fds = [], []
        for (address, access), nbytes in sizes.items():
            if nbytes:
                fds.append(self._mapping.create(address, nbytes))
                regions.append({"address": address, "bytes": nbytes, "access": access})
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
        frame = {
            "type": "capture_places",
            "tree": laid.tree,
            "tables": [laid.table_at(at) for at in range(laid.places)],
            "in_place": form is not None and form.in_place,
        }
        run.current = samples[0]
        reply = self._contestant.ask(frame, "captured", timeout_s=self._remaining())
        for at, (sample, data) in enumerate(zip(samples, inputs, strict=True)):
            changed = laid.changed(data, at, self._mapping.view)
            if changed:
                raise Wrong(sample, written(changed[0]))
        if (why := named(reply.get("why"))) is not None:
            raise NotReplayed(why)
        case.answers = self._described(case, reply.get("answers"), form)
        case.first = self._captured
        self._captured += laid.places

    def _described(self, case: Case, answers: Any, form: Any) -> list[Described]:
        if not isinstance(answers, list) or len(answers) != case.layout.places:
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
            raise CallFailed("output", f"the call returned {error}") from error
        except values.TooLarge as error:
            raise CallFailed("too_large", f"the call returned {error}") from error
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
        reply = self._contestant.ask(
            {"type": "export"}, "exported", timeout_s=self._remaining(), fds=[arena.fd]
        )
        if (why := named(reply.get("why"))) is not None:
            raise NotReplayed(why)
        nbytes = reply.get("bytes")
        if type(nbytes) is not int or not 0 <= nbytes <= arena.size:
            raise BrokenProtocol("an export without a valid size")
        self._export = arena, nbytes

    def hand_over(self) -> None:
        """Have the timer load the export, again if it was loaded before."""
        assert self._export is not None
        arena, nbytes = self._export
        try:
            frame = {"type": "load", "bytes": nbytes}
            loaded = self._asked(frame, "loaded", fds=[arena.fd], timeout_s=self._remaining())
        except TimerFailed as failed:
            # Code that cannot be loaded may crash the driver, and with it the timer's process.
            raise NotReplayed(WhyNot.REFUSED, str(failed)) from failed
        if loaded.get("places") != self._captured:
            raise NotReplayed(WhyNot.REFUSED, "the number of graphs differs from that of places")
        dropped = loaded.get("dropped")
        self.dropped = [text_of(each, 300) for each in dropped] if isinstance(dropped, list) else []

    def verify(self, run: CaseRun) -> None:
        """Replay each place of a case once. Raise :class:`NotReplayed` or ``Wrong``."""
        case = self._cases[run.case.index]
        for at in self._chance.sample(range(case.layout.places), case.layout.places):
            sample = SampleName(input=FIRST_VERIFIED + at)
            run.current = sample
            try:
                answer, data, pattern = self._replayed(case, at, sample)
            except TimerFailed as failed:
                raise NotReplayed(WhyNot.FAULTS, str(failed)) from failed
            run.count += 1
            fault = self._checks.fault(case.place, sample, data, answer)
            if fault is None:
                continue
            untouched = self._is_untouched(case, at, pattern)
            if not self._alone and self._is_right_when_called(case, sample):
                raise NotReplayed(WhyNot.ELSEWHERE if untouched else WhyNot.STALE)
            raise Wrong(sample, fault)

    def _is_right_when_called(self, case: Case, sample: SampleName) -> bool:
        """Return whether an ordinary call answers the same input correctly."""
        data = self._checks.make_input(case.place, sample)
        answer = self._caller.call(data, self._checks.form(case.place), timeout_s=self._remaining())
        return self._checks.fault(case.place, sample, data, answer) is None

    def contestant_is_gone(self) -> None:
        """Note that from now on a wrong replay is the submission's own fault."""
        self._alone = True

    # After the contestant is dismissed

    def sample(self, run: CaseRun, sample: SampleName) -> Answer:
        """Time one call on an input. Raise ``Wrong``, or :class:`TimerFailed`."""
        case = self._cases[run.case.index]
        at = self._chance.randrange(case.layout.places)
        # The clock's own share is measured in the same state, before or after the call.
        before = self._chance.random() < 0.5
        if before:
            case.empty_ns += self._fired({"type": "empty"})
        answer, data, _ = self._replayed(case, at, sample)
        if not before:
            case.empty_ns += self._fired({"type": "empty"})
        fault = self._checks.fault(case.place, sample, data, answer)
        if fault is not None:
            raise Wrong(sample, fault)
        return answer

    def has_twins(self, run: CaseRun) -> bool:
        """Return whether inputs with one element of each tensor changed are still inputs of the task."""
        return self._checks.has_twins(self._cases[run.case.index].place)

    def finish(self, run: CaseRun) -> Audit:
        """Return the audit with the ranked time of a sampled case. Raise ``Wrong`` or :class:`TimerFailed`."""
        case = self._cases[run.case.index]
        run.offset_ns = estimates.robust(case.empty_ns)
        found = run.timing()
        assert found is not None
        case.series_ns = self._series_ns(case)
        self._asked({"type": "check"}, "checked")
        score_ns = max(LEAST_NS, found.claim_ns)
        longer = longer_among_many(score_ns, case.series_ns)
        return Audit(
            captured=True,
            score_ns=score_ns,
            level=TrustLevel.REPLAYED,
            findings=[longer] if longer is not None else [],
        )

    def _series_ns(self, case: Case) -> float:
        """Return the time of a call in a series, by the timer's host clock; the order of places changes each time."""
        places, slopes = case.layout.places, []
        for number in range(SERIES_REPEATS):
            samples = [SampleName(input=FIRST_SERIES + number * PLACES + at) for at in range(places)]
            walls = []
            for passes in SERIES_PASSES:
                inputs = [self._laid(case, at, sample)[0] for at, sample in enumerate(samples)]
                order = [each for _ in range(passes) for each in self._chance.sample(range(places), places)]
                frame = {"type": "series", "places": [case.first + at for at in order]}
                reply = self._asked(frame, "series")
                walls += times_of({"ns": [reply.get("ns")]})
            slopes.append((walls[1] - walls[0]) / (places * (SERIES_PASSES[1] - SERIES_PASSES[0])))
            # If calls share an output, only the last answer is right. Cases whose calls write inputs are not checked.
            if not case.layout.writable_bytes:
                self._check_after_series(case, order[-1], samples, inputs)
        return min(slopes)

    def _check_after_series(
        self, case: Case, at: int, samples: Sequence[SampleName], inputs: Sequence[Any]
    ) -> None:
        fault = self._checks.fault(case.place, samples[at], inputs[at], self._read(case, at))
        if fault is not None:
            raise Wrong(samples[at], fault)

    # Duels

    def places_of(self, run: CaseRun) -> int:
        """Return the number of places of a case."""
        return self._cases[run.case.index].layout.places

    def numbers_of(self, run: CaseRun) -> range:
        """Return the numbers of a case's places in the timer."""
        case = self._cases[run.case.index]
        return range(case.first, case.first + case.layout.places)

    def checked_ns(self, run: CaseRun) -> float:
        """Return the median time of the checked calls, the clock's own share included."""
        return statistics.median(self._cases[run.case.index].fired_ns)

    def writes_inputs(self, run: CaseRun) -> bool:
        """Return whether calls of a case may write tensors of their input."""
        return self._cases[run.case.index].layout.writable_bytes > 0

    def empties(self, count: int) -> list[float]:
        """Return times of empty graphs: the clock's own share."""
        return self._fired({"type": "empty", "repeat": count})

    def lay(self, run: CaseRun, samples: Sequence[SampleName], *, keep_inputs: bool = False) -> None:
        """Write an input to each place, unless ``keep_inputs``, and a pattern where each answer is due."""
        case = self._cases[run.case.index]
        for at, sample in enumerate(samples):
            self._laid(case, at, sample, keep_inputs=keep_inputs)

    def turns(
        self, left: list[list[int]], right: list[list[int]], first: int, count: int
    ) -> list[tuple[float, float]]:
        """Return the nanoseconds of two lists of calls in turns."""
        frame = {"type": "turns", "left": left, "right": right, "first": first, "count": count}
        found = self._asked(frame, "turns").get("ns")
        pairs = [times_of({"ns": each}) for each in found] if isinstance(found, list) else []
        if len(pairs) != count or any(len(pair) != 2 for pair in pairs):
            raise TimerFailed("the timer answers without pairs of times")
        return [(pair[0], pair[1]) for pair in pairs]

    def check_laid(self, run: CaseRun, samples: Sequence[SampleName]) -> None:
        """Check the answers that the last calls left at all places. Raise ``Wrong``."""
        case = self._cases[run.case.index]
        for at, sample in enumerate(samples):
            data = self._checks.make_input(case.place, sample)
            fault = self._checks.fault(case.place, sample, data, self._read(case, at))
            if fault is not None:
                raise Wrong(sample, fault)

    # One call

    def _replayed(self, case: Case, at: int, sample: SampleName) -> tuple[Answer, Any, torch.Tensor]:
        """Replay a call; return the answer, its input, and the pattern that was where the answer is due."""
        data, pattern = self._laid(case, at, sample)
        began = time.perf_counter_ns()
        (ns,) = self._fired({"type": "fire", "set": self._set, "place": case.first + at})
        wall_ns = float(time.perf_counter_ns() - began)
        self._check_bands(case, at, pattern)
        case.fired_ns.append(ns)
        return self._read(case, at, ns=ns, wall_ns=wall_ns), data, pattern

    def _laid(
        self, case: Case, at: int, sample: SampleName, *, keep_inputs: bool = False
    ) -> tuple[Any, torch.Tensor]:
        """Write an input to a place, and a new pattern where the answer is due; return both."""
        data = None
        if not keep_inputs:
            data = self._checks.make_input(case.place, sample)
            self._write(case, data, at)
        pattern = torch.frombuffer(bytearray(os.urandom(guards.POISON_BYTES)), dtype=torch.uint8)
        pattern = pattern.to(self._mapping.view(self._heap.start, 1).device)
        for address, nbytes in [*case.layout.bands(at), *self._due(case, at)]:
            guards.repeat(self._mapping.view(address, nbytes), pattern)
        self._mapping.settle()
        return data, pattern

    def _write(self, case: Case, data: Any, at: int) -> None:
        try:
            case.layout.write(data, at, self._mapping.view)
        except Differs as error:
            if self._alone:
                raise TaskFault("inputs of one case differ in form: this task cannot be replayed") from error
            raise NotReplayed(WhyNot.VARIES) from error

    def _due(self, case: Case, at: int) -> list[tuple[int, int]]:
        """Return address and size of the parts of the answer that are not part of the input."""
        described, spans = case.answers[at], case.layout.spans(at)
        return [
            (address, entry["nbytes"])
            for address, entry in zip(described.addresses, described.table, strict=True)
            if entry["nbytes"] and not any(overlap(address, entry["nbytes"], span) for span in spans)
        ]

    def _check_bands(self, case: Case, at: int, pattern: torch.Tensor) -> None:
        for address, nbytes in case.layout.bands(at):
            if not guards.holds(self._mapping.view(address, nbytes), pattern):
                raise GuardBroken("memory beside an output was written")

    def _is_untouched(self, case: Case, at: int, pattern: torch.Tensor) -> bool:
        due = self._due(case, at)
        return bool(due) and all(guards.holds(self._mapping.view(*each), pattern) for each in due)

    def _read(self, case: Case, at: int, *, ns: float = 0.0, wall_ns: float = 0.0) -> Answer:
        """Return a copy of the answer at a place. Shared memory is detected by its addresses."""
        described = case.answers[at]
        memory = layout.AnswerMemory(described, self._mapping.view)
        try:
            decoder = decode.Decoder(memory, described.table, self._record_type, dense=True)
            output = decoder.value(described.tree)
        except values.BadTree as error:
            if "not defined in the task's files" in str(error):
                raise CallFailed(
                    "output", f"the call returned a class of its own: {error}"[:2_000]
                ) from error
            raise BrokenProtocol(str(error)) from error
        shared, repeats = layout.sharing(described, case.layout.spans(at))
        return Answer(output=output, ns=ns, wall_ns=wall_ns, shared_inputs=shared, repeats_itself=repeats)

    def _fired(self, frame: dict[str, Any]) -> list[float]:
        found = times_of(self._asked(frame, "fired"))
        if len(found) != frame.get("repeat", 1):
            raise TimerFailed("the timer answers with another number of times")
        return found

    def _asked(
        self, frame: dict[str, Any], expected: str, *, fds: Sequence[int] = (), timeout_s: float | None = None
    ) -> dict[str, Any]:
        """Send a request to the timer; attribute a refusal to the submission, the replay or the machine."""
        timeout_s = self._remaining() if timeout_s is None else timeout_s
        try:
            return self._timer.ask(frame, expected, fds=fds, timeout_s=timeout_s)
        except TimerRefused as refused:
            if refused.name is Failure.DEVICE_FAULT and self._alone:
                text = f"the replay of its calls failed on the device: {refused.text}"
                raise CallFailed("exception", text) from refused
            if refused.name is Failure.DEVICE_FAULT:
                raise NotReplayed(WhyNot.FAULTS, refused.text) from refused
            if refused.name is Failure.FORGED:
                raise BrokenProtocol(f"its device code forged a time: {refused.text}") from refused
            if refused.name in (Failure.BAD_GRAPH, Failure.NOT_REBUILT):
                raise NotReplayed(WhyNot.REFUSED, refused.text) from refused
            if refused.name is Failure.NO_WINDOW:
                raise NotReplayed(WhyNot.NO_WINDOW, refused.text) from refused
            raise TimerFailed(f"the timer: {refused}") from refused


def written(number: int) -> Fault:
    """Return the fault of a call that has written a read-only input."""
    text = (
        f"the call writes to tensor {number} of its input, which the reference does not: write into a tensor of "
        "its own, or into the output that the task provides"
    )
    return Fault(reason=Reason.WRITES_INPUT, text=text)


def longer_among_many(score_ns: float, series_ns: float) -> Finding | None:
    """Return a finding if back-to-back calls take longer by the host's clock than by the start gun."""
    if series_ns <= SERIES_SHARE * score_ns + SERIES_NS:
        return None
    text = (
        f"one after another its calls take {series_ns / 1e3:.2f} us each by the clock of the timer's host, "
        f"a single one {score_ns / 1e3:.2f} us"
    )
    return Finding(code="series_longer", text=text)
