"""All routes under ``/api/v1``."""

from __future__ import annotations

from kernelcup.http.api import (
    administration,
    agents,
    comparisons,
    finals,
    leaderboards,
    linking,
    machines,
    news,
    queues,
    rules,
    runs,
    standings,
    submissions,
    tasks,
    trust,
)

routers = [
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
    rules.router,
    administration.router,
    linking.router,
    machines.router,
    agents.router,
    agents.files_router,
]
