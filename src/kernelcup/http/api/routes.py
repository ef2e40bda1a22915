"""All routes under ``/api/v1``."""

from __future__ import annotations

from kernelcup.app.operations import every
from kernelcup.http.api import (
    administration,
    agents,
    comparisons,
    finals,
    leaderboards,
    linking,
    news,
    operations,
    queues,
    runs,
    standings,
    submissions,
    tasks,
    trust,
)

PEOPLE = ("account", "users")
"""The subjects that the documentation has first."""

routers = [
    operations.router_of([each for each in every() if each.subject in PEOPLE]),
    leaderboards.router,
    tasks.router,
    tasks.shared,
    standings.router,
    finals.router,
    submissions.router,
    comparisons.router,
    runs.router,
    queues.router,
    trust.router,
    news.router,
    operations.router_of([each for each in every() if each.subject not in PEOPLE]),
    administration.router,
    linking.router,
    agents.router,
    agents.files_router,
]
