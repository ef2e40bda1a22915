"""A loopback Discord, a plain REST client for it, and a small bot of discord.py."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from loopback import Channel, GuildDriver, LoopbackDiscord, Member
from probe import Probe, Rest


@pytest.fixture
def anyio_backend() -> str:
    """The event loop that discord.py needs."""
    return "asyncio"


@pytest.fixture
async def loopback() -> AsyncIterator[LoopbackDiscord]:
    """A Discord of its own for each test."""
    async with await LoopbackDiscord.start() as discord:
        yield discord


@pytest.fixture
def guild(loopback: LoopbackDiscord) -> GuildDriver:
    """A guild with one text channel."""
    guild = loopback.add_guild()
    guild.add_text("submissions")
    return guild


@pytest.fixture
def channel(guild: GuildDriver) -> Channel:
    """The text channel."""
    return guild.channel("submissions")


@pytest.fixture
def alice(guild: GuildDriver) -> Member:
    """A member without roles."""
    return guild.add_member("alice")


@pytest.fixture
async def rest(loopback: LoopbackDiscord) -> AsyncIterator[Rest]:
    """Plain requests with the bot's token."""
    async with Rest(loopback) as rest:
        yield rest


@pytest.fixture
async def probe(loopback: LoopbackDiscord, guild: GuildDriver) -> AsyncIterator[Probe]:
    """A bot that is connected and does what the test tells it."""
    bot = Probe()
    async with loopback.connect(bot):
        yield bot
