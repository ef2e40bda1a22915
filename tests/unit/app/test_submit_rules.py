from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from sqlalchemy import func, select, update

from builders import NOW, SUBMISSION, make_actor, make_board, make_device, make_submission
from kernelcup import errors
from kernelcup.app.boards.late_exceptions import grant_late, late_exceptions, revoke_late
from kernelcup.app.boards.queries import boards
from kernelcup.app.boards.queries import late_exceptions as exceptions
from kernelcup.app.machines import dispatchers
from kernelcup.app.people.queries import users
from kernelcup.app.rules.pauses import list_pauses, pause, unpause
from kernelcup.domain import OPERATOR, AfterDeadline, Role, Scope, Visibility
from kernelcup.tables import EventRow, JobRow, SubmissionRow, UserRow
from kernelcup_harness.protocol import Mode

HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)


def count(db, table=SubmissionRow) -> int:
    with db.read() as session:
        return session.execute(select(func.count()).select_from(table)).scalar_one()


def ban(db, name: str, reason: str = "") -> None:
    with db.write() as session:
        session.execute(update(UserRow).where(UserRow.name == name).values(banned_at=NOW, ban_reason=reason))


def in_file(board: str) -> bytes:
    return f"#!POPCORN leaderboard {board}\n{SUBMISSION}".encode()


def test_a_submission_says_whose_it_is_and_which_door_it_took(db) -> None:
    make_board(db)
    submission = make_submission(db, user=make_actor(db, "ada"), client="api")
    assert (submission.user, submission.client) == ("ada", "api")
    with db.read() as session:
        (event,) = session.scalars(select(EventRow))
    assert (event.submission_id, event.kind) == (submission.id, "accepted")


def test_a_token_without_the_scope_and_nobody_are_refused(db) -> None:
    make_board(db)
    with pytest.raises(errors.ScopeMissing):
        make_submission(db, user=dataclasses.replace(make_actor(db, "ada"), scopes=frozenset({Scope.READ})))
    with pytest.raises(errors.SignInNeeded):
        make_submission(db, user=OPERATOR)
    assert count(db) == 0


@pytest.mark.parametrize("user", ["ada", "ADA", "actor"])
def test_a_banned_user_is_refused_with_the_reason(db, user: str) -> None:
    make_board(db)
    actor = make_actor(db, "ada")
    ban(db, "ada", "copied code")
    with pytest.raises(errors.Banned, match="copied code"):
        make_submission(db, user=actor if user == "actor" else user)
    assert count(db) == 0


def test_a_ban_comes_before_all_that_is_said_of_the_file_and_the_board(db) -> None:
    actor = make_actor(db, "ada")
    ban(db, "ada")
    pause(db, OPERATOR, scope="service", now=NOW)
    with pytest.raises(errors.Banned):
        make_submission(db, user=actor, content=b"", board="triple")


def test_somebody_whose_account_is_gone_is_refused(db) -> None:
    make_board(db)
    gone = dataclasses.replace(make_actor(db, "ada"), user_id=4711)
    with pytest.raises(errors.SignInNeeded):
        make_submission(db, user=gone)


@pytest.mark.parametrize("name", ["secret", "SECRET"])
def test_a_closed_board_does_not_exist_for_outsiders(db, name: str) -> None:
    make_board(db, name="secret", visibility=Visibility.CLOSED)
    eve = make_actor(db, "eve")
    with pytest.raises(errors.NotFound) as missing:
        make_submission(db, user=eve, board="nothing", file_name="kernel.txt")
    for asked in ({"board": name}, {"content": in_file(name)}):
        with pytest.raises(errors.NotFound) as hidden:
            make_submission(db, user=eve, file_name="kernel.txt", **asked)
        assert str(hidden.value) == str(missing.value).replace("nothing", name)


def test_a_closed_board_is_not_guessed_for_outsiders(db) -> None:
    make_board(db, name="secret", visibility=Visibility.CLOSED)
    eve = make_actor(db, "eve")
    with pytest.raises(errors.LeaderboardNeeded):
        make_submission(db, user=eve)
    grace = make_actor(db, "grace", role=Role.CREATOR)
    assert make_submission(db, user=grace).leaderboard == "secret"  # it is hers
    make_board(db, name="open")
    assert make_submission(db, user=eve).leaderboard == "open"


def test_a_board_may_take_smaller_files_only(db) -> None:
    make_board(db, max_file_bytes=100)
    assert make_submission(db, content=b"#" * 100).id
    with pytest.raises(errors.FileTooLarge, match="101 bytes; leaderboard 'double' allows 100"):
        make_submission(db, content=b"#" * 101)


@pytest.mark.parametrize("mode", list(Mode))
def test_managers_may_practise_before_opening_and_after_the_deadline(db, mode: Mode) -> None:
    make_board(db, opens_at=NOW + HOUR, deadline=NOW + 2 * HOUR, after_deadline=AfterDeadline.CLOSED)
    grace = make_actor(db, "grace", role=Role.CREATOR)
    for now, error in ((NOW, errors.NotOpenYet), (NOW + 3 * HOUR, errors.DeadlinePassed)):
        with pytest.raises(error):
            make_submission(db, user="ada", mode=mode, now=now)
        if mode is Mode.LEADERBOARD:
            with pytest.raises(error):
                make_submission(db, user=grace, mode=mode, now=now)
        else:
            assert make_submission(db, user=grace, mode=mode, now=now).id


def test_an_exception_lets_one_user_submit_for_longer(db) -> None:
    make_board(db, deadline=NOW + HOUR)
    make_actor(db, "ada")
    until = NOW + 2 * HOUR
    grant_late(db, OPERATOR, "DOUBLE", "ADA", until, now=NOW)
    assert make_submission(db, user="ada", now=until).id
    with pytest.raises(errors.DeadlinePassed, match="14:00:00"):
        make_submission(db, user="ada", now=until + SECOND)
    with pytest.raises(errors.DeadlinePassed, match="13:00:00"):
        make_submission(db, user="bob", now=until)
    assert [(each.user, each.until) for each in late_exceptions(db, OPERATOR, "double")] == [("ada", until)]
    revoke_late(db, OPERATOR, "double", "ada", now=NOW)
    with pytest.raises(errors.DeadlinePassed):
        make_submission(db, user="ada", now=until)
    with pytest.raises(errors.NotFound):
        revoke_late(db, OPERATOR, "double", "ada", now=NOW)


def test_an_exception_that_ends_before_the_deadline_shortens_nothing(db) -> None:
    make_board(db, deadline=NOW + 2 * HOUR)
    make_actor(db, "ada")
    with db.write() as session:  # of a deadline that was earlier
        board, ada = boards.find(session, "double"), users.find_name(session, "ada")
        exceptions.put(session, board_id=board.id, user_id=ada[0], until=NOW + HOUR)
    assert make_submission(db, user="ada", now=NOW + 2 * HOUR).id


@pytest.mark.parametrize(
    ("until", "settings", "text"),
    [
        (NOW + HOUR, {"deadline": NOW + 2 * HOUR}, "is open until 2026-06-01 14:00:00 UTC for all"),
        (NOW + HOUR, {"visibility": Visibility.CLOSED}, "ada is not a member"),
    ],
)
def test_an_exception_that_allows_nothing_is_refused(db, until, settings, text: str) -> None:
    make_board(db, **settings)
    make_actor(db, "ada")
    with pytest.raises(errors.InvalidValue, match=text):
        grant_late(db, OPERATOR, "double", "ada", until, now=NOW)
    assert late_exceptions(db, OPERATOR, "double") == []


def test_exceptions_are_given_by_managers_only(db) -> None:
    make_board(db)
    ada = make_actor(db, "ada")
    with pytest.raises(errors.Forbidden):
        grant_late(db, ada, "double", "ada", NOW + HOUR, now=NOW)
    with pytest.raises(errors.InvalidValue):
        grant_late(db, OPERATOR, "double", "ada", NOW, now=NOW)
    with pytest.raises(errors.NotFound):
        grant_late(db, OPERATOR, "double", "zoe", NOW + HOUR, now=NOW)


@pytest.mark.parametrize("name", ["h100", "A100", "cpu"])
def test_a_device_is_paused_that_a_leaderboard_a_dispatcher_or_the_configuration_has(db, name: str) -> None:
    make_board(db, devices=["H100"])
    dispatchers.check_in(
        db, owner="elsewhere", devices=[make_device(name="A100")], started_at=NOW, draining=False, now=NOW
    )
    pause(db, OPERATOR, scope="device", key=name, known_devices=[make_device(name="cpu")], now=NOW)
    assert [paused.key.lower() for paused in list_pauses(db)] == [name.lower()]


def test_a_device_that_is_nowhere_is_not_paused(db) -> None:
    make_board(db, devices=["H100"])
    with pytest.raises(errors.NotFound, match="no device 'emulatd'; there are H100, emulated"):
        pause(
            db, OPERATOR, scope="device", key="emulatd", known_devices=[make_device(name="emulated")], now=NOW
        )
    assert list_pauses(db) == []


@pytest.mark.parametrize(
    ("scope", "key", "text"),
    [
        ("service", "", "The service"),
        ("leaderboard", "DOUBLE", "Leaderboard 'double'"),
        ("device", "h100", "The device H100"),
    ],
)
def test_what_is_paused_takes_nothing_until_it_is_not(db, scope: str, key: str, text: str) -> None:
    make_board(db, devices=["H100", "A100"])
    make_board(db, name="other")
    pause(db, OPERATOR, scope=scope, key=key, reason="repairs", now=NOW)
    pause(db, OPERATOR, scope=scope, key=key, reason="cooling", now=NOW + HOUR)
    with pytest.raises(errors.Paused, match=rf"{text} takes no submissions now: cooling"):
        make_submission(db, board="Double", devices=["A100", "H100"])
    (found,) = list_pauses(db)
    assert (found.scope, found.reason, found.since, found.by) == (scope, "cooling", NOW, "operator")
    unpause(db, OPERATOR, scope=scope, key=key, now=NOW)
    with pytest.raises(errors.NotFound):
        unpause(db, OPERATOR, scope=scope, key=key, now=NOW)
    assert make_submission(db, board="double", devices=["A100", "H100"]).id


def test_a_pause_stops_nothing_else(db) -> None:
    make_board(db, devices=["H100", "A100"])
    make_board(db, name="other")
    pause(db, OPERATOR, scope="leaderboard", key="other", now=NOW)
    pause(db, OPERATOR, scope="device", key="A100", now=NOW)
    assert make_submission(db, board="double", devices=["H100"]).id
    with pytest.raises(errors.Paused):
        make_submission(db, content=in_file("OTHER"))


def test_a_board_is_paused_by_its_manager_and_the_rest_by_admins(db) -> None:
    make_board(db, visibility=Visibility.CLOSED)
    grace, eve = make_actor(db, "grace", role=Role.CREATOR), make_actor(db, "eve", role=Role.CREATOR)
    pause(db, grace, scope="leaderboard", key="double", now=NOW)
    assert [each.key for each in list_pauses(db, grace)] == ["double"]
    assert list_pauses(db, eve) == []
    with pytest.raises(errors.NotFound):
        unpause(db, eve, scope="leaderboard", key="double", now=NOW)
    for scope, key in (("service", ""), ("device", "H100")):
        with pytest.raises(errors.Forbidden):
            pause(db, grace, scope=scope, key=key, now=NOW)
    for scope, key in (("planet", ""), ("service", "x"), ("device", "")):
        with pytest.raises(errors.InvalidValue):
            pause(db, OPERATOR, scope=scope, key=key, now=NOW)


def test_a_key_gives_the_first_submission_again(db) -> None:
    make_board(db, deadline=NOW + HOUR)
    first = make_submission(db, idempotency_key="k", board="double")
    again = make_submission(db, idempotency_key="k", board="DOUBLE", user="ADA", now=NOW + 2 * HOUR)
    assert again == first
    assert (count(db), count(db, JobRow), count(db, EventRow)) == (1, 1, 1)


@pytest.mark.parametrize(
    "other", [{"content": b"x = 1"}, {"mode": Mode.TEST}, {"file_name": "other.py"}, {"devices": ["H100"]}]
)
def test_a_key_belongs_to_one_request(db, other: dict[str, object]) -> None:
    make_board(db)
    make_submission(db, idempotency_key="k")
    with pytest.raises(errors.IdempotencyMismatch):
        make_submission(db, idempotency_key="k", **other)
    assert count(db) == 1


def test_a_key_belongs_to_one_user(db) -> None:
    make_board(db)
    first, second = (make_submission(db, idempotency_key="k", user=user) for user in ("ada", "bob"))
    assert first.id != second.id


@pytest.mark.parametrize("key", ["", "k" * 129, "a\nb", "schlüssel"])
def test_a_key_has_a_form(db, key: str) -> None:
    make_board(db)
    with pytest.raises(errors.InvalidValue, match="128 printable ASCII"):
        make_submission(db, idempotency_key=key)


def test_of_parallel_requests_with_one_key_one_is_stored(db) -> None:
    make_board(db)
    ada = make_actor(db, "ada")
    with ThreadPoolExecutor(10) as pool:
        asked = [pool.submit(make_submission, db, user=ada, idempotency_key="k") for _ in range(20)]
        ids = {each.result().id for each in asked}
    assert (len(ids), count(db), count(db, JobRow)) == (1, 1, 1)
