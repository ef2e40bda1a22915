"""Prices of machines, and budgets in money."""

from __future__ import annotations

from datetime import timedelta

import pytest

from builders import NOW, make_actor, make_board, make_device, make_report, make_submission
from fake_fleet import FakeEngine, FakeFleet, dispatcher_of, look
from kernelcup.app.machines import machines
from kernelcup.app.queue import lifecycle
from kernelcup.app.queue.estimates import waiting_of
from kernelcup.app.rules.limits import add_limit, budget
from kernelcup.app.submissions.withdrawal import delete_submission
from kernelcup.domain import OPERATOR, Role
from kernelcup.errors import Forbidden, InvalidValue, NotFound, RateLimited
from kernelcup.launchers.base import MachineReading
from launcher_conformance import report_for

HOUR = timedelta(hours=1)


def add_machine(db, price: float, *, name: str = "lab") -> None:
    found = [MachineReading(name=name, slots={"H100": 2}, facts={})]
    machines.note_seen(db, found, launcher="fake", is_own=True, now=NOW)
    machines.change(db, name, price_per_hour=price, now=NOW)


def judge(db, user: str, hours: float, *, at=NOW, device: str = "H100", machine: str = "lab") -> int:
    author = make_actor(db, user)
    submission = make_submission(db, board="double", user=author, devices=[device], now=at)
    lease = lifecycle.claim_next(db, owner="me", lease_s=9e5, devices=[device], now=at)
    report = make_report([1000.0], job_id=lifecycle.job_name(lease))
    lifecycle.finish(db, lease, report=report, harness_hash="", machine=machine, now=at + hours * HOUR)
    return submission.id


def refused(db, user: str, *, at) -> int:
    with pytest.raises(RateLimited, match="in cost") as error:
        make_submission(db, board="double", user=make_actor(db, user), devices=["H100"], now=at)
    return error.value.retry_after_s


def test_a_machine_keeps_what_its_work_cost_at_the_prices_of_its_time(db) -> None:
    make_board(db, devices=["H100", "H100x2"])
    add_machine(db, 3.0)
    judge(db, "ada", 2)
    machines.change(db, "lab", price_per_hour=1.0, now=NOW)
    judge(db, "ada", 1, device="H100x2")
    (lab,) = machines.list_machines(db, now=NOW)
    assert (lab.busy_s, lab.cost) == (4 * 3600, 2 * 3.0 + 2 * 1.0)


def test_a_participant_has_a_budget_of_money_beside_the_one_in_gpu_seconds(db) -> None:
    make_board(db)
    add_machine(db, 2.0)
    add_limit(db, OPERATOR, text="5.50 cost/day", board="double", now=NOW)
    add_limit(db, OPERATOR, text="90000 gpu-seconds/day", board="double", now=NOW)
    judge(db, "ada", 2)
    left, _ = budget(db, make_actor(db, "ada"), board="double", device="H100", now=NOW + 2 * HOUR)
    assert (left.used, left.remaining) == (4.0, 1.5)
    judge(db, "ada", 1, at=NOW + 2 * HOUR)
    assert refused(db, "ada", at=NOW + 3 * HOUR) == 23 * 3600
    judge(db, "bob", 1, at=NOW + 3 * HOUR)
    judge(db, "ada", 1, at=NOW + 26 * HOUR)  # the first run does not count any more


def test_a_board_has_a_budget_that_all_share_and_that_deleting_does_not_fill_again(db) -> None:
    make_board(db)
    make_board(db, name="other", devices=["H100"])
    add_machine(db, 2.0)
    add_limit(db, OPERATOR, text="3 cost/month", board="double", per_user=False, now=NOW)
    first = judge(db, "ada", 1)
    judge(db, "bob", 1)
    delete_submission(db, first, by=make_actor(db, "ada"), now=NOW + HOUR)
    assert refused(db, "eve", at=NOW + HOUR)
    make_submission(db, board="other", user=make_actor(db, "eve"), devices=["H100"], now=NOW + HOUR)


def test_what_waits_counts_with_its_expected_cost(db) -> None:
    make_board(db)
    add_machine(db, 120.0)  # a job is expected to take 30 s before one was measured
    add_limit(db, OPERATOR, text="2 cost/hour", now=NOW)
    for _ in range(2):
        make_submission(db, user=make_actor(db, "ada"), devices=["H100"])
    assert refused(db, "ada", at=NOW)


def test_a_launcher_whose_budget_is_used_up_begins_no_job_until_it_is_over(db, clock) -> None:
    make_board(db)
    engine = FakeEngine({"m1": 1})
    dispatcher = dispatcher_of(db, clock, FakeFleet(engine), make_device(slots=1))
    look(dispatcher)
    machines.change(db, "m1", price_per_hour=10.0, now=clock())
    add_limit(db, OPERATOR, text="5 cost/day", launcher="fake", now=clock())
    for user in ("ada", "bob"):
        waits = make_submission(db, devices=["H100"], user=user, now=clock())
    look(dispatcher)
    (call,) = engine.calls
    clock.advance(1800)
    engine.report(call, report_for(engine.calls[call].order))
    look(dispatcher)
    assert not engine.calls  # the second was accepted, and waits
    (job,) = waits.new_jobs
    reason = waiting_of(db, waits.id, clock())[job.id].reason
    assert reason.startswith("the budget for H100 is used up until 20")
    clock.advance(86_400 + 1)
    look(dispatcher)
    look(dispatcher)
    assert len(engine.calls) == 1


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        ("10/hour", {"launcher": "modal"}),
        ("10 cost/hour", {"launcher": "modal", "device": "H100"}),
        ("0 cost/hour", {}),
        ("2.5/hour", {}),
        ("2.5 gpu-seconds/hour", {}),
    ],
)
def test_a_budget_that_means_nothing_is_refused(db, text: str, scope: dict[str, str]) -> None:
    with pytest.raises(InvalidValue):
        add_limit(db, OPERATOR, text=text, now=NOW, **scope)


def test_budgets_say_what_they_are(db) -> None:
    make_board(db)
    of_board = add_limit(db, OPERATOR, text="20 cost/month", board="double", per_user=False, now=NOW)
    of_launcher = add_limit(db, OPERATOR, text="0.5 cost/day", launcher="modal", now=NOW)
    assert of_board.text == "20 in cost per 30 days to double, for all together"
    assert of_launcher.text == "0.5 in cost per day of launcher modal"
    grace = make_actor(db, "grace", role=Role.CREATOR)
    with pytest.raises(Forbidden):
        add_limit(db, grace, text="9 cost/day", launcher="modal", now=NOW)


def test_a_budget_needs_a_launcher_that_there_is(db) -> None:
    with pytest.raises(NotFound, match=r"no launcher 'modall', only .*modal"):
        add_limit(db, OPERATOR, text="5 cost/day", launcher="modall", now=NOW)
