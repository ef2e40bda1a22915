from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta
from typing import Any

import pytest

from builders import NOW, make_actor, make_board, make_report, make_submission
from kernelcup.app.queue import lifecycle
from kernelcup.app.stats import stats
from kernelcup.domain import NOBODY, OPERATOR, Role, Scope
from kernelcup.domain.answers import UserTime
from kernelcup.errors import Forbidden, InvalidValue, ScopeMissing, SignInNeeded
from kernelcup_harness.protocol import Verdict

LATER = NOW + timedelta(days=3)


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def judge(db, *, made: float, starts: float, ends: float, device: str = "H100", **overrides: Any) -> None:
    report = overrides.pop("report", make_report())
    make_submission(db, devices=[device], now=at(made), **overrides)
    lease = lifecycle.claim_next(db, owner="me", lease_s=600, devices=[device], now=at(starts))
    assert lease is not None
    lifecycle.finish(db, lease, report=report, harness_hash="", machine="box", now=at(ends))


@pytest.fixture
def used(db):
    """Two boards with some runs."""
    make_board(db, devices=["H100", "A100"])
    make_board(db, name="other")
    judge(db, board="double", made=0, starts=10, ends=15)
    judge(
        db,
        board="double",
        made=20,
        starts=50,
        ends=60,
        user="bob",
        report=make_report(verdict=Verdict.WRONG_ANSWER),
    )
    judge(db, board="double", made=70, starts=71, ends=72, device="A100", content=b"custom_kernel = print\n")
    judge(db, board="other", made=1000, starts=1001, ends=1101, user="cyn")
    make_submission(db, board="other", user="cyn", now=at(1200))
    return db


def test_the_figures_of_the_service(used) -> None:
    found = stats(used, OPERATOR, now=LATER)
    assert (found.submissions, found.users, found.unique_codes) == (5, 3, 2)
    assert (found.waiting, found.running) == (1, 0)
    a100, h100 = found.devices
    assert (a100.device, a100.runs, a100.passed, a100.scored) == ("A100", 1, 1, 1)
    assert (h100.device, h100.runs, h100.passed, h100.scored) == ("H100", 3, 2, 2)
    assert h100.longest_delay_s == pytest.approx(30, abs=0.01)
    assert h100.mean_delay_s == pytest.approx((10 + 30 + 1) / 3, abs=0.01)
    assert h100.run_s == pytest.approx(115, abs=0.01)
    assert [(each.user, round(each.run_s)) for each in found.top_users] == [
        ("cyn", 100),
        ("bob", 10),
        ("ada", 6),
    ]


def test_the_figures_of_one_board_and_of_a_time(used) -> None:
    one = stats(used, OPERATOR, board="DOUBLE", now=LATER)
    assert (one.board, one.submissions, one.users, one.waiting) == ("double", 3, 2, 0)
    late = stats(used, OPERATOR, since=at(1000), now=LATER)
    assert (late.submissions, late.users, [each.runs for each in late.devices]) == (2, 1, [1])


def test_nothing_was_done_yet(db) -> None:
    found = stats(db, OPERATOR, now=NOW)
    assert (found.submissions, found.users, found.waiting, found.devices, found.top_users) == (
        0,
        0,
        0,
        (),
        (),
    )


def test_a_creator_sees_their_board_without_the_users(used) -> None:
    grace = make_actor(used, "grace", Role.CREATOR)
    found = stats(used, grace, board="double", now=LATER)
    assert (found.submissions, found.top_users) == (3, ())
    admin = make_actor(used, "root", Role.ADMIN)
    assert stats(used, admin, board="double", now=LATER).top_users[0] == UserTime(
        user="bob", run_s=pytest.approx(10, abs=0.01)
    )
    with pytest.raises(Forbidden):
        stats(used, grace, now=LATER)


def test_others_see_no_figures(used) -> None:
    tried = [
        (NOBODY, SignInNeeded),
        (make_actor(used, "ada"), Forbidden),
        (dataclasses.replace(OPERATOR, scopes=frozenset({Scope.READ})), ScopeMissing),
    ]
    for actor, error in tried:
        for board in (None, "double"):
            with pytest.raises(error):
                stats(used, actor, board=board, now=LATER)


def test_a_moment_ahead_is_refused(db) -> None:
    with pytest.raises(InvalidValue, match="is in the future"):
        stats(db, OPERATOR, since=LATER, now=NOW)
