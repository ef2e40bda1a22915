from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select

from builders import NOW, make_actor, make_board, make_device, make_report, make_submission, make_task
from kernelcup.app.boards import boards
from kernelcup.app.boards.changes import preview_update, update_board
from kernelcup.app.boards.settings import BoardChanges
from kernelcup.app.queue import lifecycle
from kernelcup.app.queue.queries import jobs
from kernelcup.app.submissions import events
from kernelcup.domain import (
    NOBODY,
    OPERATOR,
    CodePolicy,
    JobState,
    Language,
    RankingBy,
    Role,
    Scope,
    Submission,
    TrustRule,
    Visibility,
)
from kernelcup.errors import Conflict, Forbidden, InvalidValue, NotFound, ScopeMissing, SignInNeeded
from kernelcup.tables import AuditRow, FrozenBestRow, LeaderboardRow, TaskVersionRow
from kernelcup_harness.protocol import HarnessKind, Mode

LATER = NOW + timedelta(days=9)
OTHER = make_task(ranking_by=RankingBy.GEOM)


@pytest.fixture
def judge(db) -> Callable[..., Submission]:
    """Submit and judge at once."""

    def run(device: str = "H100", **overrides: Any) -> Submission:
        submission = make_submission(db, devices=[device], **overrides)
        lease = lifecycle.claim_next(db, owner="me", lease_s=60, devices=[device], now=NOW)
        assert lease is not None
        lifecycle.finish(db, lease, report=make_report(), harness_hash="", machine="box", now=NOW)
        return submission

    return run


def preview(db, **values: Any):
    return preview_update(db, OPERATOR, "double", now=NOW, **values)


def update(db, **values: Any):
    return update_board(db, OPERATOR, "double", now=NOW, **values)


def actions(db) -> list[tuple[str, str]]:
    with db.read() as session:
        return [(row.action, row.target) for row in session.scalars(select(AuditRow).order_by(AuditRow.id))]


def test_every_setting_can_be_changed_and_is_shown_before(db) -> None:
    old = make_board(db)
    new: dict[str, Any] = {
        "deadline": LATER,
        "opens_at": NOW - timedelta(days=1),
        "devices": ("A100", "H100"),
        "visibility": Visibility.CLOSED,
        "pseudonymous": True,
        "code_policy": CodePolicy.NEVER,
        "max_file_bytes": 1000,
        "review_tags": ("a", "b"),
        "freeze_at": NOW + timedelta(days=8),
        "trust": TrustRule.REPLAYED,
        "duel": True,
    }
    seen = preview(db, changes=BoardChanges(**new))
    assert seen.settings == {name: (getattr(old, name), value) for name, value in new.items()}
    assert boards.get_board(db, "double") == old
    done = update(db, changes=BoardChanges(**new), expected=seen.fingerprint)
    assert done.board == boards.get_board(db, "double") == dataclasses.replace(old, **new)
    assert done.preview == seen
    assert not seen.needs_rejudge


def test_a_setting_is_removed_with_none_and_kept_without_a_word(db) -> None:
    made = make_board(db, deadline=LATER, max_file_bytes=10)
    update(db, changes=BoardChanges(deadline=None))
    assert boards.get_board(db, "double") == dataclasses.replace(made, deadline=None)
    update(db, changes=BoardChanges(max_file_bytes=None))
    assert boards.get_board(db, "double").max_file_bytes is None


def test_no_change_changes_nothing_and_is_not_logged(db) -> None:
    made = make_board(db)
    done = update(db, task=make_task(), changes=BoardChanges(devices=["H100"]))
    assert not done.preview.changes_anything
    assert done.board == made
    assert actions(db) == [("board.create", "board:double")]


def test_a_new_task_version_is_shown_and_taken(db) -> None:
    make_board(db)
    seen = preview(db, task=OTHER)
    assert seen.settings == {"task.ranking_by": (RankingBy.LAST, RankingBy.GEOM)}
    assert boards.get_task(db, "double") == make_task()
    update(db, task=OTHER, expected=seen.fingerprint)
    assert boards.get_task(db, "double") == OTHER
    assert boards.get_board(db, "double").task_hash == OTHER.content_hash
    with db.read() as session:  # the version that nothing names any more is gone
        assert session.scalars(select(TaskVersionRow.hash)).all() == [OTHER.content_hash]


def test_a_preview_says_what_would_have_to_be_judged_again(db, judge) -> None:
    make_board(db, devices=["H100", "A100"])
    for user, device in (("ada", "H100"), ("ada", "H100"), ("bob", "H100"), ("bob", "A100")):
        judge(device, user=user)
    judge("H100", user="ada", mode=Mode.TEST)
    with db.write() as session:
        for device in ("H100", "A100"):
            jobs.add_duration(session, device=device, mode=Mode.LEADERBOARD, seconds=0)
        pace = {device: jobs.mean_durations(session, device)[Mode.LEADERBOARD] for device in ("H100", "A100")}
    seen = preview(db, task=OTHER)
    assert seen.needs_rejudge
    assert seen.reasons == ("the score is computed in another way",)
    assert [(each.device, each.entries, each.jobs) for each in seen.affected] == [
        ("A100", 1, 1),
        ("H100", 2, 3),
    ]
    assert seen.estimated_gpu_s == pytest.approx(pace["H100"] * 3 + pace["A100"])


def test_without_results_nothing_has_to_be_judged_again(db) -> None:
    make_board(db)
    seen = preview(db, task=OTHER)
    assert seen.reasons
    assert not seen.needs_rejudge
    assert seen.estimated_gpu_s == 0


def test_another_harness_is_a_reason_to_judge_again(db, judge) -> None:
    make_board(db, task=make_task(main="eval.py"))
    judge()
    seen = preview(db, changes=BoardChanges(harness=HarnessKind.OWN))
    assert seen.reasons == ("own harness instead of standard",)
    assert seen.needs_rejudge


@pytest.mark.parametrize(
    ("task", "changes"),
    [
        (None, BoardChanges(harness=HarnessKind.OWN)),
        (make_task(lang=Language.CUDA), BoardChanges()),
        (make_task(sources={"reference.py": "def generate_input(): ..."}), BoardChanges()),
        (None, BoardChanges(deadline=NOW - timedelta(seconds=1))),
        (None, BoardChanges(opens_at=LATER, deadline=LATER)),
        (None, BoardChanges(devices=[])),
        (None, BoardChanges(devices=["B200"])),
        (None, BoardChanges(max_file_bytes=0)),
        (None, BoardChanges(review_tags=["a b"])),
        (None, BoardChanges(freeze_at=NOW - timedelta(seconds=1))),
    ],
)
def test_what_cannot_be_is_refused_by_preview_and_update(db, task, changes: BoardChanges) -> None:
    made = make_board(db)
    for act in (preview, update):
        with pytest.raises(InvalidValue):
            act(db, task=task, changes=changes, known_devices=[make_device()])
    assert boards.get_board(db, "double") == made


def test_a_deadline_that_is_over_may_stay_while_other_things_change(db) -> None:
    make_board(db, deadline=NOW + timedelta(minutes=1))
    after = NOW + timedelta(days=1)
    done = update_board(db, OPERATOR, "double", changes=BoardChanges(pseudonymous=True), now=after)
    assert done.board.pseudonymous


def test_a_board_that_changed_since_the_preview_is_left_alone(db) -> None:
    make_board(db)
    seen = preview(db, task=OTHER)
    update(db, changes=BoardChanges(deadline=LATER))
    with pytest.raises(Conflict, match="changed since"):
        update(db, task=OTHER, expected=seen.fingerprint)
    assert boards.get_task(db, "double") == make_task()


def test_what_waits_is_judged_against_the_new_version(db) -> None:
    make_board(db)
    make_submission(db)
    running = lifecycle.claim_next(db, owner="me", lease_s=60, devices=["H100"], now=NOW)
    assert running is not None
    waiting = make_submission(db, user="bob")
    update(db, task=OTHER)
    with db.read() as session:
        (moved,) = jobs.of_submission(session, waiting.id)
        (kept,) = jobs.of_submission(session, running.job.submission_id)
    assert moved.task_hash == OTHER.content_hash
    assert kept.task_hash == make_task().content_hash


def test_a_device_with_submissions_goes_only_when_that_is_said(db) -> None:
    make_board(db, devices=["H100", "A100"])
    gone = make_submission(db, devices=["A100"])
    stays = make_submission(db, devices=["H100"])
    changes = BoardChanges(devices=["H100"])
    assert preview(db, changes=changes).removed_in_use == ("A100",)
    with pytest.raises(Conflict, match="submissions on A100"):
        update(db, changes=changes)
    update(db, changes=changes, force=True)
    with db.read() as session:
        (job,) = jobs.of_submission(session, gone.id)
        (other,) = jobs.of_submission(session, stays.id)
    assert (job.state, job.reason) == (JobState.CANCELLED, "the leaderboard no longer takes A100")
    assert other.state is JobState.QUEUED
    kinds = [event.kind for event in events.since(db, gone.id, 0)]
    assert kinds[-2:] == ["cancelled", "done"]


def test_a_device_without_submissions_goes_at_once(db) -> None:
    make_board(db, devices=["H100", "A100"])
    make_submission(db, devices=["H100"])
    assert update(
        db, changes=BoardChanges(devices=["h100"]), known_devices=[make_device()]
    ).board.devices == ("H100",)


def test_lifting_a_freeze_forgets_its_standings(db, judge) -> None:
    made = make_board(db, freeze_at=NOW)
    judge()
    update(db, changes=BoardChanges(freeze_at=None))
    with db.read() as session:
        assert session.execute(select(func.count()).select_from(FrozenBestRow)).scalar_one() == 0
        row = session.get(LeaderboardRow, made.id)
        assert row is not None
        assert (row.freeze_at, row.frozen_at) == (None, None)


def test_only_managers_look_and_change(db) -> None:
    made = make_board(db)
    grace = make_actor(db, "grace", Role.CREATOR)
    reader = dataclasses.replace(grace, scopes=frozenset({Scope.READ}))
    tried = [
        (NOBODY, SignInNeeded),
        (make_actor(db, "ada"), Forbidden),
        (make_actor(db, "other", Role.CREATOR), Forbidden),
        (reader, ScopeMissing),
    ]
    for actor, error in tried:
        for act in (preview_update, update_board):
            with pytest.raises(error):
                act(db, actor, "double", changes=BoardChanges(pseudonymous=True), now=NOW)
    assert boards.get_board(db, "double") == made
    assert update_board(
        db, grace, "double", changes=BoardChanges(pseudonymous=True), now=NOW
    ).board.pseudonymous


def test_a_closed_board_cannot_be_looked_for_by_changing_it(db) -> None:
    make_board(db, visibility=Visibility.CLOSED)
    for actor in (NOBODY, make_actor(db, "ada")):
        with pytest.raises(NotFound, match="no leaderboard 'double'"):
            update_board(db, actor, "double", now=NOW)


def test_a_change_is_in_the_log_with_old_and_new_but_no_hidden_case(db) -> None:
    make_board(db)
    secret = make_task(hidden_tests=[{"size": 424242, "seed": 1}])
    update(db, task=secret, changes=BoardChanges(deadline=LATER))
    assert actions(db)[-1] == ("board.update", "board:double")
    with db.read() as session:
        details = session.scalars(select(AuditRow.detail).order_by(AuditRow.id)).all()
    assert details[-1]["settings"] == {"deadline": [None, LATER.isoformat()]}
    assert details[-1]["task"] == [make_task().content_hash, secret.content_hash]
    assert "424242" not in json.dumps(details)


def test_results_are_judged_again_when_that_is_asked_for_and_needed(db, judge) -> None:
    make_board(db)
    first = judge()
    assert update(db, task=make_task(description="Other words."), rejudge=True).rejudge is None
    done = update(db, task=OTHER, rejudge=True)
    assert done.rejudge is not None
    assert (done.rejudge.jobs, done.rejudge.submissions) == (1, 1)
    with db.read() as session:
        (job,) = jobs.of_submission(session, first.id)
    assert (job.state, job.task_hash) == (JobState.QUEUED, OTHER.content_hash)
    assert ("board.rejudge", "board:double") in actions(db)


def test_of_two_updates_after_one_preview_only_one_is_done(db) -> None:
    make_board(db)
    seen = preview(db)
    start = threading.Barrier(2)

    def act(size: int) -> str:
        start.wait(timeout=30)
        try:
            update(db, changes=BoardChanges(max_file_bytes=size), expected=seen.fingerprint)
        except Conflict:
            return "refused"
        return "done"

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(act, [100, 200])) == ["done", "refused"]


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(TypeError, match="no settings: creator_id, id"):
        BoardChanges(id=1, creator_id=2, duel=True)
