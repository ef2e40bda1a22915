"""A submission that was accepted is judged and counted once, whatever is killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from sqlalchemy import func, select

from builders import make_board, make_device, make_submission
from fakes import FakeLauncher
from kernelcup.app.queue.dispatcher import Dispatcher
from kernelcup.app.submissions.submissions import show_submission
from kernelcup.domain import JobState
from kernelcup.tables import RunRow

SCRIPT = Path(__file__).with_name("dispatch_until_killed.py")


def start_dispatcher(url: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, SCRIPT, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )


def kill_in_the_middle_of_a_job(url: str) -> bytes:
    with start_dispatcher(url) as process:
        assert process.stdout is not None
        job_id = process.stdout.readline().strip()
        process.kill()
    return job_id


def test_the_job_of_a_killed_dispatcher_is_taken_over_and_counts_once(db, db_url, clock) -> None:
    make_board(db)
    submission = make_submission(db)
    (view,) = show_submission(db, submission.id).jobs
    assert kill_in_the_middle_of_a_job(db_url) == f"{view.id}.1".encode()
    assert kill_in_the_middle_of_a_job(db_url) == f"{view.id}.2".encode()

    launcher = FakeLauncher()
    Dispatcher(db, devices=[make_device()], launchers={"fake": launcher}, clock=clock).run_until(
        submission.id
    )

    (view,) = show_submission(db, submission.id).jobs
    assert (view.state, view.attempt) == (JobState.DONE, 3)
    assert [spec.job_id for spec in launcher.specs] == [f"{view.id}.3"]
    with db.read() as session:
        assert session.execute(select(func.count()).select_from(RunRow)).scalar_one() == 1


def test_the_job_of_a_living_dispatcher_is_left_alone(db, db_url, clock) -> None:
    make_board(db)
    submission = make_submission(db)
    with start_dispatcher(db_url) as process:
        assert process.stdout is not None
        process.stdout.readline()
        Dispatcher(
            db, devices=[make_device()], launchers={"fake": FakeLauncher()}, clock=clock
        ).run_until_idle()
        (view,) = show_submission(db, submission.id).jobs
        assert (view.state, view.attempt) == (JobState.RUNNING, 1)
        process.kill()
