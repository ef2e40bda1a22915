"""Change a leaderboard, after a preview of what the change does."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from operator import attrgetter

from kernelcup.app import access
from kernelcup.app.boards import boards as board_rules
from kernelcup.app.boards.board_events import check_dates, check_event, check_joins, check_results
from kernelcup.app.boards.judgeable import TaskTrial, Tried, check_judgeable
from kernelcup.app.boards.judging import check_answers, check_harness, trial_notes, try_version
from kernelcup.app.boards.queries import boards, task_versions
from kernelcup.app.boards.settings import TYPES, BoardChanges
from kernelcup.app.boards.task_diff import CaseChange, FileChange, TaskChanges, compare
from kernelcup.app.people.queries import audit_log
from kernelcup.app.queue.queries import jobs
from kernelcup.app.results import news as news_of_results
from kernelcup.app.results.queries import frozen_standings
from kernelcup.app.results.rejudge import RejudgePlan, rejudge_board
from kernelcup.app.submissions.queries import events
from kernelcup.domain import Actor, Device, Leaderboard, Role, Scope, Task
from kernelcup.engine import Database, Session
from kernelcup.errors import Conflict, InvalidValue
from kernelcup_harness.protocol import Mode, canonical_hash

DATES = ("opens_at", "deadline")
RANKS_BY = ("trust", "duel", "cpu_times", "judging", "event")
"""The settings of a leaderboard that decide about ranks; of an event the teams do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Affected:
    """What a change affects on one device."""

    device: str
    entries: int
    """Users with a standing."""
    jobs: int
    """Ranked results that a rejudge would measure again."""
    gpu_s: float | None
    """How long the rejudge would take, in seconds; None if no ranked job was timed yet."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UpdatePreview:
    """What an update changes."""

    board: str
    fingerprint: str
    """Identifies the leaderboard's current settings: an update that carries it is refused after another change."""
    settings: Mapping[str, tuple[object, object]]
    """Name to (old, new); those of the task begin with ``task.``."""
    files: tuple[FileChange, ...]
    cases: tuple[CaseChange, ...]
    hidden: Mapping[str, tuple[int, int]]
    needs_rejudge: bool
    """Whether there are results that cannot be ranked together with new ones, and so leave the standings."""
    reasons: tuple[str, ...]
    """Why they cannot be compared."""
    affected: tuple[Affected, ...]
    estimated_gpu_s: float | None
    removed_in_use: tuple[str, ...]
    """Devices that are removed although they have submissions."""
    reveals: tuple[str, ...] = ()
    """Facts that were hidden from others when people submitted, and will be shown."""

    @property
    def changes_anything(self) -> bool:
        return bool(self.settings or self.files or self.cases or self.hidden)


@dataclass(frozen=True, kw_only=True, slots=True)
class Updated:
    """What an update did."""

    board: Leaderboard
    preview: UpdatePreview
    rejudge: RejudgePlan | None
    """What is judged again; None if no rejudge was asked for or none is needed."""
    notes: tuple[str, ...] = ()
    """What trying the new version has shown."""


def preview_update(
    db: Database,
    actor: Actor,
    name: str,
    *,
    now: datetime,
    task: Task | None = None,
    changes: BoardChanges | None = None,
    known_devices: Sequence[Device] | None = None,
) -> UpdatePreview:
    """Return the effects of :func:`update_board` without applying them; raise the same errors."""
    with db.read() as session:
        board = board_rules.find_managed(session, name, actor)
        check_joins(session, actor, (changes or BoardChanges()).get("event", ""))
        return plan_changes(session, board, task, changes or BoardChanges(), known_devices, now).preview


def update_board(
    db: Database,
    actor: Actor,
    name: str,
    *,
    now: datetime,
    task: Task | None = None,
    changes: BoardChanges | None = None,
    expected: str | None = None,
    rejudge: bool = False,
    force: bool = False,
    broken_checker: bool | None = None,
    known_devices: Sequence[Device] | None = None,
    trial: TaskTrial | None = None,
) -> Updated:
    """Change a leaderboard's settings and its task version.

    Queued jobs are judged against the new version. Stored results stay as they are; those that cannot be
    compared with new results leave the standings until they are judged again.

    Args:
        task: The new version; None keeps the current one.
        expected: The fingerprint of the preview that was agreed to.
        rejudge: Judge the ranked results again, if they cannot be compared with new ones.
        force: Remove devices although they have submissions, and reveal names or code that were hidden when
            people submitted. The leaderboard shows a notice about this from then on.
        broken_checker: Whether a checker that accepts wrong answers is confirmed; None takes ``force``.
        trial: Tries a new version, to find the bound of its seeds; without it the bound stays as it is.

    Raises:
        NotFound, SignInNeeded, Forbidden, ScopeMissing: The actor may not change it.
        Conflict: The leaderboard changed since the preview, a removed device has submissions, or the update
            reveals something.
        InvalidValue: A setting cannot be used.
        BrokenChecker: The checker of the new version accepts wrong answers, and that is not confirmed.
        TaskTooSlow: 16 samples of each benchmark do not fit into a ranked stage.
    """
    tried, notes = _tried(db, actor, name, task, trial), tuple[str, ...]()
    if task is not None and tried is not None:
        check_answers(task, tried, force=force if broken_checker is None else broken_checker)
        task, notes = dataclasses.replace(task, reference_s=list(tried.reference_s)), trial_notes(task, tried)
    with db.write(durable=True) as session:
        boards.lock_with_jobs(session, name)
        board = board_rules.find_managed(session, name, actor)
        check_joins(session, actor, (changes or BoardChanges()).get("event", ""))
        plan = plan_changes(session, board, task, changes or BoardChanges(), known_devices, now)
        preview = plan.preview
        if expected is not None and expected != preview.fingerprint:
            raise Conflict(f"Leaderboard {board.name!r} was changed since that preview; look again.")
        if preview.removed_in_use and not force:
            raise Conflict(
                f"There are submissions on {', '.join(preview.removed_in_use)}; without the device their "
                "standings are not shown. Use `--force` (over HTTP `force`) to remove it anyway."
            )
        if preview.reveals and not force:
            raise Conflict(
                f"People submitted to {board.name!r} under another promise, and now {'; '.join(preview.reveals)}. "
                "Use `--force` (over HTTP `force`) to do it anyway: it is logged, and the leaderboard tells them."
            )
        if preview.changes_anything:
            if tried is not None:
                plan = dataclasses.replace(
                    plan, board=dataclasses.replace(plan.board, seeds_below=tried.seeds_below)
                )
            apply_plan(session, actor, board, plan, now)
    done = None
    if rejudge and preview.needs_rejudge:
        done = rejudge_board(db, actor, board.name, now=now)
    return Updated(board=plan.board, preview=preview, rejudge=done, notes=notes)


@dataclass(frozen=True, slots=True)
class Plan:
    """A leaderboard and its task as an update makes them, and what that changes."""

    board: Leaderboard
    task: Task
    preview: UpdatePreview


def plan_changes(
    session: Session,
    board: Leaderboard,
    task: Task | None,
    changes: BoardChanges,
    known: Sequence[Device] | None,
    now: datetime,
) -> Plan:
    """Return the plan of an update, without applying it. Raise the errors of :func:`update_board` about settings."""
    old_task = task_versions.load(session, board.task_hash)
    new_task = old_task if task is None else task
    changed = _changed(session, board, new_task, changes, known, now)
    check_harness(new_task, changed.harness)
    difference = compare(old_task, new_task)
    settings = {
        name: (getattr(board, name), getattr(changed, name))
        for name in TYPES
        if getattr(board, name) != getattr(changed, name)
    }
    preview = _preview(session, board, changed, settings, difference)
    return Plan(changed, new_task, preview)


def _changed(
    session: Session,
    board: Leaderboard,
    task: Task,
    changes: BoardChanges,
    known: Sequence[Device] | None,
    now: datetime,
) -> Leaderboard:
    # A form sends the dates that are in force, which may be the event's.
    given = {
        name: value for name, value in changes.items() if name not in DATES or value != getattr(board, name)
    }
    deadline = given.get("deadline")
    if deadline is not None and now.replace(second=0, microsecond=0) <= deadline < now:
        given["deadline"] = now  # people write minutes: the present one closes it at once
    if "devices" in given:
        given["devices"] = tuple(board_rules.choose_devices(given["devices"], known))
    if "review_tags" in given:
        given["review_tags"] = tuple(given["review_tags"])
    own = {"opens_at": board.own_opens_at, "deadline": board.own_deadline}
    changed = dataclasses.replace(board, **(own | given), task_hash=task.content_hash)
    changed = dataclasses.replace(changed, judging=task.judging(changed.harness))
    check_event(changed)
    if changed.deadline not in (board.own_deadline, now):
        board_rules.check_ahead(changed.deadline, now=now)
    if changed.freeze_at != board.freeze_at and changed.freeze_at is not None and changed.freeze_at < now:
        raise InvalidValue("The freeze would have begun already; standings of the past are not kept.")
    board_rules.check_settings(changed)
    if (changed.task_hash, changed.devices) != (board.task_hash, board.devices):
        check_judgeable(task, changed.devices, known)
    # A proof that the board lacked already must not block a change of another setting.
    asks = ("trust", "duel", "devices", "harness", "task_hash")
    if any(getattr(changed, name) != getattr(board, name) for name in asks):
        board_rules.check_proofs(changed.harness, changed, devices=changed.devices, known=known, task=task)
    opens_at, ends_at = check_dates(session, changed, given, changed.course_id)
    changed = dataclasses.replace(changed, own_opens_at=changed.opens_at, own_deadline=changed.deadline)
    return dataclasses.replace(changed, opens_at=opens_at, deadline=ends_at)


def _tried(db: Database, actor: Actor, name: str, task: Task | None, trial: TaskTrial | None) -> Tried | None:
    """Try a new task version, before anything is locked; return None without one, or if it cannot be tried."""
    with db.read() as session:
        board = board_rules.find_managed(session, name, actor)
    if task is None or trial is None or task.content_hash == board.task_hash:
        return None
    found = try_version(task, board, trial)
    return None if found is None or found.undecided else found


def _preview(
    session: Session,
    board: Leaderboard,
    changed: Leaderboard,
    settings: Mapping[str, tuple[object, object]],
    difference: TaskChanges,
) -> UpdatePreview:
    reasons = difference.reasons
    if "harness" in settings:
        reasons = (*reasons, f"{changed.harness.value} harness instead of {board.harness.value}")
    affected = _affected(session, board)
    removed = [device for device in board.devices if device not in changed.devices]
    return UpdatePreview(
        board=board.name,
        fingerprint=fingerprint(board),
        settings={**settings, **{f"task.{name}": pair for name, pair in difference.settings.items()}},
        files=difference.files,
        cases=difference.cases,
        hidden=difference.hidden,
        needs_rejudge=bool(reasons) and any(each.jobs for each in affected),
        reasons=reasons,
        affected=affected,
        estimated_gpu_s=_total([each.gpu_s for each in affected if each.jobs]),
        removed_in_use=tuple(boards.used_devices(session, board.id, removed)) if removed else (),
        reveals=_reveals(session, board, changed),
    )


def _reveals(session: Session, board: Leaderboard, changed: Leaderboard) -> tuple[str, ...]:
    """Return the facts about earlier participants that the change would reveal; empty without submissions."""
    found = []
    if board.pseudonymous and not changed.pseudonymous:
        found.append("participants are shown under their own names")
    if changed.publishes_code and not board.publishes_code:
        found.append("the code of ranked submissions is shown to all after the deadline")
    return tuple(found) if found and boards.count_submissions(session, board.id) else ()


def fingerprint(board: Leaderboard) -> str:
    """Return a hash that changes whenever the leaderboard does."""
    state = {name: as_json(getattr(board, name)) for name in TYPES}
    return canonical_hash({**state, "id": board.id, "task": board.task_hash})


def as_json(value: object) -> object:
    """Return a setting as JSON data."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple | list):
        return [as_json(each) for each in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return value


def _affected(session: Session, board: Leaderboard) -> tuple[Affected, ...]:
    entries = boards.count_entries(session, board.id)
    judged = boards.count_ranked_jobs(session, board.id)
    found = []
    for device in sorted({*entries, *judged}):
        count = judged.get(device, 0)
        pace = jobs.mean_durations(session, device).get(Mode.LEADERBOARD)
        found.append(
            Affected(
                device=device,
                entries=entries.get(device, 0),
                jobs=count,
                gpu_s=None if pace is None else pace * count,
            )
        )
    return tuple(found)


def _total(parts: Sequence[float | None]) -> float | None:
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def apply_plan(session: Session, actor: Actor, board: Leaderboard, plan: Plan, now: datetime) -> None:
    """Make a change that was planned in this transaction; the leaderboard is locked."""
    changed, preview = plan.board, plan.preview
    if changed.share != board.share:  # it takes GPUs from other leaderboards
        access.require(actor, Scope.ADMIN, role=Role.ADMIN)
    if preview.reveals:
        told = f"{'; '.join(preview.reveals)}: {actor.name} changed that on {now:%Y-%m-%d %H:%M} UTC."
        boards.add_notice(session, board.id, f"{told[0].upper()}{told[1:]}")
    task_versions.save(session, plan.task, now=now)
    boards.replace(session, changed, now)
    if changed.event != board.event:
        check_results(session, changed)
    if changed.freeze_at != board.freeze_at:
        news_of_results.unveil(session, board, now)
        frozen_standings.set_freeze(session, board.id, changed.freeze_at)
    ranks_by = attrgetter(*RANKS_BY)
    if ranks_by(changed) != ranks_by(board):
        news_of_results.choose_all(session, changed, now)
    if changed.task_hash != board.task_hash:
        news_of_results.note_task(session, changed, now)
    moved = boards.move_queued_jobs(session, board.id, changed.task_hash)
    cancelled = _cancel(session, board, preview.removed_in_use, now)
    task_versions.delete_unused(session, board.task_hash)
    detail = {
        "settings": {name: [as_json(old), as_json(new)] for name, (old, new) in preview.settings.items()},
        "task": [board.task_hash, changed.task_hash],
        "reasons": list(preview.reasons),
        "reveals": list(preview.reveals),
        "queued_jobs_moved": moved,
        "jobs_cancelled": cancelled,
    }
    audit_log.record(session, actor, "board.update", f"board:{board.name}", detail, now)


def _cancel(session: Session, board: Leaderboard, devices: Sequence[str], now: datetime) -> int:
    if not devices:
        return 0
    reason = f"the leaderboard no longer takes {', '.join(devices)}"
    ended = [
        (submission_id, job_id)
        for job_id, submission_id in boards.open_jobs(session, board.id, devices)
        if jobs.cancel(session, job_id, now=now, reason=reason)
    ]
    events.record_many(session, ended, "cancelled", {"reason": reason}, now)
    for submission_id in sorted({submission_id for submission_id, _ in ended}):
        events.record_end(session, submission_id, now)
    return len(ended)
