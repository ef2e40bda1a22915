"""All routes under ``/api/v1``."""

from __future__ import annotations

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

routers = [
    tasks.router,
    tasks.shared,
    standings.router,
    finals.router,
    submissions.router,
    comparisons.router,
    runs.router,
    queues.router,
    trust.router,
    operations.router_of(every()),
    administration.router,
    linking.router,
    agents.router,
    agents.files_router,
]
