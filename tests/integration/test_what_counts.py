"""What counts: one rule, in two forms that agree, and readers that all ask it."""

from __future__ import annotations

import csv
import dataclasses
import io
import itertools
import operator
import random
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Float, case, cast, literal, select

import final_duels
from builders import make_actor, make_board, make_task
from fakes import FakeClock
from hand_judging import Judging, flagged
from kernelcup.app.access import HERE
from kernelcup.app.boards.changes import update_board
from kernelcup.app.boards.managing import rename_board
from kernelcup.app.news import stream
from kernelcup.app.people import accounts, audit_log
from kernelcup.app.people.queries import users
from kernelcup.app.people.user_names import actor_of
from kernelcup.app.results import docket, finals, places, reviews
from kernelcup.app.results import standings as standings_of
from kernelcup.app.results.freezes import freeze, unveil
from kernelcup.app.results.overview import improvements, show_summary
from kernelcup.app.results.profile import show_profile
from kernelcup.app.results.queries import ruling, runs
from kernelcup.app.results.queries.ruling import Facts
from kernelcup.app.results.rejudge import rejudge_submission
from kernelcup.app.results.standings import places_of_submission, standings
from kernelcup.app.results.table import history
from kernelcup.app.submissions.submissions import get_code, list_views, show_submission
from kernelcup.app.submissions.withdrawal import delete_submission
from kernelcup.domain import ASIDE, NOBODY, OPERATOR, Actor, JobState, Role, Ruling, Submission, Task
from kernelcup.engine.database import Database
from kernelcup.errors import Forbidden, UserError
from kernelcup.http.pages.boards.boards import _csv, head_of
from kernelcup_kernelbot.popcorn import forms as popcorn_forms

CLOSES_IN = timedelta(hours=1)
AT = datetime(2026, 11, 1, tzinfo=UTC)
VALUES: dict[str, tuple[Any, ...]] = {
    "state": ("done", "quarantined", "rejected"),
    "counted": (True, False),
    "score_s": (1e-6, None),
    "practice": (False, True),
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


@pytest.mark.parametrize("most", [2, pytest.param(len(VALUES), marks=pytest.mark.jobs)])
def test_the_rule_for_lists_and_for_one_result_is_the_same(db: Database, most: int) -> None:
    """Of a result that counts but for two fields, and of all."""
    since = AT + timedelta(days=1)
    usual = [values[0] for values in VALUES.values()]
    every = itertools.product(*VALUES.values())
    some = [values for values in every if sum(map(operator.ne, values, usual)) <= most]
    facts = [Facts(**dict(zip(VALUES, values, strict=True))) for values in some]
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
    reviews.decide(judging.db, OPERATOR, review.id, decision=decision, note="looked at", now=judging.clock())


def state_of(judging: Judging, submission: Submission) -> JobState:
    return judging.job(submission).state


# After judging: finals


@pytest.mark.parametrize("decision", [pytest.param("", marks=pytest.mark.jobs), "rejected"])
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

    assert delete_submission(judging.db, made["ada"].id, by=ada, now=judging.clock()).withdrawn
    assert judging.ranking() == [("ada", 1000), ("bob", 2000)]
    assert show_submission(judging.db, made["ada"].id).withdrawn_at == judging.clock()
    assert get_code(judging.db, made["ada"].id, viewer=OPERATOR).text == "# ada\n"
    with pytest.raises(Forbidden, match="was withdrawn"):
        get_code(judging.db, made["ada"].id, viewer=actor_of(judging.db, "bob"), now=judging.clock())
    (entry,) = audit_log.entries(judging.db, OPERATOR, action="submission.withdraw")
    assert entry.target == f"submission:{made['ada'].id}"
    assert entry.detail == {
        "user": "ada",
        "board": "double",
        "place": {"H100": 1},
        "score_s": {"H100": pytest.approx(1e-6)},
    }


def test_before_the_end_an_author_deletes_for_good_and_a_manager_at_any_time(judging: Judging) -> None:
    made = enter(judging, ada=1000, bob=2000)
    assert not delete_submission(
        judging.db, made["ada"].id, by=actor_of(judging.db, "ada"), now=judging.clock()
    ).withdrawn
    over(judging)
    grace = actor_of(judging.db, "grace")
    assert not delete_submission(judging.db, made["bob"].id, by=grace, now=judging.clock()).withdrawn
    assert judging.ranking() == []
    told = audit_log.entries(judging.db, OPERATOR, action="submission.delete")
    assert sorted((each.actor, each.detail["user"]) for each in told) == [("ada", "ada"), ("grace", "bob")]


def test_a_frozen_table_keeps_what_does_not_count_any_more(judging: Judging) -> None:
    made = enter(judging, ada=1000, bob=2000)
    db, ada = judging.db, actor_of(judging.db, "ada")
    grace = make_actor(db, "grace", Role.CREATOR)
    freeze(db, grace, "double", judging.clock(), now=judging.clock())
    judging.clock.advance(1)
    update_board(db, grace, "double", task=make_task(tests=[{"size": 32, "seed": 1}]), now=judging.clock())
    accounts.ban(db, OPERATOR, "bob", reason="odd", now=judging.clock())

    assert delete_submission(db, made["ada"].id, by=ada, now=judging.clock()).withdrawn
    shown = standings(db, "double", "H100", viewer=NOBODY)
    assert [(each.user, each.submission_id) for each in shown] == [
        ("ada", made["ada"].id),
        ("bob", made["bob"].id),
    ]
    (best,) = show_profile(db, "ada", viewer=NOBODY).bests
    assert best.standing.submission_id == made["ada"].id
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


def submit_same(judging: Judging, user: str, time_ns: float = 900) -> Submission:
    return judging.judge(time_ns, user, content=b"# the same\n")


@pytest.mark.parametrize(
    ("decision", "state"), [("released", JobState.DONE), ("rejected", JobState.REJECTED)]
)
@pytest.mark.parametrize("decided", ["original", "copy"])
def test_copy_that_arrives_while_a_person_looks_waits_and_is_decided_too(
    judging, decision, state, decided
) -> None:
    original = submit_same(judging, "ada", 1000)
    review = put_aside(judging, original)
    copy, honest = submit_same(judging, "bob"), judging.judge(3000, "cyn")
    assert [state_of(judging, each) for each in (copy, honest)] == [JobState.QUARANTINED, JobState.DONE]
    assert judging.ranking() == [("cyn", 3000)]
    assert judging.job(copy).reason == "its code is that of another result that a person put aside"

    if decided == "copy":
        review = reviews.open_reviews(judging.db, OPERATOR)[-1]
    decide(judging, review, decision)
    assert [state_of(judging, each) for each in (original, copy)] == [state] * 2
    done = reviews.get_review(judging.db, OPERATOR, review.id)
    assert {done.submission_id, *done.same_code} == {original.id, copy.id}
    assert reviews.open_reviews(judging.db, OPERATOR) == []


def test_rejected_copies_are_looked_at_again_and_released_together(judging: Judging) -> None:
    first, second = submit_same(judging, "ada"), submit_same(judging, "bob", 1000)
    decide(judging, put_aside(judging, first), "rejected")
    review = put_aside(judging, first)
    assert state_of(judging, second) is JobState.QUARANTINED
    decide(judging, review, "released")
    assert judging.ranking() == [("ada", 900), ("bob", 1000)]


def test_released_code_does_not_release_a_measurement(judging: Judging) -> None:
    measured, _ = flagged(judging)
    code = get_code(judging.db, measured.id).text.encode()
    decide(judging, put_aside(judging, judging.judge(900, "ada", content=code)), "released")
    assert state_of(judging, measured) is JobState.QUARANTINED
    assert judging.ranking() == [("ada", 900)]


def test_released_measurement_waits_while_a_person_looks_at_its_code(judging: Judging) -> None:
    measured, of_rule = flagged(judging)
    code = get_code(judging.db, measured.id).text.encode()
    of_person = put_aside(judging, judging.judge(900, "ada", content=code))
    decide(judging, of_rule, "released")
    assert judging.ranking() == []
    decide(judging, of_person, "released")
    assert [user for user, _ in judging.ranking()] == ["bob", "ada"]


def test_docket_does_not_say_which_result_waits(judging: Judging) -> None:
    original = submit_same(judging, "ada", 1000)
    put_aside(judging, original)
    submit_same(judging, "bob")
    shown = docket.entries(judging.db, NOBODY)
    assert len(shown) == 2
    assert not any(str(original.id) in each.reason for each in shown)


# All readers


class Lives:
    """Does with random results what can be done with them."""

    def __init__(self, judging: Judging, seed: int) -> None:
        self.judging, self.chance = judging, random.Random(seed)
        self.made: dict[int, Submission] = {}
        self.grace = make_actor(judging.db, "grace", Role.CREATOR)
        self.board, self.names = "double", ["ada", "bob", "cyn"]
        self.frozen: set[int] | None = None
        """The submissions whose places others see while the leaderboard is frozen."""
        self.steps = [self.judge] * 6 + [self.hold, self.release, self.reject, self.delete, self.rejudge] * 2
        self.steps += [self.freeze, self.unveil, self.ban, self.unban, self.update, self.update_back]
        self.steps += [self.rename_user, self.rename_board]

    def step(self) -> str:
        """Take the next step, which may not be possible, and return its name."""
        step = self.chance.choice(self.steps)
        with suppress(UserError, IndexError):
            step()
        self.judging.clock.advance(1)
        return step.__name__

    def one(self) -> Submission:
        return self.chance.choice(list(self.made.values()))

    def review(self) -> reviews.Review:
        return self.chance.choice(reviews.open_reviews(self.judging.db, OPERATOR))

    def judge(self) -> None:
        text = f"# {self.chance.randrange(3)}\n".encode()
        time_ns, user = self.chance.randrange(500, 5000), self.chance.choice(self.names)
        submission = self.judging.judge(time_ns, user, content=text, board=self.board)
        self.made[submission.id] = submission

    def hold(self) -> None:
        put_aside(self.judging, self.one())

    def release(self) -> None:
        decide(self.judging, self.review(), "released")

    def reject(self) -> None:
        decide(self.judging, self.review(), "rejected")

    def delete(self) -> None:
        gone, db = self.one(), self.judging.db
        author = dataclasses.replace(actor_of(db, "grace"), user_id=gone.user_id, role=Role.PARTICIPANT)
        if not delete_submission(db, gone.id, by=author, now=self.judging.clock()).withdrawn:
            del self.made[gone.id]

    def rejudge(self) -> None:
        rejudge_submission(self.judging.db, self.grace, self.one().id, now=self.judging.clock())
        while lease := self.judging.claim():
            self.judging.finish(lease, self.chance.randrange(500, 5000))

    def freeze(self) -> None:
        seen = standings(self.judging.db, self.board, "H100", viewer=NOBODY)
        freeze(self.judging.db, self.grace, self.board, self.judging.clock(), now=self.judging.clock())
        self.frozen = {each.submission_id for each in seen}

    def unveil(self) -> None:
        unveil(self.judging.db, self.grace, self.board, now=self.judging.clock())
        self.frozen = None

    def ban(self) -> None:
        name = self.chance.choice(self.names)
        accounts.ban(self.judging.db, OPERATOR, name, reason="odd", now=self.judging.clock())

    def unban(self) -> None:
        accounts.unban(self.judging.db, OPERATOR, self.chance.choice(self.names), now=self.judging.clock())

    def update(self) -> None:
        self.change(make_task(tests=[{"size": 32, "seed": self.chance.randrange(3)}]))

    def update_back(self) -> None:
        self.change(make_task())

    def change(self, task: Task) -> None:
        update_board(self.judging.db, self.grace, self.board, task=task, now=self.judging.clock())

    def rename_user(self) -> None:
        at = self.chance.randrange(len(self.names))
        new = f"{self.names[at][:3]}{self.chance.randrange(100)}"
        accounts.change(
            self.judging.db, OPERATOR, self.names[at], new_name=new, entry=HERE, now=self.judging.clock()
        )
        self.names[at] = new

    def rename_board(self) -> None:
        new = f"double-{self.chance.randrange(100)}"
        rename_board(self.judging.db, self.grace, self.board, new, now=self.judging.clock())
        self.board = new


def places_of(lives: Lives, viewer: Actor) -> dict[str, set[int]]:
    """Return the submissions that each reader of places shows."""
    db, board, now = lives.judging.db, lives.board, lives.judging.clock()
    event = standings_of.rankings(db, board, "H100", viewer=viewer)
    export = _csv(db, head_of(db, board, "H100", viewer=viewer, now=now), viewer).decode()
    profiles = [show_profile(db, name, viewer=viewer).bests for name in lives.names if has_user(db, name)]
    held = [places_of_submission(db, board, ["H100"], each, viewer=viewer) for each in lives.made]
    return {
        "standings": {each.submission_id for each in standings(db, board, "H100", viewer=viewer)},
        "event": {each.submission_id for part in event for each in part},
        "export": {int(row["submission"]) for row in csv.DictReader(io.StringIO(export))},
        "profile": {each.standing.submission_id for bests in profiles for each in bests},
        "submissions": {each.place.submission_id for places in held for each in places.values()},
    }


def has_user(db: Database, name: str) -> bool:
    with db.read() as session:
        return users.find(session, name) is not None


def shown_by_readers(lives: Lives, viewer: Actor) -> dict[str, set[int]]:
    """Return the submissions that each reader of results shows."""
    db, board, options = lives.judging.db, lives.board, {"viewer": viewer}
    final = finals.show(db, board, now=lives.judging.clock(), **options)
    return {
        "history": {each.submission_id for each in history(db, board, "H100", **options)},
        "improvements": {each.submission_id for each in improvements(db, board, "H100", **options).records},
        "final": set() if final is None else {each.submission for each in final.places},
    }


def shown_with_results(lives: Lives, viewer: Actor) -> dict[str, set[int]]:
    """Return the submissions whose results each reader shows whether or not they rank."""
    db, board = lives.judging.db, lives.board
    views = list_views(db, board=board, viewer=viewer)
    with db.read() as session:
        compared = runs.scores(session, list(lives.made), "H100")
    return {
        "feed": {each.submission for each in stream.items(db, viewer, board=board) if each.submission},
        "popcorn": {
            view.id
            for view in views
            if any(run["score"] is not None for run in popcorn_forms.of_list(view)["runs"])
        },
        "comparisons": set(compared) if viewer is OPERATOR else set(),
        "lists": set() if viewer is OPERATOR else {each.id for each in views if each.jobs[0].run is not None},
    }


def docket_of(lives: Lives) -> dict[int, str | None]:
    """Return the newest decision about each submission that is there, None for one that is pending."""
    found = {each.id: each for each in docket.entries(lives.judging.db, OPERATOR, board=lives.board)}
    every = [
        *reviews.open_reviews(lives.judging.db, OPERATOR),
        *reviews.open_reviews(lives.judging.db, OPERATOR, decided=True),
    ]
    shown = sorted((each.id, each.submission_id) for each in every if each.id in found)
    return {submission: found[number].decision for number, submission in shown}


ALL_STEPS = [pytest.param(seed, 1, marks=pytest.mark.jobs) for seed in range(5)]
SEEDS = pytest.mark.parametrize(("seed", "every"), [(2, 5), *ALL_STEPS])
"""The life of a seed, and how often readers are asked: after each step it takes seconds."""

Places = list[tuple[int, int, bool, float]]


def ranked(lives: Lives, viewer: Actor) -> Places:
    """Return the submission, rank and time of each place, and whether its rank is shared."""
    found = standings(lives.judging.db, lives.board, "H100", viewer=viewer)
    return [(each.submission_id, each.rank, each.tied, each.score_s) for each in found]


@SEEDS
def test_a_revision_means_the_same_places_over_random_lives(
    judging: Judging, seed: int, every: int, monkeypatch
) -> None:
    monkeypatch.setattr(places, "PART", 2)
    lives, steps = Lives(judging, seed), []
    lives.names += ["dan", "eve", "fay"]
    known: dict[int, Places] = {}
    now = 0
    for at in range(40):
        if at == 30:
            over(judging)
        steps.append(lives.step())
        seen = now
        for viewer in (OPERATOR, NOBODY):
            now = standings_of.revision(judging.db, lives.board, "H100", viewer=viewer)
            shown = ranked(lives, viewer)
            assert known.setdefault(now, shown) == shown, steps
            with monkeypatch.context() as far:
                far.setattr(places, "NEAR", 0)
                assert ranked(lives, viewer) == shown, steps
            for each in standings(judging.db, lives.board, "H100", viewer=viewer)[at % 3 :: 3]:
                own = standings_of.personal_best(judging.db, lives.board, "H100", each.user, viewer=viewer)
                assert own == each, steps
        # It tells readers of a freeze nothing of what happens behind it.
        assert lives.frozen is None or now == seen, steps


@pytest.mark.parametrize("placed", [True, False])
def test_readers_of_a_freeze_learn_of_a_deletion_only_if_they_saw_the_place(
    judging: Judging, placed: bool, monkeypatch
) -> None:
    monkeypatch.setattr(places, "NEAR", 0)
    made, db = enter(judging, ada=1000, bob=2000), judging.db
    second = judging.judge(3000, "ada", content=b"# slower\n")
    freeze(db, OPERATOR, "double", judging.clock(), now=judging.clock())
    judging.clock.advance(1)
    judging.judge(500, "bob", content=b"# hidden\n")

    def seen() -> int:
        return standings_of.revision(db, "double", "H100", viewer=NOBODY)

    before = seen()
    delete_submission(db, (made["ada"] if placed else second).id, by=OPERATOR, now=judging.clock())
    assert (seen() != before) is placed
    shown = standings(db, "double", "H100", viewer=NOBODY)
    expected = [made["bob"], second] if placed else [made["ada"], made["bob"]]
    assert [each.submission_id for each in shown] == [each.id for each in expected]


@SEEDS
def test_no_two_readers_disagree_over_random_lives(judging: Judging, seed: int, every: int) -> None:
    lives, steps = Lives(judging, seed), []
    for at in range(30):
        if at == 22:
            over(judging)
        steps.append(lives.step())
        if at % every:
            continue
        with judging.db.read() as session:
            rulings = ruling.of_submissions(session, list(lives.made), "H100")
        counts = {number for number, of in rulings.items() if of is Ruling.COUNTS}
        aside = {number for number, of in rulings.items() if of in ASIDE}
        waiting = reviews.open_reviews(judging.db, OPERATOR)
        held = {lives.made[each.submission_id].code_hash for each in waiting if each.opened_by != "kernelcup"}
        assert held.isdisjoint(lives.made[each].code_hash for each in counts), (steps, rulings)
        best = show_summary(judging.db, lives.board).devices[0]
        places = places_of(lives, OPERATOR)
        first, *others = places.values()
        assert all(each == first for each in others), (steps, places)
        assert first <= counts, (steps, first, rulings)
        assert {lives.made[each].user_id for each in first} == {lives.made[each].user_id for each in counts}
        assert best.entries == len(first)
        for viewer in (OPERATOR, NOBODY):
            wrong = {name: shown - counts for name, shown in shown_by_readers(lives, viewer).items()}
            wrong |= {name: shown & aside for name, shown in shown_with_results(lives, viewer).items()}
            assert not any(wrong.values()), (steps, viewer, wrong, rulings)
        # A frozen table is what it was: what is decided since is for its managers.
        places = places_of(lives, NOBODY)
        frozen = first if lives.frozen is None else lives.frozen
        assert all(each == frozen for each in places.values()), (steps, places, frozen, rulings)
        if lives.frozen is None:
            told = {None: Ruling.HELD, "rejected": Ruling.REJECTED}
            decided = docket_of(lives)
            assert {each: told[decision] for each, decision in decided.items() if decision in told} == {
                each: of for each, of in rulings.items() if of in ASIDE
            }, (steps, decided, rulings)
