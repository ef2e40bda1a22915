"""What pages read of many places at once is what single questions answer, and costs no more than it must."""

from __future__ import annotations

import pytest

from builders import make_actor, make_board, make_case, make_report, make_stage
from hand_judging import Judging
from kernelcup.app.results.facts import Remembered
from kernelcup.app.results.freezes import freeze
from kernelcup.app.results.leader import beside
from kernelcup.app.results.profile import show_profile
from kernelcup.app.results.queries import facts
from kernelcup.app.results.standings import personal_best, places_of_submission
from kernelcup.app.submissions.submissions import show_submission
from kernelcup.domain import NOBODY, OPERATOR
from kernelcup_harness.protocol import Timing


@pytest.fixture
def judging(db, clock) -> Judging:
    make_board(db)
    return Judging(db, clock)


def test_a_profile_has_the_places_that_single_questions_answer(judging) -> None:
    make_board(judging.db, name="frozen")
    for board in ("double", "frozen"):
        for user, time_ns in (("ada", 3000), ("bob", 1000), ("eve", 3000)):
            judging.judge(time_ns, user, board=board)
    freeze(judging.db, OPERATOR, "frozen", judging.clock(), now=judging.clock())
    judging.clock.advance(1)
    judging.judge(500, "ada", board="frozen")
    for viewer in (NOBODY, OPERATOR, make_actor(judging.db, "ada")):
        found = {
            each.board.name: each.standing for each in show_profile(judging.db, "ada", viewer=viewer).bests
        }
        assert set(found) == {"double", "frozen"}
        for board, standing in found.items():
            assert standing == personal_best(judging.db, board, "H100", "ada", viewer=viewer)
    assert found["frozen"].rank == 2


def test_a_submission_holds_a_place_while_it_is_its_users_best(judging) -> None:
    slow = judging.judge(3000)
    fast = judging.judge(2000)
    held = places_of_submission(judging.db, "double", ["H100", "MI300"], fast.id)
    assert {device: each.place.rank for device, each in held.items()} == {"H100": 1}
    assert places_of_submission(judging.db, "double", ["H100"], slow.id) == {}


def test_the_report_of_the_first_place_is_decoded_once(judging, monkeypatch) -> None:
    judging.submit("bob")
    cases = [make_case(timing=Timing(samples_ns=[1000.0]), index=index) for index in range(3)]
    hidden = make_case(timing=Timing(samples_ns=[1000.0]), index=3, hidden=True)
    judging.finish(judging.claim(), report=make_report(stages=[make_stage([*cases, hidden])]))
    view = show_submission(judging.db, judging.judge(2000).id)
    decoded = []
    reports = facts.reports
    monkeypatch.setattr("kernelcup.app.results.facts._TIMES", Remembered(10))
    monkeypatch.setattr(facts, "reports", lambda *given: decoded.append(given) or reports(*given))
    for _ in range(3):
        (told,) = beside(judging.db, view).jobs
        assert told.best is not None
        assert dict(told.best.cases_ns) == {0: 1000.0, 1: 1000.0, 2: 1000.0}
    assert len(decoded) == 1
