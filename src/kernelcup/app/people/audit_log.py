"""The audit log: every service that uses a right writes to it, and those who manage may read it."""

from __future__ import annotations

from typing import Annotated

from kernelcup.app import access
from kernelcup.app.operation import Given, Limit, operation
from kernelcup.app.people.queries import audit_log
from kernelcup.domain import Actor, Role, Scope
from kernelcup.domain.answers import AuditEntry
from kernelcup.engine import Database


@operation("GET", "/audit", "admin audit", subject="administration", is_paged=True)
def entries(
    db: Database,
    actor: Actor,
    *,
    target: Annotated[
        str | None,
        Given(
            options=("--target",),
            help="Only entries about this target: board:NAME, user:NAME, submission:ID.",
        ),
    ] = None,
    action: Annotated[
        str | None,
        Given(options=("--action",), help="Only this action, for example user.ban.", longest=100),
    ] = None,
    before_id: Annotated[
        int | None,
        Given(options=("--before",), key="after", help="Only entries with an id below this one."),
    ] = None,
    limit: Limit = 50,
) -> list[AuditEntry]:
    """Show the audit log: who used which right, newest first.

    Admins see everything, creators what is about their leaderboards.

    Raises:
        SignInNeeded, Forbidden, ScopeMissing: The actor may not see the log.
    """
    sees_all = actor.role is Role.ADMIN
    # An admin without the scope is refused: entries about their own boards only would look complete.
    access.require(actor, Scope.ADMIN if sees_all else Scope.MANAGE, role=Role.CREATOR)
    with db.read() as session:
        return audit_log.page(
            session,
            target=target,
            action=action,
            before_id=before_id,
            limit=limit,
            of_creator=None if sees_all else (actor.user_id or 0),
        )
