"""The part of a dispatcher, played by a test."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from builders import SUBMISSION, jobs_of, make_audit, make_case, make_report, make_stage, make_submission
from fakes import FakeClock, find_words
from kernelcup.app.machines import machines
from kernelcup.app.queue import lifecycle
from kernelcup.app.queue.queries import backlog, jobs
from kernelcup.app.queue.queries.jobs import Lease
from kernelcup.app.results import reviews
from kernelcup.app.results.standings import standings
from kernelcup.app.submissions.submissions import get_code, show_submission
from kernelcup.domain import OPERATOR, Job, Run, Submission
from kernelcup.domain.answers import Review
from kernelcup.engine.database import Database
from kernelcup.errors import NotFound
from kernelcup.launchers.base import MachineReading
from kernelcup_harness.protocol import Finding, Timing


def position(db: Database, job: Job) -> int | None:
    """Return a job's position in the queue of its device, 1 for the next; None if it is not waiting."""
    with db.read() as session:
        found = jobs.find(session, job.id)
        assert found is not None
        return backlog.position(session, found)


class Judging:
    """Claims and finishes the jobs of a database by hand."""

    pace_s = 3.0
    """How long each job runs that is judged at once."""

    def __init__(self, db: Database, clock: FakeClock) -> None:
        self.db, self.clock = db, clock
        self.submitted = 0

    def submit(self, user: str = "ada", **overrides: Any) -> Submission:
        self.submitted += 1
        # Each has a code of its own: what is decided about a code holds for all its copies.
        own = f"{SUBMISSION}# {self.submitted}\n".encode()
        values: dict[str, Any] = {"user": user, "devices": ["H100"], "now": self.clock(), "content": own}
        return make_submission(self.db, **(values | overrides))

    def claim(self, device: str = "H100", **overrides: Any) -> Lease | None:
        values: dict[str, Any] = {"owner": "me", "lease_s": 60.0, "devices": [device], "now": self.clock()}
        return lifecycle.claim_next(self.db, **(values | overrides))

    def finish(self, lease: Lease | None, time_ns: float = 1000.0, **overrides: Any) -> Run:
        assert lease is not None
        values: dict[str, Any] = {
            "report": make_report([time_ns]),
            "harness_hash": "",
            "machine": "box",
            "now": self.clock(),
        }
        with suppress(NotFound):  # it was deleted meanwhile
            values["screening"] = find_words(get_code(self.db, lease.job.submission_id).text)
        return lifecycle.finish(self.db, lease, **(values | overrides))

    def judge(self, time_ns: float = 1000.0, user: str = "ada", **overrides: Any) -> Submission:
        """Submit and judge at once."""
        submission = self.submit(user, **overrides)
        lease = self.claim()
        self.clock.advance(self.pace_s)
        self.finish(lease, time_ns)
        return submission

    def job(self, submission: Submission) -> Job:
        return jobs_of(self.db, submission.id)[0]

    def run(self, submission: Submission) -> Run | None:
        return show_submission(self.db, submission.id).jobs[0].counted

    def ranking(self, device: str = "H100") -> list[tuple[str, int]]:
        """Return users and their nanoseconds."""
        return [(place.user, round(place.score_s * 1e9)) for place in standings(self.db, "double", device)]


def judge_on_two_classes(judging: Judging) -> None:
    """Have ada judged on a machine and bob on one with another driver."""
    for user, name, driver in (("ada", "old", "550"), ("bob", "new", "580")):
        facts = {"gpus": ["H100"], "driver": driver, "cores": 16, "memory_gib": 128}
        found = [MachineReading(name=name, slots={"H100": 1}, facts=facts)]
        machines.note_seen(judging.db, found, launcher="fake", is_own=True, now=judging.clock())
        judging.submit(user)
        judging.finish(judging.claim(), machine=name)


def flagged(judging: Judging, user: str = "bob", *, hidden: bool = False) -> tuple[Submission, Review]:
    """Have a result that an audit has found too fast."""
    submission = judging.submit(user)
    found = [Finding(code="below_floor", text="77.7 ns of a secret case", quarantines=True)]
    timing = Timing(samples_ns=[500.0] * 5, audit=make_audit(510.0, findings=found))
    case = make_case(timing=timing, hidden=hidden, floor_ns=900.0)
    judging.finish(judging.claim(), report=make_report(stages=[make_stage([case])], quarantine=found))
    (review,) = reviews.open_reviews(judging.db, OPERATOR)
    return submission, review


def decide(judging: Judging, review: Review, decision: str) -> None:
    """Decide about a result, with a note that stays between reviewers."""
    note = "private words"
    reviews.decide(judging.db, OPERATOR, review.id, decision=decision, note=note, now=judging.clock())
