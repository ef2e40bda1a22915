"""All pages. Add the router of a new module of pages here."""

from __future__ import annotations

from fastapi import APIRouter

from kernelcup.http.pages import (
    account,
    assets,
    badges,
    board_live,
    board_texts,
    boards,
    docket,
    events,
    feeds,
    people,
    queues,
    status,
    submissions,
    submitting,
    webhooks,
)
from kernelcup.http.pages.admin import routes as admin

router = APIRouter(include_in_schema=False)
for _each in (
    assets,
    boards,
    board_live,
    board_texts,
    badges,
    docket,
    events,
    feeds,
    queues,
    status,
    submissions,
    submitting,
    webhooks,
    account,
    people,
    admin,
):
    router.include_router(_each.router)

__all__ = ["router"]
