"""All routes under ``/api/v1``."""

from __future__ import annotations

from fastapi import APIRouter

from kernelcup.app.operations import every
from kernelcup.http.api import agents, linking, operations, runs, submissions


def about(*subjects: str) -> APIRouter:
    """Return the routes of the operations about some subjects."""
    return operations.router_of([each for each in every() if each.subject in subjects])


PEOPLE = ("account", "users")
FIRST = (
    *PEOPLE,
    "leaderboards",
    "tasks",
    "standings",
    "finals",
    "submissions",
    "comparisons",
    "queue",
    "trust",
)
"""Subjects of operations that the documentation has before others."""

routers = [
    about(*PEOPLE),
    about("leaderboards"),
    about("tasks"),
    about("standings"),
    about("finals"),
    about("submissions"),
    submissions.router,
    about("comparisons"),
    runs.router,
    about("queue"),
    about("trust"),
    about(*{each.subject for each in every()}.difference(FIRST)),
    linking.router,
    agents.router,
    agents.files_router,
]
