"""A timed stage in the clean room, from the first capture to the last case: the order of steps, no measuring."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

from kernelcup_harness.clocks.replay.clean_room import CleanRoom
from kernelcup_harness.clocks.sampling import Doubt, TimedCase, turns
from kernelcup_harness.core.judge import Judge
from kernelcup_harness.core.plan import CaseCalls, PlannedCase, Stage
from kernelcup_harness.protocol import CaseResult, Timing
from kernelcup_harness.window.reasons import NotReplayed

Work = Callable[[], None]
OF_ALL = ("layout", "export", "rival", "duel", "shares")
"""Steps that are about all cases of a stage."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StageContext:
    """What a replayed stage needs beside its calls."""

    phase: Callable[[str], AbstractContextManager[None]]
    """Counts the seconds of a context towards a phase."""
    dismiss: Callable[[Stage], None]
    """Has all contestants ended that are not needed after a stage, but for the rival; returns when they are gone."""
    doubt: Doubt
    chance: random.Random
    with_rival: Work = lambda: None
    """Does the work that needs the rival's process, and has it ended; nothing of the submission's runs any more."""
    when_timed: Work = lambda: None
    """Does the work that follows when all cases are timed."""
    at_last: Callable[[Sequence[TimedCase]], None] = lambda _cases: None
    """Does the work after which the timer may be unusable."""
    when_failed: Callable[[CaseResult], None] = lambda _failed: None
    """Takes the result of a case that has failed, before it is yielded."""


def results(
    room: CleanRoom, stage: Stage, cases: Sequence[TimedCase], judge: Judge, around: StageContext
) -> Generator[CaseResult, None, NotReplayed | None]:
    """Yield the results of a stage; return why its calls have to be made instead, None if they were replayed."""

    def attempt(name: str, case: CaseCalls | None, work: Work) -> CaseResult | None:
        def counted() -> None:
            with around.phase(f"replay/{name}"):
                work()

        failed = judge.attempt(stage, case, counted)
        if failed is not None:
            around.when_failed(failed)
        return failed

    room.alone = False
    for case, name, work in going_on(preparing(room, stage, cases)):
        try:
            failed = attempt(name, case, work)
        except NotReplayed as reason:
            # What was found in a hidden case could say what it is.
            return NotReplayed(reason.reason) if case.case.hidden else reason
        if failed is not None:
            yield failed
            if ends(stage, name):
                return None
    cases = [case for case in cases if not case.has_failed]
    attempt("dismiss", None, partial(around.dismiss, stage))
    room.alone = True
    yield from timed_results(room, stage, cases, judge, around, attempt)
    return None


def timed_results(
    room: CleanRoom,
    stage: Stage,
    cases: Sequence[TimedCase],
    judge: Judge,
    around: StageContext,
    attempt: Callable[[str, CaseCalls | None, Work], CaseResult | None],
) -> Iterator[CaseResult]:
    """Yield the results of cases whose calls were captured."""
    timed: list[tuple[PlannedCase, Timing]] = []
    for case, name, work in going_on(timing(room, cases, judge, around, timed)):
        failed = attempt(name, case, work)
        if failed is not None:
            yield failed
            if ends(stage, name):
                return
        elif name == "samples":
            judge.progress(stage, case)
    cases = [case for case in cases if not case.has_failed]
    beside = around.doubt.beside(stage, timed)
    yield from [
        judge.accepted(case, found, more) for case, (_, found), more in zip(cases, timed, beside, strict=True)
    ]


def going_on(steps: Iterator[tuple[TimedCase, str, Work]]) -> Iterator[tuple[TimedCase, str, Work]]:
    """Yield the steps that are about all cases, and those of cases that have not failed."""
    return ((case, name, work) for case, name, work in steps if not case.has_failed or name in OF_ALL)


def ends(stage: Stage, name: str) -> bool:
    """Return whether no step follows after one that failed."""
    return not stage.partial or name in OF_ALL


def preparing(
    room: CleanRoom, stage: Stage, cases: Sequence[TimedCase]
) -> Generator[tuple[TimedCase, str, Work]]:
    """Yield the steps that need the contestants: case, name, work."""
    if not cases:
        return
    yield cases[0], "layout", partial(room.lay_out, stage)
    for case in cases:
        yield case, "capture", partial(room.capture, case)
    yield cases[0], "export", partial(room.load, cases[0])
    for case in cases:
        yield case, "verify", partial(charged, case, partial(room.verify, case))


def timing(
    room: CleanRoom,
    cases: Sequence[TimedCase],
    judge: Judge,
    around: StageContext,
    timed: list[tuple[PlannedCase, Timing]],
) -> Generator[tuple[TimedCase, str, Work]]:
    """Yield the steps that need the timer: case, name, work. Times go to ``timed``."""
    if cases:
        yield cases[0], "rival", around.with_rival
    for case in turns(cases, around.chance):
        yield case, "samples", partial(one, room, case, around.doubt)
    for case in cases:
        yield case, "series", partial(finished, room, case, judge, around.doubt, timed)
    if cases:
        yield cases[0], "duel", around.when_timed
        yield cases[0], "shares", partial(around.at_last, cases)


def charged(case: TimedCase, work: Work) -> None:
    """Do some work at the expense of a case's budget."""
    began = time.monotonic()
    work()
    case.budget.charge(time.monotonic() - began)


def one(room: CleanRoom, case: TimedCase, doubt: Doubt) -> None:
    """Make the next call of a case, or have the next few watched."""
    began = time.monotonic()
    case.is_watched = room.watches(case)
    if case.watch_is_due:
        times_ns = room.watch(case)
        _, slowed_down = doubt.look()
        case.add_watched(times_ns, time.monotonic() - began, slowed_down=slowed_down)
        return
    sample, counts = case.next_sample()
    answer = room.sample(case, case.use(sample, partial(room.twins, case)))
    clock, slowed_down = doubt.look() if counts else (None, False)
    case.add(
        answer,
        counts=counts,
        spent_s=time.monotonic() - began,
        clock_mhz=clock,
        slowed_down=slowed_down,
    )


def finished(
    room: CleanRoom,
    case: TimedCase,
    judge: Judge,
    doubt: Doubt,
    timed: list[tuple[PlannedCase, Timing]],
) -> None:
    """Have the time of a case doubted that has enough samples."""
    ranked = case.timing(room.finish(case), offset_ns=room.offset_ns)
    assert ranked is not None
    timed.append((case.case, judge.doubted(ranked, doubt.findings(case.case, ranked))))
