"""Roles, category and channels of a guild, created if missing."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict

import aiohttp
import discord

from kernelcup.bot.state import Memory

logger = logging.getLogger(__name__)

CATEGORY = "Leaderboards"
SUBMISSIONS, GENERAL, FORUM = "submissions", "general", "central"
ADMIN_ROLE, CREATOR_ROLE = "Leaderboard Admin", "Leaderboard Creator"
COLOURS = {ADMIN_ROLE: discord.Colour.purple(), CREATOR_ROLE: discord.Colour.blue()}

NEEDED = discord.Permissions(
    view_channel=True,
    send_messages=True,
    send_messages_in_threads=True,
    create_public_threads=True,
    create_private_threads=True,
    manage_threads=True,
    embed_links=True,
    attach_files=True,
    read_message_history=True,
    manage_channels=True,
    manage_roles=True,
)
"""The permissions in the bot's invitation."""


TROUBLE = (discord.HTTPException, aiohttp.ClientError, OSError)


class Guilds:
    """The bot's guilds, and their channels."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._locks: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def set_up(self, guild: discord.Guild) -> list[str]:
        """Create missing roles and channels, and return the ones that could not be created. Idempotent."""
        async with self._locks[guild.id]:
            return await self._set_up(guild)

    async def _set_up(self, guild: discord.Guild) -> list[str]:
        problems: list[str] = []
        for name in (ADMIN_ROLE, CREATOR_ROLE):
            if not any(role.name == name for role in guild.roles):
                try:
                    await guild.create_role(name=name, colour=COLOURS[name], reason="KernelCup")
                except TROUBLE as error:
                    problems.append(f"role {name}: {error}")
        category = await self._category(guild, problems)
        for name in (SUBMISSIONS, GENERAL, FORUM):
            await self._channel(guild, name, category, problems)
        for problem in problems:
            logger.error("guild %s lacks %s", guild.id, problem)
        return problems

    def needs(self, channel: discord.abc.GuildChannel) -> bool:
        """Return whether a channel is one of ours."""
        names = (CATEGORY, SUBMISSIONS, GENERAL, FORUM)
        return any(self._known(channel.guild.id, name) == channel.id for name in names)

    def submissions(self, guild_id: int) -> int | None:
        """Return the channel for submissions."""
        return self._known(guild_id, SUBMISSIONS)

    def forum(self, guild_id: int) -> int | None:
        """Return the forum with a post for each leaderboard."""
        return self._known(guild_id, FORUM)

    def _known(self, guild_id: int, name: str) -> int | None:
        number = self._memory.get(_key(guild_id, name))
        return number if isinstance(number, int) else None

    async def _category(self, guild: discord.Guild, problems: list[str]) -> discord.CategoryChannel | None:
        known = guild.get_channel(self._known(guild.id, CATEGORY) or 0)
        if isinstance(known, discord.CategoryChannel):
            return known
        found = next((each for each in guild.categories if each.name == CATEGORY), None)
        if found is None:
            try:
                found = await guild.create_category(CATEGORY, reason="KernelCup")
            except TROUBLE as error:
                problems.append(f"category {CATEGORY}: {error}")
                return None
        self._memory.put(_key(guild.id, CATEGORY), found.id)
        return found

    async def _channel(
        self, guild: discord.Guild, name: str, category: discord.CategoryChannel | None, problems: list[str]
    ) -> None:
        wanted = discord.ForumChannel if name == FORUM else discord.TextChannel
        if isinstance(guild.get_channel(self._known(guild.id, name) or 0), wanted):
            return
        within = category.channels if category is not None else []
        found = next((each for each in within if each.name == name and isinstance(each, wanted)), None)
        if found is None:
            try:
                if name == FORUM:
                    found = await guild.create_forum(name, category=category, reason="KernelCup")
                else:
                    found = await guild.create_text_channel(name, category=category, reason="KernelCup")
            except TROUBLE as error:
                problems.append(f"channel {name}: {error}")
                return
        self._memory.put(_key(guild.id, name), found.id)


def _key(guild_id: int, name: str) -> str:
    return f"guild:{guild_id}:{name}"
