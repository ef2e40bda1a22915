"""Change a leaderboard: its rules, its task, its results; each change is shown before it is made."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request
from starlette.datastructures import FormData
from starlette.responses import RedirectResponse, Response

from kernelcup.app import access
from kernelcup.app.boards import boards, changes, managing
from kernelcup.app.boards.changes import UpdatePreview, as_json
from kernelcup.app.boards.rank_changes import RankChanges, rank_changes
from kernelcup.app.results import finals, freezes, handed_in, rejudge
from kernelcup.app.rules import pauses
from kernelcup.domain import Actor, Leaderboard, PauseScope, Scope
from kernelcup.errors import (
    BrokenChecker,
    Conflict,
    InvalidTask,
    InvalidValue,
    UserError,
)
from kernelcup.http.api.operations import Provided
from kernelcup.http.dependencies import ActorDep, Db, Now, PlatformDep
from kernelcup.http.pages.admin.forms import (
    CHOICES,
    Fields,
    add_form,
    carried,
    changes_of,
    task_of,
    text_of,
    upload_of,
    values_of_board,
    values_of_fields,
)
from kernelcup.http.pages.figures import TimeScale
from kernelcup.http.pages.rendering import address, render
from kernelcup.http.pages.route import PageRoute
from kernelcup.http.pages.wording import value_text
from kernelcup.http.state import Platform

router = APIRouter(prefix="/admin/boards", route_class=PageRoute)

MOST_MOVES = 50
BOARD = "/admin/boards/{name}"
Text = Annotated[str, Form(max_length=500)]


@router.get("/{name}")
def show_board(name: str, request: Request, platform: PlatformDep, actor: ActorDep) -> Response:
    """Show the rules of a leaderboard, to be changed."""
    return board_page(request, platform, actor, name)


@router.post("/{name}/preview")
def preview(
    name: str, request: Request, platform: PlatformDep, actor: ActorDep, now: Now, fields: Fields
) -> Response:
    """Show what a change would do. Nothing is changed."""
    return _previewed(request, platform, actor, now, _managed(platform, actor, name), fields)


def _previewed(
    request: Request,
    platform: Platform,
    actor: Actor,
    now: datetime,
    board: Leaderboard,
    fields: FormData,
    problem: UserError | None = None,
) -> Response:
    try:
        upload = upload_of(fields)
        hidden = [*_hidden(fields), *carried(upload).items()]
        wanted: dict[str, Any] = {
            "task": None if upload is None else task_of(upload),
            "changes": changes_of(fields, board),
            "now": now,
            "known_devices": platform.config.devices,
        }
        found = changes.preview_update(platform.db, actor, board.name, **wanted)
        moving = rank_changes(platform.db, actor, board.name, most=MOST_MOVES, **wanted)
    except (InvalidTask, InvalidValue, Conflict) as error:
        return _refused(request, platform, actor, board, fields, error)
    return _preview_page(request, board, found, moving, hidden, problem)


@router.post("/{name}/update")
def update(
    name: str, request: Request, platform: PlatformDep, actor: ActorDep, now: Now, fields: Fields
) -> Response:
    """Make the change that was shown."""
    board = _managed(platform, actor, name)
    try:
        upload = upload_of(fields)
        with platform.steps.of(actor):
            done = changes.update_board(
                platform.db,
                actor,
                board.name,
                task=None if upload is None else task_of(upload),
                changes=changes_of(fields, board),
                expected=text_of(fields, "fingerprint"),
                force=bool(text_of(fields, "force")),
                rejudge=bool(text_of(fields, "rejudge")),
                now=now,
                known_devices=platform.config.devices,
                trial=platform.trial,
            )
    except BrokenChecker as error:
        return _previewed(request, platform, actor, now, board, fields, error)
    except (InvalidTask, InvalidValue, Conflict) as error:
        return _refused(request, platform, actor, board, fields, error)
    return done_page(request, platform, actor, board.name, done.notes, done="The leaderboard is changed.")


@router.get("/{name}/rejudge")
def show_rejudge(
    name: str,
    request: Request,
    db: Db,
    actor: ActorDep,
    now: Now,
    device: Annotated[str, Query(max_length=100)] = "",
    only_best: bool = False,
) -> Response:
    """Show what would be judged again."""
    boards.check_manages(db, actor, name)
    board = boards.get_board(db, name, viewer=actor)
    access.require(actor, Scope.MANAGE)
    plan = rejudge.rejudge_board(
        db, actor, board.name, device=device or None, only_best=only_best, now=now, dry_run=True
    )
    return render(request, "admin/rejudge.html", board=board, plan=plan, device=device, only_best=only_best)


@router.get("/{name}/unveil")
def ask_unveil(name: str, request: Request, db: Db, actor: ActorDep) -> Response:
    """Ask before a frozen ranking is shown."""
    boards.check_manages(db, actor, name)
    return render(request, "admin/unveil.html", board=boards.get_board(db, name, viewer=actor))


def _with_problem(request: Request, given: Provided, problem: str) -> Response:
    platform: Platform = request.app.state.platform
    return board_page(request, platform, given["actor"], request.path_params["name"], 400, problem=problem)


add_form(router, "/{name}/rejudge", rejudge.rejudge_board, BOARD)
add_form(router, "/{name}/unveil", freezes.unveil, BOARD)
add_form(router, "/{name}/freeze", freezes.freeze, BOARD)
add_form(router, "/{name}/final", finals.start, BOARD, page=_with_problem)
add_form(router, "/{name}/close", managing.close, BOARD, page=_with_problem)
add_form(router, "/{key}/pause", pauses.pause, "/admin/boards/{key}", scope=PauseScope.LEADERBOARD)
add_form(router, "/{key}/unpause", pauses.unpause, "/admin/boards/{key}", scope=PauseScope.LEADERBOARD)


@router.post("/{name}/rename")
def rename(
    name: str, request: Request, platform: PlatformDep, actor: ActorDep, now: Now, new_name: Text = ""
) -> Response:
    """Give a leaderboard another name."""
    board = _managed(platform, actor, name)
    try:
        managing.rename_board(platform.db, actor, board.name, new_name.strip(), now=now)
    except (InvalidValue, Conflict) as error:
        return board_page(request, platform, actor, board.name, 400, problem=str(error))
    return RedirectResponse(address("/admin/boards", new_name.strip()), 303)


@router.get("/{name}/likeness")
def show_likeness(
    name: str,
    request: Request,
    db: Db,
    actor: ActorDep,
    least: Annotated[int, Query(ge=50, le=100)] = 80,
) -> Response:
    """Show which files of different people are alike."""
    found = handed_in.likeness(db, actor, name, least=least)
    board = boards.get_board(db, name, viewer=actor)
    return render(request, "admin/likeness.html", board=board, found=found, least=least)


@router.get("/{name}/delete")
def ask_delete(name: str, request: Request, db: Db, actor: ActorDep) -> Response:
    """Ask for the name before a leaderboard is deleted."""
    boards.check_manages(db, actor, name)
    board = boards.get_board(db, name, viewer=actor)
    return render(request, "admin/board_delete.html", board=board, problem="")


@router.post("/{name}/delete")
def delete(name: str, request: Request, db: Db, actor: ActorDep, now: Now, confirm: Text = "") -> Response:
    """Delete a leaderboard for good."""
    try:
        boards.delete_board(db, name, actor, confirm=confirm.strip(), now=now)
    except InvalidValue as error:
        board = boards.get_board(db, name, viewer=actor)
        return render(request, "admin/board_delete.html", status=400, board=board, problem=str(error))
    return RedirectResponse("/admin", 303)


def _managed(platform: Platform, actor: Actor, name: str) -> Leaderboard:
    boards.check_manages(platform.db, actor, name)
    return boards.get_board(platform.db, name, viewer=actor)


def _hidden(fields: FormData) -> list[tuple[str, str]]:
    """Return the hidden fields that take a preview to the update."""
    left_out = ("csrf_token", "task", "carried", "carried_name", "fingerprint", "rejudge", "force")
    return [
        (name, value)
        for name, value in fields.multi_items()
        if isinstance(value, str) and name not in left_out
    ]


def _refused(
    request: Request, platform: Platform, actor: Actor, board: Leaderboard, fields: FormData, error: UserError
) -> Response:
    values = values_of_fields(fields) if text_of(fields, "settings") else values_of_board(board)
    return board_page(request, platform, actor, board.name, 400, values=values, problem=error)


def done_page(
    request: Request,
    platform: Platform,
    actor: Actor,
    name: str,
    notes: Sequence[str],
    *,
    done: str = "The leaderboard is made.",
) -> Response:
    """Go to the page of a leaderboard after a form, with what the operation said."""
    if notes:
        return board_page(request, platform, actor, name, 201, said=(done, *notes))
    return RedirectResponse(address("/admin/boards", name), 303)


def board_page(
    request: Request, platform: Platform, actor: Actor, name: str, status: int = 200, **told: Any
) -> Response:
    """Show the page on which a leaderboard is managed, with what is told to its manager."""
    board, now = _managed(platform, actor, name), platform.clock()
    known = {"values": values_of_board(board), "problem": "", "said": ()} | told
    stopped = [
        each
        for each in pauses.list_pauses(platform.db, actor)
        if each.scope is PauseScope.LEADERBOARD and each.key == board.name
    ]
    return render(
        request,
        "admin/board.html",
        status=status,
        board=board,
        devices=list(dict.fromkeys([*(each.name for each in platform.config.devices), *board.devices])),
        choices=CHOICES,
        pause=stopped[0] if stopped else None,
        notes=boards.notes_of(platform.db, board),
        phase=board.phase(now),
        finals={
            each: finals.show(platform.db, board.name, each, viewer=actor, now=now) for each in board.devices
        },
        **known,
    )


def _preview_page(
    request: Request,
    board: Leaderboard,
    found: UpdatePreview,
    moving: list[RankChanges],
    hidden: list[tuple[str, str]],
    problem: UserError | None,
) -> Response:
    return render(
        request,
        "admin/board_preview.html",
        status=200 if problem is None else 400,
        problem=problem,
        board=board,
        found=found,
        settings=[
            (name, *(each if isinstance(each, datetime) else value_text(as_json(each)) for each in pair))
            for name, pair in found.settings.items()
        ],
        moving=moving,
        scale=TimeScale.of(move.score_s for each in moving for move in each.moves),
        hidden=hidden,
        needs_force=bool(found.removed_in_use or found.reveals),
    )
