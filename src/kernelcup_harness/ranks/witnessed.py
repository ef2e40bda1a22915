"""The time of a call on several GPUs as the witness sees it, by the counters of all of them.

On each GPU a watch shows, in this order: what wakes the links, mark A, the writing of the input, mark B, the call, the
copy that the judge takes of the answer when the contestant says that it is done, and mark C. A call lasts from the
first activity of any GPU after B to the last before that copy: work before the gate opens makes it longer, and what is
left for later is missing in the answer. Copies by the device's own engines, which use no multiprocessor, are seen by
what passes over PCIe and NVLink, also beside the judge's own work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernelcup_harness.clocks import trace
from kernelcup_harness.clocks.replay.timer_line import TimerLine, TimerRefused
from kernelcup_harness.clocks.replay.witnessed import WitnessFailed, drawn
from kernelcup_harness.window.messages import Seen, Stopped, StopWatch, Tell, Watch, Watching
from kernelcup_harness.wire.channel import Channel
from kernelcup_harness.wire.messages import Message

PATIENCE_S = 30.0
WRITING_NS = 20_000.0
"""Longest time to write a small input; a large one takes what the device's memory takes."""
WRITING_BYTES_A_NS = 200.0
"""Slowest speed at which a device copies its own memory."""


COPIED_AT_ONCE = 1 << 29
"""Larger copies take several kernels."""
MOST_WAKING = 2
"""Dispatches of the call that wakes the links."""


class WorkBeside(trace.Unreadable):
    """A GPU did something else while the judge wrote an input or copied an answer."""


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of one call, the same on all GPUs; only the judge knows how long they are."""

    before_input: trace.Mark
    before_call: trace.Mark
    after_call: trace.Mark

    @classmethod
    def draw(cls) -> Marks:
        """Return marks that were never seen."""
        return cls(drawn(), drawn(), drawn())


@dataclass(frozen=True, slots=True)
class Span:
    """When a GPU began a call and ended it, in nanoseconds since the judges' own call on all GPUs.

    Args:
        begin_ns: When its multiprocessors began; what passed over its links counts if they did nothing.
        end_ns: When they ended.
        copies: What passed over its links from the writing of the input to the copy of the answer.
    """

    begin_ns: float
    end_ns: float
    copies: Sequence[trace.Copy] = ()


class RanksWitness:
    """Watches calls on several GPUs.

    Args:
        channel: To the witness.
    """

    def __init__(self, channel: Channel) -> None:
        self._line = TimerLine(channel)
        self._is_on = False

    def greet(self, timeout_s: float) -> str:
        """Wait for its hello; return why it cannot see the counters, empty if it can. Raise ``TimerFailed``."""
        return self._line.greet(timeout_s)

    def begin(self) -> None:
        """Begin a watch; one that is on since a call failed is ended. Raise ``WitnessFailed``."""
        if self._is_on:
            self.end()
        self._ask(Watch(), Watching)
        self._is_on = True

    def end(self) -> None:
        """End the watch. Raise ``WitnessFailed``."""
        self._is_on = False
        self._ask(StopWatch(), Stopped)

    def _ask(self, request: Message, expected: type[Message]) -> None:
        try:
            self._line.ask(request, expected, timeout_s=PATIENCE_S)
        except TimerRefused as refused:
            raise WitnessFailed(f"the witness: {refused.text}") from refused

    def spans(self, marks: Marks, nbytes: Sequence[tuple[int, int]], count: int) -> list[Span]:
        """Return the span of the call on each GPU; ``nbytes`` has the sizes of inputs and answers.

        Raise ``Unreadable``, also if one of the job's ``count`` GPUs works for which the case has no rank.
        """
        for device in range(len(nbytes), count):
            if stretches := self._seen(device)[0]:
                raise trace.Unreadable(f"GPU {device} has no rank in this case: {trace.shown(stretches)}")
        return [span_of(*self._seen(rank), marks, *sizes) for rank, sizes in enumerate(nbytes)]

    def _seen(self, device: int) -> tuple[list[trace.Stretch], list[trace.Copy]]:
        try:
            seen = self._line.ask(Tell(device=device), Seen, timeout_s=PATIENCE_S)
        except TimerRefused as refused:
            raise trace.Unreadable(refused.text) from refused
        stretches = [trace.Stretch(each[0], each[1], int(each[2])) for each in seen.stretches]
        return stretches, [trace.Copy(*each) for each in seen.copies]


def span_of(
    stretches: Sequence[trace.Stretch],
    copies: Sequence[trace.Copy],
    marks: Marks,
    input_bytes: int,
    answer_bytes: int,
) -> Span:
    """Return the span of a call on one GPU.

    Raise ``Unreadable`` if a mark is missing, nothing was done, or something else was while the input was written or
    the answer handed over.
    """
    at = trace.first_place(marks.before_input, stretches, 0)
    begin = at + 2
    end = trace.first_place(marks.before_call, stretches, begin)
    woken_ns = woken_at(stretches[:at])
    check_copy("work while the input was written", stretches[begin:end], input_bytes)
    seen = trace.calls(stretches[end:], [(marks.before_call, marks.after_call)])[0]
    if not seen:
        raise trace.Unreadable("nothing was seen of the call")
    work, copy = seen[:-1], seen[-1]
    check_copy("work while the answer was copied", [copy], answer_bytes)
    # From before the input is written: a copy engine could begin as soon as it is, also while a mark is made. Until the
    # answer is copied: it could bring the last parts meanwhile.
    from_ns = stretches[at + 1].end_ns
    moved = [each for each in copies if from_ns < each.end_ns and each.start_ns < copy.end_ns]
    if not work and not moved:
        raise trace.Unreadable("nothing was seen of the call")
    copied = tuple(trace.Copy(each.start_ns - woken_ns, each.end_ns - woken_ns) for each in moved)
    begin_ns = work[0].start_ns - woken_ns if work else min(each.start_ns for each in copied)
    end_ns = work[-1].end_ns - woken_ns if work else max(each.end_ns for each in copied)
    return Span(begin_ns, end_ns, copied)


def woken_at(before: Sequence[trace.Stretch]) -> float:
    """Return when the judges' own call ended, by which links were woken: at one time on all GPUs, whose timers differ.

    Raise ``Unreadable`` for other work beside it, which could shift that time; 0 if a case takes one GPU.
    """
    if trace.total(before) > MOST_WAKING:
        raise WorkBeside(f"work before the input was written: {trace.shown(before)}")
    if len(before) > 1:
        # What goes on since before the watch has no dispatch in it.
        raise trace.Unreadable(f"activity before the input was written: {trace.shown(before)}")
    return before[-1].end_ns if before else 0.0


def check_copy(what: str, stretches: Sequence[trace.Stretch], nbytes: int) -> None:
    """Raise ``WorkBeside`` unless stretches are the judge's copy of so many bytes and nothing else."""
    longest_ns = WRITING_NS + nbytes / WRITING_BYTES_A_NS
    most = 1 + nbytes // COPIED_AT_ONCE
    # A kernel that goes on since before would be a stretch without a dispatch.
    if (
        not 1 <= trace.total(stretches) <= most
        or sum(each.end_ns - each.start_ns for each in stretches) > longest_ns
    ):
        raise WorkBeside(f"{what}: {trace.shown(stretches)}")


def skew_ns(spans: Sequence[Span]) -> float:
    """Return how much later than the first GPU the last one began."""
    begins = [each.begin_ns for each in spans]
    return max(begins) - min(begins)


def time_ns(spans: Sequence[Span]) -> float:
    """Return the time of a call: from the first activity of any GPU to the last.

    Not from the start of the GPU that began last: one that waits for another's work would begin after it. Copies
    count that are seen in a sample in which no GPU works on the call: in others they may be the work's own.
    """
    begin_ns, end_ns = min(each.begin_ns for each in spans), max(each.end_ns for each in spans)
    copies = [copy for each in spans for copy in each.copies]
    before = [each.start_ns for each in copies if each.start_ns + trace.INTERVAL_NS < begin_ns]
    after = [each.end_ns for each in copies if each.end_ns - trace.INTERVAL_NS > end_ns]
    return max([end_ns, *after]) - min([begin_ns, *before])
