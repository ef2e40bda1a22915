"""What counts: one rule, in two forms that agree, and readers that all ask it."""

from __future__ import annotations

import itertools
import random
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Float, case, cast, literal, select

import final_duels
from builders import make_actor, make_board
from fakes import FakeClock
from hand_judging import Judging, flagged
from kernelcup.app.people import audit_log
from kernelcup.app.people.user_names import actor_of
from kernelcup.app.results import finals, reviews
from kernelcup.app.results.freezes import freeze, unveil
from kernelcup.app.results.overview import improvements, show_summary
from kernelcup.app.results.queries import ruling
from kernelcup.app.results.queries.ruling import Facts, Ruling
from kernelcup.app.results.rejudge import rejudge_submission
from kernelcup.app.results.standings import history, standings
from kernelcup.app.submissions.submissions import get_code, show_submission
from kernelcup.app.submissions.withdrawal import delete_submission
from kernelcup.domain import NOBODY, OPERATOR, Actor, JobState, Role, Submission
from kernelcup.engine.database import Database
from kernelcup.errors import Conflict, Forbidden, InvalidValue, NotFound

CLOSES_IN = timedelta(hours=1)
AT = datetime(2026, 11, 1, tzinfo=UTC)
VALUES: dict[str, tuple[Any, ...]] = {
    "state": ("done", "quarantined", "rejected"),
    "counted": (True, False),
    "score_s": (1e-6, None),
    "trust": ("witnessed", "replayed", "wall_clock"),
    "judging": ("now",),
    "finished_at": (AT, AT + timedelta(days=2)),
    "takes": ("any", "replayed", "witnessed"),
    "judges": ("now", "later"),
}


@pytest.fixture
def judging(db: Database, clock: FakeClock) -> Judging:
    make_board(db, deadline=clock() + CLOSES_IN)
    return Judging(db, clock)


def sql_of(facts: Facts, since: datetime) -> Any:
    """The rule as a column, about constants."""
    of = {name: literal(getattr(facts, name)) for name in VALUES}
    # Of a value that is not there PostgreSQL has to be told the type.
    of["score_s"] = cast(facts.score_s, Float)
    told = ((holds, name.value) for name, holds in ruling.reasons(Facts(**of), since))
    return case(*told, else_=Ruling.COUNTS.value)


def test_the_rule_for_lists_and_for_one_result_is_the_same(db: Database) -> None:
    since = AT + timedelta(days=1)
    facts = [
        Facts(**dict(zip(VALUES, values, strict=True))) for values in itertools.product(*VALUES.values())
    ]
    columns = [sql_of(each, since) for each in facts]
    with db.read() as session:
        for begin in range(0, len(columns), 200):
            row = session.execute(select(*columns[begin : begin + 200])).one()
            assert list(row) == [ruling.rule(each, since).value for each in facts[begin : begin + 200]]

    assert {ruling.rule(each, since) for each in facts} == set(Ruling) - {Ruling.GONE}


def enter(judging: Judging, **times_ns: float) -> dict[str, Submission]:
    """Have users submit, each with a code of their own."""
    return {
        user: judging.judge(time_ns, user, content=f"# {user}\n".encode())
        for user, time_ns in times_ns.items()
    }


def over(judging: Judging) -> None:
    """Let the deadline pass."""
    judging.clock.advance(CLOSES_IN.total_seconds() + 1)


def put_aside(judging: Judging, submission: Submission) -> reviews.Review:
    """Have a person look at a result."""
    job = judging.job(submission)
    return reviews.quarantine(judging.db, OPERATOR, job.id, reason="odd", now=judging.clock())


def decide(judging: Judging, review: reviews.Review, decision: str) -> None:
    reviews.decide(judging.db, OPERATOR, review.id, decision=decision, now=judging.clock())


def state_of(judging: Judging, submission: Submission) -> JobState:
    return judging.job(submission).state


# After judging: finals


@pytest.mark.parametrize("decision", ["", "rejected"])
def test_a_result_that_is_put_aside_leaves_the_official_order_void(judging: Judging, decision: str) -> None:
    made = enter(judging, ada=1000, bob=1010, cyn=1020)
    over(judging)
    finals.start(judging.db, actor_of(judging.db, "grace"), "double", now=judging.clock())
    true_ns = {each.id: 1000 + 10 * number for number, each in enumerate(made.values())}
    final_duels.hold(judging.db, "double", "H100", true_ns, judging.clock())
    review = put_aside(judging, made["ada"])
    if decision:
        decide(judging, review, decision)

    found = finals.show(judging.db, "double", now=judging.clock())
    assert found is not None
    assert [(each.place, each.user) for each in found.places] == [(1, "bob"), (2, "cyn")]
    assert found.void == [made["ada"].id]


def test_a_freeze_that_is_still_to_come_hides_no_final(judging: Judging) -> None:
    enter(judging, ada=1000, bob=2000)
    over(judging)
    finals.start(judging.db, actor_of(judging.db, "grace"), "double", now=judging.clock())
    at = judging.clock() + timedelta(hours=1)
    freeze(judging.db, actor_of(judging.db, "grace"), "double", at, now=judging.clock())

    assert finals.show(judging.db, "double", viewer=NOBODY, now=judging.clock()) is not None
    assert finals.show(judging.db, "double", viewer=NOBODY, now=at + timedelta(seconds=1)) is None


# After judging: deletion


@pytest.mark.parametrize("frozen", [False, True])
def test_a_table_that_is_finished_or_frozen_loses_no_place(judging: Judging, frozen: bool) -> None:
    made = enter(judging, ada=1000, bob=2000)
    if frozen:
        freeze(judging.db, actor_of(judging.db, "grace"), "double", judging.clock(), now=judging.clock())
        judging.clock.advance(1)
    else:
        over(judging)
    ada = actor_of(judging.db, "ada")

    assert delete_submission(judging.db, made["ada"].id, by=ada, now=judging.clock()) is False
    assert judging.ranking() == [("ada", 1000), ("bob", 2000)]
    assert show_submission(judging.db, made["ada"].id).submission.withdrawn_at == judging.clock()
    assert get_code(judging.db, made["ada"].id, viewer=OPERATOR).text == "# ada\n"
    with pytest.raises(Forbidden, match="was withdrawn"):
        get_code(judging.db, made["ada"].id, viewer=actor_of(judging.db, "bob"), now=judging.clock())
    (entry,) = audit_log.entries(judging.db, OPERATOR, action="submission.withdraw")
    assert entry.detail["user"] == "ada"


def test_before_the_end_an_author_deletes_for_good_and_a_manager_at_any_time(judging: Judging) -> None:
    made = enter(judging, ada=1000, bob=2000)
    assert delete_submission(judging.db, made["ada"].id, by=actor_of(judging.db, "ada"), now=judging.clock())
    over(judging)
    grace = actor_of(judging.db, "grace")
    assert delete_submission(judging.db, made["bob"].id, by=grace, now=judging.clock())
    assert judging.ranking() == []


# After judging: equal code


def test_a_person_holds_and_decides_about_every_copy_of_a_code(judging: Judging) -> None:
    copies = [judging.judge(1000 + n, user, content=b"# the same\n") for n, user in enumerate(("ada", "bob"))]
    other = judging.judge(3000, "cyn", content=b"# another\n")

    review = put_aside(judging, copies[1])
    assert [state_of(judging, each) for each in copies] == [JobState.QUARANTINED] * 2
    assert judging.ranking() == [("cyn", 3000)]
    decide(judging, review, "released")
    assert [state_of(judging, each) for each in (*copies, other)] == [JobState.DONE] * 3
    assert judging.ranking() == [("ada", 1000), ("bob", 1001), ("cyn", 3000)]
    assert reviews.open_reviews(judging.db, OPERATOR) == []


def test_a_rejection_reaches_copies_that_a_rule_did_not_hold(judging: Judging) -> None:
    submission, review = flagged(judging)
    code = get_code(judging.db, submission.id).text.encode()
    copy = judging.judge(900, "ada", content=code)
    assert state_of(judging, copy) is JobState.DONE
    decide(judging, review, "rejected")

    assert state_of(judging, copy) is JobState.REJECTED
    assert judging.ranking() == []


# All readers


def shown_by_readers(judging: Judging, viewer: Actor) -> dict[str, set[int]]:
    """Return the submissions that each reader shows as ranked."""
    db, options = judging.db, {"viewer": viewer}
    final = finals.show(db, "double", now=judging.clock(), **options)
    best = show_summary(db, "double", **options).devices[0]
    return {
        "standings": {each.submission_id for each in standings(db, "double", "H100", **options)},
        "history": {each.submission_id for each in history(db, "double", "H100", **options)},
        "improvements": {
            each.submission_id for each in improvements(db, "double", "H100", **options).records
        },
        "final": set() if final is None else {each.submission for each in final.places},
        "count": {best.entries},
    }


class Lives:
    """Does with random results what can be done with them."""

    def __init__(self, judging: Judging, seed: int) -> None:
        self.judging, self.chance = judging, random.Random(seed)
        self.made: dict[int, Submission] = {}
        self.grace = make_actor(judging.db, "grace", Role.CREATOR)
        self.steps = [self.judge] * 4 + [self.hold, self.release, self.reject, self.delete, self.rejudge]
        self.steps += [self.freeze, self.unveil]

    def step(self) -> None:
        """Take the next step, which may not be possible."""
        with suppress(Conflict, Forbidden, InvalidValue, NotFound, IndexError):
            self.chance.choice(self.steps)()
        self.judging.clock.advance(1)

    def one(self) -> Submission:
        return self.chance.choice(list(self.made.values()))

    def judge(self) -> None:
        text = f"# {self.chance.randrange(3)}\n".encode()
        time_ns = self.chance.randrange(500, 5000)
        submission = self.judging.judge(time_ns, self.chance.choice(("ada", "bob", "cyn")), content=text)
        self.made[submission.id] = submission

    def hold(self) -> None:
        put_aside(self.judging, self.one())

    def release(self) -> None:
        decide(self.judging, self.chance.choice(reviews.open_reviews(self.judging.db, OPERATOR)), "released")

    def reject(self) -> None:
        decide(self.judging, self.chance.choice(reviews.open_reviews(self.judging.db, OPERATOR)), "rejected")

    def delete(self) -> None:
        gone, db = self.one(), self.judging.db
        if delete_submission(db, gone.id, by=actor_of(db, gone.user), now=self.judging.clock()):
            del self.made[gone.id]

    def rejudge(self) -> None:
        rejudge_submission(self.judging.db, self.grace, self.one().id, now=self.judging.clock())
        while lease := self.judging.claim():
            self.judging.finish(lease, self.chance.randrange(500, 5000))

    def freeze(self) -> None:
        freeze(self.judging.db, self.grace, "double", self.judging.clock(), self.judging.clock())

    def unveil(self) -> None:
        unveil(self.judging.db, self.grace, "double", self.judging.clock())


@pytest.mark.parametrize("seed", range(10))
def test_no_reader_shows_what_does_not_count_over_random_lives(judging: Judging, seed: int) -> None:
    lives = Lives(judging, seed)
    for _ in range(25):
        lives.step()
        with judging.db.read() as session:
            rulings = ruling.of_submissions(session, list(lives.made), "H100")
        counts = {number for number, told in rulings.items() if told is Ruling.COUNTS}
        for viewer in (OPERATOR, NOBODY):
            readers = shown_by_readers(judging, viewer)
            assert readers.pop("count") == {len(readers["standings"])}
            # A frozen table is what it was: what is decided since is for its managers.
            wrong = {
                name: shown - counts
                for name, shown in readers.items()
                if viewer is OPERATOR or name != "standings"
            }
            assert not any(wrong.values()), (viewer, wrong, rulings)
