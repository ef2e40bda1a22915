"""What becomes of a submission, and of processes, when somebody dies or has enough."""

from __future__ import annotations

import signal
import sqlite3

import pytest
from cup import Cup, read_until, watched_descendants

from waiting import all_end

pytestmark = pytest.mark.jobs

# Long enough to be met in the middle, short enough to be judged again.
SLOW = """\
import time
def custom_kernel(data):
    time.sleep(0.5)
    return data.clone()
"""
ENDLESS = """\
import time
def custom_kernel(data):
    while True:
        time.sleep(1)
"""


def test_a_submission_whose_server_was_killed_is_judged_and_counted_once(cup: Cup) -> None:
    submit(cup, SLOW)
    with cup.started("serve", "--port", "0") as server:
        read_until(server.stdout, "import stage: accepted")
        with watched_descendants(server.pid) as processes:
            assert len(processes) >= 3  # the harness, its judge and its contestant
            server.kill()
            assert all_end(processes)
    cup("serve", "--until-idle")
    (job,) = cup.json("submissions", "show", "1")["jobs"]
    assert (job["state"], job["attempt"], job["verdict"]) == ("done", 2, "accepted")
    assert counted_runs(cup) == [(1, 2)]


def test_cancelling_ends_a_run_and_its_processes(cup: Cup) -> None:
    submit(cup, ENDLESS)
    with cup.started("serve", "--port", "0") as server:
        read_until(server.stdout, "import stage: accepted")
        with watched_descendants(server.pid) as processes:
            assert cup.json("cancel", "1") == {"submission": 1, "cancelled_jobs": 1}
            assert all_end(processes)
        read_until(server.stdout, "dropped")
        assert "cancelled by ada" in cup("watch", "1", code=7).stdout
        server.terminate()
        assert server.wait() == 0
    assert counted_runs(cup) == []


def test_an_interrupted_submit_hands_its_job_back(cup: Cup) -> None:
    cup("board", "create", "identity")
    with cup.started("submit", cup.write("endless.py", ENDLESS), "--mode", "test") as process:
        read_until(process.stderr, "import")
        with watched_descendants(process.pid) as processes:
            process.send_signal(signal.SIGINT)
            assert all_end(processes)
        assert process.wait() == 130
        assert process.stderr is not None
        said = process.stderr.read()
    assert said.startswith("error (interrupted): interrupted\nNext: submission 1 stays in the queue")
    (job,) = cup.json("submissions", "show", "1")["jobs"]
    assert (job["state"], job["attempt"], job["position"]) == ("queued", 1, 1)


def test_an_interrupted_run_leaves_nothing_running(cup: Cup) -> None:
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        with cup.started("run", "identity", cup.write("endless.py", ENDLESS)) as process:
            read_until(process.stderr, "import")
            with watched_descendants(process.pid) as processes:
                process.send_signal(number)
                assert all_end(processes)
            assert process.wait() == code


def submit(cup: Cup, code: str) -> None:
    """Queue a submission in test mode."""
    cup("board", "create", "identity")
    queued = cup.json("submit", cup.write("kernel.py", code), "--mode", "test", "--no-wait")
    assert queued["jobs"][0]["state"] == "queued"


def counted_runs(cup: Cup) -> list[tuple[int, int]]:
    """Return job and attempt of every run that is stored, all of which must count."""
    connection = sqlite3.connect(cup.folder / "data/kernelcup.db")
    try:
        rows = connection.execute("SELECT job_id, attempt, counted FROM runs").fetchall()
    finally:
        connection.close()
    assert all(counted for _, _, counted in rows)
    return [(job, attempt) for job, attempt, _ in rows]
