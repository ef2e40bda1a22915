"""All routes of the existing client; where it registers, it reads what to do instead."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException

from kernelcup_kernelbot.popcorn import (
    administration,
    leaderboards,
    problems,
    profiling,
    streaming,
    submissions,
    submitting,
)
from kernelcup_kernelbot.popcorn.errors import PopcornRoute

router = APIRouter(include_in_schema=False, route_class=PopcornRoute)

INSTEAD = (
    "popcorn-cli registers with another server, which is built into it. Run `kernelcup login --popcorn`: "
    "it signs you in here and writes ~/.popcorn.yaml."
)


@router.get("/auth/init")
def init() -> None:
    """Explain how to sign in here. Stores nothing: the existing service created a user for each call."""
    raise HTTPException(400, INSTEAD)


@router.get("/auth/cli/discord")
@router.get("/auth/cli/github")
def return_from_provider() -> None:
    """Explain how to sign in here. The state parameter is not trusted: anyone could have made it."""
    raise HTTPException(400, INSTEAD)


for _each in (
    leaderboards,
    submissions,
    submitting,
    problems,
    administration,
    profiling,
    streaming,  # last: its paths begin with the name of a leaderboard
):
    router.include_router(_each.router)

__all__ = ["router"]
