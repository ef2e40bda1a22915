"""Whether classes of machines give the same times."""

from __future__ import annotations

from datetime import timedelta

import pytest

from builders import NOW, make_board, make_report, make_submission
from kernelcup.app.boards.changes import update_board
from kernelcup.app.boards.settings import BoardChanges
from kernelcup.app.machines import machines
from kernelcup.app.machines.agreement import compare
from kernelcup.app.machines.queries import agreements
from kernelcup.app.queue import lifecycle
from kernelcup.app.results import finals
from kernelcup.app.results.duels import find_rival
from kernelcup.app.results.rejudge import rejudge_submission
from kernelcup.app.results.standings import personal_best, rankings, revision, standings
from kernelcup.domain import OPERATOR
from kernelcup.errors import Conflict, InvalidValue, NotFound
from kernelcup.http.pages.boards.boards import head_of
from kernelcup.launchers.base import MachineReading


class Stage:
    """Two machines of different drivers, and submissions that both judge."""

    def __init__(self, db, *, duel: bool = False) -> None:
        self.db = db
        self.board = make_board(db, devices=["H100"], duel=duel)
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


def ranks(stage: Stage) -> list[tuple[str, int, str, bool]]:
    """The driver, rank and user of each place, and whether its rank is shared."""
    places = standings(stage.db, stage.board.name, "H100")
    return [(driver_of(each.host_class), each.rank, each.user, each.tied) for each in places]


def driver_of(host_class: str) -> str:
    return host_class.split("; ")[1] if host_class else ""


def test_classes_that_were_not_compared_rank_for_themselves_and_no_tie_crosses_them(stage: Stage) -> None:
    for user, machine, time_ns in (("ada", "old", 900.0), ("bob", "new", 901.0), ("eve", "old", 2000.0)):
        make_submission(stage.db, devices=["H100"], user=user)
        stage.judge(machine, time_ns)
    assert ranks(stage) == [
        ("driver 550", 1, "ada", False),
        ("driver 550", 2, "eve", False),
        ("driver 580", 1, "bob", False),
    ]
    head = head_of(stage.db, stage.board.name, "H100", viewer=OPERATOR, now=NOW)
    assert [driver_of(each) for each in head.classes] == ["driver 550", "driver 580"]
    newer = standings(stage.db, stage.board.name, "H100", host_class=head.classes[1])
    assert [(each.rank, each.user) for each in newer] == [(1, "bob")]


def test_pages_of_split_rankings_fit_together(stage: Stage) -> None:
    for number in range(6):
        make_submission(stage.db, devices=["H100"], user=f"user-{number}")
        stage.judge("old" if number % 2 else "new", 1000.0 * (number + 1))
    whole = standings(stage.db, stage.board.name, "H100")
    pages = [standings(stage.db, stage.board.name, "H100", limit=2, offset=at) for at in (0, 2, 4)]
    assert [each for page in pages for each in page] == whole
    assert [each.rank for each in whole] == [1, 2, 3, 1, 2, 3]


def test_a_user_has_a_place_in_the_ranking_of_each_class(stage: Stage) -> None:
    for machine, time_ns in (("old", 900.0), ("new", 800.0), ("old", 700.0)):
        make_submission(stage.db, devices=["H100"], user="ada")
        stage.judge(machine, time_ns)
    assert ranks(stage) == [("driver 550", 1, "ada", False), ("driver 580", 1, "ada", False)]
    make_submission(stage.db, devices=["H100"], user="bob")
    stage.judge("new", 500.0)
    mine = personal_best(stage.db, stage.board.name, "H100", "ada")
    assert mine is not None
    assert (driver_of(mine.host_class), mine.rank) == ("driver 550", 1)


def test_classes_that_agree_share_a_ranking_until_they_are_found_different(stage: Stage) -> None:
    make_submission(stage.db, devices=["H100"], user="first")
    stage.judge("old", 900.0)
    assert ranks(stage) == [("", 1, "first", False)]
    for user in ("ada", "bob", "eve"):
        stage.both(user, 1000.0, 1000.0)
    assert {driver for driver, *_ in ranks(stage)} == {"driver 550", "driver 580"}
    before = revision(stage.db, stage.board.name, "H100")
    compare(stage.db, "new", "old", now=NOW)
    assert revision(stage.db, stage.board.name, "H100") != before
    assert [(rank, user) for _, rank, user, _ in ranks(stage)] == [
        (1, "first"),
        (2, "ada"),
        (2, "bob"),
        (2, "eve"),
    ]
    assert {driver for driver, *_ in ranks(stage)} == {""}
    make_submission(stage.db, devices=["H100"], user="kim")
    stage.judge("new", 500.0)  # a new result of a class that agrees is in the same ranking at once
    assert ranks(stage)[0] == ("", 1, "kim", False)
    stage.both("max", 1000.0, 1500.0)
    compare(stage.db, "old", "new", now=NOW)
    assert {driver for driver, *_ in ranks(stage)} == {"driver 550", "driver 580"}


def test_a_class_that_agrees_with_a_part_of_a_group_only_stays_outside(stage: Stage) -> None:
    with stage.db.write(durable=True) as session:
        for pair in (("A", "B"), ("B", "C")):
            agreements.put(session, pair, device="H100", agrees=True, now=NOW)
        assert agreements.groups(session) == {("H100", "A"): "A or B", ("H100", "B"): "A or B"}
        agreements.put(session, ("C", "A"), device="H100", agrees=True, now=NOW)
        assert set(agreements.groups(session).values()) == {"A or B or C"}


def test_a_final_waits_until_the_classes_agree(stage: Stage) -> None:
    for user, machine in (("ada", "old"), ("bob", "new")):
        make_submission(stage.db, devices=["H100"], user=user)
        stage.judge(machine, 900.0)
    change = BoardChanges(deadline=NOW + timedelta(hours=1))
    update_board(stage.db, OPERATOR, stage.board.name, changes=change, now=NOW)
    with pytest.raises(Conflict, match="2 classes"):
        finals.start(stage.db, OPERATOR, stage.board.name, now=NOW + timedelta(days=1))


def test_a_duel_against_the_leader_of_another_class_decides_nothing(db) -> None:
    stage = Stage(db, duel=True)
    make_submission(stage.db, devices=["H100"], user="ada")
    stage.judge("old", 900.0)
    make_submission(stage.db, devices=["H100"], user="bob")
    stage.judge("new", 800.0)
    assert ranks(stage) == [("driver 550", 1, "ada", False), ("driver 580", 1, "bob", False)]


def test_after_an_update_of_the_driver_a_duel_is_not_held_against_the_old_classs_leader(db) -> None:
    stage = Stage(db, duel=True)
    machines.change(stage.db, "new", is_draining=True, now=NOW)
    make_submission(stage.db, devices=["H100"], user="ada")
    stage.judge("old", 900.0)
    for name in ("old", "new"):
        facts = {"gpus": ["H100"], "driver": "600", "cores": 16, "memory_gib": 128}
        found = [MachineReading(name=name, slots={"H100": 1}, facts=facts)]
        machines.note_seen(stage.db, found, launcher="fake", is_own=True, now=NOW)
    rivals = []
    for user, time_ns in (("bob", 950.0), ("eve", 800.0)):
        submission = make_submission(stage.db, devices=["H100"], user=user)
        with stage.db.read() as session:
            rivals.append(find_rival(session, submission.new_jobs[0], submission, stage.board))
        stage.judge("old", time_ns)
    assert [each and each.submission_id for each in rivals] == [None, 2]


def test_machines_without_a_common_device_cannot_be_compared(stage: Stage) -> None:
    with pytest.raises(NotFound, match="no machine 'nothing'"):
        compare(stage.db, "old", "nothing", now=NOW)
    with pytest.raises(InvalidValue, match="both have: H100"):
        compare(stage.db, "old", "new", device="L4", now=NOW)


def test_machines_that_are_not_known_have_a_ranking_of_their_own(stage: Stage) -> None:
    for user, machine, time_ns in (("ada", "old", 900.0), ("bob", "removed", 500.0), ("eve", "old", 2000.0)):
        make_submission(stage.db, devices=["H100"], user=user)
        stage.judge(machine, time_ns)
    found = rankings(stage.db, stage.board.name, "H100")
    assert [[(each.rank, each.user) for each in table] for table in found] == [
        [(1, "ada"), (2, "eve")],
        [(1, "bob")],
    ]
    assert found[1][0].host_class == "unknown machines"
