"""A service in use: leaderboards, people, submissions in every state."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from builders import (
    NOW,
    SUBMISSION,
    make_board,
    make_case,
    make_report,
    make_stage,
    make_submission,
    make_task,
)
from database_kinds import content_of, replace_content
from kernelcup.app.courses import membership
from kernelcup.app.queue import lifecycle
from kernelcup.app.results import reviews
from kernelcup.app.rules import limits, pauses
from kernelcup.app.submissions.withdrawal import cancel_submission
from kernelcup.domain import OPERATOR, Role, Visibility
from kernelcup.engine.database import Database
from kernelcup_harness.protocol import Mode, RunReport, StageName, Verdict

Fill = Callable[[Database, Any], dict[str, Any]]
"""Fills a database and returns the people in it by name; the second argument makes one."""


class Scenes:
    """Databases that were filled once, to copy: filling one takes longer than what most tests do with it."""

    def __init__(self) -> None:
        self._kept: dict[Fill, tuple[bytes, dict[str, Any]]] = {}

    def play(self, fill: Fill, db: Database, make_person: Any) -> dict[str, Any]:
        """Fill a new database, or copy one that was filled so. PostgreSQL copies too slowly for that."""
        if db.engine.dialect.name != "sqlite":
            return fill(db, make_person)
        if fill not in self._kept:
            people = fill(db, make_person)
            self._kept[fill] = content_of(db.engine), people
        else:
            replace_content(db.engine, self._kept[fill][0])
        return dict(self._kept[fill][1])


PEOPLE = {
    "bob": Role.PARTICIPANT,
    "eve": Role.CREATOR,
    "ada": Role.PARTICIPANT,
    "grace": Role.CREATOR,
    "root": Role.ADMIN,
}
"""A participant, another leaderboard's creator, the author, the creator, an admin."""


def judge(db: Database, report: RunReport | None = None, device: str = "H100") -> int:
    """Judge the job that is next and return its number."""
    lease = lifecycle.claim_next(db, owner="test", lease_s=60, devices=[device], now=NOW)
    assert lease is not None
    lifecycle.finish(db, lease, report=report or make_report(), harness_hash="f", machine="m", now=NOW)
    return lease.job.id


def play(db: Database, make_person: Any) -> dict[str, Any]:
    """Fill a database, and return the people by name.

    Submission 1 is judged and its result waits for a review, 2 is judged, 3 is a test that failed,
    4 is on a members-only leaderboard and judged, 5 is cancelled, 6 waits. All are ada's.
    """
    people = {name: make_person(name, role) for name, role in PEOPLE.items()}
    task = make_task(templates={"Python": SUBMISSION}, hidden_tests=[{"size": 32, "seed": 7}])
    make_board(db, task=task)
    make_board(db, name="closed", task=task, visibility=Visibility.CLOSED)
    membership.add_member(db, OPERATOR, "closed", "ada", pseudonym="fox", now=NOW)
    membership.make_invites(db, OPERATOR, ["closed"], count=2, label="class", now=NOW)
    make_submission(db, board="double")
    reviews.quarantine(db, OPERATOR, judge(db), reason="too fast", evidence={"ratio": 0.01}, now=NOW)
    make_submission(db, board="double", content=SUBMISSION.encode() + b"# not a copy\n")
    judge(db)
    make_submission(db, board="double", mode=Mode.TEST)
    judge(db, failed_report())
    make_submission(db, board="closed")
    judge(db)
    cancelled = make_submission(db, board="double")
    cancel_submission(db, cancelled.id, by=OPERATOR, now=NOW)
    make_submission(db, board="double")
    limits.add_limit(db, OPERATOR, text="1000/hour", now=NOW)
    pauses.pause(db, OPERATOR, scope="device", key="MI300", reason="repair", now=NOW)
    return people


def failed_report() -> RunReport:
    """Return the report of a test that found a wrong result."""
    wrong = dataclasses.replace(make_case(None), verdict=Verdict.WRONG_ANSWER, message="not the double")
    stage = make_stage([wrong], name=StageName.TEST, verdict=Verdict.WRONG_ANSWER)
    return make_report(
        mode=Mode.TEST, verdict=Verdict.WRONG_ANSWER, stage=StageName.TEST, stages=[stage], message="wrong"
    )
