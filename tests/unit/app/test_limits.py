from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from sqlalchemy import func, select

from builders import NOW, make_actor, make_board, make_report, make_submission
from kernelcup import errors
from kernelcup.app.queue import lifecycle
from kernelcup.app.rules.limits import add_limit, budget, list_limits, parse_limit, remove_limit
from kernelcup.app.submissions.withdrawal import cancel_submission, delete_submission
from kernelcup.domain import OPERATOR, Role, Visibility
from kernelcup.domain.answers import Quantity
from kernelcup.tables import AuditRow, PaceRow, SubmissionRow
from kernelcup_harness.protocol import Mode, Verdict

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


def count(db) -> int:
    with db.read() as session:
        return session.execute(select(func.count()).select_from(SubmissionRow)).scalar_one()


def limit(db, text: str, **scope) -> None:
    add_limit(db, OPERATOR, text=text, now=NOW, **scope)


def refused(db, **overrides) -> int:
    with pytest.raises(errors.RateLimited) as error:
        make_submission(db, **overrides)
    return error.value.retry_after_s


def judge(db, *, start, seconds: float, device: str = "H100", **overrides) -> None:
    lease = lifecycle.claim_next(db, owner="me", lease_s=9999, devices=[device], now=start)
    report = make_report(job_id=lifecycle.job_name(lease), **overrides)
    end = start + timedelta(seconds=seconds)
    lifecycle.finish(db, lease, report=report, harness_hash="", machine="box", now=end)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10/hour", (Quantity.SUBMISSIONS, 10, 3600)),
        ("3 per 10 minutes", (Quantity.SUBMISSIONS, 3, 600)),
        ("1 submission / day", (Quantity.SUBMISSIONS, 1, 86_400)),
        ("600 gpu-seconds/day", (Quantity.GPU_SECONDS, 600, 86_400)),
        ("600 GPU seconds per Day", (Quantity.GPU_SECONDS, 600, 86_400)),
    ],
)
def test_limits_are_written_as_words(text: str, expected: tuple[Quantity, float, int]) -> None:
    assert parse_limit(text) == expected


@pytest.mark.parametrize(
    "text", ["", "10", "0/hour", "-1/hour", "1.5/hour", "10/fortnight", "10/hour;5/day", "9 cpu-seconds/day"]
)
def test_another_form_is_refused(text: str) -> None:
    with pytest.raises(errors.InvalidValue):
        parse_limit(text)


def test_a_window_slides(db) -> None:
    make_board(db)
    limit(db, "2/hour")
    make_submission(db)
    make_submission(db, now=NOW + 10 * MINUTE)
    assert refused(db, now=NOW + 20 * MINUTE) == 40 * 60
    assert refused(db, now=NOW + HOUR - timedelta(seconds=0.5)) == 1
    assert make_submission(db, now=NOW + HOUR).id
    assert refused(db, now=NOW + HOUR) == 10 * 60


def test_the_strictest_of_several_limits_counts(db) -> None:
    make_board(db)
    limit(db, "2/hour")
    limit(db, "1/minute")
    make_submission(db)
    assert refused(db) == 60
    make_submission(db, now=NOW + MINUTE)
    assert refused(db, now=NOW + MINUTE) == 59 * 60


def test_each_user_has_their_own_amount_unless_it_is_shared(db) -> None:
    make_board(db)
    limit(db, "1/hour")
    make_submission(db, user="ada")
    make_submission(db, user="bob")
    refused(db, user="ADA")
    limit(db, "2/hour", per_user=False)
    refused(db, user="cyn")


def test_a_limit_of_one_board_does_not_count_others(db) -> None:
    make_board(db)
    make_board(db, name="other")
    limit(db, "1/hour", board="double")
    make_submission(db, board="double")
    refused(db, board="DOUBLE")
    make_submission(db, board="other")
    make_submission(db, board="other")


@pytest.mark.parametrize("scope", [{"device": "h100"}, {"device": "h100", "board": "double"}])
def test_a_device_counts_once_for_each_submission_that_names_it(db, scope) -> None:
    make_board(db, devices=["H100", "A100"])
    limit(db, "2/hour", **scope)
    make_submission(db, devices=["H100", "A100"])
    make_submission(db, devices=["A100"])
    make_submission(db, devices=["h100"])
    refused(db, devices=["a100", "H100"])
    make_submission(db, devices=["A100"])


def test_modes_may_have_limits_of_their_own(db) -> None:
    make_board(db)
    limit(db, "1/hour", mode_group="ranked")
    make_submission(db, mode=Mode.LEADERBOARD)
    refused(db, mode=Mode.LEADERBOARD)
    limit(db, "2/hour", mode_group="practice")
    make_submission(db, mode=Mode.TEST)
    make_submission(db, mode=Mode.BENCHMARK)
    refused(db, mode=Mode.BENCHMARK)
    limit(db, "1/hour", mode_group="profile")
    make_submission(db, mode=Mode.PROFILE)
    refused(db, mode=Mode.PROFILE)


def test_one_user_may_be_limited_alone(db) -> None:
    make_board(db)
    make_actor(db, "ada")
    limit(db, "1/hour", user="ADA")
    make_submission(db, user="ada")
    refused(db, user="ada")
    make_submission(db, user="bob")
    make_submission(db, user="bob")


def test_cancelling_or_deleting_gives_nothing_back(db) -> None:
    make_board(db, devices=["H100", "A100"])
    for scope in ({}, {"device": "H100"}, {"board": "double", "mode_group": "ranked", "per_user": False}):
        limit(db, "2/hour", **scope)
    ada = make_actor(db, "ada")
    first, second = (make_submission(db, user=ada, devices=["H100"]) for _ in range(2))
    cancel_submission(db, first.id, by=ada, now=NOW)
    delete_submission(db, second.id, by=ada, now=NOW)
    assert refused(db, user=ada, devices=["H100"]) == 3600
    assert make_submission(db, user=ada, devices=["H100"], now=NOW + HOUR).id


@pytest.mark.parametrize("scope", [{}, {"per_user": False, "board": "double"}])
def test_of_40_parallel_submissions_exactly_10_come_through(db, scope) -> None:
    make_board(db)
    limit(db, "10/hour", **scope)
    shared = not scope.get("per_user", True)
    people = [make_actor(db, f"user{number}" if shared else "ada") for number in range(40 if shared else 1)]

    def one(number: int) -> bool:
        try:
            make_submission(db, user=people[number % len(people)])
        except errors.RateLimited:
            return False
        return True

    with ThreadPoolExecutor(12) as pool:
        taken = sum(pool.map(one, range(40)))
    assert (taken, count(db)) == (10, 10)


def test_gpu_seconds_count_runs_and_what_is_still_to_run(db) -> None:
    make_board(db)
    limit(db, "100 gpu-seconds/hour")
    with db.write() as session:
        session.add(PaceRow(device="H100", mode="leaderboard", mean_s=30.0, count=5))
    make_submission(db)
    judge(db, start=NOW, seconds=60)
    make_submission(db, now=NOW + 2 * MINUTE)  # 60
    make_submission(db, now=NOW + 2 * MINUTE)  # 90
    assert refused(db, now=NOW + 2 * MINUTE) == 59 * 60  # 120: the run ended after 1 minute
    assert make_submission(db, now=NOW + HOUR + MINUTE).id
    judge(db, start=NOW + HOUR + MINUTE, seconds=5)
    (left,) = budget(db, make_actor(db, "ada"), board="double", device="H100", now=NOW + HOUR + 2 * MINUTE)
    assert left.used == pytest.approx(65, abs=1)
    assert left.used + left.remaining == pytest.approx(100)


def test_each_gpu_of_a_job_counts(db) -> None:
    make_board(db, devices=["H100x2"])
    limit(db, "100 gpu-seconds/hour")
    make_submission(db)
    judge(db, start=NOW, seconds=40, device="H100x2")
    (left,) = budget(db, make_actor(db, "ada"), board="double", device="H100x2", now=NOW + MINUTE)
    assert left.used == 80


def test_internal_errors_count_from_a_users_second_of_a_day_on(db) -> None:
    make_board(db)
    limit(db, "50 gpu-seconds/day")
    failed = {"verdict": Verdict.INTERNAL_ERROR, "stages": []}
    for user in ("ada", "bob"):
        make_submission(db, user=make_actor(db, user))
        judge(db, start=NOW, seconds=60, **failed)
    make_submission(db, user=make_actor(db, "ada"), now=NOW + 2 * MINUTE)
    judge(db, start=NOW + 2 * MINUTE, seconds=60, **failed)
    assert refused(db, user=make_actor(db, "ada"), now=NOW + 4 * MINUTE)
    assert make_submission(db, user=make_actor(db, "bob"), now=NOW + 4 * MINUTE).id


def test_deleting_a_free_internal_error_makes_the_next_no_free_one(db) -> None:
    make_board(db)
    limit(db, "50 gpu-seconds/day")
    ada = make_actor(db, "ada")
    for start in (NOW, NOW + 2 * MINUTE):
        submission = make_submission(db, user=ada, now=start)
        judge(db, start=start, seconds=60, verdict=Verdict.INTERNAL_ERROR, stages=[])
        delete_submission(db, submission.id, by=ada, now=start + MINUTE)
    assert refused(db, user=ada, now=NOW + 4 * MINUTE)


def lose(db, *, start, device: str = "H100") -> None:
    """Lose each attempt at the first waiting job."""
    for minute in range(lifecycle.MAX_ATTEMPTS):
        at = start + minute * MINUTE
        lease = lifecycle.claim_next(db, owner="me", lease_s=9999, devices=[device], now=at)
        lifecycle.fail_attempt(db, lease, reason="the machine is gone", now=at + MINUTE)


@pytest.mark.parametrize("text", ["1/day", "5 gpu-seconds/day"])
@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_submission_that_no_machine_could_judge_is_given_back(db, text: str, *, is_deleted: bool) -> None:
    make_board(db)
    limit(db, text)
    ada = make_actor(db, "ada")
    for minute in (0, 10, 20):
        lost = make_submission(db, user=ada, now=NOW + minute * MINUTE)
        assert refused(db, user=ada, now=NOW + minute * MINUTE)  # while it may still be judged it counts
        lose(db, start=NOW + minute * MINUTE)
        if is_deleted:
            delete_submission(db, lost.id, by=ada, now=NOW + (minute + 5) * MINUTE)
    make_submission(db, user=ada, now=NOW + 30 * MINUTE)
    judge(db, start=NOW + 30 * MINUTE, seconds=60)
    assert refused(db, user=ada, now=NOW + 32 * MINUTE)


def test_a_submission_counts_if_one_of_its_devices_judged_it(db) -> None:
    make_board(db, devices=["H100", "A100"])
    limit(db, "1/day", device="A100")
    ada = make_actor(db, "ada")
    make_submission(db, user=ada, devices=["H100", "A100"])
    judge(db, start=NOW, seconds=1)
    lose(db, start=NOW, device="A100")
    make_submission(db, user=ada, devices=["A100"], now=NOW + 5 * MINUTE)
    limit(db, "2/day")
    assert refused(db, user=ada, devices=["H100"], now=NOW + 5 * MINUTE)


@pytest.mark.parametrize("end", [cancel_submission, delete_submission])
def test_gpu_seconds_of_cancelled_and_deleted_runs_count(db, end) -> None:
    make_board(db)
    limit(db, "50 gpu-seconds/hour")
    ada = make_actor(db, "ada")
    submission = make_submission(db, user=ada)
    if end is delete_submission:
        judge(db, start=NOW, seconds=60)
    else:
        lifecycle.claim_next(db, owner="me", lease_s=9999, devices=["H100"], now=NOW)
    end(db, submission.id, by=ada, now=NOW + MINUTE)
    assert refused(db, user=ada, now=NOW + MINUTE) == 3600


def test_a_budget_says_what_is_left(db) -> None:
    make_board(db)
    ada = make_actor(db, "ada")
    limit(db, "3/hour", board="double")
    limit(db, "1/hour", device="A100")
    (before,) = budget(db, ada, board="double", device="H100", now=NOW)
    assert (before.used, before.remaining, before.resets_at) == (0, 3, None)
    make_submission(db, user=ada)
    make_submission(db, user=ada, now=NOW + MINUTE)
    (after,) = budget(db, ada, board="double", device="h100", now=NOW + MINUTE)
    assert (after.used, after.remaining, after.resets_at) == (2, 1, NOW + HOUR)


def test_limits_are_set_by_who_may(db) -> None:
    make_board(db, visibility=Visibility.CLOSED)
    grace, eve = make_actor(db, "grace", role=Role.CREATOR), make_actor(db, "eve", role=Role.CREATOR)
    made = add_limit(db, grace, text="5/hour", board="DOUBLE", now=NOW)
    assert list_limits(db, grace, "double") == list_limits(db, OPERATOR) == [made]
    with pytest.raises(errors.NotFound):
        add_limit(db, eve, text="5/hour", board="double", now=NOW)
    with pytest.raises(errors.NotFound):
        remove_limit(db, eve, made.id, now=NOW)
    for forbidden in ({}, {"user": "eve"}, {"device": "H100"}):
        with pytest.raises(errors.Forbidden):
            add_limit(db, grace, text="5/hour", now=NOW, **forbidden)
    with pytest.raises(errors.Forbidden):
        list_limits(db, grace)
    remove_limit(db, grace, made.id, now=NOW)
    assert list_limits(db, OPERATOR) == []
    with db.read() as session:
        actions = session.scalars(select(AuditRow.action).where(AuditRow.action.like("limit%"))).all()
    assert actions == ["limit.add", "limit.remove"]


def test_what_a_limit_names_must_be_there(db) -> None:
    make_board(db)
    for scope in ({"user": "zoe"}, {"board": "triple"}, {"board": "double", "device": "B200"}):
        with pytest.raises(errors.NotFound):
            limit(db, "1/hour", **scope)
    with pytest.raises(errors.InvalidValue):
        limit(db, "1/hour", mode_group="fast")
