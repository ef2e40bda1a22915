"""All operations, in the order in which doors list them."""

from __future__ import annotations

from kernelcup.app import stats
from kernelcup.app.boards import boards, class_list, late_exceptions, managing, membership
from kernelcup.app.machines import agreement, machines, reservations
from kernelcup.app.news import stream, webhooks
from kernelcup.app.operation import OPERATIONS, Operation
from kernelcup.app.people import accounts, audit_log, login_links, tokens
from kernelcup.app.results import freezes, rejudge, reviews
from kernelcup.app.rules import limits, pauses
from kernelcup.app.submissions import handout

MODULES = (
    boards,
    managing,
    handout,
    stream,
    webhooks,
    tokens,
    accounts,
    login_links,
    audit_log,
    limits,
    pauses,
    late_exceptions,
    membership,
    class_list,
    freezes,
    rejudge,
    reviews,
    stats,
    machines,
    reservations,
    agreement,
)
"""The modules that have operations."""


def every() -> list[Operation]:
    """Return all operations."""
    names = [module.__name__ for module in MODULES]
    return sorted(OPERATIONS.values(), key=lambda operation: names.index(operation.call.__module__))
