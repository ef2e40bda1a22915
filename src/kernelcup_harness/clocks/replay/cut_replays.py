"""The kernels of a call, and the share of its time that each has: the call is cut after each of them."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

from kernelcup_harness.clocks.replay.replays import Case
from kernelcup_harness.clocks.replay.timed_replays import LEAST_NS, TimedReplays
from kernelcup_harness.clocks.replay.timer_line import TimerFailed
from kernelcup_harness.clocks.sampling import TimedCase
from kernelcup_harness.core.answer import CallFailed
from kernelcup_harness.protocol import RanKernel, SampleName
from kernelcup_harness.protocol.results import trimmed_mean
from kernelcup_harness.window.messages import NO_KERNEL, Fire, LoadCapture, Loaded

FIRST_CUT = 7 << 20
"""The number of the input of cut calls."""
FEWEST_ROUNDS, MOST_ROUNDS = 3, 15
ROUNDS_S = 1.0
"""Time for the rounds of one case, from which on no further one begins."""
REQUEST_S = 20.0
"""Time for one request: a kernel that waits for one of another branch never ends in a row."""


class NoShares(RuntimeError):
    """The shares of a call's kernels are not known; the text says why."""


class CutReplays(TimedReplays):
    """Times the kernels of a call. It is the last work of a timer: a kernel that hangs costs no time of a call."""

    lost = ""
    """Why the timer has failed meanwhile, empty if it has not."""

    def shares(self, run: TimedCase) -> tuple[list[RanKernel], float]:
        """Return the kernels of a case's call with their shares, and how many times as long they take in a row.

        Raise :class:`NoShares`, or what a replay raises.
        """
        case = self._cases[run.case.index]
        if self.lost:
            raise NoShares("the timer did not answer an earlier request")
        try:
            number, loaded = self._cut(case)
            times_ns = self._rounds(case, number, len(loaded.steps))
        except (TimerFailed, CallFailed) as failed:
            self.lost = str(failed)
            raise
        call_ns = trimmed_mean(run.samples.gun_ns(self.offset_ns))
        spent_ns = spent(len(loaded.ran), loaded.steps, times_ns)
        return shared(loaded.ran, spent_ns), drawn_out(sum(spent_ns), times_ns[-1], call_ns)

    def _cut(self, case: Case) -> tuple[int, Loaded]:
        """Have the timer cut the call of a case's first place; return the number of its graphs."""
        assert case.source.export is not None
        arena, nbytes = case.source.export
        request = LoadCapture(bytes=nbytes, cut=case.first)
        loaded = self._asked(request, Loaded, fds=[arena.fd], timeout_s=self._patience_s())
        self._timer.loads += 1
        if not loaded.steps or len(loaded.steps) != len(loaded.nodes):
            raise NoShares("no kernel runs")
        if any(not NO_KERNEL <= each < len(loaded.ran) for each in loaded.steps):
            raise TimerFailed("the timer answers with unknown kernels")
        return self._timer.loads - 1, loaded

    def _rounds(self, case: Case, number: int, steps: int) -> list[float]:
        """Return the nanoseconds up to the end of each step, in order; an empty graph's are subtracted."""
        data = self._checks.make_input(case.place, SampleName(input=FIRST_CUT))
        samples_ns: list[list[float]] = [[] for _ in range(steps)]
        began = time.monotonic()
        self._check_whole(case, number, data)
        for done in range(MOST_ROUNDS):
            if done >= FEWEST_ROUNDS and time.monotonic() - began > ROUNDS_S:
                break
            for at in self._chance.sample(range(steps), steps):
                # The shortest graph comes last.
                samples_ns[steps - 1 - at] += self._fire_cut(case, number, at, data)
        if not all(samples_ns):
            raise NoShares("its kernels were not ready in time")
        return [trimmed_mean(each) - self.offset_ns for each in samples_ns]

    def _fire_cut(self, case: Case, number: int, at: int, data: Any) -> list[float]:
        self._write(case, data, 0)
        self._mapping.settle()
        return self._fired(Fire(capture=number, place=at), timeout_s=self._patience_s())

    def _check_whole(self, case: Case, number: int, data: Any) -> None:
        """Raise :class:`NoShares` unless the kernels in a row answer as the call does."""
        self._write(case, data, 0)
        pattern = self._pattern(case)
        self._spread(case, 0, pattern)
        self._mapping.settle()
        self._fired(Fire(capture=number, place=0), timeout_s=self._patience_s())
        self._check_bands(case, 0, pattern)
        sample = SampleName(input=FIRST_CUT)
        if self._checks.fault(case.place, sample, data, self._read(case, 0)) is not None:
            raise NoShares("in a row its kernels answer wrong")

    def _patience_s(self) -> float:
        return min(REQUEST_S, self._remaining())


def spent(kernels: int, steps: Sequence[int], ends_ns: Sequence[float]) -> list[float]:
    """Return the nanoseconds of each kernel, by the ends of a call's steps; copies and memsets are left out."""
    found = [0.0] * kernels
    before = 0.0
    for kernel, end in zip(steps, ends_ns, strict=True):
        if kernel != NO_KERNEL:
            found[kernel] += max(0.0, end - before)
        before = max(before, end)
    return found


def shared(ran: Sequence[RanKernel], spent_ns: Sequence[float]) -> list[RanKernel]:
    """Return kernels with their shares of the time of all. Raise :class:`NoShares` if none takes any time."""
    total = sum(spent_ns)
    if total <= 0:
        raise NoShares("its kernels take no time that can be measured")
    return [dataclasses.replace(each, share=ns / total) for each, ns in zip(ran, spent_ns, strict=True)]


def drawn_out(kernels_ns: float, in_row_ns: float, call_ns: float) -> float:
    """Return how many times as long kernels take in a row as in the call that was timed, at least 1.

    More where they overlap in the call, or where one that notices the cut takes its time.
    """
    return kernels_ns / max(LEAST_NS, kernels_ns - max(0.0, in_row_ns - call_ns))
