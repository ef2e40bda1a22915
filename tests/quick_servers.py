"""Web servers that start and end sooner than real ones; what they answer is the same."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import uvicorn.server
from fastapi import APIRouter

LOOKS = 20
"""So many times as often does a server look whether it should end, which a test waits for."""


def share_routes(patch: pytest.MonkeyPatch) -> None:
    """Let applications that include the same router have the same routes.

    FastAPI works a router's routes out at the first request of each application, and the routers are those
    of the modules. Nothing of an application is in them: a route finds that in its request.
    """
    include = APIRouter.include_router
    included: dict[tuple[int, str], Any] = {}

    def include_router(self: APIRouter, router: APIRouter, *, prefix: str = "", **options: Any) -> None:
        before = len(self.routes)
        include(self, router, prefix=prefix, **options)
        if len(self.routes) == before + 1:
            self.routes[-1] = included.setdefault((id(router), prefix), self.routes[-1])

    patch.setattr(APIRouter, "include_router", include_router)


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
