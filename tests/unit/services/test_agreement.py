"""Whether classes of machines give the same times."""

from __future__ import annotations

import pytest

from builders import NOW, make_board, make_report, make_submission
from kernelcup.domain import OPERATOR
from kernelcup.errors import InvalidValue, NotFound
from kernelcup.http.pages.boards.boards import head_of
from kernelcup.launchers.base import MachineReading
from kernelcup.services.machines import machines
from kernelcup.services.machines.agreement import compare, unlike_classes
from kernelcup.services.queue import lifecycle
from kernelcup.services.results.rejudge import rejudge_submission


class Stage:
    """Two machines of different drivers, and submissions that both judge."""

    def __init__(self, db) -> None:
        self.db = db
        self.board = make_board(db, devices=["H100"], duel=False)
        for name, driver in (("old", "550"), ("new", "580")):
            facts = {"gpus": ["H100"], "driver": driver, "cores": 16, "memory_gib": 128}
            found = [MachineReading(name=name, slots={"H100": 1}, facts=facts)]
            machines.note_seen(db, found, launcher="fake", is_own=True, now=NOW)

    def judge(self, machine: str, time_ns: float) -> None:
        lease = lifecycle.claim_next(self.db, owner="me", lease_s=60, devices=["H100"], now=NOW)
        assert lease is not None
        times = [time_ns * share for share in (0.99, 1.0, 1.01)]
        report = make_report(times, job_id=lifecycle.job_name(lease))
        lifecycle.finish(self.db, lease, report=report, harness_hash="", machine=machine, now=NOW)

    def both(self, user: str, old_ns: float, new_ns: float) -> int:
        submission = make_submission(self.db, devices=["H100"], user=user)
        self.judge("old", old_ns)
        rejudge_submission(self.db, OPERATOR, submission.id, now=NOW)
        self.judge("new", new_ns)
        return submission.id


@pytest.fixture
def stage(db) -> Stage:
    return Stage(db)


def test_classes_agree_once_enough_submissions_have_the_same_times_on_both(stage: Stage) -> None:
    for number, user in enumerate(("ada", "bob")):
        stage.both(user, 1000.0 + number, 1000.0 + number)
    assert compare(stage.db, "old", "new", now=NOW).agrees is None
    stage.both("eve", 5000.0, 5000.0)
    found = compare(stage.db, "old", "new", now=NOW)
    assert (found.agrees, found.pairs, found.disagree) == (True, 3, [])
    assert found.first_class == "1 x H100; driver 550; 16 cores, 128 GiB"


def test_one_submission_that_is_slower_on_one_machine_is_enough_to_disagree(stage: Stage) -> None:
    for user in ("ada", "bob", "eve"):
        stage.both(user, 1000.0, 1000.0)
    slower = stage.both("kim", 1000.0, 1300.0)
    found = compare(stage.db, "old", "new", now=NOW)
    assert (found.agrees, found.disagree) == (False, [slower])


def test_a_ranking_of_several_classes_says_so_until_they_agree(stage: Stage) -> None:
    make_submission(stage.db, devices=["H100"], user="first")
    stage.judge("old", 900.0)
    assert unlike_classes(stage.db, stage.board.id, "H100") == []
    for user in ("ada", "bob", "eve"):
        stage.both(user, 1000.0, 1000.0)
    head = head_of(stage.db, stage.board.name, "H100", viewer=OPERATOR, now=NOW)
    assert [each.split("; ")[1] for each in head.unlike] == ["driver 550", "driver 580"]
    compare(stage.db, "new", "old", now=NOW)
    assert unlike_classes(stage.db, stage.board.id, "H100") == []


def test_machines_without_a_common_device_cannot_be_compared(stage: Stage) -> None:
    with pytest.raises(NotFound, match="no machine 'nothing'"):
        compare(stage.db, "old", "nothing", now=NOW)
    with pytest.raises(InvalidValue, match="both have: H100"):
        compare(stage.db, "old", "new", device="L4", now=NOW)
