"""Web servers that start and end sooner than real ones; what they answer is the same."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import uvicorn.server

LOOKS = 20
"""So many times as often does a server look whether it should end, which a test waits for."""


class Impatient:
    """The module ``asyncio`` for one that sleeps until something has changed."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, delay: float) -> None:
        """Sleep for a part of that."""
        await asyncio.sleep(delay / LOOKS)


def end_soon(patch: pytest.MonkeyPatch) -> None:
    """Let uvicorn look more often than every tenth of a second whether it should end and what is left."""
    patch.setattr(uvicorn.server, "asyncio", Impatient())
