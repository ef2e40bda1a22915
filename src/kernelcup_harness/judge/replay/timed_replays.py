"""Times of replays: single ones from the start gun, series by the timer's host clock, and two sides in turns."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from kernelcup_harness.judge.answers import Answer
from kernelcup_harness.judge.checks import Wrong
from kernelcup_harness.judge.replay.replays import Case, Replays
from kernelcup_harness.judge.replay.timer_line import TimerFailed, times_of
from kernelcup_harness.judge.schedule import PLACES, CaseRun
from kernelcup_harness.protocol import Audit, Finding, SampleName, TrustLevel, estimates
from kernelcup_harness.window.messages import (
    Check,
    Checked,
    FireEmpty,
    FireSeries,
    FireTurns,
    SeriesFired,
    TurnsFired,
)

FIRST_SERIES = 5 << 20
"""Input numbers from here on are reserved for series."""
SERIES_PASSES = (2, 10)
"""Calls of a short and of a long series at each place."""
SERIES_REPEATS = 3
SERIES_SHARE, SERIES_NS = 1.15, 3_000.0
"""How far the host's time of back-to-back calls may exceed the start gun's. For 14 kinds of calls on an H100 it was by
at most 7 %, or by 2.1 us if a launch takes the host longer than the call takes the device."""
EMPTIES = 3
"""Empty graphs that are timed beside each call: their mean is subtracted from every score of the case."""
LEAST_NS = 100.0
"""Shorter times cannot be distinguished from zero: the scatter of the clock itself."""


class TimedReplays(Replays):
    """Times the replays of one side; each answer that counts is checked."""

    def sample(self, run: CaseRun, sample: SampleName) -> Answer:
        """Time one call on an input. Raise ``Wrong``, or :class:`TimerFailed`."""
        case = self._cases[run.case.index]
        at = self._chance.randrange(case.layout.places)
        # The clock's own share is measured in the same state, before or after the call.
        before = self._chance.random() < 0.5
        if before:
            case.empty_ns += self.empties(EMPTIES)
        answer, data, _ = self._replayed(case, at, sample)
        if not before:
            case.empty_ns += self.empties(EMPTIES)
        fault = self._checks.fault(case.place, sample, data, answer)
        if fault is not None:
            raise Wrong(sample, fault)
        return answer

    def finish(self, run: CaseRun) -> Audit:
        """Return the audit with the ranked time of a sampled case. Raise ``Wrong`` or :class:`TimerFailed`."""
        case = self._cases[run.case.index]
        run.offset_ns = estimates.robust(case.empty_ns)
        found = run.timing()
        assert found is not None
        case.series_ns = self._series_ns(case)
        self._asked(Check(), Checked)
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
                calls = [case.first + at for at in order]
                request = FireSeries(capture=case.source.loads[0], places=calls)
                walls += times_of([self._asked(request, SeriesFired).ns])
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

    def places_of(self, run: CaseRun) -> int:
        """Return the number of places of a case."""
        return self._cases[run.case.index].layout.places

    def calls_of(self, run: CaseRun) -> list[list[int]]:
        """Return the timer's numbers of a case's calls: load and place."""
        case = self._cases[run.case.index]
        places = range(case.first, case.first + case.layout.places)
        return [[load, place] for place in places for load in case.source.loads]

    def checked_ns(self, run: CaseRun) -> float:
        """Return the median time of the checked calls, the clock's own share included."""
        return statistics.median(self._cases[run.case.index].fired_ns)

    def writes_inputs(self, run: CaseRun) -> bool:
        """Return whether calls of a case may write tensors of their input."""
        return self._cases[run.case.index].layout.writable_bytes > 0

    def empties(self, count: int) -> list[float]:
        """Return times of empty graphs: the clock's own share."""
        return self._fired(FireEmpty(repeat=count))

    def lay(self, run: CaseRun, samples: Sequence[SampleName], *, keep_inputs: bool = False) -> None:
        """Write an input to each place, unless ``keep_inputs``, and a pattern where each answer is due."""
        case = self._cases[run.case.index]
        for at, sample in enumerate(samples):
            self._laid(case, at, sample, keep_inputs=keep_inputs)

    def turns(
        self, left: list[list[int]], right: list[list[int]], first: int, count: int
    ) -> list[tuple[float, float]]:
        """Return the nanoseconds of two lists of calls in turns."""
        request = FireTurns(left=left, right=right, first=first, count=count)
        pairs = [times_of(each) for each in self._asked(request, TurnsFired).ns]
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


def longer_among_many(score_ns: float, series_ns: float) -> Finding | None:
    """Return a finding if back-to-back calls take longer by the host's clock than by the start gun."""
    if series_ns <= SERIES_SHARE * score_ns + SERIES_NS:
        return None
    text = (
        f"one after another its calls take {series_ns / 1e3:.2f} us each by the clock of the timer's host, "
        f"a single one {score_ns / 1e3:.2f} us"
    )
    return Finding(code="series_longer", text=text)
