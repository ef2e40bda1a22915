"""A loopback Discord for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from discord_loopback import LoopbackDiscord
from discord_loopback.fixtures import anyio_backend

__all__ = ["anyio_backend"]


@pytest.fixture
async def loopback() -> AsyncIterator[LoopbackDiscord]:
    """A Discord of its own for each test."""
    async with await LoopbackDiscord.start(bot_name="kernelcup") as discord:
        yield discord
