"""All operations, in the order in which doors list them."""

from __future__ import annotations

from importlib import import_module

from kernelcup.app import personal_data, stats, status, upkeep
from kernelcup.app.boards import boards, late_exceptions, managing, problem_sync
from kernelcup.app.courses import class_list, courses, extensions, grades, joining, membership
from kernelcup.app.events import announcements, events, finalists, points, registration
from kernelcup.app.machines import agreement, machines, outages, reservations
from kernelcup.app.news import bell, stream, webhooks
from kernelcup.app.operation import OPERATIONS, Operation
from kernelcup.app.people import account_linking, accounts, audit_log, login_links, tokens
from kernelcup.app.queue import estimates, shown
from kernelcup.app.results import (
    brief,
    common_errors,
    comparisons,
    dataset,
    docket,
    finals,
    freezes,
    handed_in,
    rejudge,
    reviews,
    table,
    winners,
)
from kernelcup.app.rules import limits, pauses
from kernelcup.app.submissions import handout, submit, withdrawal

MODULES = (
    boards,
    managing,
    handout,
    brief,
    shown,
    submit,
    withdrawal,
    table,
    finals,
    events,
    points,
    registration,
    announcements,
    finalists,
    comparisons,
    estimates,
    status,
    outages,
    docket,
    stream,
    bell,
    webhooks,
    accounts,
    personal_data,
    tokens,
    account_linking,
    login_links,
    audit_log,
    limits,
    pauses,
    late_exceptions,
    courses,
    membership,
    joining,
    class_list,
    grades,
    extensions,
    common_errors,
    handed_in,
    dataset,
    winners,
    freezes,
    rejudge,
    reviews,
    stats,
    upkeep,
    problem_sync,
    machines,
    reservations,
    agreement,
)
"""The modules that have operations."""


def every() -> list[Operation]:
    """Return all operations."""
    names = [module.__name__ for module in MODULES]
    for name in names:
        import_module(name)
    return sorted(OPERATIONS.values(), key=lambda operation: names.index(operation.call.__module__))
