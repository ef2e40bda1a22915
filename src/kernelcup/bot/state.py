"""Persistent state of the bot: followed submissions, the messages sent about them, and settings."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

KEPT_S = 7 * 24 * 3600
"""How long an ended submission is remembered, so that a repeated interaction has no second effect."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of the messages about a submission."""

    kind: str
    """``thread``, ``dm``, ``reply`` (answers to the command, possible for a quarter of an hour), ``channel``.
    """
    channel_id: int
    message_id: int | None = None
    """The message that is edited."""


@dataclass(slots=True, kw_only=True)
class Followed:
    """A submission that was made on Discord."""

    key: str
    """Of the interaction; the API gets it as the idempotency key."""
    user_id: int
    user_name: str
    guild_id: int
    channel_id: int
    """The channel of the command."""
    request: dict[str, Any]
    """The body for the API."""
    reply: dict[str, Any]
    """How to answer the command: ``application``, ``token``."""
    began_at: float
    submission: int | None = None
    place: Place | None = None
    last_event: int = 0
    progress: dict[str, Any] = field(default_factory=dict)


class Memory:
    """A small SQLite file. Each call is one transaction, on disk when the call returns."""

    def __init__(self, path: Path | str, *, clock: Callable[[], float] = time.time) -> None:
        if isinstance(path, Path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)
        self._clock = clock
        self._db = sqlite3.connect(path, isolation_level=None, timeout=10, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.executescript(resources.files(__package__).joinpath("state.sql").read_text("utf-8"))

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    # ---- submissions

    def begin(self, followed: Followed) -> bool:
        """Remember a submission before the first request. Return False if it is already known."""
        made = self._db.execute(
            "INSERT OR IGNORE INTO followed"
            " (key, user_id, user_name, guild_id, channel_id, request, reply, began_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                followed.key,
                followed.user_id,
                followed.user_name,
                followed.guild_id,
                followed.channel_id,
                json.dumps(followed.request),
                json.dumps(followed.reply),
                followed.began_at,
            ),
        )
        return made.rowcount == 1

    def accepted(self, key: str, submission: int) -> None:
        """Remember the submission's number, and drop its code."""
        self._db.execute(
            "UPDATE followed SET submission = ?,"
            " request = json_remove(request, '$.code', '$.files', '$.zip') WHERE key = ?",
            (submission, key),
        )

    def placed(self, key: str, place: Place | None) -> None:
        """Remember the place of its messages."""
        text = None if place is None else json.dumps([place.kind, place.channel_id, place.message_id])
        self._db.execute("UPDATE followed SET place = ? WHERE key = ?", (text, key))

    def seen(self, key: str, last_event: int, progress: Mapping[str, Any]) -> None:
        """Remember the last event that its message covers."""
        self._db.execute(
            "UPDATE followed SET last_event = ?, progress = ? WHERE key = ?",
            (last_event, json.dumps(progress), key),
        )

    def end(self, key: str) -> None:
        """Mark a submission as finished, and forget those that ended long ago."""
        now = self._clock()
        self._db.execute(
            "UPDATE followed SET ended_at = ?, request = '{}', reply = '{}' WHERE key = ?", (now, key)
        )
        self._db.execute(
            "DELETE FROM said WHERE key IN (SELECT key FROM followed WHERE ended_at < ?)", (now - KEPT_S,)
        )
        self._db.execute("DELETE FROM followed WHERE ended_at < ?", (now - KEPT_S,))

    def drop(self, key: str) -> None:
        """Forget a submission that was refused: the same command may be given again."""
        self._db.execute("DELETE FROM followed WHERE key = ?", (key,))

    def open_ones(self) -> list[Followed]:
        """Return the submissions that have not ended, oldest first."""
        rows = self._db.execute(
            "SELECT key, user_id, user_name, guild_id, channel_id, request, reply, began_at,"
            " submission, place, last_event, progress"
            " FROM followed WHERE ended_at IS NULL ORDER BY began_at, key"
        )
        return [_followed(row) for row in rows]

    # ---- sent messages

    def said(self, key: str, part: str) -> int | None:
        """Return the message with a part of a report, None if it was not sent."""
        row = self._db.execute(
            "SELECT message_id FROM said WHERE key = ? AND part = ?", (key, part)
        ).fetchone()
        return None if row is None else int(row[0])

    def say(self, key: str, part: str, message_id: int) -> None:
        """Remember that a part of a report was sent."""
        self._db.execute("INSERT OR REPLACE INTO said VALUES (?, ?, ?)", (key, part, message_id))

    # ---- settings

    def get(self, name: str) -> Any:
        """Return a setting, None if there is none."""
        row = self._db.execute("SELECT value FROM settings WHERE name = ?", (name,)).fetchone()
        return None if row is None else json.loads(row[0])

    def put(self, name: str, value: Any) -> None:
        """Store a setting; None removes it."""
        if value is None:
            self._db.execute("DELETE FROM settings WHERE name = ?", (name,))
        else:
            self._db.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (name, json.dumps(value)))

    def all_under(self, prefix: str) -> dict[str, Any]:
        """Return the settings whose names begin with a prefix."""
        rows = self._db.execute(
            "SELECT name, value FROM settings WHERE substr(name, 1, ?) = ? ORDER BY name",
            (len(prefix), prefix),
        )
        return {name: json.loads(value) for name, value in rows}


def _followed(row: tuple[Any, ...]) -> Followed:
    place = None if row[9] is None else Place(*json.loads(row[9]))
    return Followed(
        key=row[0],
        user_id=row[1],
        user_name=row[2],
        guild_id=row[3],
        channel_id=row[4],
        request=json.loads(row[5]),
        reply=json.loads(row[6]),
        began_at=row[7],
        submission=row[8],
        place=place,
        last_event=row[10],
        progress=json.loads(row[11]),
    )
