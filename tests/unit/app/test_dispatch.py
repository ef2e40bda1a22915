from __future__ import annotations

import dataclasses
import errno
import logging
import os
import threading
from datetime import timedelta

import pytest
from sqlalchemy import select

from builders import jobs_of, make_board, make_device, make_report, make_submission
from fake_fleet import FakeEngine, FakeFleet, look
from fakes import FakeGpuLauncher, FakeLauncher, FakeSeconds
from kernelcup.app.machines import dispatchers
from kernelcup.app.machines import outages as fitness
from kernelcup.app.machines.outages import SHORTEST_PAUSE, outages, take_out
from kernelcup.app.people.user_names import actor_of
from kernelcup.app.queue import assignment, attempt, lifecycle
from kernelcup.app.queue import dispatcher as dispatch
from kernelcup.app.queue.dispatcher import Dispatcher
from kernelcup.app.queue.estimates import waiting_of
from kernelcup.app.queue.progress import (
    GpuBack,
    GpuOut,
    JobDropped,
    JobFinished,
    JobProgress,
    JobRetried,
    JobReturned,
    JobStarted,
    ProgressNotes,
)
from kernelcup.app.rules.queries import gpu_uses
from kernelcup.app.submissions import events
from kernelcup.app.submissions.queries import events as storage_events
from kernelcup.app.submissions.submissions import show_submission
from kernelcup.app.submissions.withdrawal import cancel_submission, delete_submission
from kernelcup.domain import JobState
from kernelcup.errors import (
    BadReport,
    ConfigError,
    LaunchCancelled,
    LaunchError,
    LaunchLost,
    StorageUnavailable,
    UnfitDevice,
)
from kernelcup.launchers.base import COMPILED, COMPILING
from kernelcup.launchers.bundle import harness_hash
from kernelcup.tables import JobRow
from kernelcup_harness.protocol import Backend, Finding, Mode, Reason, Verdict
from launcher_conformance import report_for

DEVICES = (make_device(slots=2), make_device(name="A100"))


class Stage:
    """A leaderboard on two devices, and dispatchers that tell what they do."""

    def __init__(self, db, clock) -> None:
        self.db, self.clock = db, clock
        self.progress: list[object] = []
        make_board(db, devices=["H100", "A100"])

    def submit(self, *devices: str, **overrides):
        return make_submission(self.db, devices=devices or ["H100"], **overrides)

    def dispatcher(self, launcher: FakeLauncher, **overrides) -> Dispatcher:
        options = {
            "devices": DEVICES,
            "on_progress": self.progress.append,
            "heartbeat_s": 0.0,
            "tick_s": 0.005,
            "clock": self.clock,
        }
        return Dispatcher(self.db, launchers={"fake": launcher}, **(options | overrides))

    def job(self, submission):
        return jobs_of(self.db, submission.id)[0]

    def run(self, submission):
        return self.views(submission)[0].counted

    def views(self, submission):
        return show_submission(self.db, submission.id).jobs

    def told(self, kind: type) -> list:
        return [item for item in self.progress if isinstance(item, kind)]


@pytest.fixture
def stage(db, clock) -> Stage:
    return Stage(db, clock)


def test_a_dispatcher_works_until_nothing_waits(stage) -> None:
    submissions = [stage.submit("H100", "A100", user=user) for user in ("ada", "bob", "cyn")]
    stage.dispatcher(FakeLauncher()).run_until_idle()
    for submission in submissions:
        assert [view.state for view in stage.views(submission)] == [JobState.DONE] * 2
        assert [view.counted.verdict for view in stage.views(submission)] == [Verdict.ACCEPTED] * 2


def test_a_run_keeps_what_the_launcher_says(stage) -> None:
    submission = stage.submit()
    stage.dispatcher(FakeLauncher()).run_until_idle()
    run = stage.run(submission)
    assert (run.machine, run.harness_hash, run.attempt) == ("fake", harness_hash(), 1)
    assert run.score_s == pytest.approx(1e-6)


def test_the_launcher_is_given_the_job_that_was_submitted(stage) -> None:
    submission = stage.submit(mode=Mode.BENCHMARK, content=b"custom_kernel = None\n")
    launcher = FakeLauncher()
    stage.dispatcher(launcher).run_until_idle()
    (spec,) = launcher.specs
    assert (spec.mode, spec.backend, spec.submission.code) == (
        Mode.BENCHMARK,
        Backend.CUDA,
        "custom_kernel = None\n",
    )
    assert spec.job_id == f"{stage.job(submission).id}.1"


def modes_as_begun(stage: Stage, profile_share: float) -> list[Mode]:
    """Work the queue off on one slot, and return the modes of the jobs in the order of their starts."""
    one = (make_device(),)
    stage.dispatcher(FakeLauncher(), devices=one, profile_share=profile_share).run_until_idle()
    return [each.job.mode for each in stage.progress if isinstance(each, JobStarted)]


def test_profiles_have_a_share_of_a_busy_queue(stage) -> None:
    for mode in [Mode.PROFILE] * 2 + [Mode.LEADERBOARD] * 9:
        stage.submit(mode=mode)
    begun = modes_as_begun(stage, profile_share=0.25)
    assert [number for number, mode in enumerate(begun) if mode is Mode.PROFILE] == [3, 7]


def test_without_a_share_profiles_wait_until_nothing_else_does(stage) -> None:
    for mode in [Mode.PROFILE] * 2 + [Mode.LEADERBOARD, Mode.TEST] * 4:
        stage.submit(mode=mode)
    assert modes_as_begun(stage, profile_share=0)[-2:] == [Mode.PROFILE] * 2


def test_a_share_that_no_profile_needed_is_not_saved_up(stage) -> None:
    for mode in [Mode.LEADERBOARD] * 6:
        stage.submit(mode=mode)
    dispatcher = stage.dispatcher(FakeLauncher(), devices=(make_device(),), profile_share=0.25)
    dispatcher.run_until_idle()
    stage.progress.clear()
    for mode in [Mode.PROFILE] * 3 + [Mode.LEADERBOARD] * 3:
        stage.submit(mode=mode)
    dispatcher.run_until_idle()
    begun = [each.job.mode for each in stage.progress if isinstance(each, JobStarted)]
    assert begun[:3] == [Mode.LEADERBOARD, Mode.PROFILE, Mode.LEADERBOARD]


def test_progress_is_told_in_order(stage) -> None:
    submission = stage.submit()
    stage.dispatcher(FakeLauncher()).run_until_idle()
    assert [type(item) for item in stage.progress] == [JobStarted, JobProgress, JobFinished]
    assert stage.progress[1].event == {"event": "stage", "name": "import"}
    assert {item.job.id for item in stage.progress} == {stage.job(submission).id}


def test_never_more_runs_at_once_than_slots(stage) -> None:
    for _ in range(6):
        stage.submit()
    launcher = FakeLauncher()
    stage.dispatcher(launcher).run_until_idle()
    assert launcher.most_at_once <= 2
    assert len(launcher.specs) == 6


def test_slots_are_used_at_the_same_time(stage) -> None:
    both = threading.Barrier(2)

    class Waiting(FakeLauncher):
        def run(self, spec, device, **options):
            both.wait(30)
            return super().run(spec, device, **options)

    submissions = [stage.submit(), stage.submit()]
    stage.dispatcher(Waiting()).run_until_idle()
    assert [stage.run(each).attempt for each in submissions] == [1, 1]


class Compiling(FakeLauncher):
    """Compiles its first job until another job has begun."""

    def __init__(self) -> None:
        super().__init__()
        self.other, self.began = threading.Event(), False

    def run(self, spec, device, *, on_event, cancelled):
        if self.began:
            self.other.set()
        self.began = True
        on_event({"event": COMPILING})
        assert self.other.wait(30)
        on_event({"event": COMPILED})
        return super().run(spec, device, on_event=on_event, cancelled=cancelled)


def test_a_job_that_compiles_keeps_no_other_from_its_device(stage) -> None:
    submissions = [stage.submit("A100", user=user) for user in ("ada", "bob")]
    stage.dispatcher(Compiling()).run_until_idle()
    assert [stage.run(each).verdict for each in submissions] == [Verdict.ACCEPTED] * 2
    assert [item.event["event"] for item in stage.told(JobProgress)] == ["stage"] * 2


class Babbling(FakeLauncher):
    """Says what is no event of the first job."""

    def run(self, spec, device, *, on_event, cancelled):
        if not self.specs:
            on_event({})
        return super().run(spec, device, on_event=on_event, cancelled=cancelled)


def test_what_is_no_event_costs_its_attempt_and_no_other(stage) -> None:
    submissions = [stage.submit(user=user) for user in ("ada", "bob")]
    stage.dispatcher(Babbling()).run_until_idle()
    assert sorted(stage.run(each).attempt for each in submissions) == [1, 2]
    assert [stage.run(each).verdict for each in submissions] == [Verdict.ACCEPTED] * 2
    assert len(stage.told(JobRetried)) == 1


def test_an_attempt_whose_end_cannot_be_stored_lapses_while_others_run(stage, monkeypatch) -> None:
    fail, calls = lifecycle.fail_attempt, []

    def broken(*args, **given):
        calls.append(args)
        if len(calls) == 1:
            raise ValueError("no such thing fits into a row")
        return fail(*args, **given)

    monkeypatch.setattr(lifecycle, "fail_attempt", broken)
    submission = stage.submit("H100", "A100")
    engine = FakeEngine({"m1": 3})
    launcher = FakeFleet(engine)
    launcher.durable = False
    dispatcher = stage.dispatcher(launcher)
    look(dispatcher)
    next(iter(engine.calls.values())).outcome = LaunchError("lost")
    for _ in range(3):
        stage.clock.advance(40)
        look(dispatcher)
    for name, call in list(engine.calls.items()):
        engine.report(name, report_for(call.order))
    look(dispatcher)
    assert sorted(view.counted.attempt for view in stage.views(submission)) == [1, 2]


@pytest.mark.parametrize("error", [LaunchError("lost"), BadReport("garbled")])
def test_a_failed_launch_is_tried_again(stage, error: Exception) -> None:
    submission = stage.submit()
    stage.dispatcher(FakeLauncher(error)).run_until_idle()
    assert stage.job(submission).state is JobState.DONE
    assert stage.run(submission).attempt == 2
    (retried,) = stage.told(JobRetried)
    assert retried.reason == f"{type(error).__name__}: {error}"


def test_a_job_is_given_up_after_three_failed_launches(stage) -> None:
    submission = stage.submit()
    stage.dispatcher(FakeLauncher(*[LaunchError("lost")] * 3)).run_until_idle()
    run = stage.run(submission)
    assert (run.verdict, run.attempt, run.score_s) == (Verdict.INTERNAL_ERROR, 3, None)
    assert "LaunchError: lost" in run.report.message
    assert [item.run for item in stage.told(JobFinished)] == [run]


def test_a_harness_that_could_not_judge_is_asked_once_more(stage) -> None:
    submission = stage.submit()
    broken = make_report(verdict=Verdict.INTERNAL_ERROR, message="the judge died", stages=[])
    stage.dispatcher(FakeLauncher(broken)).run_until_idle()
    assert (stage.run(submission).verdict, stage.run(submission).attempt) == (Verdict.ACCEPTED, 2)
    (retried,) = stage.told(JobRetried)
    assert retried.reason == "BadReport: the harness could not judge"


def test_a_run_whose_process_our_side_killed_costs_no_attempt(stage) -> None:
    submission = stage.submit()
    killed = make_report(verdict=Verdict.INTERNAL_ERROR, reason=Reason.KILLED, stages=[])
    broken = make_report(verdict=Verdict.INTERNAL_ERROR, message="the judge died", stages=[])
    outcomes = [
        killed,
        LaunchLost("its agent was killed"),
        killed,
        LaunchCancelled("its agent ended"),
        broken,
    ]
    stage.dispatcher(FakeLauncher(*outcomes)).run_until_idle()
    assert (stage.run(submission).verdict, stage.run(submission).attempt) == (Verdict.ACCEPTED, 6)
    assert stage.job(submission).lost == 4
    assert [each.reason for each in stage.told(JobRetried)] == [
        "LaunchLost: a process of the harness was killed",
        "LaunchLost: its agent was killed",
        "LaunchLost: a process of the harness was killed",
        "LaunchCancelled: its agent ended",
        "BadReport: the harness could not judge",
    ]


def test_a_job_that_our_side_kills_every_time_is_halted_and_gives_no_verdict(stage) -> None:
    submission = stage.submit()
    killed = make_report(verdict=Verdict.INTERNAL_ERROR, reason=Reason.KILLED, stages=[])
    launcher = FakeLauncher(*[killed] * 6)
    stage.dispatcher(launcher).run_until(submission.id)
    assert (stage.job(submission).state, len(launcher.specs)) == (JobState.HALTED, 5)
    stage.dispatcher(launcher).run_until_idle()
    assert stage.told(JobFinished) == []


def test_a_submission_whose_process_was_killed_is_judged_once_more(stage) -> None:
    killed = {"verdict": Verdict.RUNTIME_ERROR, "reason": Reason.KILLED, "stages": []}
    for times, verdict in ((1, Verdict.ACCEPTED), (2, Verdict.RUNTIME_ERROR)):
        submission, launcher = stage.submit(), FakeLauncher(*[make_report(**killed)] * times)
        stage.dispatcher(launcher).run_until_idle()
        assert (stage.run(submission).verdict, len(launcher.specs)) == (verdict, 2)


def test_what_an_audit_has_found_is_stored_and_not_tried_again(stage) -> None:
    submission = stage.submit()
    found = [Finding(code="below_floor", text="too fast", quarantines=True)]
    broken = make_report(verdict=Verdict.INTERNAL_ERROR, message="out of memory", stages=[], quarantine=found)
    stage.dispatcher(FakeLauncher(broken)).run_until_idle()
    run = stage.run(submission)
    assert (run.verdict, run.attempt, run.score_s) == (Verdict.INTERNAL_ERROR, 1, None)
    assert stage.told(JobRetried) == []


def test_what_the_harness_cannot_judge_twice_ends_with_its_own_report(stage) -> None:
    submission = stage.submit()
    broken = make_report(verdict=Verdict.INTERNAL_ERROR, message="the reference is broken", stages=[])
    stage.dispatcher(FakeLauncher(broken, broken)).run_until_idle()
    run = stage.run(submission)
    assert (run.verdict, run.attempt, run.report.message) == (
        Verdict.INTERNAL_ERROR,
        2,
        "the reference is broken",
    )


class Lasting(FakeLauncher):
    """Its runs take a minute each by the clock of a stage."""

    def __init__(self, clock, *outcomes) -> None:
        super().__init__(*outcomes)
        self._clock = clock

    def run(self, spec, device, *, on_event, cancelled):
        self._clock.advance(60)
        return super().run(spec, device, on_event=on_event, cancelled=cancelled)


LATE = {"verdict": Verdict.TIME_LIMIT_EXCEEDED, "stages": []}


def test_what_a_busy_machine_could_not_measure_is_no_attempt_but_its_seconds_count(stage) -> None:
    submission = stage.submit()
    busy = make_report(verdict=Verdict.INTERNAL_ERROR, reason=Reason.BUSY, message="not measured", stages=[])
    launcher = Lasting(stage.clock, *[busy] * 3)
    stage.dispatcher(launcher).run_until_idle()
    run = stage.run(submission)
    assert (run.verdict, run.attempt, len(launcher.specs)) == (Verdict.INTERNAL_ERROR, 1, 1)
    with stage.db.read() as session:
        (use,) = gpu_uses.first_runs(session, [stage.job(submission).id]).values()
        attempts = session.scalars(select(JobRow.id).where(gpu_uses.IS_ATTEMPT)).all()
        told = gpu_uses.count_not_measured(session, run.finished_at - timedelta(days=1))
    assert (use.amount, attempts, told) == (60.0, [], 1)


def test_a_time_limit_on_an_idle_machine_is_not_tried_again(stage) -> None:
    submission = stage.submit()
    stage.dispatcher(FakeLauncher(make_report(reason=Reason.TIME, **LATE))).run_until_idle()
    assert (stage.run(submission).verdict, stage.run(submission).attempt) == (
        Verdict.TIME_LIMIT_EXCEEDED,
        1,
    )


def test_an_author_reads_no_traceback_of_a_launch_that_failed(stage, caplog) -> None:
    submission = stage.submit()
    log = 'Traceback (most recent call last):\n  File "/srv/app/main.py", line 1, in main\nKeyError: 1'
    stage.dispatcher(FakeLauncher(*[BadReport(f"no report; its log: {log}")] * 3)).run_until_idle()
    message = stage.run(submission).report.message
    assert message.endswith("attempts: BadReport: no report; its log: KeyError: 1")
    assert "/srv/app/main.py" in caplog.text


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM])
def test_a_launch_that_lacks_something_is_done_later(stage, caplog, monkeypatch, number: int) -> None:
    monkeypatch.setattr(dispatch, "REST_S", 0.0, raising=False)
    submission = stage.submit()
    short = OSError(number, os.strerror(number))
    wrapped = LaunchError("the harness cannot be started")
    wrapped.__cause__ = OSError(number, os.strerror(number))
    stage.dispatcher(FakeLauncher(short, wrapped)).run_until_idle()
    assert (stage.run(submission).verdict, stage.run(submission).attempt) == (Verdict.ACCEPTED, 1)
    assert len(stage.told(JobReturned)) == 2
    assert "should not happen" not in caplog.text


class Short(FakeLauncher):
    """A launcher on a machine that is short of files for a while."""

    left = 3

    def capacity(self, device) -> int:
        """Say how much room there is, if it can."""
        if self.left:
            self.left -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().capacity(device)


def test_a_service_outlives_what_its_machine_lacks(stage, caplog, monkeypatch) -> None:
    monkeypatch.setattr(dispatch, "REST_S", 0.0, raising=False)
    submission = stage.submit()
    stop, launcher = threading.Event(), Short()
    dispatcher = stage.dispatcher(launcher, on_progress=lambda _: stop.set() if launcher.specs else None)
    with caplog.at_level(logging.WARNING):
        dispatcher.run_forever(stop)
    assert launcher.left == 0
    assert submission.id
    # Said once, however often it was found.
    assert [each.message for each in caplog.records].count(
        "not ready: [Errno 24] Too many open files; going on"
    ) == 1


def test_a_dispatcher_tells_that_another_program_has_its_slots(stage) -> None:
    class Crowded(FakeLauncher):
        """A launcher on a machine where another program holds one slot of each device."""

        def capacity(self, device) -> int:
            return super().capacity(device) - 1

    launcher = Crowded()
    submission = stage.submit("A100")
    look(stage.dispatcher(launcher))
    alive = dispatchers.list_alive(stage.db, stage.clock())
    (waits,) = waiting_of(stage.db, submission.id, stage.clock()).values()
    assert alive[0].in_use == {"H100": 1, "A100": 1}
    assert waits.reason == "A100 is busy with another program on its machine, or is being calibrated"
    assert launcher.specs == []


def test_a_bug_in_a_launcher_ends_like_a_failed_launch(stage, caplog) -> None:
    submission = stage.submit()
    with caplog.at_level(logging.ERROR):
        stage.dispatcher(FakeLauncher(ZeroDivisionError("oops"))).run_until_idle()
    assert stage.run(submission).attempt == 2
    assert "this should not happen" in caplog.text


def test_a_report_for_another_job_is_not_taken(stage) -> None:
    class Confused(FakeLauncher):
        def run(self, spec, device, **options):
            result = super().run(spec, device, **options)
            object.__setattr__(result.report, "job_id", "999.1")
            return result

    submission = stage.submit()
    stage.dispatcher(Confused()).run_until_idle()
    assert stage.run(submission).verdict is Verdict.INTERNAL_ERROR
    assert "job_id is '999.1'" in stage.run(submission).report.message


def test_a_task_that_cannot_be_judged_ends_as_an_internal_error(stage, monkeypatch, caplog) -> None:
    def refuse(*_args, **_options):
        raise ValueError("no such harness")

    monkeypatch.setattr(assignment, "build_job_spec", refuse)
    submission = stage.submit()
    with caplog.at_level(logging.CRITICAL):
        stage.dispatcher(FakeLauncher()).run_until_idle()
    assert stage.run(submission).verdict is Verdict.INTERNAL_ERROR


def test_a_listener_that_fails_costs_nobody_the_run(stage, caplog) -> None:
    def fail(_progress) -> None:
        raise BrokenPipeError

    submission = stage.submit()
    with caplog.at_level(logging.CRITICAL):
        stage.dispatcher(FakeLauncher(), on_progress=fail).run_until_idle()
    assert stage.run(submission).verdict is Verdict.ACCEPTED


@pytest.mark.parametrize("end", [cancel_submission, delete_submission])
def test_a_cancelled_or_deleted_job_is_stopped_and_not_counted(stage, end) -> None:
    submission = stage.submit()

    def stop() -> None:
        end(stage.db, submission.id, by=actor_of(stage.db, "ada"), now=stage.clock())

    stage.dispatcher(FakeLauncher(until_cancelled=True, meanwhile=stop)).run_until(submission.id)
    if end is cancel_submission:
        assert stage.job(submission).state is JobState.CANCELLED
        assert stage.run(submission) is None
    assert len(stage.told(JobDropped)) == 1


def test_a_stopped_dispatcher_hands_its_jobs_back(stage) -> None:
    submission = stage.submit()
    stop = threading.Event()
    stage.dispatcher(FakeLauncher(until_cancelled=True, meanwhile=stop.set)).run_forever(stop)
    job = stage.job(submission)
    assert (job.state, job.attempt) == (JobState.QUEUED, 1)
    assert len(stage.told(JobReturned)) == 1
    stage.dispatcher(FakeLauncher()).run_until_idle()
    assert stage.run(submission).attempt == 1


def test_a_lease_that_was_lost_stops_the_run_and_counts_once(stage) -> None:
    submission = stage.submit()

    def judge_elsewhere() -> None:
        stage.clock.advance(61)
        stage.dispatcher(FakeLauncher(make_report([7000.0]))).run_until_idle()

    # No heartbeat comes in time, as on a machine that was suspended. With a second slot it could
    # claim the job again itself, at the moment at which the other dispatcher gives it up for lost.
    suspended = stage.dispatcher(
        FakeLauncher(meanwhile=judge_elsewhere),
        devices=(make_device(slots=1),),
        heartbeat_s=1e9,
        lease_s=60,
        tick_s=1e3,
        owner="suspended",
    )
    suspended.run_until(submission.id)
    assert stage.run(submission).attempt == 2
    assert stage.run(submission).score_s == pytest.approx(7e-6)
    assert len(stage.told(JobDropped)) == 1


def test_a_heartbeat_keeps_a_long_job(stage) -> None:
    submission = stage.submit()
    engine = FakeEngine()
    launcher = FakeFleet(engine)
    launcher.durable = False  # else the call would be adopted
    dispatcher = stage.dispatcher(launcher, lease_s=60)
    for _ in range(4):
        look(dispatcher)
        stage.clock.advance(40)
    ((name, call),) = engine.calls.items()
    engine.report(name, report_for(call.order))
    look(dispatcher)
    assert stage.run(submission).attempt == 1


def test_working_for_a_submission_leaves_later_ones_and_other_devices_alone(stage) -> None:
    submissions = [stage.submit("A100"), *(stage.submit(user=user) for user in ("ada", "bob", "cyn"))]
    stage.dispatcher(FakeLauncher()).run_until(submissions[2].id)
    states = [stage.job(submission).state for submission in submissions]
    assert states == [JobState.QUEUED, JobState.DONE, JobState.DONE, JobState.QUEUED]


def test_a_submission_for_a_device_that_is_not_here_is_not_waited_for(stage) -> None:
    submission = stage.submit("A100")
    with pytest.raises(ConfigError, match="A100"):
        stage.dispatcher(FakeLauncher(), devices=DEVICES[:1]).run_until(submission.id)


def test_a_device_without_its_launcher_is_found_at_the_start(db) -> None:
    with pytest.raises(ConfigError, match="no launcher 'modal', only fake"):
        Dispatcher(db, devices=[make_device(launcher="modal")], launchers={"fake": FakeLauncher()})


def test_a_result_is_stored_once_the_database_answers_again(stage, monkeypatch, caplog) -> None:
    finish, failures = lifecycle.finish, [StorageUnavailable("locked")] * 2

    def unsteady(*args, **options):
        if failures:
            raise failures.pop()
        return finish(*args, **options)

    monkeypatch.setattr(lifecycle, "finish", unsteady)
    monkeypatch.setattr(attempt, "STORE_RETRY_S", (0.0, 0.0, 0.0))
    submission = stage.submit()
    stage.dispatcher(FakeLauncher()).run_until_idle()
    assert stage.run(submission).attempt == 1


def test_a_dispatcher_outlives_a_database_that_does_not_answer(stage, monkeypatch, caplog) -> None:
    claim, failures = lifecycle.claim_next, [StorageUnavailable("gone")] * 3
    stop = threading.Event()

    def unsteady(*args, **options):
        if failures:
            raise failures.pop()
        return claim(*args, **options)

    def on_progress(progress) -> None:
        if isinstance(progress, JobFinished):
            stop.set()

    monkeypatch.setattr(lifecycle, "claim_next", unsteady)
    monkeypatch.setattr(dispatch, "REST_S", 0.0)
    submission = stage.submit()
    with caplog.at_level(logging.CRITICAL):
        stage.dispatcher(FakeLauncher(), on_progress=on_progress).run_forever(stop)
    assert stage.run(submission).verdict is Verdict.ACCEPTED


def test_an_unfit_gpu_costs_no_attempt_and_the_job_goes_to_another(stage) -> None:
    submission = stage.submit()
    launcher = FakeGpuLauncher(gpus=["0", "1"])
    launcher.sick["0"] = "GPU 0: smoke"
    stage.dispatcher(launcher).run_until_idle()
    assert stage.run(submission).attempt == 1
    assert {item.reason for item in stage.told(JobReturned)} == {"GPU 0: smoke"}
    (fault,) = outages(stage.db, now=stage.clock())
    assert (fault.device, fault.gpu, fault.reason) == ("H100", "0", "GPU 0: smoke")


def test_a_device_that_is_out_of_service_is_given_nothing_until_it_is_fit_again(stage) -> None:
    submission = stage.submit()
    error = UnfitDevice("GPU 0: smoke", gpus=["0"])
    take_out(stage.db, error, device="H100", now=stage.clock())
    launcher = FakeGpuLauncher()
    dispatcher = stage.dispatcher(launcher)
    for _ in range(3):
        look(dispatcher)
    job = stage.job(submission)
    assert (job.state, job.attempt, launcher.specs) == (JobState.QUEUED, 1, [])
    stage.clock.advance(SHORTEST_PAUSE.total_seconds())
    dispatcher.run_until(submission.id)
    assert stage.run(submission).attempt == 1
    assert [type(item) for item in stage.progress if isinstance(item, GpuOut | GpuBack)] == [GpuOut, GpuBack]
    assert outages(stage.db, now=stage.clock()) == []


def test_a_run_on_a_gpu_that_failed_meanwhile_counts_as_an_attempt(stage) -> None:
    submission = stage.submit()
    error = UnfitDevice("GPU 0: 1 new Xid errors", gpus=["0"], spoils=True)
    stage.dispatcher(FakeGpuLauncher(error, gpus=["0", "1"])).run_until_idle()
    assert stage.run(submission).attempt == 2
    assert [item.reason for item in stage.told(JobRetried)] == ["UnfitDevice: GPU 0: 1 new Xid errors"]


def test_a_gpu_that_is_unfit_after_a_good_run_is_taken_out_and_the_run_counts(stage) -> None:
    class Untidy(FakeGpuLauncher):
        def run(self, spec, device, **options):
            result = super().run(spec, device, **options)
            return dataclasses.replace(result, unfit=UnfitDevice("GPU 0: 900 MiB", gpus=["0"]))

    submission = stage.submit()
    stage.dispatcher(Untidy()).run_until_idle()
    assert (stage.run(submission).attempt, stage.run(submission).verdict) == (1, Verdict.ACCEPTED)
    assert [fault.reason for fault in outages(stage.db, now=stage.clock())] == ["GPU 0: 900 MiB"]


def test_a_job_that_came_too_late_for_the_last_gpu_waits_again(stage) -> None:
    submission = stage.submit()
    stage.dispatcher(FakeGpuLauncher(UnfitDevice("every slot of H100 is out of service"))).run_until_idle()
    assert stage.run(submission).attempt == 1
    assert outages(stage.db, now=stage.clock()) == []


def test_a_result_is_kept_though_it_cannot_be_stored_that_the_gpu_is_unfit(
    stage, monkeypatch, caplog
) -> None:
    class Launcher(FakeGpuLauncher):
        def run(self, *args, **options):
            result = super().run(*args, **options)
            return dataclasses.replace(result, unfit=UnfitDevice("GPU 0: 900 MiB", gpus=["0"]))

    def locked(*_args, **_options):
        raise StorageUnavailable("locked")

    monkeypatch.setattr(fitness, "take_out", locked)
    submission = stage.submit()
    stage.dispatcher(Launcher()).run_until_idle()
    assert stage.run(submission).attempt == 1
    assert len(stage.told(JobFinished)) == 1
    assert "cannot store that a GPU is unfit: locked" in caplog.text


def test_a_dispatcher_that_drains_lets_its_jobs_end_and_claims_no_more(stage) -> None:
    first, second = stage.submit(), stage.submit()
    stop, drain = threading.Event(), threading.Event()
    launcher = FakeLauncher(meanwhile=drain.set)
    stage.dispatcher(launcher, devices=(make_device(slots=1),), owner="box").run_forever(stop, drain)
    assert [stage.job(each).state for each in (first, second)] == [JobState.DONE, JobState.QUEUED]
    assert dispatchers.list_alive(stage.db, stage.clock()) == []


def test_a_dispatcher_that_drains_can_still_be_told_to_hand_back(stage) -> None:
    submission = stage.submit()
    stop, drain, ticks = threading.Event(), threading.Event(), threading.Semaphore(0)

    def clock():
        ticks.release()
        return stage.clock()

    def end() -> None:
        drain.set()
        while not all(info.draining for info in dispatchers.list_alive(stage.db, stage.clock())):
            assert ticks.acquire(timeout=30)
        stop.set()

    stage.dispatcher(FakeLauncher(until_cancelled=True, meanwhile=end), clock=clock).run_forever(stop, drain)
    assert (stage.job(submission).state, stage.job(submission).attempt) == (JobState.QUEUED, 1)


def test_a_dispatcher_is_seen_while_it_works_and_gone_at_its_end(stage) -> None:
    stage.submit()
    seen = []
    launcher = FakeLauncher(meanwhile=lambda: seen.extend(dispatchers.list_alive(stage.db, stage.clock())))
    stage.dispatcher(launcher, owner="box").run_until_idle()
    (info,) = seen
    assert (info.owner, info.devices, info.draining) == ("box", {"H100": 2, "A100": 1}, False)
    assert dispatchers.list_alive(stage.db, stage.clock()) == []


def test_a_job_whose_dispatcher_fell_silent_elsewhere_runs_again_within_two_leases(stage) -> None:
    submission = stage.submit()
    lost = lifecycle.claim_next(
        stage.db, owner="elsewhere:boot:ns:1:1", lease_s=60, devices=["H100"], now=stage.clock()
    )
    stage.clock.advance(59)
    lifecycle.renew_all(stage.db, [lost.token], lease_s=60, now=stage.clock())  # its last sign of life
    dispatcher = stage.dispatcher(FakeFleet(FakeEngine()))
    for number in (1, 2):
        stage.clock.advance(60)
        look(dispatcher)
        assert (stage.job(submission).state, stage.job(submission).attempt) == (JobState.RUNNING, number)


def test_how_far_a_job_is_can_be_read_elsewhere(stage) -> None:
    submission = stage.submit()
    told = [
        {"event": "stage", "stage": "tests", "limit_s": 9.0, "cases": 3},
        {"event": "case", "stage": "tests", "case": 0, "verdict": "accepted", "hidden": False},
        {"event": "case", "stage": "tests", "case": 1, "verdict": "accepted", "hidden": False},
        {"event": "sample", "stage": "tests", "case": 1, "samples": 5},
        {"event": "stage_end", "stage": "tests", "verdict": "accepted", "reason": "", "message": "secret"},
    ]

    class Telling(FakeLauncher):
        def run(self, spec, device, *, on_event, cancelled):
            for event in told:
                on_event(event)
            return super().run(spec, device, on_event=on_event, cancelled=cancelled)

    stage.dispatcher(Telling()).run_until_idle()
    found = [each for each in events.since(stage.db, submission.id, 0) if each.kind == "progress"]
    assert [each.data for each in found] == [
        {"stage": "tests", "cases": 3, "attempt": 1},
        {"stage": "tests", "case": 0, "cases": 3, "attempt": 1},
        {"stage": "tests", "cases": 3, "verdict": "accepted", "attempt": 1},
    ]


def test_cases_are_noted_now_and_then(stage, db) -> None:
    submission = stage.submit()
    seconds = FakeSeconds()
    notes = ProgressNotes(db, stage.job(submission), clock=stage.clock, monotonic=seconds)
    for case in range(10):
        notes.take({"event": "case", "stage": "tests", "case": case})
        seconds.wait(0.2)
    found = [each.data["case"] for each in events.since(db, submission.id, 0) if each.kind == "progress"]
    assert found == [0, 3, 6, 9]


def test_hidden_cases_are_not_noted_one_by_one(stage, db) -> None:
    """When each of them ends would tell their author how long it took."""
    submission = stage.submit()
    seconds = FakeSeconds()
    notes = ProgressNotes(db, stage.job(submission), clock=stage.clock, monotonic=seconds)
    for case in range(4):
        notes.take({"event": "case", "stage": "tests", "case": case, "hidden": case > 0})
        seconds.wait(9.0)
    found = [each.data["case"] for each in events.since(db, submission.id, 0) if each.kind == "progress"]
    assert found == [0]


def test_a_run_is_kept_though_its_progress_cannot_be_noted(stage, monkeypatch, caplog) -> None:
    record = storage_events.record

    def unsteady(session, submission_id, kind, *rest):
        if kind == "progress":
            raise StorageUnavailable("locked")
        return record(session, submission_id, kind, *rest)

    class Telling(FakeLauncher):
        def run(self, spec, device, *, on_event, cancelled):
            on_event({"event": "stage", "stage": "tests", "limit_s": 9.0, "cases": 3})
            return super().run(spec, device, on_event=on_event, cancelled=cancelled)

    monkeypatch.setattr(storage_events, "record", unsteady)
    submission = stage.submit()
    stage.dispatcher(Telling()).run_until_idle()
    assert stage.run(submission).attempt == 1
    assert "cannot store its progress: locked" in caplog.text
