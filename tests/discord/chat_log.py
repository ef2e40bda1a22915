"""What one person sees of a loopback Discord, as entries that can be written down or drawn.

A message that is edited stays one entry, unless somebody did something in between: then it is shown
again, as it looks then.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from discord_loopback import LoopbackDiscord, Record

ACTIONS = ("command", "press", "choose", "fill")
MESSAGES = ("message", "edit")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Something that is seen in a channel, or done there."""

    where: str
    who: str
    is_bot: bool
    text: str = ""
    is_action: bool = False
    private: bool = False
    edited: bool = False
    embeds: tuple[dict[str, Any], ...] = ()
    controls: tuple[dict[str, Any], ...] = ()
    files: tuple[str, ...] = ()
    message_id: int | None = None


@dataclass
class Log:
    """Collects entries.

    Attributes:
        seen_by: Whose screen it is.
        every_edit: Show each state of a message that is edited.
    """

    discord: LoopbackDiscord
    seen_by: str
    every_edit: bool = False
    entries: list[Entry] = field(default_factory=list)
    _places: dict[int, int] = field(default_factory=dict)

    def read(self, records: Iterable[Record]) -> list[Entry]:
        """Return what these records show."""
        for record in records:
            if record.private_to not in (None, self.seen_by):
                continue
            if record.kind in ACTIONS:
                self._places.clear()
                self.entries.append(self._action(record))
            elif record.kind == "form":
                self.entries.append(self._form(record))
            elif record.kind in MESSAGES:
                self._message(record)
            elif record.kind in ("thread", "failed"):
                self.entries.append(self._note(record))
        return self.entries

    def _message(self, record: Record) -> None:
        entry = Entry(
            where=record.where,
            who=record.who,
            is_bot=record.who == self.discord.bot.name,
            text=self._named(record.text),
            private=record.private_to is not None and not record.where.startswith("DM"),
            edited=record.kind == "edit",
            embeds=tuple(self._embed(each) for each in record.embeds),
            controls=tuple(_controls(record.components)),
            files=tuple(name for name, _ in record.files),
            message_id=record.message_id,
        )
        at = self._places.get(record.message_id or 0)
        if at is None or self.every_edit:
            self._places[record.message_id or 0] = len(self.entries)
            self.entries.append(entry)
        else:
            self.entries[at] = entry

    def _action(self, record: Record) -> Entry:
        detail = record.detail
        if record.kind == "command":
            given = " ".join(f"{key}:{value}" for key, value in detail.get("options", {}).items())
            text = f"{record.text} {given}".strip()
        elif record.kind == "press":
            text = f"presses [{record.text}]"
        elif record.kind == "choose":
            text = f"chooses {', '.join(detail['values'])}"
        else:
            text = f"fills in “{record.text}”: {'; '.join(map(str, detail['values'].values()))}"
        return Entry(where=record.where, who=record.who, is_bot=False, text=text, is_action=True)

    def _form(self, record: Record) -> Entry:
        inputs = tuple(_controls(record.components))
        title = f"(a form) {record.text}"
        bot = self.discord.bot.name
        return Entry(where=record.where, who=bot, is_bot=True, text=title, private=True, controls=inputs)

    def _note(self, record: Record) -> Entry:
        where, text = record.where, "The application did not respond"
        if record.kind == "thread":
            kind = "private thread" if record.detail.get("private") else "thread"
            where, text = record.detail["parent"], f"opens the {kind} “{record.where}”"
        return Entry(where=where, who=record.who, is_bot=True, text=text, is_action=True)

    def _embed(self, embed: dict[str, Any]) -> dict[str, Any]:
        named = dict(embed)
        for key in ("title", "description"):
            if named.get(key):
                named[key] = self._named(named[key])
        named["fields"] = [
            {"name": self._named(each["name"]), "value": self._named(each["value"])}
            for each in embed.get("fields") or []
        ]
        return named

    def _named(self, text: str) -> str:
        world = self.discord.world
        users = {str(user.id): f"@{user.name}" for user in world.users.values()}
        channels = {
            str(channel.id): f"#{channel.name}"
            for guild in world.guilds.values()
            for channel in (*guild.channels.values(), *guild.threads.values())
        }
        text = re.sub(r"<@!?(\d+)>", lambda m: users.get(m[1], m[0]), text)
        text = re.sub(r"<(https?://[^>\s]+)>", r"\1", text)
        text = re.sub(r"<#(\d+)>", lambda m: channels.get(m[1], m[0]), text)
        now = self.discord.clock.now().timestamp()
        text = re.sub(r"<t:(\d+):R>", lambda m: _distance(int(m[1]) - now), text)
        return re.sub(r"<t:(\d+)(?::\w)?>", lambda m: _moment(int(m[1])), text)


def _moment(stamp: int) -> str:
    return f"{datetime.fromtimestamp(stamp, UTC):%Y-%m-%d %H:%M} UTC"


def _distance(seconds: float) -> str:
    units = (("year", 31536000), ("month", 2592000), ("day", 86400), ("hour", 3600), ("minute", 60))
    unit, size = next((each for each in units if abs(seconds) >= each[1]), ("second", 1))
    count = round(abs(seconds) / size)
    words = f"{count} {unit}{'' if count == 1 else 's'}"
    return f"in {words}" if seconds > 0 else f"{words} ago"


def _controls(components: Iterable[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    for part in components:
        if part.get("type") == 18:  # the label around an input
            yield {"type": 4, "label": part.get("label"), **part.get("component", {})}
            continue
        yield from _controls(part.get("components") or [])
        if "custom_id" in part or part.get("url"):
            yield part
