"""A user's data is exported whole, and a deleted account leaves results without a name."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from builders import make_actor, make_board, make_report, make_submission, make_task
from fakes import FakeClock
from final_duels import close, duel_of
from hand_judging import Judging, flagged
from kernelcup.app.access import HERE, Entry
from kernelcup.app.boards import boards, late_exceptions
from kernelcup.app.courses import joining, membership
from kernelcup.app.people import account_linking, accounts, audit_log, login_links, tokens
from kernelcup.app.people.accounts import sign_in
from kernelcup.app.people.user_names import actor_of, ensure_user
from kernelcup.app.personal_data import GONE, delete_account, export_account
from kernelcup.app.queue import lifecycle
from kernelcup.app.results import finals, rejudge, reviews
from kernelcup.app.results.standings import standings
from kernelcup.app.rules import limits, pauses
from kernelcup.app.submissions.submissions import get_code, list_views, show_submission
from kernelcup.app.submissions.withdrawal import cancel_submission
from kernelcup.domain import OPERATOR, Actor, JobState, PauseScope, Role, Scope, Submission
from kernelcup.domain.answers import User
from kernelcup.engine.database import Database
from kernelcup.errors import (
    Banned,
    Conflict,
    Forbidden,
    InvalidValue,
    NotFound,
    ScopeMissing,
    SignInNeeded,
)
from kernelcup.tables import Base, NewsRow, WebhookRow
from kernelcup_harness.protocol import Mode

NAME, EARLIER = "zaphod-beeblebrox", "slartibartfaß"
SESSION = Entry(by="session")


class OneOfSeveral(Judging):
    """Submits to the leaderboard ``double``, unless another one is named."""

    def submit(self, user: str = "ada", **overrides: Any) -> Submission:
        return super().submit(user, **{"board": "double"} | overrides)


@pytest.fixture
def judging(db: Database, clock: FakeClock) -> Judging:
    make_board(db, deadline=clock() + timedelta(days=30))
    clock.advance(1)
    return OneOfSeveral(db, clock)


def come(judging: Judging, name: str = NAME, role: Role = Role.PARTICIPANT) -> Actor:
    """Sign a person in for the first time."""
    judging.clock.advance(1)
    sign_in(judging.db, provider="github", subject=name[:6], login=name, now=judging.clock())
    if role is not Role.PARTICIPANT:
        accounts.change(judging.db, OPERATOR, name, role=role, entry=HERE, now=judging.clock())
    judging.clock.advance(1)
    return actor_of(judging.db, name)


def delete(judging: Judging, actor: Actor, name: str = NAME, **options: Any) -> str:
    judging.clock.advance(1)
    values = {"confirm": name, "entry": SESSION, "now": judging.clock()} | options
    left: User = delete_account(judging.db, actor, name, **values)
    return left.name


def everything(db: Database) -> str:
    """Return all rows of all tables as one text."""
    with db.read() as session:
        rows = [session.execute(select(*table.c)).all() for table in Base.metadata.sorted_tables]
    return json.dumps(rows, default=str, ensure_ascii=False) + json.dumps(rows, default=str)


def test_results_stay_under_a_pseudonym_that_tells_nothing(judging: Judging) -> None:
    zaphod = come(judging)
    judging.judge(2000, "ada")
    mine = judging.judge(1000, NAME)
    pseudonym = delete(judging, zaphod)
    assert judging.ranking() == [(pseudonym, 1000), ("ada", 2000)]
    assert pseudonym.startswith("deleted-")
    assert len(pseudonym) == len("deleted-") + 8
    assert show_submission(judging.db, mine.id).user == pseudonym
    with pytest.raises(NotFound):
        accounts.get_user(judging.db, OPERATOR, NAME)
    assert accounts.get_user(judging.db, OPERATOR, pseudonym).identities == ()


def test_no_name_of_the_user_is_left_in_the_database(judging: Judging) -> None:
    db, now = judging.db, judging.clock
    user = come(judging, EARLIER, Role.ADMIN)
    accounts.change(db, user, EARLIER, new_name=NAME, entry=SESSION, now=now())
    user = actor_of(db, NAME)
    make_board(db, name="own", creator=NAME, deadline=now() + timedelta(days=30), now=now())
    tokens.create_token(
        db, user, name="laptop", scopes=[Scope.READ], kind="api", days=1, entry=SESSION, now=now()
    )
    tokens.make_session(db, user.user_id or 0, now())
    account_linking.make_link_code(db, user, entry=SESSION, now=now())
    login_links.make_links(db, OPERATOR, [NAME], entry=HERE, now=now())
    limits.add_limit(db, OPERATOR, text="9/hour", user=NAME, now=now())
    late_exceptions.grant_late(db, OPERATOR, "own", NAME, now() + timedelta(days=60), now=now())
    membership.add_member(db, OPERATOR, "double", NAME, pseudonym="Falcon", now=now())
    made = membership.make_invites(db, OPERATOR, ["own"], count=1, label=NAME, now=now())
    joining.join(db, user, made.codes[0], now=now())
    judging.judge(900, NAME)
    theirs = judging.judge(2000, "ada")
    reviews.quarantine(db, user, judging.job(theirs).id, reason="odd", now=now())
    (review,) = reviews.open_reviews(db, OPERATOR)
    reviews.decide(db, user, review.id, decision="released", note="fine", now=now())
    for author in (NAME, "ada"):
        cancel_submission(db, judging.submit(author).id, by=user, now=now())
    pauses.pause(db, user, scope=PauseScope.DEVICE, key="H100", reason="dust", now=now())
    with db.write() as session:
        board = boards.find_board(session, "double")
        session.add(
            WebhookRow(
                leaderboard_id=board.id, url="https://x", secret="s", created_by=NAME, created_at=now()
            )
        )
        session.add(
            NewsRow(key="n", kind="overtaken", at=now(), leaderboard_id=board.id, recipient_id=user.user_id)
        )
    close(db, "double", now())
    finals.start(db, user, "double", device="H100", now=now())
    assert NAME in everything(db)
    assert EARLIER in everything(db)
    ensure_user(db, "root", now=now())
    accounts.change(db, OPERATOR, "root", role=Role.ADMIN, entry=HERE, now=now())

    pseudonym = delete(judging, user)
    left = everything(db)
    for word in (NAME, EARLIER, json.dumps(EARLIER)[1:-1], "laptop"):
        assert word not in left, word
    log = {(each.action, each.actor, each.target) for each in audit_log.entries(db, OPERATOR, limit=200)}
    assert ("user.delete", pseudonym, f"user:{pseudonym}") in log
    assert ("user.rename", pseudonym, f"user:{pseudonym}") in log
    assert ("members.add", "operator", "course:double") in log


def test_another_user_keeps_a_name_that_the_deleted_one_had_before(judging: Judging) -> None:
    db, now = judging.db, judging.clock
    before = come(judging, "ford")
    accounts.change(db, before, "ford", new_name="prefect", entry=SESSION, now=now())
    user = come(judging, "arthur")
    accounts.change(db, user, "arthur", new_name="ford", entry=SESSION, now=now())
    judging.clock.advance(1)
    accounts.change(db, user, "ford", new_name=NAME, entry=SESSION, now=now())
    after = come(judging, "trillian")
    accounts.change(db, after, "trillian", new_name="ford", entry=SESSION, now=now())
    accounts.ban(db, OPERATOR, "ford", reason="noise", now=now())
    pseudonym = delete(judging, actor_of(db, NAME))
    log = [(each.action, each.actor, each.target, each.detail) for each in audit_log.entries(db, OPERATOR)]
    assert log == [
        ("user.delete", pseudonym, f"user:{pseudonym}", {}),
        ("user.ban", "operator", "user:ford", {"reason": "noise"}),
        ("user.rename", "trillian", "user:ford", {"before": "trillian"}),
        ("user.rename", pseudonym, f"user:{pseudonym}", {}),
        ("user.rename", pseudonym, f"user:{pseudonym}", {}),
        ("user.rename", "ford", "user:prefect", {"before": "ford"}),
        *log[6:],
    ]


def test_who_signs_in_again_gets_another_account(judging: Judging) -> None:
    zaphod = come(judging)
    judging.judge(1000, NAME)
    pseudonym = delete(judging, zaphod)
    again = come(judging)
    assert again.user_id != zaphod.user_id
    assert again.name == NAME
    assert [each.user for each in list_views(judging.db)] == [pseudonym]
    assert [each.user for each in list_views(judging.db, user=NAME)] == []


def test_tokens_and_sessions_end_and_nothing_more_is_submitted(judging: Judging) -> None:
    zaphod = come(judging)
    secret = tokens.make_session(judging.db, zaphod.user_id or 0, judging.clock())
    delete(judging, zaphod)
    with pytest.raises(SignInNeeded):
        tokens.authenticate(judging.db, secret, now=judging.clock())
    with pytest.raises(Banned, match=GONE):  # a request that was under way
        make_submission(judging.db, user=zaphod, now=judging.clock())


def test_what_waits_and_runs_is_cancelled(judging: Judging) -> None:
    zaphod = come(judging)
    running, waiting, other = judging.submit(NAME), judging.submit(NAME), judging.submit("ada")
    lease = judging.claim()
    assert lease is not None
    delete(judging, zaphod)
    states = {
        each.id: (judging.job(each).state, judging.job(each).reason) for each in (running, waiting, other)
    }
    gone = (JobState.CANCELLED, GONE)
    assert states == {running.id: gone, waiting.id: gone, other.id: (JobState.QUEUED, "")}


def test_a_rejudge_of_a_deleted_users_result_goes_on(judging: Judging) -> None:
    zaphod = come(judging)
    mine = judging.judge(1000, NAME)
    rejudge.rejudge_submission(judging.db, OPERATOR, mine.id, now=judging.clock())
    pseudonym = delete(judging, zaphod)
    judging.finish(judging.claim(), 1500)
    assert judging.ranking() == [(pseudonym, 1500)]


def test_a_final_goes_on_without_its_creators_account(judging: Judging) -> None:
    db, now = judging.db, judging.clock
    grace = actor_of(db, "grace")
    first, second = judging.judge(1000, "ada"), judging.judge(1010, "bob")
    close(db, "double", now())
    begun = finals.start(db, grace, "double", now=now())
    assert begun.waiting is not None
    pseudonym = delete(judging, grace, "grace")
    lease = judging.claim()
    assert lease is not None
    assert lease.job.submission_id == begun.waiting
    judging.finish(lease, report=make_report(duel=duel_of(0.9)))
    found = finals.show(db, "double", now=now())
    assert found is not None
    assert (found.started_by, [each.submission for each in found.places]) == (
        pseudonym,
        [first.id, second.id],
    )


def test_submissions_go_too_on_request_as_their_author_could_delete_them(judging: Judging) -> None:
    db, now = judging.db, judging.clock
    come(judging)
    make_board(db, name="finished", deadline=now() + timedelta(hours=1), now=now())
    kept = judging.judge(1000, NAME, board="finished")
    held, _ = flagged(judging, NAME)
    judging.judge(900, NAME)
    judging.submit(NAME, mode=Mode.TEST)
    close(db, "finished", now())
    pseudonym = delete(judging, OPERATOR, with_submissions=True)
    assert {each.id for each in list_views(db, user=pseudonym)} == {kept.id, held.id}
    assert [each.user for each in standings(db, "finished", "H100")] == [pseudonym]
    ada = make_actor(db, "ada")
    with pytest.raises(Forbidden, match="was withdrawn"):
        get_code(db, kept.id, viewer=ada, now=now())


def test_a_deletion_that_was_interrupted_is_done_again(
    judging: Judging, monkeypatch: pytest.MonkeyPatch
) -> None:
    zaphod = come(judging)
    judging.submit(NAME)
    with monkeypatch.context() as patch:
        patch.setattr(lifecycle, "cancel_jobs", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            delete(judging, zaphod)
    assert accounts.get_user(judging.db, zaphod, NAME).ban_reason == GONE
    assert delete(judging, zaphod).startswith("deleted-")


def test_who_may_delete_an_account(judging: Judging) -> None:
    zaphod, ada = come(judging), come(judging, "ada-l")
    reader = Actor(user_id=zaphod.user_id, name=NAME, role=zaphod.role, scopes=frozenset({Scope.READ}))
    for actor, name, options, error in (
        (ada, NAME, {}, Forbidden),
        (reader, NAME, {}, ScopeMissing),
        (zaphod, NAME, {"entry": Entry(by="acting")}, ScopeMissing),
        (zaphod, NAME, {"confirm": "zaphod"}, InvalidValue),
        (OPERATOR, "unknown", {}, NotFound),
    ):
        with pytest.raises(error):
            delete(judging, actor, name, **options)
    assert accounts.get_user(judging.db, zaphod, NAME).banned_at is None
    root = come(judging, "root-2", Role.ADMIN)
    pseudonym = delete(judging, root, entry=Entry(by="token"))
    (entry, *_) = audit_log.entries(judging.db, OPERATOR)
    assert (entry.actor, entry.target) == ("root-2", f"user:{pseudonym}")
    with pytest.raises(Conflict, match="last admin"):
        delete(judging, root, "root-2")
    with pytest.raises(Forbidden):
        delete(judging, ada, pseudonym)


def test_a_banned_user_cannot_come_back_as_another(judging: Judging) -> None:
    zaphod = come(judging)
    accounts.ban(judging.db, OPERATOR, NAME, reason="two accounts", now=judging.clock())
    with pytest.raises(Banned):
        delete(judging, zaphod)
    assert delete(judging, OPERATOR).startswith("deleted-")


def test_nobody_takes_the_name_of_a_deleted_account(judging: Judging) -> None:
    ada = come(judging, "ada-l")
    with pytest.raises(InvalidValue, match="reserved"):
        accounts.change(
            judging.db, ada, "ada-l", new_name="Deleted-1234abcd", entry=SESSION, now=judging.clock()
        )
    come(judging, "deleted-1234abcd")
    assert [each.name for each in accounts.list_users(judging.db, OPERATOR, query="github")] == ["github"]


def unpacked(judging: Judging, actor: Actor, name: str = NAME) -> Mapping[str, str]:
    found = export_account(judging.db, actor, name)
    with zipfile.ZipFile(io.BytesIO(b"".join(found.parts))) as archive:
        assert archive.testzip() is None
        return {each: archive.read(each).decode() for each in archive.namelist()}


def test_an_export_has_all_that_belongs_to_the_user(judging: Judging) -> None:
    db, now = judging.db, judging.clock
    zaphod = come(judging)
    made = tokens.create_token(
        db, zaphod, name="läptop", scopes=[Scope.READ], kind="api", days=1, entry=SESSION, now=now()
    )
    code = account_linking.make_link_code(db, zaphod, entry=SESSION, now=now())
    membership.add_member(db, OPERATOR, "double", NAME, pseudonym="Falcon", now=now())
    mine = judging.judge(1000, NAME)
    judging.judge(500, "ada")
    found = unpacked(judging, zaphod)
    assert sorted(found) == [f"{mine.id}/code/kernel.py", f"{mine.id}/submission.json", "account.json"]
    account = json.loads(found["account.json"])
    assert (account["user"]["name"], account["user"]["identities"][0]["provider"]) == (NAME, "github")
    assert [each["name"] for each in account["tokens"]] == ["läptop"]
    assert [(each["course"], each["pseudonym"]) for each in account["members"]] == [("double", "Falcon")]
    assert [each["kind"] for each in account["news"]] == ["verdict", "overtaken"]
    assert account["news"][0]["submission_id"] == mine.id
    whole = "".join(found.values())
    assert made.secret not in whole
    assert code.code not in whole
    assert "hash" not in account["tokens"][0]
    submission = json.loads(found[f"{mine.id}/submission.json"])
    assert submission["jobs"][0]["report"]["verdict"] == "accepted"
    assert found[f"{mine.id}/code/kernel.py"] == get_code(db, mine.id).text


def test_an_export_shows_no_more_than_the_user_may_see(db: Database, clock: FakeClock) -> None:
    make_board(db, task=make_task(hidden_tests=[{"size": 424242}]))
    judging = Judging(db, clock)
    zaphod = come(judging)
    submission, _ = flagged(judging, NAME, hidden=True)
    found = [unpacked(judging, actor)[f"{submission.id}/submission.json"] for actor in (zaphod, OPERATOR)]
    assert "77.7 ns of a secret case" not in found[0]
    assert found[0] == found[1]
