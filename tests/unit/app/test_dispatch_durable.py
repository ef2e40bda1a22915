"""Calls that outlive their dispatcher."""

from __future__ import annotations

import threading

import pytest

from builders import make_board, make_device, make_submission
from fake_fleet import FakeEngine, FakeFleet, dispatcher_of, look
from kernelcup.app.people.user_names import actor_of
from kernelcup.app.queue import lifecycle
from kernelcup.app.queue.dispatcher import Dispatcher
from kernelcup.app.queue.progress import JobFinished, JobRetried
from kernelcup.app.submissions.submissions import show_submission
from kernelcup.app.submissions.withdrawal import cancel_submission
from kernelcup.domain import JobState
from launcher_conformance import report_for

DEVICE = make_device(slots=4)


class Stage:
    """A leaderboard, an engine, and dispatchers that come and go."""

    def __init__(self, db, clock) -> None:
        self.db, self.clock = db, clock
        self.engine = FakeEngine()
        self.progress: list[object] = []
        make_board(db, devices=["H100"])
        self.submission = make_submission(db, devices=["H100"])

    def dispatcher(self, owner: str) -> Dispatcher:
        launcher = FakeFleet(self.engine)
        return dispatcher_of(
            self.db, self.clock, launcher, DEVICE, on_progress=self.progress.append, owner=owner
        )

    def finish(self, call: str) -> None:
        self.engine.report(call, report_for(self.engine.calls[call].order))

    @property
    def view(self):
        return show_submission(self.db, self.submission.id).jobs[0]


@pytest.fixture
def stage(db, clock) -> Stage:
    return Stage(db, clock)


def test_a_restarted_dispatcher_goes_on_with_its_calls(stage: Stage) -> None:
    look(stage.dispatcher("first"))
    (call,) = stage.engine.calls
    stage.clock.advance(61)  # the first one was killed
    second = stage.dispatcher("second")
    look(second)
    assert list(stage.engine.calls) == [call]
    stage.finish(call)
    look(second)
    assert (stage.view.counted.attempt, stage.view.counted.machine) == (1, "m1")
    assert stage.engine.calls == {}


def test_a_stopped_dispatcher_leaves_its_calls_to_the_next(stage: Stage) -> None:
    first = stage.dispatcher("first")
    look(first)
    first._shut_down()
    (call,) = stage.engine.calls
    assert stage.view.state is JobState.RUNNING
    stage.clock.advance(61)
    second = stage.dispatcher("second")
    look(second)
    stage.finish(call)
    look(second)
    assert stage.view.counted.attempt == 1


def test_a_dispatcher_that_wakes_up_late_does_not_end_the_adopted_call(stage: Stage) -> None:
    first, second = stage.dispatcher("first"), stage.dispatcher("second")
    look(first)
    (call,) = stage.engine.calls
    stage.clock.advance(61)
    look(second)
    look(first)
    assert list(stage.engine.calls) == [call]
    stage.finish(call)
    look(second)
    assert [type(each) for each in stage.progress].count(JobFinished) == 1


def test_a_call_that_nobody_adopts_is_lost_after_a_while(stage: Stage) -> None:
    look(stage.dispatcher("first"))
    stage.clock.advance(61)
    assert lifecycle.reclaim(stage.db, now=stage.clock()) == []
    stage.clock.advance(lifecycle.ADOPT_WITHIN.total_seconds())
    assert len(lifecycle.reclaim(stage.db, now=stage.clock())) == 1
    assert (stage.view.state, stage.view.attempt) == (JobState.QUEUED, 2)


def test_the_job_of_a_lost_machine_runs_again_elsewhere(stage: Stage) -> None:
    dispatcher = stage.dispatcher("box")
    look(dispatcher)
    (call,) = stage.engine.calls
    stage.engine.lose(call)
    look(dispatcher)
    (again,) = stage.engine.calls
    assert stage.engine.calls[again].machine == "m2"
    stage.finish(again)
    look(dispatcher)
    assert stage.view.counted.attempt == 2
    assert [each.reason for each in stage.progress if isinstance(each, JobRetried)] == [
        "LaunchLost: machine m1 was lost"
    ]


def test_a_cancelled_job_ends_its_call(stage: Stage) -> None:
    dispatcher = stage.dispatcher("box")
    look(dispatcher)
    cancel_submission(stage.db, stage.submission.id, by=actor_of(stage.db, "ada"), now=stage.clock())
    look(dispatcher)
    assert stage.engine.calls == {}


def test_an_engine_that_does_not_answer_costs_no_attempt(stage: Stage, caplog) -> None:
    dispatcher = stage.dispatcher("box")
    look(dispatcher)
    (call,) = stage.engine.calls
    stage.engine.down = True
    for _ in range(3):
        dispatcher._poll(every=True)
    assert caplog.text.count("the engine does not answer") == 1
    stage.engine.down = False
    stage.finish(call)
    look(dispatcher)
    assert stage.view.counted.attempt == 1


def test_many_calls_hold_no_thread(db, clock) -> None:
    make_board(db, devices=["H100"])
    for user in range(20):
        make_submission(db, devices=["H100"], user=f"user{user}")
    engine = FakeEngine({"big": 20})
    dispatcher = dispatcher_of(db, clock, FakeFleet(engine), make_device(slots=20))
    before = threading.active_count()
    look(dispatcher)
    assert len(engine.calls) == 20
    assert threading.active_count() == before
