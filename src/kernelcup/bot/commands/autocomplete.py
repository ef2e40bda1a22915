"""Autocompletion."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from datetime import datetime
from typing import Any

import discord
from discord import app_commands

from kernelcup.app.people import accounts
from kernelcup.bot.api import PATIENCE_S, Api, Person, Who
from kernelcup.bot.context import Parts
from kernelcup.bot.messages import texts
from kernelcup.bot.messages.replies import who
from kernelcup.client.requests import path_of
from kernelcup.domain import AfterDeadline, Role
from kernelcup.errors import KernelCupError

MOST = 25
LONGEST = 100
IN_TIME_S = 2.0
"""Discord waits three seconds for completions."""
FRESH_S = 5.0

TextChoices = list[app_commands.Choice[str]]
Offer = Callable[[discord.Interaction[Any], str], Coroutine[Any, Any, TextChoices]]
NumberOffer = Callable[[discord.Interaction[Any], Any], Coroutine[Any, Any, list[app_commands.Choice[Any]]]]


async def visible_boards(api: Api, person: Who) -> list[dict[str, Any]]:
    """Return all leaderboards that a person may see, oldest first."""
    found: list[dict[str, Any]] = []
    after: int | None = 0
    while after is not None:
        page = await api.get("/leaderboards", person, after=after or None, limit=200)
        found += page["items"]
        after = page["next"]
    return found


def is_over(board: dict[str, Any]) -> bool:
    """Return whether a deadline has passed, to put open boards first."""
    return (
        board["deadline"] is not None and datetime.fromisoformat(board["deadline"]) <= discord.utils.utcnow()
    )


def is_open(board: dict[str, Any]) -> bool:
    """Return whether something can be submitted to a leaderboard, perhaps after its deadline."""
    return not is_over(board) or board["after_deadline"] != AfterDeadline.CLOSED


def boards(parts: Parts) -> Offer:
    """Offer the leaderboards that the person may see, open ones first."""
    recent = Recent(parts)

    async def offer(interaction: discord.Interaction, typed: str) -> TextChoices:
        found = await _in_time(recent.boards(who(interaction)), [])
        return _choices((board["name"] for board in sorted(found, key=is_over)), typed)

    return offer


async def managed_boards(api: Api, person: Person, *, patience_s: float = PATIENCE_S) -> list[str]:
    """Return the leaderboards that a person manages, newest first; the API checks permissions again."""
    me = await api.call(accounts.get_me, person, patience_s=patience_s)
    if me.role not in (Role.CREATOR, Role.ADMIN):
        return []
    found = await visible_boards(api, person)
    return [
        str(board["name"])
        for board in reversed(found)
        if me.role is Role.ADMIN or board["creator"] == me.name
    ]


def managed(parts: Parts) -> Offer:
    """Offer the leaderboards that the person manages."""

    async def offer(interaction: discord.Interaction, typed: str) -> TextChoices:
        return _choices(await _in_time(managed_boards(parts.api, who(interaction), patience_s=0), []), typed)

    return offer


def open_boards(parts: Parts) -> Offer:
    """Offer the leaderboards to which something can be submitted."""
    recent = Recent(parts)

    async def offer(interaction: discord.Interaction, typed: str) -> TextChoices:
        found = await _in_time(recent.boards(who(interaction)), [])
        return _choices((board["name"] for board in sorted(found, key=is_over) if is_open(board)), typed)

    return offer


def devices(parts: Parts) -> Offer:
    """Offer the devices of the leaderboard given before; after a comma, one more."""

    async def offer(interaction: discord.Interaction, typed: str) -> TextChoices:
        known = await _in_time(_devices(parts.api, interaction), [])
        closed = await device_notes(parts.api, who(interaction))
        known = sorted(known, key=lambda name: name in closed)
        before, comma, last = typed.rpartition(",")
        taken = {name.strip().lower() for name in before.split(",")}
        start = f"{before}{comma} ".lstrip() if comma else ""
        fitting = (
            name for name in known if name.lower() not in taken and last.strip().lower() in name.lower()
        )
        return _choices((f"{start}{name}" for name in fitting), "")

    return offer


def templates(parts: Parts) -> Offer:
    """Offer the templates of the leaderboard given before."""

    async def offer(interaction: discord.Interaction, typed: str) -> TextChoices:
        name = _named(interaction)
        if not name:
            return []
        address = path_of("leaderboards", name, "task")
        task = await _in_time(parts.api.get(address, who(interaction), patience_s=0), {"templates": []})
        return _choices(task["templates"], typed)

    return offer


def own_submissions(parts: Parts, *, running: bool = False) -> NumberOffer:
    """Offer the person's latest submissions."""

    async def offer(interaction: discord.Interaction, typed: Any) -> list[app_commands.Choice[Any]]:
        address = "/submissions"
        nothing: dict[str, Any] = {"items": []}
        asked = parts.api.get(address, who(interaction), user="me", limit=100, patience_s=0)
        page = await _in_time(asked, nothing)
        beginning = str(typed) if typed else ""
        fitting = [
            each
            for each in page["items"]
            if str(each["id"]).startswith(beginning) and not (running and each["ended"])
        ]
        return [app_commands.Choice(name=_label(each), value=each["id"]) for each in fitting[:MOST]]

    return offer


class Recent:
    """A short-lived cache of visible leaderboards: each typed letter asks again."""

    def __init__(self, parts: Parts, clock: Callable[[], float] = time.monotonic) -> None:
        self._parts, self._clock = parts, clock
        self._known: dict[int, tuple[float, list[dict[str, Any]]]] = {}

    async def boards(self, person: Person) -> list[dict[str, Any]]:
        """Return the leaderboards that a person may see."""
        now = self._clock()
        self._known = {key: each for key, each in self._known.items() if now - each[0] < FRESH_S}
        if person.id not in self._known:
            self._known[person.id] = (now, await visible_boards(self._parts.api, person))
        return self._known[person.id][1]


async def device_notes(api: Api, person: Who) -> dict[str, str]:
    """Return why nothing can start on some devices now; no notes if the server does not answer in time."""
    found = await _in_time(api.get("/queue", person, patience_s=0), [])
    return {each["device"]: each["obstacle"] for each in found if each["obstacle"]}


async def _devices(api: Api, interaction: discord.Interaction) -> list[str]:
    if name := _named(interaction):
        board = await api.get(path_of("leaderboards", name), who(interaction), patience_s=0)
        return list(board["devices"])
    return [each["name"] for each in await api.get("/devices", who(interaction), patience_s=0)]


def _named(interaction: discord.Interaction) -> str:
    return str(getattr(interaction.namespace, "leaderboard_name", None) or "")


async def _in_time(asked: Awaitable[Any], otherwise: Any) -> Any:
    try:
        return await asyncio.wait_for(asked, IN_TIME_S)
    except (KernelCupError, TimeoutError):
        return otherwise


def _choices(names: Iterable[str], typed: str) -> TextChoices:
    part = typed.strip().lower()
    fitting = [name for name in names if part in name.lower() and len(name) <= LONGEST]
    return [app_commands.Choice(name=texts.title(name), value=name) for name in fitting[:MOST]]


def _label(submission: dict[str, Any]) -> str:
    state = "" if submission["ended"] else ", running"
    text = f"#{submission['id']} {submission['leaderboard']} {submission['file_name']}{state}"
    return texts.title(text)
