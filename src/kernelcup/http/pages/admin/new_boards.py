"""Make leaderboards: from a task that ships, from one that is sent, or from a git repository."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from starlette.datastructures import FormData
from starlette.responses import JSONResponse, Response

from kernelcup.app import access
from kernelcup.app.boards import managing, problem_sync
from kernelcup.app.boards.deadlines import parse_deadline
from kernelcup.app.boards.judgeable import lacks_environment, why_not
from kernelcup.app.boards.judging import MadeBoard
from kernelcup.app.boards.problem_sync import SyncOptions
from kernelcup.app.boards.settings import KEEP, BoardChanges, Keep
from kernelcup.domain import Actor, Role, Scope, Task, Visibility
from kernelcup.errors import BrokenChecker, InvalidTask, InvalidValue, NotFound, UserError
from kernelcup.http.dependencies import ActorDep, Now, PlatformDep
from kernelcup.http.pages.admin.forms import (
    CHOICES,
    NEW_VALUES,
    Fields,
    carried,
    settings_of,
    task_of,
    text_of,
    upload_of,
    values_of_fields,
)
from kernelcup.http.pages.admin.manage import done_page
from kernelcup.http.pages.rendering import render
from kernelcup.http.pages.route import PageRoute
from kernelcup.http.state import Platform
from kernelcup.tasks.shipped import load_shipped, title_of
from kernelcup_harness.protocol import HarnessKind

router = APIRouter(prefix="/admin", route_class=PageRoute)

SYNC_TEXTS = ("repository", "branch", "problem_set", "deadline", "harness")


@router.get("/boards/new")
def show_new(request: Request, platform: PlatformDep, actor: ActorDep) -> Response:
    """Show the forms for a new leaderboard."""
    return _page(request, platform, actor)


@router.post("/boards/new")
def make_board(
    request: Request, platform: PlatformDep, actor: ActorDep, now: Now, fields: Fields
) -> Response:
    """Make a leaderboard from a task that was sent."""
    access.require(actor, Scope.MANAGE, role=Role.CREATOR)
    try:
        with platform.steps.of(actor):
            made = _make(platform, actor, now, fields)
    except UserError as error:
        values = values_of_fields(fields) | {"name": text_of(fields, "name")}
        told: dict[str, Any] = {"values": values}
        if isinstance(error, BrokenChecker):
            with suppress(InvalidValue):  # a large one has to be sent again
                told["hidden"] = list(carried(upload_of(fields)).items())
        return _page(request, platform, actor, 400, problem=error, **told)
    return done_page(request, platform, actor, made.name, made.notes)


@router.post("/boards/new/shipped")
def make_shipped_board(
    request: Request, platform: PlatformDep, actor: ActorDep, now: Now, fields: Fields
) -> Response:
    """Make a leaderboard from a task that ships, on the devices of this service that can judge it."""
    access.require(actor, Scope.MANAGE, role=Role.CREATOR)
    chosen = text_of(fields, "shipped")
    try:
        task = load_shipped().get(chosen)
        if task is None:
            raise InvalidValue(f"No task {chosen!r} ships: expected one of {', '.join(load_shipped())}.")
        given = BoardChanges(devices=judging_devices(platform, task))
        if text_of(fields, "closed"):
            given["visibility"] = Visibility.CLOSED
        with platform.steps.of(actor):
            made = _made(platform, actor, task, given, now, fields)
    except UserError as error:
        return _page(request, platform, actor, 400, shipped_problem=error, shipped_usual=chosen)
    return done_page(request, platform, actor, made.name, made.notes)


@router.post("/problem-sets/sync")
async def sync(
    request: Request, platform: PlatformDep, actor: ActorDep, now: Now, fields: Fields
) -> Response:
    """Make and update leaderboards from a git repository, or say what that would do."""
    sent = _sent(fields)
    try:
        with platform.steps.of(actor):
            work = partial(
                problem_sync.sync_problem_set,
                platform.db,
                actor,
                repository=sent["repository"],
                branch=sent["branch"] or "main",
                problem_set=sent["problem_set"] or None,
                options=_options(platform, sent, preview=text_of(fields, "action") != "sync", now=now),
                now=now,
            )
            found = await platform.room.aside(actor, work)
    except (InvalidTask, InvalidValue, NotFound) as error:
        return _page(request, platform, actor, 400, sent=sent, sync_problem=error)
    return _page(request, platform, actor, sent=sent, synced=found)


@router.get("/steps")
def steps(platform: PlatformDep, actor: ActorDep) -> JSONResponse:
    """Return the steps of a request of this user that tries tasks, each with its seconds."""
    access.require(actor, Scope.MANAGE, role=Role.CREATOR)
    return JSONResponse(platform.steps.latest(actor))


def shipped_choices(platform: Platform) -> list[tuple[str, str]]:
    """Return name and title of each task that ships and that a device of this service can judge."""
    return [
        (name, title_of(task.description))
        for name, task in load_shipped().items()
        if judging_devices(platform, task)
    ]


def judging_devices(platform: Platform, task: Task) -> list[str]:
    """Return the devices of this service that can judge a task."""
    known = platform.config.devices
    return [
        each.name
        for each in known
        if why_not(task, each.name, known) is None and lacks_environment(task, each.name, known) is None
    ]


def _sent(fields: FormData) -> dict[str, Any]:
    """Return the texts of the form for a repository."""
    return {
        **{name: text_of(fields, name) for name in SYNC_TEXTS},
        "devices": [str(each) for each in fields.getlist("devices")],
        "no_deadline": bool(text_of(fields, "no_deadline")),
        "force": bool(text_of(fields, "force")),
    }


def _options(platform: Platform, sent: Mapping[str, Any], *, preview: bool, now: datetime) -> SyncOptions:
    """Return how a repository is synced. Raise ``InvalidValue`` for a deadline or harness that cannot be."""
    deadline: datetime | Keep | None = None if sent["no_deadline"] else KEEP
    if sent["deadline"]:
        if sent["no_deadline"]:
            raise InvalidValue("Give either a deadline of all leaderboards or none.")
        deadline = parse_deadline(sent["deadline"], now)
    if sent["harness"] not in ("", *CHOICES["harness"]):
        raise InvalidValue(
            f"There is no harness {sent['harness']!r}: expected {' or '.join(CHOICES['harness'])}."
        )
    return SyncOptions(
        preview=preview,
        force=sent["force"],
        devices=sent["devices"],
        deadline=deadline,
        harness=HarnessKind(sent["harness"]) if sent["harness"] else None,
        trial=platform.trial,
        known_devices=platform.config.devices,
    )


def _make(platform: Platform, actor: Actor, now: Any, fields: Fields) -> MadeBoard:
    upload = upload_of(fields)
    if upload is None:
        raise InvalidValue("Choose the task: a .zip of its folder, or one old-style .py.")
    settings = settings_of(values_of_fields(fields))
    return _made(platform, actor, task_of(upload), settings, now, fields)


def _made(
    platform: Platform, actor: Actor, task: Task, settings: BoardChanges, now: datetime, fields: FormData
) -> MadeBoard:
    """Make a leaderboard of a task with these settings, and with what the form says beside them."""
    return managing.create(
        platform.db,
        actor,
        task=lambda: task,
        name=text_of(fields, "name") or text_of(fields, "shipped") or None,
        changes=settings,
        run=True,
        force=bool(text_of(fields, "force")),
        now=now,
        known_devices=platform.config.devices,
        trial=platform.trial,
    )


def _page(request: Request, platform: Platform, actor: Actor, status: int = 200, **told: Any) -> Response:
    access.require(actor, Scope.MANAGE, role=Role.CREATOR)
    known: dict[str, Any] = {
        "values": {**NEW_VALUES, "name": ""},
        "problem": "",
        "hidden": [],
        "shipped_problem": "",
        "shipped_usual": "vectoradd",
        "sync_problem": "",
        "sent": _sent(FormData()),
        "synced": None,
    }
    names = [each.name for each in platform.config.devices]
    return render(
        request,
        "admin/board_new.html",
        status=status,
        devices=names,
        choices=CHOICES,
        shipped=shipped_choices(platform),
        **(known | told),
    )
