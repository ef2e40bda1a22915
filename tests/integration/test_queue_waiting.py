"""What a job waits for, and how long."""

from __future__ import annotations

import pytest

from builders import make_board, make_device
from hand_judging import Judging
from kernelcup.app.machines import dispatchers, machines, outages
from kernelcup.app.machines.queries import outages as faults
from kernelcup.app.queue.estimates import queue_status, waiting_of
from kernelcup.app.queue.queries import backlog
from kernelcup.app.rules.queries import pauses
from kernelcup.app.submissions.withdrawal import cancel_submission
from kernelcup.domain import OPERATOR, PauseScope
from kernelcup.domain.answers import DeviceFault, Pause
from kernelcup.errors import UnfitDevice
from kernelcup.launchers.base import MachineReading
from kernelcup_harness.protocol import Mode


@pytest.fixture
def judging(db, clock) -> Judging:
    make_board(db, devices=["H100", "A100"])
    return Judging(db, clock)


def serve(
    judging: Judging,
    *,
    slots: int = 1,
    draining: bool = False,
    owner: str = "elsewhere",
    in_use: int = 0,
) -> None:
    dispatchers.check_in(
        judging.db,
        owner=owner,
        devices=[make_device(slots=slots)],
        started_at=judging.clock(),
        draining=draining,
        now=judging.clock(),
        in_use={"H100": in_use},
    )


def look(judging: Judging, submission):
    (found,) = waiting_of(judging.db, submission.id, judging.clock()).values()
    return found


def status(judging: Judging, device: str = "H100"):
    (found,) = [each for each in queue_status(judging.db, judging.clock()) if each.device == device]
    return found


def pause(judging: Judging, reason: str) -> None:
    with judging.db.write() as session:
        pauses.put(
            session,
            Pause(scope=PauseScope.DEVICE, key="h100", reason=reason, since=judging.clock(), by="root"),
        )


def test_the_place_tells_who_is_ahead(judging) -> None:
    serve(judging)
    found = [look(judging, submission) for submission in [judging.submit() for _ in range(3)]]
    assert [each.position for each in found] == [1, 2, 3]
    assert [each.reason for each in found] == ["next to start", "1 job is ahead", "2 jobs are ahead"]


def test_estimates_come_from_how_long_jobs_took(judging) -> None:
    judging.judge()
    serve(judging)
    running = judging.submit()
    judging.claim()
    judging.clock.advance(1)
    first, second = judging.submit("bob"), judging.submit("cyn")
    assert (look(judging, first).starts_in_s, look(judging, first).runs_s) == (
        pytest.approx(2),
        pytest.approx(3),
    )
    assert look(judging, second).starts_in_s == pytest.approx(5)
    assert waiting_of(judging.db, running.id, judging.clock()) == {}
    assert status(judging).estimated_wait_s == pytest.approx(8)


def test_a_free_slot_means_no_wait(judging) -> None:
    serve(judging, slots=2)
    judging.submit()
    judging.claim()
    found = look(judging, judging.submit("bob"))
    assert (found.starts_in_s, found.runs_s, found.reason) == (0.0, None, "next to start")


def test_nothing_is_estimated_of_what_was_never_seen(judging) -> None:
    serve(judging)
    judging.submit()
    assert look(judging, judging.submit("bob")).starts_in_s is None


def test_the_pace_follows_the_newest_jobs(judging) -> None:
    judging.judge()
    judging.pace_s = 13.0
    judging.judge()
    serve(judging)
    assert look(judging, judging.submit()).runs_s == pytest.approx(5)
    assert look(judging, judging.submit("bob", mode=Mode.TEST)).runs_s is None


def test_without_a_dispatcher_that_is_the_reason(judging) -> None:
    found = look(judging, judging.submit())
    assert (found.position, found.starts_in_s, found.reason) == (1, None, "no machine with H100 is connected")


def test_dispatchers_that_drain_or_fell_silent_serve_nothing(judging) -> None:
    serve(judging, draining=True)
    submission = judging.submit()
    assert look(judging, submission).reason == "no machine with H100 is connected"
    serve(judging)
    assert look(judging, submission).reason == "next to start"
    judging.clock.advance(61)
    assert look(judging, submission).reason == "no machine with H100 is connected"


def test_a_dispatcher_that_has_ended_is_no_longer_there(judging) -> None:
    serve(judging)
    dispatchers.check_out(judging.db, "elsewhere")
    assert dispatchers.list_alive(judging.db, judging.clock()) == []


def test_a_pause_is_the_reason(judging) -> None:
    serve(judging)
    submission = judging.submit()
    pause(judging, "new cooling")
    assert look(judging, submission).reason == "the device is paused: new cooling"
    assert status(judging).paused == "new cooling"


def test_gpus_out_of_service_are_the_reason_once_no_slot_is_left(judging) -> None:
    serve(judging, slots=2)
    submission = judging.submit()
    (info,) = dispatchers.list_alive(judging.db, judging.clock())
    for gpu, reason in (("0", "next to start"), ("1", "H100 is out of service: GPU 1: smoke")):
        error = UnfitDevice(f"GPU {gpu}: smoke", gpus=[gpu])
        outages.take_out(judging.db, error, device="H100", now=judging.clock(), machine=info.machine)
        judging.clock.advance(1)
        assert look(judging, submission).reason == reason
    with judging.db.read() as session:
        assert all(isinstance(fault, DeviceFault) for fault in faults.all_faults(session))


def test_another_program_on_the_device_is_the_reason_once_no_slot_is_left(judging) -> None:
    judging.judge()
    submission = judging.submit()
    serve(judging, slots=2, in_use=1)
    assert (look(judging, submission).reason, look(judging, submission).starts_in_s) == ("next to start", 0.0)
    serve(judging, slots=2, in_use=2)
    assert look(judging, submission).reason == "no H100 has been up yet"
    here = MachineReading(name="here", slots={"H100": 2})
    machines.note_seen(judging.db, [here], launcher="local", is_own=True, now=judging.clock())
    found = look(judging, submission)
    assert (found.position, found.starts_in_s, found.runs_s) == (1, None, pytest.approx(3))
    assert found.reason == "H100 is busy with another program on its machine, or is being calibrated"
    assert status(judging).estimated_wait_s is None


def test_slots_that_others_use_make_the_wait_longer(judging) -> None:
    judging.judge()
    serve(judging, slots=2, in_use=1)
    judging.submit()
    judging.claim()
    assert look(judging, judging.submit("bob")).starts_in_s == pytest.approx(3)


def test_a_long_queue_is_not_counted_to_its_end(judging, monkeypatch) -> None:
    monkeypatch.setattr(backlog, "MOST_COUNTED", 2)
    serve(judging)
    last = [judging.submit(user) for user in ("ada", "bob", "cyn", "dan")][-1]
    found = look(judging, last)
    assert (found.position, found.starts_in_s, found.reason) == (None, None, "more than 2 jobs are ahead")
    cancel_submission(judging.db, last.id, by=OPERATOR, now=judging.clock())
    assert waiting_of(judging.db, last.id, judging.clock()) == {}


def test_the_status_tells_of_each_device_what_waits_runs_and_serves(judging) -> None:
    assert queue_status(judging.db, judging.clock()) == []
    serve(judging, slots=2)
    since = judging.clock()
    judging.submit()
    judging.claim()
    judging.submit("bob")
    judging.clock.advance(5)
    judging.submit("cyn", mode=Mode.TEST)
    judging.submit("ada", devices=["A100"])
    found = status(judging)
    assert (found.queued, found.running, found.slots, found.dispatchers) == (2, 1, 2, 1)
    assert (found.oldest_queued_at, found.paused) == (since, None)
    other = status(judging, "A100")
    assert (other.queued, other.running, other.slots, other.dispatchers) == (1, 0, 0, 0)
    assert other.estimated_wait_s is None
