"""A loopback Discord for each test, and a service with its bot."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from discord_loopback import LoopbackDiscord, Member
from discord_loopback.fixtures import anyio_backend
from stage import Stage, staged

from builders import make_device

__all__ = ["anyio_backend"]


@pytest.fixture
async def loopback() -> AsyncIterator[LoopbackDiscord]:
    """A Discord of its own for each test."""
    async with await LoopbackDiscord.start(bot_name="kernelcup") as discord:
        yield discord


@pytest.fixture
async def stage(loopback: LoopbackDiscord, sqlite_template: Path, tmp_path: Path) -> AsyncIterator[Stage]:
    """A service with two devices that nobody serves."""
    devices = (make_device(), make_device(name="MI300"))
    async with staged(loopback, sqlite_template, tmp_path, devices) as each:
        yield each


@pytest.fixture
def ada(stage: Stage) -> Member:
    """A participant."""
    return stage.guild.add_member("ada")
