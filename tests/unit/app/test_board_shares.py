"""Leaderboards whose jobs wait for the same GPUs."""

from __future__ import annotations

from collections import Counter

import pytest

from builders import make_actor, make_board, make_device, make_submission
from fake_fleet import FakeEngine, FakeFleet, dispatcher_of, look
from kernelcup.app.boards.boards import get_board
from kernelcup.app.boards.changes import update_board
from kernelcup.app.boards.settings import BoardChanges
from kernelcup.app.queue.estimates import waiting_of
from kernelcup.domain import OPERATOR, Job, Role
from kernelcup.errors import Forbidden, InvalidValue
from kernelcup_harness.protocol import Mode
from launcher_conformance import report_for

SHORT_S, LONG_S = 5, 10
ON_ONE_DATABASE = pytest.mark.parametrize("db_url", ["sqlite"], indirect=True)
"""For a hundred jobs; the other tests have each query on both."""


class Event:
    """Two GPUs that several leaderboards want; their jobs last as long as each test says."""

    def __init__(self, db, clock, **shares: float) -> None:
        self.db, self.clock = db, clock
        self.engine = FakeEngine({"m1": 1, "m2": 1})
        for name, share in shares.items():
            make_board(db, name=name, devices=["H100"], share=share)
        self.dispatcher = dispatcher_of(db, clock, FakeFleet(self.engine), make_device(slots=2))
        self.board_of: dict[str, str] = {}
        self.begun_at: dict[str, int] = {}
        self.took_s: Counter[str] = Counter()
        """The GPU time of each leaderboard's finished jobs."""
        self.at = 0
        self.look()

    def send(self, board: str, count: int, user: str = "", mode: Mode = Mode.LEADERBOARD) -> list[Job]:
        sent = []
        for _ in range(count):
            author = user or f"user{len(self.board_of)}"
            submission = make_submission(
                self.db, board=board, devices=["H100"], user=author, mode=mode, now=self.clock()
            )
            (job,) = submission.new_jobs
            self.board_of[str(job.id)] = board
            sent.append(job)
        return sent

    def look(self) -> None:
        look(self.dispatcher)
        for name in self.engine.calls:
            self.begun_at.setdefault(name, self.at)

    def pass_time(self, seconds: int, **lasts_s: int) -> None:
        """Let seconds pass; jobs end once they lasted as long as their leaderboard's do."""
        for _ in range(seconds // SHORT_S):  # nothing ends in between
            self.at += SHORT_S
            self.clock.advance(SHORT_S)
            for name, call in list(self.engine.calls.items()):
                board = self.board_of[call.order.spec.job_id.partition(".")[0]]
                begun = self.begun_at[name]
                if self.at - begun >= lasts_s[board]:
                    self.took_s[board] += self.at - begun
                    self.engine.report(name, report_for(call.order))
            self.look()


@ON_ONE_DATABASE
def test_leaderboards_are_given_gpu_time_by_their_shares_however_long_their_jobs_are(db, clock) -> None:
    event = Event(db, clock, main=3.0, side=1.0)
    event.send("main", 22)
    event.send("side", 5)
    event.look()
    event.pass_time(60, main=SHORT_S, side=LONG_S)
    assert event.took_s["main"] / event.took_s["side"] == pytest.approx(3, rel=0.2)


@ON_ONE_DATABASE
def test_a_leaderboard_whose_jobs_did_not_wait_saves_up_no_time_and_waits_for_no_one_elses(db, clock) -> None:
    event = Event(db, clock, first=1.0, late=1.0)
    event.send("first", 20)
    event.look()
    event.pass_time(25, first=SHORT_S, late=SHORT_S)
    before = event.took_s["first"]
    event.send("late", 10, user="ada")
    event.pass_time(25, first=SHORT_S, late=SHORT_S)
    assert event.took_s["late"] == pytest.approx(event.took_s["first"] - before, abs=3 * SHORT_S)


@pytest.mark.jobs
@ON_ONE_DATABASE
def test_a_small_share_is_served_beside_a_large_one(db, clock) -> None:
    event = Event(db, clock, large=100.0, small=4.0)
    event.send("large", 20)
    event.send("small", 2)
    event.look()
    event.pass_time(180, large=LONG_S, small=SHORT_S)
    assert event.took_s["small"] >= SHORT_S


def test_ranked_runs_go_before_practice_of_a_leaderboard_with_a_larger_share(db, clock) -> None:
    event = Event(db, clock, large=10.0, small=1.0)
    event.send("large", 10, mode=Mode.TEST)
    event.send("small", 4)
    event.look()
    event.pass_time(2 * SHORT_S + 2, large=SHORT_S, small=SHORT_S)
    assert event.took_s == {"small": 4 * SHORT_S}


def test_the_place_of_a_job_counts_what_other_leaderboards_are_served_meanwhile(db, clock) -> None:
    event = Event(db, clock, large=3.0, small=1.0)
    event.send("large", 2)
    event.look()  # both GPUs are busy
    event.send("large", 20)
    jobs = event.send("small", 3)
    places = [waiting_of(db, job.submission_id, clock())[job.id].position for job in jobs]
    assert places == [1 + 1, 1 + 1 + 4, 1 + 2 + 7]


def test_only_admins_set_the_share_and_within_its_bounds(db, clock) -> None:
    make_board(db, creator=make_actor(db, "grace", role=Role.CREATOR))
    grace = make_actor(db, "grace", role=Role.CREATOR)
    with pytest.raises(Forbidden):
        update_board(db, grace, "double", changes=BoardChanges(share=2.0), now=clock())
    with pytest.raises(InvalidValue, match=r"0\.01 to 100"):
        update_board(db, OPERATOR, "double", changes=BoardChanges(share=0.0), now=clock())
    update_board(db, OPERATOR, "double", changes=BoardChanges(share=2.0), now=clock())
    assert get_board(db, "double").share == 2.0
