from __future__ import annotations

import dataclasses

import pytest

from builders import SUBMISSION, make_board, make_case, make_device, make_report, make_stage, make_submission
from fakes import FakeLauncher
from kernelcup.app.queue.dispatcher import Dispatcher
from kernelcup.app.results.replay import FoundRun, find_run, replay_job
from kernelcup.app.submissions.submissions import show_submission
from kernelcup.errors import InvalidValue, NotFound
from kernelcup_harness.protocol import (
    Backend,
    HarnessKind,
    Mode,
    Reason,
    Replay,
    RunReport,
    SampleName,
    SourceTree,
    StageName,
    Verdict,
)

SEED = "ab" * 32


def failed_report(**overrides) -> RunReport:
    """Return a ranked run that failed on the twin of input 4 of its only benchmark."""
    case = make_case(
        verdict=Verdict.WRONG_ANSWER, reason=Reason.NEAR_TWIN, failed_on=SampleName(input=4, twin=True)
    )
    tests = make_stage([make_case(None)], name=StageName.TEST)
    ranked = make_stage([case], verdict=Verdict.WRONG_ANSWER)
    values = {"stages": [tests, ranked], "verdict": Verdict.WRONG_ANSWER, "stage": StageName.RANKED}
    return make_report(**({"secret_seed": SEED} | values | overrides))


@pytest.fixture
def found(db, clock):
    """Return a function that has a submission judged as a report says, and finds the run."""

    def judge(report: RunReport) -> FoundRun:
        make_board(db)
        submission = make_submission(db)
        dispatcher = Dispatcher(
            db, launchers={"fake": FakeLauncher(report)}, devices=[make_device()], clock=clock
        )
        dispatcher.run_until_idle()
        run = show_submission(db, submission.id).jobs[0].run
        assert run is not None
        return find_run(db, run)

    return judge


def test_a_run_is_found_with_all_that_it_was_made_from(found) -> None:
    run = found(failed_report())
    assert (run.code, run.device, run.submission_id) == (SourceTree.of(SUBMISSION, "kernel.py"), "H100", 1)
    assert run.task.name == "double"


def test_a_run_that_is_not_there_is_not_found(db) -> None:
    with pytest.raises(NotFound, match="no run 99"):
        find_run(db, 99)


def test_without_more_words_the_sample_that_failed_is_repeated(found) -> None:
    spec = replay_job(found(failed_report()), case=0, backend=Backend.EMULATED)
    assert spec.replay == Replay(stage=StageName.RANKED, case=0, sample=SampleName(input=4, twin=True))
    assert (spec.secret_seed, spec.mode, spec.backend) == (SEED, Mode.LEADERBOARD, Backend.EMULATED)


def test_any_other_sample_can_be_named(found) -> None:
    run = found(failed_report())
    spec = replay_job(run, case=0, backend=Backend.CUDA, stage=StageName.TEST)
    assert spec.replay == Replay(stage=StageName.TEST, case=0, sample=SampleName(input=0))
    spec = replay_job(run, case=0, backend=Backend.CUDA, input_number=17)
    assert spec.replay is not None
    assert spec.replay.sample == SampleName(input=17)


def test_an_accepted_run_is_repeated_in_its_last_stage(found) -> None:
    spec = replay_job(found(make_report(secret_seed=SEED)), case=0, backend=Backend.CUDA)
    assert spec.replay == Replay(stage=StageName.RANKED, case=0, sample=SampleName(input=0))


def test_a_stage_that_the_run_has_not_is_refused(found) -> None:
    with pytest.raises(
        InvalidValue, match=r"--stage benchmark: run 1 does not have this stage; it has test, ranked"
    ):
        replay_job(found(failed_report()), case=0, backend=Backend.CUDA, stage=StageName.BENCHMARK)


def test_a_case_that_the_task_has_not_is_refused(found) -> None:
    with pytest.raises(InvalidValue, match="has cases 0 to 0"):
        replay_job(found(failed_report()), case=1, backend=Backend.CUDA)


@pytest.mark.parametrize(
    ("report", "why"),
    [
        (failed_report(harness=HarnessKind.OWN), "own harness"),
        (failed_report(secret_seed=""), "no revealed seed"),
        (failed_report(stages=[], stage=StageName.IMPORT), "before its first case"),
    ],
)
def test_a_run_that_cannot_be_repeated_says_why(found, report: RunReport, why: str) -> None:
    run = found(make_report())
    run = dataclasses.replace(run, report=report)
    with pytest.raises(InvalidValue, match=why):
        replay_job(run, case=0, backend=Backend.CUDA)
