"""Leaderboards from folders and problem sets, for admins."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from kernelcup.domain import Actor, Leaderboard, Task, Visibility
from kernelcup.errors import InvalidValue, NotFound
from kernelcup.http.deps import Now, PlatformDep
from kernelcup.http.platform import Platform
from kernelcup.http.popcorn.identity import Admin
from kernelcup.http.popcorn.route import PopcornRoute
from kernelcup.services import board_changes, boards, problem_sync
from kernelcup.services.board_changes import BoardChanges
from kernelcup.services.problem_sync import SyncOptions
from kernelcup.tasks.loader import load_task

router = APIRouter(prefix="/admin", route_class=PopcornRoute)

OPEN_FOR = timedelta(days=365)
ENDING = "-dev"


class FolderIn(BaseModel):
    """A folder of the server."""

    directory: str = Field(min_length=1, max_length=500)
    visibility: Visibility = Visibility.PUBLIC


class ProblemsIn(BaseModel):
    """A problem set in a git repository."""

    repository: str = Field(default="gpu-mode/reference-kernels", min_length=1, max_length=500)
    branch: str = Field(default="main", min_length=1, max_length=200)
    problem_set: str | None = Field(default=None, max_length=200)
    force: bool = False
    visibility: Visibility | None = None


@router.post("/leaderboards")
def create(body: FolderIn, platform: PlatformDep, admin: Admin, now: Now) -> dict[str, Any]:
    """Make a leaderboard `DIRECTORY-dev` from a folder of the server, or bring it up to date."""
    folder = _folder(platform.config.problem_dir, body.directory)
    task = load_task(folder)
    if not task.devices:
        raise InvalidValue(f"{body.directory}: its task.yml has no `gpus`; name the devices there.")
    board = _put(platform, admin, f"{folder.name}{ENDING}", task, body.visibility, now)
    return {"status": "ok", "leaderboard": board.name}


@router.post("/update-problems")
def update(body: ProblemsIn, platform: PlatformDep, admin: Admin, now: Now) -> dict[str, Any]:
    """Make and update leaderboards from a git repository."""
    found = problem_sync.sync_problem_set(
        platform.db,
        admin,
        repository=_address(body.repository),
        branch=body.branch,
        problem_set=body.problem_set,
        options=SyncOptions(
            force=body.force,
            visibility=body.visibility,
            known_devices=platform.config.devices,
        ),
        now=now,
    )
    return {
        "status": "ok",
        "created": list(found.created),
        "updated": list(found.updated),
        "skipped": [{"name": each.name, "reason": each.reason} for each in found.skipped],
        "errors": [{"name": each.name, "error": each.error} for each in found.errors],
    }


def _put(
    platform: Platform, admin: Actor, name: str, task: Task, visibility: Visibility, now: Now
) -> Leaderboard:
    """Make or update a leaderboard. The existing service deletes the old one with its submissions."""
    known = platform.config.devices
    deadline = now + OPEN_FOR
    try:
        board = boards.get_board(platform.db, name, viewer=admin)
    except NotFound:
        return boards.create_board(
            platform.db,
            name=name,
            task=task,
            devices=task.devices,
            creator=admin,
            now=now,
            harness=task.harness,
            deadline=deadline,
            known_devices=known,
            visibility=visibility,
        )
    changes = BoardChanges(
        deadline=deadline, devices=task.devices, harness=task.harness, visibility=visibility
    )
    return board_changes.update_board(
        platform.db, admin, board.name, now=now, task=task, changes=changes, force=True, known_devices=known
    ).board


def _folder(root: Path | None, directory: str) -> Path:
    if root is None:
        raise InvalidValue(
            "This server has no folder of problems: whoever runs it can name one in kernelcup.toml, as "
            "`problem_dir` under `[popcorn]`. Or upload the folder: `kernelcup board create DIR`."
        )
    base = root.resolve()
    # Links count for where they lead: what is outside cannot be read.
    try:
        folder = (base / directory.rstrip("/")).resolve()
        is_ours = folder != base and folder.is_relative_to(base) and folder.is_dir()
    except (OSError, ValueError):  # no name that a folder could have
        is_ours = False
    if not is_ours:
        raise NotFound(f"There is no folder {directory!r} among this server's problems.")
    return folder


def _address(repository: str) -> str:
    """Return a repository's URL; the client names one on GitHub by owner and name."""
    short = re.fullmatch(r"[A-Za-z0-9_-]+/[A-Za-z0-9_.-]+", repository)
    return f"https://github.com/{repository}" if short else repository
