from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import func, select

from builders import NOW, make_board, make_device, make_submission, make_task
from kernelcup.domain import Language
from kernelcup.errors import Conflict, InvalidValue, NotFound
from kernelcup.services import boards
from kernelcup.storage.tables import Base, UserRow
from kernelcup_harness.protocol import HarnessKind


def count(db, table) -> int:
    with db.read() as session:
        return session.execute(select(func.count()).select_from(table)).scalar_one()


def test_a_board_is_returned_as_it_was_made(db) -> None:
    made = make_board(db, devices=["H100", "A100"], deadline=NOW + timedelta(days=1))
    assert made.devices == ("H100", "A100")
    assert made.creator == "grace"
    assert boards.get_board(db, "double") == made
    assert boards.list_boards(db) == [made]


def test_the_task_of_a_board_comes_back_whole(db) -> None:
    task = make_task(hidden_tests=[{"size": 7, "flag": True, "names": ["a"], "scale": 0.5}])
    make_board(db, task=task)
    assert boards.get_task(db, "double") == task


def test_a_name_is_found_in_any_case_and_taken_in_any_case(db) -> None:
    make_board(db, name="Double")
    assert boards.get_board(db, "dOUBLE").name == "Double"
    with pytest.raises(Conflict, match="already"):
        make_board(db, name="double")


def test_an_unknown_board_is_not_found(db) -> None:
    with pytest.raises(NotFound, match="'triple'"):
        boards.get_board(db, "triple")


@pytest.mark.parametrize("name", ["a", "amd-fp8-mm", "grayscale_v2", "v1.2", "9", "a" * 64, "submitted"])
def test_common_names_are_taken(name: str) -> None:
    boards.check_board_name(name)


@pytest.mark.parametrize(
    "name",
    [
        *("", "a b", "a/b", "ä", "-rf", ".", "..", ".hidden", "a" * 65, "a\n", "a%20"),
        *("health", "Submission", "leaderboards", "GPUS", "user", "admin", "auth", "docs", "api"),
        *("b", "s", "u", "static", "openapi.json", "events", "healthz", "metrics", "submission_count"),
    ],
)
def test_names_that_could_not_be_addressed_are_refused(name: str) -> None:
    with pytest.raises(InvalidValue):
        boards.check_board_name(name)


def test_devices_are_written_as_they_are_configured(db) -> None:
    known = [make_device(name="H100"), make_device(name="emulated")]
    made = make_board(db, devices=["h100", "EMULATED", "H100"], known_devices=known)
    assert made.devices == ("H100", "emulated")


def test_a_device_that_is_not_configured_is_refused_with_those_that_are(db) -> None:
    with pytest.raises(InvalidValue, match="'B200' is not configured here; there are: H100"):
        make_board(db, devices=["B200"], known_devices=[make_device()])


def test_a_board_needs_a_device(db) -> None:
    with pytest.raises(InvalidValue, match="at least one device"):
        make_board(db, devices=[])


def test_a_deadline_must_be_ahead_and_after_the_opening(db) -> None:
    with pytest.raises(InvalidValue, match="over already"):
        make_board(db, deadline=NOW)
    with pytest.raises(InvalidValue, match="not after the opening"):
        make_board(db, opens_at=NOW + timedelta(days=2), deadline=NOW + timedelta(days=1))


def test_the_harness_is_what_the_task_asks_for_unless_said_otherwise(db) -> None:
    task = make_task(harness=HarnessKind.OWN, main="eval.py")
    assert make_board(db, task=task).harness is HarnessKind.OWN
    assert make_board(db, name="b2", task=task, harness=HarnessKind.STANDARD).harness is HarnessKind.STANDARD


def test_a_task_without_a_harness_cannot_be_judged_by_its_own(db) -> None:
    with pytest.raises(InvalidValue, match="no harness of its own"):
        make_board(db, harness=HarnessKind.OWN)


def test_the_harness_of_a_cuda_task_is_not_in_main(db) -> None:
    made = make_board(db, task=make_task(lang=Language.CUDA), harness=HarnessKind.OWN)
    assert made.harness is HarnessKind.OWN


def test_deleting_a_board_leaves_nothing_but_people(db) -> None:
    make_board(db)
    make_submission(db)
    boards.delete_board(db, "DOUBLE")
    left = {table.name for table in Base.metadata.sorted_tables if count(db, table)}
    assert left == {UserRow.__tablename__}


def test_deleting_a_board_spares_what_another_one_uses(db) -> None:
    make_board(db)
    make_board(db, name="other")
    make_submission(db, board="double")
    kept = make_submission(db, board="other")
    boards.delete_board(db, "double")
    assert boards.get_task(db, "other") == make_task()
    assert kept.leaderboard == "other"
    with pytest.raises(NotFound):
        boards.delete_board(db, "double")
