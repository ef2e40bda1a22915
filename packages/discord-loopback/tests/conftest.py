"""A loopback Discord, a plain REST client for it, and a small bot of discord.py."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from discord_loopback import GuildDriver, LoopbackDiscord
from discord_loopback.fixtures import alice, anyio_backend, channel, guild, loopback
from probe import Probe, Rest

__all__ = ["alice", "anyio_backend", "channel", "guild", "loopback"]


@pytest.fixture
async def rest(loopback: LoopbackDiscord) -> AsyncIterator[Rest]:
    """Plain requests with the bot's token."""
    async with Rest(loopback) as rest:
        yield rest


@pytest.fixture
async def probe(loopback: LoopbackDiscord, guild: GuildDriver) -> AsyncIterator[Probe]:
    """A bot that is connected and does what the test says."""
    bot = Probe()
    async with loopback.connect(bot):
        yield bot
