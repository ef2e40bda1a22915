"""A loopback Discord for each test."""

from __future__ import annotations

from discord_loopback.fixtures import alice, anyio_backend, channel, guild, loopback

__all__ = ["alice", "anyio_backend", "channel", "guild", "loopback"]
