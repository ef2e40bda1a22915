"""What tokens and roles do not give, and what managers cannot do in silence."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from builders import NOW, SUBMISSION, make_actor, make_board, make_submission, make_task
from hand_judging import Judging
from kernelcup.app.access import HERE
from kernelcup.app.boards.boards import delete_board, get_board, get_task
from kernelcup.app.boards.changes import preview_update, update_board
from kernelcup.app.boards.settings import BoardChanges
from kernelcup.app.people import accounts, audit_log, tokens
from kernelcup.app.results import reviews
from kernelcup.app.results.runs import show_run
from kernelcup.app.results.standings import standings
from kernelcup.app.submissions.submissions import get_code, list_views, screening_of, show_submission
from kernelcup.domain import OPERATOR, Actor, CodePolicy, Role, Scope
from kernelcup.engine.database import Database
from kernelcup.errors import Conflict, Forbidden, NotFound, ScopeMissing
from kernelcup_harness.protocol import Mode

SECRET_CASE = {"size": 9_182_736, "seed": 7}
SEES_ALL = Scope("inspect") if "inspect" in set(Scope) else Scope.READ  # also loads where there is none


@pytest.fixture
def judging(db: Database, clock) -> Judging:
    """A pseudonymous leaderboard of grace with a hidden case, and results of ada."""
    make_actor(db, "grace", Role.CREATOR)
    make_board(db, task=make_task(hidden_tests=[SECRET_CASE]), pseudonymous=True)
    judging = Judging(db, clock)
    judging.judge()
    return judging


def with_scopes(db: Database, name: str, role: Role, *scopes: Scope) -> Actor:
    """Return somebody by a token with these scopes."""
    made = tokens.create_token(
        db,
        make_actor(db, name, role),
        name="a",
        scopes=scopes,
        entry=HERE,
        now=NOW,
        expires_at=NOW + timedelta(days=9),
    )
    return tokens.authenticate(db, made.secret, now=NOW)


def allowed(look: Callable[[], Any]) -> bool:
    """Tell whether something may be looked at."""
    try:
        look()
    except (Forbidden, ScopeMissing, NotFound):
        return False
    return True


@pytest.mark.parametrize(("name", "role"), [("grace", Role.CREATOR), ("root", Role.ADMIN)])
def test_a_reading_token_sees_what_everybody_sees(db: Database, judging: Judging, name, role) -> None:
    practice = judging.submit(mode=Mode.TEST)
    review = reviews.quarantine(db, OPERATOR, 1, reason="odd", now=NOW)
    reader = with_scopes(db, name, role, Scope.READ, Scope.SUBMIT)
    assert get_task(db, "double", reader).hidden_tests == []
    assert [place.user for place in standings(db, "double", "H100", viewer=reader)] == []
    assert [view.user for view in list_views(db, viewer=reader)] == []
    assert show_run(db, 1, viewer=OPERATOR) is not None
    for look in (
        lambda: show_submission(db, 1, viewer=reader),
        lambda: get_code(db, 1, viewer=reader, now=NOW),
        lambda: show_submission(db, practice.id, viewer=reader),
        lambda: screening_of(db, 1, viewer=reader),
        lambda: show_run(db, 1, viewer=reader),
        lambda: reviews.get_review(db, reader, review.id),
        lambda: reviews.open_reviews(db, reader),
    ):
        assert not allowed(look)


@pytest.mark.parametrize(("name", "role"), [("grace", Role.CREATOR), ("root", Role.ADMIN)])
def test_an_inspecting_token_sees_all_of_its_boards_and_changes_nothing(
    db: Database, judging: Judging, name, role
) -> None:
    reader = with_scopes(db, name, role, Scope.READ, SEES_ALL)
    assert get_task(db, "double", reader).hidden_tests == [SECRET_CASE]
    assert get_code(db, 1, viewer=reader, now=NOW).code.startswith(SUBMISSION)
    assert show_submission(db, 1, viewer=reader).user == "ada"
    assert allowed(lambda: reviews.open_reviews(db, reader))
    with pytest.raises(ScopeMissing):
        update_board(db, reader, "double", changes=BoardChanges(deadline=NOW + timedelta(days=1)), now=NOW)
    other = with_scopes(db, "eve", Role.CREATOR, Scope.READ, SEES_ALL)
    assert get_task(db, "double", other).hidden_tests == []
    assert not allowed(lambda: get_code(db, 1, viewer=other, now=NOW))


def test_deciding_a_review_needs_both_scopes(db: Database, judging: Judging) -> None:
    review = reviews.quarantine(db, OPERATOR, 1, reason="odd", now=NOW)
    manager = with_scopes(db, "grace", Role.CREATOR, Scope.READ, Scope.MANAGE)
    with pytest.raises(ScopeMissing):
        reviews.decide(db, manager, review.id, decision="released", note="looked at", now=NOW)


def test_a_bot_acts_for_an_admin_as_for_a_creator(db: Database) -> None:
    bot = with_scopes(db, "bot", Role.ADMIN, Scope.ACT)
    user_id = accounts.sign_in(db, provider="discord", subject="9", login="root", now=NOW)
    accounts.change(db, OPERATOR, "root", role=Role.ADMIN, entry=HERE, now=NOW)
    make_board(db)
    acting = tokens.act_for(db, bot, provider="discord", subject="9", login="root", now=NOW)
    assert (acting.user_id, acting.role) == (user_id, Role.CREATOR)
    with pytest.raises(Forbidden):
        accounts.change(db, acting, "bot", role=Role.ADMIN, entry=HERE, now=NOW)
    with pytest.raises(Forbidden):
        delete_board(db, "double", acting, confirm="double", now=NOW)
    full = with_scopes(db, "bot", Role.ADMIN, Scope.ACT, Scope.ADMIN)
    assert tokens.act_for(db, full, provider="discord", subject="9", login="root", now=NOW).role is Role.ADMIN


def test_the_log_of_a_deleted_board_stays_closed(db: Database) -> None:
    grace, eve = make_actor(db, "grace", Role.CREATOR), make_actor(db, "eve", Role.CREATOR)
    make_board(db, creator=grace)
    update_board(db, grace, "double", changes=BoardChanges(deadline=NOW + timedelta(days=1)), now=NOW)
    delete_board(db, "double", grace, confirm="double", now=NOW)
    assert audit_log.entries(db, eve) == []
    make_board(db, creator=eve)
    update_board(db, eve, "double", changes=BoardChanges(max_file_bytes=9), now=NOW)
    assert [(each.actor, each.action) for each in audit_log.entries(db, eve)] == [
        ("eve", "board.update"),
        ("eve", "board.create"),
    ]
    assert len(audit_log.entries(db, OPERATOR, target="board:double")) == 5


@pytest.mark.parametrize(
    ("before", "change", "told"),
    [
        (
            {"code_policy": CodePolicy.NEVER},
            {"code_policy": CodePolicy.AFTER_DEADLINE},
            "The code of ranked submissions is shown to all after the deadline",
        ),
        (
            {"pseudonymous": True, "code_policy": CodePolicy.NEVER},
            {"pseudonymous": False},
            "Participants are shown under their own names",
        ),
    ],
)
def test_a_promise_is_not_broken_in_silence(db: Database, before, change, told) -> None:
    make_board(db, **before)
    grace = make_actor(db, "grace", Role.CREATOR)
    make_submission(db)
    changes = BoardChanges(**change)
    assert preview_update(db, grace, "double", changes=changes, now=NOW).reveals
    with pytest.raises(Conflict, match="under another promise"):
        update_board(db, grace, "double", changes=changes, now=NOW)
    board = update_board(db, grace, "double", changes=changes, force=True, now=NOW).board
    assert getattr(board, next(iter(change))) == next(iter(change.values()))
    assert get_board(db, "double").notice == f"{told}: grace changed that on 2026-06-01 12:00 UTC."
    assert audit_log.entries(db, OPERATOR, action="board.update")[0].detail["reveals"]


def test_nobody_is_asked_before_there_are_submissions_or_when_less_is_shown(db: Database) -> None:
    make_board(db, pseudonymous=True)
    grace = make_actor(db, "grace", Role.CREATOR)
    open_ = BoardChanges(pseudonymous=False, code_policy=CodePolicy.AFTER_DEADLINE)
    update_board(db, grace, "double", changes=open_, now=NOW)
    make_submission(db)
    closed = BoardChanges(pseudonymous=True, code_policy=CodePolicy.NEVER)
    board = update_board(db, grace, "double", changes=closed, now=NOW).board
    assert (board.pseudonymous, board.code_policy) == (True, CodePolicy.NEVER)


def test_a_name_that_is_taken_changes_nothing(db: Database) -> None:
    make_actor(db, "ada")
    make_actor(db, "bob")
    with pytest.raises(Conflict):
        accounts.change(db, OPERATOR, "bob", new_name="ada", role=Role.ADMIN, entry=HERE, now=NOW)
    assert accounts.get_user(db, OPERATOR, "bob").role is Role.PARTICIPANT
    assert audit_log.entries(db, OPERATOR) == []
    both = accounts.change(db, OPERATOR, "bob", new_name="bobby", role=Role.CREATOR, entry=HERE, now=NOW)
    assert (both.name, both.role) == ("bobby", Role.CREATOR)


def test_admin_contains_the_other_scopes_but_act(db: Database) -> None:
    root = with_scopes(db, "root", Role.ADMIN, Scope.ADMIN)
    assert root.scopes == frozenset(Scope) - {Scope.ACT}
    make_board(db)
    delete_board(db, "double", root, confirm="double", now=NOW)


def test_the_host_that_judged_is_shown_to_admins_only(db, clock) -> None:
    board = make_board(db)
    submission = Judging(db, clock).judge()
    (view,) = show_submission(db, submission.id).jobs
    assert view.run is not None
    assert view.counted.machine
    people = {
        "ada": Role.PARTICIPANT,
        board.creator: Role.CREATOR,
        "root": Role.ADMIN,
    }
    seen = {
        name: show_run(db, view.counted.id, viewer=make_actor(db, name, role)).run.machine
        for name, role in people.items()
    }
    assert seen == {"ada": "", board.creator: "", "root": view.counted.machine}
