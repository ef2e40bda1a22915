"""On one host no job that meets hidden cases runs beside another job of its user."""

from __future__ import annotations

from typing import Any

import pytest

from builders import make_board, make_device, make_task
from hand_judging import Judging
from kernelcup.app.machines import dispatchers, machines
from kernelcup.app.queue.estimates import waiting_of
from kernelcup.app.queue.queries import claims
from kernelcup.domain import Submission
from kernelcup.launchers.base import MachineReading
from kernelcup.reporting.results import Waiting
from kernelcup_harness.protocol import Mode

OWN = "another job of yours has to end first: none runs beside one with hidden cases"


class Entering(Judging):
    """Enters the leaderboard with hidden cases unless another one is named."""

    def submit(self, user: str = "ada", **overrides: Any) -> Submission:
        return super().submit(user, **({"board": "double"} | overrides))


@pytest.fixture
def judging(db, clock) -> Judging:
    make_board(db, devices=["H100", "A100"], task=make_task(hidden_tests=[{"size": 77, "seed": 3}]))
    make_board(db, name="open", devices=["H100", "A100"])
    return Entering(db, clock)


def claimed(judging: Judging, device: str = "H100") -> int | None:
    """Claim a job; return its submission, None if none may start."""
    lease = judging.claim(device)
    return None if lease is None else lease.job.submission_id


def waiting(judging: Judging, submission: Submission) -> Waiting:
    (found,) = waiting_of(judging.db, submission.id, judging.clock()).values()
    return found


def has_machine(judging: Judging, name: str, *devices: str) -> None:
    found = [MachineReading(name=name, slots=dict.fromkeys(devices, 4))]
    machines.note_seen(judging.db, found, launcher="fake", is_own=True, now=judging.clock())


@pytest.mark.parametrize("mode", [Mode.TEST, Mode.LEADERBOARD])
def test_a_job_does_not_start_beside_one_of_its_user_with_hidden_cases(judging, mode: Mode) -> None:
    first, second = judging.submit("ada"), judging.submit("ada", mode=mode)
    lease = judging.claim()
    assert lease.job.submission_id == first.id
    assert claimed(judging) is None
    judging.finish(lease)
    assert claimed(judging) == second.id


def test_a_job_with_hidden_cases_does_not_start_beside_another_one_of_its_user(judging) -> None:
    practice = judging.submit("ada", mode=Mode.TEST)
    lease = judging.claim()
    assert lease.job.submission_id == practice.id
    ranked = judging.submit("ada")
    assert claimed(judging) is None
    judging.finish(lease)
    assert claimed(judging) == ranked.id


def test_jobs_of_others_start_meanwhile(judging) -> None:
    first, _, bob = judging.submit("ada"), judging.submit("ada"), judging.submit("bob")
    assert [claimed(judging), claimed(judging), claimed(judging)] == [first.id, bob.id, None]


def test_jobs_without_hidden_cases_run_side_by_side(judging) -> None:
    some = [judging.submit("ada", board="open"), judging.submit("ada", mode=Mode.TEST)]
    assert [claimed(judging), claimed(judging)] == [each.id for each in some]


def test_jobs_of_one_user_run_on_different_hosts_at_the_same_time(judging) -> None:
    has_machine(judging, "one", "H100", "H100x2")
    has_machine(judging, "two", "A100")
    first, second = judging.submit("ada"), judging.submit("ada", devices=["A100"])
    assert [claimed(judging), claimed(judging, "A100")] == [first.id, second.id]


@pytest.mark.parametrize("known", [True, False])
def test_devices_that_may_be_of_one_host_count_as_one(judging, known: bool) -> None:
    if known:
        has_machine(judging, "both", "H100", "A100")
    first, _ = judging.submit("ada"), judging.submit("ada", devices=["A100"])
    assert [claimed(judging), claimed(judging, "A100")] == [first.id, None]


def test_a_job_that_waits_for_another_of_its_user_still_waits_in_the_queue(judging) -> None:
    judging.submit("ada")
    judging.submit("ada")
    claimed(judging)
    with judging.db.read() as session:
        assert claims.has_waiting(session, device="H100")


def test_the_reason_of_the_wait_is_told(judging) -> None:
    dispatchers.check_in(
        judging.db,
        owner="elsewhere",
        devices=[make_device(slots=4)],
        started_at=judging.clock(),
        draining=False,
        now=judging.clock(),
        in_use={},
    )
    first, second = judging.submit("ada"), judging.submit("ada")
    lease = judging.claim()
    assert lease.job.submission_id == first.id
    assert waiting(judging, second).reason == OWN
    assert waiting(judging, second).starts_in_s is None
    judging.finish(lease)
    assert waiting(judging, second).reason == "next to start"
    assert waiting(judging, second).starts_in_s == 0.0
