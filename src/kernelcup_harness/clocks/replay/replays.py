"""Replays of captured calls: inputs and answers in the window, and the timer's replies. No contestant takes part."""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from kernelcup_harness.clocks.replay.kept import KeptCase
from kernelcup_harness.clocks.replay.mapping import Mapping
from kernelcup_harness.clocks.replay.timer_line import TimerFailed, TimerLine, TimerRefused, times_of
from kernelcup_harness.clocks.replay.witnessed import Witness
from kernelcup_harness.core.answer import MOST_TENSORS, Answer, CallFailed, Forged, GuardBroken, decoded
from kernelcup_harness.core.call import OUTPUT_HEADROOM, Caller
from kernelcup_harness.core.check import Checks, Place
from kernelcup_harness.core.plan import SUBMISSION, CaseCalls
from kernelcup_harness.core.requests import Line
from kernelcup_harness.core.task import TaskFault
from kernelcup_harness.protocol import RanKernel, SampleName
from kernelcup_harness.window import layout
from kernelcup_harness.window.layout import (
    CannotLie,
    Described,
    Differs,
    Layout,
    TooMany,
    overlap,
)
from kernelcup_harness.window.messages import (
    Fire,
    Fired,
    FireEmpty,
    Launch,
    Launched,
    Profile,
    SharedRegion,
)
from kernelcup_harness.window.reasons import Failure, NotReplayed, WhyNot
from kernelcup_harness.wire import decode, guards, values
from kernelcup_harness.wire.channel import BrokenProtocol, ChannelTimeout
from kernelcup_harness.wire.messages import FailureKind, M, Message

FIRST_PROFILED = 6 << 20
"""The number of the input of a profiled call."""
LEAST_OF_OFFSET_NS = 1_500.0
"""How far the time of a call may lie below an empty graph's."""


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


@dataclass(slots=True)
class Source:
    """A contestant whose calls are captured, or a kept binary.

    Args:
        role: The contestant.
        caller: For ordinary calls; None for a kept binary.
        line: For requests about the window.
    """

    role: str
    caller: Caller | None
    line: Line
    heap: range = range(0)
    """Addresses of its own tensors."""
    memory: list[tuple[torch.Tensor, torch.Tensor | None]] = field(default_factory=list)
    """Parts of the heap of a kept binary, and what each has to hold before a call; None for zeros."""
    captured: int = 0
    """Number of captured calls."""
    export: tuple[values.Arena, int] | None = None
    """The captured calls, and their size in bytes."""
    lent: list[tuple[SharedRegion, int]] = field(default_factory=list)
    """Regions of inputs, with descriptors to share them by."""
    loads: list[int] = field(default_factory=list)
    """The timer's numbers of these calls, one for each time that it has loaded them."""
    nodes: list[int] = field(default_factory=list)
    """The number of nodes of the graph of each captured call that do something."""
    shapes: list[str] = field(default_factory=list)
    """What the graphs of calls have in common that do the same at other places."""
    ran: list[RanKernel] = field(default_factory=list)
    """The kernels of its first captured call."""
    foreign: Foreign = field(default_factory=Foreign)
    """Parameters of these calls that pointed elsewhere."""


@dataclass(slots=True)
class Case:
    """A case whose calls are captured."""

    place: Place
    layout: Layout
    source: Source
    first: int = 0
    """The number of its first place in the timer."""
    answers: list[Described] = field(default_factory=list)
    kept: KeptCase | None = None
    """The case as it is kept with its binary."""
    fired_ns: list[float] = field(default_factory=list)
    """Times of all calls whose answer was checked, the clock's own share included."""
    wall_ns: list[float] = field(default_factory=list)
    """The judge's own times of these calls, from the request to the reply."""
    fired_at: dict[int, list[float]] = field(default_factory=dict)
    """The same by place."""
    watched_at: dict[int, list[float]] = field(default_factory=dict)
    """Times by the witness, by place."""
    unreadable: int = 0
    """Watches that could not be read."""
    is_unseen: bool = False
    """Whether the witness cannot see these calls."""
    late: int = 0
    """Calls that were not ready in time: each was repeated with another input."""

    def due(self, at: int) -> list[tuple[int, int]]:
        """Return address and size of the parts of the answer at a place that are not part of the input."""
        described, spans = self.answers[at], self.layout.spans(at)
        return [
            (address, entry["nbytes"])
            for address, entry in zip(described.addresses, described.table, strict=True)
            if entry["nbytes"] and not any(overlap(address, entry["nbytes"], span) for span in spans)
        ]


class Replays:
    """The captured calls of one side, and one replay of one of them.

    Args:
        mapping: The judge's own view of the window.
        checks: Makes inputs and checks answers.
        timer: To the timer.
        chance: Random numbers from the run's secret.
        remaining: Returns the seconds left of the stage, or of a call.
        record_type: Finds classes of answers by name.
        witness: Watches calls; None if the device's counters cannot be read.
    """

    def __init__(
        self,
        mapping: Mapping,
        *,
        checks: Checks,
        timer: TimerLine,
        chance: random.Random,
        remaining: Callable[..., float],
        record_type: decode.RecordType,
        witness: Witness | None = None,
    ) -> None:
        self._mapping = mapping
        self._checks = checks
        self._timer = timer
        self._chance = chance
        self._remaining = remaining
        self._record_type = record_type
        self._cases: dict[int, Case] = {}
        self.alone = False
        """Whether the contestant is gone: from then on a wrong replay is the submission's own fault."""
        self._witness = witness
        self.offset_ns = 0.0
        """What an empty graph takes by the start gun, measured before anything was loaded."""

    @property
    def witness(self) -> Witness | None:
        """What watches calls, None without one."""
        return self._witness

    def twins(self, run: CaseCalls) -> Sequence[bool]:
        """Return for each near-twin of an input of a case whether a wrong answer to it counts."""
        return self._checks.twins(self._cases[run.case.index].place)

    def profile(self, calls: CaseCalls) -> None:
        """Have one call of a case made under the profiler around the timer. Raise ``NotReplayed``."""
        case = self._cases[calls.case.index]
        sample = calls.current = SampleName(input=FIRST_PROFILED)
        try:
            data, pattern = self._laid(case, 0, sample)
            self._asked(Profile(capture=case.source.loads[0], place=case.first), Launched)
        except (TimerFailed, NotReplayed) as failed:
            raise case.source.foreign.cause_of(failed) from failed
        self._check_bands(case, 0, pattern)
        calls.count += 1
        # What was profiled has to be the call: its answer shows it.
        if self._checks.fault(case.place, sample, data, self._read(case, 0)) is not None:
            raise case.source.foreign.cause_of(NotReplayed(WhyNot.STALE))

    @property
    def ran(self) -> list[RanKernel]:
        """The kernels of a call of the contestant that has met public cases only."""
        sources = [case.source for case in self._cases.values() if case.source.role == SUBMISSION]
        return sources[0].ran if sources else []

    @property
    def binary(self) -> bytes:
        """The captured calls of the contestant that has met public cases only, as it has exported them."""
        cases = self._cases.values()
        export = next((each.source.export for each in cases if each.source.role == SUBMISSION), None)
        return os.pread(export[0].fd, export[1], 0) if export is not None else b""

    @property
    def data_bytes(self) -> int:
        """The bytes of an input of the first case and its answer; 0 before it is captured."""
        case = next((each for each in self._cases.values() if each.answers), None)
        return case.layout.place_bytes + sum(size for _, size in case.due(0)) if case else 0

    def _replayed(
        self, case: Case, at: int, sample: SampleName, *, load: int = 0
    ) -> tuple[Answer, Any, torch.Tensor]:
        """Replay a call; return the answer, its input, and the pattern that was where the answer is due.

        ``load`` says which of the loads of its capture is used.
        """
        data, pattern = self._laid(case, at, sample)
        began = time.perf_counter_ns()
        request = Fire(capture=case.source.loads[load], place=case.first + at)
        fired = self._fired(request, self._remaining(self._checks.form(case.place)))
        wall_ns = float(time.perf_counter_ns() - began)
        self._check_bands(case, at, pattern)
        for ns in fired:
            self._check_plausible(ns, wall_ns)
            case.fired_ns.append(ns)
            case.fired_at.setdefault(at, []).append(ns)
            case.wall_ns.append(wall_ns)
        ns = fired[0] if fired else math.nan
        return self._read(case, at, ns=ns, wall_ns=wall_ns), data, pattern

    def _check_plausible(self, ns: float, wall_ns: float) -> None:
        """Raise ``Forged`` for a time that only a forged clock can show."""
        if not self.offset_ns - LEAST_OF_OFFSET_NS <= ns <= wall_ns:
            raise Forged(f"{ns:.0f} ns of a call of {wall_ns:.0f} ns")

    def _laid(self, case: Case, at: int, sample: SampleName) -> tuple[Any, torch.Tensor]:
        """Write an input to a place, and a new pattern where the answer is due; return both."""
        data = self._checks.make_input(case.place, sample)
        self._write(case, data, at)
        pattern = self._pattern(case)
        self._spread(case, at, pattern)
        self._mapping.settle()
        return data, pattern

    def _pattern(self, case: Case) -> torch.Tensor:
        pattern = torch.frombuffer(bytearray(os.urandom(guards.POISON_BYTES)), dtype=torch.uint8)
        return pattern.to(self._mapping.view(case.source.heap.start, 1).device)

    def _spread(self, case: Case, at: int, pattern: torch.Tensor) -> None:
        """Write a pattern where the answer of a place is due, and around what a call may write."""
        for address, nbytes in [*case.layout.bands(at), *case.due(at)]:
            guards.repeat(self._mapping.view(address, nbytes), pattern)

    def _write(self, case: Case, data: Any, at: int) -> None:
        restore(case.source.memory)
        for target, source in self._copies(case, data, at):
            target.copy_(source)

    def _copies(self, case: Case, data: Any, at: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return the copies that write an input to a place: pairs of target and source."""
        try:
            return case.layout.copies(data, at, self._mapping.view)
        except Differs as error:
            if self.alone:
                raise TaskFault("inputs of one case differ in form: this task cannot be replayed") from error
            raise NotReplayed(WhyNot.VARIES) from error

    def _check_bands(self, case: Case, at: int, pattern: torch.Tensor) -> None:
        for address, nbytes in case.layout.bands(at):
            if not guards.holds(self._mapping.view(address, nbytes), pattern):
                raise GuardBroken("memory beside an output was written")

    def _is_untouched(self, case: Case, at: int, pattern: torch.Tensor) -> bool:
        due = case.due(at)
        return bool(due) and all(guards.holds(self._mapping.view(*each), pattern) for each in due)

    def _read(
        self, case: Case, at: int, *, ns: float = 0.0, wall_ns: float = 0.0, view: layout.View | None = None
    ) -> Answer:
        """Return a copy of the answer at a place. Shared memory is detected by its addresses."""
        described = case.answers[at]
        memory = layout.AnswerMemory(described, view or self._mapping.view)
        output, _ = decoded(memory, described.table, described.tree, self._record_type)
        shared = layout.sharing(described, case.layout.spans(at))
        return Answer(output=output, ns=ns, wall_ns=wall_ns, shared_inputs=shared)

    def _fired(self, request: Fire | FireEmpty, timeout_s: float | None = None) -> list[float]:
        times_ns = self._asked(request, Fired, timeout_s=timeout_s).ns
        if not times_ns and isinstance(request, Fire):
            return []
        if len(times_ns) != (request.repeat if isinstance(request, FireEmpty) else 1):
            raise TimerFailed("the timer answers with another number of times")
        return times_of(times_ns)

    def _asked(
        self,
        request: Message,
        expected: type[M],
        *,
        fds: Sequence[int] = (),
        timeout_s: float | None = None,
    ) -> M:
        """Send a request to the timer; attribute a refusal to the submission, the replay or the machine."""
        timeout_s = self._remaining() if timeout_s is None else timeout_s
        try:
            return self._timer.ask(request, expected, fds=fds, timeout_s=timeout_s)
        except TimerFailed as failed:
            is_late = isinstance(failed.__cause__, ChannelTimeout)
            if not (is_late and self.alone and isinstance(request, (Fire, Launch))):
                raise
            text = f"a replayed call did not end within {timeout_s:.3g} s"
            raise CallFailed(FailureKind.TIME, text) from failed
        except TimerRefused as refused:
            if refused.name is Failure.DEVICE_FAULT and self.alone:
                text = f"the replay of its calls failed on the device: {refused.text}"
                raise CallFailed(FailureKind.EXCEPTION, text) from refused
            if refused.name is Failure.DEVICE_FAULT:
                raise NotReplayed(WhyNot.FAULTS, refused.text) from refused
            if refused.name is Failure.FORGED:
                raise Forged(refused.text) from refused
            if refused.name in (Failure.BAD_GRAPH, Failure.NOT_REBUILT):
                raise NotReplayed(WhyNot.REFUSED, refused.text) from refused
            if refused.name is Failure.NO_WINDOW:
                raise NotReplayed(WhyNot.NO_WINDOW, refused.text) from refused
            raise TimerFailed(f"the timer: {refused}") from refused


def restore(memory: Sequence[tuple[torch.Tensor, torch.Tensor | None]]) -> None:
    """Write what the heap of a kept binary has to hold before a call: earlier calls may have changed it."""
    for target, content in memory:
        if content is None:
            target.zero_()
        else:
            target.copy_(content)


def described(case: Case, answers: list[Any], form: Any, device: str, most_bytes: int) -> list[Described]:
    """Return what a contestant says of its answers, one at each place.

    Raise :class:`NotReplayed`, :class:`CallFailed`, or ``BrokenProtocol``.
    """
    if len(answers) != case.layout.places:
        raise BrokenProtocol("the number of answers differs from that of places")
    most = max(MOST_TENSORS, form.tensors if form is not None else 0)
    if form is not None:
        # As through the host's memory: views and wider dtypes take more than the reference's answer.
        most_bytes = min(most_bytes, 2 * form.nbytes + OUTPUT_HEADROOM)
    try:
        found = [
            layout.described(
                each,
                inside=[case.source.heap, *case.layout.spans(at)],
                device=device,
                most_bytes=most_bytes,
                most=most,
            )
            for at, each in enumerate(answers)
        ]
        if any((each.table, each.used) != (found[0].table, found[0].used) for each in found):
            raise NotReplayed(WhyNot.PLACES)
        return found
    except CannotLie as error:
        raise NotReplayed(WhyNot.HOST_OUTPUT) from error
    except TooMany as error:
        raise CallFailed(FailureKind.OUTPUT, f"the call returned {error}") from error
    except values.TooLarge as error:
        raise CallFailed(FailureKind.TOO_LARGE, f"the call returned {error}") from error
    except values.BadTree as error:
        raise BrokenProtocol(str(error)) from error
