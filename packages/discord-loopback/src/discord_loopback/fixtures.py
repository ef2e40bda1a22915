"""Fixtures for pytest: a conftest.py imports those that it wants. Tests are marked ``anyio``."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from .guilds import GuildDriver
from .server import LoopbackDiscord
from .state import Channel, Member


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
