"""A timed stage in the clean room, from the first capture to the last case: the order of steps, no measuring."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from kernelcup_harness.judge.answers import Answer
from kernelcup_harness.judge.schedule import CaseRun, Stage
from kernelcup_harness.judge.turns import turns
from kernelcup_harness.protocol import Audit, CaseResult, SampleName
from kernelcup_harness.window.reasons import NotReplayed

Work = Callable[[], None]


class Room(Protocol):
    """Replays calls: see :class:`kernelcup_harness.judge.replay.clean_room.CleanRoom`."""

    def lay_out(self, stage: Stage) -> None:
        """Make room for the inputs of all cases."""

    def capture(self, run: CaseRun) -> None:
        """Have the calls of a case captured."""

    def load(self, run: CaseRun) -> None:
        """Hand over the captured calls of a case's contestant to the timer."""

    def verify(self, run: CaseRun) -> None:
        """Replay each place of a case once."""

    def contestant_is_gone(self) -> None:
        """Note that no more calls can be made."""

    def has_twins(self, run: CaseRun) -> bool:
        """Return whether near-twins are inputs of the task."""

    def watches(self, run: CaseRun) -> bool:
        """Return whether the witness can watch calls of a case."""

    def watch(self, run: CaseRun) -> list[float]:
        """Have a few calls watched; return their nanoseconds."""

    def sample(self, run: CaseRun, sample: SampleName) -> Answer:
        """Time one call."""

    def finish(self, run: CaseRun) -> Audit:
        """Return the audit with the ranked time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Judging:
    """The judge's functions for a stage."""

    attempt: Callable[[Stage, CaseRun | None, Work], CaseResult | None]
    """Does some work, and returns the case's result if it fails."""
    accepted: Callable[[CaseRun], CaseResult]
    progress: Callable[[Stage, CaseRun], None]
    dismiss: Callable[[], None]
    """Has all contestants ended; returns when they are gone."""
    look: Callable[[], tuple[float | None, bool]]
    """Returns the device's clock in MHz, and whether it is slowed down."""
    note: Callable[[CaseRun, Audit], None]
    """Notes the time of a case."""
    finish: Callable[[Stage, Sequence[CaseRun]], None]
    """Reports the state of the device when all cases are timed."""
    before_dismiss: Callable[[Stage, Sequence[CaseRun]], None] = lambda _stage, _runs: None
    """Does the work that needs contestants, once the submission's calls replay correctly."""
    when_timed: Callable[[Sequence[CaseRun]], None] = lambda _runs: None
    """Does the work that follows when all cases are timed."""


@dataclass(slots=True)
class Steps:
    """Seconds by step."""

    phases: dict[str, float] = field(default_factory=dict)

    def timed(self, name: str, work: Work) -> Work:
        """Return the work, wrapped so that its seconds are counted."""

        def call() -> None:
            began = time.monotonic()
            try:
                work()
            finally:
                self.phases[name] = self.phases.get(name, 0.0) + time.monotonic() - began

        return call


def results(
    room: Room, stage: Stage, runs: Sequence[CaseRun], judging: Judging, chance: random.Random, steps: Steps
) -> Generator[CaseResult, None, NotReplayed | None]:
    """Yield the results of a stage; return why its calls have to be made instead, None if they were replayed."""
    for run, name, work in preparing(room, stage, runs):
        try:
            failed = judging.attempt(stage, run, steps.timed(name, work))
        except NotReplayed as reason:
            # What was found in a hidden case could say what it is.
            return NotReplayed(reason.reason) if run.case.hidden else reason
        if failed is not None:
            yield failed
            return None
    before = partial(judging.before_dismiss, stage, runs)
    failed = judging.attempt(stage, runs[0] if runs else None, steps.timed("rival", before))
    if failed is not None:
        yield failed
        return None
    judging.attempt(stage, None, steps.timed("dismiss", judging.dismiss))
    room.contestant_is_gone()
    for run in turns(runs, shuffled=True, chance=chance):
        work = partial(one, room, run, judging)
        failed = judging.attempt(stage, run, steps.timed("samples", work))
        if failed is not None:
            yield failed
            return None
        judging.progress(stage, run)
    for run in runs:
        work = partial(finished, room, run, judging)
        failed = judging.attempt(stage, run, steps.timed("series", work))
        if failed is not None:
            yield failed
            return None
    timed = partial(judging.when_timed, runs)
    failed = judging.attempt(stage, runs[0] if runs else None, steps.timed("duel", timed))
    if failed is not None:
        yield failed
        return None
    judging.finish(stage, runs)
    yield from [judging.accepted(run) for run in runs]
    return None


def preparing(room: Room, stage: Stage, runs: Sequence[CaseRun]) -> Generator[tuple[CaseRun, str, Work]]:
    """Yield the steps that need the contestants: case, name, work. All those of public cases come first."""
    if not runs:
        return
    yield runs[0], "layout", partial(room.lay_out, stage)
    for hidden in (False, True):
        group = [run for run in runs if run.case.hidden is hidden]
        for run in group:
            yield run, "capture", partial(room.capture, run)
        for run in group[:1]:
            yield run, "export", partial(room.load, run)
        for run in group:
            yield run, "verify", partial(charged, run, partial(room.verify, run))


def charged(run: CaseRun, work: Work) -> None:
    """Do some work at the expense of a case's budget."""
    began = time.monotonic()
    work()
    run.budget.charge(time.monotonic() - began)


def one(room: Room, run: CaseRun, judging: Judging) -> None:
    """Make the next call of a case, or have the next few watched."""
    began = time.monotonic()
    run.is_watched = room.watches(run)
    if run.watch_is_due:
        times_ns = room.watch(run)
        _, slowed_down = judging.look()
        run.add_watched(times_ns, time.monotonic() - began, slowed_down=slowed_down)
        return
    sample, counts = run.next_sample()
    if sample.twin and not room.has_twins(run):
        run.twins_allowed, sample = False, SampleName(input=sample.input)
    run.current = sample
    answer = room.sample(run, sample)
    clock, slowed_down = judging.look() if counts else (None, False)
    run.add(
        answer,
        counts=counts,
        spent_s=time.monotonic() - began,
        clock_mhz=clock,
        slowed_down=slowed_down,
    )


def finished(room: Room, run: CaseRun, judging: Judging) -> None:
    """Note the time of a case that has enough samples."""
    judging.note(run, room.finish(run))
