"""All routes under ``/api/v1``."""

from __future__ import annotations

from fastapi import APIRouter

from kernelcup.app.operations import every
from kernelcup.http.api import (
    administration,
    agents,
    comparisons,
    finals,
    linking,
    operations,
    queues,
    runs,
    standings,
    submissions,
    tasks,
    trust,
)


def about(*subjects: str) -> APIRouter:
    """Return the routes of the operations about some subjects."""
    return operations.router_of([each for each in every() if each.subject in subjects])


FIRST = ("leaderboards", "tasks")
"""Subjects of operations that the documentation has before others."""

routers = [
    about("leaderboards"),
    about("tasks"),
    tasks.router,
    standings.router,
    finals.router,
    submissions.router,
    comparisons.router,
    runs.router,
    queues.router,
    trust.router,
    about(*{each.subject for each in every()}.difference(FIRST)),
    administration.router,
    linking.router,
    agents.router,
    agents.files_router,
]
