"""All routes of the existing client."""

from __future__ import annotations

from fastapi import APIRouter

from kernelcup_kernelbot.popcorn import (
    administration,
    leaderboards,
    problems,
    profiling,
    sign_in,
    streaming,
    submissions,
    submitting,
)

router = APIRouter(include_in_schema=False)
for _each in (
    sign_in,
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
