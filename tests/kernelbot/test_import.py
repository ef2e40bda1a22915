"""KernelBot's tables come over: once, with all their oddities, and with the places that they had."""

from __future__ import annotations

import base64
import json
import os
import shutil
from datetime import timedelta

import pytest
from old_database import (
    ADA,
    BOB,
    EVE,
    LATIN,
    ODD,
    ODD_PLACES,
    ODD_ROWS,
    OPEN,
    PENDING,
    THEN,
    old_database,
    ranked,
)
from sqlalchemy import func, select, text
from typer.testing import CliRunner

from builders import NOW, make_board, make_device
from database_kinds import POSTGRES, autocommitting
from kernelcup.app.boards.boards import get_board
from kernelcup.app.news import newsroom
from kernelcup.app.people import accounts, tokens
from kernelcup.app.results import standings, table
from kernelcup.app.submissions import submissions as service
from kernelcup.domain import OPERATOR, Visibility
from kernelcup.engine.database import Database
from kernelcup.errors import Conflict, InvalidValue, SignInNeeded
from kernelcup.tables import (
    Base,
    CodeRow,
    IdentityRow,
    InviteRow,
    JobRow,
    LeaderboardRow,
    LimitRow,
    MemberRow,
    NewsRow,
    RecordRow,
    ReviewRow,
    RunRow,
    SubmissionRow,
    UserRow,
)
from kernelcup_kernelbot.commands import app as commands
from kernelcup_kernelbot.importing import run
from kernelcup_kernelbot.importing.imported import BROUGHT
from kernelcup_kernelbot.importing.submissions import ROOM
from service import client

__all__ = ["client"]

pytestmark = pytest.mark.skipif(POSTGRES not in os.environ, reason="KernelBot's database is PostgreSQL")

KNOWN = [make_device(), make_device(name="MI300")]


@pytest.fixture
def old():
    """The URL of a KernelBot database."""
    with old_database() as url:
        yield url


@pytest.fixture
def bring(db, old):
    """Return what imports it."""

    def do(**options):
        return run.bring(db, old, **({"known": KNOWN, "now": NOW} | options))

    return do


@pytest.fixture(scope="module")
def brought(sqlite_template, tmp_path_factory):
    """A database with what was imported, only to be read, and what the import told."""
    path = shutil.copy(sqlite_template, tmp_path_factory.mktemp("brought") / "test.db")
    with old_database() as url, Database.open(f"sqlite:///{path}") as db:
        yield db, run.bring(db, url, known=KNOWN, now=NOW)


def counts(db) -> dict[str, int]:
    """Return the number of rows of each table."""
    with db.read() as session:
        return {
            each.name: session.scalar(select(func.count()).select_from(each))
            for each in Base.metadata.sorted_tables
        }


def unjudged(found) -> list[str]:
    """Return why tasks cannot be judged here."""
    return found.notes["closed, its task cannot be judged here"]


def rows(db, query):
    with db.read() as session:
        return session.execute(query).all()


def test_all_places_are_as_before(brought) -> None:
    db, found = brought
    assert (found.places, found.differences) == (14, [])
    first = standings.standings(db, "vectoradd", "H100", viewer=OPERATOR)
    placed = [(each.rank, each.submission_id, each.score_s) for each in first]
    assert placed == [(1, 16, 1.2e-3), (2, 12, 1.5e-3), (3, 19, 3.0e-3)]
    assert set(rows(db, select(RunRow.host_class))) == {("KernelBot",)}
    assert {each.trust for each in first} == {"self-measured"}


def test_odd_rows_have_the_places_that_kernelbot_gave_them(brought) -> None:
    db, _ = brought
    first = standings.standings(db, ODD, "H100", viewer=OPERATOR)
    assert {each.user: (each.rank, each.score_s) for each in first} == ODD_PLACES


def test_a_result_that_does_not_rank_there_is_rejected_with_the_reason(brought) -> None:
    db, _ = brought
    query = select(UserRow.name, JobRow.reason).join(UserRow, UserRow.id == JobRow.user_id)
    found = rows(db, query.where(JobRow.state == "rejected").order_by(JobRow.id))
    assert dict(map(tuple, found)) == {
        "u02": "expelled at KernelBot",
        "u03": "expelled at KernelBot",
        "u04": "failed a secret run at KernelBot",
        "u05": "no secret run of it passed at KernelBot",
        "u06": "failed a secret run at KernelBot",
        "u07": "failed a secret run at KernelBot",
        "u13": "no secret run of it passed at KernelBot",
        "u15": "expelled at KernelBot",
    }
    reviewed = rows(db, select(JobRow.submission_id, ReviewRow.decision).join(ReviewRow))
    assert {tuple(each) for each in reviewed} == {(51, "rejected"), (52, "rejected"), (64, "rejected")}


@pytest.mark.parametrize("there", ["submission", "submission_job_status"])
def test_a_later_import_expels_and_clears_as_kernelbot_does(db, bring, old, there) -> None:
    number = "id" if there == "submission" else "submission_id"
    change = f"UPDATE leaderboard.{there} SET status = '{{}}' WHERE {number} = 16"  # BOB, the first
    bring()
    for status, first, decisions in (("hacked", 12, 4), ("active", 16, 3)):
        with autocommitting(old) as connection:
            connection.execute(text(change.format(status)))
        found = bring()
        assert (found.counts["revised"], found.differences) == (1, [])
        assert standings.standings(db, "vectoradd", "H100", viewer=OPERATOR)[0].submission_id == first
        assert len(rows(db, select(ReviewRow.id))) == decisions


def test_a_decision_that_was_made_here_outlives_an_import(db, bring) -> None:
    bring()
    with db.write() as session:
        values = "state = 'rejected', reason = 'copied'"
        session.execute(text(f"UPDATE jobs SET {values} WHERE submission_id = 16"))
    assert bring().counts["revised"] == 0
    assert rows(db, select(JobRow.reason).where(JobRow.submission_id == 16)) == [("copied",)]


def test_a_score_that_is_no_time_is_named_and_has_no_place(db, bring, old) -> None:
    with autocommitting(old) as connection:
        for number, score in ((30, 0), (31, "NaN"), (32, -1)):
            ranked(connection, number, EVE, 1.0)
            values = {"number": number, "score": score}
            change = "UPDATE leaderboard.runs SET score = :score WHERE submission_id = :number"
            connection.execute(text(change), values)
    found = bring()
    timeless = found.notes["ranks there by a score that is no time, and not here"]
    assert sorted(timeless) == ["submission 30", "submission 31", "submission 32"]
    assert (found.places, found.differences) == (14, [])


def test_a_database_from_before_the_first_was_expelled_comes_over(db, bring, old) -> None:
    with autocommitting(old) as connection:
        connection.exec_driver_sql("ALTER TABLE leaderboard.submission DROP COLUMN status")
        connection.exec_driver_sql("DROP TABLE leaderboard.submission_job_status")
    found = bring()
    assert (found.counts["rejected"], found.differences) == (5, [])


def test_history_has_each_improvement_at_its_time(brought) -> None:
    db, _ = brought
    ada = name_of(db, ADA)
    found = table.history(db, "vectoradd", "H100", viewer=OPERATOR, user=ada)
    later = [(each.submission_id, each.at - THEN) for each in found]
    assert later == [(12, timedelta(hours=1, seconds=5)), (10, timedelta(seconds=5))]


def test_a_second_import_changes_nothing(db, bring) -> None:
    bring()
    before = counts(db)
    again = bring()
    brought = {name: again.counts[name] for name in BROUGHT}
    assert brought == dict.fromkeys(BROUGHT, 0)
    assert counts(db) == before
    assert again.places == 14


def test_a_later_import_brings_what_is_new(db, bring, old) -> None:
    bring()
    with autocommitting(old) as connection:
        ranked(connection, 30, ADA, 1.0e-3, at=NOW - timedelta(hours=1))
        ranked(connection, 31, ADA, 0.9e-3, at=NOW - timedelta(days=20))
    found = bring(since=NOW - timedelta(days=1))
    assert found.counts["submissions"] == 1
    assert [each.user_id for each in found.differences] != []  # 31 is older than asked for
    assert bring().differences == []
    assert standings.standings(db, "vectoradd", "H100", viewer=OPERATOR)[0].submission_id == 31


def test_an_import_that_was_cut_off_is_completed_by_the_next(db, bring) -> None:
    bring()
    with db.write() as session:
        session.execute(text("DELETE FROM bests"))
        session.execute(text("DELETE FROM records"))
    assert bring().differences == []
    assert rows(db, select(func.count()).select_from(RecordRow))[0][0] == 15


def test_a_dry_run_tells_all_and_writes_nothing(db, bring) -> None:
    before = counts(db)
    found = bring(dry_run=True)
    assert counts(db) == before
    counted = ("users", "leaderboards", "submissions", "results", "rejected", "ungraded", "waiting")
    assert [found.counts[name] for name in counted] == [22, 5, 29, 28, 8, 1, 1]
    brought = bring().counts
    assert {name: brought[name] for name in counted} == {name: found.counts[name] for name in counted}
    assert "'Ada 🚀 Lovelace' -> Ada-Lovelace" in found.notes["shown name -> account"]
    assert (found.counts["guessed_discord"], found.counts["guessed_github"]) == (1, 2)
    assert [each.partition(":")[0] for each in unjudged(found)] == ["broken"]
    assert found.notes["device not configured"] == ["B200_Nebius of vectoradd", "B200 of odd"]


def test_names_become_names_of_accounts(brought) -> None:
    db, _ = brought
    made = dict(
        rows(db, select(IdentityRow.subject, UserRow.name).join(UserRow, UserRow.id == IdentityRow.user_id))
    )
    assert {subject: name for subject, name in made.items() if subject not in ODD_ROWS} == {
        ADA: "Ada-Lovelace",
        BOB: "bob",
        "223456789012345678": "bob-2",
        "9": "github-9",
        "8": "github-8",
        OPEN: "discord-p_a1",
    }


def test_a_display_name_stays_what_others_see(brought) -> None:
    db, _ = brought
    shown = dict(rows(db, select(UserRow.name, UserRow.shown_name)))
    assert (shown["Ada-Lovelace"], shown["bob"], shown["github-9"]) == ("Ada 🚀 Lovelace", "", "")


def name_of(db, subject: str) -> str:
    query = select(UserRow.name).join(IdentityRow, IdentityRow.user_id == UserRow.id)
    return rows(db, query.where(IdentityRow.subject == subject))[0][0]


@pytest.mark.jobs
def test_a_user_who_signed_in_here_before_keeps_the_account(db, bring) -> None:
    mine = accounts.sign_in(db, provider="github", subject=BOB, login="robert", now=NOW)
    assert bring().users[BOB] == mine


def test_a_banned_user_stays_banned_and_unfinished_registrations_stay_behind(brought) -> None:
    db, found = brought
    banned = rows(db, select(UserRow.name).where(UserRow.banned_at.is_not(None)))
    assert [name for (name,) in banned] == ["bob-2"]
    assert found.counts["unfinished"] == 1


def test_old_secrets_of_clients_go_on_working(brought) -> None:
    db, _ = brought
    assert tokens.authenticate(db, "cli-ada", now=NOW).name == "Ada-Lovelace"
    assert tokens.authenticate(db, "web-eve", now=NOW).name == "bob-2"
    with pytest.raises(SignInNeeded):
        tokens.authenticate(db, "cli-temp-2", now=NOW)


def test_a_secret_that_was_replaced_there_opens_nothing_here(db, bring, old) -> None:
    bring()
    with autocommitting(old) as connection:
        connection.execute(text("UPDATE leaderboard.user_info SET cli_id = 'new' WHERE cli_id = 'cli-ada'"))
    bring()
    assert tokens.authenticate(db, "new", now=NOW).name == "Ada-Lovelace"
    with pytest.raises(SignInNeeded):
        tokens.authenticate(db, "cli-ada", now=NOW)


def test_code_is_kept_whole_whatever_its_bytes_are(brought) -> None:
    db, _ = brought
    query = select(CodeRow.files).join(SubmissionRow, SubmissionRow.code_hash == CodeRow.hash)
    (text_one,) = rows(db, query.where(SubmissionRow.id == 10))[0]
    assert text_one == {"": "# one\n"}
    (latin,) = rows(db, query.where(SubmissionRow.id == 16))[0]
    assert latin["kernel.py"] == "# caf\ufffd\nimport torch\n"
    assert base64.b64decode(latin["kernel.py.base64"]) == LATIN
    (nul,) = rows(db, query.where(SubmissionRow.id == 18))[0]
    assert base64.b64decode(nul["kernel.py.base64"]) == b"# nul \x00\n"


def test_submissions_keep_their_numbers_and_leave_room_for_more(db, bring) -> None:
    bring()
    view = service.show_submission(db, 18, viewer=OPERATOR)
    assert (view.mode.value, view.jobs[0].verdict.value) == ("leaderboard", "wrong_answer")
    assert view.jobs[0].counted.report.message == "mismatch\nat 3"
    assert service.show_submission(db, 19, viewer=OPERATOR).file_name == "s.py"
    with db.write() as session:
        values = {"leaderboard_id": 1, "user_id": 1, "code_hash": "x", "file_name": "k.py", "mode": "test"}
        session.add(CodeRow(hash="x", files={"": ""}))
        session.flush()
        row = SubmissionRow(**values, created_at=NOW)
        session.add(row)
        session.flush()
        assert row.id == 66 + ROOM + 1


def test_the_evidence_has_the_figures_of_each_stage(brought) -> None:
    db, _ = brought
    report = service.show_submission(db, 10, viewer=OPERATOR).jobs[0].counted.report
    assert [stage.name.value for stage in report.stages] == ["test", "benchmark", "ranked"]
    (case,) = report.stages[2].cases
    assert (case.parameters, case.timing.reported_ns) == ({"size": 1024, "seed": 2}, pytest.approx(2e6))
    assert report.environment == {"device": "NVIDIA H100"}
    assert all(isinstance(each, str) for each in report.extra.values())


def test_a_submission_without_results_ends_without_one(brought) -> None:
    db, found = brought
    assert found.counts["ungraded"] == 1
    view = service.show_submission(db, 23, viewer=OPERATOR)
    assert (view.mode.value, view.ended, view.jobs[0].state.value) == ("test", True, "cancelled")


@pytest.mark.jobs
def test_what_is_not_done_there_comes_with_the_next_import(db, bring, old) -> None:
    assert bring().absent == {PENDING}
    with autocommitting(old) as connection:
        connection.execute(text("UPDATE leaderboard.submission SET done = true WHERE id = 70"))
    assert bring().counts["submissions"] == 1


@pytest.mark.jobs
def test_what_was_deleted_here_is_not_brought_again(db, bring) -> None:
    from kernelcup.app.submissions import withdrawal

    bring()
    withdrawal.delete_submission(db, 16, by=OPERATOR, now=NOW)
    again = bring()
    assert (again.counts["submissions"], again.absent, again.differences) == (0, {16, PENDING}, [])


@pytest.mark.jobs
def test_another_submission_with_a_number_of_kernelbots_is_refused(db, bring) -> None:
    make_board(db)
    with db.write() as session:
        session.add(CodeRow(hash="x", files={"": ""}))
        session.flush()
        values = {"leaderboard_id": 1, "user_id": 1, "code_hash": "x", "file_name": "k.py", "mode": "test"}
        session.add(SubmissionRow(id=12, **values, created_at=NOW))
    with pytest.raises(Conflict, match="Submission 12 exists here"):
        bring()


def test_boards_come_over_or_closed_and_one_that_does_not_load_takes_nothing(brought) -> None:
    db, found = brought
    boards = {row.name: row for (row,) in rows(db, select(LeaderboardRow))}
    assert boards["class"].visibility == Visibility.CLOSED
    assert boards["over"].deadline < NOW
    assert (boards["broken"].deadline, boards["broken"].after_deadline) == (NOW, "closed")
    assert "is not among `files`" in unjudged(found)[0]
    assert {boards[name].code_policy for name in boards} == {"never"}


@pytest.mark.jobs
def test_a_board_keeps_its_thread_and_one_without_has_none(db, bring, old) -> None:
    with autocommitting(old) as connection:
        connection.exec_driver_sql("UPDATE leaderboard.leaderboard SET forum_id = -1 WHERE name = 'over'")
        connection.exec_driver_sql(
            "UPDATE leaderboard.leaderboard SET forum_id = 1::bigint << 60 WHERE name = 'class'"
        )
    bring()
    threads = dict(rows(db, select(LeaderboardRow.name, LeaderboardRow.discord_thread)))
    assert threads == {"vectoradd": "77", "class": str(1 << 60), "over": "", "broken": "77", ODD: "77"}


@pytest.mark.jobs
def test_a_board_without_a_gpu_gets_one_of_here(db, old, bring) -> None:
    with autocommitting(old) as connection:
        connection.exec_driver_sql(
            "INSERT INTO leaderboard.leaderboard (name, deadline, task) VALUES ('none', now(), '{}')"
        )
    bring()
    assert get_board(db, "none").devices == ("H100",)


def test_what_is_old_is_no_news(brought) -> None:
    db, _ = brought
    before = rows(db, select(NewsRow.kind, LeaderboardRow.name).join(LeaderboardRow))
    assert {tuple(each) for each in before} == {("final", "over"), ("final", "broken")}
    assert newsroom.note_due(db, NOW) == 0


def test_limits_invites_and_members_come_over(db, bring) -> None:
    from kernelcup.app.courses import joining

    bring()
    limits = rows(db, select(LimitRow.amount, LimitRow.mode_group, LimitRow.window_s))
    assert [tuple(each) for each in limits] == [(9.0, "practice", 3600)]
    assert rows(db, select(MemberRow.user_id))[0][0] == 1
    assert {code for (code,) in rows(db, select(InviteRow.code))} == {"ABCDE-F11", "USED"}
    bob = tokens.authenticate(db, "cli-bob", now=NOW)
    assert joining.join(db, bob, "abcd-efil", now=NOW).leaderboards == ["class"]


def test_another_database_is_refused(db, tmp_path) -> None:
    with pytest.raises(InvalidValue, match="is PostgreSQL"):
        run.bring(db, f"sqlite:///{tmp_path / 'other.db'}", known=KNOWN, now=NOW)


def test_a_database_without_kernelbots_tables_is_refused(db, old) -> None:
    with pytest.raises(InvalidValue, match="has no table 'user_info'"):
        run.bring(db, old, schema="public", known=KNOWN, now=NOW)


def test_an_old_client_goes_on_over_http(bring, client) -> None:
    bring()
    headers = {"X-Popcorn-Cli-Id": "cli-ada"}
    listed = client.get("/user/submissions", headers=headers).json()
    assert [each["id"] for each in listed] == [21, 15, 12, 10]
    shown = client.get("/user/submissions/12", headers=headers).json()
    assert (shown["code"], shown["runs"][-1]["score"]) == ("# two\n", 1.5e-3)


@pytest.mark.jobs
def test_the_command_prints_and_checks(db, db_url, old, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("KERNELCUP_HOME", str(tmp_path))
    monkeypatch.setenv("KERNELCUP_DATABASE", db_url)
    dry = CliRunner().invoke(commands, ["import", old, "--dry-run"])
    assert dry.exit_code == 0, dry.output
    assert "would be imported: 22 users" in dry.output
    done = CliRunner().invoke(commands, ["import", old, "--since", "2026-01-01"])
    assert done.exit_code == 0, done.output
    assert "places as before: 14 of 14" in done.output
    again = CliRunner().invoke(commands, ["import", old, "--json"])
    assert json.loads(again.output)["submissions"] == 0


def test_the_command_fails_where_a_place_differs(db, db_url, old, bring, tmp_path, monkeypatch) -> None:
    bring()
    with db.write() as session:
        session.execute(text("UPDATE runs SET score_s = 1 WHERE score_s = 0.0012"))
        session.execute(text("UPDATE bests SET score_s = 1 WHERE score_s = 0.0012"))
    monkeypatch.setenv("KERNELCUP_HOME", str(tmp_path))
    monkeypatch.setenv("KERNELCUP_DATABASE", db_url)
    found = CliRunner().invoke(commands, ["import", old])
    assert found.exit_code == 1
    assert "place differs: vectoradd on H100, user 2: 1 with 0.0012 s -> 3 with 1 s" in found.output


def test_runs_count_once_for_each_gpu(brought) -> None:
    db, found = brought
    assert found.counts["results"] == rows(db, select(func.count()).select_from(RunRow))[0][0] == 28


def test_views_are_refused_on_sqlite(tmp_path) -> None:
    from kernelcup_kernelbot import views

    with Database.open(f"sqlite:///{tmp_path / 'x.db'}") as db, pytest.raises(InvalidValue, match="db copy"):
        views.make(db, "leaderboard")
