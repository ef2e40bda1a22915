"""All routes under ``/api/v1``."""

from __future__ import annotations

from starlette.routing import BaseRoute

from kernelcup.app.operations import every
from kernelcup.http.api import agents, linking, runs, submissions
from kernelcup.http.api.operations import OperationRoute

OPERATIONS = every()


def about(*subjects: str) -> list[OperationRoute]:
    """Return the routes of the operations about some subjects."""
    return [OperationRoute(each) for each in OPERATIONS if each.subject in subjects]


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

routes: list[BaseRoute] = [
    *about(*PEOPLE),
    *about("leaderboards"),
    *about("tasks"),
    *about("standings"),
    *about("finals"),
    *about("submissions"),
    *submissions.router.routes,
    *about("comparisons"),
    *runs.router.routes,
    *about("queue"),
    *about("trust"),
    *about(*{each.subject for each in OPERATIONS}.difference(FIRST)),
    *linking.router.routes,
    *agents.router.routes,
    *agents.files_router.routes,
]
