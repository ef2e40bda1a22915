"""All operations, in the order in which doors list them."""

from __future__ import annotations

from importlib import import_module

from kernelcup.app.operation import OPERATIONS, Operation

MODULES = (
    "boards.boards",
    "boards.managing",
    "submissions.handout",
    "results.brief",
    "queue.shown",
    "submissions.submit",
    "submissions.withdrawal",
    "results.table",
    "results.finals",
    "events.events",
    "events.points",
    "events.registration",
    "events.announcements",
    "events.finalists",
    "results.comparisons",
    "queue.estimates",
    "status",
    "machines.outages",
    "results.docket",
    "news.stream",
    "news.bell",
    "news.webhooks",
    "people.accounts",
    "personal_data",
    "people.tokens",
    "people.account_linking",
    "people.login_links",
    "people.audit_log",
    "rules.limits",
    "rules.pauses",
    "boards.late_exceptions",
    "courses.courses",
    "courses.membership",
    "courses.joining",
    "courses.class_list",
    "courses.grades",
    "courses.extensions",
    "results.common_errors",
    "results.handed_in",
    "results.dataset",
    "results.winners",
    "results.freezes",
    "results.rejudge",
    "results.reviews",
    "stats",
    "upkeep",
    "boards.problem_sync",
    "machines.machines",
    "machines.reservations",
    "machines.agreement",
)
"""The modules that have operations."""


def every() -> list[Operation]:
    """Return all operations."""
    names = [import_module(f"kernelcup.app.{name}").__name__ for name in MODULES]
    return sorted(OPERATIONS.values(), key=lambda operation: names.index(operation.call.__module__))
