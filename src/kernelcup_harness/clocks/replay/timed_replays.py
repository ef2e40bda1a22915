"""Times of replays: by the witness, by the start gun, and series by the timer's host clock.

Where there is a witness its times rank, and the start gun's only check them: device code can reach what the gun
measures with, and cannot reach the hardware's counters.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kernelcup_harness.clocks import trace
from kernelcup_harness.clocks.replay.replays import Case, Replays, restore
from kernelcup_harness.clocks.replay.timer_line import TimerFailed
from kernelcup_harness.clocks.replay.witnessed import TRIES, Round, WitnessFailed
from kernelcup_harness.clocks.samples import is_steady, longer_among_many
from kernelcup_harness.clocks.sampling import CHECKING_SAMPLES, TimedCase
from kernelcup_harness.core.answer import Answer, Forged, GuardBroken
from kernelcup_harness.core.call import PLACES
from kernelcup_harness.core.check import Wrong
from kernelcup_harness.core.plan import CaseCalls
from kernelcup_harness.protocol import Audit, Finding, SampleName, TrustLevel, estimates
from kernelcup_harness.protocol.results import trimmed_mean
from kernelcup_harness.window.messages import (
    Check,
    Checked,
    FireEmpty,
    Launch,
    Launched,
)
from kernelcup_harness.window.reasons import NotReplayed, WhyNot
from kernelcup_harness.wire import guards

FIRST_SERIES = 5 << 20
"""Input numbers from here on are reserved for series."""
SERIES_PASSES = (2, 10)
"""Calls of a short and of a long series at each place."""
SERIES_REPEATS = 3
PATIENCE_S = 60.0
"""Time for requests before the first stage begins."""
EMPTIES = 48
"""Empty graphs that are timed before anything is loaded: their mean is subtracted from every time of the gun."""
LEAST_OFFSET_NS, MOST_OFFSET_NS = 500.0, 30_000.0
"""An empty graph takes 3.2 to 3.7 us on an H200."""
LATE_INPUTS = 1 << 17
"""A call of a duel that was not ready in time is made again with an input that is so much further."""
MOST_LATE = 3
"""Calls of a case that may not be ready in time."""
STAGED_SHARE = 0.05
"""Share of the device's memory for the inputs of one watch, which are made before it."""
MOST_ROUNDS = 8
"""Calls in one watch."""
WATCH_NS, ROUND_NS = 12e6, 1.2e6
"""Time that the witness can see at once, and what a round takes beside the call."""
LONGEST_WATCHED_NS = 10e6
LATEST = 8
"""The calls by whose times it is decided whether the witness can watch them."""
LARGEST_WATCHED = 9 << 28
"""Bytes of input and answer; what the judge does beside a call has to fit into a watch as well. The public vector
addition has 2 GiB where the answer is a new tensor."""
WALL_SLACK_NS = 150_000.0
"""How far the judge's own time of a long call may exceed the gun's, an empty graph's subtracted from both."""
NO_SERIES = Finding(
    code="no_series", text="its calls one after another were not timed: the case's budget was used up"
)
LEAST_NS = 100.0
"""Shorter times cannot be distinguished from zero: the scatter of the clock itself."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What was copied after a watched call."""

    sample: SampleName
    data: Any
    at: int
    copies: dict[tuple[int, int], torch.Tensor]
    """Memory of the answer and of the bands, by address and size."""
    pattern: torch.Tensor


class TimedReplays(Replays):
    """Times the replays of one side; each answer that counts is checked."""

    def measure_offset(self) -> None:
        """Measure what the clock itself takes. No code of a submission is loaded yet, so none can change it.

        Raise ``NotReplayed`` if the clock does not work.
        """
        empties_ns, walls = [], []
        for _ in range(EMPTIES):
            began = time.perf_counter_ns()
            try:
                empties_ns += self._fired(FireEmpty(repeat=1), timeout_s=PATIENCE_S)
            except TimerFailed as failed:
                raise NotReplayed(WhyNot.NO_TIMER, str(failed)) from failed
            walls.append(float(time.perf_counter_ns() - began))
        self.offset_ns, self._wall_offset_ns = trimmed_mean(empties_ns), statistics.median(walls)
        if not LEAST_OFFSET_NS <= self.offset_ns <= MOST_OFFSET_NS:
            raise NotReplayed(WhyNot.NO_TIMER, f"an empty graph takes {self.offset_ns:.0f} ns")

    def sample(self, run: TimedCase, sample: SampleName) -> Answer:
        """Time one call on an input. Raise ``Wrong``, or :class:`TimerFailed`.

        A call that was not ready in time is made again with another input; its answer is checked as well.
        """
        case = self._cases[run.case.index]
        while True:
            at = self._chance.randrange(case.layout.places)
            answer = self._checked_replay(case, at, sample)
            if not math.isnan(answer.ns):
                return answer
            case.late += 1
            if case.late >= MOST_LATE:
                raise TimerFailed(f"{case.late} calls of one case were not ready in time")
            sample = run.current = run.fresh()

    def _checked_replay(self, case: Case, at: int, sample: SampleName, load: int = 0) -> Answer:
        """Return a right answer, whose time is not a number if the call was not ready in time. Raise ``Wrong``."""
        answer, data, _ = self._replayed(case, at, sample, load=load)
        fault = self._checks.fault(case.place, sample, data, answer)
        if fault is not None:
            raise Wrong(sample, fault)
        return answer

    def watches(self, run: CaseCalls) -> bool:
        """Return whether the witness can watch calls of a case: long ones do not fit into its memory."""
        case = self._cases[run.case.index]
        if self._witness is None or case.is_unseen or not case.fired_ns:
            return False
        return not self.is_out_of_sight(run)

    def is_out_of_sight(self, run: CaseCalls) -> bool:
        """Return whether calls of a case are too long or too large for a watch."""
        case = self._cases[run.case.index]
        # The last ones: a submission may make its first calls as slow as it likes.
        is_long = statistics.median(case.fired_ns[-LATEST:]) > LONGEST_WATCHED_NS
        return is_long or is_large(case)

    def rounds(self, run: CaseCalls) -> int:
        """Return how many calls of a case fit into one watch, with their inputs."""
        case = self._cases[run.case.index]
        staged = int(STAGED_SHARE * self._mapping.total_bytes() // max(1, case.layout.place_bytes))
        most = min(staged, int(WATCH_NS // (ROUND_NS + statistics.median(case.fired_ns))))
        return max(1, min(MOST_ROUNDS, most))

    def watch(self, run: TimedCase) -> list[float]:
        """Have a few calls watched, each on a new input; return their nanoseconds.

        Returns an empty list if the watch was unreadable; after three in a row no more are tried. Raise ``Wrong``, or
        :class:`TimerFailed`.
        """
        assert self._witness is not None
        case = self._cases[run.case.index]
        taken: list[Taken] = []
        places = [self._chance.randrange(case.layout.places) for _ in range(self.rounds(run))]
        rounds = [self.round_of(run, at, run.fresh(), taken) for at in places]

        def check() -> None:
            for each in taken:
                self.check_taken(run, each)

        try:
            times_ns = self._witness.watch(rounds, check)
        except trace.NothingSeen:
            case.is_unseen = True
            return []
        except WitnessFailed:
            # The start gun times it then, and a person looks at it.
            case.is_unseen, case.unreadable = True, TRIES
            return []
        case.unreadable += not times_ns
        for at, ns in zip(places, times_ns, strict=False):
            case.watched_at.setdefault(at, []).append(ns)
        return times_ns

    def check_taken(self, run: CaseCalls, taken: Taken) -> None:
        """Check what was copied after a watched call. Raise ``Wrong`` or ``BrokenProtocol``."""
        case = self._cases[run.case.index]
        run.current = taken.sample
        run.count += 1
        if not all(guards.holds(taken.copies[band], taken.pattern) for band in case.layout.bands(taken.at)):
            raise GuardBroken("memory beside an output was written")
        answer = self._read(case, taken.at, view=lambda address, nbytes: taken.copies[address, nbytes])
        fault = self._checks.fault(case.place, taken.sample, taken.data, answer)
        if fault is not None:
            raise Wrong(taken.sample, fault)

    def round_of(
        self, run: CaseCalls, at: int, sample: SampleName, taken: list[Taken], load: int = 0
    ) -> Round:
        """Return the parts of a watched call; what they took is added to ``taken``.

        ``load`` says which of the loads of its capture is used.

        The witness reads each microsecond of a watch slowly, so all that can be is prepared before.
        """
        assert self._witness is not None
        witness, view, case = self._witness, self._mapping.view, self._cases[run.case.index]
        data, pattern = self._checks.make_input(case.place, sample), self._pattern(case)
        inputs = self._copies(case, data, at)
        due = [view(*each) for each in [*case.layout.bands(at), *case.due(at)]]
        described = case.answers[at]
        parts = [
            (address, entry["nbytes"])
            for address, entry in zip(described.addresses, described.table, strict=True)
            if entry["nbytes"]
        ]
        places = {part: view(*part) for part in [*parts, *case.layout.bands(at)]}
        self._mapping.settle()

        def before() -> None:
            restore(case.source.memory)
            for target, source in inputs:
                target.copy_(source)
            for each in due:
                guards.repeat(each, pattern)
            witness.sweep()
            self._mapping.settle()

        def call() -> None:
            request = Launch(capture=case.source.loads[load], places=[case.first + at])
            self._asked(request, Launched, timeout_s=self._remaining(self._checks.form(case.place)))

        def after() -> None:
            copies = {part: place.clone() for part, place in places.items()}
            self._mapping.settle()
            taken.append(Taken(sample, data, at, copies, pattern))

        return Round(
            nodes=case.source.nodes[case.first],
            before=before,
            call=call,
            after=after,
        )

    def finish(self, run: TimedCase) -> Audit:
        """Return the audit with the ranked time of a sampled case.

        Raise ``Wrong``, ``Forged`` or :class:`TimerFailed`.
        """
        case = self._cases[run.case.index]
        times_ns = run.samples.gun_ns(self.offset_ns)
        gun_ns = max(LEAST_NS, trimmed_mean(times_ns))
        self._asked(Check(), Checked)
        score_ns, level, longer = gun_ns, TrustLevel.WITNESSED, None
        watched_ns = run.samples.watched_ns
        findings = doubts(case, times_ns) if self._witness is not None else []
        if watched_ns and (text := difference(watched_ns, times_ns)):
            if statistics.median(times_ns) < statistics.median(watched_ns):
                raise Forged(text)
            level, longer = TrustLevel.REPLAYED, Finding(code="witness_shorter", text=text, quarantines=True)
        elif watched_ns:
            score_ns = trimmed_mean(watched_ns)
        elif self._witness is not None and gun_ns > LONGEST_WATCHED_NS:
            score_ns = self._not_below_wall(gun_ns, statistics.median(case.wall_ns))
        else:
            level = TrustLevel.REPLAYED
            series_ns = self._series_ns(case, run)
            longer = NO_SERIES if series_ns is None else longer_among_many(gun_ns, series_ns)
        return Audit(
            captured=True,
            score_ns=max(LEAST_NS, score_ns),
            level=level,
            findings=[*findings, *([longer] if longer is not None else [])],
        )

    def _not_below_wall(self, gun_ns: float, wall_ns: float) -> float:
        """Return the time of a long call: a wall clock is good enough, and device code cannot reach the judge's."""
        if gun_ns <= LONGEST_WATCHED_NS:
            return gun_ns
        return max(gun_ns, wall_ns - self._wall_offset_ns - WALL_SLACK_NS)

    def _series_ns(self, case: Case, run: TimedCase) -> float | None:
        """Return the time of a call in a series; the order of places changes each time.

        A series ends when the judge has its copy of the last answer, by the judge's clock. As many series are made as
        the case's budget has time for; None if that is none.
        """
        places, slopes, kept = case.layout.places, [], not case.layout.writable_bytes
        # Each lays its inputs once, twice where calls write them, and makes one again for the check.
        repeat_s = run.budget.call_s * (places * (1 if kept else len(SERIES_PASSES)) + 1)
        repeat_s += places * sum(SERIES_PASSES) * statistics.median(case.fired_ns) / 1e9
        for number in range(min(SERIES_REPEATS, int(run.budget.left_s / max(repeat_s, 1e-9)))):
            samples = [SampleName(input=FIRST_SERIES + number * PLACES + at) for at in range(places)]
            walls, inputs = [], list[Any]()
            for passes in SERIES_PASSES:
                if inputs and kept:
                    for at in range(places):
                        self._spread(case, at, self._pattern(case))
                    self._mapping.settle()
                else:
                    inputs = [self._laid(case, at, sample)[0] for at, sample in enumerate(samples)]
                order = [each for _ in range(passes) for each in self._chance.sample(range(places), places)]
                request = Launch(capture=case.source.loads[0], places=[case.first + at for at in order])
                timeout_s = self._remaining(self._checks.form(case.place), calls=len(order))
                began = time.perf_counter_ns()
                self._asked(request, Launched, timeout_s=timeout_s)
                answer = self._read(case, order[-1])
                self._mapping.settle()
                walls.append(time.perf_counter_ns() - began)
            slopes.append((walls[1] - walls[0]) / (places * (SERIES_PASSES[1] - SERIES_PASSES[0])))
            # If calls share an output, only the last answer is right. Cases whose calls write inputs are not checked.
            if kept:
                fault = self._checks.fault(case.place, samples[order[-1]], inputs[order[-1]], answer)
                if fault is not None:
                    raise Wrong(samples[order[-1]], fault)
        return min(slopes, default=None)

    def places_of(self, run: CaseCalls) -> int:
        """Return the number of places of a case."""
        return self._cases[run.case.index].layout.places

    def turn(self, run: CaseCalls, sample: SampleName, *, load: int, at: int) -> float:
        """Return the nanoseconds of one call of a duel by the start gun. Its answer is checked.

        Args:
            run: The case.
            sample: An input that this side has not seen.
            load: Which of the loads of its capture is used.
            at: The place.

        Raise ``Wrong``, ``CallFailed`` or ``BrokenProtocol`` for a call, :class:`TimerFailed` for a timer that fails.
        """
        case = self._cases[run.case.index]
        for _ in range(MOST_LATE):
            answer = self._checked_replay(case, at, sample, load)
            if not math.isnan(answer.ns):
                return self._not_below_wall(answer.ns - self.offset_ns, answer.wall_ns)
            sample = SampleName(input=sample.input + LATE_INPUTS)
        raise TimerFailed("calls of a duel were not ready in time")


LOWER_NS, LOWER_SHARE = 1_000.0, 0.05
HIGHER_NS, HIGHER_SHARE = 1_500.0, 0.05
"""How far the gun's time may lie below and above the witness's. Of honest calls on H100s it was 0.8 us below, with many
waves of blocks, to 2.7 us above: it also counts what is still written when the last multiprocessor is done."""
ERRORS, MOST_SHARE, MOST_NS = 3.0, 0.02, 300.0
"""Standard errors that are added to both, and how much at most: scatter is not tolerance."""
PLACES_SHARE, PLACES_NS, FEWEST_AT_PLACE = 0.1, 1_500.0, 3
"""How far the medians of two places may lie apart, and how many times have to be known of each."""


def difference(watched_ns: Sequence[float], gun_ns: Sequence[float]) -> str:
    """Return in words how witness and gun disagree, empty if they agree."""
    witness, gun = statistics.median(watched_ns), statistics.median(gun_ns)
    scatter = ERRORS * math.hypot(
        *(estimates.standard_error(each) for each in (watched_ns, gun_ns) if len(each) > 1)
    )
    scatter = min(scatter, MOST_SHARE * witness + MOST_NS)
    lower = witness - LOWER_NS - LOWER_SHARE * witness - scatter
    higher = witness + HIGHER_NS + HIGHER_SHARE * witness + scatter
    if lower <= gun <= higher:
        return ""
    return f"by the hardware's counters a call takes {witness / 1e3:.2f} us, by the clock {gun / 1e3:.2f} us"


def places_differ(times_ns: Mapping[int, Sequence[float]]) -> str:
    """Return in words how calls at one place take longer than at another, empty if they do not."""
    medians = sorted(statistics.median(each) for each in times_ns.values() if len(each) >= FEWEST_AT_PLACE)
    if not medians or medians[-1] <= (1 + PLACES_SHARE) * medians[0] + PLACES_NS:
        return ""
    return f"at one place a call takes {medians[-1] / 1e3:.2f} us, at another {medians[0] / 1e3:.2f} us"


def is_large(case: Case) -> bool:
    """Return whether the judge's work beside a call does not fit into a watch: a given output counts once."""
    return case.layout.place_bytes + sum(nbytes for _, nbytes in case.due(0)) > LARGEST_WATCHED


def doubts(case: Case, times_ns: Sequence[float]) -> list[Finding]:
    """Return what a person has to look at where there is a witness. ``times_ns`` are those by the start gun."""
    found = {}
    if is_large(case):
        found["too_large"] = "input and answer are too large for the witness's watches"
    elif not case.watched_at and statistics.median(times_ns) <= LONGEST_WATCHED_NS:
        found["not_witnessed"] = "the hardware's counters showed nothing of its calls"
    if case.unreadable > 1:
        found["unreadable"] = f"{case.unreadable} watches of its calls could not be read"
    if case.watched_at and len(times_ns) >= CHECKING_SAMPLES and not is_steady(times_ns):
        found["unsteady"] = "its times by the clock scatter so far that they do not check the witness's"
    if text := places_differ(case.fired_at) or places_differ(case.watched_at):
        found["places_differ"] = text
    return [Finding(code=code, text=text, quarantines=True) for code, text in found.items()]
