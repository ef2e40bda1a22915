"""Grades: everybody's points on each leaderboard of a course, computed from stored runs at each request."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from kernelcup.app.boards import visibility
from kernelcup.app.boards.queries import late_exceptions, task_versions
from kernelcup.app.courses import courses, grading
from kernelcup.app.courses.courses import CourseName
from kernelcup.app.courses.grading import Attempt, Kind, Points
from kernelcup.app.courses.queries import courses as stored
from kernelcup.app.courses.queries import members
from kernelcup.app.operation import Given, operation
from kernelcup.app.people.queries import audit_log
from kernelcup.app.results import standings
from kernelcup.app.results.facts import read_beside
from kernelcup.app.results.queries import attempts as tries
from kernelcup.app.results.queries import runs
from kernelcup.domain import Actor, AfterDeadline, Leaderboard, RankingBy, Ruling
from kernelcup.domain.answers import Course, Member
from kernelcup.engine import Database, Session
from kernelcup.errors import NotFound
from kernelcup_harness.protocol import Mode, StageName, Verdict

STUCK_AFTER = 3
"""Attempts without a correct one after which a person counts as stuck."""

OnBoard = Annotated[str | None, Given(options=("--board",), help="Only this leaderboard; default: all.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class Grade:
    """What a person has on a leaderboard of a course."""

    label: str
    name: str
    group: str
    user: str
    """Empty until the person joins."""
    leaderboard: str
    points: float | None
    """None without rules or without an attempt."""
    late_days: int
    """Of the submission that the points are for."""
    attempts: int
    """Submissions of any mode."""
    tests_passed: str
    """By the last ranked submission, or else by the last: ``3 of 5``."""
    last_try: datetime | None
    last_verdict: str
    correct: bool
    """Whether a ranked submission was accepted."""
    submission: int | None
    """The one that the points are for."""
    because: str
    """How the points came about."""

    @property
    def is_stuck(self) -> bool:
        """Whether the person tried some times, and no submission was accepted."""
        return self.attempts >= STUCK_AFTER and not self.correct


@dataclass(frozen=True, kw_only=True, slots=True)
class GradeChange:
    """What a change of rules does to the points of a person."""

    label: str
    user: str
    leaderboard: str
    before: float | None
    after: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class RulesChange:
    """A change of rules, or what it would do."""

    changes: list[GradeChange]
    notes: list[str]
    """Of rules out of reach, and submissions that cannot come."""
    dry_run: bool


@operation("GET", "/courses/{name}/grades", "course grades", subject="courses")
def grades(db: Database, actor: Actor, name: CourseName, *, board: OnBoard = None) -> list[Grade]:
    """List everybody's points on each leaderboard, in the register's order; as a command, in CSV.

    Raises:
        NotFound: There is no such course, or the leaderboard is not in it.
    """
    with db.read() as session:
        course = courses.managed(session, name, actor)
        people = members.register(session, course.id)
    return _grades(db, actor, course, people, board=board)


@operation("GET", "/courses/{name}/grades/me", "course grade", subject="courses", personal=True)
def own_grades(db: Database, viewer: Actor, name: CourseName) -> list[Grade]:
    """List your own points on each leaderboard of a course, with how they came about."""
    with db.read() as session:
        course = courses.find(session, name, viewer)
        people = [each for each in members.register(session, course.id) if each[0] == viewer.user_id]
    return _grades(db, viewer, course, [each for each in people if each[0] is not None])


@operation("GET", "/courses/{name}/rules", "course rules", subject="courses")
def rules(db: Database, viewer: Actor, name: CourseName, *, board: OnBoard = None) -> str:
    """Show the rules of grading of a course, or those of one of its leaderboards."""
    with db.read() as session:
        course = courses.find(session, name, viewer)
        return course.rules.get(_key(session, course, board), "")


@operation("PUT", "/courses/{name}/rules", "course set-rules", subject="courses")
def set_rules(
    db: Database,
    actor: Actor,
    name: CourseName,
    text: Annotated[
        str,
        Given(key="rules", metavar="RULES", longest=5000, help="A rule on each line, or separated by `;`."),
    ],
    *,
    board: OnBoard = None,
    dry_run: Annotated[
        bool, Given(options=("--dry-run",), help="Show whose points would change, and change nothing.")
    ] = False,
    now: datetime,
) -> RulesChange:
    """Set the rules of grading of a course, or of one of its leaderboards; empty ones are removed.

    Raises:
        InvalidValue: Lines cannot be read; the text has each of them.
    """
    parsed = grading.parse(text)
    with db.read() as session:
        course = courses.managed(session, name, actor)
        people = members.register(session, course.id)
        key = _key(session, course, board)
        notes = [
            told for each in courses.boards_of(session, course) for told in _notes(session, each, parsed)
        ]
    changed = {**course.rules, key: text} if text.strip() else _without(course.rules, key)
    after = dataclasses.replace(course, rules=changed)
    pairs = zip(_grades(db, actor, course, people), _grades(db, actor, after, people), strict=True)
    changes = [_change(old, new) for old, new in pairs if old.points != new.points]
    if not dry_run:
        with db.write(durable=True) as session:
            course = courses.managed(session, name, actor)
            changed = {**course.rules, key: text} if text.strip() else _without(course.rules, key)
            stored.change(session, course.id, name=course.name, rules=changed, of_board=course.of_board)
            audit_log.record(session, actor, "course.rules", f"course:{course.name}", {"rules": text}, now)
    return RulesChange(changes=changes, notes=notes, dry_run=dry_run)


def _grades(
    db: Database,
    viewer: Actor,
    course: Course,
    people: Sequence[tuple[int | None, Member]],
    *,
    board: str | None = None,
) -> list[Grade]:
    with db.read() as session:
        targets = courses.boards_of(session, course)
    if board is not None:
        targets = [each for each in targets if each.name.lower() == board.lower()]
        if not targets:
            raise NotFound(f"Leaderboard {board!r} is not in course {course.name!r}.")
    by_board = {each.name: _of_board(db, viewer, course, each, people) for each in targets}
    return [by_board[each.name][index] for index in range(len(people)) for each in targets]


def _of_board(
    db: Database,
    viewer: Actor,
    course: Course,
    board: Leaderboard,
    people: Sequence[tuple[int | None, Member]],
) -> list[Grade]:
    """Return everybody's points on a leaderboard, in the order of the people."""
    text = course.rules.get(str(board.id), course.rules.get("", ""))
    rules = grading.parse(text)
    ranks = {
        (place.submission_id, device): place.rank
        for device in board.devices
        for place in standings.standings(db, board.name, device, viewer=viewer)
    }
    ids = [user_id for user_id, _ in people if user_id is not None]
    with db.read() as session:
        found = tries.of_board(session, board.id, ids, visibility.hidden_since(board, viewer))
        own: dict[int, list[tries.Tried]] = {user_id: [] for user_id in ids}
        for each in found:
            own[each.user_id].append(each)
        shares = _shares(session, board, found)
        deadlines = late_exceptions.of_users(session, board.id)
        last = {user_id: _last(mine) for user_id, mine in own.items()}
        passed = _tests_passed(session, [each.job_id for each in last.values() if each is not None])
    grades = []
    for user_id, person in people:
        mine = own.get(user_id, []) if user_id is not None else []
        until = None if user_id is None else deadlines.get(user_id)
        deadline = max(filter(None, (board.deadline, until)), default=None)
        judged = [_attempt(each, board, deadline, shares, ranks) for each in mine if _is_judged(each)]
        tried = last.get(user_id) if user_id is not None else None
        points = grading.grade(rules, judged)
        grades.append(_grade(person, board, mine, points, tried, passed, has_rules=bool(rules.lines)))
    return grades


def _is_judged(each: tries.Tried) -> bool:
    return each.mode is Mode.LEADERBOARD and each.run_id is not None and not _is_no_attempt(each)


def _is_no_attempt(each: tries.Tried) -> bool:
    """Return whether its task or a machine has failed."""
    return each.verdict is Verdict.INTERNAL_ERROR


def _last(mine: Sequence[tries.Tried]) -> tries.Tried | None:
    """Return the last ranked submission with a result, else the last with one."""
    done = [each for each in mine if each.run_id is not None and each.ruling is not Ruling.HIDDEN]
    return next((each for each in reversed(done) if _is_judged(each)), done[-1] if done else None)


def _attempt(
    each: tries.Tried,
    board: Leaderboard,
    deadline: datetime | None,
    shares: Mapping[int, dict[Kind, float]],
    ranks: Mapping[tuple[int, str], int],
) -> Attempt:
    assert each.verdict is not None
    return Attempt(
        submission=each.submission_id,
        device=each.device,
        submitted_at=each.created_at,
        verdict=each.verdict,
        ruling=each.ruling,
        is_timed=each.backend is not None and board.ranks_times(each.backend),
        late_days=grading.days_late(each.created_at, deadline),
        shares=shares.get(each.run_id or 0, {}),
        rank=ranks.get((each.submission_id, each.device)),
    )


def _shares(
    session: Session, board: Leaderboard, found: Sequence[tries.Tried]
) -> dict[int, dict[Kind, float]]:
    """Return by run the shares of the reference's and the baseline's time, and of what the device can do."""
    timed = [each for each in found if _is_judged(each) and each.score_s and each.run_id is not None]
    task = task_versions.load(session, board.task_hash)
    if task.ranking_by is RankingBy.SPEEDUP:
        kinds = (Kind.BASELINE,) if task.baseline else (Kind.BASELINE, Kind.REFERENCE)
        return {
            each.run_id: dict.fromkeys(kinds, 1 / each.speedup)
            for each in timed
            if each.run_id is not None and each.speedup
        }
    beside = read_beside(session, {each.run_id for each in timed if each.run_id is not None})
    shares: dict[int, dict[Kind, float]] = {}
    for each in timed:
        if each.run_id is None or each.score_s is None or (its := beside.get(each.run_id)) is None:
            continue
        mine = shares.setdefault(each.run_id, {})
        if its.reference_s:
            mine[Kind.REFERENCE] = each.score_s / its.reference_s
        if its.attainable_s:
            mine[Kind.FLOOR] = its.attainable_s / each.score_s
    return shares


def _tests_passed(session: Session, job_ids: Sequence[int]) -> dict[int, str]:
    told = {}
    for job_id, run in runs.counted(session, job_ids).items():
        tests = run.report.stage_report(StageName.TEST)
        if tests is not None:
            passed = sum(case.verdict is Verdict.ACCEPTED for case in tests.cases)
            told[job_id] = f"{passed} of {tests.planned_cases}"
    return told


def _grade(
    person: Member,
    board: Leaderboard,
    mine: Sequence[tries.Tried],
    points: Points,
    last: tries.Tried | None,
    passed: Mapping[int, str],
    *,
    has_rules: bool,
) -> Grade:
    counted = points.attempt
    because = points.because
    if not mine:
        because = "No attempt yet." if person.user else "Not joined."
    elif not has_rules:
        because = "There are no rules of grading."
    return Grade(
        label=person.label,
        name=person.name,
        group=person.group,
        user=person.user,
        leaderboard=board.name,
        points=points.points if has_rules and mine else None,
        late_days=0 if counted is None else counted.late_days,
        attempts=len({each.submission_id for each in mine if not _is_no_attempt(each)}),
        tests_passed="" if last is None else passed.get(last.job_id, ""),
        last_try=mine[-1].created_at if mine else None,
        last_verdict=("" if last is None or last.verdict is None else last.verdict.value),
        correct=any(
            _is_judged(each) and each.verdict is Verdict.ACCEPTED and each.ruling is not Ruling.HIDDEN
            for each in mine
        ),
        submission=None if counted is None else counted.submission,
        because=because,
    )


def _key(session: Session, course: Course, board: str | None) -> str:
    if board is None:
        return ""
    found = [each for each in courses.boards_of(session, course) if each.name.lower() == board.lower()]
    if not found:
        raise NotFound(f"Leaderboard {board!r} is not in course {course.name!r}.")
    return str(found[0].id)


def _without(rules: Mapping[str, str], key: str) -> dict[str, str]:
    return {each: text for each, text in rules.items() if each != key}


def _change(old: Grade, new: Grade) -> GradeChange:
    return GradeChange(
        label=new.label, user=new.user, leaderboard=new.leaderboard, before=old.points, after=new.points
    )


def _notes(session: Session, board: Leaderboard, rules: grading.Rules) -> list[str]:
    """Return what a teacher should know of rules on a leaderboard."""
    kinds, told = {each.kind for each in rules.lines}, []
    task = task_versions.load(session, board.task_hash)
    if Kind.BASELINE in kinds and task.ranking_by is not RankingBy.SPEEDUP:
        told.append(
            f"{board.name}: its task ranks by no speedup over a baseline, so `baseline` is never reached."
        )
    if Kind.FLOOR in kinds and not task.work:
        told.append(f"{board.name}: its task declares no `work`, so `floor` is never reached.")
    if rules.late_days and board.deadline and board.after_deadline is not AfterDeadline.PRACTICE:
        told.append(
            f"{board.name}: takes no ranked submissions after its deadline, so none can be late. "
            f"Next: kernelcup board update {board.name} --after-deadline practice"
        )
    return told


WHO = ("label", "name", "group", "user")
COLUMNS = (*WHO, "points", "late_days", "attempts", "last_verdict", "tests_passed", "last_try")


def as_csv(found: Sequence[Grade]) -> str:
    """Return grades as CSV, a line for each person: of one leaderboard with its details, of several with the sum."""
    names = list(dict.fromkeys(each.leaderboard for each in found))
    rows: list[list[Any]] = [list(COLUMNS)]
    if len(names) > 1:
        rows = [[*WHO, *names, "total"]]
        for start in range(0, len(found), len(names)):
            mine = found[start : start + len(names)]
            points = ["" if each.points is None else f"{each.points:g}" for each in mine]
            total = sum(each.points or 0.0 for each in mine)
            rows.append([*_who(mine[0]), *points, f"{total:g}"])
    else:
        for each in found:
            at = "" if each.last_try is None else f"{each.last_try:%Y-%m-%d %H:%M:%S}"
            points_text = "" if each.points is None else f"{each.points:g}"
            tried = (each.late_days, each.attempts, each.last_verdict, each.tests_passed, at)
            rows.append([*_who(each), points_text, *tried])
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    # A text that begins like a formula stays text in a spreadsheet.
    writer.writerows(
        [f"'{cell}" if str(cell)[:1] in tuple("=+-@\t") else cell for cell in cells] for cells in rows
    )
    return text.getvalue()


def _who(each: Grade) -> list[str]:
    return [each.label, each.name, each.group, each.user]
