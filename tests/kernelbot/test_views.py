"""What reads KernelBot's tables finds the same over ours."""

from __future__ import annotations

import os

import pytest
from old_database import LATIN, ODD, ODD_PLACES, fill, old_database
from sqlalchemy import text
from typer.testing import CliRunner

from builders import NOW, make_board, make_device
from database_kinds import POSTGRES, autocommitting, postgres_database
from kernelcup.app.people import tokens
from kernelcup.engine import migrate
from kernelcup.engine.database import Database
from kernelcup.errors import Conflict, InvalidValue, SignInNeeded
from kernelcup_kernelbot import views
from kernelcup_kernelbot.commands import app as commands
from kernelcup_kernelbot.importing import run

pytestmark = pytest.mark.skipif(POSTGRES not in os.environ, reason="views are of PostgreSQL")
ON_POSTGRES = pytest.mark.parametrize("db_url", ["postgresql"], indirect=True)

SCHEMA = "old_site"
ZOE = "323456789012345678"

PLACES = """
SELECT l.name, r.runner, u.id, min(r.score)::float8 AS score,
       rank() OVER (PARTITION BY l.name, r.runner ORDER BY min(r.score)) AS place
FROM {0}.runs r
JOIN {0}.submission s ON s.id = r.submission_id
JOIN {0}.leaderboard l ON l.id = s.leaderboard_id
JOIN {0}.user_info u ON u.id = s.user_id
WHERE r.passed AND NOT r.secret AND r.score IS NOT NULL AND s.status <> 'hacked'
AND NOT EXISTS (SELECT FROM {0}.submission_job_status j WHERE j.submission_id = s.id AND j.status = 'hacked')
AND EXISTS (SELECT FROM {0}.runs o WHERE o.submission_id = s.id AND o.runner = r.runner AND o.secret
            AND o.mode = 'leaderboard' AND o.passed)
AND NOT EXISTS (SELECT FROM {0}.runs o WHERE o.submission_id = s.id AND o.runner = r.runner AND o.secret
                AND NOT o.passed)
GROUP BY l.name, r.runner, u.id ORDER BY 1, 2, 5, 3
"""
"""As the old site asks for the places of a leaderboard."""


@pytest.fixture
def made(db):
    """A database with views, which are removed afterwards."""
    views.make(db, SCHEMA)
    yield db
    views.remove(db, SCHEMA)


@pytest.fixture(scope="module")
def moved():
    """Another one with what KernelBot had, only to be read, and KernelBot's own places."""
    with postgres_database() as here, Database.open(here) as db, old_database() as there:
        migrate.upgrade(db)
        views.make(db, SCHEMA)
        run.bring(db, there, known=[make_device()], now=NOW)
        with autocommitting(there) as connection:
            yield db, connection.execute(text(PLACES.format("leaderboard"))).all()


def ask(db, query: str):
    with db.read() as session:
        return session.execute(text(query)).all()


def ask_after(db, change: str, query: str):
    """Return what is found after a change that is undone."""
    with db.write() as session:
        session.execute(text(change))
        found = session.execute(text(query)).all()
        session.rollback()
    return found


def test_the_old_query_gives_the_same_places(moved) -> None:
    db, before = moved
    assert {user: (place, score) for board, _, user, score, place in before if board == ODD} == ODD_PLACES
    assert len(before) == 14
    assert ask(db, PLACES.format(SCHEMA)) == before


def test_what_was_expelled_is_so_over_the_views(moved) -> None:
    db, _ = moved
    query = f"SELECT id, status FROM {SCHEMA}.submission WHERE status IS DISTINCT FROM 'active'"
    assert ask(db, query) == [(51, "hacked"), (52, "hacked"), (64, "hacked")]
    change = "UPDATE jobs SET state = 'rejected', reason = 'copied' WHERE submission_id = 16"
    here = ask_after(db, change, f"SELECT status FROM {SCHEMA}.submission WHERE id = 16")
    assert here == [("hacked",)]


def test_each_table_of_the_old_site_has_its_rows(moved) -> None:
    db, _ = moved
    sizes = {
        name: ask(db, f"SELECT count(*) FROM {SCHEMA}.{name}")[0][0]
        for name in (
            "user_info",
            "leaderboard",
            "gpu_type",
            "code_files",
            "submission",
            "submission_job_status",
        )
    }
    assert sizes == {
        "user_info": 23,  # with the creator of boards that KernelBot names no user for
        "leaderboard": 5,
        "gpu_type": 7,
        "code_files": 4,
        "submission": 29,
        "submission_job_status": 29,
    }


def test_code_is_joined_and_whole(moved) -> None:
    db, _ = moved
    joined = f"SELECT c.code FROM {SCHEMA}.submission s JOIN {SCHEMA}.code_files c ON c.id = s.code_id WHERE s.id = "
    assert bytes(ask(db, joined + "16")[0][0]) == LATIN
    assert bytes(ask(db, joined + "10")[0][0]) == b"# one\n"


def test_logs_of_a_run_are_filled(moved) -> None:
    db, _ = moved
    rows = ask(db, f"SELECT mode, passed, result, meta FROM {SCHEMA}.runs WHERE submission_id = 18")
    ((mode, passed, result, meta),) = rows
    assert (mode, passed, meta["stdout"]) == ("test", False, "hello")
    assert result == {
        "test-count": "1",
        "test.0.spec": "size: 16; seed: 1",
        "test.0.status": "fail",
        "test.0.error": "mismatch\nat 3",
        "check": "fail",
    }
    ranked = ask(db, f"SELECT result FROM {SCHEMA}.runs WHERE submission_id = 10 AND mode = 'leaderboard'")[
        0
    ][0]
    assert float(ranked["benchmark.0.mean"]) == pytest.approx(2e6)


def test_the_export_finds_a_passed_run_as_secret_too(moved) -> None:
    db, _ = moved
    rows = ask(
        db, f"SELECT secret, score FROM {SCHEMA}.runs WHERE submission_id = 10 AND mode = 'leaderboard'"
    )
    assert sorted(secret for secret, _ in rows) == [False, True]
    assert len({score for _, score in rows}) == 1


def test_the_task_has_the_files_and_no_secret(moved) -> None:
    db, _ = moved
    task, seed = ask(db, f"SELECT task, secret_seed FROM {SCHEMA}.leaderboard WHERE name = 'vectoradd'")[0]
    assert seed is None
    assert task["files"]["submission.py"] == "@SUBMISSION@"
    assert (task["config"], task["ranked_timeout"]) == ({"main": "eval.py"}, 300)


def test_a_result_that_does_not_count_has_no_score(moved) -> None:
    db, _ = moved
    change = "UPDATE jobs SET state = 'rejected' WHERE submission_id = 16"
    rows = ask_after(
        db, change, f"SELECT score FROM {SCHEMA}.runs WHERE submission_id = 16 AND mode = 'leaderboard'"
    )
    assert {score for (score,) in rows} == {None}


def test_results_after_a_freeze_are_not_shown(moved) -> None:
    db, _ = moved
    change = "UPDATE leaderboards SET freeze_at = '2026-05-01 13:30+00' WHERE name = 'vectoradd'"
    found = ask_after(
        db, change, f"SELECT submission_id FROM {SCHEMA}.runs WHERE score > 0 AND submission_id < 50"
    )
    assert {submission for (submission,) in found} == {10, 12, 20, 21, 22}


@ON_POSTGRES
def test_the_sites_sign_in_makes_a_user_once(made) -> None:
    insert = f"INSERT INTO {SCHEMA}.user_info (id, user_name, web_auth_id) VALUES ('{ZOE}', '{{}}', '{{}}')"
    for name, secret in (("Zoë 🚀", "first"), ("Zoë", "second")):
        with made.write() as session:
            session.execute(text(insert.format(name, secret)))
    assert tokens.authenticate(made, "second", now=NOW).name == "Zo"
    with pytest.raises(SignInNeeded):
        tokens.authenticate(made, "first", now=NOW)
    with made.write() as session:
        session.execute(
            text(f"UPDATE {SCHEMA}.user_info SET web_auth_id = 'third' WHERE id = '323456789012345678'")
        )
    assert tokens.authenticate(made, "third", now=NOW).name == "Zo"
    assert ask(made, "SELECT provider, count(*) FROM identities GROUP BY 1") == [("discord", 1)]


@ON_POSTGRES
def test_views_are_made_and_removed_twice(db, db_url, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("KERNELCUP_HOME", str(tmp_path))
    monkeypatch.setenv("KERNELCUP_DATABASE", db_url)
    for _ in range(2):
        for options, said in (([], "seven views"), ([], "seven views"), (["--remove"], "is removed")):
            found = CliRunner().invoke(commands, ["views", *options])
            assert (found.exit_code, said in found.output) == (0, True), found.output
    assert "nothing was changed" in CliRunner().invoke(commands, ["views", "--remove"]).output


@ON_POSTGRES
def test_kernelbots_own_schema_is_left_alone(db) -> None:
    make_board(db)
    with db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        fill(connection)
    try:
        for change in (views.make, views.remove):
            with pytest.raises(Conflict, match="Rename it"):
                change(db, "leaderboard")
        views.make(db, SCHEMA)
        assert views.remove(db, SCHEMA)
    finally:
        with db.write() as session:
            session.execute(text("DROP SCHEMA leaderboard CASCADE"))


@ON_POSTGRES
def test_kernelbots_tables_come_from_the_same_database_too(db) -> None:
    with db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        fill(connection)
    try:
        url = db.engine.url.render_as_string(hide_password=False)
        assert run.bring(db, url, known=[make_device()], now=NOW).differences == []
    finally:
        with db.write() as session:
            session.execute(text("DROP SCHEMA leaderboard CASCADE"))


@ON_POSTGRES
def test_a_name_that_is_none_is_refused(db) -> None:
    with pytest.raises(InvalidValue, match="small letters"):
        views.make(db, 'x"; DROP')
