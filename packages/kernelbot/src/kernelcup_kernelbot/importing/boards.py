"""Leaderboards with their tasks and devices."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from kernelcup.app.boards.boards import check_board_name
from kernelcup.app.boards.queries import boards, task_versions
from kernelcup.app.news import moments
from kernelcup.app.people.queries import users
from kernelcup.app.people.queries.users import name_key
from kernelcup.domain import (
    AfterDeadline,
    BoardSettings,
    CodePolicy,
    Device,
    Leaderboard,
    NewsKind,
    Visibility,
)
from kernelcup.errors import InvalidValue
from kernelcup.tables import LeaderboardDeviceRow, NewsRow
from kernelcup_kernelbot.importing import bulk, tasks
from kernelcup_kernelbot.importing.source import Source, moment

LONGEST_NAME = 64
BEFORE = timedelta(days=2)
"""How old a leaderboard is at least when it arrives: the opening of a younger one would be news."""
CREATOR = "kernelbot"
"""The creator where KernelBot names none that is a user."""


@dataclass(kw_only=True, slots=True)
class Boards:
    """What became of KernelBot's leaderboards."""

    by_id: dict[int, Leaderboard] = field(default_factory=dict)
    """The leaderboard here by its number there."""
    made: list[str] = field(default_factory=list)
    renamed: list[tuple[str, str]] = field(default_factory=list)
    unjudged: dict[str, str] = field(default_factory=dict)
    """Why a task cannot be judged here, by leaderboard: it takes no submissions."""
    unknown_devices: dict[str, list[str]] = field(default_factory=dict)
    """The leaderboards of each device that is not configured here."""
    devices: dict[str, str] = field(default_factory=dict)
    """The spelling here of a device, by its name in small letters."""

    def device(self, name: str) -> str:
        """Return a device as it is called here."""
        return self.devices.get(name.lower(), name)


def bring(
    source: Source, session: Session, people: Mapping[str, int], known: Sequence[Device], now: datetime
) -> Boards:
    """Write the leaderboards that are not here yet, and devices that others lack."""
    found = Boards(devices={device.name.lower(): device.name for device in known})
    accepted, templates = _devices(source, found), _templates(source)
    begun = _begun(source)
    names: set[str] = set()
    columns = ("id", "name", "deadline", "task", "creator_id", "description", "visibility", "forum_id")
    for row in source.rows("leaderboard", *columns, order="id"):
        name = _name(row, names)
        names.add(name_key(name))
        # One without a GPU and without results takes submissions nowhere there; here each takes some device.
        devices = accepted.get(row.id) or [known[0].name if known else "cpu"]
        if name != row.name:
            found.renamed.append((row.name, name))
        for device in devices:
            if device.lower() not in found.devices:
                found.unknown_devices.setdefault(device, []).append(name)
        board = boards.find(session, name)
        if board is None:
            since = min(begun.get(row.id, now), now - BEFORE)
            task = tasks.read(row, templates.get(row.id, {}), devices, known)
            board = _make(session, row, name, task, devices, people, since=since, now=now)
            found.made.append(name)
            if task[2]:
                found.unjudged[name] = task[2]
        _add_devices(session, board, devices)
        found.by_id[row.id] = board
    return found


def _make(
    session: Session,
    row: Any,
    name: str,
    read: tuple[Any, Any, str],
    devices: Sequence[str],
    people: Mapping[str, int],
    *,
    since: datetime,
    now: datetime,
) -> Leaderboard:
    task, harness, reason = read
    deadline = None if row.deadline is None else moment(row.deadline, now)
    if reason:  # each submission would end as internal_error
        deadline = now if deadline is None else min(deadline, now)
    settings = BoardSettings(
        deadline=deadline,
        visibility=Visibility.CLOSED if row.visibility == "closed" else Visibility.PUBLIC,
        code_policy=CodePolicy.NEVER,  # its authors were not told that it would be published
        after_deadline=AfterDeadline.CLOSED if reason else AfterDeadline.UNRANKED,
    )
    number = boards.insert(
        session,
        name=name,
        task_hash=task_versions.save(session, task, now=now),
        devices=devices,
        harness=harness,
        creator_id=_creator(session, people.get(str(row.creator_id)), now),
        now=since,
        settings=settings,
        judging=task.judging(harness),
        discord_thread=str(row.forum_id) if (row.forum_id or 0) > 0 else "",
    )
    if deadline is not None and deadline <= now < deadline + moments.FINAL_WITHIN:
        _mark_final(session, number, deadline)
    return boards.get(session, number)


def _mark_final(session: Session, board_id: int, deadline: datetime) -> None:
    """Keep the final standings as told: they are in the leaderboard's feed, and go to no webhook."""
    key = f"final:{board_id}:{deadline.isoformat()}"
    fact = {"key": key, "kind": NewsKind.FINAL.value, "at": deadline, "moment": deadline}
    bulk.insert(session, NewsRow, [fact | {"leaderboard_id": board_id}])


def _creator(session: Session, user_id: int | None, now: datetime) -> int:
    if user_id is None:
        name = users.only_admin(session) or CREATOR
        user_id = users.get_or_create(session, name, now=now)
    users.raise_to_creator(session, user_id)
    return user_id


def _name(row: Any, taken: set[str]) -> str:
    """Return the name here, which is the same at each import."""
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", row.name).lstrip("-_.")[:LONGEST_NAME] or f"board-{row.id}"
    try:
        check_board_name(name)
    except InvalidValue:
        name = f"board-{name}"[:LONGEST_NAME]
    return f"{name[: LONGEST_NAME - 12]}-{row.id}" if name_key(name) in taken else name


def _devices(source: Source, found: Boards) -> dict[int, list[str]]:
    """Return the devices of each leaderboard: those that it accepts, then others that it has results of."""
    accepted: dict[int, list[str]] = {}
    runs, sent = source.tables["runs"].c, source.tables["submission"].c
    used = (
        sa.select(sent.leaderboard_id, runs.runner)
        .join(source.tables["submission"], sent.id == runs.submission_id)
        .where(runs.runner.is_not(None), runs.runner != "")
        .distinct()
    )
    listed = source.rows("gpu_type", "leaderboard_id", "gpu_type", order="gpu_type")
    for board_id, name in (*listed, *source.execute(used)):
        device = found.device(name)
        if device not in accepted.setdefault(board_id, []):
            accepted[board_id].append(device)
    return accepted


def _add_devices(session: Session, board: Leaderboard, devices: Sequence[str]) -> None:
    new = [device for device in devices if device not in board.devices]
    rows = [
        {"leaderboard_id": board.id, "device": device, "position": position}
        for position, device in enumerate(new, len(board.devices))
    ]
    bulk.insert(session, LeaderboardDeviceRow, rows)


def _templates(source: Source) -> dict[int, dict[str, str]]:
    found: dict[int, dict[str, str]] = {}
    for board_id, language, code in source.rows("templates", "leaderboard_id", "lang", "code", order="lang"):
        found.setdefault(board_id, {})[language] = code
    return found


def _begun(source: Source) -> dict[int, datetime]:
    """Return when each leaderboard got its first submission."""
    sent = source.tables["submission"].c
    query = sa.select(sent.leaderboard_id, sa.func.min(sent.submission_time)).group_by(sent.leaderboard_id)
    return {board_id: moment(first, first) for board_id, first in source.execute(query)}
