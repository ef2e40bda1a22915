"""Agents that ask for something to do: each is answered once there is something, and holds no thread until then."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from functools import partial

from anyio import to_thread

from kernelcup.app.machines.agents import Errand, Waiting
from kernelcup.app.machines.call_watch import CallWatch

LONGEST_WAIT_S = 25.0
"""Shorter than the patience of usual proxies, and than the time after which a silent machine is down."""


class Asking:
    """The agents that wait in this process."""

    def __init__(self, watch: CallWatch[Waiting]) -> None:
        self._watch = watch
        self._numbers = itertools.count()
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._watch)

    async def errand(
        self, look: Callable[..., Errand], *, machine: str, agent: str, wait_s: float, now: datetime
    ) -> Errand:
        """Return what an agent shall do, nothing if there was nothing to do for so long.

        Args:
            look: Returns what there is to do, ``now`` or (None) for one that waits. What it raises is raised.
            machine: The agent's machine.
            agent: Its session.
            wait_s: How long it may wait.
            now: When it asked.
        """
        errand = await to_thread.run_sync(partial(look, now=now))
        until = asyncio.get_running_loop().time() + wait_s
        while not (errand.jobs or errand.cancel or self._is_closed):
            one = Waiting(machine=machine, agent=agent, number=next(self._numbers))
            if not await self._has_news(one, until):
                break
            errand = await to_thread.run_sync(partial(look, now=None))
        return errand

    def close(self) -> None:
        """Answer all at once, and let none wait any more. May be called from any thread."""
        self._is_closed = True
        self._watch.close()

    async def _has_news(self, one: Waiting, until: float) -> bool:
        """Wait for something to do; return False if there was nothing until then."""
        loop, woken = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop has ended, and with it who waited
                loop.call_soon_threadsafe(woken.set)

        self._watch.add(one, wake)
        try:
            async with asyncio.timeout_at(until):
                await woken.wait()
        except TimeoutError:
            return False
        finally:
            self._watch.forget(one)
        return True
