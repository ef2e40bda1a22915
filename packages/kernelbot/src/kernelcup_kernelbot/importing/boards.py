"""Leaderboards with their tasks and devices."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from kernelcup.app.boards.queries import boards, task_versions
from kernelcup.app.news import newsroom
from kernelcup.app.people.queries import users
from kernelcup.app.people.queries.users import name_key
from kernelcup.domain import AfterDeadline, BoardSettings, CodePolicy, Leaderboard, NewsKind, Visibility
from kernelcup.errors import InvalidValue
from kernelcup.names import LONGEST_NAME, check_board_name
from kernelcup.tables import NewsRow
from kernelcup_kernelbot.importing import tasks
from kernelcup_kernelbot.importing.imported import Imported
from kernelcup_kernelbot.importing.source import Source, moment

BEFORE = timedelta(days=2)
"""How old a leaderboard is at least when it arrives: the opening of a younger one would be news."""
CREATOR = "kernelbot"
"""The creator where KernelBot names none that is a user."""
COLUMNS = ("id", "name", "deadline", "task", "creator_id", "description", "visibility", "forum_id")


def bring(source: Source, session: Session, found: Imported, now: datetime) -> None:
    """Write the leaderboards that are not here yet, and devices that others lack."""
    names, accepted, begun = names_here(source), _devices(source, found), _begun(source)
    templates: dict[int, dict[str, str]] = defaultdict(dict)
    for board_id, language, code in source.rows(
        "templates", "leaderboard_id", "lang", "code", order=["lang"]
    ):
        templates[board_id][language] = code
    lacking: dict[str, list[str]] = defaultdict(list)
    for row in source.rows("leaderboard", *COLUMNS, order=["id"]):
        name = names[row.id]
        # One without a GPU and without results takes submissions nowhere there; here each takes some device.
        devices = accepted[row.id] or [found.known[0].name if found.known else "cpu"]
        if name != row.name:
            found.notes["leaderboard renamed"].append(f"{row.name!r} -> {name}")
        for device in devices:
            if not found.has(device):
                lacking[device].append(name)
        board = boards.find(session, name)
        if board is None:
            since = min(begun.get(row.id, now), now - BEFORE)
            board = _make(session, row, name, found, templates[row.id], devices, since=since, now=now)
        if new := [device for device in devices if device not in board.devices]:
            boards.put_devices(session, board.id, [*board.devices, *new])
        found.boards[row.id] = board
    found.notes["device not configured"] += [f"{name} of {', '.join(of)}" for name, of in lacking.items()]


def _make(
    session: Session,
    row: Any,
    name: str,
    found: Imported,
    templates: Mapping[str, str],
    devices: Sequence[str],
    *,
    since: datetime,
    now: datetime,
) -> Leaderboard:
    task, harness, reason = tasks.read(row, templates, devices, found.known)
    deadline = None if row.deadline is None else moment(row.deadline, now)
    if reason:  # each submission would end as internal_error
        found.notes["closed, its task cannot be judged here"].append(f"{name}: {reason}")
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
        creator_id=_creator(session, found.users.get(str(row.creator_id)), now),
        now=since,
        settings=settings,
        judging=task.judging(harness),
        discord_thread=str(row.forum_id) if (row.forum_id or 0) > 0 else "",
    )
    found.counts["leaderboards"] += 1
    if deadline is not None and deadline <= now < deadline + newsroom.FINAL_WITHIN:
        # As told: final standings are in the leaderboard's feed, and go to no webhook.
        key = f"final:{number}:{deadline.isoformat()}"
        fact = {"key": key, "kind": NewsKind.FINAL.value, "at": deadline, "moment": deadline}
        session.add(NewsRow(**fact, leaderboard_id=number))
    return boards.get(session, number)


def _creator(session: Session, user_id: int | None, now: datetime) -> int:
    if user_id is None:
        name = users.only_admin(session) or CREATOR
        user_id = users.get_or_create(session, name, now=now)
    users.raise_to_creator(session, user_id)
    return user_id


def names_here(source: Source) -> dict[int, str]:
    """Return the names of KernelBot's leaderboards here, by their numbers: the same at each import."""
    names: dict[int, str] = {}
    for row in source.rows("leaderboard", "id", "name", order=["id"]):
        names[row.id] = _name(row, set(map(name_key, names.values())))
    return names


def _name(row: Any, taken: set[str]) -> str:
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", row.name).lstrip("-_.")[:LONGEST_NAME] or f"board-{row.id}"
    try:
        check_board_name(name)
    except InvalidValue:
        name = f"board-{name}"[:LONGEST_NAME]
    return f"{name[: LONGEST_NAME - 12]}-{row.id}" if name_key(name) in taken else name


def _devices(source: Source, found: Imported) -> dict[int, list[str]]:
    """Return the devices of each leaderboard: those that it accepts, then others that it has results of."""
    accepted: dict[int, list[str]] = defaultdict(list)
    runs, sent = source.tables["runs"].c, source.tables["submission"].c
    used = (
        sa.select(sent.leaderboard_id, runs.runner)
        .join(source.tables["submission"], sent.id == runs.submission_id)
        .where(runs.runner.is_not(None), runs.runner != "")
        .distinct()
    )
    listed = source.rows("gpu_type", "leaderboard_id", "gpu_type", order=["gpu_type"])
    for board_id, name in (*listed, *source.execute(used)):
        if (device := found.device(name)) not in accepted[board_id]:
            accepted[board_id].append(device)
    return accepted


def _begun(source: Source) -> dict[int, datetime]:
    """Return when each leaderboard got its first submission."""
    sent = source.tables["submission"].c
    query = sa.select(sent.leaderboard_id, sa.func.min(sent.submission_time)).group_by(sent.leaderboard_id)
    return {board_id: moment(first, first) for board_id, first in source.execute(query)}
