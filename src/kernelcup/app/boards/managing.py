"""Create and change leaderboards, as every door offers it.

A task comes as a function that loads it, so that the actor's rights are checked first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated

from kernelcup.app import access
from kernelcup.app.boards.boards import (
    NewBoard,
    check_manages,
    check_new,
    find_managed,
    make_board,
)
from kernelcup.app.boards.changes import UpdatePreview, preview_update, update_board
from kernelcup.app.boards.judgeable import TaskTrial, why_not
from kernelcup.app.boards.judging import MadeBoard, choose_judging
from kernelcup.app.boards.queries import boards
from kernelcup.app.boards.settings import BoardChanges, Changes
from kernelcup.app.operation import Board, Given, operation
from kernelcup.app.people.queries import audit_log
from kernelcup.domain import Actor, BoardSettings, Device, Leaderboard, Role, Scope, Task
from kernelcup.engine import Database
from kernelcup.errors import Conflict, InvalidValue
from kernelcup.names import check_board_name

_TASK = Given(
    metavar="TASK",
    is_upload=True,
    help="A folder's files with their relative paths as names, one `.zip`, or one old-style `.py`.",
)
Load = Callable[[], Task]
Expected = Annotated[
    str | None,
    Given(in_query=True, longest=100, help="`fingerprint` of the preview that you approved."),
]


@operation("POST", "/leaderboards", subject="leaderboards", status=201, is_slow=True)
def create(
    db: Database,
    actor: Actor,
    task: Annotated[Load, _TASK],
    name: Annotated[str | None, Given(help="Default: the task's name.")] = None,
    changes: Changes = None,
    run: Annotated[bool, Given(help="False: publish the task without trying it first.")] = True,
    force: Annotated[bool, Given(help="Publish it although its checker accepts wrong answers.")] = False,
    over: Annotated[bool, Given(help="Its deadline may have passed: it is over from the start.")] = False,
    *,
    creator: str | None = None,
    now: datetime,
    known_devices: Sequence[Device],
    trial: TaskTrial | None,
) -> MadeBoard:
    """Create a leaderboard from a task; `notes` explain how it is judged, and why.

    Args:
        creator: The user for whom the operator creates it.
    """
    access.require(actor, Scope.MANAGE, role=Role.CREATOR)
    loaded, settings = task(), dict(changes or {})
    devices = settings.pop("devices", None) or loaded.devices
    if not devices:
        raise InvalidValue("Name the devices: the task proposes none.")
    new = NewBoard(
        name=loaded.name if name is None else name,
        task=loaded,
        devices=devices,
        creator=creator or actor,
        harness=settings.pop("harness", None),
        settings=BoardSettings(**settings),
        over=over,
    )
    return make_board(
        db, new, now=now, known_devices=known_devices, trial=trial if run else None, force=force
    )


@operation("POST", "/leaderboards/check", subject="leaderboards")
def check(
    db: Database,
    actor: Actor,
    task: Annotated[Load, _TASK],
    name: Annotated[str | None, Given(help="Default: the task's name.")] = None,
    changes: Changes = None,
    *,
    now: datetime,
    known_devices: Sequence[Device],
) -> None:
    """Check what a new leaderboard would be made of, before its devices are chosen. Nothing is made or tried."""
    access.require(actor, Scope.MANAGE, role=Role.CREATOR)
    loaded, settings = task(), dict(changes or {})
    fitting = [each.name for each in known_devices if why_not(loaded, each.name, known_devices) is None]
    chosen = settings.pop("devices", None) or fitting or [each.name for each in known_devices]
    new = NewBoard(
        name=loaded.name if name is None else name,
        task=loaded,
        devices=chosen,
        creator=actor,
        harness=settings.pop("harness", None),
        settings=BoardSettings(**settings),
    )
    choose_judging(loaded, new.harness, chosen, None)
    check_new(db, new, now=now, known=known_devices)


@operation("POST", "/leaderboards/{name}/preview", subject="leaderboards")
def preview(
    db: Database,
    actor: Actor,
    board: Board,
    task: Annotated[Load | None, _TASK] = None,
    changes: Changes = None,
    *,
    now: datetime,
    known_devices: Sequence[Device],
) -> UpdatePreview:
    """Preview an update's changes to settings, files, cases and ranking. Nothing is changed."""
    check_manages(db, actor, board)
    loaded = None if task is None else task()
    return preview_update(
        db, actor, board, now=now, task=loaded, changes=changes, known_devices=known_devices
    )


@operation("PATCH", "/leaderboards/{name}", subject="leaderboards")
def change(
    db: Database,
    actor: Actor,
    board: Board,
    changes: Changes = None,
    expected: Expected = None,
    force: Annotated[
        bool,
        Given(
            in_query=True,
            help="Allow removing devices that have submissions, and revealing names or code.",
        ),
    ] = False,
    *,
    now: datetime,
    known_devices: Sequence[Device],
) -> Leaderboard:
    """Change settings; null removes an opening, a deadline, a freeze or a size limit.

    Results under another harness leave the standings until they are judged again.
    """
    return update_board(
        db,
        actor,
        board,
        now=now,
        changes=changes,
        expected=expected,
        force=force,
        known_devices=known_devices,
    ).board


@operation("POST", "/leaderboards/{name}/close", "admin close", subject="leaderboards")
def close(db: Database, actor: Actor, board: Board, *, now: datetime) -> Leaderboard:
    """Close a leaderboard now: its deadline becomes this moment. Late exceptions stay.

    Raises:
        InvalidValue: It has not opened yet.
        Conflict: It is closed already.
    """
    with db.read() as session:
        found = find_managed(session, board, actor)
    if found.phase(now) == "closed":
        raise Conflict(
            f"Leaderboard {found.name!r} closed at {found.deadline:%Y-%m-%d %H:%M:%S} UTC already."
        )
    return update_board(db, actor, found.name, changes=BoardChanges(deadline=now), now=now).board


@operation("PUT", "/leaderboards/{name}/task", subject="leaderboards", is_slow=True)
def replace_task(
    db: Database,
    actor: Actor,
    board: Board,
    task: Annotated[Load, _TASK],
    changes: Changes = None,
    expected: Expected = None,
    force: Annotated[
        bool,
        Given(
            in_query=True,
            help="Take the task although its checker accepts wrong answers, and allow what changed settings may not.",
        ),
    ] = False,
    rejudge: Annotated[
        bool, Given(in_query=True, help="Judge again all results that are no longer comparable.")
    ] = False,
    *,
    now: datetime,
    known_devices: Sequence[Device],
    trial: TaskTrial | None,
) -> Leaderboard:
    """Replace the task of a leaderboard, and change its settings with it.

    Results that are not comparable with new ones leave the standings until they are judged again.
    """
    check_manages(db, actor, board)
    return update_board(
        db,
        actor,
        board,
        now=now,
        task=task(),
        changes=changes,
        expected=expected,
        force=force,
        rejudge=rejudge,
        known_devices=known_devices,
        trial=trial,
    ).board


def rename_board(db: Database, actor: Actor, name: str, new_name: str, *, now: datetime) -> None:
    """Give a leaderboard another name: its results stay, addresses with the old name end.

    Raises:
        NotFound, SignInNeeded, Forbidden, ScopeMissing: The actor may not change it.
        InvalidValue: No leaderboard can have the new name.
        Conflict: Another leaderboard has it.
    """
    check_board_name(new_name)
    with db.write(durable=True) as session:
        boards.lock(session, name)
        board = find_managed(session, name, actor)
        other = boards.find(session, new_name)
        if other is not None and other.id != board.id:
            raise Conflict(f"There already is a leaderboard {other.name!r}.")
        boards.rename(session, board.id, new_name)
        audit_log.record(session, actor, "board.rename", f"board:{new_name}", {"before": board.name}, now)
