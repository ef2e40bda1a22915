"""The addresses where the existing client registers: what to do instead."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException

from kernelcup.http.popcorn.route import PopcornRoute

router = APIRouter(route_class=PopcornRoute)

INSTEAD = (
    "popcorn-cli registers with another server, which is built into it. Run `kernelcup login --popcorn`: "
    "it signs you in here and writes ~/.popcorn.yaml."
)


@router.get("/auth/init")
def init() -> None:
    """Say how to sign in here. Nothing is stored: the existing service made a user for each call."""
    raise HTTPException(400, INSTEAD)


@router.get("/auth/cli/discord")
@router.get("/auth/cli/github")
def return_from_provider() -> None:
    """Say how to sign in here. Its state could be made by anybody, so that nothing of it is believed."""
    raise HTTPException(400, INSTEAD)
