"""A submission that was accepted is judged and counted once, whatever is killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import func, select

from builders import make_board, make_device, make_submission
from fakes import FakeLauncher
from kernelcup.app.queue.dispatcher import Dispatcher
from kernelcup.app.submissions.submissions import show_submission
from kernelcup.domain import JobState
from kernelcup.tables import RunRow

SCRIPT = Path(__file__).with_name("dispatch_until_killed.py")


@pytest.mark.dear("starts another process, which is killed")
def test_a_job_stays_with_a_living_dispatcher_and_is_taken_from_a_killed_one_and_counts_once(
    db, db_url, clock
) -> None:
    make_board(db)
    submission = make_submission(db)
    (view,) = show_submission(db, submission.id).jobs
    launcher = FakeLauncher()
    with subprocess.Popen(
        [sys.executable, SCRIPT, db_url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"{view.id}.1\n".encode()
        Dispatcher(db, devices=[make_device()], launchers={"fake": launcher}, clock=clock).run_until_idle()
        (view,) = show_submission(db, submission.id).jobs
        assert (view.state, view.attempt, launcher.specs) == (JobState.RUNNING, 1, [])
        process.kill()

    Dispatcher(db, devices=[make_device()], launchers={"fake": launcher}, clock=clock).run_until(
        submission.id
    )

    (view,) = show_submission(db, submission.id).jobs
    assert (view.state, view.attempt) == (JobState.DONE, 2)
    assert [spec.job_id for spec in launcher.specs] == [f"{view.id}.2"]
    with db.read() as session:
        assert session.execute(select(func.count()).select_from(RunRow)).scalar_one() == 1
