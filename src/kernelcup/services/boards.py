"""Make, find and delete leaderboards."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy.orm import Session

from kernelcup.domain import Device, Language, Leaderboard, Task
from kernelcup.errors import InvalidValue, NotFound
from kernelcup.services.users import check_user_name
from kernelcup.storage import boards, submissions, tasks, users
from kernelcup.storage.database import Database
from kernelcup_harness.protocol import HarnessKind

LONGEST_NAME = 64

# First parts of addresses: the existing client puts leaderboard names there too.
RESERVED_NAMES = frozenset(
    {
        "admin",
        "api",
        "auth",
        "b",
        "boards",
        "docs",
        "events",
        "favicon.ico",
        "gpus",
        "health",
        "healthz",
        "join",
        "leaderboards",
        "login",
        "logout",
        "mcp",
        "metrics",
        "openapi.json",
        "readyz",
        "redoc",
        "robots.txt",
        "s",
        "start",
        "static",
        "submission",
        "submission_count",
        "submissions",
        "u",
        "user",
        "users",
    }
)


def create_board(
    db: Database,
    *,
    name: str,
    task: Task,
    devices: Sequence[str],
    creator: str,
    now: datetime,
    harness: HarnessKind | None = None,
    opens_at: datetime | None = None,
    deadline: datetime | None = None,
    known_devices: Sequence[Device] | None = None,
) -> Leaderboard:
    """Make a leaderboard for a snapshot of the task.

    Args:
        harness: Whose code judges; what the task asks for when None.
        known_devices: What is configured; other devices are refused. None takes any name.

    Raises:
        InvalidValue: The name, a device, the times or the harness cannot be used.
        Conflict: There is a leaderboard of that name.
    """
    check_board_name(name)
    chosen = _devices(devices, known_devices)
    _check_times(opens_at, deadline, now=now)
    judge = _harness(task, harness)
    maker = check_user_name(creator)
    with db.write(durable=True) as session:
        creator_id = users.get_or_create(session, maker, now=now)
        users.raise_to_creator(session, creator_id)
        boards.insert(
            session,
            name=name,
            task_hash=tasks.save(session, task, now=now),
            devices=chosen,
            harness=judge,
            opens_at=opens_at,
            deadline=deadline,
            creator_id=creator_id,
            now=now,
        )
        return find_board(session, name)


def list_boards(db: Database) -> list[Leaderboard]:
    """Return all leaderboards, the oldest first."""
    with db.read() as session:
        return boards.every(session)


def get_board(db: Database, name: str) -> Leaderboard:
    """Return a leaderboard. Raise ``NotFound`` if there is none of that name."""
    with db.read() as session:
        return find_board(session, name)


def get_task(db: Database, name: str) -> Task:
    """Return the task version of a leaderboard, hidden cases included."""
    with db.read() as session:
        return tasks.load(session, find_board(session, name).task_hash)


def delete_board(db: Database, name: str) -> None:
    """Delete a leaderboard for good, with its submissions and their runs."""
    with db.write(durable=True) as session:
        board = find_board(session, name)
        boards.delete_board(session, board.id)
        submissions.delete_unused_code(session)
        tasks.delete_unused(session, board.task_hash)


def find_board(session: Session, name: str) -> Leaderboard:
    """Return a leaderboard inside a transaction. Raise ``NotFound``."""
    board = boards.find(session, name)
    if board is None:
        raise NotFound(f"There is no leaderboard {name!r}.")
    return board


def check_board_name(name: str) -> None:
    """Raise ``InvalidValue`` if a leaderboard cannot have this name."""
    if not re.fullmatch(rf"[A-Za-z0-9][A-Za-z0-9_.-]{{0,{LONGEST_NAME - 1}}}", name):
        raise InvalidValue(
            f"Leaderboard name {name!r}: expected at most {LONGEST_NAME} letters, digits, '-', '_' and '.', "
            "the first a letter or digit."
        )
    if name.lower() in RESERVED_NAMES:
        raise InvalidValue(f"Leaderboard name {name!r} is reserved for an address of the web site.")


def _devices(names: Sequence[str], known: Sequence[Device] | None) -> list[str]:
    spelling = {device.name.lower(): device.name for device in known or ()}
    chosen: dict[str, str] = {}
    for name in names:
        if known is not None and name.lower() not in spelling:
            allowed = ", ".join(spelling.values()) or "none"
            raise InvalidValue(f"Device {name!r} is not configured here; there are: {allowed}.")
        chosen.setdefault(name.lower(), spelling.get(name.lower(), name))
    if not chosen:
        raise InvalidValue("A leaderboard needs at least one device.")
    return list(chosen.values())


def _check_times(opens_at: datetime | None, deadline: datetime | None, *, now: datetime) -> None:
    if deadline is not None and deadline <= now:
        raise InvalidValue(f"The deadline {deadline:%Y-%m-%d %H:%M:%S %Z} is over already.")
    if deadline is not None and opens_at is not None and deadline <= opens_at:
        raise InvalidValue("The deadline is not after the opening.")


def _harness(task: Task, wanted: HarnessKind | None) -> HarnessKind:
    kind = wanted or task.harness
    if kind is HarnessKind.OWN and task.main is None and task.lang is Language.PYTHON:
        raise InvalidValue(f"Task {task.name!r} ships no harness of its own; use 'standard'.")
    return kind
