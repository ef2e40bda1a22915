"""Leaderboards: show, create, change, delete."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from types import NoneType
from typing import Annotated, Any, get_args

from fastapi import APIRouter, File, Form, Query, UploadFile
from pydantic import BeforeValidator, Field, Json, create_model

from kernelcup.app import access
from kernelcup.app.boards import boards, changes
from kernelcup.app.boards.changes import BoardChanges
from kernelcup.app.boards.deadlines import parse_end, parse_opening
from kernelcup.app.boards.judging import MadeBoard
from kernelcup.app.boards.upload import load_upload
from kernelcup.app.results import rejudge
from kernelcup.domain import SETTING_TYPES, Actor, BoardSettings, Role, Scope, Task
from kernelcup.errors import InvalidValue
from kernelcup.http.api import forms
from kernelcup.http.api.forms import CreatedOut, Done, LeaderboardOut, Moment, Page, moment
from kernelcup.http.dependencies import ActorDep, After, Db, Limit, Now, PlatformDep
from kernelcup.http.route import ApiRoute
from kernelcup.http.state import Platform
from kernelcup_harness.protocol import HarnessKind

router = APIRouter(prefix="/leaderboards", tags=["leaderboards"], route_class=ApiRoute)

Files = Annotated[
    list[UploadFile],
    File(
        description="A folder's files with their relative paths as names, one `.zip`, or one old-style `.py`."
    ),
]


Opening = Annotated[
    Moment,
    BeforeValidator(moment(parse_opening)),
    Field(
        description="A date without a time means the start of that day; without a zone, UTC.",
        examples=["2026-12-01"],
    ),
]
Ending = Annotated[
    Moment,
    BeforeValidator(moment(parse_end)),
    Field(
        description="A date without a time means the end of that day; without a zone, UTC.",
        examples=["2026-12-20 23:59"],
    ),
]

FORMS: dict[str, Any] = {
    "opens_at": (Opening | None, None),
    "deadline": (Ending | None, None),
    "freeze_at": (Moment | None, None),
    "max_file_bytes": (int | None, Field(default=None, ge=1, le=1_000_000)),
    "review_tags": (list[Annotated[str, Field(max_length=64)]] | None, Field(default=None, max_length=100)),
    "share": (float | None, Field(default=None, description="Its weight; see the setting. Admins only.")),
    "event": (
        str | None,
        Field(default=None, max_length=100, description="The event that it belongs to; empty for none."),
    ),
}
"""Settings that are written in another way than they are kept, or that have a bound."""

MAY_BE_ABSENT = {"name", *(name for name, kind in SETTING_TYPES.items() if NoneType in get_args(kind))}

_SETTINGS: Any = create_model(
    "_SETTINGS",
    __base__=forms.Form,
    **{name: FORMS.get(name, (kind | None, None)) for name, kind in SETTING_TYPES.items()},
)


class SettingsIn(_SETTINGS):  # type: ignore[misc]
    """Settings of a leaderboard; omitted keys stay unchanged."""

    devices: list[Annotated[str, Field(max_length=100)]] | None = Field(default=None, max_length=50)
    harness: HarnessKind | None = None

    def given(self) -> dict[str, Any]:
        """Return the given settings; null removes an optional one. Raise ``InvalidValue``."""
        values = {name: getattr(self, name) for name in self.model_fields_set}
        for name, value in values.items():
            if value is None and name not in MAY_BE_ABSENT:
                raise InvalidValue(f"{name}: null is not allowed; omit the key to keep the value.")
        return values


class CreateIn(SettingsIn):
    """A new leaderboard."""

    name: str | None = Field(default=None, max_length=200, description="Default: the task's name.")
    run: bool = Field(default=True, description="False: publish the task without trying it first.")
    force: bool = Field(default=False, description="Publish it although its checker accepts wrong answers.")


@router.get("")
def list_all(db: Db, actor: ActorDep, after: After = None, limit: Limit = 100) -> Page[LeaderboardOut]:
    """List the leaderboards that you may see, oldest first."""
    found = boards.list_boards(db, viewer=actor, after_id=after, limit=limit + 1)
    items = [LeaderboardOut.of(board) for board in found[:limit]]
    return Page(items=items, next=found[limit - 1].id if len(found) > limit else None)


@router.get("/{name}")
def show(name: str, db: Db, actor: ActorDep) -> LeaderboardOut:
    """Show one leaderboard."""
    return LeaderboardOut.of(boards.get_board(db, name, viewer=actor))


@router.post("", status_code=201)
def create(
    platform: PlatformDep,
    actor: ActorDep,
    now: Now,
    files: Files,
    settings: Annotated[Json[CreateIn], Form(description="JSON: name, devices, deadline, ...")],
) -> CreatedOut:
    """Create a leaderboard from a task; `notes` explain how it is judged, and why."""
    access.require(actor, Scope.MANAGE, role=Role.CREATOR)
    task = read_task(files)
    made = make_board(platform, actor, task, settings.given(), now)
    return CreatedOut(**LeaderboardOut.of(made.board).model_dump(), notes=list(made.notes))


def make_board(
    platform: Platform, actor: Actor, task: Task, given: Mapping[str, Any], now: datetime
) -> MadeBoard:
    """Create a leaderboard from a task and the given settings, among them optionally name, devices and harness."""
    values = dict(given)
    name = values.pop("name", None) or task.name
    trial = platform.trial if values.pop("run", True) else None
    devices = values.pop("devices", None) or task.devices
    if not devices:
        raise InvalidValue("Name the devices: the task proposes none.")
    return boards.make_board(
        platform.db,
        name=name,
        task=task,
        devices=devices,
        creator=actor,
        now=now,
        known_devices=platform.config.devices,
        trial=trial,
        force=values.pop("force", False),
        harness=values.pop("harness", None),
        settings=BoardSettings(**values),
    )


@router.patch("/{name}")
def change(
    name: str,
    settings: SettingsIn,
    platform: PlatformDep,
    actor: ActorDep,
    now: Now,
    force: Annotated[
        bool, Query(description="Allow removing devices that have submissions, and revealing names or code.")
    ] = False,
) -> LeaderboardOut:
    """Change settings; null removes an opening, a deadline, a freeze or a size limit.

    Results under another harness leave the standings until they are judged again.
    """
    updated = changes.update_board(
        platform.db,
        actor,
        name,
        changes=BoardChanges(**settings.given()),
        force=force,
        now=now,
        known_devices=platform.config.devices,
    )
    return LeaderboardOut.of(updated.board)


@router.post("/{name}/preview")
def preview(
    name: str,
    platform: PlatformDep,
    actor: ActorDep,
    now: Now,
    files: Files | None = None,
    settings: Annotated[Json[SettingsIn] | None, Form()] = None,
) -> dict[str, Any]:
    """Preview an update's changes to settings, files, cases and ranking. Nothing is changed."""
    boards.check_manages(platform.db, actor, name)
    found = changes.preview_update(
        platform.db,
        actor,
        name,
        task=read_task(files) if files else None,
        changes=BoardChanges(**settings.given()) if settings else None,
        now=now,
        known_devices=platform.config.devices,
    )
    return dataclasses.asdict(found)


@router.put("/{name}/task")
def replace_task(
    name: str,
    platform: PlatformDep,
    actor: ActorDep,
    now: Now,
    files: Files,
    judge_again: Annotated[
        bool, Query(alias="rejudge", description="Judge all entries again under the new task.")
    ] = False,
    expected: Annotated[
        str | None, Query(max_length=100, description="`fingerprint` of the preview that you approved.")
    ] = None,
    force: Annotated[
        bool, Query(description="Take the task although its checker accepts wrong answers.")
    ] = False,
) -> LeaderboardOut:
    """Replace the task of a leaderboard.

    Results that are not comparable with new ones leave the standings until they are judged again.
    """
    boards.check_manages(platform.db, actor, name)
    updated = changes.update_board(
        platform.db,
        actor,
        name,
        task=read_task(files),
        expected=expected,
        broken_checker=force,
        now=now,
        known_devices=platform.config.devices,
        trial=platform.trial,
    )
    if judge_again:
        rejudge.rejudge_board(platform.db, actor, name, now=now)
    return LeaderboardOut.of(updated.board)


@router.delete("/{name}")
def delete(
    name: str,
    db: Db,
    actor: ActorDep,
    now: Now,
    confirm: Annotated[str, Query(max_length=200, description="The leaderboard's name, as confirmation.")],
) -> Done:
    """Delete a leaderboard permanently, including its submissions and their history."""
    boards.delete_board(db, name, actor, confirm=confirm, now=now)
    return Done()


def read_task(files: list[UploadFile]) -> Task:
    """Return the uploaded task. Raise ``InvalidTask``."""
    return load_upload({each.filename or "": each.file.read() for each in files})
