"""All pages under ``/admin``."""

from __future__ import annotations

from fastapi import APIRouter

from kernelcup.http.pages.admin import (
    devices,
    home,
    late,
    limits,
    links,
    manage,
    new_boards,
    reviews,
    users,
)

router = APIRouter()
for _each in (
    home,
    new_boards,
    manage,
    late,
    reviews,
    devices,
    users,
    links,
    limits,
):
    router.routes.extend(_each.router.routes)
