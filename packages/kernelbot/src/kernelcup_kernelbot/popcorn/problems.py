"""Leaderboards from folders and problem sets, for admins."""

from __future__ import annotations

import re
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from pydantic import Field

from kernelcup.app.boards import boards, problem_sync
from kernelcup.app.boards import changes as board_changes
from kernelcup.app.boards.judging import MadeBoard
from kernelcup.app.boards.problem_sync import SyncOptions
from kernelcup.app.boards.settings import BoardChanges
from kernelcup.domain import Actor, BoardSettings, Task, Visibility
from kernelcup.errors import InvalidValue, NotFound
from kernelcup.http.api.forms import Body
from kernelcup.http.dependencies import Now, PlatformDep
from kernelcup.http.state import Platform
from kernelcup.tasks.loader import load_task
from kernelcup_harness.protocol import HarnessKind
from kernelcup_kernelbot import settings
from kernelcup_kernelbot.popcorn.auth import Admin
from kernelcup_kernelbot.popcorn.errors import PopcornRoute

router = APIRouter(prefix="/admin", route_class=PopcornRoute)

OPEN_FOR = timedelta(days=365)
ENDING = "-dev"


class FolderIn(Body):
    """A folder of the server."""

    directory: str = Field(min_length=1, max_length=500)
    visibility: Visibility = Visibility.PUBLIC
    harness: HarnessKind | None = None


class ProblemsIn(Body):
    """A problem set in a git repository."""

    repository: str = Field(default="gpu-mode/reference-kernels", min_length=1, max_length=500)
    branch: str = Field(default="main", min_length=1, max_length=200)
    problem_set: str | None = Field(default=None, max_length=200)
    force: bool = False
    visibility: Visibility | None = None
    harness: HarnessKind | None = None


@router.post("/leaderboards")
def create(body: FolderIn, platform: PlatformDep, admin: Admin, now: Now) -> dict[str, Any]:
    """Create or update a leaderboard `DIRECTORY-dev` from a folder of the server."""
    folder = _folder(settings.of(platform.config).problems(platform.config), body.directory)
    task = load_task(folder)
    if not task.devices:
        raise InvalidValue(f"{body.directory}: its task.yml has no `gpus`; name the devices there.")
    made = _put(platform, admin, f"{folder.name}{ENDING}", task, body, now)
    harness = made.harness.value
    return {"status": "ok", "leaderboard": made.name, "harness": harness, "notes": list(made.notes)}


@router.post("/update-problems")
async def update(body: ProblemsIn, platform: PlatformDep, admin: Admin, now: Now) -> dict[str, Any]:
    """Create and update leaderboards from a git repository."""
    work = partial(
        problem_sync.sync_problem_set,
        platform.db,
        admin,
        repository=_address(body.repository),
        branch=body.branch,
        problem_set=body.problem_set,
        options=SyncOptions(
            force=body.force,
            visibility=body.visibility,
            harness=body.harness,
            known_devices=platform.config.devices,
            trial=platform.trial,
        ),
        now=now,
    )
    found = await platform.room.aside(admin, work)
    return {
        "status": "ok",
        "created": list(found.created),
        "updated": list(found.updated),
        "skipped": [
            {"name": each.name, "reason": each.reason} for each in (*found.skipped, *found.devices_left_out)
        ],
        "errors": [{"name": each.name, "error": each.error} for each in found.errors],
        "notes": [{"name": each.name, "note": each.note} for each in found.notes],
    }


def _put(platform: Platform, admin: Actor, name: str, task: Task, body: FolderIn, now: Now) -> MadeBoard:
    """Create or update a leaderboard. The existing service deletes the old one with its submissions."""
    known = platform.config.devices
    deadline = now + OPEN_FOR
    try:
        board = boards.get_board(platform.db, name, viewer=admin)
    except NotFound:
        new = boards.NewBoard(
            name=name,
            task=task,
            devices=task.devices,
            creator=admin,
            harness=body.harness,
            settings=BoardSettings(deadline=deadline, visibility=body.visibility),
        )
        return boards.make_board(platform.db, new, now=now, known_devices=known, trial=platform.trial)
    harness = board.harness if body.harness is None else body.harness
    changes = BoardChanges(
        deadline=deadline, devices=task.devices, harness=harness, visibility=body.visibility
    )
    updated = board_changes.update_board(
        platform.db,
        admin,
        board.name,
        now=now,
        task=task,
        changes=changes,
        force=True,
        broken_checker=False,
        known_devices=known,
        trial=platform.trial,
    )
    return MadeBoard.of(updated.board, updated.notes)


def _folder(root: Path | None, directory: str) -> Path:
    if root is None:
        raise InvalidValue(
            "This server has no folder of problems: its operator can name one in kernelcup.toml, as "
            "`problem_dir` under `[extensions.kernelbot]`. Or upload the folder: `kernelcup board create DIR`."
        )
    base = root.resolve()
    # Links are resolved: files outside of the folder cannot be read.
    try:
        folder = (base / directory.rstrip("/")).resolve()
        is_ours = folder != base and folder.is_relative_to(base) and folder.is_dir()
    except (OSError, ValueError):  # not a possible folder name
        is_ours = False
    if not is_ours:
        raise NotFound(f"There is no folder {directory!r} among this server's problems.")
    return folder


def _address(repository: str) -> str:
    """Return a repository's URL; the client names one on GitHub by owner and name."""
    short = re.fullmatch(r"[A-Za-z0-9_-]+/[A-Za-z0-9_.-]+", repository)
    return f"https://github.com/{repository}" if short else repository
