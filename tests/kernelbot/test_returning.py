"""The way back: KernelBot's tables get what came here since the switch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from side_by_side import ADA, BOB, running_kernelbot
from side_by_side import submit as submit_there
from sqlalchemy import Connection, text
from test_views import PLACES

from builders import NOW, make_board, make_report
from database_kinds import POSTGRES
from kernelcup.app.people import tokens
from kernelcup.app.people.accounts import sign_in
from kernelcup.app.people.queries import users
from kernelcup.app.submissions.submit import submit
from kernelcup.domain import Actor, Role
from kernelcup_harness.protocol import Mode, Verdict
from kernelcup_kernelbot.importing.source import opened
from kernelcup_kernelbot.returning import Returned, give_back

pytestmark = [
    pytest.mark.skipif(POSTGRES not in os.environ, reason="KernelBot's database is PostgreSQL"),
    pytest.mark.parametrize("db_url", ["sqlite"], indirect=True),
]


@pytest.fixture
def old() -> Iterator[tuple[str, Connection]]:
    with running_kernelbot() as each:
        yield each


@pytest.fixture
def send(db: Any) -> Any:
    """Return what submits a ranked file here, in the name of an account elsewhere."""
    make_board(db, name="double", devices=["H100"])

    def give(subject: str, code: str, *, board: str = "double", provider: str = "discord") -> int:
        number = sign_in(db, provider=provider, subject=subject, login=f"user-{subject[:4]}", now=NOW)
        with db.read() as session:
            user = users.get(session, number)
        author = Actor(
            user_id=number, name=user.name, role=user.role, scopes=tokens.scopes_of(Role.PARTICIPANT)
        )
        made = submit(
            db,
            user=author,
            file_name="kernel.py",
            content=code.encode(),
            mode=Mode.LEADERBOARD,
            now=NOW,
            board=board,
            devices=["H100"],
        )
        return made.id

    return give


def bring_back(old: Any, db: Any, **given: Any) -> Returned:
    with opened(old[0], writes=True) as source:
        return give_back(source, db, **({"since": NOW, "gpus": {}} | given))


def counts(kernelbot: Connection) -> dict[str, int]:
    names = ("user_info", "code_files", "submission", "runs", "submission_job_status")
    return {name: kernelbot.scalar(text(f"SELECT count(*) FROM leaderboard.{name}")) for name in names}


def test_what_came_since_the_switch_has_its_place_there(old, db, send, finish) -> None:
    _, kernelbot = old
    submit_there(kernelbot, b"x = 1\n", user=ADA, score=3e-6)
    send(ADA, "x = 1\n")
    finish(make_report((2500.0,)))
    send("4444", "x = 2\n", provider="github")
    finish(make_report((1000.0,)))
    send(BOB, "wrong\n", provider="github")
    finish(make_report(verdict=Verdict.WRONG_ANSWER))
    found = bring_back(old, db, gpus={"h100": "H100_SXM"})
    assert (found.written["user_info"], found.written["code_files"], found.written["submission"]) == (1, 2, 3)
    places = kernelbot.execute(text(PLACES.format("leaderboard")))
    assert [(user, pytest.approx(score)) for _, gpu, user, score, _ in places if gpu == "H100_SXM"] == [
        ("4444", 1e-6),
        (ADA, 2.5e-6),
    ]
    assert set(kernelbot.scalars(text("SELECT DISTINCT status FROM leaderboard.submission"))) == {"active"}
    runners = set(kernelbot.scalars(text("SELECT DISTINCT runner FROM leaderboard.runs")))
    assert runners == {"h100", "H100_SXM"}
    states = kernelbot.execute(
        text("SELECT status, error FROM leaderboard.submission_job_status ORDER BY id")
    )
    assert [(status, bool(error)) for status, error in states] == [
        ("succeeded", False),
        ("succeeded", False),
        ("failed", True),
    ]


def test_what_was_rejected_here_is_expelled_there_and_times_keep_their_digits(old, db, send, finish) -> None:
    for number, time_ns in enumerate((1000.0000000000001, 2000.0)):
        send(ADA, f"x = {number}\n")
        finish(make_report((time_ns,)))
    with db.write() as session:
        session.execute(text("UPDATE jobs SET state = 'rejected' WHERE id = 2"))
        (score,) = session.execute(text("SELECT score_s FROM runs WHERE job_id = 1")).one()
    bring_back(old, db)
    statuses = old[1].scalars(text("SELECT status FROM leaderboard.submission ORDER BY id")).all()
    assert statuses == ["active", "hacked"]
    assert {float(row.score) for row in old[1].execute(text(PLACES.format("leaderboard")))} == {score}
    stored = old[1].scalars(text("SELECT score FROM leaderboard.runs WHERE score IS NOT NULL")).all()
    assert {float(each) for each in stored} == {score}


def test_a_second_run_adds_nothing(old, db, send, finish) -> None:
    send(ADA, "x = 1\n")
    finish(make_report((1000.0,)))
    bring_back(old, db)
    before = counts(old[1])
    found = bring_back(old, db)
    assert (found.there_already, sum(found.written.values())) == (1, 0)
    assert counts(old[1]) == before


@pytest.mark.jobs
def test_a_dry_run_counts_and_writes_nothing(old, db, send, finish) -> None:
    send("4444", "x = 1\n")
    finish(make_report((1000.0,)))
    before = counts(old[1])
    found = bring_back(old, db, dry_run=True)
    assert (found.written["submission"], found.written["user_info"]) == (1, 1)
    assert counts(old[1]) == before
    next_number = text("SELECT last_value, is_called FROM leaderboard.submission_id_seq")
    assert tuple(old[1].execute(next_number).one()) == (1, False)


@pytest.mark.jobs
def test_numbers_are_kept_where_they_are_free(old, db, send, finish) -> None:
    _, kernelbot = old
    submit_there(kernelbot, b"theirs = 1\n")
    mine = [send(ADA, "x = 1\n"), send(ADA, "x = 2\n")]
    for _ in mine:
        finish(make_report((1000.0,)))
    assert mine == [1, 2]
    assert bring_back(old, db).renumbered == [(1, 2), (2, 3)]
    assert submit_there(kernelbot, b"theirs = 2\n") == 4


@pytest.mark.jobs
def test_an_error_leaves_the_tables_as_they_were(old, db, send, finish) -> None:
    _, kernelbot = old
    for number in range(2):
        send(ADA, f"x = {number}\n")
        finish(make_report((1000.0,)))
    kernelbot.execute(text("ALTER TABLE leaderboard.submission ADD CHECK (id < 2)"))
    before = counts(kernelbot)
    with pytest.raises(Exception, match="violates check constraint"):
        bring_back(old, db)
    assert counts(kernelbot) == before


@pytest.mark.jobs
def test_what_kernelbot_cannot_have_is_counted_with_the_reason(old, db, send, finish) -> None:
    make_board(db, name="new-one", devices=["H100"])
    send(ADA, "x = 1\n", board="new-one")
    finish(make_report((1000.0,)))
    send("4242", "x = 1\n", provider="school")
    finish(make_report((1000.0,)))
    send(ADA, "open = 1\n")
    found = bring_back(old, db)
    assert sum(found.written.values()) == 0
    assert sorted(found.left_out) == [
        "KernelBot has no such leaderboard",
        "its author has no account at Discord or GitHub",
        "not judged yet: run this again when it is",
    ]
    finish(make_report((1000.0,)))
    assert bring_back(old, db).written["submission"] == 1


@pytest.mark.jobs
def test_a_leaderboard_that_the_import_renamed_is_found(old, db, send, finish) -> None:
    old[1].execute(text("UPDATE leaderboard.leaderboard SET name = 'double trouble' WHERE name = 'double'"))
    make_board(db, name="double-trouble", devices=["H100"])
    send(ADA, "x = 1\n", board="double-trouble")
    finish(make_report((1000.0,)))
    assert bring_back(old, db).written["submission"] == 1


@pytest.mark.jobs
def test_what_came_before_the_switch_or_from_kernelbot_stays_out(old, db, send, finish, clock) -> None:
    send(ADA, "x = 1\n")
    finish(make_report((1000.0,)))
    clock.advance(60)
    assert sum(bring_back(old, db, since=clock()).written.values()) == 0
