"""Create, find and delete leaderboards."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from kernelcup.app import access
from kernelcup.app.boards.board_events import check_dates, check_event, check_joins
from kernelcup.app.boards.judgeable import TaskTrial, check_judgeable
from kernelcup.app.boards.judging import MadeBoard, choose_judging, counters_notes
from kernelcup.app.boards.queries import boards, task_versions
from kernelcup.app.operation import After, Board, Given, operation
from kernelcup.app.people.queries import audit_log, users
from kernelcup.app.people.user_names import check_user_name
from kernelcup.app.submissions.queries import submissions
from kernelcup.domain import (
    OPERATOR,
    SETTING_TYPES,
    Actor,
    BoardSettings,
    Device,
    Leaderboard,
    Role,
    Scope,
    Task,
    TrustRule,
)
from kernelcup.engine import Database, Session
from kernelcup.errors import Conflict, InvalidValue
from kernelcup.names import check_board_name
from kernelcup_harness.protocol import Backend, HarnessKind

LARGEST_SIZE_LIMIT = 16 << 20
SMALLEST_SHARE, LARGEST_SHARE = 0.01, 100.0
MOST_REVIEW_TAGS = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class NewBoard:
    """What a leaderboard is made of."""

    name: str
    task: Task
    devices: Sequence[str]
    creator: str | Actor
    """The actor who creates it, or the name of the user for whom the operator creates it."""
    settings: BoardSettings
    harness: HarnessKind | None = None
    """None chooses the standard harness if the task's own solutions pass under it; the task's own harness must be
    asked for.
    """
    over: bool = False
    """Whether its deadline may have passed: a competition that was held elsewhere."""


def create_board(db: Database, *, now: datetime, **given: Any) -> Leaderboard:
    """Create a leaderboard as :func:`make_board` does, with its settings among the arguments, and return it."""
    settings = BoardSettings(**{name: given.pop(name) for name in SETTING_TYPES if name in given})
    parts = {each.name: given.pop(each.name) for each in dataclasses.fields(NewBoard) if each.name in given}
    return get_board(db, make_board(db, NewBoard(**parts, settings=settings), now=now, **given).name)


def make_board(
    db: Database,
    new: NewBoard,
    *,
    now: datetime,
    known_devices: Sequence[Device] | None = None,
    trial: TaskTrial | None = None,
    force: bool = False,
) -> MadeBoard:
    """Create a leaderboard for a snapshot of the task.

    Args:
        new: What it is made of.
        known_devices: The configured devices; others are refused. None accepts any name.
        trial: Tries the task; None if that cannot be done here.
        force: Create it although its checker accepts wrong answers.

    Raises:
        SignInNeeded, Forbidden, ScopeMissing: The actor may not create leaderboards.
        OwnHarnessNeeded: Only the task's own harness can judge it, and ``harness`` does not ask for it.
        BrokenChecker: Its checker accepts wrong answers, and ``force`` is not given.
        TaskTooSlow: 16 samples of each benchmark do not fit into a ranked stage.
        InvalidValue: The name, a device, the times, the harness or a limit cannot be used.
        Conflict: The name is taken.
    """
    name, settings, creator = new.name, new.settings, new.creator
    chosen = check_new(db, new, now=now, known=known_devices)
    judged = choose_judging(new.task, new.harness, chosen, trial, force=force)
    check_proofs(judged.harness, settings, devices=chosen, known=known_devices, task=new.task)
    task = dataclasses.replace(new.task, reference_s=list(judged.reference_s))
    actor = creator if isinstance(creator, Actor) else OPERATOR
    with db.write(durable=True) as session:
        check_joins(session, actor, settings.event)
        check_dates(session, settings, ("opens_at", "deadline"))
        board_id = boards.insert(
            session,
            name=name,
            task_hash=task_versions.save(session, task, now=now),
            devices=chosen,
            harness=judged.harness,
            creator_id=creator_id(session, creator, now=now),
            now=now,
            settings=settings,
            judging=task.judging(judged.harness),
            seeds_below=judged.seeds_below,
        )
        detail = {"id": board_id, "task": task.content_hash, "devices": list(chosen)}
        audit_log.record(session, actor, "board.create", f"board:{name}", detail, now)
        about = counters_notes(session, chosen, judged.harness)
        return MadeBoard.of(find_board(session, name), (*judged.notes, *about))


def check_new(db: Database, new: NewBoard, *, now: datetime, known: Sequence[Device] | None) -> list[str]:
    """Return the devices of a new leaderboard. Raises like :func:`make_board`, which tries the task besides."""
    settings = new.settings
    if isinstance(new.creator, Actor):
        access.require(new.creator, Scope.MANAGE, role=Role.CREATOR)
        if settings.share != BoardSettings().share:
            access.require(new.creator, Scope.ADMIN, role=Role.ADMIN)
    check_board_name(new.name)
    chosen = choose_devices(new.devices, known)
    check_judgeable(new.task, chosen, known)
    if not new.over:
        check_ahead(settings.deadline, now=now)
    check_settings(settings)
    check_event(settings)
    check_free(db, new.name)
    return chosen


def notes_of(db: Database, board: Leaderboard) -> tuple[str, ...]:
    """Return what a leaderboard's creator should know of the machines that judge it."""
    with db.read() as session:
        return counters_notes(session, board.devices, board.harness)


@operation("GET", "/leaderboards", subject="leaderboards", is_paged=True, tool="leaderboards")
def show_boards(
    db: Database,
    viewer: Actor,
    after_id: After = None,
    limit: Annotated[int, Given(least=1, most=200, help="Number of entries at most.")] = 100,
) -> list[Leaderboard]:
    """List the leaderboards that you may see, oldest first."""
    return list_boards(db, viewer, after_id=after_id, limit=limit)


def list_boards(
    db: Database, viewer: Actor = OPERATOR, *, after_id: int | None = None, limit: int | None = None
) -> list[Leaderboard]:
    """Return the leaderboards that exist for the viewer, oldest first."""
    with db.read() as session:
        return access.visible_boards(session, viewer, after_id=after_id, limit=limit)


@operation("GET", "/leaderboards/{name}", subject="leaderboards")
def get_board(db: Database, name: Board, viewer: Actor = OPERATOR) -> Leaderboard:
    """Show one leaderboard."""
    with db.read() as session:
        return find_board(session, name, viewer)


def get_task(db: Database, name: str, viewer: Actor = OPERATOR) -> Task:
    """Return the task version of a leaderboard, with hidden cases only if the viewer may inspect it."""
    return visible_task(db, name, viewer).task


@dataclass(frozen=True, kw_only=True, slots=True)
class VisibleTask:
    """A leaderboard's task as the viewer may see it."""

    board: Leaderboard
    task: Task
    """Without the hidden cases, unless the viewer may inspect the leaderboard."""
    hidden_tests: int
    hidden_benchmarks: int


def visible_task(db: Database, name: str, viewer: Actor = OPERATOR) -> VisibleTask:
    """Return a leaderboard with its task. Raise ``NotFound`` if it does not exist for the viewer."""
    with db.read() as session:
        board = find_board(session, name, viewer)
        task = task_versions.load(session, board.task_hash)
    # Times of another machine, those of hidden cases among them.
    shown = dataclasses.replace(task, reference_s=[])
    if not access.inspects_board(viewer, board):
        shown = dataclasses.replace(shown, hidden_tests=[], hidden_benchmarks=[])
    return VisibleTask(
        board=board,
        task=shown,
        hidden_tests=len(task.hidden_tests),
        hidden_benchmarks=len(task.hidden_benchmarks),
    )


@operation("DELETE", "/leaderboards/{name}", subject="leaderboards")
def delete_board(
    db: Database,
    name: Board,
    actor: Actor = OPERATOR,
    *,
    confirm: Annotated[str, Given(help="The leaderboard's name, as confirmation.")],
    now: datetime,
) -> None:
    """Delete a leaderboard permanently, including its submissions and their history.

    Raises:
        InvalidValue: The name was not confirmed; nothing was deleted.
    """
    with db.write(durable=True) as session:
        boards.lock_with_jobs(session, name)
        board = find_managed(session, name, actor)
        if confirm != board.name:
            given = repr(confirm) if confirm else "nothing"
            raise InvalidValue(
                f"To delete it for good, confirm with its name {board.name!r}; {given} was given. "
                "Nothing was deleted."
            )
        detail = {
            "id": board.id,
            "creator": board.creator,
            "submissions": boards.count_submissions(session, board.id),
        }
        versions = boards.task_hashes(session, board.id)
        boards.delete_board(session, board.id)
        submissions.delete_unused_code(session)
        for version in sorted(versions):
            task_versions.delete_unused(session, version)
        audit_log.record(session, actor, "board.delete", f"board:{board.name}", detail, now)


def find_board(session: Session, name: str, viewer: Actor = OPERATOR) -> Leaderboard:
    """Return a leaderboard inside a transaction. Raise ``NotFound`` if it does not exist for the viewer."""
    board = boards.find(session, name)
    if board is None or not access.sees_board(session, viewer, board):
        raise access.no_board(name)
    return board


def find_managed(session: Session, name: str, actor: Actor) -> Leaderboard:
    """Return a leaderboard that the actor may change.

    Raises:
        NotFound: It does not exist for them.
        SignInNeeded, Forbidden, ScopeMissing: They see it but may not change it.
    """
    board = find_board(session, name, actor)
    access.check_manages_board(session, actor, board)
    return board


def check_manages(db: Database, actor: Actor, name: str) -> None:
    """Raise the errors of :func:`find_managed`, before anything costly is done for the actor."""
    with db.read() as session:
        find_managed(session, name, actor)


def check_free(db: Database, name: str) -> None:
    """Raise ``Conflict`` if the name is taken, before anything costly is done for it."""
    with db.read() as session:
        if boards.find(session, name) is not None:
            raise Conflict(f"There already is a leaderboard {name!r}.")


def choose_devices(names: Sequence[str], known: Sequence[Device] | None) -> list[str]:
    """Return each device once, in its configured spelling. Raise ``InvalidValue`` for an unknown one."""
    spelling = {device.name.lower(): device.name for device in known or ()}
    chosen: dict[str, str] = {}
    for name in names:
        if known is not None and name.lower() not in spelling:
            allowed = ", ".join(spelling.values()) or "none"
            raise InvalidValue(f"Device {name!r} is not configured here; there are: {allowed}.")
        chosen.setdefault(name.lower(), spelling.get(name.lower(), name))
    if not chosen:
        here = f" There are: {', '.join(spelling.values())}." if spelling else ""
        raise InvalidValue(f"A leaderboard needs at least one device.{here}")
    return list(chosen.values())


def check_settings(settings: BoardSettings) -> None:
    """Raise ``InvalidValue`` if settings are invalid or contradict each other."""
    opens_at, deadline, freeze_at = settings.opens_at, settings.deadline, settings.freeze_at
    if deadline is not None and opens_at is not None and deadline <= opens_at:
        raise InvalidValue("The deadline is not after the opening.")
    if freeze_at is not None and opens_at is not None and freeze_at < opens_at:
        raise InvalidValue("The freeze is before the opening.")
    if settings.max_file_bytes is not None and not 1 <= settings.max_file_bytes <= LARGEST_SIZE_LIMIT:
        raise InvalidValue(f"max_file_bytes {settings.max_file_bytes}: expected 1 to {LARGEST_SIZE_LIMIT:,}.")
    if not SMALLEST_SHARE <= settings.share <= LARGEST_SHARE:
        raise InvalidValue(f"share {settings.share:g}: expected {SMALLEST_SHARE:g} to {LARGEST_SHARE:g}.")
    if len(settings.review_tags) > MOST_REVIEW_TAGS:
        raise InvalidValue(f"review_tags: at most {MOST_REVIEW_TAGS}.")
    for tag in settings.review_tags:
        if not re.fullmatch(r"[A-Za-z0-9_.:-]{1,64}", tag):
            raise InvalidValue(f"Review tag {tag!r}: expected letters, digits, '_', '.', ':' and '-'.")


def emulated_of(names: Sequence[str], known: Sequence[Device] | None) -> list[str]:
    """Return those of the named devices that are known to be emulated."""
    backends = {device.name: device.backend for device in known or ()}
    return [name for name in names if backends.get(name) is Backend.EMULATED]


def without_gpu_of(names: Sequence[str], known: Sequence[Device] | None) -> list[str]:
    """Return those of the named devices that are known to have no GPU and so are timed by the wall clock."""
    backends = {device.name: device.backend for device in known or ()}
    return [name for name in names if backends.get(name, Backend.CUDA) is not Backend.CUDA]


def check_proofs(
    harness: HarnessKind,
    settings: BoardSettings,
    *,
    devices: Sequence[str] = (),
    known: Sequence[Device] | None = None,
    task: Task | None = None,
) -> None:
    """Raise ``InvalidValue`` if a harness or a device cannot give what a leaderboard asks for.

    Args:
        devices: Names of the leaderboard's devices.
        known: The devices of this service, None if they are not known.
    """
    if settings.duel and (emulated := emulated_of(devices, known)):
        raise InvalidValue(
            f"duel: the emulated device {emulated[0]!r} cannot measure two submissions in turns; "
            "leave out `duel` or the device."
        )
    if settings.duel and task is not None and task.partial:
        raise InvalidValue(
            "duel: a task with `partial` ranks submissions that fail in turns; leave out `duel`."
        )
    if settings.trust is not TrustRule.ANY and (without := without_gpu_of(devices, known)):
        raise InvalidValue(
            f"trust: {without[0]!r} has no GPU, so its times come from the wall clock, and none is replayed; "
            "leave out `trust` or the device."
        )
    if harness is HarnessKind.STANDARD:
        return
    if settings.trust is not TrustRule.ANY:
        raise InvalidValue(
            "trust: times of a task's own harness are self-measured, so none of them could rank where only "
            f"{settings.trust.value} times do. Use the standard harness, or 'any'."
        )
    if settings.duel:
        raise InvalidValue("duel: only the standard harness measures two submissions in turns.")


def check_ahead(deadline: datetime | None, *, now: datetime) -> None:
    """Raise ``InvalidValue`` if a deadline has already passed."""
    if deadline is not None and deadline <= now:
        raise InvalidValue(f"The deadline {deadline:%Y-%m-%d %H:%M:%S %Z} has already passed.")


def creator_id(session: Session, creator: str | Actor, *, now: datetime) -> int:
    """Return the user who creates something: the actor, or the one of this name for whom the operator does.

    Raises:
        InvalidValue: The operator names none, or the name is invalid.
    """
    if not isinstance(creator, Actor):
        user_id = users.get_or_create(session, check_user_name(creator), now=now)
        users.raise_to_creator(session, user_id)
        return user_id
    if creator.user_id is None:
        raise InvalidValue("The creator needs an account.")
    return creator.user_id
