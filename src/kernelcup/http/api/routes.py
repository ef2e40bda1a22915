"""All routes under ``/api/v1``."""

from __future__ import annotations

from itertools import chain

from starlette.routing import BaseRoute

from kernelcup.app.operations import every
from kernelcup.http.api import agents, linking, runs, submissions
from kernelcup.http.api.operations import OperationRoute

OPERATIONS = every()


FIRST = "account users leaderboards tasks standings finals submissions comparisons queue trust"
"""Subjects of operations that the documentation has before others."""


def about(subjects: str) -> list[OperationRoute]:
    """Return the routes of the operations about some subjects."""
    return [OperationRoute(each) for each in OPERATIONS if each.subject in subjects.split()]


routes: list[BaseRoute] = [
    *about("account users"),
    *chain.from_iterable(map(about, ("leaderboards", "tasks", "standings", "finals", "submissions"))),
    *submissions.router.routes,
    *about("comparisons"),
    *runs.router.routes,
    *about("queue"),
    *about("trust"),
    *(OperationRoute(each) for each in OPERATIONS if each.subject not in FIRST.split()),
    *linking.router.routes,
    *agents.router.routes,
    *agents.files_router.routes,
]
