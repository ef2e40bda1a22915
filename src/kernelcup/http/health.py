"""Whether the service works, for whoever watches it."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from kernelcup.errors import KernelCupError
from kernelcup.http.deps import PlatformDep
from kernelcup.services import dispatchers
from kernelcup.storage import schema

router = APIRouter(include_in_schema=False)


@router.get("/healthz")
def healthz(platform: PlatformDep) -> JSONResponse:
    """Ask the database, and for a dispatcher that lives. 503 where one of them is missing."""
    checks: dict[str, Any] = {}
    try:
        current = schema.current_revision(platform.db)
        checks["database"] = "ok" if current == schema.newest_revision() else f"at revision {current}"
        alive = dispatchers.list_alive(platform.db, platform.clock())
        checks["dispatcher"] = "ok" if alive else "none gave a sign of life"
    except KernelCupError:
        checks["database"] = "does not answer"
    fine = all(value == "ok" for value in checks.values())
    return JSONResponse(
        {"status": "ok" if fine else "failing", "checks": checks}, status_code=200 if fine else 503
    )


@router.get("/health")
def health(platform: PlatformDep) -> JSONResponse:
    """Answer under the older name."""
    return healthz(platform)


@router.get("/livez")
def livez() -> PlainTextResponse:
    """Answer while the process serves requests."""
    return PlainTextResponse("ok")


@router.get("/metrics")
def metrics(request: Request) -> Response:
    """Return the figures for Prometheus."""
    return Response(request.app.state.metrics.render(), media_type="text/plain; version=0.0.4")
