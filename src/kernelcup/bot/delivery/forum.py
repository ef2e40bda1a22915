"""A forum thread for each public leaderboard, with its facts, changes and reminders.

Posts are remembered, so that a restart posts nothing twice. A reminder is remembered before it is
sent: a lost reminder is better than a repeated one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

import discord

from kernelcup.bot.commands.autocomplete import visible_boards
from kernelcup.bot.context import Parts
from kernelcup.bot.messages import boards as boards_text
from kernelcup.bot.messages import replies, texts
from kernelcup.client.requests import path_of
from kernelcup.errors import KernelCupError

POLL_S = 10.0
"""Reminders are promised within 15 s."""
ARCHIVE_AFTER_MIN: Literal[10080] = 10080
MOST_ARCHIVED = 200
"""Archived threads that are looked through for a leaderboard's."""
MOST_TEMPLATES = 5
MOST_THREADS_FOR_NAME = 100
REMINDERS = {"a week": timedelta(days=7), "a day": timedelta(days=1), "an hour": timedelta(hours=1)}
GONE = "This leaderboard is no longer listed."

Json = Mapping[str, Any]

logger = logging.getLogger(__name__)


async def run(bot: discord.Client, parts: Parts) -> None:
    """Keep the threads of all guilds up to date, until cancelled."""
    while True:
        parts.boards_changed.clear()
        await look(bot, parts, discord.utils.utcnow())
        with suppress(TimeoutError):
            await asyncio.wait_for(parts.boards_changed.wait(), POLL_S)


async def look(bot: discord.Client, parts: Parts, now: datetime) -> None:
    """Bring the threads of all guilds up to date once."""
    try:
        boards = await visible_boards(parts.api, None)  # an anonymous request: public data only
    except KernelCupError as error:
        logger.warning("the leaderboards cannot be listed: %s", error)
        return
    for guild in bot.guilds:
        channel = guild.get_channel(parts.guilds.forum(guild.id) or 0)
        if isinstance(channel, discord.ForumChannel):
            await _Forum(bot, parts, guild, channel, now).follow(boards)


@dataclass(kw_only=True)
class Post:
    """The stored state of a leaderboard's thread."""

    thread: int
    message: int
    """The first message, which is edited."""
    made_at: str
    """Creation time of the leaderboard: a later one of the same name gets its own thread."""
    facts: dict[str, Any]
    changes: list[str] = field(default_factory=list)
    reminded: list[str] = field(default_factory=list)


class _Forum:
    """The forum of one guild, at one point in time."""

    def __init__(
        self,
        bot: discord.Client,
        parts: Parts,
        guild: discord.Guild,
        channel: discord.ForumChannel,
        now: datetime,
    ) -> None:
        self._bot = bot
        self._parts = parts
        self._guild = guild
        self._channel = channel
        self._now = now
        self._prefix = f"forum:{guild.id}:"

    async def follow(self, boards: Sequence[Json]) -> None:
        """Create, change and close threads."""
        known = self._posts()
        listed = {str(board["name"]): board for board in boards}
        for name, post in known.items():
            board = listed.get(name)
            if board is None or board["created_at"] != post.made_at:
                await self._safely(name, self._close(name, post))
        known = self._posts()
        for name, board in listed.items():
            found = known.get(name)
            await self._safely(name, self._make(board) if found is None else self._update(board, found))

    async def _safely(self, name: str, work: Any) -> None:
        """Contain errors, so that one leaderboard does not block the others."""
        try:
            await work
        except discord.NotFound:
            logger.info("the thread of %s is gone and is created again", name)
            self._keep(name, None)
        except (discord.HTTPException, KernelCupError) as error:
            logger.warning("the thread of %s is not up to date: %s", name, error)

    # ---- create, change, close

    async def _make(self, board: Json) -> None:
        name = str(board["name"])
        place = await self._imported(board) or await self._left_over(name)
        if place is None:
            text, files = await self._top(board, [])
            made = await self._channel.create_thread(
                name=texts.title(name, MOST_THREADS_FOR_NAME),
                content=text,
                files=replies.as_files(files),
                auto_archive_duration=ARCHIVE_AFTER_MIN,
                reason="KernelCup",
            )
            place = made.thread.id, made.message.id
            await self._tell_role(made.thread)
        thread, message = place
        facts = boards_text.facts(board)
        post = Post(thread=thread, message=message, made_at=board["created_at"], facts=facts)
        post.reminded = [_mark(board, step) for step in passed_steps(board, self._now)]
        self._keep(name, post)

    async def _tell_role(self, thread: discord.Thread) -> None:
        """Mention the role that wants to hear of new leaderboards, if the operator names one."""
        wanted = self._parts.config.news_role
        role = discord.utils.get(self._guild.roles, name=wanted) if wanted else None
        if role is not None:
            allowed = discord.AllowedMentions(everyone=False, users=False, roles=[role])
            await thread.send(f"{role.mention} A new leaderboard.", allowed_mentions=allowed)

    async def _imported(self, board: Json) -> tuple[int, int] | None:
        """Return the thread that the leaderboard had before it was imported, with the message that has its facts."""
        if not board["discord_thread"]:
            return None
        try:
            thread = await self._guild.fetch_channel(int(board["discord_thread"]))
        except (discord.NotFound, discord.Forbidden, discord.InvalidData):  # deleted, or of another guild
            return None
        if not isinstance(thread, discord.Thread) or thread.parent_id != self._channel.id or thread.locked:
            return None
        if (first := await self._first_of(thread)) is not None:
            return thread.id, first
        text, files = await self._top(board, [])
        opened = await self._opened(thread)
        return thread.id, (await opened.send(text, files=replies.as_files(files))).id

    async def _first_of(self, thread: discord.Thread) -> int | None:
        """Return the first message of a thread if it is the bot's, which only then can edit it."""
        async for message in thread.history(limit=1, oldest_first=True):
            if self._bot.user is not None and message.author.id == self._bot.user.id:
                return message.id
        return None

    async def _left_over(self, name: str) -> tuple[int, int] | None:
        """Return a thread of the bot's that is not remembered: it has just stopped, or another platform made it."""
        known = {post.thread for post in self._posts().values()}
        archived = [each async for each in self._channel.archived_threads(limit=MOST_ARCHIVED)]
        for thread in (*self._channel.threads, *archived):
            is_free = thread.name == name and not thread.locked and thread.id not in known
            if is_free and (first := await self._first_of(thread)) is not None:
                return thread.id, first
        return None

    async def _update(self, board: Json, post: Post) -> None:
        name = str(board["name"])
        facts = boards_text.facts(board)
        if facts != post.facts:
            told = boards_text.changes_between(post.facts, facts)
            await self._tell_changes(board, post, facts, told)
        passed = passed_steps(board, self._now)
        fresh = [step for step in passed if _mark(board, step) not in post.reminded]
        if fresh:
            post.reminded = [_mark(board, step) for step in passed]
            self._keep(name, post)
            await (await self._thread(post)).send(_reminder(board, passed[-1]))

    async def _tell_changes(self, board: Json, post: Post, facts: dict[str, Any], told: list[str]) -> None:
        day = boards_text.stamp(self._now, "d")
        changes = [*(f"{day} {each}" for each in told), *post.changes][: boards_text.MOST_CHANGES]
        text, files = await self._top(board, changes)
        thread = await self._thread(post)
        await thread.get_partial_message(post.message).edit(content=text, attachments=replies.as_files(files))
        moved = facts["deadline"] != post.facts.get("deadline")
        post.facts, post.changes = facts, changes
        if moved:
            post.reminded = [_mark(board, step) for step in passed_steps(board, self._now)]
        self._keep(str(board["name"]), post)
        await thread.send("**Changed**\n" + texts.bullet_list(told))

    async def _close(self, name: str, post: Post) -> None:
        thread = await self._thread(post)
        await thread.get_partial_message(post.message).edit(content=GONE, attachments=[])
        await thread.edit(archived=True, locked=True, reason="KernelCup")
        self._keep(name, None)

    # ---- parts

    async def _top(self, board: Json, changes: list[str]) -> tuple[str, list[texts.Attached]]:
        """Return the first message with the templates."""
        name = str(board["name"])
        api = self._parts.api
        task = (await api.get(path_of("leaderboards", name, "task", "definition"), None))["task"]
        files = [
            boards_text.template_file(board, task, text, language)
            for language, text in list(task["templates"].items())[:MOST_TEMPLATES]
        ]
        link = f"{self._parts.config.public_url}/b/{name}"
        return boards_text.first_message(board, task, changes, link=link), files

    async def _thread(self, post: Post) -> discord.Thread:
        """Return the thread, opened again if it was archived. Raise ``NotFound`` if it was deleted."""
        found = self._guild.get_thread(post.thread) or await self._bot.fetch_channel(post.thread)
        assert isinstance(found, discord.Thread)
        return await self._opened(found)

    @staticmethod
    async def _opened(thread: discord.Thread) -> discord.Thread:
        return await thread.edit(archived=False) if thread.archived else thread

    def _posts(self) -> dict[str, Post]:
        stored = self._parts.memory.all_under(self._prefix)
        return {name.removeprefix(self._prefix): Post(**value) for name, value in stored.items()}

    def _keep(self, name: str, post: Post | None) -> None:
        self._parts.memory.put(f"{self._prefix}{name}", None if post is None else asdict(post))


def passed_steps(board: Json, now: datetime) -> list[str]:
    """Return the reminders that are or were due, the latest last; none after the deadline."""
    if board["deadline"] is None:
        return []
    left = datetime.fromisoformat(board["deadline"]) - now
    if left <= timedelta(0):
        return []
    return [step for step, before in REMINDERS.items() if left <= before]


def _mark(board: Json, step: str) -> str:
    return f"{board['deadline']} {step}"


def _reminder(board: Json, step: str) -> str:
    name, deadline = texts.code(board["name"]), boards_text.deadline_text(board)
    return f"⏰ Less than {step} is left for {name}: it ends {deadline}."
