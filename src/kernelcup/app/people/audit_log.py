"""The audit log: every service that uses a right writes to it, and those who manage may read it."""

from __future__ import annotations

from kernelcup.app import access
from kernelcup.app.people.queries import audit_log
from kernelcup.app.people.queries.audit_log import AuditEntry, record
from kernelcup.domain import Actor, Role, Scope
from kernelcup.engine.database import Database

__all__ = ["AuditEntry", "entries", "record"]


def entries(
    db: Database,
    actor: Actor,
    *,
    target: str | None = None,
    action: str | None = None,
    before_id: int | None = None,
    limit: int = 50,
) -> list[AuditEntry]:
    """Return log entries, newest first: all of them for admins, those about their own boards for creators.

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
