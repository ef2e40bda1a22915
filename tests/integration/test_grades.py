"""Grades: a teacher with a register, from the rules to the CSV that is joined with the register."""

from __future__ import annotations

import csv
import io
from datetime import timedelta
from typing import Any

import pytest

from builders import (
    NOW,
    make_actor,
    make_board,
    make_case,
    make_report,
    make_stage,
    make_submission,
    make_task,
)
from kernelcup.app.boards.late_exceptions import grant_late, late_exceptions
from kernelcup.app.courses import class_list, courses, extensions, grades, grading, joining
from kernelcup.app.queue import lifecycle, shown
from kernelcup.app.results import reviews
from kernelcup.app.results.common_errors import common_errors
from kernelcup.app.submissions.submissions import show_submission
from kernelcup.domain import OPERATOR, AfterDeadline, Role, Visibility
from kernelcup.errors import Forbidden, InvalidValue, NotFound
from kernelcup_harness.protocol import Backend, Reason, RunReport, StageName, TrustLevel, Verdict

STUDENTS = 10
DEADLINE = NOW + timedelta(days=7)
RULES = """\
correct 40
reference 1.0 60
floor 0.5 90
rank 1-2 100
late 2 10
"""


def stage_of_tests(passed: int, planned: int = 5) -> Any:
    verdicts = [Verdict.ACCEPTED] * passed + [Verdict.WRONG_ANSWER] * (planned > passed)
    cases = [make_case(None, index=index, verdict=each) for index, each in enumerate(verdicts)]
    verdict = Verdict.ACCEPTED if passed == planned else Verdict.WRONG_ANSWER
    return make_stage(cases, name=StageName.TEST, verdict=verdict, planned_cases=planned)


def right(us: float, **overrides: Any) -> RunReport:
    """An accepted run of so many microseconds; the reference takes 100, the device can do it in 10."""
    case = make_case(us * 1000, reference_ns=100_000.0, floor_ns=10_000.0)
    return make_report(stages=[stage_of_tests(5), make_stage([case])], **overrides)


def wrong(passed: int = 3) -> RunReport:
    return make_report(verdict=Verdict.WRONG_ANSWER, stage=StageName.TEST, stages=[stage_of_tests(passed)])


class Room:
    """A course of one leaderboard whose results are stored by hand."""

    def __init__(self, db: Any, board: str = "week1", device: str = "H100") -> None:
        self.db, self.board, self.device, self.count = db, board, device, 0

    def enter(self, user: str, report: RunReport, *, at: Any = NOW, content: str = "") -> int:
        self.count += 1
        text = content or f"def custom_kernel(data):\n    return data\n# {self.count}\n"
        given = {"board": self.board, "user": user, "devices": [self.device], "now": at}
        made = make_submission(self.db, content=text.encode(), **given)
        lease = lifecycle.claim_next(self.db, owner="t", lease_s=60, devices=[self.device], now=at)
        assert lease is not None
        done = {"harness_hash": "f", "machine": "m", "now": at + timedelta(seconds=5)}
        lifecycle.finish(self.db, lease, report=report, **done)
        return made.id


@pytest.fixture
def teacher(db):
    return make_actor(db, "grace", Role.CREATOR)


def make_course(db, teacher, students: list[str], **settings: Any) -> None:
    make_board(
        db,
        name="week1",
        creator="grace",
        task=make_task(),
        visibility=Visibility.CLOSED,
        deadline=DEADLINE,
        after_deadline=AfterDeadline.PRACTICE,
        **settings,
    )
    courses.create(db, teacher, "gpu", ["week1"], now=NOW)
    for user in students:
        make_actor(db, user)
    rows = "".join(f"{user},{1000 + number},Name {number}\n" for number, user in enumerate(students))
    class_list.import_course_members(db, teacher, "gpu", f"user,label,name\n{rows}", now=NOW)
    grades.set_rules(db, teacher, "gpu", RULES, now=NOW)


def graded(db, teacher) -> dict[str, grades.Grade]:
    return {each.user: each for each in grades.grades(db, teacher, "gpu")}


def test_a_teacher_grades_students_and_joins_the_csv_with_the_register(db, teacher) -> None:
    names = [f"s{number:02}" for number in range(STUDENTS)]
    register = [(f"{4000 + 7 * number % 31}", name) for number, name in enumerate(names)]
    register[4] = ("=HYPERLINK(4)", names[4])
    make_board(
        db,
        name="week1",
        creator="grace",
        visibility=Visibility.CLOSED,
        deadline=DEADLINE,
        after_deadline=AfterDeadline.PRACTICE,
    )
    courses.create(db, teacher, "gpu", ["week1"], now=NOW)
    text = "label,name,group\n" + "".join(f"{label},{name.upper()},A\n" for label, name in register)
    codes = class_list.import_course_members(db, teacher, "gpu", text, now=NOW).codes
    for name, code in zip(names[:-1], codes, strict=False):  # the last one never comes
        joining.join(db, make_actor(db, name), code.code, now=NOW)
    grades.set_rules(db, teacher, "gpu", RULES, now=NOW)
    room = Room(db)
    for number, name in enumerate(names[:5]):
        room.enter(name, right(15.0 + 2 * number))
    for name in names[5:7]:  # two who send wrong files
        room.enter(name, wrong())
    room.enter(names[7], right(95.0), at=DEADLINE + timedelta(hours=30))  # one who is late
    room.enter(names[0], right(15.5), content="def custom_kernel(data):\n    return data\n# same\n")
    room.enter(names[1], right(17.5), content="def custom_kernel(data):\n    return data\n# same\n")
    found = list(csv.DictReader(io.StringIO(grades.as_csv(grades.grades(db, teacher, "gpu")))))
    assert [each["label"] for each in found] == [label.replace("=", "'=") for label, _ in register]
    points = {name: each["points"] for (_, name), each in zip(register, found, strict=True)}
    assert [points[name] for name in names[:4]] == ["100", "100", "90", "60"]
    assert {points[name] for name in names[3:5]} == {"60"}
    tried = [(each["points"], each["attempts"], each["tests_passed"]) for each in found[5:7]]
    assert tried == [("0", "1", "3 of 5")] * 2
    assert (found[7]["points"], found[7]["late_days"]) == ("40", "2")
    assert (points[names[8]], points[names[9]]) == ("", "")
    assert found[9]["user"] == ""
    assert found[0]["attempts"] == "2"
    assert found[0]["last_try"] == f"{NOW:%Y-%m-%d %H:%M:%S}"


def test_a_student_sees_only_their_own_points_and_how_they_came_about(db, teacher) -> None:
    make_course(db, teacher, ["ada", "bob"])
    room = Room(db)
    room.enter("bob", right(12.0))
    number = room.enter("ada", right(50.0))
    (mine,) = grades.own_grades(db, make_actor(db, "ada"), "gpu")
    assert mine.because == f"Submission {number} on H100 reaches “rank 1-2 100” with rank 2: 100 points."
    with pytest.raises(Forbidden):
        grades.grades(db, make_actor(db, "ada"), "gpu")
    with pytest.raises(NotFound):
        grades.own_grades(db, make_actor(db, "eve"), "gpu")


def test_what_does_not_count_gives_no_points_and_says_why(db, teacher) -> None:
    make_course(db, teacher, ["ada", "bob", "cyn"])
    room = Room(db)
    held = show_submission(db, room.enter("ada", right(50.0))).jobs[0].id
    reviews.quarantine(db, OPERATOR, held, reason="look", now=NOW)
    room.enter("cyn", right(50.0), at=DEADLINE + timedelta(days=5))
    room.enter("bob", wrong())
    found = graded(db, teacher)
    assert "waits for a review" in found["ada"].because
    assert found["cyn"].because == "Submission 2 came 5 days late; the rules allow 2 days."
    assert found["bob"].because == "Submission 3 on H100 failed: wrong answer."
    assert [found[user].points for user in ("ada", "bob", "cyn")] == [0.0, 0.0, 0.0]


def test_more_time_in_a_course_moves_all_deadlines_of_one_student(db, teacher) -> None:
    make_course(db, teacher, ["ada", "bob"])
    granted = extensions.extend(db, teacher, "gpu", "ada", 3, now=NOW)
    assert [(each.leaderboard, each.until) for each in granted] == [("week1", DEADLINE + timedelta(days=3))]
    room = Room(db)
    for user in ("ada", "bob"):
        room.enter(user, right(50.0), at=DEADLINE + timedelta(days=1))
    found = graded(db, teacher)
    assert [(found[user].points, found[user].late_days) for user in ("ada", "bob")] == [(100, 0), (50, 1)]
    with pytest.raises(InvalidValue, match="No leaderboard of 'gpu'"):
        extensions.extend(db, teacher, "gpu", "ada", 1, now=DEADLINE + timedelta(days=2))
    with pytest.raises(NotFound):
        extensions.extend(db, teacher, "gpu", "grace", 1, now=NOW)


def test_more_time_in_a_course_never_shortens_what_somebody_has(db, teacher) -> None:
    make_course(db, teacher, ["ada"])
    for until, days, ends in ((10, 3, 10), (2, 3, 3), (10, 12, 12)):
        grant_late(db, teacher, "week1", "ada", DEADLINE + timedelta(days=until), now=NOW)
        (granted,) = extensions.extend(db, teacher, "gpu", "ada", days, now=NOW)
        (stored,) = late_exceptions(db, teacher, "week1")
        assert granted.until == stored.until == DEADLINE + timedelta(days=ends)
    grant_late(db, teacher, "week1", "ada", DEADLINE + timedelta(days=1), now=NOW)
    assert late_exceptions(db, teacher, "week1")[0].until == DEADLINE + timedelta(days=1)  # by hand it may


def test_errors_of_last_submissions_are_told_with_the_people(db, teacher) -> None:
    make_course(db, teacher, ["ada", "bob", "cyn"])
    room = Room(db)
    for user in ("ada", "bob", "cyn"):
        room.enter(user, wrong())
    room.enter("cyn", right(50.0))
    (error,) = common_errors(db, teacher, "week1")
    assert (error.verdict, error.users) == (Verdict.WRONG_ANSWER, ["ada", "bob"])
    with pytest.raises(Forbidden):
        common_errors(db, make_actor(db, "ada"), "week1")


def test_submissions_are_listed_by_verdict_device_and_time_for_managers(db, teacher) -> None:
    make_course(db, teacher, ["ada", "bob"])
    room = Room(db)
    bad, good = room.enter("ada", wrong()), room.enter("bob", right(50.0), at=NOW + timedelta(days=1))

    def ids(viewer: Any, **filters: Any) -> list[int]:
        return [each.id for each in shown.newest(db, viewer, board="week1", **filters)]

    assert ids(teacher, verdict=Verdict.WRONG_ANSWER) == [bad]
    assert ids(teacher, since=NOW + timedelta(hours=1)) == [good]
    assert ids(teacher, until=NOW, device="H100") == [bad]
    assert ids(teacher, device="MI300") == []
    # A verdict that a freeze hides cannot be asked for.
    assert ids(make_actor(db, "bob"), verdict=Verdict.ACCEPTED) == []


def test_the_last_attempt_counts_if_the_rules_say_so(db, teacher) -> None:
    make_course(db, teacher, ["ada"])
    room = Room(db)
    room.enter("ada", right(50.0))
    room.enter("ada", wrong())
    assert graded(db, teacher)["ada"].points == 100
    done = grades.set_rules(
        db, teacher, "gpu", "correct 40; attempt last", board="week1", now=NOW, dry_run=True
    )
    assert [(each.user, each.before, each.after) for each in done.changes] == [("ada", 100, 0)]
    assert graded(db, teacher)["ada"].points == 100
    grades.set_rules(db, teacher, "gpu", "correct 40; attempt last", board="week1", now=NOW)
    assert graded(db, teacher)["ada"].points == 0
    grades.set_rules(db, teacher, "gpu", "", board="week1", now=NOW)
    assert graded(db, teacher)["ada"].points == 100


def test_what_was_not_measured_is_no_attempt_and_changes_no_grade(db, teacher) -> None:
    make_course(db, teacher, ["ada"])
    grades.set_rules(db, teacher, "gpu", "correct 40; attempt last", board="week1", now=NOW)
    room = Room(db)
    room.enter("ada", right(50.0))
    room.enter("ada", make_report(verdict=Verdict.INTERNAL_ERROR, reason=Reason.BUSY, stages=[]))
    ada = graded(db, teacher)["ada"]
    assert (ada.points, ada.attempts, ada.last_verdict) == (40, 1, "accepted")


def test_where_times_mean_nothing_only_correctness_counts(db, teacher) -> None:
    make_course(db, teacher, ["ada"], devices=["here"])
    times = {"backend": Backend.CPU, "trust": TrustLevel.SELF_MEASURED}
    Room(db, device="here").enter("ada", right(50.0, **times))
    ada = graded(db, teacher)["ada"]
    assert ada.points == 40
    assert "times mean nothing on this device" in ada.because


def test_rules_that_cannot_be_read_name_their_lines(db, teacher) -> None:
    make_course(db, teacher, [])
    with pytest.raises(InvalidValue) as error:
        grades.set_rules(db, teacher, "gpu", "correct\nfast 10\nrank 1-3 100", now=NOW)
    assert str(error.value).splitlines() == [
        "line 1: 'correct' is no rule; for example: correct 40",
        f"line 2: 'fast 10' is no rule; a rule begins with {', '.join(grading.EXAMPLES)}",
    ]
    assert grades.rules(db, teacher, "gpu") == RULES
    notes = grades.set_rules(db, teacher, "gpu", "baseline 0.8 70", now=NOW, dry_run=True).notes
    assert notes == ["week1: its task ranks by no speedup over a baseline, so `baseline` is never reached."]
