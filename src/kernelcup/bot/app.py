"""The bot: a Discord client with our commands."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Protocol

import discord
from discord import app_commands

from kernelcup.bot import guild_roles
from kernelcup.bot.api import Api
from kernelcup.bot.commands import (
    admin,
    change_board,
    create_board,
    invites,
    linking,
    participant,
    people,
    rankings,
    reviews,
)
from kernelcup.bot.context import BotConfig, Parts
from kernelcup.bot.delivery import forum, news
from kernelcup.bot.delivery.follower import Follower
from kernelcup.bot.guild_setup import Guilds
from kernelcup.bot.messages import replies
from kernelcup.bot.state import Memory

logger = logging.getLogger(__name__)

ROLES_EVERY_S = 600
SYNC_AGAIN_S = 30.0


class Module(Protocol):
    """A module of commands."""

    def register(self, tree: app_commands.CommandTree[Any], parts: Parts) -> None:
        """Add the module's commands."""


class Background(Protocol):
    """A module with work of its own beside commands."""

    async def run(self, bot: KernelCupBot, parts: Parts) -> None:
        """Work until cancelled."""


class Tree(app_commands.CommandTree["KernelCupBot"]):
    """Command tree that explains errors in words."""

    async def on_error(
        self, interaction: discord.Interaction[Any], error: app_commands.AppCommandError
    ) -> None:
        """Explain the error, visible only to the person."""
        await replies.answer_error(interaction, error)


class KernelCupBot(discord.Client):
    """One bot in any number of guilds.

    Args:
        config: The settings.
        api: The platform; default: the one in the settings.
        modules: Modules of commands.
        background: Other work that runs while the bot is connected.
    """

    def __init__(
        self,
        config: BotConfig,
        *,
        api: Api | None = None,
        modules: Sequence[Module] | None = None,
        background: Sequence[Background] | None = None,
    ) -> None:
        super().__init__(
            intents=discord.Intents(guilds=True),
            allowed_mentions=discord.AllowedMentions.none(),
            max_messages=None,
        )
        self.tree = Tree(self)
        memory = Memory(config.memory_file)
        self.parts = Parts(
            config=config,
            api=api or Api(config.api_url, config.service_token),
            memory=memory,
            follower=Follower(self),
            guilds=Guilds(memory),
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._background = default_background() if background is None else background
        self._started = False
        for module in default_modules() if modules is None else modules:
            module.register(self.tree, self.parts)

    async def setup_hook(self) -> None:
        """Register our commands with Discord."""
        self.spawn(self._sync())

    async def on_ready(self) -> None:
        """Set every guild up; the first time, resume following submissions."""
        first, self._started = not self._started, True
        if first:
            self.parts.follower.resume()
        for guild in self.guilds:
            await self.parts.guilds.set_up(guild)
        if not first:
            return
        self.spawn(self._look_at_roles())
        for module in self._background:
            self.spawn(module.run(self, self.parts))

    async def on_guild_join(self, guild: discord.Guild) -> None:
        """Set a new guild up."""
        await self.parts.guilds.set_up(guild)

    async def on_guild_available(self, guild: discord.Guild) -> None:
        """Set up a guild that was unavailable."""
        await self.parts.guilds.set_up(guild)

    async def on_guild_channel_delete(self, channel: discord.abc.GuildChannel) -> None:
        """Create a deleted channel again if submitting needs it."""
        if self.parts.guilds.needs(channel):
            await self.parts.guilds.set_up(channel.guild)

    def dispatch(self, event: str, /, *args: Any, **options: Any) -> None:
        """Handle an event, but none while closing: discord.py's loop for handlers goes before its connection does."""
        if not self.is_closed():
            super().dispatch(event, *args, **options)

    async def on_error(self, event_method: str, /, *_: Any, **__: Any) -> None:
        """Log an error in an event."""
        logger.exception("the event %s failed", event_method)

    def spawn(self, work: Any) -> asyncio.Task[None]:
        """Run a task until it ends or the bot closes."""
        task: asyncio.Task[None] = asyncio.create_task(_logged(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Close the bot, or wait until it is closed. Following submissions resumes at the next start."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await super().close()
        await self.parts.api.close()
        self.parts.memory.close()

    async def _sync(self) -> None:
        while True:
            try:
                await self.tree.sync()
            except discord.DiscordServerError as error:
                logger.warning("Discord rejects the commands now: %s", error)
                await asyncio.sleep(SYNC_AGAIN_S)
            else:
                return

    async def _look_at_roles(self) -> None:
        while True:
            await guild_roles.review_given(self.parts, self)
            await asyncio.sleep(ROLES_EVERY_S)


def default_modules() -> list[Module]:
    """Return all modules of commands."""
    return [participant, linking, rankings, create_board, change_board, admin, people, invites, reviews]


def default_background() -> list[Background]:
    """Return all background modules."""
    return [forum, news]


async def _logged(work: Any) -> None:
    try:
        await work
    except Exception:
        logger.exception("a background task failed")
