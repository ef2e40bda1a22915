"""All routes of the existing client."""

from __future__ import annotations

from fastapi import APIRouter

from kernelcup_kernelbot.popcorn import (
    administration,
    leaderboards,
    problems,
    profiling,
    registration,
    streaming,
    submissions,
    submitting,
)
from kernelcup_kernelbot.popcorn.errors import PopcornRoute

router = APIRouter(route_class=PopcornRoute)


@router.get("/health")
def health() -> dict[str, str]:
    """Answer that the process serves; `/readyz` looks at the database too."""
    return {"status": "ok"}


for _each in (
    registration,
    leaderboards,
    submissions,
    submitting,
    problems,
    administration,
    profiling,
    streaming,  # last: its paths begin with the name of a leaderboard
):
    router.routes.extend(_each.router.routes)

__all__ = ["router"]
