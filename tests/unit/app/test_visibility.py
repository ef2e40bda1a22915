from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest

from builders import (
    NOW,
    SUBMISSION,
    look_at,
    make_actor,
    make_board,
    make_case,
    make_report,
    make_stage,
    make_submission,
)
from kernelcup import errors
from kernelcup.app.boards.late_exceptions import grant_late
from kernelcup.app.boards.visibility import find_shown
from kernelcup.app.courses.membership import add_member
from kernelcup.app.people.audit_log import entries
from kernelcup.app.queue import lifecycle
from kernelcup.app.results.freezes import freeze, unveil
from kernelcup.app.results.leader import beside
from kernelcup.app.results.reviews import quarantine
from kernelcup.app.results.standings import personal_best, places_of_submission, standings
from kernelcup.app.results.table import history
from kernelcup.app.submissions.submissions import (
    check_follows,
    get_code,
    list_views,
    screening_of,
    show_submission,
)
from kernelcup.app.submissions.withdrawal import cancel_submission, delete_submission
from kernelcup.domain import (
    NOBODY,
    OPERATOR,
    Actor,
    CodePolicy,
    Filters,
    Role,
    Scope,
    Submission,
    Visibility,
)
from kernelcup_harness.protocol import CapturedOutput, Mode, dumps

HOUR = timedelta(hours=1)
SECRET = "canary"


@pytest.fixture
def play(db, clock):
    """Return a function that submits and judges at once."""

    def submit_and_judge(user: str, time_ns: float = 1000.0, *, report=None, **overrides):
        submission = make_submission(db, **({"user": user, "now": clock()} | overrides))
        clock.advance(1)
        lease = lifecycle.claim_next(db, owner="me", lease_s=60, devices=["H100"], now=clock())
        found = report or make_report([time_ns])
        clock.advance(1)
        lifecycle.finish(db, lease, report=found, harness_hash="", machine=SECRET, now=clock())
        clock.advance(1)
        return submission

    return submit_and_judge


def ranking(db, viewer=OPERATOR) -> list[tuple[str, int]]:
    return [(each.user, round(each.score_s * 1e9)) for each in standings(db, "double", "H100", viewer=viewer)]


def records(db, viewer=OPERATOR, **query) -> list[tuple[str, int]]:
    found = history(db, "double", "H100", viewer=viewer, **query)
    return [(each.user, round(each.score_s * 1e9)) for each in found]


def shown(db, viewer, **query) -> list[int]:
    return [each.id for each in list_views(db, viewer=viewer, **query)]


def test_of_others_one_sees_what_is_ranked_and_its_outcome_only(db, play) -> None:
    make_board(db)
    printed = CapturedOutput(text=SECRET)
    ranked = play("ada", report=make_report(message=SECRET, stdout=printed, secret_seed="ab" * 32))
    practice = make_submission(db, user="ada", mode=Mode.TEST)
    waiting = make_submission(db, user="ada")
    for viewer in (make_actor(db, "eve"), NOBODY):
        assert shown(db, viewer) == [waiting.id, ranked.id]
        view = show_submission(db, ranked.id, viewer=viewer)
        (job,) = view.jobs
        assert (view.user, job.counted.verdict) == ("ada", "accepted")
        assert job.counted.score_s == pytest.approx(1e-6)
        assert [stage.name for stage in job.counted.report.stages] == ["ranked"]
        assert (job.counted.report.secret_seed, view.code_hash) == ("", "")
        assert SECRET not in dumps(job.counted.report) + repr(view)
        for hidden in (practice, waiting):
            with pytest.raises(errors.Forbidden):
                show_submission(db, hidden.id, viewer=viewer)
        for ask in (get_code, check_follows):
            with pytest.raises((errors.Forbidden, errors.SignInNeeded)):
                ask(db, ranked.id, viewer=viewer)
    (_, listed) = list_views(db, viewer=NOBODY)
    assert (listed.jobs[0].counted.verdict, listed.jobs[0].counted.report.stages) == ("accepted", [])


def test_authors_and_managers_see_it_all(db, play) -> None:
    make_board(db)
    practice = make_submission(db, user="ada", mode=Mode.TEST)
    assert shown(db, make_actor(db, "ada")) == [practice.id]
    for viewer in (
        make_actor(db, "ada"),
        make_actor(db, "grace", Role.CREATOR),
        make_actor(db, "root", Role.ADMIN),
    ):
        assert shown(db, viewer) == shown(db, viewer, board="DOUBLE") == [practice.id]
        seen = show_submission(db, practice.id, viewer=viewer)
        assert (seen.user_id, seen.code_hash) == (practice.user_id, practice.code_hash)
        assert get_code(db, practice.id, viewer=viewer).code == SUBMISSION
        check_follows(db, practice.id, viewer=viewer)
    assert shown(db, make_actor(db, "eve", Role.CREATOR)) == []


def test_only_managers_see_what_was_printed_while_ranked(db, play) -> None:
    make_board(db)
    stages = [make_stage([make_case()])]
    submission = play("ada", report=make_report(stages=stages, stderr=CapturedOutput(text=SECRET)))
    reports = {
        name: show_submission(db, submission.id, viewer=make_actor(db, name, role)).jobs[0].counted.report
        for name, role in (("ada", Role.PARTICIPANT), ("grace", Role.CREATOR))
    }
    assert SECRET not in dumps(reports["ada"])
    assert reports["grace"].stderr.text == SECRET
    assert reports["ada"].stages == stages


def test_nothing_of_a_closed_board_exists_for_outsiders(db, play) -> None:
    make_board(db, visibility=Visibility.CLOSED)
    submission = play("ada")  # the operator submitted for ada, who is no member
    for viewer in (make_actor(db, "ada"), make_actor(db, "eve", Role.CREATOR), NOBODY):
        assert shown(db, viewer) == shown(db, viewer, user="ada") == []
        for ask in (show_submission, get_code, check_follows, screening_of):
            with pytest.raises(errors.NotFound, match=f"no submission {submission.id}"):
                ask(db, submission.id, viewer=viewer)
        for change in (cancel_submission, delete_submission):
            with pytest.raises(errors.NotFound, match=f"no submission {submission.id}"):
                change(db, submission.id, by=viewer, now=NOW)
        for name in ("double", "DOUBLE"):
            for look in (standings, history):
                with pytest.raises(errors.NotFound, match=name):
                    look(db, name, "H100", viewer=viewer)
            with pytest.raises(errors.NotFound, match=name):
                shown(db, viewer, board=name)
    add_member(db, OPERATOR, "double", "eve", now=NOW)
    assert shown(db, make_actor(db, "eve")) == [submission.id]


def test_tags_and_findings_of_the_screen_are_for_managers(db) -> None:
    make_board(db)
    submission = make_submission(db, content=b"import sys\nsys._getframe(1)\n")
    look_at(db, submission)
    grace = make_actor(db, "grace", Role.CREATOR)
    (tag, *_) = [each.tag for each in screening_of(db, submission.id, viewer=grace).findings]
    assert (
        shown(db, grace, filters=Filters(tag=tag))
        == shown(db, OPERATOR, filters=Filters(tag=tag))
        == [submission.id]
    )
    for viewer in (make_actor(db, "ada"), NOBODY):
        assert (
            shown(db, viewer, filters=Filters(tag=tag))
            == shown(db, viewer, filters=Filters(tag=tag), board="double")
            == []
        )
        with pytest.raises((errors.Forbidden, errors.SignInNeeded)):
            screening_of(db, submission.id, viewer=viewer)


def test_only_the_author_and_managers_cancel_and_delete(db) -> None:
    make_board(db)
    submission = make_submission(db, user="ada")
    ada, eve = make_actor(db, "ada"), make_actor(db, "eve", Role.CREATOR)
    reader = dataclasses.replace(ada, scopes=frozenset({Scope.READ}))
    for change in (cancel_submission, delete_submission):
        with pytest.raises(errors.Forbidden):
            change(db, submission.id, by=eve, now=NOW)
        with pytest.raises(errors.ScopeMissing):
            change(db, submission.id, by=reader, now=NOW)
        with pytest.raises(errors.SignInNeeded):
            change(db, submission.id, by=NOBODY, now=NOW)
    grace = make_actor(db, "grace", Role.CREATOR)
    assert cancel_submission(db, submission.id, by=grace, now=NOW).cancelled_jobs == 1
    assert [each.actor for each in entries(db, OPERATOR, action="submission.cancel")] == ["grace"]
    delete_submission(db, submission.id, by=ada, now=NOW)


def test_what_is_under_review_is_not_deleted_by_its_author(db, play) -> None:
    make_board(db)
    submission = play("ada")
    (job,) = show_submission(db, submission.id).jobs
    quarantine(db, OPERATOR, job.id, reason="too fast", evidence={}, now=NOW)
    with pytest.raises(errors.Forbidden, match="under review"):
        delete_submission(db, submission.id, by=make_actor(db, "ada"), now=NOW)
    with pytest.raises(errors.NotFound):
        show_submission(db, submission.id, viewer=make_actor(db, "eve"))
    delete_submission(db, submission.id, by=make_actor(db, "grace", Role.CREATOR), now=NOW)


def test_code_is_published_after_the_deadline_and_the_last_exception(db, play) -> None:
    make_board(db, deadline=NOW + HOUR)
    ranked, eve = play("ada"), make_actor(db, "eve")
    practice = play("ada", mode=Mode.TEST, report=make_report(mode=Mode.TEST, stages=[]))
    make_actor(db, "bob")
    grant_late(db, OPERATOR, "double", "bob", NOW + 2 * HOUR, now=NOW)
    for now in (None, NOW + HOUR, NOW + 2 * HOUR):
        with pytest.raises(errors.Forbidden):
            get_code(db, ranked.id, viewer=eve, now=now)
    later = NOW + 3 * HOUR
    assert get_code(db, ranked.id, viewer=NOBODY, now=later).code == SUBMISSION
    with pytest.raises(errors.Forbidden):
        get_code(db, practice.id, viewer=eve, now=later)
    freeze(db, OPERATOR, "double", later, now=later)
    with pytest.raises(errors.Forbidden):
        get_code(db, ranked.id, viewer=eve, now=later)


@pytest.mark.parametrize("settings", [{"code_policy": CodePolicy.NEVER}, {"pseudonymous": True}])
def test_code_may_never_be_published(db, play, settings) -> None:
    make_board(db, deadline=NOW + HOUR, **settings)
    ranked = play("ada")
    with pytest.raises(errors.Forbidden):
        get_code(db, ranked.id, viewer=make_actor(db, "eve"), now=NOW + 9 * HOUR)


def test_a_result_has_the_places_before_and_after_it(db, play) -> None:
    make_board(db, pseudonymous=True)
    slow, fast, middle = play("ada", 3000), play("bob", 1000), play("eve", 2000)
    practice = play("zoe", mode=Mode.TEST, report=make_report(mode=Mode.TEST, stages=[]))

    def around(number: int) -> list[int | None]:
        (found,) = places_of_submission(db, "double", ["H100"], number, viewer=make_actor(db, "zoe")).values()
        return [each and each.submission_id for each in (found.before, found.after)]

    assert around(fast.id) == [None, middle.id]
    assert around(middle.id) == [fast.id, slow.id]
    assert around(slow.id) == [middle.id, None]
    assert places_of_submission(db, "double", ["H100"], practice.id) == {}
    (held,) = places_of_submission(db, "double", ["H100"], middle.id, viewer=NOBODY).values()
    assert held.before is not None
    assert held.before.user == f"participant {fast.id}"


def test_pseudonyms_hide_names_from_all_but_managers_and_oneself(db, play) -> None:
    make_board(db, pseudonymous=True)
    ada, bob = make_actor(db, "ada"), make_actor(db, "bob")
    add_member(db, OPERATOR, "double", "ada", pseudonym="Owl", now=NOW)
    adas = play("ada", 1000, file_name="ada.py")
    bobs = play("bob", 2000, file_name="bob.py")
    unnamed = f"participant {bobs.id}"
    assert ranking(db, NOBODY) == [("Owl", 1000), (unnamed, 2000)]
    assert ranking(db, ada) == [("ada", 1000), (unnamed, 2000)]
    assert ranking(db, bob) == records(db, bob)[::-1] == [("Owl", 1000), ("bob", 2000)]
    assert ranking(db, make_actor(db, "grace", Role.CREATOR)) == [("ada", 1000), ("bob", 2000)]
    files = [each.file_name for each in standings(db, "double", "H100", viewer=bob)]
    assert files == ["", "bob.py"]
    seen = [show_submission(db, adas.id, viewer=bob), *list_views(db, viewer=bob, board="double")]
    for view in seen:
        if view.id == adas.id:
            assert (view.user, view.user_id, view.file_name) == (
                "Owl",
                0,
                "",
            )
    assert "ada" not in repr(seen) + repr(history(db, "double", "H100", viewer=bob))


def test_a_true_name_finds_nobody_behind_a_pseudonym(db, play) -> None:
    make_board(db, pseudonymous=True)
    make_board(db, name="plain")
    add_member(db, OPERATOR, "double", make_actor(db, "ada").name, pseudonym="Owl", now=NOW)
    adas, bobs = play("ada", board="double"), play("bob", board="double")
    plain = play("ada", board="plain")
    for viewer in (make_actor(db, "eve"), NOBODY):
        for name in ("ada", "ADA"):
            assert shown(db, viewer, user=name) == [plain.id]
            assert shown(db, viewer, user=name, board="double") == records(db, viewer, user=name) == []
            assert personal_best(db, "double", "H100", name, viewer=viewer) is None
        for name, own in (("owl", adas), (f"Participant {bobs.id}", bobs)):
            assert shown(db, viewer, user=name, board="double") == [own.id]
            assert personal_best(db, "double", "H100", name, viewer=viewer).submission_id == own.id
        assert shown(db, viewer, user=f"participant {adas.id}", board="double") == []
    assert set(shown(db, make_actor(db, "ada"), user="ada")) == {adas.id, plain.id}


def test_a_freeze_hides_how_others_do_until_it_is_unveiled(db, play, clock) -> None:
    make_board(db)
    play("ada", 3000)
    play("bob", 2000)
    freeze(db, OPERATOR, "double", clock() + HOUR, now=clock())
    play("ada", 2500)
    clock.advance(7200)
    before = [("bob", 2000), ("ada", 2500)]
    ada, bob = make_actor(db, "ada"), make_actor(db, "bob")
    assert ranking(db, bob) == ranking(db, NOBODY) == ranking(db) == before
    late = play("ada", 1000)
    assert ranking(db, bob) == ranking(db, ada) == before
    assert ranking(db) == [("ada", 1000), ("bob", 2000)]
    assert ranking(db, make_actor(db, "grace", Role.CREATOR)) == ranking(db)
    assert records(db, bob) == [("ada", 2500), ("bob", 2000), ("ada", 3000)]
    assert records(db, ada)[0] == records(db)[0] == ("ada", 1000)
    for view in (show_submission(db, late.id, viewer=bob), list_views(db, viewer=bob)[0]):
        assert (view.id, view.jobs[0].run) == (late.id, None)
    assert show_submission(db, late.id, viewer=ada).jobs[0].counted.score_s == pytest.approx(1e-6)
    mine = personal_best(db, "double", "H100", "ada", viewer=ada)
    assert (mine.rank, round(mine.score_s * 1e9)) == (2, 2500)
    theirs = personal_best(db, "double", "H100", "ada", viewer=bob)
    assert (theirs.rank, round(theirs.score_s * 1e9)) == (2, 2500)
    unveil(db, OPERATOR, "double", now=clock())
    assert ranking(db, bob) == ranking(db)
    assert show_submission(db, late.id, viewer=bob).jobs[0].counted.score_s == pytest.approx(1e-6)


def test_no_two_people_are_first_while_a_board_is_frozen(db, play, clock) -> None:
    make_board(db)
    play("ada", 3000)
    freeze(db, OPERATOR, "double", clock(), now=clock())
    clock.advance(1)
    play("bob", 2000)
    play("cyn", 1000)
    told = {
        name: personal_best(db, "double", "H100", name, viewer=make_actor(db, name))
        for name in ("ada", "bob", "cyn")
    }
    assert {name: place.rank for name, place in told.items() if place is not None} == {"ada": 1}


def test_a_result_after_the_freeze_says_that_it_is_not_shown(db, play, clock) -> None:
    make_board(db)
    before = play("ada", 3000)
    frozen_at = clock()
    freeze(db, OPERATOR, "double", frozen_at, now=clock())
    clock.advance(2)
    after = play("ada", 1000)
    ada = make_actor(db, "ada")

    def remark_of(submission: Submission, viewer: Actor) -> str:
        view = show_submission(db, submission.id, viewer=viewer)
        return beside(db, view, viewer=viewer).jobs[0].remark

    assert (
        remark_of(after, ada)
        == f"Frozen since {frozen_at:%Y-%m-%d %H:%M:%S} UTC; yours is not shown until the end."
    )
    assert remark_of(before, ada) == remark_of(after, OPERATOR) == ""
    unveil(db, OPERATOR, "double", now=clock())
    assert remark_of(after, ada) == ""


def test_what_was_sent_before_a_freeze_and_judged_after_it_is_hidden(db, play, clock) -> None:
    make_board(db)
    freeze(db, OPERATOR, "double", clock() + timedelta(seconds=1.5), now=clock())
    submission = play("ada")
    bob = make_actor(db, "bob")
    assert show_submission(db, submission.id, viewer=bob).jobs[0].run is None
    assert ranking(db, bob) == records(db, bob) == []


def test_who_deletes_a_frozen_best_withdraws_it_and_leaves_the_table_as_it_is(db, play, clock) -> None:
    make_board(db)
    play("ada", 3000)
    best = play("ada", 2000)
    freeze(db, OPERATOR, "double", clock(), now=clock())
    clock.advance(10)
    play("ada", 1000)
    delete_submission(db, best.id, by=make_actor(db, "ada"), now=clock())
    assert ranking(db, make_actor(db, "bob")) == [("ada", 2000)]
    assert ranking(db) == [("ada", 1000)]


def test_a_freeze_is_the_managers_and_begins_now_or_later(db, clock) -> None:
    make_board(db)
    ada = make_actor(db, "ada")
    with pytest.raises(errors.Forbidden):
        freeze(db, ada, "double", NOW, now=NOW)
    with pytest.raises(errors.Conflict):
        unveil(db, OPERATOR, "double", now=NOW)
    with pytest.raises(errors.InvalidValue):
        freeze(db, OPERATOR, "double", NOW - HOUR, now=NOW)
    freeze(db, OPERATOR, "double", NOW + HOUR, now=NOW)
    assert freeze(db, OPERATOR, "double", NOW, now=NOW).freeze_at == NOW
    with pytest.raises(errors.Conflict):
        freeze(db, OPERATOR, "double", NOW + HOUR, now=NOW)
    with pytest.raises(errors.Forbidden):
        unveil(db, ada, "double", now=NOW)
    assert unveil(db, OPERATOR, "double", now=NOW).freeze_at is None


def test_pages_of_standings_and_history_continue_each_other(db, play) -> None:
    make_board(db)
    for user, time_ns in {"ada": 2000, "bob": 1000, "cyn": 2000, "dan": 3000, "eve": 2000}.items():
        play(user, time_ns)
    everybody = standings(db, "double", "H100")
    assert [place.rank for place in everybody] == [1, 2, 2, 2, 5]
    for size in (1, 2, 3):
        pages = [standings(db, "double", "H100", limit=size, offset=start) for start in range(0, 6, size)]
        assert [place for page in pages for place in page] == everybody
    newest = history(db, "double", "H100", limit=2)
    older = history(db, "double", "H100", before_id=newest[-1].id)
    assert [*newest, *older] == history(db, "double", "H100")
    assert records(db, user="ADA") == [("ada", 2000)]


def test_a_number_that_no_submission_can_have_names_nobody(db) -> None:
    board = make_board(db, pseudonymous=True)
    with db.read() as session:
        for number in (2**31 - 1, 2**31, 10**10 - 1, 10**17):
            assert find_shown(session, board, f"participant {number}", NOBODY) is None
