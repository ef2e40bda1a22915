"""Health checks, for monitoring."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from kernelcup.app.machines import dispatchers
from kernelcup.engine import migrate
from kernelcup.errors import KernelCupError, StorageUnavailable
from kernelcup.http.route import LaterRoute
from kernelcup.http.state import Platform

router = APIRouter(route_class=LaterRoute)

PATIENCE_S = 3.0
T = TypeVar("T")


class Watch(Generic[T]):
    """Checks from its own thread, so that hanging requests and hanging checks do not block each other.

    Concurrent requests share one check.
    """

    def __init__(self, look: Callable[[], T], *, patience_s: float = PATIENCE_S) -> None:
        self._look = look
        self._patience_s = patience_s
        self._task: asyncio.Task[T] | None = None

    async def ask(self) -> T:
        """Return the result of the checks. Raise ``StorageUnavailable`` if they take too long."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(to_thread.run_sync(self._look, limiter=CapacityLimiter(1)))
        done, _ = await asyncio.wait({self._task}, timeout=self._patience_s)
        if not done:
            raise StorageUnavailable(f"database: no answer within {self._patience_s:g} s")
        return self._task.result()


def checks_of(platform: Platform) -> dict[str, str]:
    """Check that the database is read and written, and that a judge is alive."""
    checks: dict[str, str] = {}
    try:
        current = migrate.stored_revision(platform.db)
        checks["database"] = "ok" if current == migrate.newest_revision() else f"at revision {current}"
        alive = dispatchers.list_alive(platform.db, platform.clock())
        checks["writes"] = "ok" if platform.db.write_trouble is None else "the database cannot be written"
        checks["judge"] = "ok" if alive else "no judge gave a sign of life"
    except KernelCupError:
        checks["database"] = "does not answer"
    return checks


@router.get("/healthz")
async def healthz(request: Request) -> JSONResponse:
    """Report whether reads work; 503 if they do not."""
    checks = await _checks(request)
    return _report({"database": checks["database"]}, bad="failed")


@router.get("/readyz")
async def readyz(request: Request) -> JSONResponse:
    """Report whether submissions are taken and judged; 503 if any part fails."""
    return _report(await _checks(request), bad="not ready")


async def _checks(request: Request) -> dict[str, str]:
    watch: Watch[dict[str, str]] = request.app.state.health
    try:
        return await watch.ask()
    except StorageUnavailable:
        return {"database": "does not answer"}


def _report(checks: dict[str, str], *, bad: str) -> JSONResponse:
    fine = all(value == "ok" for value in checks.values())
    return JSONResponse({"status": "ok" if fine else bad, "checks": checks}, status_code=200 if fine else 503)


# `async`, so that it needs none of the threads that requests may keep busy.
@router.get("/livez")
async def livez() -> PlainTextResponse:
    """Answer while the process serves requests."""
    return PlainTextResponse("ok")


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Return the figures for Prometheus."""
    watch: Watch[bytes] = request.app.state.figures
    return Response(await watch.ask(), media_type="text/plain; version=0.0.4")
