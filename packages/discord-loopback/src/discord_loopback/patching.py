"""Pointing a real discord.py client at the loopback Discord."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar
from unittest.mock import patch

import discord
import discord.client
import discord.gateway
import discord.http
import discord.state
import discord.webhook.async_
import yarl

from .clock import VirtualClock
from .web import API

T = TypeVar("T")
READY_TIMEOUT_S = 0.05
"""How long discord.py waits for one more guild before it is ready; its own 2 s slow every test down."""


class PacedAsyncio:
    """asyncio for the modules of discord.py that wait for Discord: their waits pass faster.

    Only waits for rate limits, retries after 5xx and reconnecting are paced: they are what these modules use
    ``sleep`` and ``wait`` for.
    """

    def __init__(self, pace: float) -> None:
        self._pace = pace

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, delay: float, result: Any = None) -> Any:
        """A shorter sleep."""
        return await asyncio.sleep(delay / self._pace, result)

    async def wait(self, futures: Any, *, timeout: float | None = None, **more: Any) -> Any:  # noqa: ASYNC109
        """A wait with a shorter limit."""
        paced = None if timeout is None else max(timeout, 0) / self._pace
        return await asyncio.wait(futures, timeout=paced, **more)


@contextmanager
def patched(http_url: str, gateway_url: str, clock: VirtualClock, pace: float) -> Iterator[None]:
    """Every discord.py client that starts within talks to the loopback Discord.

    `discord.Client` never asks for the address of the gateway, so that is patched too.
    """
    quick = PacedAsyncio(pace)
    with ExitStack() as stack:

        def put(target: object, name: str, value: object) -> None:
            stack.enter_context(patch.object(target, name, value))

        put(discord.http.Route, "BASE", http_url + API)
        put(discord.gateway.DiscordWebSocket, "DEFAULT_GATEWAY", yarl.URL(gateway_url))
        put(discord.state.ConnectionState, "__init__", _quickly_ready(discord.state.ConnectionState.__init__))
        put(discord.utils, "utcnow", clock.now)
        for module in (discord.http, discord.webhook.async_, discord.client):
            put(module, "asyncio", quick)
        yield


def hurry(client: discord.Client) -> None:
    """Let a client that exists already be ready soon."""
    client._connection.guild_ready_timeout = READY_TIMEOUT_S


def _quickly_ready(original: Any) -> Any:
    def __init__(self: Any, *args: Any, **options: Any) -> None:  # noqa: N807
        original(self, *args, **{"guild_ready_timeout": READY_TIMEOUT_S} | options)

    return __init__


async def first_of(ready: Awaitable[T], task: asyncio.Task[None], timeout_s: float) -> T:
    """Wait for something that a running client brings about; its failure is raised at once."""
    waiting = asyncio.ensure_future(ready)
    try:
        await asyncio.wait({waiting, task}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            return waiting.result()
        if task.done():
            task.result()
            raise RuntimeError("the client ended before it was ready")
        raise TimeoutError("the client did not become ready")
    finally:
        waiting.cancel()
